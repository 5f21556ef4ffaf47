"""Numbers that describe samples: averages, quantiles, counts in bins, reductions that leave NaNs out."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.lax import elementwise, shapes
from xlafront.lax.elementwise import PRIMITIVES, add, as_type, clamp, eq, gt, mul, ne, sub, to_dtype
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.sorting import sort, sort_p
from xlafront.numpy import reductions, searching
from xlafront.numpy.creation import asarray, astype, full_like, linspace, zeros
from xlafront.numpy.indexing import take_along_axis, take_rows
from xlafront.numpy.manipulation import broadcast_arrays, broadcast_to, ravel, reshape, transpose
from xlafront.numpy.promotion import boolean_mask, check_arraylike, promote_dtypes_inexact, unwrap
from xlafront.numpy.reductions import cumsum, refuse_out
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.library import library


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """The weighted mean over axes.

    - `a`: the values.
    - `axis`: an axis or several; all without.
    - `weights`: an array of the shape of `a`, or of its `axis` in their order; equal weights without.
    - `returned`: whether to return the sums of the weights too.
    - `keepdims`: whether the axes stay, with size 1.
    """
    check_arraylike("average", a, *[w for w in (weights,) if w is not None])
    a = asarray(a)
    if weights is None:
        result = reductions.mean(a, axis=axis, keepdims=keepdims)
        if not returned:
            return result
        axes = reductions.static_axes(axis, a.ndim, "average")
        return result, full_like(result, math.prod(a.shape[i] for i in axes))
    w = asarray(weights)
    d = dtypes.to_inexact(dtypes.result_type(a, w))
    a, w = astype(a, d), astype(w, d)
    if w.shape != a.shape:
        if axis is None:
            raise ValueError(f"xnp.average needs an axis where the shape of the weights {w.shape} is not that of the array, "
                             f"{a.shape}.")
        axes = reductions.static_axes(axis, a.ndim, "average")
        if w.shape != tuple(a.shape[i] for i in axes):
            raise ValueError(f"xnp.average needs weights of the array's shape {a.shape}, or of that of its axis {axis}; got "
                             f"shape {w.shape}.")
        order = sorted(range(w.ndim), key=axes.__getitem__)
        w = reshape(transpose(w, order), tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))
        w = broadcast_to(w, a.shape)
    total = reductions.sum(w, axis=axis, keepdims=keepdims)
    result = reductions.sum(a * w, axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


# Quantiles


@library(static=("axes", "keepdims", "method"))
def _quantile(a, q, weights, axes, keepdims, method):
    [a] = promote_dtypes_inexact(unwrap(a))
    d = tracing.aval_of(a).dtype
    if d.kind == "c":
        raise ValueError("quantiles of complex numbers are not defined: they have no order. Take those of x.real and x.imag.")
    q = as_type(unwrap(q), d, False)
    shape = np.shape(a)
    kept = [i for i in range(len(shape)) if i not in axes]
    rows = _rows(a, axes, kept)
    nan = reductions.any(ne(rows, rows), 0)
    target = (*np.shape(q), *np.shape(rows)[1:])
    if method == "inverted_cdf":
        result = _inverted_cdf(rows, q, None if weights is None else _rows(as_type(weights, d, False), axes, kept))
    else:
        result = _between(sort(rows, 0, False), q, method)
    if np.shape(nan) != target:
        nan = shapes.broadcast_in_dim(nan, target, range(len(target) - np.ndim(nan), len(target)))
    result = elementwise.where(nan, d.type(np.nan), result)
    if keepdims:
        result = shapes.reshape_to(result, (*np.shape(q), *[1 if i in axes else m for i, m in enumerate(shape)]))
    return result


def _rows(a, axes, kept):
    """An array with the axes that are reduced as one in front."""
    shape = np.shape(a)
    return shapes.reshape_to(shapes.transpose_p.bind(a, permutation=(*axes, *kept)), (
        math.prod(shape[i] for i in axes), *[shape[i] for i in kept]))


def _between(ordered, q, method):
    """Of ordered rows those that lie at a fraction `q`, or what lies between two of them."""
    n, d = np.shape(ordered)[0], tracing.aval_of(ordered).dtype
    place = mul(q, d.type(n - 1))
    low, high = PRIMITIVES["floor"].bind(place), PRIMITIVES["ceil"].bind(place)
    weight = sub(place, low)

    def at(position):
        return take_rows(ordered, clamp(np.int32(0), to_dtype(position, np.int32), np.int32(n - 1)))

    below, above = at(low), at(high)
    w = weight if not np.ndim(weight) else shapes.broadcast_in_dim(weight, np.shape(below), range(np.ndim(weight)))
    half, one = d.type(0.5), d.type(1)
    if method == "linear":
        result = add(mul(below, sub(one, w)), mul(above, w))
        infinite = PRIMITIVES["not"].bind(PRIMITIVES["is_finite"].bind(below))
        return elementwise.where(PRIMITIVES["and"].bind(infinite, eq(below, above)), below, result)
    if method == "midpoint":
        return mul(add(below, above), half)
    if method == "nearest":
        return elementwise.where(gt(w, half), above, below)
    return below if method == "lower" else above


def _inverted_cdf(rows, q, weights):
    """The first of the ordered rows up to which the weights are a fraction `q` of all, each column by itself."""
    if weights is None:
        weights = full_like(rows, 1)
    ordered, weights = sort_p.bind(rows, weights, dimension=0, is_stable=True, num_keys=1)
    reached = cumsum(weights, axis=0)
    columns = (1,) * (np.ndim(rows) - 1)
    wanted = shapes.reshape_to(q, (math.prod(np.shape(q)), 1, *columns)) * shapes.expand_dims(reached[-1], (0, 1))
    short = PUBLIC["less"](shapes.expand_dims(reached, (0,)), wanted)
    places = PUBLIC["minimum"](reductions.sum(short, axis=1, dtype=np.int32), np.int32(np.shape(rows)[0] - 1))
    found = take_along_axis(ordered, places, 0)
    return shapes.reshape_to(found, (*np.shape(q), *np.shape(rows)[1:]))


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None,
             interpolation=None):
    """The values below which a fraction `q` of the elements lies.

    - `a`: the array.
    - `q`: the fraction, or an array of them.
    - `axis`: an axis or several; all without.
    - `out`, `overwrite_input`: of NumPy's signature; they must be None and False.
    - `method`: what lies between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; "inverted_cdf" takes the
      first element up to which a fraction of `q` lies.
    - `keepdims`: whether the axes stay, with size 1.
    - `weights`: what each element counts, of the shape of `a` or of its axis; with the method "inverted_cdf" alone.
    - `interpolation`: an older name of `method`.
    """
    return _checked_quantile("quantile", a, q, axis, out, overwrite_input, interpolation or method, keepdims, weights)


def _checked_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights):
    refuse_out(name, out)
    if overwrite_input:
        raise ValueError(f"xnp.{name} cannot overwrite its input: arrays do not change.")
    check_arraylike(name, a, q)
    if not dtypes.is_inexact(tracing.aval_of(q).dtype):
        raise TypeError(f"xnp.{name} takes q as a floating-point number, got {tracing.aval_of(q)}: q=1.0, not 1.")
    if method not in _METHODS:
        raise ValueError(f"xnp.{name} has no method {method!r}; it has {', '.join(_METHODS)}.")
    axes = reductions.static_axes(axis, np.ndim(a), name)
    if weights is not None:
        if method != "inverted_cdf":
            raise NotImplementedError(f"the method {method!r} of xnp.{name} does not support weights; 'inverted_cdf' does.")
        check_arraylike(name, weights)
        weights = asarray(weights)
        shape = np.shape(a)
        if weights.shape != shape:
            if weights.shape != tuple(shape[i] for i in axes):
                raise ValueError(f"xnp.{name} needs weights of the array's shape {shape} or of that of its axes, got shape "
                                 f"{weights.shape}.")
            weights = broadcast_to(shapes.broadcast_in_dim(
                transpose(weights, sorted(range(weights.ndim), key=axes.__getitem__)),
                tuple(n if i in axes else 1 for i, n in enumerate(shape)), sorted(axes)), shape)
    return _quantile(a, q, weights, axes, bool(keepdims), method)


def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None,
               interpolation=None, out_sharding=None):
    """The values below which `q` percent of the elements lie; the parameters are those of `quantile`, and `out_sharding`, how
    the result is split."""
    check_arraylike("percentile", a, q)
    return with_out_sharding("xnp.percentile", out_sharding, lambda a, q: _checked_quantile(
        "percentile", a, PUBLIC["true_divide"](q, 100), axis, out, overwrite_input, interpolation or method, keepdims, weights),
        (a, q))


def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle value over axes; the parameters are those of `quantile`."""
    return _checked_quantile("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None)


# Bins


def digitize(x, bins, right=False, *, method=None):
    """The number of the bin that each value falls into.

    - `x`: the values.
    - `bins`: the edges of the bins, a vector that rises or falls.
    - `right`: whether a bin has its right edge in it, in place of the left one.
    - `method`: as that of `searchsorted`.
    """
    check_arraylike("digitize", x, bins)
    bins = asarray(bins)
    if bins.ndim != 1:
        raise ValueError(f"xnp.digitize needs bins in one dimension, got shape {bins.shape}.")
    side = "right" if not right else "left"
    if bins.shape[0] == 0:
        return zeros(np.shape(x), np.int32)
    method = method or "scan"
    ascending = searching.searchsorted(bins, x, side, method=method)
    descending = bins.shape[0] - searching.searchsorted(bins[::-1], x, side, method=method)
    return searching.where(bins[-1] >= bins[0], ascending, descending)


def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """The edges of equally wide bins over the range of the values.

    - `a`: the values.
    - `bins`: how many, or the edges themselves.
    - `range`: lower and upper end, in place of the least and the greatest value.
    - `weights`: not used; NumPy's signature has it.
    """
    if np.ndim(bins) == 1:
        return asarray(bins)
    check_arraylike("histogram_bin_edges", a)
    a = ravel(asarray(a))
    d = dtypes.to_inexact(a.dtype)
    low, high = (reductions.min(a), reductions.max(a)) if range is None else range
    low, high = astype(asarray(low), d), astype(asarray(high), d)
    same = searching.where(low == high, 0.5, 0.0)
    return linspace(low - same, high + same, int(bins) + 1, dtype=d)


def bincount(x, weights=None, minlength=0, *, length=None, out_sharding=None):
    """How often each value 0, 1, 2, ... occurs.

    - `x`: the values, integers.
    - `weights`: what each of them counts, 1 without.
    - `minlength`: the least size of the result.
    - `length`: its size, where the greatest value is not known while tracing.
    - `out_sharding`: how the result is split.
    """
    if out_sharding is not None:
        return with_out_sharding("xnp.bincount", out_sharding, lambda x: bincount(x, weights, minlength, length=length), (x,))
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


def _reduced(name, function, filler, a, out, where, **options):
    refuse_out(name, out)
    check_arraylike(name, a)
    a = asarray(a)
    if where is not None:
        options["where"] = boolean_mask(f"xnp.{name}", where)
    if not dtypes.is_inexact(a.dtype):
        return function(a, **options)
    missing = PUBLIC["isnan"](a)
    result = function(searching.where(missing, filler, a), **options)
    if filler in (0, 1) or options["initial"] is not None:
        return result
    axes = {"axis": options["axis"], "keepdims": options["keepdims"]}
    return searching.where(reductions.all(missing, **axes), np.nan, result)


def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The sum of the elements that are not NaN; the parameters are those of `sum`."""
    return _reduced("nansum", reductions.sum, 0, a, out, where, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial)


def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """The product of the elements that are not NaN; the parameters are those of `prod`."""
    return _reduced("nanprod", reductions.prod, 1, a, out, where, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial)


def nanmax(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """The maximum of the elements that are not NaN; the parameters are those of `max`."""
    return _reduced("nanmax", reductions.max, -np.inf, a, out, where, axis=axis, keepdims=keepdims, initial=initial)


def nanmin(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    """The minimum of the elements that are not NaN; the parameters are those of `min`."""
    return _reduced("nanmin", reductions.min, np.inf, a, out, where, axis=axis, keepdims=keepdims, initial=initial)


def _present(name, a, out, where):
    """The array with zeros for what is NaN, so that no derivative sees it, and which elements count."""
    refuse_out(name, out)
    check_arraylike(name, a)
    a = asarray(a)
    missing = PUBLIC["isnan"](a)
    present = PUBLIC["logical_not"](missing)
    if where is not None:
        present = PUBLIC["logical_and"](*broadcast_arrays(present, boolean_mask(f"xnp.{name}", where)))
    return searching.where(missing, 0, a) if dtypes.is_inexact(a.dtype) else a, present


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """The mean of the elements that are not NaN; the parameters are those of `mean`."""
    a, present = _present("nanmean", a, out, where)
    return reductions.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=present)


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """The variance of the elements that are not NaN; the parameters are those of `var`."""
    a, present = _present("nanvar", a, out, where)
    return reductions.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=present, mean=mean)


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """The standard deviation of the elements that are not NaN; the parameters are those of `std`."""
    return PUBLIC["sqrt"](nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))
