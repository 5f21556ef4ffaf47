"""Reads and writes of arrays at rows of indices, without batch dimensions.

A row of `indices` is a position. A row that is out of bounds in any dimension is padding: reads return zero, and writes are
dropped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core import dtypes
from xlafront.core.typing import Array
from xlafront.symbolic.dimensions import is_symbolic


def padding_row(shape: Sequence[int], dtype) -> Any:
    """Return the index row that marks padding in an array of this shape: the size of each dimension."""
    return xnp.array(tuple(shape), dtype) if is_symbolic(shape) else np.array(tuple(shape), dtype)


def add_at(shape: Sequence[int], indices: Array, values: Array, mode: str = "drop") -> Array:
    """Add `values` to an array of zeros at the positions `indices` of the leading dimensions.

    Padding is dropped, or clipped with mode "clip", in which case its values must be zero.
    """
    count = indices.shape[-1]
    if values.dtype == bool:
        return add_at(shape, indices, values.astype(np.int32), mode).astype(bool)
    if count == 0:
        return values.sum(0, dtype=values.dtype)
    if math.prod(shape) == 0 or indices.shape[0] == 0:
        return xnp.zeros(shape, values.dtype)
    dimension_numbers = lax.ScatterDimensionNumbers(tuple(range(1, values.ndim)), tuple(range(count)), tuple(range(count)))
    return lax.scatter_add(xnp.zeros(shape, values.dtype), indices, values, dimension_numbers, mode=mode)


def take_at(array: Array, indices: Array, mode: str = "fill") -> Array:
    """Return the elements of `array` at these positions of its leading dimensions.

    Padding reads as zero, or as an arbitrary element with mode "clip".
    """
    count = indices.shape[-1]
    trailing = array.shape[count:]
    if count == 0:
        return xnp.broadcast_to(array, (indices.shape[0], *trailing))
    if array.size == 0 or indices.shape[0] == 0:
        return xnp.zeros((indices.shape[0], *trailing), array.dtype)
    dimension_numbers = lax.GatherDimensionNumbers(tuple(range(1, 1 + len(trailing))), tuple(range(count)), tuple(range(count)))
    return lax.gather(array, indices, dimension_numbers, (*[1] * count, *trailing), mode=mode,
                      fill_value=0 if mode == "fill" else None)


def prefers_dense_product(count: int, shape: Sequence[int], dtype: Any, max_ratio: int) -> bool:
    """True if at least one in `max_ratio` elements of a floating array is stored.

    A dense matrix product, which computes all elements, is then faster than reading and adding rows for each stored element.
    """
    return dtypes.is_inexact(dtype) and not is_symbolic(shape) and math.prod(shape) <= max_ratio * count


def columns_of(indices: Array) -> list[Array]:
    """Return the indices of each dimension separately: XLA is slow along short rows."""
    return [indices[..., d] for d in range(indices.shape[-1])]


def in_bounds(indices: Array, shape: Sequence[int]) -> Array:
    """Return the mask of rows that are positions in an array of this shape, not padding."""
    if is_symbolic(shape):
        return between(columns_of(indices), [0] * len(shape), shape, indices.shape[:-1])
    maximum = np.iinfo(indices.dtype).max
    masks = [column <= column.dtype.type(min(size - 1, maximum)) if size else xnp.zeros(column.shape, bool)
             for column, size in zip(map(_unsigned, columns_of(indices)), shape)]
    return functools.reduce(lambda a, b: a & b, masks) if masks else xnp.ones(indices.shape[:-1], bool)


def _unsigned(indices: Array) -> Array:
    """Return indices as unsigned integers, where negative ones exceed all sizes: one comparison replaces two."""
    dtype = indices.dtype
    return indices if dtype.kind == "u" else lax.bitcast_convert_type(indices, np.dtype(f"uint{dtype.itemsize * 8}"))


def clamp_to_padding(indices: Array, size: int) -> Array:
    """Replace negative indices and those beyond `size` by `size`."""
    clamped = xnp.minimum(_unsigned(indices), min(size, np.iinfo(indices.dtype).max))
    return lax.bitcast_convert_type(clamped, indices.dtype)


def between(columns: Sequence[Array], begin: Sequence[Any], end: Sequence[Any], shape: Sequence[int]) -> Array:
    """Return the mask of rows, given as columns of this shape, that lie between bounds in all dimensions."""
    masks = [(column >= first) & (column < last) for column, first, last in zip(columns, begin, end)]
    return functools.reduce(lambda a, b: a & b, masks) if masks else xnp.ones(shape, bool)


def rows_where(mask: Array, columns: Sequence[Array], shape: Sequence[int], dtype: Any) -> Array:
    """Return rows of indices from their columns, with padding where the mask is False."""
    if not columns:
        return xnp.zeros((*mask.shape, 0), dtype)
    fill = padding_row(shape, dtype)
    return xnp.stack([xnp.where(mask, column.astype(dtype), fill[d]) for d, column in enumerate(columns)], -1)


def keep_where(mask: Array, data: Array, columns: Sequence[Array], shape: Sequence[int], dtype: Any) -> tuple[Array, Array]:
    """Return values and positions, zero and padding where the mask is False."""
    mask = lax.optimization_barrier(mask)  # Compute it once, not for the values and each column.
    return zero_unless(mask, data), rows_where(mask, columns, shape, dtype)


def zero_unless(mask: Array, data: Array) -> Array:
    return xnp.where(mask.reshape(mask.shape + (1,) * (data.ndim - mask.ndim)), data, xnp.zeros((), data.dtype))


def permute_rows(x: Array, order: Array) -> Array:
    """Return the rows in another order."""
    return x.at[order].get(mode="promise_in_bounds", unique_indices=True)


def _sort_keys(indices: Array, shape: Sequence[int]) -> list[Array]:
    """Return the columns to sort by: a single one if the positions of the array can be enumerated, which is much faster."""
    columns = columns_of(indices)
    if len(columns) < 2 or is_symbolic(shape):
        return columns
    dtype = indices.dtype if indices.dtype.itemsize == 8 else np.dtype(np.int32)
    if math.prod(n + 2 for n in shape) > np.iinfo(dtype).max:
        return columns
    key = xnp.zeros(indices.shape[:-1], dtype)
    for column, n in zip(columns, shape):  # Out-of-bounds indices map to -1 and n.
        key = key * (n + 2) + (xnp.clip(column.astype(dtype), -1, n) + 1)
    return [key]


def _argsort(indices: Array, shape: Sequence[int]) -> tuple[list[Array], Array]:
    """Return the sorted keys and the order of rows."""
    row_numbers = xnp.arange(indices.shape[0], dtype=np.int32)
    keys = _sort_keys(indices, shape)
    if not keys or indices.shape[0] == 0:
        return keys, row_numbers
    *keys, order = lax.sort([*keys, row_numbers], num_keys=len(keys))
    return keys, order


def sort_rows(data: Array, indices: Array, shape: Sequence[int]) -> tuple[Array, Array]:
    """Sort values and positions by position."""
    _, order = _argsort(indices, shape)
    return permute_rows(data, order), permute_rows(indices, order)


def _group(indices: Array, shape: Sequence[int]) -> tuple[Array, Array, Array]:
    """Group equal positions.

    Returns the rows with padding normalized, their order, and the mask of rows that begin a group in that order.
    """
    nse = indices.shape[0]
    rows = rows_where(in_bounds(indices, shape), columns_of(indices), shape, indices.dtype)
    keys, order = _argsort(rows, shape)
    changes = [key[1:] != key[:-1] for key in keys]
    changed = functools.reduce(lambda a, b: a | b, changes) if changes else xnp.zeros(max(nse - 1, 0), bool)
    return rows, order, xnp.concatenate([xnp.ones(min(nse, 1), bool), changed])


def count_groups(indices: Array, shape: Sequence[int]) -> Array:
    """Count the distinct positions, padding excluded."""
    if not indices.shape[-1]:
        return xnp.asarray(min(indices.shape[0], 1), np.int32)
    rows, order, starts = _group(indices, shape)
    return xnp.sum(starts & permute_rows(in_bounds(rows, shape), order), dtype=np.int32)


def sum_groups(data: Array, indices: Array, shape: Sequence[int], nse: int) -> tuple[Array, Array]:
    """Sum the values of equal positions. The result has `nse` sorted, unique positions; padding is one position, the last."""
    count = indices.shape[-1]
    if count == 0:
        total = data.sum(0, keepdims=True, dtype=data.dtype)
        return xnp.concatenate([total[:nse], xnp.zeros((max(nse - 1, 0), *data.shape[1:]), data.dtype)]), \
            xnp.zeros((nse, 0), indices.dtype)
    if not nse or indices.shape[0] == 0:
        return xnp.zeros((nse, *data.shape[1:]), data.dtype), xnp.broadcast_to(padding_row(shape, indices.dtype), (nse, count))
    rows, order, starts = _group(indices, shape)
    number = xnp.cumsum(starts.astype(np.int32)) - 1
    sums = add_at((nse, *data.shape[1:]), number[:, None], permute_rows(data, order))
    sentinel = indices.shape[0]
    first = xnp.full(nse, sentinel, np.int32).at[number].set(order, mode="drop")
    is_used = first < sentinel
    rows = permute_rows(rows, xnp.minimum(first, sentinel - 1))
    return sums, rows_where(is_used, columns_of(rows), shape, indices.dtype)
