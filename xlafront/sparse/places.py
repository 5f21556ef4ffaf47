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
from xlafront.core.dimensions import is_symbolic
from xlafront.core.typing import Array


def padding_row(shape: Sequence[int], dtype) -> Any:
    """The place of padding in an array of this shape: one beyond the last index in every dimension."""
    return xnp.array(tuple(shape), dtype) if is_symbolic(shape) else np.array(tuple(shape), dtype)


def add_at(shape: Sequence[int], indices: Array, values: Array) -> Array:
    """An array of zeros to which `values` are added at the places that `indices` name in the leading dimensions."""
    count = indices.shape[-1]
    if values.dtype == bool:
        return add_at(shape, indices, values.astype(np.int32)).astype(bool)
    if count == 0:
        return values.sum(0, dtype=values.dtype)
    if math.prod(shape) == 0 or indices.shape[0] == 0:
        return xnp.zeros(shape, values.dtype)
    numbers = lax.ScatterDimensionNumbers(tuple(range(1, values.ndim)), tuple(range(count)), tuple(range(count)))
    return lax.scatter_add(xnp.zeros(shape, values.dtype), indices, values, numbers, mode="drop")


def take_at(array: Array, indices: Array) -> Array:
    """The elements of `array` at these places of its leading dimensions, zero at padding."""
    count = indices.shape[-1]
    rest = array.shape[count:]
    if count == 0:
        return xnp.broadcast_to(array, (indices.shape[0], *rest))
    if array.size == 0 or indices.shape[0] == 0:
        return xnp.zeros((indices.shape[0], *rest), array.dtype)
    numbers = lax.GatherDimensionNumbers(tuple(range(1, 1 + len(rest))), tuple(range(count)), tuple(range(count)))
    return lax.gather(array, indices, numbers, (*[1] * count, *rest), mode="fill", fill_value=0)


def in_bounds(indices: Array, shape: Sequence[int]) -> Array:
    """Which rows are places of an array of this shape, and no padding."""
    return between(indices, [0] * len(shape), shape)


def between(indices: Array, begin: Sequence[Any], end: Sequence[Any]) -> Array:
    """Which rows lie between bounds in all dimensions: column by column, as XLA is slow at reducing short rows."""
    columns = [indices[..., d] for d in range(indices.shape[-1])]
    found = [(column >= first) & (column < last) for column, first, last in zip(columns, begin, end)]
    return functools.reduce(lambda a, b: a & b, found) if found else xnp.ones(indices.shape[:-1], bool)


def keep_where(mask: Array, data: Array, indices: Array, shape: Sequence[int]) -> tuple[Array, Array]:
    """Values and places where marked, zero and padding elsewhere."""
    return zero_unless(mask, data), xnp.where(mask[:, None], indices, padding_row(shape, indices.dtype))


def zero_unless(mask: Array, data: Array) -> Array:
    return xnp.where(mask.reshape(mask.shape + (1,) * (data.ndim - mask.ndim)), data, xnp.zeros((), data.dtype))


def sorting_order(indices: Array) -> tuple[Array, Array]:
    """The rows in order, and their numbers in that order."""
    count = indices.shape[-1]
    numbers = xnp.arange(indices.shape[0], dtype=np.int32)
    if count == 0 or indices.shape[0] == 0:
        return indices, numbers
    *columns, order = lax.sort([*[indices[:, i] for i in range(count)], numbers], num_keys=count)
    return xnp.stack(columns, -1), order


def group(indices: Array, shape: Sequence[int]) -> tuple[Array, Array, Array, Array]:
    """Equal places: `(sorted rows, their numbers, the number of the group of each, how many groups)`.

    Padding belongs to no group: its group number is that of all rows.
    """
    nse = indices.shape[0]
    if indices.shape[-1] == 0:
        zeros = xnp.zeros(nse, np.int32)
        return indices, xnp.arange(nse, dtype=np.int32), zeros, xnp.asarray(min(nse, 1), np.int32)
    valid = in_bounds(indices, shape)
    indices = xnp.where(valid[:, None], indices, padding_row(shape, indices.dtype))
    rows, order = sorting_order(indices)
    valid = in_bounds(rows, shape)
    starts = xnp.concatenate([xnp.ones((min(nse, 1),), bool), xnp.any(rows[1:] != rows[:-1], -1)]) & valid
    number = xnp.cumsum(starts, dtype=np.int32) - 1
    return rows, order, xnp.where(valid, number, nse), xnp.sum(starts, dtype=np.int32)


def sum_groups(data: Array, indices: Array, shape: Sequence[int], nse: int) -> tuple[Array, Array]:
    """Values of equal places added up: sorted and unique places, of which there are `nse`."""
    rows, order, number, _ = group(indices, shape)
    count = indices.shape[-1]
    if count == 0:
        total = data.sum(0, keepdims=True, dtype=data.dtype)
        return xnp.concatenate([total[:nse], xnp.zeros((max(nse - 1, 0), *data.shape[1:]), data.dtype)]), \
            xnp.zeros((nse, 0), indices.dtype)
    number = xnp.where(number < nse, number, nse)[:, None]
    found = add_at((nse, *data.shape[1:]), number, data[order])
    places = xnp.broadcast_to(padding_row(shape, indices.dtype), (nse, count))
    if not nse or indices.shape[0] == 0:
        return found, places
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return found, lax.scatter(places, number, rows, numbers, mode="drop")
