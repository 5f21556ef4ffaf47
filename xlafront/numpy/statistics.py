"""Numbers that describe samples: averages, quantiles, counts in bins, reductions that leave NaNs out."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.lax import elementwise, shapes
from xlafront.lax.elementwise import PRIMITIVES, add, clamp, eq, gt, mul, ne, sub, to_dtype
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.sorting import sort
from xlafront.numpy import reductions, searching
from xlafront.numpy.creation import asarray, full_like, linspace, zeros
from xlafront.numpy.indexing import take_rows
from xlafront.numpy.manipulation import broadcast_to, moveaxis, ravel
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, unwrap
from xlafront.numpy.reductions import refuse_out
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.library import library


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """The weighted mean over axes."""
    a = asarray(a)
    if weights is None:
        result = reductions.mean(a, axis=axis, keepdims=keepdims)
        if not returned:
            return result
        axes = reductions.static_axes(axis, a.ndim, "average")
        return result, full_like(result, math.prod(a.shape[i] for i in axes))
    w = asarray(weights)
    if w.shape != a.shape:
        if axis is None or w.ndim != 1 or w.shape[0] != a.shape[shapes.canonical_axis(axis, a.ndim, "average")]:
            raise ValueError(f"xnp.average needs weights of the array's shape {a.shape}, or one for each element along "
                             f"an axis; got shape {w.shape}.")
        w = moveaxis(broadcast_to(w, (*[n for i, n in enumerate(a.shape) if i != axis % a.ndim], w.shape[0])), -1, axis)
    d = dtypes.to_inexact(dtypes.result_type(a, w))
    total = reductions.sum(w.astype(d), axis=axis, keepdims=keepdims)
    result = reductions.sum(a.astype(d) * w.astype(d), axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


# Quantiles


@library(static=("axes", "keepdims", "method"))
def _quantile(a, q, axes, keepdims, method):
    a, q = promote_dtypes_inexact(unwrap(a), unwrap(q))
    d = tracing.aval_of(a).dtype
    shape = np.shape(a)
    kept = [i for i in range(len(shape)) if i not in axes]
    n = math.prod(shape[i] for i in axes)
    rows = shapes.transpose_p.bind(a, permutation=(*axes, *kept))
    rows = shapes.reshape_to(rows, (n, *[shape[i] for i in kept]))
    has_nan = reductions.any(ne(rows, rows), 0)
    ordered = sort(rows, 0, False)
    place = mul(q, d.type(n - 1))
    low, high = PRIMITIVES["floor"].bind(place), PRIMITIVES["ceil"].bind(place)
    weight = sub(place, low)

    def at(position):
        return take_rows(ordered, clamp(np.int32(0), to_dtype(position, np.int32), np.int32(n - 1)))

    below, above = at(low), at(high)
    target = np.shape(below)
    w = weight if not np.ndim(weight) else shapes.broadcast_in_dim(weight, target, range(np.ndim(weight)))
    half, one = d.type(0.5), d.type(1)
    if method == "linear":
        result = add(mul(below, sub(one, w)), mul(above, w))
        infinite = PRIMITIVES["not"].bind(PRIMITIVES["is_finite"].bind(below))
        result = elementwise.where(PRIMITIVES["and"].bind(infinite, eq(below, above)), below, result)
    elif method == "midpoint":
        result = mul(add(below, above), half)
    elif method == "nearest":
        result = elementwise.where(gt(w, half), above, below)
    else:
        result = below if method == "lower" else above
    nan = has_nan if np.shape(has_nan) == target else shapes.broadcast_in_dim(
        has_nan, target, range(len(target) - np.ndim(has_nan), len(target)))
    result = elementwise.where(nan, d.type(np.nan), result)
    if keepdims:
        lead = np.shape(q)
        result = shapes.reshape_to(result, (*lead, *[1 if i in axes else m for i, m in enumerate(shape)]))
    return result


def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, interpolation=None):
    """The values below which a fraction `q` of the elements lies."""
    check_arraylike("quantile", a, q)
    method = interpolation or method
    if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ValueError(f"xnp.quantile has no method {method!r}; it has linear, lower, higher, midpoint, nearest.")
    return _quantile(a, q, shapes.canonical_axes(tuple(axis) if isinstance(axis, list) else axis, np.ndim(a), "quantile"),
                     bool(keepdims), method)


def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *,
               interpolation=None, out_sharding=None):
    """The values below which `q` percent of the elements lie."""
    check_arraylike("percentile", a, q)
    return with_out_sharding("xnp.percentile", out_sharding, lambda a, q: quantile(
        a, PUBLIC["true_divide"](q, 100), axis, out, overwrite_input, method, keepdims, interpolation=interpolation), (a, q))


def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle value over axes."""
    refuse_out("median", out)
    return quantile(a, 0.5, axis=axis, keepdims=keepdims, method="midpoint")


# Bins


def digitize(x, bins, right=False, *, method=None):
    """The number of the bin that each value falls into."""
    bins = asarray(bins)
    side = "right" if not right else "left"
    if bins.shape[0] == 0:
        return zeros(np.shape(x), np.int32)
    ascending = searching.searchsorted(bins, x, side)
    descending = bins.shape[0] - searching.searchsorted(bins[::-1], x, side)
    return searching.where(bins[-1] >= bins[0], ascending, descending)


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """The edges of equally wide bins over the range of the values."""
    if np.ndim(bins) == 1:
        return asarray(bins)
    a = ravel(asarray(a))
    low, high = (reductions.min(a), reductions.max(a)) if range is None else range
    same = searching.where(asarray(low) == high, 0.5, 0.0)
    return linspace(low - same, high + same, int(bins) + 1, dtype=dtypes.to_inexact(a.dtype))


def bincount(x, weights=None, minlength=0, *, length=None):
    """How often each value 0, 1, 2, ... occurs; `length` fixes the size of the result."""
    check_arraylike("bincount", x)
    x = asarray(x)
    if length is None:
        if isinstance(x, tracing.Tracer):
            raise errors.ConcretizationTypeError(x, "xnp.bincount needs a static `length` inside a traced function.")
        length = max(int(minlength), int(reductions.max(x)) + 1, 1) if x.size else int(minlength)
    if weights is None:
        weights = dtypes.default_dtype(int).type(1)
    total = zeros(int(length), dtypes.dtype(weights))
    return total.at[clip(x, 0, None)].add(weights, mode="drop")


# Without NaNs


def _make_nan(name, function, filler):
    """Reductions that leave NaNs out."""
    def reduce(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
        a = asarray(a)
        if not dtypes.is_inexact(a.dtype):
            return function(a, axis=axis, keepdims=keepdims, **_given(dtype=dtype, initial=initial, where=where))
        missing = PUBLIC["isnan"](a)
        result = function(searching.where(missing, filler, a), axis=axis, keepdims=keepdims,
                          **_given(dtype=dtype, initial=initial, where=where))
        if name in ("nanmax", "nanmin") and initial is None:
            return searching.where(reductions.all(missing, axis=axis, keepdims=keepdims), np.nan, result)
        return result

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"`{name.removeprefix('nan')}` of the elements that are not NaN."
    return reduce


def _given(**options):
    return {k: v for k, v in options.items() if v is not None}


nansum, nanprod = _make_nan("nansum", reductions.sum, 0), _make_nan("nanprod", reductions.prod, 1)
nanmax, nanmin = _make_nan("nanmax", reductions.max, -np.inf), _make_nan("nanmin", reductions.min, np.inf)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """The mean of the elements that are not NaN."""
    a = asarray(a)
    present = ~PUBLIC["isnan"](a) if where is None else ~PUBLIC["isnan"](a) & where
    return reductions.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=present)


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """The variance of the elements that are not NaN."""
    a = asarray(a)
    present = ~PUBLIC["isnan"](a) if where is None else ~PUBLIC["isnan"](a) & where
    return reductions.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=present, mean=mean)


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """The standard deviation of the elements that are not NaN."""
    return PUBLIC["sqrt"](nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))
