"""Sums, means, extremes, truth values and the like over axes, and cumulative sums."""

from __future__ import annotations

import math

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.dimensions import common_shape, is_symbolic_dim
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
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
    size_as,
    sqrt_,
    square_,
    sub,
)
from xlafront.lax.reductions import argmax_p, argmin_p, highest, lowest, reduced
from xlafront.lax.shapes import broadcast_in_dim_p, canonical_axes, canonical_axis, reshape_to
from xlafront.lax.slicing import concatenate
from xlafront.numpy.creation import asarray
from xlafront.numpy.docstrings import MUST_BE_NONE, docstring
from xlafront.numpy.promotion import boolean_mask, check_arraylike, refuse_keys, unwrap
from xlafront.numpy.ufuncs import PUBLIC, to_bool
from xlafront.staging.library import exact, library


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

# name -> (primitive, identity for `where`, upcast half floats, the collective over axes that have names)
_SIMPLE = {
    "sum": ("reduce_sum", lambda d: 0, True, "psum"), "prod": ("reduce_prod", lambda d: 1, True, None),
    "max": ("reduce_max", lowest, False, "pmax"), "min": ("reduce_min", highest, False, "pmin"),
}


def _collectives():
    from xlafront.lax import collectives  # start-up: few programs name axes here

    return collectives


def _reduce(name, a, axes, dtype, keepdims, initial, where, promote_integers=True, names=()):
    """The shared body of `sum`, `prod`, `max` and `min`; all but the arrays is static."""
    primitive, identity, upcast, over_names = _SIMPLE[name]
    a = unwrap(a)
    refuse_keys(name, a)
    aval = tracing.aval_of(a)
    d = aval.dtype
    if d.itemsize > 4:
        d = dtypes.of_arrays(d)
    combine = {"sum": "add", "prod": "mul"}.get(name, name)
    result = d
    if upcast:
        dtypes.warn_of_lost_parts(f"xnp.{name}", d, dtype)
        result = _sum_dtype(d, promote_integers) if dtype is None else dtype
        compute = dtypes.float32 if result in _HALF and dtype is None else result
        a = _convert(a, compute)
    else:
        a = _convert(a, d)
    if where is not None:
        mask = boolean_mask(f"xnp.{name}", where)
        if np.shape(mask) not in ((), aval.shape):
            shape = common_shape(np.shape(mask), aval.shape)
            mask, a = (x if np.shape(x) == shape else _spread(x, shape) for x in (mask, a))
        if name in ("max", "min") and initial is None:
            raise ValueError(f"xnp.{name} with `where` needs `initial`: there may be nothing to take the {name} of.")
        ad = tracing.aval_of(a).dtype
        filler = np.asarray(identity(ad)).astype(ad)[()]
        a = elementwise.where(mask, a, filler)
    shape = np.shape(a)
    if name in ("max", "min") and initial is None and 0 in [shape[i] for i in axes]:
        raise ValueError(f"xnp.{name} of an empty array (shape {shape}) needs `initial`.")
    total = reduced(primitive, a, axes) if axes else a
    if names:
        total = getattr(_collectives(), over_names)(total, names)
    if initial is not None:
        check_arraylike(name, initial)
        start = unwrap(initial)
        if np.ndim(start):
            raise ValueError(f"the `initial` of xnp.{name} must be a scalar, got an array of shape {np.shape(start)}.")
        dtypes.warn_of_lost_parts(f"xnp.{name}", tracing.aval_of(start).dtype, tracing.aval_of(total).dtype)
        start = as_type(start, tracing.aval_of(total).dtype, False)
        total = PRIMITIVES[combine].bind(total, start)
    total = _convert(total, result)
    return keep_dims(total, shape, axes) if keepdims else total


def _names_among(axis) -> tuple[str, ...]:
    return tuple([a for a in (axis if type(axis) is tuple else (axis,)) if type(a) is str])


def static_axes(axis, rank: int, name: str):
    """The axes that a user names, as one integer or any sequence of them; None stands for all."""
    if _names_among(axis):
        raise NameError(f"xnp.{name} got the axis {axis!r}, an unbound axis name: axes are numbers here. To reduce over named "
                        f"axes use lax.psum and its kin.")
    return canonical_axes(axis, rank, f"xnp.{name}")


def positions_and_names(axis, rank: int, name: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The axes that a user names, as their positions, and as the names of those that `vmap` and the like gave one."""
    names = _names_among(axis)
    if names:
        axis = () if type(axis) is str else tuple([a for a in axis if type(a) is not str])
    return canonical_axes(axis, rank, name), names


def _checked_dtype(dtype, name):
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.{name}")


# What parameters of the functions below say, which are made by tables.
_PARAMETERS = {
    "a": "the array.",
    "axis": "an axis or several; all without.",
    "dtype": "that of the computation and of the result.",
    "out": MUST_BE_NONE,
    "keepdims": "whether the axes stay, with size 1.",
    "initial": "a number that counts as one element more.",
    "where": "which elements count, a boolean array that broadcasts.",
    "promote_integers": "whether integers narrower than the default integer become such ones.",
}
_OF_EXTREMES = _PARAMETERS | {"where": "which elements count, a boolean array that broadcasts; `initial` is needed with it."}
_OVER_NAMES = {
    "axis": "an axis or several, each by its position or by the name that `vmap` and the like gave it; all positions without."}
_ALONG_ONE = _PARAMETERS | {"axis": "the axis; all elements in order without."}


def _finish(kernel, name: str, static: tuple[str, ...], says: str, example: str, parameters: dict[str, str] = _PARAMETERS,
            converts: bool = False, lists: bool = True):
    kernel.__name__ = kernel.__qualname__ = name
    kernel.__doc__ = docstring(kernel, says, example, parameters)
    return library(kernel, static=static, lists=tuple([n for n in static if n in ("axis", "out")]) if lists else False,
                   converts=converts)


def _make_summing(name, says, example):
    def kernel(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
               initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        axes, names = (static_axes(axis, np.ndim(a), name), ()) if name == "prod" else positions_and_names(
            axis, np.ndim(a), f"xnp.{name}")
        return _reduce(name, a, axes, _checked_dtype(dtype, name), keepdims, initial, where, promote_integers, names)

    return _finish(kernel, name, ("axis", "dtype", "keepdims", "out", "promote_integers"), says, example,
                   _PARAMETERS | ({} if name == "prod" else _OVER_NAMES))


sum = _make_summing("sum", "The sum of elements over axes; 16-bit floats are summed in 32 bits.", """\
>>> xnp.sum(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([4, 6], dtype=int32)""")
prod = _make_summing("prod", "The product of elements over axes; 16-bit floats are multiplied in 32 bits.", """\
>>> xnp.prod(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([3, 8], dtype=int32)""")


def _make_extreme(name, other_name, says, example):
    def kernel(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
               where: ArrayLike | None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        axes, names = positions_and_names(axis, np.ndim(a), f"xnp.{name}")
        return _reduce(name, a, axes, None, keepdims, initial, where, names=names)

    says = f"{says} of the elements over axes, NaN where one is NaN. `{name}` and `{other_name}` are two names of it."
    return _finish(kernel, name, ("axis", "keepdims", "out"), says, example, _OF_EXTREMES | _OVER_NAMES)


max = amax = _make_extreme("max", "amax", "The greatest", """\
>>> xnp.max(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([4, 3], dtype=int32)""")
min = amin = _make_extreme("min", "amin", "The least", """\
>>> xnp.min(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([1, 2], dtype=int32)""")


def _make_truth(name, primitive, identity, says, example):
    def kernel(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, *,
               where: ArrayLike | None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        x = _convert(to_bool(unwrap(a)), dtypes.bool_)
        axes = static_axes(axis, np.ndim(x), name)
        if where is not None:
            mask = boolean_mask(f"xnp.{name}", where)
            full = common_shape(np.shape(mask), np.shape(x))
            mask, x = (v if np.shape(v) == full else _spread(v, full) for v in (mask, x))
            x = elementwise.where(mask, x, np.bool_(identity))
        result = reduced(primitive, x, axes)
        return keep_dims(result, np.shape(x), axes) if keepdims else result

    return _finish(kernel, name, ("axis", "keepdims", "out"), says, example)


all = _make_truth("all", "reduce_and", True, "Whether all elements over axes are true, or not zero; true of none.", """\
>>> xnp.all(xnp.array([[True, False], [True, True]]), axis=1)
Array([False,  True], dtype=bool)""")
any = _make_truth("any", "reduce_or", False, "Whether an element over axes is true, or not zero; false of none.", """\
>>> xnp.any(xnp.array([[True, False], [False, False]]), axis=1)
Array([ True, False], dtype=bool)""")


@library(static=("axis", "keepdims"))
def count_nonzero(a: ArrayLike, axis: Axes = None, keepdims: bool = False) -> Array:
    """How many elements are not zero.

    - `a`: the array.
    - `axis`: an axis or several; all without.
    - `keepdims`: whether the axes stay, with size 1.

    >>> xnp.count_nonzero(xnp.array([[1, 0], [2, 3]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    check_arraylike("count_nonzero", a)
    return sum.__wrapped__(to_bool(unwrap(a)), axis, None, None, keepdims)


def _number(n, dtype):
    return size_as(n, dtype) if is_symbolic_dim(n) else np.asarray(n).astype(dtype)[()]


def _count(shape, axes, names=()):
    return math.prod(shape[i] for i in axes) * (math.prod(map(_collectives().axis_size, names)) if names else 1)


@library(static=("axis", "dtype", "out", "keepdims"), lists=("axis", "out"))
def mean(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, *,
         where: ArrayLike | None = None) -> Array:
    """The arithmetic mean over axes, NaN of nothing.

    - `a`: the array; 16-bit floats are summed in 32 bits.
    - `axis`: an axis or several, each by its position or by the name that `vmap` and the like gave it; all positions without.
    - `dtype`: that of the sum and of the result; the array's without, a floating one for integers and booleans.
    - `out`: of NumPy's signature; it must be None.
    - `keepdims`: whether the axes stay, with size 1.
    - `where`: which elements count, a boolean array that broadcasts.

    >>> xnp.mean(xnp.array([[1, 2], [3, 5]]), axis=0)
    Array([2. , 3.5], dtype=float32)
    """
    refuse_out("mean", out)
    check_arraylike("mean", a)
    axes, names = positions_and_names(axis, np.ndim(a), "xnp.mean")
    _check_mask("mean", where, np.shape(a))
    own = dtypes.of_arrays(tracing.aval_of(unwrap(a)).dtype)
    d = dtypes.to_inexact(own) if dtype is None else _checked_dtype(dtype, "mean")
    compute = dtypes.float32 if d in _HALF and dtype is None else d
    total = _reduce("sum", a, axes, compute, keepdims, None, where, names=names)
    if where is None:
        count = _number(_count(np.shape(a), axes, names), compute)
    else:
        count = _count_where(where, np.shape(a), axes, keepdims, compute, names)
    return _weakened(div(total, count), d)


def _weakened(x, d):
    return x if tracing.aval_of(x).dtype == d else _convert(x, d)


def _check_mask(name: str, where, shape: tuple) -> None:
    """What counts elements knows none but those of the array."""
    if where is None:
        return
    given = np.shape(boolean_mask(f"xnp.{name}", where))
    if common_shape(given, shape) != shape:
        raise ValueError(f"the `where` of xnp.{name} must broadcast to the shape of the array, {shape}; it has shape {given}. "
                         f"Broadcast the array with xnp.broadcast_to.")


def _count_where(where, shape, axes, keepdims, dtype, names=()):
    ones = _spread(np.asarray(1).astype(dtype)[()], shape)
    return _reduce("sum", ones, axes, dtype, keepdims, None, where, names=names)


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"), lists=("axis", "out", "ddof", "correction"),
         converts=True)
def var(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """The variance over axes: the mean squared distance from the mean, a real number of complex ones too.

    - `a`: the array.
    - `axis`: an axis or several; all without.
    - `dtype`: that of the result; one of integers is that of each step, so that quotients lose their fractions.
    - `out`: of NumPy's signature; it must be None.
    - `ddof`: what is taken from the number of elements that the sum of squares is divided by, a number or an array that
      broadcasts with the result; NaN where nothing is left.
    - `keepdims`: whether the axes stay, with size 1.
    - `where`: which elements count, a boolean array that broadcasts.
    - `mean`: the mean, if it is known, with the axes at size 1.
    - `correction`: another name of `ddof`.

    >>> xnp.var(xnp.array([1.0, 2.0, 3.0]), ddof=1)
    Array(1., dtype=float32)
    """
    refuse_out("var", out)
    check_arraylike("var", a)
    if correction is not None:
        if ddof != 0:
            raise ValueError("xnp.var takes ddof or correction, not both.")
        ddof = correction
    ddof = np.asarray(ddof) if isinstance(ddof, tuple) else ddof  # of an array, which was made one to be hashed
    a = unwrap(a)
    _check_mask("var", where, np.shape(a))
    own = dtypes.of_arrays(tracing.aval_of(a).dtype)
    d = dtypes.to_real(dtypes.to_inexact(own)) if dtype is None else _checked_dtype(dtype, "var")
    if own.kind == "c" and d.kind != "c" and dtype is not None:
        raise ValueError(f"xnp.var of complex numbers takes no real dtype, got {d}: leave it away, or take it of x.real and "
                         f"x.imag.")
    if not dtypes.is_inexact(d):
        return _variance_of_integers(a, static_axes(axis, np.ndim(a), "var"), d, ddof, keepdims, where, mean)
    compute = dtypes.float32 if d in _HALF else dtypes.to_complex(d) if own.kind == "c" else dtypes.to_real(d)
    axes, names = positions_and_names(axis, np.ndim(a), "xnp.var")
    a = as_type(a, compute, False)
    center = globals()["mean"].__wrapped__(a, axes + names, compute, keepdims=True, where=where) if mean is None else (
        as_type(unwrap(mean), compute, False))
    kept = common_shape(np.shape(center), np.shape(a))
    deviation = sub(a, _spread(center, kept))
    squared = real_(mul(deviation, conj_(deviation, input_dtype=compute))) if compute.kind == "c" else (
        square_(deviation))
    real = dtypes.to_real(compute)
    total = _reduce("sum", squared, axes, real, keepdims, None, where, names=names)
    # A variance needs more values than degrees of freedom.
    count = (_count(np.shape(a), axes, names) if where is None else
             _count_where(where, np.shape(a), axes, keepdims, real, names))
    if isinstance(count, int) and isinstance(ddof, _NUMBERS):
        count = exact(real.type(count - ddof if count > ddof else np.nan))
    else:
        count = _less(size_as(count, real) if where is None else count, ddof, real)
        count = elementwise.where(gt(count, real.type(0)), count, real.type(np.nan))
    return _weakened(div(total, count) if isinstance(ddof, _NUMBERS) else PUBLIC["divide"](total, count), d)


_NUMBERS = (int, float, np.generic)


def _less(count, ddof, d):
    """A count without degrees of freedom, which are a number or an array that broadcasts."""
    if isinstance(ddof, _NUMBERS):
        return sub(count, np.asarray(ddof).astype(d)[()])
    return PUBLIC["subtract"](count, as_type(ddof, d, False))


def _variance_of_integers(a, axes, d, ddof, keepdims, where, mean):
    """Computed in the arithmetic of a dtype of integers; a float, as it is NaN where nothing is left to divide by."""
    if d == dtypes.bool_:
        raise TypeError("xnp.var cannot divide in the dtype bool: its dtype argument must be one of floats or integers.")
    a = as_type(a, d, False)
    count = np.asarray(_count(np.shape(a), axes)).astype(d)[()] if where is None else _count_where(
        where, np.shape(a), axes, True, d)
    center = div(_reduce("sum", a, axes, d, True, None, where), count) if mean is None else as_type(unwrap(mean), d, False)
    kept = common_shape(np.shape(center), np.shape(a))
    total = _reduce("sum", square_(sub(a, _spread(center, kept))), axes, d, keepdims, None, where)
    if where is not None:
        count = count if keepdims else _count_where(where, np.shape(a), axes, False, d)
    divisor = _less(count, ddof, d)
    quotient = div(total, divisor) if isinstance(ddof, _NUMBERS) else PUBLIC["floor_divide"](total, divisor)
    found = as_type(quotient, dtypes.default_dtype(float), True)
    return elementwise.where(gt(divisor, d.type(0)), found, float("nan"))


@library(static=("axis", "dtype", "out", "ddof", "keepdims", "correction"), lists=("axis", "out", "ddof", "correction"),
         converts=True)
def std(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike | None = None, mean: ArrayLike | None = None,
        correction: float | None = None) -> Array:
    """The standard deviation over axes: the square root of `var`.

    - `a`: the array.
    - `axis`: an axis or several; all without.
    - `dtype`: that of the result, which must be a floating one.
    - `out`: of NumPy's signature; it must be None.
    - `ddof`, `correction`: two names of what is taken from the number of elements that the sum of squares is divided by.
    - `keepdims`: whether the axes stay, with size 1.
    - `where`: which elements count, a boolean array that broadcasts.
    - `mean`: the mean, if it is known, with the axes at size 1.

    >>> xnp.std(xnp.array([1.0, 2.0, 3.0]), ddof=1)
    Array(1., dtype=float32)
    """
    if dtype is not None and not dtypes.is_inexact(_checked_dtype(dtype, "std")):
        raise ValueError(f"the dtype argument of xnp.std must be inexact, got {dtype}.")
    return sqrt_(var.__wrapped__(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


@library(static=("axis", "out", "keepdims"), lists=("axis", "out"), converts=True)
def ptp(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False) -> Array:
    """The range of values: the maximum less the minimum.

    - `a`: the array.
    - `axis`: an axis or several; all without.
    - `out`: of NumPy's signature; it must be None.
    - `keepdims`: whether the axes stay, with size 1.

    >>> xnp.ptp(xnp.array([[4, 9], [2, 10]]), axis=1)
    Array([5, 8], dtype=int32)
    """
    check_arraylike("ptp", a)
    return sub(max.__wrapped__(a, axis, out, keepdims), min.__wrapped__(a, axis, out, keepdims))


def _make_arg(name, primitive, says, example):
    def kernel(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
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

    return _finish(kernel, name, ("axis", "out", "keepdims"), says, example, _ALONG_ONE, converts=True)


argmax = _make_arg("argmax", argmax_p, "The index of the first of the greatest elements; NaN counts as the greatest.", """\
>>> xnp.argmax(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([1, 0], dtype=int32)""")
argmin = _make_arg("argmin", argmin_p, "The index of the first of the least elements; NaN counts as the least.", """\
>>> xnp.argmin(xnp.array([[1, 4], [3, 2]]), axis=1)
Array([0, 1], dtype=int32)""")


def _make_cumulative(name, primitive, says, example):
    def kernel(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        refuse_out(name, out)
        check_arraylike(name, a)
        a = unwrap(a)
        if axis is None or not np.ndim(a) and tracing.aval_of(a).weak_type:  # what stands for a Python number has an axis
            a, axis = reshape_to(a, (math.prod(np.shape(a)),)), axis or 0
        d = dtypes.of_arrays(tracing.aval_of(a).dtype)
        wanted = (_sum_dtype(d, True) if d == dtypes.bool_ else d) if dtype is None else _checked_dtype(dtype, name)
        dtypes.warn_of_lost_parts(f"xnp.{name}", d, wanted)
        axis = canonical_axis(axis, np.ndim(a), f"xnp.{name}")
        if wanted == dtypes.bool_:
            return to_bool(primitive.bind(as_type(to_bool(a), dtypes.int32, False), axis=axis, reverse=False))
        return primitive.bind(_convert(a, wanted), axis=axis, reverse=False)

    return _finish(kernel, name, ("axis", "dtype", "out"), says, example, _ALONG_ONE, lists=False)


cumsum = _make_cumulative("cumsum", CUMULATIVE["cumsum"], "The sums of the first elements along an axis.", """\
>>> xnp.cumsum(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([[1, 2],
       [4, 6]], dtype=int32)""")
cumprod = _make_cumulative("cumprod", CUMULATIVE["cumprod"], "The products of the first elements along an axis.", """\
>>> xnp.cumprod(xnp.array([[1, 2], [3, 4]]), axis=0)
Array([[1, 2],
       [3, 8]], dtype=int32)""")


def _cumulative_from(name, function, start, x, axis, dtype, include_initial):
    check_arraylike(name, x)
    x = unwrap(x)
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
    - `dtype`: that of the result; without it integers that are narrower than the default integer become such ones, as in `sum`
      (and not as in `cumsum`).
    - `include_initial`: whether to begin with the sum of none, 0.

    >>> xnp.cumulative_sum(xnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    check_arraylike("cumulative_sum", x)
    return _cumulative_from("cumulative_sum", cumsum, 0, x, axis,
                            _sum_dtype(tracing.aval_of(unwrap(x)).dtype, True) if dtype is None else dtype, include_initial)


def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None,
                    include_initial: bool = False) -> Array:
    """The products of the first elements along an axis.

    - `x`: the array.
    - `axis`: along which axis; vectors need not say.
    - `dtype`: that of the result.
    - `include_initial`: whether to begin with the product of none, 1.

    >>> xnp.cumulative_prod(xnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
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
        common_shape(a1.shape, a2.shape)
    except ValueError:
        return asarray(False)
    return all(PUBLIC["equal"](a1, a2))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and the same elements.

    - `a1`, `a2`: the arrays.
    - `equal_nan`: whether NaN equals NaN.

    >>> xnp.array_equal(xnp.array([1, 2]), xnp.array([1, 2, 3]))
    Array(False, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return asarray(False)
    same = PUBLIC["equal"](a1, a2)
    if equal_nan:
        same = PUBLIC["logical_or"](same, PUBLIC["logical_and"](PUBLIC["isnan"](a1), PUBLIC["isnan"](a2)))
    return all(same)


@library(static="equal_nan", lists=True, converts=True)
def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False) -> Array:
    """Whether all elements are equal within `atol + rtol * abs(b)`.

    - `a`, `b`: the arrays, broadcast to one shape; `b` is the reference.
    - `rtol`: the tolerance relative to `b`.
    - `atol`: the tolerance that comes on top of it.
    - `equal_nan`: whether NaN is close to NaN.

    >>> xnp.allclose(xnp.array([1.0, 2.0]), xnp.array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    return all(PUBLIC["isclose"](a, b, rtol, atol, equal_nan))
