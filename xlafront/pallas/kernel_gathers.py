"""Gathers and scatters in compiled kernels, by an operation that takes elements along one axis.

Compilers have a rule for `gather_elements`, which is `take_along_axis` with indices in bounds. `gather` and the scatters are
expanded to it, and to comparisons of positions with indices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.lax.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xlafront.lax.indexing import fill_for
from xlafront.pallas.kernel_operation import kernel_operation

gather_elements_p = kernel_operation(
    "gather_elements", lambda x, indices, *, axis: xnp.take_along_axis(x, indices, axis, mode="promise_in_bounds"),
    abstract=lambda x, indices, *, axis: x.update(shape=indices.shape))


def take_elements(x: Any, indices: Any, axis: int) -> Any:
    """Take elements along an axis at indices in bounds, whose other dimensions have the size 1 or that of `x`."""
    shape = tuple([np.shape(indices)[axis] if d == axis else n for d, n in enumerate(np.shape(x))])
    return gather_elements_p.bind(x, xnp.broadcast_to(indices, shape).astype(np.int32), axis=axis)


def _split_indices(indices: Any, limits: list[int]) -> tuple[list[Any], Any]:
    """Return the clamped indices of each dimension, and where all of them were in bounds."""
    found, inside = [], None
    for k, last in enumerate(limits):
        one = lax.squeeze(lax.slice_in_dim(indices, k, k + 1, axis=indices.ndim - 1), (indices.ndim - 1,))
        clamped = xnp.clip(one, 0, min(last, np.iinfo(one.dtype).max))
        is_inside = one == clamped
        inside = is_inside if inside is None else inside & is_inside
        found.append(clamped.astype(np.int32))
    return found, inside


def _transposed(x: Any, order: list[int]) -> Any:
    return x if order == sorted(order) else lax.transpose(x, order)


def gather(x: Any, indices: Any, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...],
           mode: GatherScatterMode, fill_value: Any, **_: Any) -> Any:
    """Gather elements or slices that are complete in all dimensions but the indexed ones, which have the size 1."""
    dn, rank = dimension_numbers, x.ndim
    indexed, batching = list(dn.start_index_map), list(dn.operand_batching_dims)
    if any([slice_sizes[d] != (1 if d in indexed or d in batching else x.shape[d]) for d in range(rank)]):
        raise NotImplementedError(f"gather of windows of shape {tuple(slice_sizes)} out of {x.shape} is not possible in "
                                  f"compiled kernels. Index one dimension with an array, or slice with lax.dynamic_slice.")
    if not indexed:
        return x
    columns, inside = _split_indices(indices, [x.shape[d] - 1 for d in indexed])
    batch_rank = indices.ndim - 1
    shared = list(dn.start_indices_batching_dims)
    others = [d for d in range(batch_rank) if d not in shared]
    sizes = [columns[0].shape[d] for d in others]
    count, axis = math.prod(sizes), indexed[0]
    # The first indexed dimension gets the positions of the indices, the others and batching dimensions go along with it.
    index_dims = [*batching, axis]
    found = x
    for d, index in zip(indexed, columns):
        index = _transposed(index, [*shared, *others]).reshape(*[x.shape[b] for b in batching], count)
        index = _transposed(index, sorted(range(len(index_dims)), key=lambda i: index_dims[i]))
        index = index.reshape([found.shape[b] if b in batching else count if b == axis else 1 for b in range(rank)])
        found = take_elements(found, index, d)
    found = lax.squeeze(found, [d for d in indexed[1:]])
    remaining = [d for d in range(rank) if d not in indexed[1:]]
    # From the dimensions of `x` to those of the result: batch dimensions in the order of the indices, then offset dimensions
    split: list[Any] = []
    shape: list[int] = []
    for d in remaining:
        if d == axis:
            split += [("batch", b) for b in others]
            shape += sizes
        else:
            split.append(("batch", shared[batching.index(d)]) if d in batching else ("offset", d))
            shape.append(x.shape[d])
    found = found.reshape(shape)
    batch_order = iter([split.index(("batch", b)) for b in range(batch_rank)])
    free = [d for d in range(rank) if d not in indexed and d not in batching]
    ones = [d for d in indexed if d not in dn.collapsed_slice_dims]
    offsets = iter(sorted([*free, *ones]))
    order: list[int] = []
    out_shape: list[int] = []
    for i in range(batch_rank + len(free) + len(ones)):
        d = next(offsets) if i in dn.offset_dims else None
        if d in ones and d is not None:
            out_shape.append(1)
            continue
        order.append(next(batch_order) if d is None else split.index(("offset", d)))
        out_shape.append(shape[order[-1]])
    found = _transposed(found, order).reshape(out_shape)
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return found
    batch = [i for i in range(len(out_shape)) if i not in dn.offset_dims]
    return xnp.where(lax.broadcast_in_dim(inside, out_shape, batch), found, fill_for(x.dtype, fill_value))


# Scatters

_UNROLLED_UPDATES = 128  # more are a loop over chunks of as many
_COMBINE = {"scatter": lambda x, new: new, "scatter-add": lax.add, "scatter-sub": lax.sub, "scatter-mul": lax.mul,
            "scatter-min": lax.min, "scatter-max": lax.max}


def _chunks(x: Any, repeated: int | None) -> list[Any]:
    """Return chunks of rows. The last one may begin with rows of the one before, which a number replaces, if one is given."""
    found, size = [], _UNROLLED_UPDATES
    for start in range(0, len(x), size):
        first = min(start, len(x) - size)
        part = lax.slice_in_dim(x, first, first + size)
        if first < start and repeated is not None:
            is_new = lax.broadcasted_iota(np.int32, part.shape, 0) >= start - first
            part = xnp.where(is_new, part, xnp.full_like(part, repeated))
        found.append(part)
    return found


def _selected(chunks: list[Any], number: Any) -> Any:
    """Return the part with a number that is known at run time."""
    found = chunks[0]
    for k, part in enumerate(chunks[1:], 1):
        found = xnp.where(number == k, part, found)
    return found


def _scatter(name: str) -> Any:
    combine = _COMBINE[name]

    def compute(x: Any, indices: Any, updates: Any, *, dimension_numbers: ScatterDimensionNumbers, mode: GatherScatterMode,
                **_: Any) -> Any:
        """Select each update where its index is."""
        dn = dimension_numbers
        starts = list(dn.scatter_dims_to_operand_dims)
        window = [d for d in range(x.ndim) if d not in dn.inserted_window_dims]
        sizes = {**dict.fromkeys(range(x.ndim), 1), **dict(zip(window, [updates.shape[d] for d in dn.update_window_dims]))}
        indexed = [d for d in starts if sizes[d] == 1]  # others are complete, and start at zero
        if dn.operand_batching_dims or not indexed or any([
                sizes[d] != x.shape[d] for d in range(x.ndim) if d not in indexed]):
            raise NotImplementedError(f"{name} of windows of shape {tuple([sizes[d] for d in window])} into {x.shape} is not "
                                      f"possible in compiled kernels. Index some dimensions with arrays, and take all of the "
                                      f"others.")
        batch = [d for d in range(updates.ndim) if d not in dn.update_window_dims]
        count = math.prod([updates.shape[d] for d in batch])
        columns, inside = _split_indices(indices, [x.shape[d] - sizes[d] for d in starts])
        targets = [(part if mode is GatherScatterMode.CLIP else xnp.where(inside, part, -1)).reshape(
            count, *[1] * x.ndim) for d, part in zip(starts, columns) if d in indexed]
        free = [d for d in window if d not in indexed]
        order = [*batch, *[w for w, d in zip(dn.update_window_dims, window) if d in indexed],
                 *[w for w, d in zip(dn.update_window_dims, window) if d in free]]
        rows = _transposed(updates, order).reshape(count, *[x.shape[d] if d in free else 1 for d in range(x.ndim)])
        positions = [lax.broadcasted_iota(np.int32, x.shape, d) for d in indexed]

        def update(x: Any, targets: list[Any], rows: Any) -> Any:
            for k in range(len(rows)):
                is_here = None
                for one, position in zip(targets, positions):
                    matches = position == lax.index_in_dim(one, k, 0, keepdims=False)
                    is_here = matches if is_here is None else is_here & matches
                row = xnp.broadcast_to(lax.index_in_dim(rows, k, 0, keepdims=False), x.shape)
                x = xnp.where(is_here, combine(x, row), x)
            return x

        if count <= _UNROLLED_UPDATES:
            return update(x, targets, rows)
        chunks = [*[_chunks(one, -1) for one in targets], _chunks(rows, None)]
        return lax.fori_loop(0, len(chunks[0]), lambda c, x: update(
            x, [_selected(one, c) for one in chunks[:-1]], _selected(chunks[-1], c)), x)

    return compute


EXPANSIONS = {"gather": gather, **{name: _scatter(name) for name in _COMBINE}}
