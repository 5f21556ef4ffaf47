"""Insertion, removal and replacement of elements: `insert`, `delete`, `resize`, `trim_zeros`, `put` and others.

NumPy's `put`, `place`, `put_along_axis` and `fill_diagonal` modify their argument; here they return a new array, which
callers acknowledge by `inplace=False`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import move_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import as_type, convert_element_type_p
from xlafront.lax.shapes import canonical_axis, reshape_to, static_shape
from xlafront.lax.slicing import slice_in_dim
from xlafront.numpy.creation import arange, asarray, full, zeros, zeros_like
from xlafront.numpy.indexing import take
from xlafront.numpy.manipulation import broadcast_to, concatenate, ravel
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.reductions import cumsum, static_axes
from xlafront.numpy.searching import where
from xlafront.numpy.sorting import argsort
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.numpy.updates import joint_dtype
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim, max_dim


def _flat_or_axis(name: str, arr, axis):
    """Return the array and the canonical axis; without an axis, the flattened array and 0."""
    arr = unwrap(arr)
    if axis is None:
        return ravel(arr), 0
    return asarray(arr), canonical_axis(axis, np.ndim(arr), f"numpy.{name}")


def _concrete(name: str, x, argument: str) -> np.ndarray:
    """Return the concrete value of an argument that determines shapes."""
    value = x._concrete() if isinstance(x, tracing.Tracer) else x
    if value is None:
        raise errors.decides_shape(f"numpy.{name}", argument, x)
    return np.asarray(value)


@library(static=("axis", "is_scalar_index"), name="insert")
def _insert_kernel(arr, positions, values, axis, is_scalar_index):
    n, count = arr.shape[axis], positions.shape[0]
    positions = where(positions < 0, positions + n, positions)
    positions = PUBLIC["maximum"](PUBLIC["minimum"](positions, n), 0)
    order = argsort(positions)
    # Each inserted element shifts those inserted at the same or later positions.
    targets = zeros((count,), positions.dtype).at[order].set(positions[order] + arange(count, dtype=positions.dtype))
    values = as_type(values, arr.dtype, False)
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1:])
    if is_scalar_index and np.ndim(values):  # for a scalar index, the inserted axis of the values comes first
        values = move_dim(reshape_to(values, (1,) * (arr.ndim - np.ndim(values)) + np.shape(values)), 0, axis)
    values = broadcast_to(values, shape)
    new = full((n + count,), True).at[targets].set(False)
    index = (slice(None),) * axis
    source = PUBLIC["maximum"](cumsum(new, dtype=np.int32) - 1, 0)
    expanded = (take(arr, source, axis, mode="clip") if n else
                zeros((*arr.shape[:axis], count, *arr.shape[axis + 1:]), arr.dtype))
    return expanded.at[(*index, targets)].set(values, unique_indices=True)


def insert(arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None) -> Array:
    """Insert values along an axis.

    Args:
        arr: The array.
        obj: Positions before which to insert: an integer, integers or a slice. Those out of bounds are clamped.
        values: The values, which are broadcast and converted to the dtype of the array.
        axis: Axis to insert along. Default: insert into the flattened array.

    Returns:
        The array with the values inserted.

    Example:
        >>> xnp.insert(xnp.array([1, 2, 3]), 1, 9)
        Array([1, 9, 2, 3], dtype=int32)
    """
    check_arraylike("insert", arr, values, *[x for x in (obj,) if not isinstance(x, slice)])
    arr, axis = _flat_or_axis("insert", arr, axis)
    positions = arange(*obj.indices(arr.shape[axis])) if isinstance(obj, slice) else asarray(obj)
    if positions.size and not dtypes.is_integer(positions.dtype):  # an empty array may have any dtype
        raise ValueError(f"numpy.insert: the index array must be integer typed, got {positions.dtype}.")
    positions = positions.astype(dtypes.default_dtype(int))  # small integers may have no room for the size of the result
    if positions.ndim > 1:
        raise ValueError(f"numpy.insert takes a position or a vector of them, got shape {positions.shape}.")
    values, is_scalar_index = asarray(values), not positions.ndim
    if positions.size == 1:  # several values may be inserted at one position
        lead = np.shape(values)[0:1] if is_scalar_index else np.shape(values)[axis - arr.ndim:][:1]
        several = np.ndim(values) == arr.ndim if is_scalar_index else np.ndim(values) >= arr.ndim - axis
        positions = broadcast_to(ravel(positions), lead if several else (1,))
    return _insert_kernel(arr, positions, values, axis, is_scalar_index)


@library(static=None)
def delete(arr: ArrayLike, obj: ArrayLike | slice, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """Delete elements or slices along an axis.

    Args:
        arr: The array.
        obj: What to delete: an integer, integers, a slice or a mask. It determines the shape of the result, so it must
            be concrete.
        axis: Axis to delete along. Default: delete from the flattened array.
        assume_unique_indices: If True, assume that no position is repeated; `obj` may then be a traced array of
            integers.

    Returns:
        The array without these elements.

    Example:
        >>> xnp.delete(xnp.array([1, 2, 3]), 1)
        Array([1, 3], dtype=int32)
    """
    check_arraylike("delete", arr, *[x for x in (obj,) if not isinstance(x, slice)])
    arr, axis = _flat_or_axis("delete", arr, axis)
    n = arr.shape[axis]
    if not isinstance(obj, slice):
        d = dtypes.operand_type(unwrap(obj))[0]
        if not dtypes.is_integer(d) and d != dtypes.bool_:
            raise ValueError(
                f"numpy.delete needs obj to be integers, a slice or a mask; its dtype {d} must be integer or bool.")
        if assume_unique_indices and dtypes.is_integer(d):
            return _delete_unique(arr, ravel(obj), axis)
        positions = _concrete("delete", obj, "obj")
        if positions.dtype != bool:
            if not positions.ndim:
                if not is_symbolic_dim(n):
                    canonical_axis(int(positions), n, "numpy.delete")
            elif not is_symbolic_dim(n) and positions.size and (positions.min() < -n or positions.max() >= n):
                raise IndexError(f"numpy.delete got an index out of bounds for axis {axis} with size {n}: {positions}.")
        elif positions.shape != (n,):
            raise ValueError(f"a mask for numpy.delete must have an element for each of the {n} along axis {axis}, got shape "
                             f"{positions.shape}.")
    if is_symbolic_dim(n) and not isinstance(obj, slice) and positions.dtype != bool:
        return _delete_unique(arr, np.unique(positions), axis)
    keep = np.ones(n, bool)
    keep[obj if isinstance(obj, slice) else positions] = False
    result: Any = take(arr, np.flatnonzero(keep).astype(np.int32), axis, mode="clip") if n else arr
    return result


@library(static="axis", name="delete")
def _delete_unique(arr, obj, axis):
    n = arr.shape[axis]
    deleted = zeros((n,), np.int32).at[obj].set(1)
    order = argsort(deleted)  # a stable sort: the remaining elements come first, in order
    return take(arr, order[:max_dim(n - obj.shape[0], 0)], axis, mode="clip")


@library(static="new_shape")
@accepts(objects=True)
def resize(a: ArrayLike, new_shape: int | Sequence[int]) -> Array:
    """Change the shape of an array; elements are repeated in order or dropped to fill it.

    Args:
        a: The array.
        new_shape: Shape of the result.

    Returns:
        The resized array; zeros if `a` is empty.

    Example:
        >>> xnp.resize(xnp.array([1, 2, 3]), (2, 2))
        Array([[1, 2],
               [3, 1]], dtype=int32)
    """
    check_arraylike("resize", a)
    shape = static_shape("resize", new_shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"numpy.resize: all elements of `new_shape` must be non-negative, got {shape}.")
    a, size = ravel(a), math.prod(shape)
    if not a.shape[0] or not size:
        return zeros_like(a, shape=shape)
    copies = -(-size // a.shape[0])
    flat = concatenate([a] * copies) if copies > 1 else a
    return reshape_to(slice_in_dim(flat, 0, size), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Remove leading and trailing zeros.

    Args:
        filt: The array. Its values determine the shape of the result, so they must be concrete.
        trim: Ends to trim: "f" for the front, "b" for the back, "fb" for both.
        axis: Axis or axes to trim along, where slices of zeros are removed. Default: all.

    Returns:
        The trimmed array.

    Example:
        >>> xnp.trim_zeros(xnp.array([0, 1, 0, 2, 0]))
        Array([1, 0, 2], dtype=int32)
    """
    check_arraylike("trim_zeros", filt)
    filt, ends = asarray(filt), trim.lower()
    positions = np.argwhere(_concrete("trim_zeros", filt, "filt"))
    key: list = [slice(None)] * filt.ndim
    for i in static_axes(axis, filt.ndim, "trim_zeros"):
        column = positions[:, i]
        if not len(column):
            key[i] = slice(0, 0) if "f" in ends or "b" in ends else slice(None)
        else:
            key[i] = slice(int(column.min()) if "f" in ends else 0, int(column.max()) + 1 if "b" in ends else None)
    return filt[tuple(key)]


# Replacement


def _refuse_inplace(name: str, inplace: bool, error: type[Exception] = ValueError) -> None:
    if inplace:
        raise error(f"numpy.{name} cannot modify arrays in-place, because arrays are immutable. Write y = numpy.{name}(x, ..., "
                    f"inplace=False).")


@library(static="mode", name="put")
def _put_kernel(a, ind, v, mode):
    a, ind, v = unwrap(a), ravel(ind), ravel(v)
    if not ind.size or not v.size:
        return a
    flat = ravel(a)
    ind = as_type(ind, dtypes.default_dtype(int), False)  # with room for the size and its negative
    if mode == "wrap":
        ind = PUBLIC["remainder"](ind, flat.size)
    else:
        ind = PUBLIC["maximum"](PUBLIC["minimum"](ind, flat.size - 1), 0 if mode == "clip" else -flat.size)
    values = as_type(resize.__wrapped__(v, ind.shape), flat.dtype, False)
    return reshape_to(flat.at[ind].set(values, mode="drop"), np.shape(a))


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """Replace elements at positions in the flattened array.

    Args:
        a: The array.
        ind: Integer positions.
        v: The new elements, repeated in order if there are more positions.
        mode: Treatment of positions out of bounds: None clamps them and counts negative ones from the end, "clip"
            clamps them, including negative ones, "wrap" wraps them around.
        inplace: Must be False: arrays are immutable.

    Returns:
        The array with these elements replaced.

    Example:
        >>> xnp.put(xnp.array([1, 2, 3]), xnp.array([0, 2]), 9, inplace=False)
        Array([9, 2, 9], dtype=int32)
    """
    _refuse_inplace("put", inplace)
    check_arraylike("put", a, ind, v)
    if mode == "raise":
        raise NotImplementedError("the mode 'raise' of numpy.put is not supported: values are not known while a function is "
                                  "compiled. Use 'clip', 'wrap' or None.")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"the mode of numpy.put should be one of 'wrap' or 'clip', or None; got {mode!r}.")
    if np.size(ind) and not dtypes.is_integer(dtypes.operand_type(unwrap(ind))[0]):
        raise TypeError(f"numpy.put needs integer indices, got {dtypes.operand_type(unwrap(ind))[0]}.")
    joint_dtype("numpy.put", unwrap(a), unwrap(v))
    return _put_kernel(a, ind, v, mode)


@library(name="place")
def _place_kernel(arr, mask, vals):
    arr, mask, vals = unwrap(arr), ravel(PUBLIC["logical_not"](PUBLIC["logical_not"](mask))), ravel(vals)
    rank = PUBLIC["remainder"](cumsum(mask, dtype=np.int32) - 1, vals.size)
    aval = tracing.aval_of(arr)
    placed = where(mask, as_type(take(vals, rank, mode="clip"), aval.dtype, False), ravel(arr))
    if aval.weak_type:
        placed = convert_element_type_p.bind(placed, new_dtype=aval.dtype, weak_type=True, sharding=None)
    return reshape_to(placed, np.shape(arr))


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Replace the elements where a mask is true, in order.

    Args:
        arr: The array.
        mask: A mask with as many elements as `arr`.
        vals: The new elements, repeated in order if the mask selects more.
        inplace: Must be False: arrays are immutable.

    Returns:
        The array with these elements replaced.

    Example:
        >>> xnp.place(xnp.array([1, 2, 3]), xnp.array([True, False, True]), 9, inplace=False)
        Array([9, 2, 9], dtype=int32)
    """
    _refuse_inplace("place", inplace)
    check_arraylike("place", arr, mask, vals)
    if np.size(arr) != np.size(mask):
        raise ValueError(f"numpy.place: arr and mask must be the same size, got shapes {np.shape(arr)} and {np.shape(mask)}.")
    if not np.size(vals):
        raise ValueError("numpy.place cannot place values from an empty array.")
    joint_dtype("numpy.place", unwrap(arr), unwrap(vals))
    return _place_kernel(arr, mask, vals)


@library(static=("axis", "inplace", "mode"))
@accepts(objects=True)
def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
                   mode: str | None = None) -> Array:
    """Replace elements along an axis at positions given for each vector.

    Args:
        arr: The array.
        indices: Integer positions with as many dimensions as `arr`; in all dimensions but `axis`, size 1 broadcasts.
        values: The new elements, which broadcast to the shape of the indices.
        axis: Axis to replace along. None: replace in the flattened array.
        inplace: Must be False: arrays are immutable.
        mode: Treatment of positions out of bounds, as in `x.at[...].set`: drop them (default) or clamp them ("clip").

    Returns:
        The array with these elements replaced.

    Example:
        >>> xnp.put_along_axis(xnp.zeros((2, 2)), xnp.array([[1], [0]]), 5, axis=1, inplace=False)
        Array([[0., 5.],
               [5., 0.]], dtype=float32)
    """
    _refuse_inplace("put_along_axis", inplace)
    check_arraylike("put_along_axis", arr, indices, values)
    arr, indices = asarray(arr), asarray(indices)
    shape = arr.shape
    if not dtypes.is_integer(indices.dtype):
        raise TypeError(f"numpy.put_along_axis needs integer indices, got {indices.dtype}.")
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim, "numpy.put_along_axis")
    if arr.ndim != indices.ndim:
        raise ValueError(f"numpy.put_along_axis: arr and indices must have the same ndim, got shapes {arr.shape} and "
                         f"{indices.shape}.")
    key = [reshape_to(arange(n, dtype=np.int32), tuple(n if j == i else 1 for j in range(arr.ndim)))
           for i, n in enumerate(arr.shape)]
    key[axis] = indices
    joint_dtype("numpy.put_along_axis", arr, unwrap(values))
    result = arr.at[tuple(key)].set(as_type(unwrap(values), arr.dtype, False), mode=mode)
    return result if result.shape == shape else reshape_to(result, shape)


@library(name="fill_diagonal")
def _fill_diagonal_kernel(a, val):
    n = min(a.shape)
    i = arange(n)
    values = as_type(unwrap(val), a.dtype, False)
    return a.at[(i,) * a.ndim].set(resize.__wrapped__(values, (n,)) if np.ndim(values) else values, unique_indices=True)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """Replace the main diagonal of an array.

    Args:
        a: A matrix, or an array of more dimensions with equal sizes.
        val: The new elements, repeated in order if the diagonal is longer.
        wrap: Not supported; must be False.
        inplace: Must be False: arrays are immutable.

    Returns:
        The array with its diagonal replaced.

    Example:
        >>> xnp.fill_diagonal(xnp.zeros((2, 2)), 5, inplace=False)
        Array([[5., 0.],
               [0., 5.]], dtype=float32)
    """
    _refuse_inplace("fill_diagonal", inplace, NotImplementedError)
    if wrap:
        raise NotImplementedError("wrap=True of numpy.fill_diagonal is not implemented, use wrap=False.")
    check_arraylike("fill_diagonal", a, val)
    a = asarray(a)
    if a.ndim < 2:
        raise ValueError(f"numpy.fill_diagonal: the array must be at least 2-d, got shape {a.shape}.")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError(f"numpy.fill_diagonal: all dimensions of input must be of equal length, got shape {a.shape}.")
    joint_dtype("numpy.fill_diagonal", a, unwrap(val))
    return _fill_diagonal_kernel(a, val)
