"""`repeat` and `tile`."""

from __future__ import annotations

import numpy as np

from xlafront.core import errors, tracing
from xlafront.lax import shapes
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.creation import arange
from xlafront.numpy.indexing import take
from xlafront.numpy.manipulation import broadcast_to, ravel
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.reductions import cumsum
from xlafront.numpy.searching import searchsorted
from xlafront.staging.library import library


def repeat(a, repeats, axis=None, *, total_repeat_length=None, out_sharding=None):
    """Repeat each element along an axis, all alike or each its own number of times.

    Inside a traced function, varying repeats need `total_repeat_length`.
    """
    a = unwrap(a)
    check_arraylike("repeat", a)
    if out_sharding is not None:
        return with_out_sharding("xnp.repeat", out_sharding, lambda a: repeat(
            a, repeats, axis, total_repeat_length=total_repeat_length), (a,))
    if axis is None:
        a, axis = ravel(a), 0
    axis = shapes.canonical_axis(axis, np.ndim(a), "xnp.repeat")
    n = np.shape(a)[axis]
    if total_repeat_length is None:
        if isinstance(repeats, tracing.Tracer):
            raise errors.ConcretizationTypeError(
                repeats, "It is the argument 'repeats' of xnp.repeat, which decides the shape of the result: give "
                "total_repeat_length as well.")
        counts = np.asarray(repeats)
        if counts.ndim == 0 or counts.size == 1:
            return _repeat_kernel(a, int(counts.reshape(())), axis)
        if counts.shape != (n,):
            raise ValueError(f"xnp.repeat needs one number, or one for each of the {n} elements along axis {axis}; got "
                             f"{counts.shape[0]}.")
        return take(a, np.repeat(np.arange(n), counts), axis=axis)
    counts = broadcast_to(repeats, (n,)) if np.ndim(repeats) == 0 or np.size(repeats) == 1 else repeats
    source = searchsorted(cumsum(counts), arange(total_repeat_length), side="right")
    return take(a, source, axis=axis, mode="clip")


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


def tile(A, reps):
    """Lay copies of an array side by side."""
    A = unwrap(A)
    check_arraylike("tile", A)
    return _tile_kernel(A, shapes.static_shape("tile", reps))
