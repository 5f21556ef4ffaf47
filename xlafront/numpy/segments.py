"""Sums, products and extremes of the elements of an array that belong to one segment."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import errors, tracing
from xlafront.core.dimensions import as_size
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.arguments import check_dtype
from xlafront.lax.indexing import GatherScatterMode
from xlafront.lax.reductions import highest, lowest
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.promotion import check_arraylike
from xlafront.staging.library import library
from xlafront.transforms.batching.vmap import vmap

# By function: the update of the reference to elements, what each segment starts from, the reduction of buckets, dtypes.
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

    def reduced(data, ids):
        result = xnp.full((count, *data.shape[1:]), start)
        return getattr(result.at[ids], update)(
            data, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode,
            wrap_negative_indices=False)

    if not count:
        return xnp.full((0, *data.shape[1:]), start)
    if bucket_size is None:
        return reduced(data, segment_ids)
    missing = -data.shape[0] % bucket_size
    data = xnp.concatenate([data, xnp.full((missing, *data.shape[1:]), start)])
    segment_ids = xnp.concatenate([segment_ids, xnp.full((missing,), count, segment_ids.dtype)])
    parts = vmap(reduced)(data.reshape(-1, bucket_size, *data.shape[1:]), segment_ids.reshape(-1, bucket_size))
    return getattr(xnp, reduction)(parts, axis=0).astype(data.dtype)


def _count(name: str, segment_ids, num_segments) -> int:
    if num_segments is not None:
        count = as_size(num_segments)
        if count < 0:
            raise ValueError(f"{name} needs a num_segments that is not negative (non-negative), got {count}.")
        return count
    if isinstance(segment_ids, tracing.Tracer):
        raise errors.ConcretizationTypeError(segment_ids, f"It is what {name} counts its segments by: the shape of the result "
                                                          f"depends on it. Give num_segments, a Python int.")
    if not np.size(segment_ids):
        raise ValueError(f"{name} cannot count the segments of no elements: a maximum of a zero-size array has no identity. "
                         f"Give num_segments.")
    return max(0, int(np.max(np.asarray(segment_ids))) + 1)


def _segments(name, data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode, out_sharding):
    check_arraylike(name, data, segment_ids)
    if np.ndim(segment_ids) and np.shape(data)[:1] not in (np.shape(segment_ids)[:1], (1,)):
        raise ValueError(f"{name} needs a number for each element along the first dimension of data: shapes {np.shape(data)} "
                         f"and {np.shape(segment_ids)} do not broadcast.")
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
    """Sums of the elements of each segment.

    - `data`: an array; its first dimension is summed.
    - `segment_ids`: for each element along it the number of its segment. Elements whose number is negative or too large are
      left out. Numbers may repeat and need no order.
    - `num_segments`: how many segments there are; the largest number plus one where it is not given. Under `jit` it must be.
    - `indices_are_sorted`, `unique_indices`: promises about the numbers that may make it faster.
    - `bucket_size`: sum so many elements at a time and these sums afterwards, which is more exact.
    - `mode`: what to do with numbers out of bounds: "drop" (as when it is not given), "clip", "promise_in_bounds".
    - `out_sharding`: how the result is split over devices.

    >>> ops.segment_sum(xnp.array([1.0, 2.0, 3.0]), xnp.array([0, 0, 1]))
    Array([3., 3.], dtype=float32)
    """
    return _segments("segment_sum", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)


def segment_prod(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                 unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                 out_sharding: Any = None) -> Array:
    """Products of the elements of each segment; that of none is 1.

    - `data`: an array; its first dimension is multiplied.
    - `segment_ids`, `num_segments`, `indices_are_sorted`, `unique_indices`, `bucket_size`, `mode`, `out_sharding`: as for
      `segment_sum`.

    >>> ops.segment_prod(xnp.array([2.0, 3.0, 4.0]), xnp.array([0, 0, 1]))
    Array([6., 4.], dtype=float32)
    """
    return _segments("segment_prod", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)


def segment_max(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                out_sharding: Any = None) -> Array:
    """The largest element of each segment; minus infinity (the least number of the dtype) where there is none.

    - `data`: an array; the segments are along its first dimension.
    - `segment_ids`, `num_segments`, `indices_are_sorted`, `unique_indices`, `bucket_size`, `mode`, `out_sharding`: as for
      `segment_sum`.

    >>> ops.segment_max(xnp.array([2.0, 3.0, 4.0]), xnp.array([0, 0, 1]))
    Array([3., 4.], dtype=float32)
    """
    return _segments("segment_max", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)


def segment_min(data: ArrayLike, segment_ids: ArrayLike, num_segments: int | None = None, indices_are_sorted: bool = False,
                unique_indices: bool = False, bucket_size: int | None = None, mode: Any = None,
                out_sharding: Any = None) -> Array:
    """The least element of each segment; infinity (the largest number of the dtype) where there is none.

    - `data`: an array; the segments are along its first dimension.
    - `segment_ids`, `num_segments`, `indices_are_sorted`, `unique_indices`, `bucket_size`, `mode`, `out_sharding`: as for
      `segment_sum`.

    >>> ops.segment_min(xnp.array([2.0, 3.0, 4.0]), xnp.array([0, 0, 1]))
    Array([2., 4.], dtype=float32)
    """
    return _segments("segment_min", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
                     out_sharding)
