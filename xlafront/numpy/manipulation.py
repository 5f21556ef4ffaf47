"""Rearranging arrays: shapes, axes, joining, splitting, reordering."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import is_symbolic_dim, min_dim
from xlafront.core.keys import KeyArray
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax import dynamic_slicing, shapes, slicing
from xlafront.lax.arguments import named_sharding
from xlafront.lax.elementwise import add, as_type, lt, rem_, size_as, sub, where
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.roll import roll as rotate
from xlafront.lax.shapes import canonical_axes, canonical_axis, static_shape
from xlafront.lax.sharding_rules import merge
from xlafront.lax.splitting import split_p
from xlafront.lax.stacking import stack_p, unstack_p
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import (
    broadcast_shapes as joint_shape,
    check_arraylike,
    hashable_axis,
    promote_dtypes,
    unwrap,
    unwrap_node,
)
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.sharding import NamedSharding
from xlafront.runtime.specs import PartitionSpec
from xlafront.staging.library import library, written_once

_ARRAYS = (ArrayImpl, tracing.Tracer, np.ndarray)


def _discourage_lists(name: str, a) -> None:
    if not tracing.is_arraylike(a):
        warnings.warn(f"xnp.{name} of {errors.short(a)}, which is not an array, is deprecated. Use np.{name}.",
                      DeprecationWarning, stacklevel=3)


def shape(a: ArrayLike) -> tuple[int, ...]:
    """The shape of an array, a tuple of ints, also while it is traced.

    - `a`: the array, or a number; of lists it is deprecated.

    >>> xnp.shape(xnp.ones((2, 3)))
    (2, 3)
    """
    if isinstance(a, _ARRAYS):
        return a.shape
    a = unwrap(a)
    _discourage_lists("shape", a)
    return np.shape(a)


def ndim(a: ArrayLike) -> int:
    """The number of dimensions.

    - `a`: the array, or a number; of lists it is deprecated.

    >>> xnp.ndim(xnp.ones((2, 3)))
    2
    """
    if isinstance(a, _ARRAYS):
        return a.ndim
    a = unwrap(a)
    _discourage_lists("ndim", a)
    return np.ndim(a)


def size(a: ArrayLike, axis: Axes = None) -> int:
    """The number of elements.

    - `a`: the array, or a number; of lists it is deprecated.
    - `axis`: an axis or several, along which to count; all without.

    >>> xnp.size(xnp.ones((2, 3)), axis=1)
    3
    """
    a = unwrap(a)
    _discourage_lists("size", a)
    dims = np.shape(a)
    return math.prod(dims) if axis is None else math.prod(dims[i] for i in canonical_axes(axis, len(dims), "size"))


@library(static="shape", name="reshape", light=True)
def _reshape_kernel(a, shape):
    return shapes.reshape_to(unwrap(a), shape)


def new_shape(name: str, wanted, old: tuple) -> tuple[int, ...]:
    """The shape asked for, with -1 worked out."""
    wanted = static_shape(name, wanted)
    total = math.prod(old)
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        if wanted.count(-1) > 1 or (known == 0 and total) or (known and total % known):
            kind = errors.InconclusiveDimensionOperation if is_symbolic_dim(total) and wanted.count(-1) == 1 else TypeError
            raise kind(f"xnp.{name} cannot make shape {wanted} of the {total} elements of shape {old}: -1 may stand once, for "
                       f"what divides evenly.")
        if not known:
            raise ZeroDivisionError(f"{name} of an array of shape {old} to {wanted}: beside a size of 0 the one that is -1 "
                                    "could be any.")
        wanted = tuple(total // known if n == -1 else n for n in wanted)
    if math.prod(wanted) != total or any(n < 0 for n in wanted):
        raise TypeError(f"xnp.{name} got incompatible shapes: cannot reshape array of shape {old}, {total} elements, to "
                        f"{wanted}, {math.prod(wanted)} elements.")
    return wanted


def reshape(a: ArrayLike, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None,
            out_sharding: Any = None) -> Array:
    """The same elements in another shape.

    - `a`: the array. One of NumPy's stays one (with its 64 bits, and in its memory), also inside of `jit`.
    - `shape`: the new shape; one size may be -1, which is worked out from the others.
    - `order`: "C", by rows, or "F": elements are read and written by columns.
    - `copy`: of NumPy's signature; arrays do not change, it makes no difference.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.reshape(xnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if isinstance(a, (np.ndarray, np.generic)) and out_sharding is None:
        return a.reshape(shape, order=order)  # type: ignore
    return reshape_array(a, shape, order, out_sharding)


def reshape_array(a: ArrayLike, shape: int | Sequence[int], order: str = "C", out_sharding: Any = None) -> Array:
    """As `reshape`, and an array of NumPy's becomes one of ours."""
    a = unwrap(a)
    check_arraylike("reshape", a)
    target = new_shape("reshape", shape, np.shape(a))
    if out_sharding is not None:
        _check_sums(a, out_sharding)
    if order == "C":
        if target == np.shape(a) and out_sharding is None and type(a) is ArrayImpl:
            return a
        return _reshape_kernel(a, target) if out_sharding is None else with_out_sharding(
            "xnp.reshape", out_sharding, _reshape_kernel, (a,), target)
    if order == "F":
        return with_out_sharding("xnp.reshape", out_sharding, _reshape_by_columns, (a,), target)
    if order == "A":
        raise NotImplementedError("xnp.reshape has no order='A': arrays have row-major order. Use 'C' or 'F'.")
    raise ValueError(f"xnp.reshape takes order 'C' or 'F', got {order!r}.")


def _check_sums(a, out_sharding) -> None:
    """A reshape makes no sum that is open, and opens none."""
    explicit = tracing.aval_of(a).explicit_sharding
    own, target = PartitionSpec() if explicit is None else explicit.spec, named_sharding(out_sharding, "xnp.reshape")
    wanted = PartitionSpec() if target is None else target.spec
    for kind in ("unreduced", "reduced"):
        if getattr(own, kind) != getattr(wanted, kind):
            raise ValueError(f"xnp.reshape got out_sharding={wanted} for an array of type {tracing.aval_of(a)}: it must be "
                             f"{kind} "
                             f"over the same axes, and cannot contain {kind} axes where the array has none. Change them with "
                             f"reshard.")


def _reshape_by_columns(a, target):
    return transpose(_reshape_kernel(transpose(a), target[::-1]))


@library(name="ravel", light=True)
def _ravel_kernel(a):
    check_arraylike("ravel", a)
    a = unwrap_node(a)
    return shapes.reshape_to(a, (math.prod(np.shape(a)),))


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """All elements as a vector.

    - `a`: the array.
    - `order`: "C", by rows, or "F", by columns.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.ravel(xnp.array([[1, 2], [3, 4]]), order="F")
    Array([1, 3, 2, 4], dtype=int32)
    """
    if order == "C" and out_sharding is None:
        return _ravel_kernel(a)
    a = unwrap_node(a)
    if order == "K":
        raise NotImplementedError("xnp.ravel has no order='K': arrays have row-major order. Use 'C' or 'F'.")
    return reshape_array(a, (-1,) if math.prod(np.shape(a)) else (0,), order, out_sharding)


@library(static="axes", name="transpose", light=True)
def _transpose_kernel(a, axes):
    a = unwrap(a)
    return a if axes == tuple(range(len(axes))) else shapes.transpose_p.bind(a, permutation=axes)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order, reversed without `axes`.

    - `a`: the array.
    - `axes`: for each axis of the result, which one of `a` it is.

    >>> xnp.transpose(xnp.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = unwrap(a)
    check_arraylike("transpose", a)
    rank = np.ndim(a)
    if axes is None:
        return a if rank < 2 and type(a) is ArrayImpl else _transpose_kernel(a, tuple(range(rank - 1, -1, -1)))
    order = [canonical_axis(i, rank, "xnp.transpose") for i in axes]
    if sorted(order) != list(range(rank)):
        raise TypeError(f"xnp.transpose needs all {rank} axes of an array of shape {np.shape(a)}, each once, "
                        f"got {axes}: no permutation.")
    return a if order == sorted(order) and type(a) is ArrayImpl else _transpose_kernel(a, tuple(order))


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """The axes in another order: `transpose` under the name of the array API.

    - `a`: the array.
    - `axes`: for each axis of the result, which one of `a` it is.

    >>> xnp.permute_dims(xnp.ones((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    return transpose(a, axes)


@written_once
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Matrices with rows and columns exchanged: the last two axes are swapped.

    - `x`: the matrices, an array of two or more dimensions.

    >>> xnp.matrix_transpose(xnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    check_arraylike("matrix_transpose", x)
    x = unwrap_node(x)
    if np.ndim(x) < 2:
        raise ValueError(f"xnp.matrix_transpose needs at least 2 dimensions, got shape {np.shape(x)}.")
    return swapaxes(x, -1, -2)


@library(static=("axis1", "axis2"), light=True)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    - `a`: the array.
    - `axis1`, `axis2`: the axes.

    >>> xnp.swapaxes(xnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    check_arraylike("swapaxes", a)
    order = list(range(np.ndim(a)))
    i, j = canonical_axis(axis1, len(order), "swapaxes"), canonical_axis(axis2, len(order), "swapaxes")
    order[i], order[j] = order[j], order[i]
    return _transpose_kernel(a, tuple(order))


@library(static=("source", "destination"), lists=True, converts=True)
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other positions; the others keep their order.

    - `a`: the array.
    - `source`: the axes to move.
    - `destination`: where each of them goes.

    >>> xnp.moveaxis(xnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    check_arraylike("moveaxis", a)
    rank = np.ndim(a)
    if np.size(source) != np.size(destination):
        raise ValueError(f"xnp.moveaxis needs as many sources as destinations, got {source} and {destination}.")
    if source is None or destination is None:
        raise TypeError(f"xnp.moveaxis needs axes, integers or sequences of them, got {source} and {destination}.")
    source, destination = (canonical_axes(axes, rank, "moveaxis", TypeError) for axes in (source, destination))
    order = [i for i in range(rank) if i not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return _transpose_kernel(a, tuple(order))


@library(static=("axis", "start"), converts=True)
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """An axis moved to lie before another one; `moveaxis` is easier to read.

    - `a`: the array.
    - `axis`: the axis to move.
    - `start`: the axis before which it shall lie.

    >>> xnp.rollaxis(xnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    hashable_axis(axis, "rollaxis")
    hashable_axis(start, "rollaxis")
    rank = np.ndim(a)
    axis = canonical_axis(axis, rank, "rollaxis")
    start = start + rank if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """New axes of size 1.

    - `a`: the array.
    - `axis`: the positions in the result where they stand.

    >>> xnp.expand_dims(xnp.ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    a = unwrap(a)
    check_arraylike("expand_dims", a)
    axes = (axis,) if type(axis) is int or not (isinstance(axis, (tuple, list, range)) or np.ndim(axis)) else tuple(axis)
    return shapes._expand_kernel(a, canonical_axes(axes, np.ndim(a) + len(axes), "xnp.expand_dims"))


@library(static="axis", lists=True, converts=True, light=True)
def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """The array without axes of size 1.

    - `a`: the array.
    - `axis`: which of them to drop, an axis or several; all without.

    >>> xnp.squeeze(xnp.ones((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    check_arraylike("squeeze", a)
    dims = np.shape(a)
    axes = tuple(i for i, n in enumerate(dims) if n == 1) if axis is None else canonical_axes(
        axis, len(dims), "xnp.squeeze")
    return shapes.squeeze_p.bind(unwrap(a), dimensions=axes) if axes else asarray(a)


@library(static="shape", name="broadcast_to")
def _broadcast_kernel(a, shape):
    a = unwrap(a)
    own = np.shape(a)
    return a if own == shape else shapes.broadcast_in_dim_p.bind(
        a, shape=shape, broadcast_dimensions=tuple(range(len(shape) - len(own), len(shape))), sharding=None)


def _check_kept_split(split, target: tuple, wanted) -> None:
    """Dimensions that are split stay split so; others may become it."""
    if split is None or wanted is None:
        return
    given = split.spec.partitions
    entries = (*wanted.spec, *(None,) * (len(target) - len(wanted.spec)))[len(target) - len(given):]
    if any(e is not None and e != w for e, w in zip(given, entries)):
        raise ValueError(f"xnp.broadcast_to of an array that is split by {split.spec} to {target} got incompatible types for "
                         f"broadcasting: out_sharding={wanted.spec} splits its dimensions in another way. Use reshard first.")


def broadcast_to(array: ArrayLike, shape: int | Sequence[int], *, out_sharding: Any = None) -> Array:
    """The array repeated to a shape that it broadcasts to.

    - `array`: the array.
    - `shape`: the shape.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.broadcast_to(xnp.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    array = unwrap(array)
    check_arraylike("broadcast_to", array)
    target = static_shape("broadcast_to", shape)
    own = np.shape(array)
    if len(own) > len(target) or any(n not in (1, m) for n, m in zip(own[::-1], target[::-1])):
        raise ValueError(f"xnp.broadcast_to got incompatible shapes for broadcasting, {own} to {target}: sizes must be equal "
                         "or 1, counted from the last dimension.")
    if any(n < 0 for n in target):
        raise TypeError(f"xnp.broadcast_to got a negative size in the shape {target}.")
    if own == target and out_sharding is None and type(array) is ArrayImpl:
        return array
    if out_sharding is not None:
        _check_kept_split(tracing.aval_of(array).explicit_sharding, target, named_sharding(out_sharding, "xnp.broadcast_to"))
    return with_out_sharding("xnp.broadcast_to", out_sharding, _broadcast_kernel, (array,), target)


@library(converts=True)
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays at the one shape that they broadcast to.

    - `args`: the arrays.

    >>> xnp.broadcast_arrays(xnp.array([1, 2]), 3)
    [Array([1, 2], dtype=int32), Array([3, 3], dtype=int32, weak_type=True)]
    """
    check_arraylike("broadcast_arrays", *args)
    args = tuple([unwrap(x) for x in args])
    full = joint_shape("broadcast_arrays", *[np.shape(x) for x in args])
    larger = any([np.shape(x) != full for x in args])
    split = _joint_split([tracing.aval_of(x) for x in args], full) if larger else None
    return [broadcast_to(x, full, out_sharding=split) for x in args]


def _joint_split(avals, full: tuple) -> NamedSharding | None:
    """How explicit mesh axes split the shape that arrays broadcast to together: each dimension as those that have all of it."""
    splits = [(aval, aval.explicit_sharding.spec.padded(aval.ndim)) for aval in avals if aval.explicit_sharding is not None]
    if not splits:
        return None
    entries = []
    for i in range(-len(full), 0):
        whole = [e[i] for aval, e in splits if aval.ndim >= -i and aval.shape[i] == full[i]]
        entries.append(merge("broadcast_arrays", splits, whole))
    return NamedSharding(splits[0][0].explicit_sharding.mesh, PartitionSpec(*entries))


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    - `shapes`: the shapes, tuples or ints.

    >>> xnp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return joint_shape("broadcast_shapes", *[static_shape("broadcast_shapes", s) for s in shapes])


# Joining


def _rows(name, arrays):
    """The arrays of a sequence, or the rows of one array."""
    if hasattr(arrays, "shape") and tracing.is_arraylike(arrays):  # not what holds several, as SCICO's blocks do
        if not arrays.shape or not arrays.shape[0]:
            raise ValueError(f"xnp.{name} takes a sequence of arrays, or the rows of one; there are none in the shape "
                             f"{arrays.shape}.")
        return [arrays[i] for i in range(arrays.shape[0])]
    items = list(arrays)
    if not items:
        raise ValueError(f"xnp.{name} needs at least one array.")
    check_arraylike(name, *items)
    return [unwrap(x) for x in items]


def _converted(name, arrays, dtype):
    for x in arrays:
        dtypes.warn_of_lost_parts(f"xnp.{name}", tracing.aval_of(x).dtype, dtype)
    return [as_type(x, dtype, False) for x in arrays]


@library(static=("axis", "dtype"), name="concatenate")
def _concatenate_kernel(arrays, axis, dtype):
    arrays = promote_dtypes(*arrays) if dtype is None else _converted("concatenate", arrays, dtype)
    return arrays[0] if len(arrays) == 1 else slicing.concatenate_p.bind(*arrays, dimension=axis)


def concatenate(arrays: ArrayLike | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along an axis that they have.

    - `arrays`: a sequence of arrays, of the same sizes but for this axis.
    - `axis`: the axis; None joins them as vectors.
    - `dtype`: that of the result; what they promote to without.

    >>> xnp.concatenate([xnp.ones((2, 1)), xnp.zeros((2, 2))], axis=1)
    Array([[1., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    items = _rows("concatenate", arrays)
    if axis is None:
        items, axis = [ravel(x) for x in items], 0
    if np.ndim(items[0]) == 0:
        raise ValueError("xnp.concatenate cannot join scalars: use stack.")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "concatenate")
    return _concatenate_kernel(items, canonical_axis(axis, np.ndim(items[0]), "xnp.concatenate"), wanted)


def concat(arrays: ArrayLike | Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis that they have: `concatenate` by its name in the array-API standard.

    - `arrays`: a sequence of arrays, of the same sizes but for this axis.
    - `axis`: the axis; None joins them as vectors.

    >>> xnp.concat([xnp.ones((2, 1)), xnp.zeros((2, 2))], axis=1)
    Array([[1., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    return concatenate(arrays, axis)


@library(static=("axis", "dtype"), name="stack")
def _stack_kernel(arrays, axis, dtype):
    arrays = promote_dtypes(*arrays) if dtype is None else _converted("stack", arrays, dtype)
    return stack_p.bind(*arrays, axis=axis)


def stack(arrays: ArrayLike | Sequence[ArrayLike], axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Arrays of one shape joined along a new axis.

    - `arrays`: a sequence of arrays.
    - `axis`: where in the result the new axis stands.
    - `out`: of NumPy's signature; it must be None.
    - `dtype`: that of the result; what they promote to without.

    >>> xnp.stack([xnp.array([1, 2]), xnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("arrays cannot be written to: xnp.stack has no `out`.")
    items = _rows("stack", arrays)
    given = {np.shape(x) for x in items}
    if len(given) > 1:
        raise ValueError(f"xnp.stack needs arrays of one shape, got {', '.join(map(str, sorted(given)))}.")
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "stack")
    return _stack_kernel(items, canonical_axis(axis, np.ndim(items[0]) + 1, "xnp.stack"), wanted)


@library(static="axis", lists=True, converts=True)
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, as a tuple.

    - `x`: the array.
    - `axis`: the axis, which the slices do not have.

    >>> xnp.unstack(xnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    check_arraylike("unstack", x)
    if np.ndim(x) == 0:
        raise ValueError("xnp.unstack needs an array with at least one dimension.")
    axis = canonical_axis(axis, np.ndim(x), "unstack")
    int(np.shape(x)[axis])  # of a size that is not known there is no tuple
    return tuple(unstack_p.bind(unwrap(x), axis=axis))


def vstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along their first axis; vectors are rows.

    - `tup`: a sequence of arrays.
    - `dtype`: that of the result; what they promote to without.

    >>> xnp.vstack([xnp.array([1, 2]), xnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _rows("vstack", tup)], 0, dtype)


def hstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along their second axis, vectors along their only one.

    - `tup`: a sequence of arrays.
    - `dtype`: that of the result; what they promote to without.

    >>> xnp.hstack([xnp.array([1, 2]), xnp.array([3, 4])])
    Array([1, 2, 3, 4], dtype=int32)
    """
    items = [atleast_1d(x) for x in _rows("hstack", tup)]
    return concatenate(items, 0 if items[0].ndim == 1 else 1, dtype)


def dstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Arrays joined along their third axis; vectors and matrices get one first, as by `atleast_3d`.

    - `tup`: a sequence of arrays.
    - `dtype`: that of the result; what they promote to without.

    >>> xnp.dstack([xnp.array([1, 2]), xnp.array([3, 4])]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in _rows("dstack", tup)], 2, dtype)


def column_stack(tup: ArrayLike | Sequence[ArrayLike]) -> Array:
    """Vectors joined as the columns of a matrix; matrices keep theirs.

    - `tup`: a sequence of arrays.

    >>> xnp.column_stack([xnp.array([1, 2]), xnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return concatenate([reshape(x, (-1, 1)) if np.ndim(x) < 2 else x for x in _rows("column_stack", tup)], 1)


@library
def block(arrays: ArrayLike | Sequence[Any]) -> Array:
    """An array of blocks: the innermost lists are joined along the last axis, those around them along the one before, and so
    on.

    - `arrays`: nested lists of arrays.

    >>> xnp.block([[xnp.eye(2), xnp.zeros((2, 1))], [xnp.ones((1, 3))]])
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [1., 1., 1.]], dtype=float32)
    """
    def depth(x):
        if x is None or isinstance(x, tuple):
            raise ValueError(f"xnp.block takes nested lists of arrays, got a {type(x).__name__} in them. Use lists alone.")
        if not isinstance(x, list):
            return 0
        depths = set(map(depth, x))
        if len(depths) != 1:
            found = f"ones of different depth, {sorted(depths)}" if depths else "an empty one"
            raise ValueError(f"xnp.block takes lists that are nested equally deep, got {found}.")
        return 1 + depths.pop()

    levels = depth(arrays)

    def join(x, level):
        if not isinstance(x, list):
            return x
        parts = [join(y, level + 1) for y in x]
        ranks = [np.ndim(p) for p in parts]
        rank = max(*ranks, levels)
        parts = [p if r == rank else reshape(p, (1,) * (rank - r) + np.shape(p)) for p, r in zip(parts, ranks)]
        return concatenate(parts, axis=level - levels)

    return join(arrays, 0) if levels else asarray(arrays)


@library(static="axis", converts=True)
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """An array with values joined to its end. It is a new array: to collect many, make a list and join it once.

    - `arr`: the array.
    - `values`: what follows.
    - `axis`: the axis along which they are joined; None joins them as vectors.

    >>> xnp.append(xnp.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    return concatenate([arr, values], axis)


def _atleast(rank, says, example, widen):
    def function(*arys: ArrayLike) -> Array | list[Array]:
        check_arraylike(f"atleast_{rank}d", *arys)
        arrays = [asarray(unwrap_node(x)) for x in arys]
        found = [x if np.ndim(x) >= rank else widen(x) for x in arrays]
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = f"""{says}

- `arys`: the arrays; for several the result is a list.

>>> xnp.atleast_{rank}d(xnp.array([1, 2])).shape
{example}"""
    return library(function)


atleast_1d = _atleast(1, "Numbers as vectors of one element; other arrays as they are.", (2,), lambda x: reshape(x, (1,)))
atleast_2d = _atleast(2, "Vectors as rows, numbers as matrices of one element; other arrays as they are.", (1, 2), lambda x: (
    reshape(x, (1, -1)) if x.size else reshape(x, (1, 0))))
atleast_3d = _atleast(3, "Vectors with a dimension before and one after theirs, matrices with one after; others as they are.",
                      (1, 2, 1), lambda x: reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1)}.get(x.ndim, (*x.shape, 1))))


# Splitting


def _whole(name, n, what):
    try:
        return operator.index(n)
    except TypeError:
        if isinstance(n, tracing.Tracer):
            raise
        raise TypeError(f"xnp.{name} needs {what}, which are integers, got {n!r}.") from None


def _split(name, ary, indices_or_sections, axis, even):
    check_arraylike(name, ary)
    ary = unwrap_node(ary)
    shape, sections = np.shape(ary), indices_or_sections
    axis = canonical_axis(axis, len(shape), f"xnp.{name}")
    n = shape[axis]
    if type(sections) is not int and (isinstance(sections, (tuple, list)) or np.ndim(sections)):
        bounds = [0, *[i if is_symbolic_dim(i) else _whole(name, i, "positions to cut at") for i in sections], n]
        bounds = [min_dim(b + n if b < 0 else b, n) for b in bounds]
    else:
        if isinstance(sections, (float, np.floating, ArrayImpl)) and sections == int(sections):
            sections = int(sections)
        sections = _whole(name, sections, "a number of parts")
        if sections < 1 or (even and n % sections):
            raise ValueError(f"xnp.{name} cannot cut axis {axis} of size {n} into {sections} equal parts.")
        base, extra = divmod(n, sections)
        bounds = list(accumulate([base + 1] * extra + [base] * (sections - extra), initial=0))
    return _split_kernel(ary, tuple(bounds), axis)


@library(static=("bounds", "axis"), name="split")
def _split_kernel(ary, bounds, axis):
    ary = unwrap(ary)
    dims = np.shape(ary)
    if all(start <= stop for start, stop in zip(bounds, bounds[1:])):
        return list(split_p.bind(ary, sizes=tuple(np.diff(bounds).tolist()), axis=axis))
    parts = []  # of bounds that go back
    for start, limit in zip(bounds, bounds[1:]):
        starts, limits = [0] * len(dims), list(dims)
        starts[axis], limits[axis] = start, max(start, limit)
        parts.append(slicing.slice(ary, starts, limits))
    return parts


@written_once
def split(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0) -> list[Array]:
    """An array cut along an axis.

    - `ary`: the array.
    - `indices_or_sections`: into how many equal parts (the size must be a multiple of it), or the positions of the cuts.
    - `axis`: the axis.

    >>> xnp.split(xnp.arange(4), [1, 3])
    [Array([0], dtype=int32), Array([1, 2], dtype=int32), Array([3], dtype=int32)]
    """
    ary = unwrap(ary)
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0) -> list[Array]:
    """An array cut along an axis into parts that may differ by one in size, the longer ones first.

    - `ary`: the array.
    - `indices_or_sections`: into how many parts, or the positions of the cuts.
    - `axis`: the axis.

    >>> xnp.array_split(xnp.arange(5), 2)
    [Array([0, 1, 2], dtype=int32), Array([3, 4], dtype=int32)]
    """
    ary = unwrap(ary)
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """An array cut along its first axis.

    - `ary`: the array.
    - `indices_or_sections`: into how many equal parts, or the positions of the cuts.

    >>> xnp.vsplit(xnp.array([[1, 2], [3, 4]]), 2)
    [Array([[1, 2]], dtype=int32), Array([[3, 4]], dtype=int32)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """An array cut along its second axis, a vector along its only one.

    - `ary`: the array.
    - `indices_or_sections`: into how many equal parts, or the positions of the cuts.

    >>> xnp.hsplit(xnp.array([[1, 2], [3, 4]]), 2)
    [Array([[1],
           [3]], dtype=int32), Array([[2],
           [4]], dtype=int32)]
    """
    ary = unwrap(ary)
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1, True)


def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """An array cut along its third axis.

    - `ary`: the array, of three or more dimensions.
    - `indices_or_sections`: into how many equal parts, or the positions of the cuts.

    >>> [part.shape for part in xnp.dsplit(xnp.ones((1, 2, 4)), [1])]
    [(1, 2, 1), (1, 2, 3)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)


# Reordering


@library(static="axis", lists=True, converts=True)
def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """The elements in reverse order.

    - `m`: the array.
    - `axis`: an axis or several, along which to reverse; all without.

    >>> xnp.flip(xnp.array([[1, 2], [3, 4]]), axis=1)
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    m = unwrap(m)
    check_arraylike("flip", m)
    return shapes.rev(m, range(np.ndim(m)) if axis is None else canonical_axes(axis, np.ndim(m), "xnp.flip", TypeError))


def fliplr(m: ArrayLike) -> Array:
    """Each row in reverse order: `flip` along the second axis.

    - `m`: the array, of two or more dimensions.

    >>> xnp.fliplr(xnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """The rows in reverse order: `flip` along the first axis.

    - `m`: the array.

    >>> xnp.flipud(xnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


@library(static=("k", "axes"), converts=True)
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array turned by 90 degrees in the plane of two axes, from the first towards the second.

    - `m`: the array, of two or more dimensions.
    - `k`: how often; a negative number turns the other way.
    - `axes`: the plane.

    >>> xnp.rot90(xnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    if isinstance(k, tracing.Tracer):
        raise ValueError(f"xnp.rot90 needs k while it is traced, got {errors.what_is(k)}: non-hashable static arguments are "
                         "not supported. Make the argument static (static_argnums).")
    a, b = canonical_axes(axes, np.ndim(m), "rot90")
    k = k % 4  # a new one: an array of NumPy's would be changed in place
    if k == 0:
        return asarray(m)
    if k == 2:
        return flip(flip(m, a), b)
    order = list(range(np.ndim(m)))
    order[a], order[b] = order[b], order[a]
    return transpose(flip(m, b), order) if k == 1 else flip(transpose(m, order), b)


@library(static=("axis", "flat"), name="roll")
def _roll_kernel(a, shift, axis, flat):
    """A rotation by a run-time amount: a slice of the array laid down twice."""
    a = unwrap(a)
    if flat:
        return reshape(_roll_kernel(ravel(a), shift, axis, False), np.shape(a))
    for s, i in zip(shift, axis):
        n = np.shape(a)[i]
        if n == 0:
            continue
        back = sub(size_as(n, np.int32), _mod(s, n))
        start = rem_(back, size_as(n, np.int32))
        doubled = slicing.concatenate_p.bind(a, a, dimension=i)
        starts = [np.int32(0)] * np.ndim(a)
        starts[i] = start
        a = dynamic_slicing.dynamic_slice_p.bind(doubled, *starts, slice_sizes=np.shape(a))
    return a


@library(static=("shifts", "axes", "flat"), name="roll")
def _rotate_kernel(a, shifts, axes, flat):
    """A rotation by known amounts."""
    a = unwrap(a)
    if flat:
        return reshape(_rotate_kernel(ravel(a), shifts, axes, False), np.shape(a))
    for s, i in zip(shifts, axes):
        a = rotate(a, s, i)
    return a


def _mod(x, n):
    """The remainder of an integer of any dtype, as an int32."""
    d = tracing.aval_of(x).dtype
    d = d if d.itemsize > 4 or dtypes.is_unsigned(d) and d.itemsize == 4 else dtypes.int32
    n = size_as(n, d)
    r = rem_(as_type(x, d, False), n)
    return as_type(r if dtypes.is_unsigned(d) else where(lt(r, d.type(0)), add(r, n), r), dtypes.int32, False)


def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """The elements moved along axes; those that fall off one end come back at the other.

    - `a`: the array.
    - `shift`: by how many places, for all axes or for each of them. It may be traced.
    - `axis`: the axis, or several; None rolls the elements as one vector and keeps the shape.

    >>> xnp.roll(xnp.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    a = unwrap(a)
    check_arraylike("roll", a)
    if type(shift) is not int and tracing.is_convertible(shift):
        shift = unwrap_node(shift)
    flat = axis is None
    rank = 1 if flat else a.ndim if isinstance(a, ArrayImpl) else np.ndim(a)  # Hot: NumPy's costs a microsecond
    axes = canonical_axes(0 if flat else axis, rank, "xnp.roll") if not isinstance(axis, (tuple, list)) else tuple(
        [canonical_axis(i, rank, "xnp.roll") for i in axis])
    shifts = (shift,) * len(axes) if type(shift) is int else tuple(shift) if isinstance(shift, (tuple, list)) else (
        tuple(shift) if np.ndim(shift) == 1 else (shift,) * len(axes))
    if len(shifts) != len(axes):
        if len(shifts) != 1 and len(axes) != 1:
            raise ValueError(f"xnp.roll got {len(shifts)} shifts for {len(axes)} axes.")
        shifts, axes = shifts * len(axes) if len(shifts) == 1 else shifts, axes * len(shifts) if len(axes) == 1 else axes
    if (tracing.is_tracing() or isinstance(a, KeyArray) or isinstance(a, ArrayImpl) and a.sharding.num_devices > 1) and all(
            [isinstance(s, (int, np.integer)) for s in shifts]):
        return _rotate_kernel(a, tuple(map(int, shifts)), axes, flat)
    try:
        return _roll_kernel(a, shifts, axes, flat)  # one program for all shifts
    except OverflowError:  # numbers of Python that no integer of the program holds
        sizes = [np.size(a)] if flat else [np.shape(a)[i] for i in axes]
        return _roll_kernel(a, tuple([s % max(n, 1) if isinstance(s, int) else s for s, n in zip(shifts, sizes)]), axes, flat)
