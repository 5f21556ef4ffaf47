"""`repeat` and `tile`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import shapes
from xlafront.lax.elementwise import min_, size_scalar
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.creation import arange
from xlafront.numpy.indexing import take
from xlafront.numpy.manipulation import broadcast_to, ravel
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.reductions import cumsum
from xlafront.numpy.searching import searchsorted
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *, total_repeat_length: int | None = None,
           out_sharding: Any = None) -> Array:
    """Repeat each element along an axis.

    Args:
        a: The array.
        repeats: Number of repetitions: one for all elements, or one for each.
        axis: Axis to repeat along. Default: repeat the elements of the flattened array.
        total_repeat_length: Size of the result along the axis. Required if `repeats` is traced. A longer result is
            truncated, a shorter one padded with the last element.
        out_sharding: Sharding of the result.

    Returns:
        The array with repeated elements.

    Raises:
        ConcretizationTypeError: If `repeats` is traced and `total_repeat_length` is None.

    Example:
        >>> xnp.repeat(xnp.array([1, 2]), xnp.array([2, 3]))
        Array([1, 1, 2, 2, 2], dtype=int32)
    """
    a = unwrap(a)
    check_arraylike("repeat", a, repeats)
    if out_sharding is not None:
        return with_out_sharding("numpy.repeat", out_sharding, lambda a, repeats: repeat(
            a, repeats, axis, total_repeat_length=total_repeat_length), (a, repeats))
    if axis is None or not np.ndim(a):
        a, axis = ravel(a), 0
    axis = shapes.canonical_axis(axis, np.ndim(a), "numpy.repeat")
    n = np.shape(a)[axis]
    if total_repeat_length is None:
        if isinstance(repeats, tracing.Tracer):
            raise errors.ConcretizationTypeError(
                repeats, "The argument 'repeats' of numpy.repeat determines the shape of the result: give total_repeat_length "
                "as well.")
        if is_symbolic_dim(repeats):
            return _repeat_kernel(a, repeats, axis)
        counts = np.asarray(repeats)
        if counts.size and not np.can_cast(counts.dtype, np.int64, "same_kind"):
            raise TypeError(f"numpy.repeat needs integers as repeats, got dtype {counts.dtype}.")
        if counts.ndim == 0 or counts.size == 1:
            return _repeat_kernel(a, int(counts.reshape(())), axis)
        if counts.shape != (n,):
            raise ValueError(f"numpy.repeat needs one count, or one for each of the {n} elements along axis {axis}; got "
                             f"{counts.shape[0]}.")
        return take(a, np.repeat(np.arange(n), counts), axis=axis)
    counts = broadcast_to(repeats, (n,))
    source = searchsorted(cumsum(counts), arange(total_repeat_length), side="right")
    return take(a, min_(size_scalar(n - 1, source.dtype), source), axis=axis, mode="clip")


@library(static=("count", "axis"), name="repeat")
def _repeat_kernel(a, count, axis):
    a = unwrap(a)
    dims = np.shape(a)
    wide = shapes.broadcast_in_dim(a, (*dims[:axis + 1], count, *dims[axis + 1:]), [i + (i > axis) for i in range(len(dims))])
    return shapes.reshape_to(wide, (*dims[:axis], dims[axis] * count, *dims[axis + 1:]))


@library(static="reps", name="tile")
def _tile_kernel(A, reps):
    A = unwrap(A)
    rank = max(len(reps), np.ndim(A))
    dims = (1,) * (rank - np.ndim(A)) + np.shape(A)
    reps = (1,) * (rank - len(reps)) + reps
    return shapes.tile_p.bind(shapes.reshape_to(A, dims), reps=reps)


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """Concatenate copies of an array.

    Args:
        A: The array.
        reps: Number of copies along each axis. Fewer numbers than axes apply to the last axes.

    Returns:
        The tiled array.

    Example:
        >>> xnp.tile(xnp.array([1, 2]), (2, 2))
        Array([[1, 2, 1, 2],
               [1, 2, 1, 2]], dtype=int32)
    """
    A = unwrap(A)
    check_arraylike("tile", A)
    return _tile_kernel(A, shapes.static_shape("tile", reps))
