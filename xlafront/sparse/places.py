"""Reading and writing arrays at rows of indices, without batch dimensions.

A row of `indices` is a place; one that is out of bounds in any dimension is padding: it reads as zero and is never written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core import dtypes
from xlafront.core.dimensions import is_symbolic
from xlafront.core.typing import Array


def padding_row(shape: Sequence[int], dtype) -> Any:
    """The place of padding in an array of this shape: one beyond the last index in every dimension."""
    return xnp.array(tuple(shape), dtype) if is_symbolic(shape) else np.array(tuple(shape), dtype)


def add_at(shape: Sequence[int], indices: Array, values: Array, mode: str = "drop") -> Array:
    """An array of zeros to which `values` are added at the places that `indices` name in the leading dimensions; those of
    padding nowhere, or with mode "clip" at any: they must be zeros then."""
    count = indices.shape[-1]
    if values.dtype == bool:
        return add_at(shape, indices, values.astype(np.int32), mode).astype(bool)
    if count == 0:
        return values.sum(0, dtype=values.dtype)
    if math.prod(shape) == 0 or indices.shape[0] == 0:
        return xnp.zeros(shape, values.dtype)
    numbers = lax.ScatterDimensionNumbers(tuple(range(1, values.ndim)), tuple(range(count)), tuple(range(count)))
    return lax.scatter_add(xnp.zeros(shape, values.dtype), indices, values, numbers, mode=mode)


def take_at(array: Array, indices: Array, mode: str = "fill") -> Array:
    """The elements of `array` at these places of its leading dimensions; zero at padding, or with mode "clip" any."""
    count = indices.shape[-1]
    rest = array.shape[count:]
    if count == 0:
        return xnp.broadcast_to(array, (indices.shape[0], *rest))
    if array.size == 0 or indices.shape[0] == 0:
        return xnp.zeros((indices.shape[0], *rest), array.dtype)
    numbers = lax.GatherDimensionNumbers(tuple(range(1, 1 + len(rest))), tuple(range(count)), tuple(range(count)))
    return lax.gather(array, indices, numbers, (*[1] * count, *rest), mode=mode,
                      fill_value=0 if mode == "fill" else None)


def are_many(count: int, shape: Sequence[int], dtype: Any, share: int) -> bool:
    """Whether so many of the places of an array are at least one in `share`: products of matrices of floats, which compute all
    of them, are faster then than what reads and adds rows for each."""
    return dtypes.is_inexact(dtype) and not is_symbolic(shape) and math.prod(shape) <= share * count


def columns_of(indices: Array) -> list[Array]:
    """The indices for each dimension: XLA is slow at what goes along short rows."""
    return [indices[..., d] for d in range(indices.shape[-1])]


def in_bounds(indices: Array, shape: Sequence[int]) -> Array:
    """Which rows are places of an array of this shape, and no padding."""
    if is_symbolic(shape):
        return between(columns_of(indices), [0] * len(shape), shape, indices.shape[:-1])
    most = np.iinfo(indices.dtype).max
    found = [column <= column.dtype.type(min(size - 1, most)) if size else xnp.zeros(column.shape, bool)
             for column, size in zip(map(_unsigned, columns_of(indices)), shape)]
    return functools.reduce(lambda a, b: a & b, found) if found else xnp.ones(indices.shape[:-1], bool)


def _unsigned(indices: Array) -> Array:
    """Indices as unsigned numbers, of which negative ones are larger than all sizes: one comparison in place of two."""
    dtype = indices.dtype
    return indices if dtype.kind == "u" else lax.bitcast_convert_type(indices, np.dtype(f"uint{dtype.itemsize * 8}"))


def lowest(indices: Array, size: int) -> Array:
    """Indices, and `size` for those beyond and for negative ones."""
    found = xnp.minimum(_unsigned(indices), min(size, np.iinfo(indices.dtype).max))
    return lax.bitcast_convert_type(found, indices.dtype)


def between(columns: Sequence[Array], begin: Sequence[Any], end: Sequence[Any], shape: Sequence[int]) -> Array:
    """Which rows, given by columns of this shape, lie between bounds in all dimensions."""
    found = [(column >= first) & (column < last) for column, first, last in zip(columns, begin, end)]
    return functools.reduce(lambda a, b: a & b, found) if found else xnp.ones(shape, bool)


def rows_where(mask: Array, columns: Sequence[Array], shape: Sequence[int], dtype: Any) -> Array:
    """Rows of indices in an array of this shape, of their columns: padding where they are not marked."""
    if not columns:
        return xnp.zeros((*mask.shape, 0), dtype)
    fill = padding_row(shape, dtype)
    return xnp.stack([xnp.where(mask, column.astype(dtype), fill[d]) for d, column in enumerate(columns)], -1)


def keep_where(mask: Array, data: Array, columns: Sequence[Array], shape: Sequence[int], dtype: Any) -> tuple[Array, Array]:
    """Values and places where marked, zero and padding elsewhere."""
    mask = lax.optimization_barrier(mask)  # computed once, and not for the values and each column
    return zero_unless(mask, data), rows_where(mask, columns, shape, dtype)


def zero_unless(mask: Array, data: Array) -> Array:
    return xnp.where(mask.reshape(mask.shape + (1,) * (data.ndim - mask.ndim)), data, xnp.zeros((), data.dtype))


def permuted(x: Array, order: Array) -> Array:
    """Rows in another order."""
    return x.at[order].get(mode="promise_in_bounds", unique_indices=True)


def _sort_keys(indices: Array, shape: Sequence[int]) -> list[Array]:
    """Columns in whose order rows are: one, where the places of the array can be counted. Sorting by one is much faster."""
    columns = columns_of(indices)
    if len(columns) < 2 or is_symbolic(shape):
        return columns
    dtype = indices.dtype if indices.dtype.itemsize == 8 else np.dtype(np.int32)
    if math.prod(n + 2 for n in shape) > np.iinfo(dtype).max:
        return columns
    key = xnp.zeros(indices.shape[:-1], dtype)
    for column, n in zip(columns, shape):  # one before the first index, and one after the last
        key = key * (n + 2) + (xnp.clip(column.astype(dtype), -1, n) + 1)
    return [key]


def _sorted(indices: Array, shape: Sequence[int]) -> tuple[list[Array], Array]:
    """Keys in order, and the numbers of rows in that order."""
    numbers = xnp.arange(indices.shape[0], dtype=np.int32)
    keys = _sort_keys(indices, shape)
    if not keys or indices.shape[0] == 0:
        return keys, numbers
    *keys, order = lax.sort([*keys, numbers], num_keys=len(keys))
    return keys, order


def sort_rows(data: Array, indices: Array, shape: Sequence[int]) -> tuple[Array, Array]:
    """Values and places in the order of places."""
    _, order = _sorted(indices, shape)
    return permuted(data, order), permuted(indices, order)


def _group(indices: Array, shape: Sequence[int]) -> tuple[Array, Array, Array]:
    """Equal places: `(rows with one padding for all, their order, whether in that order a row is the first of its kind)`."""
    nse = indices.shape[0]
    rows = rows_where(in_bounds(indices, shape), columns_of(indices), shape, indices.dtype)
    keys, order = _sorted(rows, shape)
    changes = [key[1:] != key[:-1] for key in keys]
    changed = functools.reduce(lambda a, b: a | b, changes) if changes else xnp.zeros(max(nse - 1, 0), bool)
    return rows, order, xnp.concatenate([xnp.ones(min(nse, 1), bool), changed])


def count_groups(indices: Array, shape: Sequence[int]) -> Array:
    """How many places there are, without padding."""
    if not indices.shape[-1]:
        return xnp.asarray(min(indices.shape[0], 1), np.int32)
    rows, order, starts = _group(indices, shape)
    return xnp.sum(starts & permuted(in_bounds(rows, shape), order), dtype=np.int32)


def sum_groups(data: Array, indices: Array, shape: Sequence[int], nse: int) -> tuple[Array, Array]:
    """Values of equal places added up: sorted and unique places, of which there are `nse`. Padding is one place, the last."""
    count = indices.shape[-1]
    if count == 0:
        total = data.sum(0, keepdims=True, dtype=data.dtype)
        return xnp.concatenate([total[:nse], xnp.zeros((max(nse - 1, 0), *data.shape[1:]), data.dtype)]), \
            xnp.zeros((nse, 0), indices.dtype)
    if not nse or indices.shape[0] == 0:
        return xnp.zeros((nse, *data.shape[1:]), data.dtype), xnp.broadcast_to(padding_row(shape, indices.dtype), (nse, count))
    rows, order, starts = _group(indices, shape)
    number = xnp.cumsum(starts.astype(np.int32)) - 1
    found = add_at((nse, *data.shape[1:]), number[:, None], permuted(data, order))
    none = indices.shape[0]
    first = xnp.full(nse, none, np.int32).at[number].set(order, mode="drop")
    there = first < none
    rows = permuted(rows, xnp.minimum(first, none - 1))
    return found, rows_where(there, columns_of(rows), shape, indices.dtype)
