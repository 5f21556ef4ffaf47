"""Arrays with elements put in, taken out or replaced: `insert`, `delete`, `resize`, `trim_zeros`, `put` and its kin.

NumPy's `put`, `place`, `put_along_axis` and `fill_diagonal` change their argument; here they return a new array, and
`inplace=False` says that this is meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import is_symbolic_dim, max_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import as_type
from xlafront.lax.shapes import canonical_axis, move_dim, reshape_to, static_shape
from xlafront.lax.slicing import slice_in_dim
from xlafront.numpy.creation import arange, asarray, full, zeros
from xlafront.numpy.indexing import take
from xlafront.numpy.manipulation import broadcast_to, concatenate, ravel
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.reductions import cumsum, static_axes
from xlafront.numpy.searching import where
from xlafront.numpy.sorting import argsort
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.numpy.updates import joint_dtype
from xlafront.staging.library import library, written_once


def _along(name: str, arr, axis):
    """The array and the axis that a function works along, all elements where None is given."""
    arr = unwrap(arr)
    if axis is None:
        return ravel(arr), 0
    return asarray(arr), canonical_axis(axis, np.ndim(arr), f"xnp.{name}")


def _known(name: str, x, argument: str) -> np.ndarray:
    """Values that decide shapes."""
    value = x._concrete() if isinstance(x, tracing.Tracer) else x
    if value is None:
        raise errors.decides_shape(f"xnp.{name}", argument, x)
    return np.asarray(value)


@library(static=("axis", "whole"), name="insert")
def _insert(arr, places, values, axis, whole):
    n, count = arr.shape[axis], places.shape[0]
    places = where(places < 0, places + n, places)
    places = PUBLIC["maximum"](PUBLIC["minimum"](places, n), 0)
    order = argsort(places)
    # An element that goes in before another of the same or a later place moves that one on.
    targets = zeros((count,), places.dtype).at[order].set(places[order] + arange(count, dtype=places.dtype))
    values = as_type(values, arr.dtype, False)
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1:])
    if whole and np.ndim(values):  # one place: the values have the axis that is inserted in front
        values = move_dim(reshape_to(values, (1,) * (arr.ndim - np.ndim(values)) + np.shape(values)), 0, axis)
    values = broadcast_to(values, shape)
    new = full((n + count,), True).at[targets].set(False)
    index = (slice(None),) * axis
    source = PUBLIC["maximum"](cumsum(new, dtype=np.int32) - 1, 0)
    spread = take(arr, source, axis, mode="clip") if n else zeros((*arr.shape[:axis], count, *arr.shape[axis + 1:]), arr.dtype)
    return spread.at[(*index, targets)].set(values, unique_indices=True)


def insert(arr: ArrayLike, obj: ArrayLike | slice, values: ArrayLike, axis: int | None = None) -> Array:
    """The array with values put in.

    - `arr`: the array.
    - `obj`: before which position, an integer, integers, or a slice of positions. Those outside are moved to the nearest end.
    - `values`: what is put in; it broadcasts, and takes the array's dtype.
    - `axis`: along which axis; the array is flattened without.

    >>> xnp.insert(xnp.array([1, 2, 3]), 1, 9)
    Array([1, 9, 2, 3], dtype=int32)
    """
    check_arraylike("insert", arr, values, *[x for x in (obj,) if not isinstance(x, slice)])
    arr, axis = _along("insert", arr, axis)
    places = arange(*obj.indices(arr.shape[axis])) if isinstance(obj, slice) else asarray(obj)
    if not places.size:  # of any dtype
        places = places.astype(np.int32)
    if not dtypes.is_integer(places.dtype):
        raise ValueError(f"xnp.insert: the index array must be integer typed, got {places.dtype}.")
    if places.ndim > 1:
        raise ValueError(f"xnp.insert takes a position or a vector of them, got shape {places.shape}.")
    values, whole = asarray(values), not places.ndim
    if places.size == 1:  # several values may go to one place
        lead = np.shape(values)[0:1] if whole else np.shape(values)[axis - arr.ndim:][:1]
        several = np.ndim(values) == arr.ndim if whole else np.ndim(values) >= arr.ndim - axis
        places = broadcast_to(ravel(places), lead if several else (1,))
    return _insert(arr, places, values, axis, whole)


@written_once
def delete(arr: ArrayLike, obj: ArrayLike | slice, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """The array without some of its elements or slices.

    - `arr`: the array.
    - `obj`: which, an integer, integers, a slice or a mask. Its values decide the shape of the result, and so must be known.
    - `axis`: along which axis; the array is flattened without.
    - `assume_unique_indices`: promises that no position is there twice; `obj` may then be a traced array of integers.

    >>> xnp.delete(xnp.array([1, 2, 3]), 1)
    Array([1, 3], dtype=int32)
    """
    check_arraylike("delete", arr, *[x for x in (obj,) if not isinstance(x, slice)])
    arr, axis = _along("delete", arr, axis)
    n = arr.shape[axis]
    if not isinstance(obj, slice):
        d = dtypes.operand_type(unwrap(obj))[0]
        if not dtypes.is_integer(d) and d != dtypes.bool_:
            raise ValueError(f"xnp.delete needs integers, a slice or a mask; its dtype {d} must be integer or bool.")
        if assume_unique_indices and dtypes.is_integer(d):
            return _delete_unique(arr, ravel(obj), axis)
        places = _known("delete", obj, "obj")
        if places.dtype != bool:
            if not places.ndim:
                if not is_symbolic_dim(n):
                    canonical_axis(int(places), n, "xnp.delete")
            elif not is_symbolic_dim(n) and places.size and (places.min() < -n or places.max() >= n):
                raise IndexError(f"xnp.delete got an index out of bounds for axis {axis} with size {n}: {places}.")
        elif places.shape != (n,):
            raise ValueError(f"a mask for xnp.delete must have an element for each of the {n} along axis {axis}, got shape "
                             f"{places.shape}.")
    if is_symbolic_dim(n) and not isinstance(obj, slice) and places.dtype != bool:
        return _delete_unique(arr, np.unique(places), axis)
    kept = np.ones(n, bool)
    kept[obj if isinstance(obj, slice) else places] = False
    return take(arr, np.flatnonzero(kept).astype(np.int32), axis, mode="clip") if n else arr


@library(static="axis", name="delete")
def _delete_unique(arr, obj, axis):
    n = arr.shape[axis]
    gone = zeros((n,), np.int32).at[obj].set(1)
    order = argsort(gone)  # is stable: those that stay come first, in order
    return take(arr, order[:max_dim(n - obj.shape[0], 0)], axis, mode="clip")


@library(static="new_shape", converts=True)
def resize(a: ArrayLike, new_shape: int | Sequence[int]) -> Array:
    """The elements in another shape, repeated in order where it has more of them.

    - `a`: the array.
    - `new_shape`: the shape. Of an empty array it is filled with zeros.

    >>> xnp.resize(xnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    check_arraylike("resize", a)
    shape = static_shape("resize", new_shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"xnp.resize: all elements of `new_shape` must be non-negative, got {shape}.")
    a, size = ravel(a), math.prod(shape)
    if not a.shape[0] or not size:
        return zeros(shape, a.dtype)
    copies = -(-size // a.shape[0])
    flat = concatenate([a] * copies) if copies > 1 else a
    return reshape_to(slice_in_dim(flat, 0, size), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """The array without the zeros at its ends. Its values decide the shape, and so must be known.

    - `filt`: the array.
    - `trim`: at which ends, "f" for the front, "b" for the back.
    - `axis`: along which axis or axes, all without; a slice goes where it is all zeros.

    >>> xnp.trim_zeros(xnp.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    check_arraylike("trim_zeros", filt)
    filt, ends = asarray(filt), trim.lower()
    places = np.argwhere(_known("trim_zeros", filt, "filt"))
    key: list = [slice(None)] * filt.ndim
    for i in static_axes(axis, filt.ndim, "trim_zeros"):
        column = places[:, i]
        if not len(column):
            key[i] = slice(0, 0) if "f" in ends or "b" in ends else slice(None)
        else:
            key[i] = slice(int(column.min()) if "f" in ends else 0, int(column.max()) + 1 if "b" in ends else None)
    return filt[tuple(key)]


# Replacing


def _refuse_inplace(name: str, inplace: bool, error: type[Exception] = ValueError) -> None:
    if inplace:
        raise error(f"xnp.{name} cannot modify arrays in-place, because arrays are immutable. Write y = xnp.{name}(x, ..., "
                    f"inplace=False).")


@library(static="mode", name="put")
def _put(a, ind, v, mode):
    a, ind, v = unwrap(a), ravel(ind), ravel(v)
    if not ind.size or not v.size:
        return a
    flat = ravel(a)
    if mode == "wrap":
        ind = PUBLIC["remainder"](ind, flat.size)
    else:
        ind = PUBLIC["maximum"](PUBLIC["minimum"](ind, flat.size - 1), 0 if mode == "clip" else -flat.size)
    values = as_type(resize.__wrapped__(v, ind.shape), flat.dtype, False)
    return reshape_to(flat.at[ind].set(values, mode="drop"), np.shape(a))


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """The array with elements replaced, by their places in the flattened array.

    - `a`: the array.
    - `ind`: the places, integers.
    - `v`: the new elements, repeated in order where there are more places.
    - `mode`: what places outside are: moved to the nearest, where negative ones count from the end (None) or are outside too
      ("clip"), or counted around ("wrap").
    - `inplace`: must be False: the result is a new array.

    >>> xnp.put(xnp.array([1, 2, 3]), xnp.array([0, 2]), 9, inplace=False)
    Array([9, 2, 9], dtype=int32)
    """
    _refuse_inplace("put", inplace)
    check_arraylike("put", a, ind, v)
    if mode == "raise":
        raise NotImplementedError("the mode 'raise' of xnp.put is not supported: values are not known while a program is "
                                  "compiled. Use 'clip', 'wrap' or None.")
    if mode not in (None, "clip", "wrap"):
        raise ValueError(f"the mode of xnp.put should be one of 'wrap' or 'clip', or None; got {mode!r}.")
    if np.size(ind) and not dtypes.is_integer(dtypes.operand_type(unwrap(ind))[0]):
        raise TypeError(f"xnp.put needs integer indices, got {dtypes.operand_type(unwrap(ind))[0]}.")
    joint_dtype("xnp.put", unwrap(a), unwrap(v))
    return _put(a, ind, v, mode)


@library(name="place")
def _place(arr, mask, vals):
    arr, mask, vals = unwrap(arr), ravel(PUBLIC["logical_not"](PUBLIC["logical_not"](mask))), ravel(vals)
    rank = PUBLIC["remainder"](cumsum(mask, dtype=np.int32) - 1, vals.size)
    values = as_type(take(vals, rank, mode="clip"), tracing.aval_of(arr).dtype, False)
    return reshape_to(where(mask, values, ravel(arr)), np.shape(arr))


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """The array with the elements where a mask is true replaced, in order.

    - `arr`: the array.
    - `mask`: an array of as many elements.
    - `vals`: the new elements, repeated in order where the mask has more.
    - `inplace`: must be False: the result is a new array.

    >>> xnp.place(xnp.array([1, 2, 3]), xnp.array([True, False, True]), 9, inplace=False)
    Array([9, 2, 9], dtype=int32)
    """
    _refuse_inplace("place", inplace)
    check_arraylike("place", arr, mask, vals)
    if np.size(arr) != np.size(mask):
        raise ValueError(f"xnp.place: arr and mask must be the same size, got shapes {np.shape(arr)} and {np.shape(mask)}.")
    if not np.size(vals):
        raise ValueError("xnp.place cannot place values from an empty array.")
    joint_dtype("xnp.place", unwrap(arr), unwrap(vals))
    return _place(arr, mask, vals)


@library(static=("axis", "inplace", "mode"), converts=True)
def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *,
                   mode: str | None = None) -> Array:
    """The array with elements replaced in each one-dimensional slice along an axis, at positions of its own.

    - `arr`: the array.
    - `indices`: the positions, in as many dimensions; sizes of 1 broadcast in all but `axis`.
    - `values`: the new elements, which broadcast to the shape of the indices.
    - `axis`: the axis; None replaces in the flattened array.
    - `inplace`: must be False: the result is a new array.
    - `mode`: what positions outside are, as for `x.at[...].set`: dropped, or moved to the nearest ("clip").

    >>> xnp.put_along_axis(xnp.zeros((2, 2)), xnp.array([[1], [0]]), 5, axis=1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    _refuse_inplace("put_along_axis", inplace)
    check_arraylike("put_along_axis", arr, indices, values)
    arr, indices = asarray(arr), asarray(indices)
    shape = arr.shape
    if not dtypes.is_integer(indices.dtype):
        raise TypeError(f"xnp.put_along_axis needs integer indices, got {indices.dtype}.")
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim, "xnp.put_along_axis")
    if arr.ndim != indices.ndim:
        raise ValueError(f"xnp.put_along_axis: arr and indices must have the same ndim, got shapes {arr.shape} and "
                         f"{indices.shape}.")
    key = [reshape_to(arange(n, dtype=np.int32), tuple(n if j == i else 1 for j in range(arr.ndim)))
           for i, n in enumerate(arr.shape)]
    key[axis] = indices
    joint_dtype("xnp.put_along_axis", arr, unwrap(values))
    result = arr.at[tuple(key)].set(as_type(unwrap(values), arr.dtype, False), mode=mode)
    return result if result.shape == shape else reshape_to(result, shape)


@library(name="fill_diagonal")
def _fill(a, val):
    n = min(a.shape)
    i = arange(n)
    values = as_type(unwrap(val), a.dtype, False)
    return a.at[(i,) * a.ndim].set(resize.__wrapped__(values, (n,)) if np.ndim(values) else values, unique_indices=True)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """The array with its main diagonal replaced.

    - `a`: a matrix, or an array of more dimensions of one size.
    - `val`: the new elements, repeated in order where the diagonal is longer.
    - `wrap`: of NumPy's signature; it must be False.
    - `inplace`: must be False: the result is a new array.

    >>> xnp.fill_diagonal(xnp.zeros((2, 2)), 5, inplace=False)
    Array([[5., 0.],
           [0., 5.]], dtype=float32)
    """
    _refuse_inplace("fill_diagonal", inplace, NotImplementedError)
    if wrap:
        raise NotImplementedError("wrap=True of xnp.fill_diagonal is not implemented, use wrap=False.")
    check_arraylike("fill_diagonal", a, val)
    a = asarray(a)
    if a.ndim < 2:
        raise ValueError(f"xnp.fill_diagonal: the array must be at least 2-d, got shape {a.shape}.")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError(f"xnp.fill_diagonal: all dimensions of input must be of equal length, got shape {a.shape}.")
    joint_dtype("xnp.fill_diagonal", a, unwrap(val))
    return _fill(a, val)
