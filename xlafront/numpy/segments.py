"""Segment reductions: sums, products and extrema of the elements of an array that share a segment id."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.api.vmap import vmap
from xlafront.core import errors, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dimension_numbers import GatherScatterMode
from xlafront.lax.reductions import highest, lowest
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.promotion import check_arraylike
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size

# By function: method of `x.at[ids]`, initial value of a segment by dtype, reduction over buckets, accepted dtypes.
_KINDS = {
    "segment_sum": ("add", lambda d: 0, "sum", "int float complex"),
    "segment_prod": ("multiply", lambda d: 1, "prod", "int float complex"),
    "segment_max": ("max", lowest, "max", "any"),
    "segment_min": ("min", highest, "min", "any"),
}


@library(static=("name", "count", "indices_are_sorted", "unique_indices", "bucket_size", "mode"), name="segments")
def _kernel(data, segment_ids, name, count, indices_are_sorted, unique_indices, bucket_size, mode):
    update, identity, reduction, accepted = _KINDS[name]
    data, segment_ids = xnp.asarray(data), xnp.asarray(segment_ids)
    check_dtype(name, accepted, data.dtype)
    start = np.asarray(identity(data.dtype)).astype(data.dtype)

    def reduce_segments(data, ids):
        result = xnp.full((count, *data.shape[1:]), start)
        return getattr(result.at[ids], update)(
            data, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode,
            wrap_negative_indices=False)

    if not count:
        return xnp.full((0, *data.shape[1:]), start)
    if bucket_size is None:
        return reduce_segments(data, segment_ids)
    size = data.shape[0]
    count_of_buckets = (size + bucket_size - 1) // bucket_size
    missing = count_of_buckets * bucket_size - size
    data = xnp.concatenate([data, xnp.full((missing, *data.shape[1:]), start)])
    segment_ids = xnp.concatenate([segment_ids, xnp.full((missing,), count, segment_ids.dtype)])
    buckets = vmap(reduce_segments)(data.reshape(count_of_buckets, bucket_size, *data.shape[1:]),
                                    segment_ids.reshape(count_of_buckets, bucket_size))
    return getattr(xnp, reduction)(buckets, axis=0).astype(data.dtype)


def _count(name: str, segment_ids, num_segments) -> int:
    if num_segments is not None:
        count = as_size(num_segments)
        if count < 0:
            raise ValueError(f"{name} needs a non-negative num_segments, got {count}.")
        return count
    if isinstance(segment_ids, tracing.Tracer):
        raise errors.ConcretizationTypeError(segment_ids, f"The number of segments, and so the shape of the result of {name}, "
                                                          f"depends on it. Give num_segments, a Python int.")
    if not np.size(segment_ids):
        raise ValueError(f"{name} cannot infer num_segments from empty segment_ids: a maximum of a zero-size array has no "
                         f"identity. Give num_segments.")
    return max(0, int(np.max(np.asarray(segment_ids))) + 1)


def _dispatch(name, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding):
    check_arraylike(name, data, segment_ids)
    if np.ndim(segment_ids) and np.shape(data)[:1] not in (np.shape(segment_ids)[:1], (1,), ()):
        raise ValueError(f"{name} needs a segment id for each element along the first dimension of data: shapes "
                         f"{np.shape(data)} and {np.shape(segment_ids)} do not broadcast.")
    if tracing.aval_of(segment_ids).dtype == bool:
        raise ValueError(f"the segment_ids of {name} must be integers, got booleans. Convert them with astype(int).")
    if mode is not None:
        mode = GatherScatterMode.from_any(mode)
    if bucket_size is not None and as_size(bucket_size) < 1:
        raise ZeroDivisionError(f"{name} needs a bucket_size of at least 1, got {bucket_size}: buckets of zero elements would "
                                f"need a division by zero.")
    arguments = (name, _count(name, segment_ids, num_segments), bool(indices_are_sorted), bool(unique_indices),
                 None if bucket_size is None else as_size(bucket_size), mode)
    return with_out_sharding(name, out_sharding, _kernel, (data, segment_ids), *arguments)


def segment_sum(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                out_sharding: Any = None) -> Array:
    """Sum the elements of each segment.

    Args:
        data: The array, which is reduced over its first dimension.
        segment_ids: The segment of each element along the first dimension. Ids may repeat, in any order. Elements with
            ids out of bounds are dropped.
        num_segments: Number of segments, required under `jit`. Default: the greatest id plus 1.
        indices_are_sorted, unique_indices: Promises about the ids that may make the operation faster.
        bucket_size: If given, sum this many elements at a time and then the partial sums, which reduces rounding
            errors.
        mode: Treatment of ids out of bounds: "drop" (default), "clip" or "promise_in_bounds".
        out_sharding: Sharding of the result.

    Returns:
        An array with the sums of segments along its first dimension, 0 for empty segments.

    Example:
        >>> ops.segment_sum(xnp.array([1.0, 2.0, 3.0]), xnp.array([0, 0, 1]))
        Array([3., 3.], dtype=float32)
    """
    return _dispatch("segment_sum", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)


def segment_prod(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                 unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                 out_sharding: Any = None) -> Array:
    """Multiply the elements of each segment.

    Args:
        data: The array, which is reduced over its first dimension.
        segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding: See
            `segment_sum`.

    Returns:
        An array with the products of segments along its first dimension, 1 for empty segments.

    Example:
        >>> ops.segment_prod(xnp.array([2.0, 3.0, 4.0]), xnp.array([0, 0, 1]))
        Array([6., 4.], dtype=float32)
    """
    return _dispatch("segment_prod", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)


def segment_max(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                out_sharding: Any = None) -> Array:
    """Compute the maximum of each segment.

    Args:
        data: The array, which is reduced over its first dimension.
        segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding: See
            `segment_sum`.

    Returns:
        An array with the maxima of segments along its first dimension; the lowest value of the dtype (minus infinity)
        for empty segments.

    Example:
        >>> ops.segment_max(xnp.array([2.0, 3.0, 4.0]), xnp.array([0, 0, 1]))
        Array([3., 4.], dtype=float32)
    """
    return _dispatch("segment_max", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)


def segment_min(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                out_sharding: Any = None) -> Array:
    """Compute the minimum of each segment.

    Args:
        data: The array, which is reduced over its first dimension.
        segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding: See
            `segment_sum`.

    Returns:
        An array with the minima of segments along its first dimension; the highest value of the dtype (infinity) for
        empty segments.

    Example:
        >>> ops.segment_min(xnp.array([2.0, 3.0, 4.0]), xnp.array([0, 0, 1]))
        Array([2., 4.], dtype=float32)
    """
    return _dispatch("segment_min", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)
