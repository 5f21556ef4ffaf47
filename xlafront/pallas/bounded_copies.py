"""Asynchronous copies of a number of positions that is known at run time: the blocks at the edges of arrays in pipelines.

Both references have the shape of the largest copy. From it, `sizes` positions are copied along some dimensions; the reference
in main memory may end before the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import tracing
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import Operand, Window, selected_shape
from xlafront.pallas.kernel_operation import flatten_views, kernel_operation, view_effects, views_of


def _inside(view: Any, dims: Sequence[int]) -> tuple[Any, dict[int, Any]]:
    """Return the view with its windows moved into the reference, and by dimension how far they were beyond its end."""
    *outer, indexer = view.indexers
    shape = selected_shape(tracing.aval_of(view.ref).shape, outer, list(map(np.shape, view.operands)))
    entries, operands, shifts = list(indexer), list(view.operands), {}
    seen = [d for d, e in enumerate(indexer) if type(e) is Window]
    for d in dims:
        entry = entries[seen[d]]
        limit = np.int32(shape[seen[d]] - entry.size)
        start = operands[entry.start.number] if type(entry.start) is Operand else np.int32(entry.start)
        inner = xnp.minimum(start, limit)
        shifts[d] = start - inner
        entries[seen[d]] = entry._replace(start=Operand(len(operands)))
        operands.append(inner)
    return ref_operations.RefView(view.ref, (*outer, tuple(entries)), tuple(operands)), shifts


def _start(*operands, views, dims):
    [source, target, semaphore], sizes = views_of(operands, views)
    (source, source_shifts), (target, target_shifts) = _inside(source, dims), _inside(target, dims)
    value, old, copied = ref_operations.get(source), ref_operations.get(target), np.True_
    for d, size in zip(dims, sizes):
        value = xnp.roll(value, target_shifts[d] - source_shifts[d], d)
        positions = xnp.arange(old.shape[d], dtype=np.int32) - target_shifts[d]
        within = (positions >= 0) & (positions < size) & (positions < old.shape[d] - source_shifts[d])
        copied = copied & xnp.expand_dims(within, [i for i in range(old.ndim) if i != d])
    ref_operations.set(target, ..., xnp.where(copied, value, old))
    ref_operations.addupdate(semaphore, ..., np.int32(1))


def _wait(*operands, views, dims):
    [_, _, semaphore], _ = views_of(operands, views)
    ref_operations.addupdate(semaphore, ..., np.int32(-1))


bounded_dma_start_p = kernel_operation("bounded_dma_start", _start, effects=view_effects("rww"))
bounded_dma_wait_p = kernel_operation("bounded_dma_wait", _wait, effects=view_effects("rrw"))


class BoundedCopy:
    """A copy of a part of a reference. Other names are as for `AsyncCopyDescriptor`.

    Args:
        source, target: Views of one shape, with a window for each dimension.
        semaphore: Semaphore that is signaled when the copy is complete.
        sizes: Numbers of positions to copy, by dimension.
    """

    def __init__(self, source: Any, target: Any, semaphore: Any, sizes: Mapping[int, Any]) -> None:
        self._operands, views = flatten_views([source, target, semaphore])
        self._operands += sizes.values()
        self._params = {"views": views, "dims": tuple(sizes)}

    def start(self) -> None:
        """Start the copy."""
        bounded_dma_start_p.bind(*self._operands, **self._params)

    def wait(self) -> None:
        """Wait until the copy is complete."""
        bounded_dma_wait_p.bind(*self._operands, **self._params)
