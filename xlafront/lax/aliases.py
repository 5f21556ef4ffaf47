"""Functions of `lax` that are compositions of its other operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import elementwise, shapes
from xlafront.lax.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from xlafront.lax.elementwise_functions import select_n
from xlafront.lax.indexing import gather
from xlafront.lax.slicing import concatenate
from xlafront.symbolic.dimensions import as_size, is_symbolic


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Select elements from one of two arrays by a condition, without broadcasting.

    Args:
        pred: Array of booleans, of the shape of the cases, or a scalar.
        on_true, on_false: Arrays of one shape and dtype.

    Returns:
        An array with elements of `on_true` where `pred` is True, and of `on_false` where it is False.

    Example:
        >>> x = xnp.array([3, -4])
        >>> lax.select(x > 0, x, -x)
        Array([3, 4], dtype=int32)
    """
    return select_n(pred, on_false, on_true)


def dtype(x: Any) -> Any:
    """Return the dtype of an array or a scalar as an operand, or the canonical form of a dtype.

    Args:
        x: An array, a scalar, a dtype, a scalar type, or the name of a dtype.

    Returns:
        A NumPy dtype or an extended dtype.

    Example:
        >>> lax.dtype(1.0)
        dtype('float32')
    """
    if isinstance(x, (str, type, np.dtype)):
        return dtypes.canonicalize_dtype(x)
    return tracing.aval_of(x).dtype


def broadcast_shapes(*arrays_shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to, by NumPy's rules.

    Args:
        arrays_shapes: Shapes.

    Returns:
        The broadcast shape.

    Example:
        >>> lax.broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    listed = [shapes.static_shape("broadcast_shapes", s) for s in arrays_shapes]
    for shape in listed:
        shapes.check_sizes("broadcast_shapes", shape)
    return shapes.broadcast_shapes("broadcast_shapes", *listed)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading dimensions of size 1, up to a rank.

    Args:
        x: An array.
        rank: Rank of the result; an array of this rank or more is returned unchanged.

    Returns:
        An array with the elements of `x`.

    Example:
        >>> lax.broadcast_to_rank(xnp.ones(3), 2).shape
        (1, 3)
    """
    return shapes.expand_dims(x, tuple(range(rank - np.ndim(x)))) if np.ndim(x) < rank else elementwise.as_array(x)


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge several successive dimensions into one.

    Args:
        operand: An array.
        start_dimension: The first dimension to merge.
        stop_dimension: The end of the range, which is excluded. Default: the rank of the array.

    Returns:
        The reshaped array.

    Example:
        >>> lax.collapse(xnp.ones((2, 3, 4)), 0, 2).shape
        (6, 4)
    """
    shape = np.shape(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if start > stop:
        raise ValueError(f"collapse needs a range of dimensions of shape {shape}, got {start_dimension} to "
                         f"{stop_dimension}.")
    return shapes.reshape(operand, (*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array along its dimensions.

    Args:
        operand: An array.
        reps: Number of repetitions along each dimension.

    Returns:
        The tiled array.

    Example:
        >>> lax.tile(xnp.arange(3), (2,))
        Array([0, 1, 2, 0, 1, 2], dtype=int32)
    """
    return shapes.tile_p.bind(operand, reps=tuple(map(as_size, reps)))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Broadcast an array to the shape of another, by NumPy's rules.

    Args:
        arr: An array. Its dimensions become the last ones of the result.
        like_arr: An array with the shape of the result.

    Returns:
        An array of the dtype of `arr`.

    Example:
        >>> lax.broadcast_like(xnp.arange(2), xnp.zeros((3, 2))).shape
        (3, 2)
    """
    own, like = tracing.aval_of(arr, "broadcast_like").shape, tracing.aval_of(like_arr, "broadcast_like")
    shape = like.shape
    if len(own) > len(shape):
        raise ValueError(f"broadcast_like cannot broadcast an array of shape {own} to {shape}, a shape with fewer dimensions.")
    last = shape[len(shape) - len(own):]
    if any(n not in (1, m) for n, m in zip(own, last)):
        raise ValueError(f"broadcast_like got incompatible shapes: {own} does not broadcast to {shape}.")
    return shapes.broadcast_in_dim(arr, shape, range(len(shape) - len(own), len(shape)), out_sharding=like.explicit_sharding)


def shape_as_value(shape: Sequence[int]) -> Array | np.ndarray:
    """Return a shape as a vector of int32.

    Args:
        shape: Sizes, which may be symbolic.

    Returns:
        A vector with an element for each size.

    Example:
        >>> lax.shape_as_value((2, 3)).tolist()
        [2, 3]
    """
    sizes = [as_size(n) for n in shape]
    if is_symbolic(sizes):
        return concatenate([shapes.broadcast_in_dim(elementwise.size_scalar(n, np.int32), (1,), ()) for n in sizes], 0)
    return np.array(sizes, np.int32)


def index_take(src: ArrayLike, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Take the slices of an array at indices into some of its axes.

    Args:
        src: An array.
        idxs: For each of `axes`, a vector of indices, which are taken modulo the size of the axis.
        axes: The indexed axes, which the result does not have.

    Returns:
        The slices, stacked along a new leading axis.

    Example:
        >>> lax.index_take(xnp.arange(6).reshape(2, 3), (np.array([0, 1]), np.array([2, 0])), (0, 1))
        Array([2, 3], dtype=int32)
    """
    shape, axes = np.shape(src), tuple(axes)
    if len(idxs) != len(axes):
        raise TypeError(f"index_take needs as many vectors of indices as axes: {len(idxs)} and {len(axes)} must be "
                        f"equal.")
    columns = []
    for index, axis in zip(idxs, axes):
        aval = tracing.aval_of(index, "index_take")
        if aval.dtype.kind not in "iu":
            raise ValueError(f"the indices of index_take must have an integer type, got {aval.dtype}.")
        if not aval.ndim:
            raise ValueError("index_take needs vectors of indices, got a scalar: axis 1 is out of bounds for its indices.")
        size = elementwise.size_scalar(shape[axis], aval.dtype)
        rest = elementwise.rem_(index, size)
        wrapped = elementwise.where(elementwise.lt(rest, aval.dtype.type(0)), elementwise.add(rest, size), rest)
        columns.append(shapes.expand_dims(wrapped, (1,)))
    if any(a not in range(len(shape)) for a in axes):
        raise TypeError(f"index_take got axes {axes}, which are out of range for the {len(shape)} dimensions of shape {shape}.")
    sizes = [1 if i in axes else n for i, n in enumerate(shape)]
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) - len(axes) + 1)), axes, axes)
    return gather(src, concatenate(columns, 1), numbers, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS)
