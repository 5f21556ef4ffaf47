"""Histograms in one and more dimensions, `bincount` and `digitize`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.base.specs import PartitionSpec
from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import reshard_p
from xlafront.core.typing import Array, ArrayLike, ShardingLike
from xlafront.lax.arguments import named_sharding
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy import host_sorting, reductions, searching
from xlafront.numpy.creation import asarray, astype, full, zeros
from xlafront.numpy.differences import diff
from xlafront.numpy.manipulation import concatenate, ravel, reshape
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact, unwrap, unwrap_node
from xlafront.numpy.spaces import linspace
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size


@library(static=("right", "method"))
@accepts(nodes=True)
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """Return the index of the bin of each value: 0 below the first edge, the number of edges above the last.

    Args:
        x: The values.
        bins: The bin edges, an increasing or decreasing vector.
        right: If True, bins include their right edge instead of the left one.
        method: See `searchsorted`.

    Returns:
        The bin indices as int32, of the shape of `x`.

    Example:
        >>> xnp.digitize(xnp.array([0.5, 1.0, 9.0]), xnp.array([0.0, 1.0, 2.0]))
        Array([1, 2, 3], dtype=int32)
    """
    check_arraylike("digitize", x, bins)
    tracing.aval_of(bins)  # raises for values that would need a conversion
    x, bins = promote_dtypes(unwrap(x), asarray(bins))
    if bins.ndim != 1:
        raise ValueError(f"numpy.digitize needs bins in one dimension, got shape {bins.shape}.")
    side = "right" if not right else "left"
    if bins.shape[0] == 0:
        return zeros(np.shape(x), np.int32)
    method = method or "scan"
    increasing = bins[-1] >= bins[0]
    found = searching.searchsorted(searching.where(increasing, bins, bins[::-1]), x, side, method=method)
    return searching.where(increasing, found, bins.shape[0] - found)


def histogram_bin_edges(a: ArrayLike, bins: int | ArrayLike = 10, range: Sequence[ArrayLike] | None = None,
                        weights: ArrayLike | None = None) -> Array:
    """Return the edges of bins of equal width over the range of the values.

    Args:
        a: The values.
        bins: The number of bins, or a vector of the edges, which are returned.
        range: The lower and upper end. Default: the minimum and the maximum of the values.
        weights: Ignored; accepted for compatibility with NumPy.

    Returns:
        The edges, one more than there are bins.

    Example:
        >>> xnp.histogram_bin_edges(xnp.array([0.0, 1.0, 4.0]), bins=4)
        Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError(f"numpy.histogram_bin_edges does not support rules for the number of bins, got "
                                  f"bins={bins!r}: give a number or the edges, or use numpy.histogram_bin_edges.")
    check_arraylike("histogram_bin_edges", a, bins)
    a = ravel(asarray(a))
    d = dtypes.to_inexact(a.dtype)
    if np.ndim(bins) == 1:
        return astype(asarray(bins), d)
    if range is None:
        range = (reductions.min(a), reductions.max(a)) if np.size(a) else (0, 1)
    low, high = range
    low, high = astype(asarray(low), d), astype(asarray(high), d)
    same = searching.where(low == high, 0.5, 0.0)
    return linspace(low - same, high + same, int(bins) + 1, dtype=d)


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None,
             out_sharding: Any = None) -> Array:
    """Count the occurrences of each value 0, 1, 2, ...

    Args:
        x: The values, nonnegative integers. Negative ones count as 0.
        weights: Weight of each value. Default: 1.
        minlength: Minimum size of the result.
        length: Size of the result; greater values are dropped. Required while tracing.
        out_sharding: Sharding of the result.

    Returns:
        The counts, or the sums of weights.

    Note:
        NumPy raises an error for negative values.

    Example:
        >>> xnp.bincount(xnp.array([1, 3, 1]))
        Array([0, 2, 0, 1], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding("numpy.bincount", out_sharding, lambda x, weights: bincount(
            x, weights, minlength, length=length), (x, weights))
    check_arraylike("bincount", x)
    x = asarray(x)
    if not dtypes.is_integer(x.dtype) and x.dtype != dtypes.bool_:
        raise TypeError(f"numpy.bincount counts integers: x must have an integer type, got {x.dtype}.")
    if x.ndim != 1:
        raise ValueError(f"numpy.bincount counts the elements of a vector, got shape {x.shape}: use x.ravel().")
    check_arraylike("bincount", *[w for w in (weights,) if w is not None])
    if weights is not None and np.shape(weights) != x.shape:
        raise ValueError(f"numpy.bincount needs a weight for each element of x, whose shape is {x.shape}: the weights have "
                         f"shape {np.shape(weights)}.")
    if length is None:
        if isinstance(x, tracing.Tracer):
            raise errors.ConcretizationTypeError(x, "numpy.bincount needs a static `length` inside a traced function.")
        least = operator.index(minlength)
        values = None if weights is not None else host_sorting.host_buffer(x)
        if values is not None and np.can_cast(values.dtype, np.intp):  # NumPy's loop is faster than XLA's scatter
            counts = np.bincount(np.maximum(values, 0), minlength=max(least, 0))
            return host_sorting.from_host(counts.astype(dtypes.default_dtype(int)), x)
        length = max(least, int(reductions.max(x)) + 1, 1) if x.size else max(least, 0)
    if weights is None:
        weights = dtypes.default_dtype(int).type(1)
    total = zeros(as_size(length), dtypes.dtype(weights))
    return total.at[clip(x, 0, None)].add(weights, mode="drop")


def _edges(a, bins, range, d):
    """Return the bin edges of one dimension as a vector of dtype `d`, in which values are compared."""
    if np.ndim(bins) == 1:
        return astype(asarray(bins), d)
    return astype(histogram_bin_edges(a, bins, range), d)


@library(name="histogram")
def _bin_indices(a, edges):
    """Return the bin index of each value. The last bin includes its right edge; values outside get the number of bins."""
    n = np.shape(edges)[0] - 1
    if n < 1:
        return full(np.shape(a), 0)
    index = searching.searchsorted(edges, a, side="right") - 1
    index = searching.where(PUBLIC["equal"](a, edges[-1]), n - 1, index)
    return searching.where(PUBLIC["less"](index, 0), n, index)


def _bin_count(bins) -> int:
    """Return the number of bins given as an integer."""
    if isinstance(bins, str) or not hasattr(bins, "__index__"):
        raise TypeError(f"the bins of a histogram must be a number or a vector of edges, not another ArrayLike: {bins!r}.")
    return bins.__index__()


def histogram(a: ArrayLike, bins: ArrayLike = 10, range: Sequence[ArrayLike] | None = None, weights: ArrayLike | None = None,
              density: bool | None = None, out_sharding: ShardingLike = None) -> tuple[Array, Array]:
    """Count the values in each of a sequence of bins.

    Args:
        a: The values, which are flattened. Values outside of all bins are not counted.
        bins: The number of bins of equal width, or a vector of bin edges.
        range: The lower and upper end of the bins. Default: the minimum and the maximum of the values.
        weights: Weight of each value, of the shape of `a`.
        density: If True, normalize the counts such that the integral over the bins is 1.
        out_sharding: Sharding of the counts and of the edges over explicit mesh axes. The values may then be sharded.

    Returns:
        A tuple of the counts, as floats, and the bin edges.

    Example:
        >>> xnp.histogram(xnp.array([1, 2, 1]), bins=xnp.array([1, 2, 3]))
        (Array([2., 1.], dtype=float32), Array([1., 2., 3.], dtype=float32))
    """
    weighted = weights is not None
    check_arraylike("histogram", a, *[x for x in (weights,) if weighted])
    if np.ndim(bins) != 1 or isinstance(bins, (list, tuple)):
        check_arraylike("histogram", bins)
        bins = _bin_count(bins)
    if weighted and np.shape(weights) != np.shape(a):
        raise ValueError(f"the weights of numpy.histogram should have the same shape as its values {np.shape(a)}, got "
                         f"{np.shape(weights)}.")
    sharding = named_sharding(out_sharding, "numpy.histogram")
    a, *joint = promote_dtypes_inexact(*[x if sharding is None else _replicated(x, sharding) for x in (
        unwrap(a), *[unwrap(x) for x in (weights,) if weighted])])
    a, d = ravel(a), tracing.aval_of(a).dtype
    edges = _edges(a, bins, range, d)
    weights = ravel(joint[0]) if weighted else d.type(1)
    counts = zeros(max(edges.shape[0] - 1, 0), d)
    if counts.size:
        counts = counts.at[_bin_indices(a, edges)].add(weights, mode="drop")
    if density:
        width = diff(edges)
        counts = counts / width / reductions.sum(counts)
    if sharding is not None:
        counts, edges = (reshard_p.bind(x, dst_sharding=sharding) for x in (counts, edges))
    return counts, edges


def _replicated(x, sharding):
    """Replicate an array over the mesh of a sharding."""
    return reshard_p.bind(x, dst_sharding=sharding.update(spec=PartitionSpec()))


def histogramdd(sample: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] = 10,
                range: Sequence[Sequence[ArrayLike] | None] | None = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, list[Array]]:
    """Count the points in each cell of a multidimensional grid.

    Args:
        sample: The points, one in each row.
        bins: The number of bins of all dimensions, or for each dimension a number or a vector of bin edges.
        range: For each dimension, the lower and upper end of the bins, or None for the minimum and maximum of the
            points.
        weights: Weight of each point.
        density: If True, normalize the counts such that the integral over the grid is 1.

    Returns:
        A tuple of the counts and a list of the bin edges of each dimension.

    Example:
        >>> xnp.histogramdd(xnp.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.9]]), bins=2)[0]
        Array([[1, 0],
               [0, 2]], dtype=int32)
    """
    check_arraylike("histogramdd", sample, *[x for x in (weights,) if x is not None])
    sample = unwrap_node(sample)
    if np.ndim(sample) != 2:
        raise ValueError(f"numpy.histogramdd needs a matrix with a point in each row, got shape {np.shape(sample)}.")
    count, rank = np.shape(sample)
    if weights is not None and np.shape(weights) != (count,):
        raise ValueError(f"the weights of numpy.histogramdd should be a number for each of the {count} points, got shape "
                         f"{np.shape(weights)}.")
    if range is not None and len(range) != rank:
        raise ValueError(
            f"the range of numpy.histogramdd must have a pair for each of the {rank} dimensions, got {len(range)}.")
    if not isinstance(bins, (list, tuple)) and np.ndim(bins) == 0:
        bins = (bins,) * rank
    elif len(bins) != rank:
        raise ValueError(f"numpy.histogramdd needs bins for each dimension of the points, {rank}; got {len(bins)}.")
    if weights is not None:
        weights = promote_dtypes_inexact(unwrap(weights), sample)[0]
    [sample] = promote_dtypes_inexact(sample)
    d = tracing.aval_of(sample).dtype
    edges = [_edges(sample[:, i], b if np.ndim(b) else _bin_count(b), None if range is None else range[i], d)
             for i, b in enumerate(bins)]
    sizes = tuple(e.shape[0] - 1 for e in edges)
    indices = tuple(_bin_indices(sample[:, i], e) for i, e in enumerate(edges))
    weights = dtypes.default_dtype(int).type(1) if weights is None else weights
    counts = zeros(sizes, dtypes.dtype(weights)).at[indices].add(weights, mode="drop")
    if density:
        counts = astype(counts, d) / astype(reductions.sum(counts), d)
        for i, e in enumerate(edges):
            counts = counts / reshape(diff(e), tuple(-1 if j == i else 1 for j in np.arange(rank)))
    return counts, edges


def histogram2d(x: ArrayLike, y: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] = 10,
                range: Sequence[Sequence[ArrayLike] | None] | None = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, Array, Array]:
    """Count the points in each cell of a two-dimensional grid.

    Args:
        x, y: The coordinates of the points, two vectors.
        bins: A number of bins or a vector of edges for both dimensions, or a pair of these.
        range, weights, density: See `histogramdd`.

    Returns:
        A tuple of the counts, the bin edges along x and the bin edges along y.

    Example:
        >>> xnp.histogram2d(xnp.array([0.0, 1.0]), xnp.array([0.0, 3.0]), bins=2)[0]
        Array([[1, 0],
               [0, 1]], dtype=int32)
    """
    check_arraylike("histogram2d", x, y)
    x, y = unwrap_node(x), unwrap_node(y)
    if np.shape(x) != np.shape(y) or np.ndim(x) != 1:
        raise (TypeError if np.ndim(x) == np.ndim(y) == 1 else ValueError)(
            f"numpy.histogram2d needs two vectors of one size, got shapes {np.shape(x)} and {np.shape(y)}.")
    if len(bins) > 2 if isinstance(bins, (list, tuple)) else np.ndim(bins) == 1 and np.shape(bins)[0] > 2:
        bins = (asarray(bins),) * 2
    x, y = promote_dtypes(x, y)
    counts, edges = histogramdd(concatenate([x[:, None], y[:, None]], 1), bins, range, weights, density)
    return counts, edges[0], edges[1]
