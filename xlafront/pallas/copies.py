"""Copies between parts of references, also of rows at indices; some rows may be skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import Indexer, Operand, Window, selected_shape


def copy_views(source: Any, target: Any, add: bool) -> None:
    """Copy from one view to another, or add to it. Rows whose index is ignored are skipped."""
    value = ref_operations.get(source)
    if is_filtered(source) or is_filtered(target):
        _copy_rows(source, target, value, add)
    else:
        (ref_operations.addupdate if add else ref_operations.set)(target, ..., value)


def is_filtered(view: Any) -> bool:
    """True if a copy of a view skips rows, whose index is an ignored value."""
    return any([type(e) is Operand and e.ignored is not None for indexer in view.indexers for e in indexer])


def row_indices(indexers: Sequence[Indexer], shapes: Sequence[tuple[int, ...]]) -> Operand | None:
    """Return the vector of indices by which a view selects rows: the first entry of its last indexer; None if there is none.

    Args:
        indexers: The indexers of the view.
        shapes: Shapes of their operands.
    """
    entries = indexers[-1] if indexers else ()
    if not entries or type(entries[0]) is not Operand or len(shapes[entries[0].number]) != 1:
        return None
    return entries[0]


def with_all_rows(shape: tuple[int, ...], indexers: Sequence[Indexer], shapes: Sequence[tuple[int, ...]]
                  ) -> tuple[Indexer, ...]:
    """Return the indexers of a view that selects rows by indices, with all rows of the same columns instead.

    Args:
        shape: Shape of the reference.
        indexers: The indexers of the view.
        shapes: Shapes of their operands.
    """
    rows = selected_shape(shape, indexers[:-1], shapes)[0] if indexers[:-1] else shape[0]
    return (*indexers[:-1], (Window(0, rows), *indexers[-1][1:]))


def _copy_rows(source: Any, target: Any, value: Any, add: bool) -> None:
    """Copy the rows that are not ignored."""
    view = source if is_filtered(source) else target
    shapes = list(map(np.shape, view.operands))
    entry = row_indices(view.indexers, shapes)
    if entry is None or entry.ignored is None or is_filtered(source) and is_filtered(target):
        raise NotImplementedError("a copy with Indices and an ignored_value takes them as the first index of one of its "
                                  "references, before slices of the other dimensions: ref.at[Indices(...), 0:128]. Slice rows "
                                  "before: ref.at[0:8].at[Indices(...)].")
    indices = view.operands[entry.number]
    mask = indices != entry.ignored
    if view is source:
        before = ref_operations.get(target)
        new = before + value if add else value
        ref_operations.set(target, ..., xnp.where(mask.reshape(-1, *[1] * (value.ndim - 1)), new, before))
        return
    base = ref_operations.RefView(target.ref, with_all_rows(np.shape(target.ref), view.indexers, shapes), view.operands)
    before = ref_operations.get(base)
    rows = before.at[xnp.where(mask, indices, np.int32(before.shape[0]))]  # beyond the end, where updates are dropped
    ref_operations.set(base, ..., rows.add(value, mode="drop") if add else rows.set(value, mode="drop"))
