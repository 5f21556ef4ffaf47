"""Functions that leave NaNs out: reductions, quantiles, cumulative sums of the elements that are there, and `nan_to_num`."""

from __future__ import annotations

import operator

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax.elementwise import as_type, complex_, imag_, real_
from xlafront.numpy import reductions, searching
from xlafront.numpy.creation import asarray
from xlafront.numpy.manipulation import broadcast_arrays
from xlafront.numpy.promotion import boolean_mask, check_arraylike, hashable_axis, promote_args, unwrap
from xlafront.numpy.reductions import refuse_out
from xlafront.numpy.statistics import QUANTILE_STATICS, checked_quantile, of_percentage
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library


def _reduced(name, reduction, filler, a, out, where, axis, keepdims, initial, dtype=None):
    refuse_out(name, out)
    check_arraylike(name, a)
    hashable_axis(axis, name)
    where = None if where is None else boolean_mask(f"xnp.{name}", where)
    return _reduce_others(asarray(a), where, initial, reduction, filler, axis, keepdims, dtype)


@library(static=("reduction", "filler", "axis", "keepdims", "dtype"), name="without_nans")
def _reduce_others(a, where, initial, reduction, filler, axis, keepdims, dtype):
    """A reduction of the elements that are no NaN, with `filler` in place of those that are."""
    function = getattr(reductions, reduction)
    options = {"axis": axis, "keepdims": keepdims, "initial": initial, "where": where} | (
        {} if dtype is None else {"dtype": dtype})
    if not dtypes.is_inexact(a.dtype):
        return function(a, **options)
    missing = PUBLIC["isnan"](a)
    result = function(searching.where(missing, filler, a), **options)
    if filler in (0, 1) or initial is not None:
        return result
    return searching.where(reductions.all(missing, axis=axis, keepdims=keepdims), np.nan, result)


@library(static=("axis", "dtype", "out", "keepdims"), lists="out", converts=True)
def nansum(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """The sum of the elements that are not NaN; 0 of none.

    - `a`: the array.
    - `axis`, `dtype`, `out`, `keepdims`, `initial`, `where`: as for `sum`.

    >>> xnp.nansum(xnp.array([1.0, xnp.nan, 2.0]))
    Array(3., dtype=float32)
    """
    return _reduced("nansum", "sum", 0, a, out, where, axis, keepdims, initial, dtype)


@library(static=("axis", "dtype", "out", "keepdims"), lists="out", converts=True)
def nanprod(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
            initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """The product of the elements that are not NaN; 1 of none.

    - `a`: the array.
    - `axis`, `dtype`, `out`, `keepdims`, `initial`, `where`: as for `prod`.

    >>> xnp.nanprod(xnp.array([3.0, xnp.nan, 2.0]))
    Array(6., dtype=float32)
    """
    return _reduced("nanprod", "prod", 1, a, out, where, axis, keepdims, initial, dtype)


@library(static=("axis", "out", "keepdims"), lists="out", converts=True)
def nanmax(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
           where: ArrayLike | None = None) -> Array:
    """The greatest of the elements that are not NaN; NaN of none.

    - `a`: the array.
    - `axis`, `out`, `keepdims`, `initial`, `where`: as for `max`.

    >>> xnp.nanmax(xnp.array([1.0, xnp.nan, 2.0]))
    Array(2., dtype=float32)
    """
    return _reduced("nanmax", "max", -np.inf, a, out, where, axis, keepdims, initial)


@library(static=("axis", "out", "keepdims"), lists="out", converts=True)
def nanmin(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
           where: ArrayLike | None = None) -> Array:
    """The least of the elements that are not NaN; NaN of none.

    - `a`: the array.
    - `axis`, `out`, `keepdims`, `initial`, `where`: as for `min`.

    >>> xnp.nanmin(xnp.array([1.0, xnp.nan, 2.0]))
    Array(1., dtype=float32)
    """
    return _reduced("nanmin", "min", np.inf, a, out, where, axis, keepdims, initial)


def _moment(name, moment, a, out, where, mean, axis, dtype, keepdims, ddof=0):
    refuse_out(name, out)
    check_arraylike(name, a)
    hashable_axis(axis, name)
    where = None if where is None else boolean_mask(f"xnp.{name}", where)
    return _moment_of_others(asarray(a), where, mean, moment, axis, dtype, keepdims, ddof)


@library(static=("moment", "axis", "dtype", "keepdims", "ddof"), lists="ddof", name="without_nans")
def _moment_of_others(a, where, mean, moment, axis, dtype, keepdims, ddof):
    """The mean or the variance of the elements that are no NaN."""
    if where is not None:
        where, a = broadcast_arrays(where, a)
    if dtypes.is_inexact(a.dtype):
        missing = PUBLIC["isnan"](a)
        present = PUBLIC["logical_not"](missing)
        where = present if where is None else PUBLIC["logical_and"](present, where)
        a = searching.where(missing, 0, a)  # so that no derivative sees it
    if moment == "mean":
        return reductions.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    return reductions.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean)


@library(static=("axis", "dtype", "out", "keepdims"), lists="out", converts=True)
def nanmean(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
            where: ArrayLike | None = None) -> Array:
    """The mean of the elements that are not NaN; NaN of none.

    - `a`: the array.
    - `axis`, `dtype`, `out`, `keepdims`, `where`: as for `mean`.

    >>> xnp.nanmean(xnp.array([1.0, xnp.nan, 2.0]))
    Array(1.5, dtype=float32)
    """
    return _moment("nanmean", "mean", a, out, where, None, axis, dtype, keepdims)


@library(static=("axis", "dtype", "out", "ddof", "keepdims"), lists=("out", "ddof"), converts=True)
def nanvar(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None, mean: ArrayLike | None = None) -> Array:
    """The variance of the elements that are not NaN.

    - `a`: the array.
    - `axis`, `dtype`, `out`, `ddof`, `keepdims`, `where`, `mean`: as for `var`. Of a `dtype` of integers there are no NaN, and
      the result is of it.

    >>> xnp.nanvar(xnp.array([1.0, xnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    if dtype is not None and dtypes.issubdtype(dtype, np.integer):
        check_arraylike("nanvar", a)
        a = asarray(a)
        if not dtypes.is_complex(a.dtype):  # which `var` refuses
            a = a.astype(dtype)
        return reductions.var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean).astype(dtype)
    return _moment("nanvar", "var", a, out, where, mean, axis, dtype, keepdims, ddof)


@library(static=("axis", "dtype", "out", "ddof", "keepdims"), lists=("out", "ddof"), converts=True)
def nanstd(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None, mean: ArrayLike | None = None) -> Array:
    """The standard deviation of the elements that are not NaN.

    - `a`: the array.
    - `axis`, `dtype`, `out`, `ddof`, `keepdims`, `where`, `mean`: as for `std`.

    >>> xnp.nanstd(xnp.array([1.0, xnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    if dtype is not None and not dtypes.is_inexact(np.dtype(dtype)):
        raise TypeError(f"xnp.nanstd takes the square root in the dtype of the result, which must be inexact: got {dtype}.")
    return PUBLIC["sqrt"](nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def _without_nans(name: str, identity, function, a, axis, dtype, out):
    refuse_out(name, out)
    check_arraylike(name, a)
    a = asarray(a)
    if dtypes.is_inexact(a.dtype):
        a = searching.where(PUBLIC["isnan"](a), identity, a)
    return function(a, axis=axis, dtype=dtype)


@library(static=("axis", "dtype", "out"), lists="out", converts=True)
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """The cumulative sum, with 0 in place of NaN.

    - `a`: the array.
    - `axis`, `dtype`, `out`: as for `cumsum`.

    >>> xnp.nancumsum(xnp.array([1.0, xnp.nan, 2.0]))
    Array([1., 1., 3.], dtype=float32)
    """
    return _without_nans("nancumsum", 0, reductions.cumsum, a, axis, dtype, out)


@library(static=("axis", "dtype", "out"), lists="out", converts=True)
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """The cumulative product, with 1 in place of NaN.

    - `a`: the array.
    - `axis`, `dtype`, `out`: as for `cumprod`.

    >>> xnp.nancumprod(xnp.array([3.0, xnp.nan, 2.0]))
    Array([3., 3., 6.], dtype=float32)
    """
    return _without_nans("nancumprod", 1, reductions.cumprod, a, axis, dtype, out)


@library(static=("name", "axis", "keepdims"))
def _arg_extreme(a, name, axis, keepdims):
    filler, function = {"nanargmax": (-np.inf, reductions.argmax), "nanargmin": (np.inf, reductions.argmin)}[name]
    a = unwrap(a)
    if not dtypes.is_inexact(tracing.aval_of(a).dtype):
        return function(a, axis=axis, keepdims=keepdims)
    missing = PUBLIC["isnan"](a)
    found = function(searching.where(missing, filler, a), axis=axis, keepdims=keepdims)
    return searching.where(reductions.all(missing, axis=axis, keepdims=keepdims), -1, found)


def _arg(name, a, axis, out, keepdims):
    refuse_out(name, out)
    check_arraylike(name, a)
    return _arg_extreme(unwrap(a), name, None if axis is None else operator.index(axis), bool(keepdims))


@library(static=("axis", "out", "keepdims"), lists="out", converts=True)
def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first maximum of the elements that are not NaN, -1 where there are none (NumPy raises an error).

    - `a`: the values.
    - `axis`: the axis along which to look; all elements without.
    - `out`: of NumPy's signature; it must be None.
    - `keepdims`: whether the axis stays, with size 1.

    >>> xnp.nanargmax(xnp.array([1.0, xnp.nan, 2.0]))
    Array(2, dtype=int32)
    """
    return _arg("nanargmax", a, axis, out, keepdims)


@library(static=("axis", "out", "keepdims"), lists="out", converts=True)
def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the first minimum of the elements that are not NaN, -1 where there are none (NumPy raises an error).

    - `a`: the values.
    - `axis`: the axis along which to look; all elements without.
    - `out`: of NumPy's signature; it must be None.
    - `keepdims`: whether the axis stays, with size 1.

    >>> xnp.nanargmin(xnp.array([xnp.nan, 1.0, 2.0]))
    Array(1, dtype=int32)
    """
    return _arg("nanargmin", a, axis, out, keepdims)


@library(static=QUANTILE_STATICS, converts=True)
def nanquantile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None) -> Array:
    """The values below which a fraction of the elements that are not NaN lies.

    - `a`: the array.
    - `q`: the fraction, a float or a vector of them.
    - `axis`, `out`, `overwrite_input`, `method`, `keepdims`, `weights`: as for `quantile`.

    >>> xnp.nanquantile(xnp.array([1.0, xnp.nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    check_arraylike("nanquantile", a, q)
    return checked_quantile("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True)


def nanpercentile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None) -> Array:
    """The values below which a percentage of the elements that are not NaN lies.

    - `a`: the array.
    - `q`: the percentage, a number or a vector of them.
    - `axis`, `out`, `overwrite_input`, `method`, `keepdims`, `weights`: as for `quantile`.

    >>> xnp.nanpercentile(xnp.array([1.0, xnp.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    return of_percentage(a, q, weights, out, "nanpercentile", axis, overwrite_input, method, keepdims, True)


@library(static=QUANTILE_STATICS, converts=True)
def nanmedian(a: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Array:
    """The middle value of the elements that are not NaN.

    - `a`: the array.
    - `axis`, `out`, `overwrite_input`, `keepdims`: as for `median`.

    >>> xnp.nanmedian(xnp.array([1.0, xnp.nan, 3.0, 8.0]))
    Array(3., dtype=float32)
    """
    return checked_quantile("nanmedian", a, None, axis, out, overwrite_input, "midpoint", keepdims, None, True)


def _replaced(x, nan, posinf, neginf):
    [x] = promote_args("nan_to_num", x)
    d = tracing.aval_of(x).dtype
    if not dtypes.is_inexact(d):
        return x
    if d.kind == "c":
        return complex_(*[_replaced(part(x), nan, posinf, neginf) for part in (real_, imag_)])
    limits = dtypes.finfo(d)
    for place, value in (("isnan", nan), ("isposinf", limits.max if posinf is None else posinf),
                         ("isneginf", limits.min if neginf is None else neginf)):
        x = searching.where(PUBLIC[place](x), as_type(unwrap(value), d, False), x)
    return x


@library(static="copy")
def nan_to_num(x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
               neginf: ArrayLike | None = None) -> Array:
    """Numbers in place of NaN and infinities.

    - `x`: the array.
    - `copy`: of NumPy's signature; arrays do not change, there is always a new one.
    - `nan`: what replaces NaN.
    - `posinf`, `neginf`: what replaces infinities, the greatest and the least finite number without.

    >>> xnp.nan_to_num(xnp.array([1.0, xnp.nan]), nan=5.0)
    Array([1., 5.], dtype=float32)
    """
    check_arraylike("nan_to_num", x)
    return _replaced(x, nan, posinf, neginf)
