"""Array manipulation: shapes, axes, broadcasting, joining, splitting, reordering."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.specs import PartitionSpec
from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax import dynamic_slicing, shapes, slicing
from xlafront.lax.arguments import named_sharding
from xlafront.lax.elementwise import add, as_type, lt, rem_, size_scalar, sub, where
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
from xlafront.runtime.keys import KeyArray
from xlafront.runtime.sharding import NamedSharding
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import exact_quotient, is_symbolic, is_symbolic_dim, max_dim, may_equal, min_dim

_ARRAYS = (ArrayImpl, tracing.Tracer, np.ndarray)


def _discourage_lists(name: str, a) -> None:
    if not tracing.is_arraylike(a):
        source.warn(f"numpy.{name} of {errors.short(a)}, which is not an array, is deprecated. Use np.{name}.",
                    DeprecationWarning)


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the shape of an array.

    Args:
        a: Array or scalar; lists are deprecated.

    Returns:
        Tuple of ints, static also for traced arrays.

    Example:
        >>> xnp.shape(xnp.ones((2, 3)))
        (2, 3)
    """
    a = unwrap(a)
    if isinstance(a, _ARRAYS):
        return a.shape
    _discourage_lists("shape", a)
    return np.shape(a)


def ndim(a: ArrayLike) -> int:
    """Return the number of dimensions of an array.

    Args:
        a: Array or scalar; lists are deprecated.

    Returns:
        Number of dimensions.

    Example:
        >>> xnp.ndim(xnp.ones((2, 3)))
        2
    """
    a = unwrap(a)
    if isinstance(a, _ARRAYS):
        return a.ndim
    _discourage_lists("ndim", a)
    return np.ndim(a)


def size(a: ArrayLike, axis: Axes = None) -> int:
    """Return the number of elements of an array.

    Args:
        a: Array or scalar; lists are deprecated.
        axis: Axis or axes along which to count. Default: all.

    Returns:
        Number of elements.

    Example:
        >>> xnp.size(xnp.ones((2, 3)), axis=1)
        3
    """
    a = unwrap(a)
    _discourage_lists("size", a)
    dims = np.shape(a)
    return math.prod(dims) if axis is None else math.prod(dims[i] for i in canonical_axes(axis, len(dims), "size"))


@library(static="shape", name="reshape")
def _reshape_kernel(a, shape):
    return shapes.reshape_to(unwrap(a), shape)


def new_shape(name: str, shape, old: tuple) -> tuple[int, ...]:
    """Check the requested shape against the old one, and replace -1 by the size that is implied."""
    shape = static_shape(name, shape)
    total = math.prod(old)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        inferred = exact_quotient(total, known) if known else None
        if shape.count(-1) > 1 or (inferred is None if known else total):
            kind = errors.InconclusiveDimensionOperation if is_symbolic((total, known)) and shape.count(-1) == 1 else TypeError
            raise kind(f"numpy.{name} cannot reshape the {total} elements of shape {old} to {shape}: at most one size may be "
                       f"-1, and the others must divide the number of elements.")
        if not known:
            raise ZeroDivisionError(f"numpy.{name} cannot reshape an array of shape {old} to {shape}: beside a size of 0 the "
                                    "size -1 is ambiguous.")
        shape = tuple(inferred if n == -1 else n for n in shape)
    if not may_equal(math.prod(shape), total) or any(n < 0 for n in shape):
        raise TypeError(f"numpy.{name} got incompatible shapes: cannot reshape array of shape {old} ({total} elements) to "
                        f"{shape} ({math.prod(shape)} elements).")
    return shape


def reshape(a: ArrayLike, shape: int | Sequence[int], order: str = "C", *, copy: bool | None = None,
            out_sharding: Any = None) -> Array:
    """Change the shape of an array.

    Args:
        a: Array.
        shape: New shape. One size may be -1, which is inferred from the others.
        order: "C" reads and writes elements in row-major order, "F" in column-major order.
        copy: Has no effect (for compatibility with NumPy): arrays are immutable.
        out_sharding: Sharding of the result.

    Returns:
        Array of the new shape.

    Note:
        A NumPy array stays one, with its 64-bit dtype and its memory, also in traced functions.

    Example:
        >>> xnp.reshape(xnp.arange(6), (2, -1))
        Array([[0, 1, 2],
               [3, 4, 5]], dtype=int32)
    """
    if isinstance(a, (np.ndarray, np.generic)) and out_sharding is None:
        return a.reshape(shape, order=order)  # type: ignore
    return reshape_array(a, shape, order, out_sharding)


def reshape_array(a: ArrayLike, shape: int | Sequence[int], order: str = "C", out_sharding: Any = None) -> Array:
    """Reshape as `reshape` does, but convert NumPy arrays to device arrays."""
    a = unwrap(a)
    check_arraylike("reshape", a)
    target = new_shape("reshape", shape, np.shape(a))
    if out_sharding is not None:
        _check_unreduced(a, out_sharding)
    if order == "C":
        if target == np.shape(a) and out_sharding is None and type(a) is ArrayImpl:
            return a
        return _reshape_kernel(a, target) if out_sharding is None else with_out_sharding(
            "numpy.reshape", out_sharding, _reshape_kernel, (a,), target)
    if order == "F":
        return with_out_sharding("numpy.reshape", out_sharding, _reshape_by_columns, (a,), target)
    if order == "A":
        raise NotImplementedError("numpy.reshape does not support order='A': arrays have row-major order. Use 'C' or 'F'.")
    raise ValueError(f"numpy.reshape takes order 'C' or 'F', got {order!r}.")


def _check_unreduced(a, out_sharding) -> None:
    """Raise if `out_sharding` changes the unreduced or reduced axes, which a reshape cannot do."""
    explicit = tracing.aval_of(a).explicit_sharding
    own, target = PartitionSpec() if explicit is None else explicit.spec, named_sharding(out_sharding, "numpy.reshape")
    requested = PartitionSpec() if target is None else target.spec
    for kind in ("unreduced", "reduced"):
        if getattr(own, kind) != getattr(requested, kind):
            raise ValueError(f"numpy.reshape got out_sharding={requested} for an array of type {tracing.aval_of(a)}: it must "
                             f"be {kind} over the same axes, and cannot contain {kind} axes where the array has none. "
                             f"Change them with reshard.")


def _reshape_by_columns(a, target):
    return transpose(_reshape_kernel(transpose(a), target[::-1]))


@library(name="ravel")
def _ravel_kernel(a):
    check_arraylike("ravel", a)
    a = unwrap_node(a)
    return shapes.reshape_to(a, (math.prod(np.shape(a)),))


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Flatten an array to a vector.

    Args:
        a: Array.
        order: "C" reads elements in row-major order, "F" in column-major order.
        out_sharding: Sharding of the result.

    Returns:
        Vector of all elements.

    Example:
        >>> xnp.ravel(xnp.array([[1, 2], [3, 4]]), order="F")
        Array([1, 3, 2, 4], dtype=int32)
    """
    if order == "C" and out_sharding is None:
        return _ravel_kernel(a)
    a = unwrap_node(a)
    if order == "K":
        raise NotImplementedError("numpy.ravel does not support order='K': arrays have row-major order. Use 'C' or 'F'.")
    return reshape_array(a, (-1,) if math.prod(np.shape(a)) else (0,), order, out_sharding)


@library(static="axes", name="transpose")
def _transpose_kernel(a, axes):
    a = unwrap(a)
    return a if axes == tuple(range(len(axes))) else shapes.transpose_p.bind(a, permutation=axes)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Permute the axes of an array.

    Args:
        a: Array.
        axes: Permutation: axis `i` of the result is axis `axes[i]` of `a`. Default: the reversed order.

    Returns:
        Array with permuted axes.

    Example:
        >>> xnp.transpose(xnp.ones((2, 3, 4)), (1, 0, 2)).shape
        (3, 2, 4)
    """
    a = unwrap(a)
    check_arraylike("transpose", a)
    rank = np.ndim(a)
    if axes is None:
        return a if rank < 2 and type(a) is ArrayImpl else _transpose_kernel(a, tuple(range(rank - 1, -1, -1)))
    return _permuted("transpose", a, axes, TypeError)


def _permuted(name: str, a: ArrayLike, axes: Sequence[int], repeated: type[Exception]) -> Array:
    """Permute axes; `repeated` is the class of the error for axes that are named twice."""
    rank = np.ndim(a)
    order = [canonical_axis(i, rank, f"numpy.{name}") for i in axes]
    if sorted(order) != list(range(rank)):
        raise (repeated if len(set(order)) < len(order) else TypeError)(
            f"numpy.{name} needs a permutation of the {rank} axes of an array of shape {np.shape(a)}, got {axes}.")
    return a if order == sorted(order) and type(a) is ArrayImpl else _transpose_kernel(a, tuple(order))


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Permute the axes of an array: `transpose` under its name in the array API standard.

    Args:
        a: Array.
        axes: Permutation: axis `i` of the result is axis `axes[i]` of `a`.

    Returns:
        Array with permuted axes.

    Example:
        >>> xnp.permute_dims(xnp.ones((2, 3, 4)), (1, 2, 0)).shape
        (3, 4, 2)
    """
    a = unwrap(a)
    check_arraylike("permute_dims", a)
    return _permuted("permute_dims", a, axes, ValueError)


@library(static=None)
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Transpose matrices: swap the last two axes.

    Args:
        x: Matrix or batch of matrices.

    Returns:
        Array with the last two axes swapped.

    Example:
        >>> xnp.matrix_transpose(xnp.array([[1, 2], [3, 4]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    check_arraylike("matrix_transpose", x)
    x = unwrap_node(x)
    if np.ndim(x) < 2:
        raise ValueError(f"numpy.matrix_transpose needs at least 2 dimensions, got shape {np.shape(x)}.")
    return swapaxes(x, -1, -2)


@library(static=("axis1", "axis2"))
@accepts(nodes=True)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Swap two axes of an array.

    Args:
        a: Array.
        axis1, axis2: Axes to swap.

    Returns:
        Array with the axes swapped.

    Example:
        >>> xnp.swapaxes(xnp.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    check_arraylike("swapaxes", a)
    order = list(range(np.ndim(a)))
    i, j = canonical_axis(axis1, len(order), "swapaxes"), canonical_axis(axis2, len(order), "swapaxes")
    order[i], order[j] = order[j], order[i]
    return _transpose_kernel(a, tuple(order))


@library(static=("source", "destination"))
@accepts(objects=True, lists=("source", "destination"))
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Move axes of an array to new positions.

    The other axes keep their order.

    Args:
        a: Array.
        source: Axis or axes to move.
        destination: New position of each of them.

    Returns:
        Array with moved axes.

    Example:
        >>> xnp.moveaxis(xnp.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    check_arraylike("moveaxis", a)
    rank = np.ndim(a)
    if np.size(source) != np.size(destination):
        raise ValueError(f"numpy.moveaxis needs as many sources as destinations, got {source} and {destination}.")
    if source is None or destination is None:
        raise TypeError(f"numpy.moveaxis needs axes, integers or sequences of them, got {source} and {destination}.")
    source, destination = (canonical_axes(axes, rank, "moveaxis", TypeError) for axes in (source, destination))
    order = [i for i in range(rank) if i not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return _transpose_kernel(a, tuple(order))


@library(static=("axis", "start"))
@accepts(objects=True)
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move an axis before another one.

    `moveaxis` is easier to read.

    Args:
        a: Array.
        axis: Axis to move.
        start: Axis before which it is inserted.

    Returns:
        Array with the moved axis.

    Example:
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
    """Insert axes of size 1.

    Args:
        a: Array.
        axis: Position or positions of the new axes in the result.

    Returns:
        Array with the new axes.

    Example:
        >>> xnp.expand_dims(xnp.ones((2, 3)), (0, -1)).shape
        (1, 2, 3, 1)
    """
    a = unwrap(a)
    check_arraylike("expand_dims", a)
    axes = (axis,) if type(axis) is int or not (isinstance(axis, (tuple, list, range)) or np.ndim(axis)) else tuple(axis)
    return shapes._expand_kernel(a, canonical_axes(axes, np.ndim(a) + len(axes), "numpy.expand_dims"))


@library(static="axis")
@accepts(objects=True, lists="axis")
def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """Remove axes of size 1.

    Args:
        a: Array.
        axis: Axis or axes to remove. Default: all of size 1.

    Returns:
        Array without the axes.

    Example:
        >>> xnp.squeeze(xnp.ones((1, 3, 1)), axis=0).shape
        (3, 1)
    """
    check_arraylike("squeeze", a)
    dims = np.shape(a)
    unknown = [n for n in dims if is_symbolic_dim(n) and may_equal(n, 1)]
    if axis is None and unknown:
        raise ValueError(f"numpy.squeeze of shape {dims} needs an axis: a symbolic size may be 1 when the program runs. Add a "
                         f"constraint such as '{unknown[0]} >= 2' to keep the dimension.")
    axes = tuple(i for i, n in enumerate(dims) if n == 1) if axis is None else canonical_axes(
        axis, len(dims), "numpy.squeeze")
    return shapes.squeeze_p.bind(unwrap(a), dimensions=axes) if axes else asarray(a)


@library(static="shape", name="broadcast_to")
def _broadcast_kernel(a, shape):
    a = unwrap(a)
    own = np.shape(a)
    return a if own == shape else shapes.broadcast_in_dim_p.bind(
        a, shape=shape, broadcast_dimensions=tuple(range(len(shape) - len(own), len(shape))), sharding=None)


def _check_out_sharding(sharding, target: tuple, out_sharding) -> None:
    """Raise if `out_sharding` changes the sharding of a dimension that is sharded."""
    if sharding is None or out_sharding is None:
        return
    own = sharding.spec.partitions
    entries = (*out_sharding.spec, *(None,) * (len(target) - len(out_sharding.spec)))[len(target) - len(own):]
    if any(e is not None and e != new for e, new in zip(own, entries)):
        raise ValueError(f"numpy.broadcast_to of an array sharded by {sharding.spec} to {target} got incompatible types for "
                         f"broadcasting: out_sharding={out_sharding.spec} shards its dimensions differently. "
                         "Use reshard first.")


def broadcast_to(array: ArrayLike, shape: int | Sequence[int], *, out_sharding: Any = None) -> Array:
    """Broadcast an array to a shape.

    Args:
        array: Array.
        shape: Shape of the result.
        out_sharding: Sharding of the result.

    Returns:
        Array of the given shape.

    Example:
        >>> xnp.broadcast_to(xnp.array([1, 2]), (2, 2))
        Array([[1, 2],
               [1, 2]], dtype=int32)
    """
    array = unwrap(array)
    check_arraylike("broadcast_to", array)
    target = static_shape("broadcast_to", shape)
    own = np.shape(array)
    if len(own) > len(target) or any(n not in (1, m) for n, m in zip(own[::-1], target[::-1])):
        raise ValueError(f"numpy.broadcast_to got incompatible shapes for broadcasting, {own} to {target}: sizes must be equal "
                         "or 1, counted from the last dimension.")
    if any(n < 0 for n in target):
        raise TypeError(f"numpy.broadcast_to got a negative size in the shape {target}.")
    if own == target and out_sharding is None and type(array) is ArrayImpl:
        return array
    if out_sharding is not None:
        _check_out_sharding(tracing.aval_of(array).explicit_sharding, target,
                            named_sharding(out_sharding, "numpy.broadcast_to"))
    return with_out_sharding("numpy.broadcast_to", out_sharding, _broadcast_kernel, (array,), target)


@library
@accepts(objects=True)
def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    """Broadcast arrays to their common shape.

    Args:
        args: Arrays.

    Returns:
        Tuple of the arrays, broadcast.

    Example:
        >>> xnp.broadcast_arrays(xnp.array([1, 2]), 3)
        (Array([1, 2], dtype=int32), Array([3, 3], dtype=int32, weak_type=True))
    """
    check_arraylike("broadcast_arrays", *args)
    args = tuple([unwrap(x) for x in args])
    full = joint_shape("broadcast_arrays", *[np.shape(x) for x in args])
    needs_broadcast = any([np.shape(x) != full for x in args])
    sharding = _common_sharding([tracing.aval_of(x) for x in args], full) if needs_broadcast else None
    return tuple([broadcast_to(x, full, out_sharding=sharding) for x in args])


def _common_sharding(avals, full: tuple) -> NamedSharding | None:
    """Return the sharding over explicit axes of arrays after broadcasting, None if no array has explicit axes.

    The sharding of each dimension is that of the arrays which have its full size.
    """
    specs = [(aval, aval.explicit_sharding.spec.padded(aval.ndim)) for aval in avals if aval.explicit_sharding is not None]
    if not specs:
        return None
    entries = []
    for i in range(-len(full), 0):
        unbroadcast = [e[i] for aval, e in specs if aval.ndim >= -i and aval.shape[i] == full[i]]
        entries.append(merge("broadcast_arrays", specs, unbroadcast))
    return NamedSharding(specs[0][0].explicit_sharding.mesh, PartitionSpec(*entries))


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to.

    Args:
        shapes: Shapes, tuples or ints.

    Returns:
        Common shape.

    Example:
        >>> xnp.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    return joint_shape("broadcast_shapes", *[static_shape("broadcast_shapes", s) for s in shapes])


# Joining


def _rows(name, arrays):
    """Return the arrays of a sequence, or the rows of an array, as a list."""
    if hasattr(arrays, "shape") and tracing.is_arraylike(arrays):  # not a container of arrays with a shape, such as SCICO's
        if not arrays.shape or not arrays.shape[0]:
            raise ValueError(f"numpy.{name} takes a sequence of arrays, or an array of at least one row; got an array of shape "
                             f"{arrays.shape}.")
        return [arrays[i] for i in range(arrays.shape[0])]
    items = list(arrays)
    if not items:
        raise ValueError(f"numpy.{name} needs at least one array.")
    check_arraylike(name, *items)
    return [unwrap(x) for x in items]


def _converted(name, arrays, dtype):
    for x in arrays:
        dtypes.warn_of_discarded_imaginary(f"numpy.{name}", tracing.aval_of(x).dtype, dtype)
    return [as_type(x, dtype, False) for x in arrays]


@library(static=("axis", "dtype"), name="concatenate")
def _concatenate_kernel(arrays, axis, dtype):
    arrays = promote_dtypes(*arrays) if dtype is None else _converted("concatenate", arrays, dtype)
    return arrays[0] if len(arrays) == 1 else slicing.concatenate_p.bind(*arrays, dimension=axis)


def concatenate(arrays: ArrayLike | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along an existing axis.

    Args:
        arrays: Sequence of arrays of equal sizes except along `axis`.
        axis: Axis to join along. None joins the flattened arrays.
        dtype: dtype of the result. Default: the promoted dtype of the arrays.

    Returns:
        Joined array.

    Example:
        >>> xnp.concatenate([xnp.ones((2, 1)), xnp.zeros((2, 2))], axis=1)
        Array([[1., 0., 0.],
               [1., 0., 0.]], dtype=float32)
    """
    items = _rows("concatenate", arrays)
    if axis is None:
        items, axis = [ravel(x) for x in items], 0
    if np.ndim(items[0]) == 0:
        raise ValueError("numpy.concatenate cannot join scalars: use stack.")
    d = None if dtype is None else dtypes.check_user_dtype(dtype, "concatenate")
    return _concatenate_kernel(items, canonical_axis(axis, np.ndim(items[0]), "numpy.concatenate"), d)


def concat(arrays: ArrayLike | Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an existing axis: `concatenate` under its name in the array API standard.

    Args:
        arrays: Sequence of arrays of equal sizes except along `axis`.
        axis: Axis to join along. None joins the flattened arrays.

    Returns:
        Joined array.

    Example:
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
    """Join arrays along a new axis.

    Args:
        arrays: Sequence of arrays of one shape.
        axis: Position of the new axis in the result.
        out: Must be None (for compatibility with NumPy): arrays are immutable.
        dtype: dtype of the result. Default: the promoted dtype of the arrays.

    Returns:
        Joined array.

    Example:
        >>> xnp.stack([xnp.array([1, 2]), xnp.array([3, 4])], axis=1)
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("numpy.stack does not support `out`: arrays are immutable.")
    items = _rows("stack", arrays)
    given = {np.shape(x) for x in items}
    if len(given) > 1:
        raise ValueError(f"numpy.stack needs arrays of one shape, got {', '.join(map(str, sorted(given)))}.")
    d = None if dtype is None else dtypes.check_user_dtype(dtype, "stack")
    return _stack_kernel(items, canonical_axis(axis, np.ndim(items[0]) + 1, "numpy.stack"), d)


@library(static="axis")
@accepts(objects=True, lists="axis")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Split an array into its slices along an axis.

    Args:
        x: Array of at least one dimension.
        axis: Axis to split along, which the slices do not have.

    Returns:
        Tuple of the slices.

    Example:
        >>> xnp.unstack(xnp.array([[1, 2], [3, 4]]))
        (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    check_arraylike("unstack", x)
    if np.ndim(x) == 0:
        raise ValueError("numpy.unstack needs an array with at least one dimension.")
    axis = canonical_axis(axis, np.ndim(x), "unstack")
    int(np.shape(x)[axis])  # raises for a symbolic size, which has no tuple
    return tuple(unstack_p.bind(unwrap(x), axis=axis))


def vstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the first axis.

    Vectors count as rows.

    Args:
        tup: Sequence of arrays.
        dtype: dtype of the result. Default: the promoted dtype of the arrays.

    Returns:
        Joined array of at least two dimensions.

    Example:
        >>> xnp.vstack([xnp.array([1, 2]), xnp.array([3, 4])])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _rows("vstack", tup)], 0, dtype)


def hstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the second axis, vectors along the first.

    Args:
        tup: Sequence of arrays.
        dtype: dtype of the result. Default: the promoted dtype of the arrays.

    Returns:
        Joined array.

    Example:
        >>> xnp.hstack([xnp.array([1, 2]), xnp.array([3, 4])])
        Array([1, 2, 3, 4], dtype=int32)
    """
    items = [atleast_1d(x) for x in _rows("hstack", tup)]
    return concatenate(items, 0 if items[0].ndim == 1 else 1, dtype)


def dstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the third axis.

    Arrays of fewer dimensions are extended as by `atleast_3d`.

    Args:
        tup: Sequence of arrays.
        dtype: dtype of the result. Default: the promoted dtype of the arrays.

    Returns:
        Joined array of at least three dimensions.

    Example:
        >>> xnp.dstack([xnp.array([1, 2]), xnp.array([3, 4])]).shape
        (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in _rows("dstack", tup)], 2, dtype)


def column_stack(tup: ArrayLike | Sequence[ArrayLike]) -> Array:
    """Join vectors as columns of a matrix.

    Args:
        tup: Sequence of vectors, or of matrices whose columns are joined.

    Returns:
        Matrix of all columns.

    Example:
        >>> xnp.column_stack([xnp.array([1, 2]), xnp.array([3, 4])])
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return concatenate([reshape(x, (-1, 1)) if np.ndim(x) < 2 else x for x in _rows("column_stack", tup)], 1)


@library
@accepts(nodes=True)
def block(arrays: ArrayLike | Sequence[Any]) -> Array:
    """Assemble an array from nested lists of blocks.

    The innermost lists are joined along the last axis, the lists around them along the second last, and so on.

    Args:
        arrays: Nested lists of arrays, all of the same depth.

    Returns:
        Assembled array.

    Example:
        >>> xnp.block([[xnp.eye(2), xnp.zeros((2, 1))], [xnp.ones((1, 3))]])
        Array([[1., 0., 0.],
               [0., 1., 0.],
               [1., 1., 1.]], dtype=float32)
    """
    def depth(x):
        if x is None or isinstance(x, tuple):
            raise ValueError(f"numpy.block takes nested lists of arrays, got a {type(x).__name__} in them. Use only lists.")
        if not isinstance(x, list):
            return 0
        depths = set(map(depth, x))
        if len(depths) != 1:
            found = f"lists of different depths {sorted(depths)}" if depths else "an empty list"
            raise ValueError(f"numpy.block takes lists that are nested equally deep, got {found}.")
        return 1 + depths.pop()

    levels = depth(arrays)

    def join(x, level):
        if not isinstance(x, list):
            return x
        blocks = [join(y, level + 1) for y in x]
        ranks = [np.ndim(y) for y in blocks]
        rank = max(*ranks, levels)
        blocks = [y if r == rank else reshape(y, (1,) * (rank - r) + np.shape(y)) for y, r in zip(blocks, ranks)]
        return concatenate(promote_dtypes(*map(unwrap, blocks)), axis=level - levels)

    return join(arrays, 0) if levels else asarray(arrays)


@library(static="axis")
@accepts(objects=True)
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Append values to an array.

    The result is a new array. To collect many values, append them to a list and join them once.

    Args:
        arr: Array.
        values: Array to append.
        axis: Axis to join along. None joins the flattened arrays.

    Returns:
        Joined array.

    Example:
        >>> xnp.append(xnp.array([1, 2]), 3)
        Array([1, 2, 3], dtype=int32)
    """
    check_arraylike("append", arr, values)
    return concatenate(promote_dtypes(unwrap(arr), unwrap(values)), axis)


def _atleast(rank, details, example, widen):
    def function(*arys: ArrayLike) -> Array | tuple[Array, ...]:
        check_arraylike(f"atleast_{rank}d", *arys)
        arrays = [asarray(unwrap_node(x)) for x in arys]
        results = [x if np.ndim(x) >= rank else widen(x) for x in arrays]
        return results[0] if len(results) == 1 else tuple(results)

    function.__name__ = function.__qualname__ = f"atleast_{rank}d"
    function.__doc__ = f"""Return arrays with at least {rank} dimension{"s" if rank > 1 else ""}.

{details} Other arrays are returned unchanged.

Args:
    arys: Arrays or scalars.

Returns:
    The array, or a tuple of arrays for several arguments.

Example:
    >>> xnp.atleast_{rank}d(xnp.array([1, 2])).shape
    {example}
"""
    return library(accepts(nodes=True)(function))


atleast_1d = _atleast(1, "Scalars become vectors of one element.", (2,), lambda x: reshape(x, (1,)))
atleast_2d = _atleast(2, "Vectors become rows, scalars matrices of one element.", (1, 2), lambda x: (
    reshape(x, (1, -1)) if x.size else reshape(x, (1, 0))))
atleast_3d = _atleast(3, "Vectors of size n get the shape (1, n, 1), matrices a trailing axis, scalars the shape (1, 1, 1).",
                      (1, 2, 1), lambda x: reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1)}.get(x.ndim, (*x.shape, 1))))


# Splitting


def _as_int(name, n, meaning):
    try:
        return operator.index(n)
    except TypeError:
        if isinstance(n, tracing.Tracer):
            raise
        raise TypeError(f"numpy.{name} needs integers as {meaning}, got {n!r}.") from None


def _split(name, ary, indices_or_sections, axis, even):
    check_arraylike(name, ary)
    ary = unwrap_node(ary)
    shape, sections = np.shape(ary), indices_or_sections
    axis = canonical_axis(axis, len(shape), f"numpy.{name}")
    n = shape[axis]
    if type(sections) is not int and (isinstance(sections, (tuple, list)) or np.ndim(sections)):
        bounds = [0, *[i if is_symbolic_dim(i) else _as_int(name, i, "split positions") for i in sections], n]
        bounds = [min_dim(max_dim(b + n, 0) if b < 0 else b, n) for b in bounds]
    else:
        if isinstance(sections, (float, np.floating, ArrayImpl)) and sections == int(sections):
            sections = int(sections)
        if is_symbolic_dim(sections):
            raise ValueError(f"numpy.{name} does not support a symbolic number of sections, got {sections}: it returns a list "
                             f"of so many arrays. Give the number, or reshape.")
        sections = _as_int(name, sections, "number of sections")
        if sections < 1 or (even and n % sections):
            raise ValueError(f"numpy.{name} cannot split axis {axis} of size {n} into {sections} equal parts.")
        base, extra = divmod(n, sections)
        bounds = list(accumulate([base + 1] * extra + [base] * (sections - extra), initial=0))
    return _split_kernel(ary, tuple(bounds), axis)


@library(static=("bounds", "axis"), name="split")
def _split_kernel(ary, bounds, axis):
    ary = unwrap(ary)
    dims = np.shape(ary)
    if all(start <= stop for start, stop in zip(bounds, bounds[1:])):
        return list(split_p.bind(ary, sizes=tuple(np.diff(bounds).tolist()), axis=axis))
    results = []  # decreasing bounds give empty arrays
    for start, limit in zip(bounds, bounds[1:]):
        starts, limits = [0] * len(dims), list(dims)
        starts[axis], limits[axis] = start, max(start, limit)
        results.append(slicing.slice(ary, starts, limits))
    return results


@library(static=None)
def split(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0) -> list[Array]:
    """Split an array along an axis.

    Args:
        ary: Array.
        indices_or_sections: Number of equal sections, which must divide the size, or the positions to split at.
        axis: Axis to split along.

    Returns:
        List of arrays.

    Example:
        >>> xnp.split(xnp.arange(4), [1, 3])
        [Array([0], dtype=int32), Array([1, 2], dtype=int32), Array([3], dtype=int32)]
    """
    ary = unwrap(ary)
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike, axis: int = 0) -> list[Array]:
    """Split an array along an axis into sections whose sizes may differ by one.

    Args:
        ary: Array.
        indices_or_sections: Number of sections, the longer ones first, or the positions to split at.
        axis: Axis to split along.

    Returns:
        List of arrays.

    Example:
        >>> xnp.array_split(xnp.arange(5), 2)
        [Array([0, 1, 2], dtype=int32), Array([3, 4], dtype=int32)]
    """
    ary = unwrap(ary)
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """Split an array along the first axis.

    Args:
        ary: Array of at least two dimensions.
        indices_or_sections: Number of equal sections, or the positions to split at.

    Returns:
        List of arrays.

    Example:
        >>> xnp.vsplit(xnp.array([[1, 2], [3, 4]]), 2)
        [Array([[1, 2]], dtype=int32), Array([[3, 4]], dtype=int32)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """Split an array along the second axis, a vector along the first.

    Args:
        ary: Array.
        indices_or_sections: Number of equal sections, or the positions to split at.

    Returns:
        List of arrays.

    Example:
        >>> xnp.hsplit(xnp.array([[1, 2], [3, 4]]), 2)
        [Array([[1],
               [3]], dtype=int32), Array([[2],
               [4]], dtype=int32)]
    """
    ary = unwrap(ary)
    return _split("hsplit", ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1, True)


def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | ArrayLike) -> list[Array]:
    """Split an array along the third axis.

    Args:
        ary: Array of at least three dimensions.
        indices_or_sections: Number of equal sections, or the positions to split at.

    Returns:
        List of arrays.

    Example:
        >>> [part.shape for part in xnp.dsplit(xnp.ones((1, 2, 4)), [1])]
        [(1, 2, 1), (1, 2, 3)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, True)


# Reordering


@library(static="axis")
@accepts(objects=True, lists="axis")
def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """Reverse the order of elements along axes.

    Args:
        m: Array.
        axis: Axis or axes to reverse. Default: all.

    Returns:
        Array of the shape of `m`.

    Example:
        >>> xnp.flip(xnp.array([[1, 2], [3, 4]]), axis=1)
        Array([[2, 1],
               [4, 3]], dtype=int32)
    """
    m = unwrap(m)
    check_arraylike("flip", m)
    return shapes.rev(m, range(np.ndim(m)) if axis is None else canonical_axes(axis, np.ndim(m), "numpy.flip", TypeError))


def fliplr(m: ArrayLike) -> Array:
    """Reverse the order of elements along the second axis.

    Args:
        m: Array of at least two dimensions.

    Returns:
        Array of the shape of `m`.

    Example:
        >>> xnp.fliplr(xnp.array([[1, 2], [3, 4]]))
        Array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """Reverse the order of elements along the first axis.

    Args:
        m: Array of at least one dimension.

    Returns:
        Array of the shape of `m`.

    Example:
        >>> xnp.flipud(xnp.array([[1, 2], [3, 4]]))
        Array([[3, 4],
               [1, 2]], dtype=int32)
    """
    return flip(m, 0)


@library(static=("k", "axes"))
@accepts(objects=True)
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate an array by 90 degrees in the plane of two axes.

    Args:
        m: Array of at least two dimensions.
        k: Number of rotations. Positive numbers rotate from the first towards the second axis, negative ones back.
        axes: Axes of the plane.

    Returns:
        Rotated array.

    Example:
        >>> xnp.rot90(xnp.array([[1, 2], [3, 4]]))
        Array([[2, 4],
               [1, 3]], dtype=int32)
    """
    if isinstance(k, tracing.Tracer):
        raise ValueError(f"numpy.rot90 needs k while it is traced, got {errors.described(k)}: non-hashable static arguments "
                         "are not supported. Make the argument static (static_argnums).")
    a, b = canonical_axes(axes, np.ndim(m), "rot90")
    k = k % 4  # not `k %= 4`, which would change a NumPy array in place
    if k == 0:
        return asarray(m)
    if k == 2:
        return flip(flip(m, a), b)
    order = list(range(np.ndim(m)))
    order[a], order[b] = order[b], order[a]
    return transpose(flip(m, b), order) if k == 1 else flip(transpose(m, order), b)


def _check_rolled_axes(a, axes) -> None:
    """Raise an error if a rolled axis is sharded: elements would move between devices."""
    aval = tracing.aval_of(a)
    if aval.explicit_sharding is None:
        return
    entries = aval.explicit_sharding.spec.padded(aval.ndim)
    for i in axes:
        if entries[i] is not None:
            raise errors.ShardingTypeError(
                f"numpy.roll of an array of type {aval} along axis {i}, which is sharded over {entries[i]!r}: rolled axes must "
                f"be unsharded. Unshard it first, with reshard.")


@library(static=("axis", "flat"), name="roll")
def _roll_kernel(a, shift, axis, flat):
    """Roll by a run-time amount: slice the array concatenated with itself."""
    a = unwrap(a)
    if flat:
        return reshape(_roll_kernel(ravel(a), shift, axis, False), np.shape(a))
    _check_rolled_axes(a, axis)
    for s, i in zip(shift, axis):
        n = np.shape(a)[i]
        if n == 0:
            continue
        start = rem_(sub(size_scalar(n, np.int32), _mod(s, n)), size_scalar(n, np.int32))
        doubled = slicing.concatenate_p.bind(a, a, dimension=i)
        starts = [np.int32(0)] * np.ndim(a)
        starts[i] = start
        a = dynamic_slicing.dynamic_slice_p.bind(doubled, *starts, slice_sizes=np.shape(a))
    return a


@library(static=("shifts", "axes", "flat"), name="roll")
def _rotate_kernel(a, shifts, axes, flat):
    """Roll by static amounts."""
    a = unwrap(a)
    if flat:
        return reshape(_rotate_kernel(ravel(a), shifts, axes, False), np.shape(a))
    _check_rolled_axes(a, axes)
    for s, i in zip(shifts, axes):
        a = rotate(a, s, i)
    return a


def _mod(x, n):
    """Return the nonnegative remainder of an integer of any dtype, as an int32."""
    d = tracing.aval_of(x).dtype
    d = d if d.itemsize > 4 or dtypes.is_unsigned(d) and d.itemsize == 4 else dtypes.int32
    n = size_scalar(n, d)
    r = rem_(as_type(x, d, False), n)
    return as_type(r if dtypes.is_unsigned(d) else where(lt(r, d.type(0)), add(r, n), r), dtypes.int32, False)


def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """Roll elements along axes.

    Elements that are shifted beyond the end re-enter at the start.

    Args:
        a: Array.
        shift: Number of positions to shift by, for all axes or for each of them. May be traced.
        axis: Axis or axes to roll along. None rolls the flattened array and restores the shape.

    Returns:
        Array of the shape of `a`.

    Example:
        >>> xnp.roll(xnp.arange(5), 2)
        Array([3, 4, 0, 1, 2], dtype=int32)
    """
    a = unwrap(a)
    check_arraylike("roll", a)
    if type(shift) is not int and tracing.is_convertible(shift):
        shift = unwrap_node(shift)
    flat = axis is None
    rank = 1 if flat else a.ndim if isinstance(a, ArrayImpl) else np.ndim(a)  # Hot: np.ndim costs a microsecond
    axes = canonical_axes(0 if flat else axis, rank, "numpy.roll") if not isinstance(axis, (tuple, list)) else tuple(
        [canonical_axis(i, rank, "numpy.roll") for i in axis])
    shifts = (shift,) * len(axes) if type(shift) is int else tuple(shift) if isinstance(shift, (tuple, list)) else (
        tuple(shift) if np.ndim(shift) == 1 else (shift,) * len(axes))
    if len(shifts) != len(axes):
        if len(shifts) != 1 and len(axes) != 1:
            raise ValueError(f"numpy.roll got {len(shifts)} shifts for {len(axes)} axes.")
        shifts, axes = shifts * len(axes) if len(shifts) == 1 else shifts, axes * len(shifts) if len(axes) == 1 else axes
    if (tracing.is_tracing() or isinstance(a, KeyArray) or isinstance(a, ArrayImpl) and a.sharding.num_devices > 1) and all(
            [isinstance(s, (int, np.integer)) for s in shifts]):
        return _rotate_kernel(a, tuple(map(int, shifts)), axes, flat)
    try:
        return _roll_kernel(a, shifts, axes, flat)  # one executable for all shifts
    except OverflowError:  # Python ints that no integer dtype holds
        sizes = [np.size(a)] if flat else [np.shape(a)[i] for i in axes]
        return _roll_kernel(a, tuple([s % max(n, 1) if isinstance(s, int) else s for s, n in zip(shifts, sizes)]), axes, flat)
