"""Sums, means, extremes and the like over axes."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.lax import cumulative, elementwise as el, reductions as lax
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, as_type, constant_like, convert_element_type_p
from xlafront.lax.reductions import PRIMITIVES
from xlafront.lax.shapes import broadcast_back, broadcast_in_dim_p, canonical_axes, canonical_axis, reshape_to
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.ufuncs import _to_bool
from xlafront.staging.jit import library


def _refuse_out(name: str, out) -> None:
    if out is not None:
        raise NotImplementedError(f"arrays cannot be written to: xnp.{name} has no `out`.")


def keep_dims(x, shape, axes):
    return reshape_to(x, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _convert(x, dtype):
    aval = tracing.aval_of(x)
    return x if aval.dtype == dtype and not aval.weak_type else convert_element_type_p.bind(
        x, new_dtype=dtype, weak_type=False, sharding=None)


def _sum_dtype(d, promote_integers: bool):
    """Sums of small integers are computed in the default integer, as NumPy does."""
    if d == dtypes.bool_:
        return dtypes.default_dtype(int)
    if promote_integers and dtypes.is_integer(d):
        wide = dtypes.default_dtype(int)
        if d.itemsize < wide.itemsize:
            return np.dtype(f"uint{8 * wide.itemsize}") if dtypes.is_unsigned(d) else wide
    return d


_HALF = frozenset((dtypes.float16, dtypes.bfloat16, *dtypes.small_floats))

# name -> (primitive, identity for `where`, upcast half floats)
_SIMPLE = {
    "sum": ("reduce_sum", lambda d: 0, True), "prod": ("reduce_prod", lambda d: 1, True),
    "max": ("reduce_max", lax.lowest, False), "min": ("reduce_min", lax.highest, False),
}


def _reduce(name, a, axes, dtype, keepdims, initial, where, promote_integers=True):
    """The shared body of `sum`, `prod`, `max` and `min`; all but the arrays is static."""
    primitive, identity, upcast = _SIMPLE[name]
    a = unwrap(a)
    aval = tracing.aval_of(a)
    d = aval.dtype
    combine = {"sum": "add", "prod": "mul"}.get(name, name)
    result = d
    if upcast:
        result = _sum_dtype(d, promote_integers) if dtype is None else dtype
        compute = dtypes.float32 if result in _HALF else result
        a = _convert(a, compute) if tracing.aval_of(a).dtype != compute else a
    if where is not None:
        mask = unwrap(where)
        if np.shape(mask) not in ((), aval.shape):
            shape = np.broadcast_shapes(np.shape(mask), aval.shape)
            mask = broadcast_in_dim_p.bind(mask, shape=shape, sharding=None, broadcast_dimensions=tuple(
                range(len(shape) - np.ndim(mask), len(shape))))
        if name in ("max", "min") and initial is None:
            raise ValueError(f"xnp.{name} with `where` needs `initial`: there may be nothing to take the {name} of.")
        ad = tracing.aval_of(a).dtype
        filler = np.asarray(identity(ad)).astype(ad)[()]
        a = el.where(mask, a, filler)
    shape = np.shape(a)
    if name in ("max", "min") and initial is None and 0 in [shape[i] for i in axes]:
        raise ValueError(f"xnp.{name} of an empty array (shape {shape}) needs `initial`.")
    total = PRIMITIVES[primitive].bind(a, axes=axes, out_sharding=None) if axes else a
    if initial is not None:
        start = unwrap(initial)
        start = as_type(start, tracing.aval_of(total).dtype, False)
        total = ELEMENTWISE[combine].bind(total, start)
    total = _convert(total, result)
    return keep_dims(total, shape, axes) if keepdims else total


def _static_axes(axis, rank: int, name: str):
    if isinstance(axis, list):
        axis = tuple(axis)
    return canonical_axes(axis, rank, f"xnp.{name}")


def _checked_dtype(dtype, name):
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{name}")


def _make_summing(name, doc):
    def kernel(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True):
        _refuse_out(name, out)
        check_arraylike(name, a)
        return _reduce(name, a, _static_axes(axis, np.ndim(a), name), _checked_dtype(dtype, name), keepdims, initial,
                       where, promote_integers)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = doc
    return library(kernel, static=("axis", "dtype", "keepdims", "out", "promote_integers"), lists=True)


sum = _make_summing("sum", "The sum of elements over axes; integers are summed in the default integer type.")
prod = _make_summing("prod", "The product of elements over axes.")


def _make_extreme(name):
    def kernel(a, axis=None, out=None, keepdims=False, initial=None, where=None):
        _refuse_out(name, out)
        check_arraylike(name, a)
        return _reduce(name, a, _static_axes(axis, np.ndim(a), name), None, keepdims, initial, where)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"The {name}imum of elements over axes."
    return library(kernel, static=("axis", "keepdims", "out"), lists=True)


max, min = _make_extreme("max"), _make_extreme("min")
amax, amin = max, min


def _make_truth(name, primitive, identity):
    def kernel(a, axis=None, out=None, keepdims=False, *, where=None):
        _refuse_out(name, out)
        check_arraylike(name, a)
        x = _to_bool(unwrap(a))
        if where is not None:
            mask = unwrap(where)
            full = np.broadcast_shapes(np.shape(mask), np.shape(x))
            mask, x = (v if np.shape(v) == full else broadcast_in_dim_p.bind(
                v, shape=full, broadcast_dimensions=tuple(range(len(full) - np.ndim(v), len(full))), sharding=None)
                for v in (mask, x))
            x = el.where(mask, x, np.bool_(identity))
        axes = _static_axes(axis, np.ndim(x), name)
        result = PRIMITIVES[primitive].bind(x, axes=axes, out_sharding=None)
        return keep_dims(result, np.shape(x), axes) if keepdims else result

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"Whether {name} of the elements over axes are true."
    return library(kernel, static=("axis", "keepdims", "out"), lists=True)


all, any = _make_truth("all", "reduce_and", True), _make_truth("any", "reduce_or", False)


@library(static=("axis", "keepdims"), lists=True)
def count_nonzero(a, axis=None, keepdims=False):
    """The number of elements other than zero."""
    check_arraylike("count_nonzero", a)
    return sum.__wrapped__(_to_bool(unwrap(a)), axis, None, None, keepdims)


def _count(shape, axes):
    return math.prod(shape[i] for i in axes)


@library(static=("axis", "dtype", "out", "keepdims"), lists=True)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=None):
    """The arithmetic mean over axes."""
    _refuse_out("mean", out)
    check_arraylike("mean", a)
    axes = _static_axes(axis, np.ndim(a), "mean")
    d = dtypes.to_inexact(tracing.aval_of(unwrap(a)).dtype) if dtype is None else _checked_dtype(dtype, "mean")
    compute = dtypes.float32 if d in _HALF else d
    total = _reduce("sum", a, axes, compute, keepdims, None, where)
    if where is None:
        count = np.asarray(_count(np.shape(a), axes)).astype(compute)[()]
    else:
        count = _count_where(where, np.shape(a), axes, keepdims, compute)
    return _weakened(el.div(total, count), d)


def _weakened(x, d):
    return x if tracing.aval_of(x).dtype == d else _convert(x, d)


def _count_where(where, shape, axes, keepdims, dtype):
    ones = broadcast_in_dim_p.bind(np.asarray(1).astype(dtype)[()], shape=tuple(shape), broadcast_dimensions=(),
                                   sharding=None)
    return _reduce("sum", ones, axes, dtype, keepdims, None, where)


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"), lists=True)
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The variance over axes; `ddof` (or `correction`) is taken from the count that it divides by."""
    _refuse_out("var", out)
    check_arraylike("var", a)
    if correction is not None:
        if ddof != 0:
            raise ValueError("xnp.var takes ddof or correction, not both.")
        ddof = correction
    a = unwrap(a)
    own = tracing.aval_of(a).dtype
    d = dtypes.to_inexact(own) if dtype is None else _checked_dtype(dtype, "var")
    compute = dtypes.float32 if d in _HALF else d
    if own.kind == "c" and compute.kind != "c":
        compute = dtypes.to_complex(compute)
    axes = _static_axes(axis, np.ndim(a), "var")
    a = as_type(a, compute, False)
    center = globals()["mean"].__wrapped__(a, axes, compute, keepdims=True, where=where) if mean is None else (
        as_type(unwrap(mean), compute, False))
    kept = np.broadcast_shapes(np.shape(center), np.shape(a))
    center = broadcast_in_dim_p.bind(center, shape=kept, sharding=None, broadcast_dimensions=tuple(
        range(len(kept) - np.ndim(center), len(kept))))
    deviation = el.sub(a, center)
    squared = el.real_(el.mul(deviation, el.conj_(deviation, input_dtype=compute))) if compute.kind == "c" else (
        el.square_(deviation))
    real = dtypes.to_real(compute)
    total = _reduce("sum", squared, axes, real, keepdims, None, where)
    if where is None:
        count = real.type(_count(np.shape(a), axes) - ddof)
    else:
        count = el.sub(_count_where(where, np.shape(a), axes, keepdims, real), real.type(ddof))
    positive = el.gt(count, real.type(0))  # a variance needs more values than degrees of freedom
    return _weakened(el.div(total, el.where(positive, count, real.type(np.nan))), dtypes.to_real(d))


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"), lists=True)
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The standard deviation over axes."""
    return el.sqrt_(var.__wrapped__(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


@library(static=("axis", "out", "keepdims"), lists=True)
def ptp(a, axis=None, out=None, keepdims=False):
    """The range of values: maximum less minimum."""
    check_arraylike("ptp", a)
    return el.sub(max.__wrapped__(a, axis, out, keepdims), min.__wrapped__(a, axis, out, keepdims))


def _make_arg(name, primitive):
    def kernel(a, axis=None, out=None, keepdims=None):
        _refuse_out(name, out)
        check_arraylike(name, a)
        a = unwrap(a)
        shape = np.shape(a)
        if axis is None:
            flat = reshape_to(a, (math.prod(shape),))
            axes, where = tuple(range(len(shape))), 0
        else:
            flat, where = a, canonical_axis(axis, len(shape), f"xnp.{name}")
            axes = (where,)
        if np.shape(flat)[where] == 0:
            raise ValueError(f"xnp.{name} of an empty sequence: axis {axis} of shape {shape}.")
        if tracing.aval_of(flat).dtype.kind == "c":
            raise TypeError(f"xnp.{name} of complex numbers: take it of x.real or abs(x).")
        result = primitive.bind(flat, axes=(where,), index_dtype=dtypes.default_dtype(int))
        return keep_dims(result, shape, axes) if keepdims else result

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"The index of the first {name.removeprefix('arg')}imum, of all elements or along an axis."
    return library(kernel, static=("axis", "out", "keepdims"), lists=True)


argmax, argmin = _make_arg("argmax", lax.argmax_p), _make_arg("argmin", lax.argmin_p)


def _make_cumulative(name, primitive, promote: bool):
    def kernel(a, axis=None, dtype=None, out=None):
        _refuse_out(name, out)
        check_arraylike(name, a)
        a = unwrap(a)
        if axis is None:
            a, axis = reshape_to(a, (math.prod(np.shape(a)),)), 0
        d = tracing.aval_of(a).dtype
        wanted = (_sum_dtype(d, True) if promote and d == dtypes.bool_ else d) if dtype is None else (
            _checked_dtype(dtype, name))
        if tracing.aval_of(a).dtype != wanted:
            a = _convert(a, wanted)
        return primitive.bind(a, axis=canonical_axis(axis, np.ndim(a), f"xnp.{name}"), reverse=False)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"The cumulative {name.removeprefix('cum')} along an axis, or of all elements in order."
    return library(kernel, static=("axis", "dtype", "out"), lists=True)


cumsum = _make_cumulative("cumsum", cumulative.PRIMITIVES["cumsum"], True)
cumprod = _make_cumulative("cumprod", cumulative.PRIMITIVES["cumprod"], True)


def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle value over axes."""
    _refuse_out("median", out)
    from xlafront.numpy.sorting import quantile

    return quantile(a, 0.5, axis=axis, keepdims=keepdims, method="midpoint")


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """The weighted mean over axes."""
    from xlafront.numpy import manipulation
    from xlafront.numpy.creation import asarray, full_like

    a = asarray(a)
    if weights is None:
        result = mean(a, axis=axis, keepdims=keepdims)
        if not returned:
            return result
        axes = _static_axes(axis, a.ndim, "average")
        return result, full_like(result, _count(a.shape, axes))
    w = asarray(weights)
    if w.shape != a.shape:
        if axis is None or w.ndim != 1 or w.shape[0] != a.shape[canonical_axis(axis, a.ndim, "average")]:
            raise ValueError(f"xnp.average needs weights of the array's shape {a.shape}, or one for each element along "
                             f"an axis; got shape {w.shape}.")
        w = manipulation.moveaxis(manipulation.broadcast_to(
            w, (*[n for i, n in enumerate(a.shape) if i != axis % a.ndim], w.shape[0])), -1, axis)
    d = dtypes.to_inexact(dtypes.result_type(a, w))
    total = sum(w.astype(d), axis=axis, keepdims=keepdims)
    result = sum(a.astype(d) * w.astype(d), axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


def _make_nan(name, function, filler):
    """Reductions that leave NaNs out."""
    def reduce(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
        from xlafront.numpy.creation import asarray
        from xlafront.numpy.manipulation import where as choose

        a = asarray(a)
        if not dtypes.is_inexact(a.dtype):
            return function(a, axis=axis, keepdims=keepdims, **_given(dtype=dtype, initial=initial, where=where))
        missing = _isnan(a)
        result = function(choose(missing, filler, a), axis=axis, keepdims=keepdims,
                          **_given(dtype=dtype, initial=initial, where=where))
        if name in ("nanmax", "nanmin") and initial is None:
            return choose(all(missing, axis=axis, keepdims=keepdims), np.nan, result)
        return result

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"`{name.removeprefix('nan')}` of the elements that are not NaN."
    return reduce


def _given(**options):
    return {k: v for k, v in options.items() if v is not None}


def _isnan(a):
    from xlafront.numpy.ufuncs import PUBLIC

    return PUBLIC["isnan"](a)


nansum, nanprod = _make_nan("nansum", sum, 0), _make_nan("nanprod", prod, 1)
nanmax, nanmin = _make_nan("nanmax", max, -np.inf), _make_nan("nanmin", min, np.inf)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """The mean of the elements that are not NaN."""
    from xlafront.numpy.creation import asarray

    a = asarray(a)
    present = ~_isnan(a) if where is None else ~_isnan(a) & where
    return mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=present)


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """The variance of the elements that are not NaN."""
    from xlafront.numpy.creation import asarray

    a = asarray(a)
    present = ~_isnan(a) if where is None else ~_isnan(a) & where
    return var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=present, mean=mean)


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """The standard deviation of the elements that are not NaN."""
    from xlafront.numpy.ufuncs import PUBLIC

    return PUBLIC["sqrt"](nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def logsumexp_over(x, axes):
    """`log(sum(exp(x)))` without overflow, keeping the reduced axes."""
    shape = np.shape(x)
    top = PRIMITIVES["reduce_max"].bind(x, axes=axes, out_sharding=None)
    top = el.where(ELEMENTWISE["is_finite"].bind(top), top, constant_like(x, 0))
    total = PRIMITIVES["reduce_sum"].bind(el.exp_(el.sub(x, broadcast_back(top, shape, axes))), axes=axes,
                                          out_sharding=None)
    return keep_dims(el.add(el.log_(total), top), shape, axes)
