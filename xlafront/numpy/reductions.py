"""Sums, means, extremes, truth values and the like over axes, and cumulative sums."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import elementwise
from xlafront.lax.cumulative import PRIMITIVES as CUMULATIVE
from xlafront.lax.elementwise import (
    PRIMITIVES,
    as_type,
    conj_,
    convert_element_type_p,
    div,
    gt,
    mul,
    real_,
    sqrt_,
    square_,
    sub,
)
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS, argmax_p, argmin_p, highest, lowest
from xlafront.lax.shapes import broadcast_in_dim_p, canonical_axes, canonical_axis, reshape_to
from xlafront.lax.slicing import concatenate
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import boolean_mask, check_arraylike, refuse_keys, unwrap
from xlafront.numpy.ufuncs import PUBLIC, to_bool
from xlafront.staging.library import library


def refuse_out(name: str, out) -> None:
    if out is not None:
        raise NotImplementedError(f"arrays cannot be written to: xnp.{name} has no `out`.")


def keep_dims(x, shape, axes):
    return reshape_to(x, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _spread(x, shape):
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - np.ndim(x), len(shape))),
                                   sharding=None)


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
    "max": ("reduce_max", lowest, False), "min": ("reduce_min", highest, False),
}


def _reduce(name, a, axes, dtype, keepdims, initial, where, promote_integers=True):
    """The shared body of `sum`, `prod`, `max` and `min`; all but the arrays is static."""
    primitive, identity, upcast = _SIMPLE[name]
    a = unwrap(a)
    refuse_keys(name, a)
    aval = tracing.aval_of(a)
    d = aval.dtype
    combine = {"sum": "add", "prod": "mul"}.get(name, name)
    result = d
    if upcast:
        result = _sum_dtype(d, promote_integers) if dtype is None else dtype
        compute = dtypes.float32 if result in _HALF and dtype is None else result
        a = _convert(a, compute) if tracing.aval_of(a).dtype != compute else a
    if where is not None:
        mask = boolean_mask(f"xnp.{name}", where)
        if np.shape(mask) not in ((), aval.shape):
            shape = np.broadcast_shapes(np.shape(mask), aval.shape)
            mask = _spread(mask, shape)
        if name in ("max", "min") and initial is None:
            raise ValueError(f"xnp.{name} with `where` needs `initial`: there may be nothing to take the {name} of.")
        ad = tracing.aval_of(a).dtype
        filler = np.asarray(identity(ad)).astype(ad)[()]
        a = elementwise.where(mask, a, filler)
    shape = np.shape(a)
    if name in ("max", "min") and initial is None and 0 in [shape[i] for i in axes]:
        raise ValueError(f"xnp.{name} of an empty array (shape {shape}) needs `initial`.")
    total = REDUCTIONS[primitive].bind(a, axes=axes, out_sharding=None) if axes else a
    if initial is not None:
        check_arraylike(name, initial)
        start = unwrap(initial)
        if np.ndim(start):
            raise ValueError(f"the `initial` of xnp.{name} must be a scalar, got an array of shape {np.shape(start)}.")
        start = as_type(start, tracing.aval_of(total).dtype, False)
        total = PRIMITIVES[combine].bind(total, start)
    total = _convert(total, result)
    return keep_dims(total, shape, axes) if keepdims else total


def static_axes(axis, rank: int, name: str):
    """The axes that a user names, as one integer or any sequence of them; None stands for all."""
    if isinstance(axis, str):
        raise NameError(f"xnp.{name} got the axis {axis!r}, an unbound axis name: axes are numbers here. To reduce over named "
                        f"axes use lax.psum and its kin.")
    return canonical_axes(axis, rank, f"xnp.{name}")


def _checked_dtype(dtype, name):
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{name}")


def _make_summing(name, doc):
    def kernel(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True):
        refuse_out(name, out)
        check_arraylike(name, a)
        return _reduce(name, a, static_axes(axis, np.ndim(a), name), _checked_dtype(dtype, name), keepdims, initial,
                       where, promote_integers)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = doc
    return library(kernel, static=("axis", "dtype", "keepdims", "out", "promote_integers"), lists=True)


sum = _make_summing("sum", "The sum of elements over axes; integers are summed in the default integer type.")
prod = _make_summing("prod", "The product of elements over axes.")


def _make_extreme(name):
    def kernel(a, axis=None, out=None, keepdims=False, initial=None, where=None):
        refuse_out(name, out)
        check_arraylike(name, a)
        return _reduce(name, a, static_axes(axis, np.ndim(a), name), None, keepdims, initial, where)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"The {name}imum of elements over axes."
    return library(kernel, static=("axis", "keepdims", "out"), lists=True)


max, min = _make_extreme("max"), _make_extreme("min")
amax, amin = max, min


def _make_truth(name, primitive, identity):
    def kernel(a, axis=None, out=None, keepdims=False, *, where=None):
        refuse_out(name, out)
        check_arraylike(name, a)
        x = _convert(to_bool(unwrap(a)), dtypes.bool_)
        if where is not None:
            mask = boolean_mask(f"xnp.{name}", where)
            full = np.broadcast_shapes(np.shape(mask), np.shape(x))
            mask, x = (v if np.shape(v) == full else _spread(v, full) for v in (mask, x))
            x = elementwise.where(mask, x, np.bool_(identity))
        axes = static_axes(axis, np.ndim(x), name)
        result = REDUCTIONS[primitive].bind(x, axes=axes, out_sharding=None)
        return keep_dims(result, np.shape(x), axes) if keepdims else result

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"Whether {name} of the elements over axes are true."
    return library(kernel, static=("axis", "keepdims", "out"), lists=True)


all, any = _make_truth("all", "reduce_and", True), _make_truth("any", "reduce_or", False)


@library(static=("axis", "keepdims"), lists=True)
def count_nonzero(a, axis=None, keepdims=False):
    """The number of elements other than zero."""
    check_arraylike("count_nonzero", a)
    return sum.__wrapped__(to_bool(unwrap(a)), axis, None, None, keepdims)


def _count(shape, axes):
    return math.prod(shape[i] for i in axes)


@library(static=("axis", "dtype", "out", "keepdims"), lists=True)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=None):
    """The arithmetic mean over axes."""
    refuse_out("mean", out)
    check_arraylike("mean", a)
    axes = static_axes(axis, np.ndim(a), "mean")
    d = dtypes.to_inexact(tracing.aval_of(unwrap(a)).dtype) if dtype is None else _checked_dtype(dtype, "mean")
    compute = dtypes.float32 if d in _HALF and dtype is None else d
    total = _reduce("sum", a, axes, compute, keepdims, None, where)
    if where is None:
        count = np.asarray(_count(np.shape(a), axes)).astype(compute)[()]
    else:
        count = _count_where(where, np.shape(a), axes, keepdims, compute)
    return _weakened(div(total, count), d)


def _weakened(x, d):
    return x if tracing.aval_of(x).dtype == d else _convert(x, d)


def _count_where(where, shape, axes, keepdims, dtype):
    ones = _spread(np.asarray(1).astype(dtype)[()], shape)
    return _reduce("sum", ones, axes, dtype, keepdims, None, where)


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"), lists=True)
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The variance over axes; `ddof` (or `correction`) is taken from the count that it divides by."""
    refuse_out("var", out)
    check_arraylike("var", a)
    if correction is not None:
        if ddof != 0:
            raise ValueError("xnp.var takes ddof or correction, not both.")
        ddof = correction
    a = unwrap(a)
    own = tracing.aval_of(a).dtype
    d = dtypes.to_real(dtypes.to_inexact(own)) if dtype is None else _checked_dtype(dtype, "var")
    if not dtypes.is_inexact(d):
        raise ValueError(f"the dtype argument of xnp.var and xnp.std must be inexact, got {d}.")
    if own.kind == "c" and d.kind != "c" and dtype is not None:
        raise ValueError(f"xnp.var of complex numbers takes no real dtype, got {d}: leave it away, or take it of x.real and "
                         f"x.imag.")
    compute = dtypes.float32 if d in _HALF else dtypes.to_complex(d) if own.kind == "c" else dtypes.to_real(d)
    axes = static_axes(axis, np.ndim(a), "var")
    a = as_type(a, compute, False)
    center = globals()["mean"].__wrapped__(a, axes, compute, keepdims=True, where=where) if mean is None else (
        as_type(unwrap(mean), compute, False))
    kept = np.broadcast_shapes(np.shape(center), np.shape(a))
    deviation = sub(a, _spread(center, kept))
    squared = real_(mul(deviation, conj_(deviation, input_dtype=compute))) if compute.kind == "c" else (
        square_(deviation))
    real = dtypes.to_real(compute)
    total = _reduce("sum", squared, axes, real, keepdims, None, where)
    if where is None:
        count = real.type(_count(np.shape(a), axes) - ddof)
    else:
        count = sub(_count_where(where, np.shape(a), axes, keepdims, real), real.type(ddof))
    positive = gt(count, real.type(0))  # a variance needs more values than degrees of freedom
    return _weakened(div(total, elementwise.where(positive, count, real.type(np.nan))), d)


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"), lists=True)
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """The standard deviation over axes."""
    return sqrt_(var.__wrapped__(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


@library(static=("axis", "out", "keepdims"), lists=True)
def ptp(a, axis=None, out=None, keepdims=False):
    """The range of values: maximum less minimum."""
    check_arraylike("ptp", a)
    return sub(max.__wrapped__(a, axis, out, keepdims), min.__wrapped__(a, axis, out, keepdims))


def _make_arg(name, primitive):
    def kernel(a, axis=None, out=None, keepdims=None):
        refuse_out(name, out)
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


argmax, argmin = _make_arg("argmax", argmax_p), _make_arg("argmin", argmin_p)


def _make_cumulative(name, primitive):
    def kernel(a, axis=None, dtype=None, out=None):
        refuse_out(name, out)
        check_arraylike(name, a)
        a = unwrap(a)
        if axis is None:
            a, axis = reshape_to(a, (math.prod(np.shape(a)),)), 0
        d = tracing.aval_of(a).dtype
        wanted = (_sum_dtype(d, True) if d == dtypes.bool_ else d) if dtype is None else _checked_dtype(dtype, name)
        axis = canonical_axis(axis, np.ndim(a), f"xnp.{name}")
        if wanted == dtypes.bool_:
            return to_bool(primitive.bind(as_type(to_bool(a), dtypes.int32, False), axis=axis, reverse=False))
        return primitive.bind(_convert(a, wanted), axis=axis, reverse=False)

    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = f"The cumulative {name.removeprefix('cum')} along an axis, or of all elements in order."
    return library(kernel, static=("axis", "dtype", "out"), lists=True)


cumsum = _make_cumulative("cumsum", CUMULATIVE["cumsum"])
cumprod = _make_cumulative("cumprod", CUMULATIVE["cumprod"])


def _cumulative_from(name, function, start, x, axis, dtype, include_initial):
    check_arraylike(name, x)
    rank = np.ndim(x)
    if not rank:
        raise ValueError(f"xnp.{name} needs an array of at least one dimension: the input must be non-scalar.")
    if axis is None and rank > 1:
        raise ValueError(f"xnp.{name} needs an axis for an array of shape {np.shape(x)}: its argument is only optional for "
                         f"one-dimensional arrays.")
    axis = canonical_axis(0 if axis is None else axis, rank, f"xnp.{name}")
    result = function(x, axis=axis, dtype=dtype)
    if not include_initial:
        return result
    first = _spread(result.dtype.type(start), tuple(1 if i == axis else n for i, n in enumerate(np.shape(x))))
    return concatenate([first, result], axis)


def cumulative_sum(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                   include_initial: bool = False) -> Array:
    """The sums of the first elements along an axis.

    - `x`: the array.
    - `axis`: along which axis; vectors need not say.
    - `dtype`: that of the result.
    - `include_initial`: whether to begin with the sum of none, 0.

    >>> xnp.cumulative_sum(xnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumulative_from("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                    include_initial: bool = False) -> Array:
    """The products of the first elements along an axis; the parameters are those of `cumulative_sum`, and the product of none
    is 1.

    >>> xnp.cumulative_prod(xnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _cumulative_from("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether all elements of two arrays are equal after broadcasting; False where the shapes do not fit.

    - `a1`, `a2`: the arrays.

    >>> xnp.array_equiv(xnp.array([1, 1]), xnp.array([[1], [1]]))
    Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return asarray(False)
    return all(PUBLIC["equal"](a1, a2))


def array_equal(a1, a2, equal_nan=False):
    """Whether two arrays have the same shape and elements."""
    try:
        a1, a2 = asarray(a1), asarray(a2)
    except TypeError:
        return asarray(False)
    if a1.shape != a2.shape:
        return asarray(False)
    same = PUBLIC["equal"](a1, a2)
    if equal_nan:
        same = PUBLIC["logical_or"](same, PUBLIC["logical_and"](PUBLIC["isnan"](a1), PUBLIC["isnan"](a2)))
    return all(same)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are equal within a tolerance."""
    return all(PUBLIC["isclose"](a, b, rtol, atol, equal_nan))
