"""Counts in bins: histograms in one and more dimensions, `bincount`, `digitize`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import as_size
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy import reductions, searching
from xlafront.numpy.creation import asarray, astype, full, linspace, zeros
from xlafront.numpy.differences import diff
from xlafront.numpy.manipulation import concatenate, ravel, reshape
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, unwrap, unwrap_node
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.library import library


@library(static=("right", "method"))
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin that each value falls into: 0 before the first edge, their number after the last.

    - `x`: the values.
    - `bins`: the edges of the bins, a vector that rises or falls.
    - `right`: whether a bin has its right edge in it, in place of the left one.
    - `method`: as that of `searchsorted`.

    >>> xnp.digitize(xnp.array([0.5, 1.0, 9.0]), xnp.array([0.0, 1.0, 2.0]))
    Array([1, 2, 3], dtype=int32)
    """
    check_arraylike("digitize", x, bins)
    tracing.aval_of(bins)  # refuses what would have to be converted
    bins = asarray(bins)
    if bins.ndim != 1:
        raise ValueError(f"xnp.digitize needs bins in one dimension, got shape {bins.shape}.")
    side = "right" if not right else "left"
    if bins.shape[0] == 0:
        return zeros(np.shape(x), np.int32)
    method = method or "scan"
    rises = bins[-1] >= bins[0]
    found = searching.searchsorted(searching.where(rises, bins, bins[::-1]), x, side, method=method)
    return searching.where(rises, found, bins.shape[0] - found)


def histogram_bin_edges(a: ArrayLike, bins: int | ArrayLike = 10, range: Sequence[ArrayLike] | None = None,
                        weights: ArrayLike | None = None) -> Array:
    """The edges of equally wide bins over the range of the values.

    - `a`: the values.
    - `bins`: how many, or the edges themselves.
    - `range`: lower and upper end, in place of the least and the greatest value.
    - `weights`: not used; NumPy's signature has it.

    >>> xnp.histogram_bin_edges(xnp.array([0.0, 1.0, 4.0]), bins=4)
    Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError(f"xnp.histogram_bin_edges has no rule that finds a number of bins, got bins={bins!r}: give a "
                                  f"number or the edges; numpy.histogram_bin_edges knows such rules.")
    check_arraylike("histogram_bin_edges", a, bins)
    a = ravel(asarray(a))
    d = dtypes.to_inexact(a.dtype)
    if np.ndim(bins) == 1:
        return astype(asarray(bins), d)
    low, high = (reductions.min(a), reductions.max(a)) if range is None else range
    low, high = astype(asarray(low), d), astype(asarray(high), d)
    same = searching.where(low == high, 0.5, 0.0)
    return linspace(low - same, high + same, int(bins) + 1, dtype=d)


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None,
             out_sharding: Any = None) -> Array:
    """How often each value 0, 1, 2, ... occurs.

    - `x`: the values, integers; negative ones count as 0 (NumPy raises an error).
    - `weights`: what each of them counts, 1 without.
    - `minlength`: the least size of the result.
    - `length`: its size, which must be given inside of a traced function; greater values are left out.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.bincount(xnp.array([1, 3, 1]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding("xnp.bincount", out_sharding, lambda x, weights: bincount(
            x, weights, minlength, length=length), (x, weights))
    check_arraylike("bincount", x)
    x = asarray(x)
    if not dtypes.is_integer(x.dtype) and x.dtype != dtypes.bool_:
        raise TypeError(f"xnp.bincount counts integers: x must have an integer type, got {x.dtype}.")
    if x.ndim != 1:
        raise ValueError(f"xnp.bincount counts the elements of a vector, got shape {x.shape}: use x.ravel().")
    check_arraylike("bincount", *[w for w in (weights,) if w is not None])
    if weights is not None and np.shape(weights) != x.shape:
        raise ValueError(f"xnp.bincount needs a weight for each element of x, whose shape is {x.shape}: the weights have shape "
                         f"{np.shape(weights)}.")
    if length is None:
        if isinstance(x, tracing.Tracer):
            raise errors.ConcretizationTypeError(x, "xnp.bincount needs a static `length` inside a traced function.")
        least = operator.index(minlength)
        length = max(least, int(reductions.max(x)) + 1, 1) if x.size else max(least, 0)
    if weights is None:
        weights = dtypes.default_dtype(int).type(1)
    total = zeros(as_size(length), dtypes.dtype(weights))
    return total.at[clip(x, 0, None)].add(weights, mode="drop")


def _edges(a, bins, range, d):
    """The edges of the bins of one dimension, as a vector of the dtype that counting is done in."""
    if np.ndim(bins) == 1:
        return astype(asarray(bins), d)
    return astype(histogram_bin_edges(a, bins, range), d)


@library(name="histogram")
def _places(a, edges):
    """The number of the bin of each value; the last bin has its right edge in it, and outside is the number of bins."""
    n = np.shape(edges)[0] - 1
    if n < 1:
        return full(np.shape(a), 0)
    place = searching.searchsorted(edges, a, side="right") - 1
    place = searching.where(PUBLIC["equal"](a, edges[-1]), n - 1, place)
    return searching.where(PUBLIC["less"](place, 0), n, place)


def _bin_number(bins) -> int:
    """How many bins a user asks for, where not by edges."""
    if isinstance(bins, str) or not hasattr(bins, "__index__"):
        raise TypeError(f"histograms take as bins a number or a vector of edges, not an ArrayLike of any other kind: {bins!r}.")
    return bins.__index__()


def histogram(a: ArrayLike, bins: ArrayLike = 10, range: Sequence[ArrayLike] | None = None, weights: ArrayLike | None = None,
              density: bool | None = None) -> tuple[Array, Array]:
    """How many values fall into each of a row of bins, as floats, and the edges of the bins.

    - `a`: the values, read flat; those outside of all bins are not counted.
    - `bins`: the number of bins of equal width, or a vector of their edges.
    - `range`: the ends of the first and the last bin; the least and the greatest value without.
    - `weights`: what each value counts, of the shape of `a`.
    - `density`: whether to divide, so that the integral over all bins is 1.

    >>> xnp.histogram(xnp.array([1, 2, 1]), bins=xnp.array([1, 2, 3]))
    (Array([2., 1.], dtype=float32), Array([1., 2., 3.], dtype=float32))
    """
    weighted = weights is not None
    check_arraylike("histogram", a, *[x for x in (weights,) if weighted])
    if np.ndim(bins) != 1 or isinstance(bins, (list, tuple)):
        check_arraylike("histogram", bins)
        bins = _bin_number(bins)
    if weighted and np.shape(weights) != np.shape(a):
        raise ValueError(f"the weights of xnp.histogram should have the same shape as its values {np.shape(a)}, got "
                         f"{np.shape(weights)}.")
    a, *joint = promote_dtypes_inexact(unwrap(a), *[unwrap(x) for x in (weights,) if weighted])
    a, d = ravel(a), tracing.aval_of(a).dtype
    edges = _edges(a, bins, range, d)
    weights = ravel(joint[0]) if weighted else d.type(1)
    counts = zeros(max(edges.shape[0] - 1, 0), d)
    if counts.size:
        counts = counts.at[_places(a, edges)].add(weights, mode="drop")
    if density:
        width = diff(edges)
        counts = counts / width / reductions.sum(counts)
    return counts, edges


def histogramdd(sample: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] = 10,
                range: Sequence[Sequence[ArrayLike] | None] | None = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, list[Array]]:
    """How many points fall into each box of a grid, and the edges of the boxes in each dimension.

    - `sample`: the points, a row for each.
    - `bins`: the number of bins in each dimension, or for each of them a number or a vector of edges.
    - `range`: for each dimension the ends of the first and the last bin, or None.
    - `weights`: what each point counts.
    - `density`: whether to divide, so that the integral over the grid is 1.

    >>> xnp.histogramdd(xnp.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.9]]), bins=2)[0]
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    check_arraylike("histogramdd", sample, *[x for x in (weights,) if x is not None])
    sample = unwrap_node(sample)
    if np.ndim(sample) != 2:
        raise ValueError(f"xnp.histogramdd needs a matrix with a point in each row, got shape {np.shape(sample)}.")
    count, rank = np.shape(sample)
    if weights is not None and np.shape(weights) != (count,):
        raise ValueError(f"the weights of xnp.histogramdd should be a number for each of the {count} points, got shape "
                         f"{np.shape(weights)}.")
    if range is not None and len(range) != rank:
        raise ValueError(f"the range of xnp.histogramdd must have a pair for each of the {rank} dimensions, got {len(range)}.")
    if not isinstance(bins, (list, tuple)) and np.ndim(bins) == 0:
        bins = (bins,) * rank
    elif len(bins) != rank:
        raise ValueError(f"xnp.histogramdd needs bins for each dimension of the points, {rank}; got {len(bins)}.")
    [sample] = promote_dtypes_inexact(sample)
    d = tracing.aval_of(sample).dtype
    edges = [_edges(sample[:, i], b if np.ndim(b) else _bin_number(b), None if range is None else range[i], d)
             for i, b in enumerate(bins)]
    sizes = tuple(e.shape[0] - 1 for e in edges)
    places = tuple(_places(sample[:, i], e) for i, e in enumerate(edges))
    weights = dtypes.default_dtype(int).type(1) if weights is None else promote_dtypes_inexact(unwrap(weights))[0]
    counts = zeros(sizes, dtypes.dtype(weights)).at[places].add(weights, mode="drop")
    if density:
        counts = astype(counts, d) / reductions.sum(counts)
        for i, e in enumerate(edges):
            counts = counts / reshape(diff(e), tuple(-1 if j == i else 1 for j in np.arange(rank)))
    return counts, edges


def histogram2d(x: ArrayLike, y: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] = 10,
                range: Sequence[Sequence[ArrayLike] | None] | None = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, Array, Array]:
    """How many points of a plane fall into each box of a grid, and the edges of the boxes in both directions.

    - `x`, `y`: the coordinates of the points, two vectors.
    - `bins`: a number of bins or a vector of edges for both directions, or a pair of these.
    - `range`, `weights`, `density`: as for `histogramdd`.

    >>> xnp.histogram2d(xnp.array([0.0, 1.0]), xnp.array([0.0, 3.0]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    check_arraylike("histogram2d", x, y)
    x, y = unwrap_node(x), unwrap_node(y)
    if np.shape(x) != np.shape(y) or np.ndim(x) != 1:
        raise (TypeError if np.ndim(x) == np.ndim(y) == 1 else ValueError)(
            f"xnp.histogram2d needs two vectors of one size, got shapes {np.shape(x)} and {np.shape(y)}.")
    if len(bins) > 2 if isinstance(bins, (list, tuple)) else np.ndim(bins) == 1 and np.shape(bins)[0] > 2:
        bins = (asarray(bins),) * 2
    x, y = promote_dtypes_inexact(x, y)
    counts, edges = histogramdd(concatenate([x[:, None], y[:, None]], 1), bins, range, weights, density)
    return counts, edges[0], edges[1]
