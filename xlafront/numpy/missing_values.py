"""Functions that ignore NaNs: reductions, quantiles and cumulative sums, and `nan_to_num`."""

from __future__ import annotations

import operator

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import as_type, complex_, imag_, real_
from xlafront.numpy import reductions, searching
from xlafront.numpy.creation import asarray
from xlafront.numpy.manipulation import broadcast_arrays
from xlafront.numpy.promotion import boolean_mask, check_arraylike, hashable_axis, promote_args, unwrap
from xlafront.numpy.reductions import refuse_out
from xlafront.numpy.statistics import QUANTILE_STATICS, checked_percentile, checked_quantile
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


def _nan_reduction(name, reduction, filler, a, out, where, axis, keepdims, initial, dtype=None):
    refuse_out(name, out)
    check_arraylike(name, a)
    hashable_axis(axis, name)
    where = None if where is None else boolean_mask(f"numpy.{name}", where)
    return _reduce_ignoring_nan(asarray(a), where, initial, reduction, filler, axis, keepdims, dtype)


@library(static=("reduction", "filler", "axis", "keepdims", "dtype"), name="without_nans")
def _reduce_ignoring_nan(a, where, initial, reduction, filler, axis, keepdims, dtype):
    """Reduce the elements that are not NaN, with NaNs replaced by `filler`."""
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


@library(static=("axis", "dtype", "out", "keepdims"))
@accepts(objects=True, lists="out")
def nansum(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """Sum elements over axes, ignoring NaNs; the sum of no elements is 0.

    Args:
        a: The array.
        axis, dtype, out, keepdims, initial, where: See `sum`.

    Returns:
        The sums.

    Example:
        >>> xnp.nansum(xnp.array([1.0, xnp.nan, 2.0]))
        Array(3., dtype=float32)
    """
    return _nan_reduction("nansum", "sum", 0, a, out, where, axis, keepdims, initial, dtype)


@library(static=("axis", "dtype", "out", "keepdims"))
@accepts(objects=True, lists="out")
def nanprod(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
            initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """Multiply elements over axes, ignoring NaNs; the product of no elements is 1.

    Args:
        a: The array.
        axis, dtype, out, keepdims, initial, where: See `prod`.

    Returns:
        The products.

    Example:
        >>> xnp.nanprod(xnp.array([3.0, xnp.nan, 2.0]))
        Array(6., dtype=float32)
    """
    return _nan_reduction("nanprod", "prod", 1, a, out, where, axis, keepdims, initial, dtype)


@library(static=("axis", "out", "keepdims"))
@accepts(objects=True, lists="out")
def nanmax(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
           where: ArrayLike | None = None) -> Array:
    """Compute the maximum over axes, ignoring NaNs; it is NaN if all elements are.

    Args:
        a: The array.
        axis, out, keepdims, initial, where: See `max`.

    Returns:
        The maxima.

    Example:
        >>> xnp.nanmax(xnp.array([1.0, xnp.nan, 2.0]))
        Array(2., dtype=float32)
    """
    return _nan_reduction("nanmax", "max", -np.inf, a, out, where, axis, keepdims, initial)


@library(static=("axis", "out", "keepdims"))
@accepts(objects=True, lists="out")
def nanmin(a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
           where: ArrayLike | None = None) -> Array:
    """Compute the minimum over axes, ignoring NaNs; it is NaN if all elements are.

    Args:
        a: The array.
        axis, out, keepdims, initial, where: See `min`.

    Returns:
        The minima.

    Example:
        >>> xnp.nanmin(xnp.array([1.0, xnp.nan, 2.0]))
        Array(1., dtype=float32)
    """
    return _nan_reduction("nanmin", "min", np.inf, a, out, where, axis, keepdims, initial)


def _nan_moment(name, moment, a, out, where, mean, axis, dtype, keepdims, ddof=0):
    refuse_out(name, out)
    check_arraylike(name, a)
    hashable_axis(axis, name)
    where = None if where is None else boolean_mask(f"numpy.{name}", where)
    return _moment_ignoring_nan(asarray(a), where, mean, moment, axis, dtype, keepdims, ddof)


@library(static=("moment", "axis", "dtype", "keepdims", "ddof"), name="without_nans")
@accepts(nodes=True, lists="ddof")
def _moment_ignoring_nan(a, where, mean, moment, axis, dtype, keepdims, ddof):
    """Return the mean or the variance of the elements that are not NaN."""
    if where is not None:
        where, a = broadcast_arrays(where, a)
    if 0 in a.shape:
        a = stop_gradient(a)  # the moments are NaN, which is constant
    if dtypes.is_inexact(a.dtype):
        missing = PUBLIC["isnan"](a)
        present = PUBLIC["logical_not"](missing)
        where = present if where is None else PUBLIC["logical_and"](present, where)
        a = searching.where(missing, 0, a)  # keeps NaNs out of derivatives
    if moment == "mean":
        return reductions.mean(a, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    return reductions.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean)


@library(static=("axis", "dtype", "out", "keepdims"))
@accepts(objects=True, lists="out")
def nanmean(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
            where: ArrayLike | None = None) -> Array:
    """Compute the mean over axes, ignoring NaNs; it is NaN if all elements are.

    Args:
        a: The array.
        axis, dtype, out, keepdims, where: See `mean`.

    Returns:
        The means.

    Example:
        >>> xnp.nanmean(xnp.array([1.0, xnp.nan, 2.0]))
        Array(1.5, dtype=float32)
    """
    return _nan_moment("nanmean", "mean", a, out, where, None, axis, dtype, keepdims)


@library(static=("axis", "dtype", "out", "ddof", "keepdims"))
@accepts(objects=True, lists=("out", "ddof"))
def nanvar(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None, mean: ArrayLike | None = None) -> Array:
    """Compute the variance over axes, ignoring NaNs.

    Args:
        a: The array.
        axis, dtype, out, ddof, keepdims, where, mean: See `var`. With an integer `dtype`, the array is converted first,
            so that NaNs are not ignored, and the result has this dtype.

    Returns:
        The variances.

    Example:
        >>> xnp.nanvar(xnp.array([1.0, xnp.nan, 3.0]))
        Array(1., dtype=float32)
    """
    if dtype is not None and dtypes.issubdtype(dtype, np.integer):
        check_arraylike("nanvar", a)
        a = asarray(a)
        if not dtypes.is_complex(a.dtype):  # `var` raises for these
            a = a.astype(dtype)
        return reductions.var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean).astype(dtype)
    return _nan_moment("nanvar", "var", a, out, where, mean, axis, dtype, keepdims, ddof)


@library(static=("axis", "dtype", "out", "ddof", "keepdims"))
@accepts(objects=True, lists=("out", "ddof"))
def nanstd(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None, mean: ArrayLike | None = None) -> Array:
    """Compute the standard deviation over axes, ignoring NaNs.

    Args:
        a: The array.
        axis, dtype, out, ddof, keepdims, where, mean: See `std`.

    Returns:
        The standard deviations.

    Example:
        >>> xnp.nanstd(xnp.array([1.0, xnp.nan, 3.0]))
        Array(1., dtype=float32)
    """
    variances = nanvar(a, axis, dtype, out, ddof, keepdims, where, mean)
    if dtype is not None and not dtypes.is_inexact(np.dtype(dtype)):
        raise TypeError(
            f"numpy.nanstd computes the square root in the dtype of the result, which must be inexact: got {dtype}.")
    return PUBLIC["sqrt"](variances)


def _nan_cumulative(name: str, identity, function, a, axis, dtype, out):
    refuse_out(name, out)
    check_arraylike(name, a)
    a = asarray(a)
    if dtypes.is_inexact(a.dtype):
        a = searching.where(PUBLIC["isnan"](a), identity, a)
    return function(a, axis=axis, dtype=dtype)


@library(static=("axis", "dtype", "out"))
@accepts(objects=True, lists="out")
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Compute the cumulative sum, with NaNs counted as 0.

    Args:
        a: The array.
        axis, dtype, out: See `cumsum`.

    Returns:
        The cumulative sums.

    Example:
        >>> xnp.nancumsum(xnp.array([1.0, xnp.nan, 2.0]))
        Array([1., 1., 3.], dtype=float32)
    """
    return _nan_cumulative("nancumsum", 0, reductions.cumsum, a, axis, dtype, out)


@library(static=("axis", "dtype", "out"))
@accepts(objects=True, lists="out")
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Compute the cumulative product, with NaNs counted as 1.

    Args:
        a: The array.
        axis, dtype, out: See `cumprod`.

    Returns:
        The cumulative products.

    Example:
        >>> xnp.nancumprod(xnp.array([3.0, xnp.nan, 2.0]))
        Array([3., 3., 6.], dtype=float32)
    """
    return _nan_cumulative("nancumprod", 1, reductions.cumprod, a, axis, dtype, out)


@library(static=("name", "axis", "keepdims"))
def _arg_extreme(a, name, axis, keepdims):
    filler, function = {"nanargmax": (-np.inf, reductions.argmax), "nanargmin": (np.inf, reductions.argmin)}[name]
    a = unwrap(a)
    if not dtypes.is_inexact(tracing.aval_of(a).dtype):
        return function(a, axis=axis, keepdims=keepdims)
    missing = PUBLIC["isnan"](a)
    found = function(searching.where(missing, filler, a), axis=axis, keepdims=keepdims)
    return searching.where(reductions.all(missing, axis=axis, keepdims=keepdims), -1, found)


def _nan_arg_reduction(name, a, axis, out, keepdims):
    refuse_out(name, out)
    check_arraylike(name, a)
    return _arg_extreme(unwrap(a), name, None if axis is None else operator.index(axis), bool(keepdims))


@library(static=("axis", "out", "keepdims"))
@accepts(objects=True, lists=("axis", "out"))
def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the index of the first maximum along an axis, ignoring NaNs.

    Args:
        a: The array.
        axis: Axis to search along. Default: the flattened array.
        out: Not supported; must be None.
        keepdims: If True, keep the axis with size 1.

    Returns:
        The indices; -1 if all elements are NaN.

    Note:
        NumPy raises an error if all elements are NaN.

    Example:
        >>> xnp.nanargmax(xnp.array([1.0, xnp.nan, 2.0]))
        Array(2, dtype=int32)
    """
    return _nan_arg_reduction("nanargmax", a, axis, out, keepdims)


@library(static=("axis", "out", "keepdims"))
@accepts(objects=True, lists=("axis", "out"))
def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the index of the first minimum along an axis, ignoring NaNs.

    Args:
        a: The array.
        axis: Axis to search along. Default: the flattened array.
        out: Not supported; must be None.
        keepdims: If True, keep the axis with size 1.

    Returns:
        The indices; -1 if all elements are NaN.

    Note:
        NumPy raises an error if all elements are NaN.

    Example:
        >>> xnp.nanargmin(xnp.array([xnp.nan, 1.0, 2.0]))
        Array(1, dtype=int32)
    """
    return _nan_arg_reduction("nanargmin", a, axis, out, keepdims)


@library(static=QUANTILE_STATICS)
@accepts(objects=True)
def nanquantile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None) -> Array:
    """Compute quantiles over axes, ignoring NaNs.

    Args:
        a: The array.
        q: The quantile in [0, 1], a float or a vector of floats.
        axis, out, overwrite_input, method, keepdims, weights: See `quantile`.

    Returns:
        The quantiles, with the shape of `q` in front of the remaining axes.

    Example:
        >>> xnp.nanquantile(xnp.array([1.0, xnp.nan, 3.0]), 0.5)
        Array(2., dtype=float32)
    """
    check_arraylike("nanquantile", a, q)
    return checked_quantile("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True)


def nanpercentile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None) -> Array:
    """Compute percentiles over axes, ignoring NaNs.

    Args:
        a: The array.
        q: The percentage in [0, 100], a number or a vector of numbers.
        axis, out, overwrite_input, method, keepdims, weights: See `quantile`.

    Returns:
        The percentiles, with the shape of `q` in front of the remaining axes.

    Example:
        >>> xnp.nanpercentile(xnp.array([1.0, xnp.nan, 3.0]), 50)
        Array(2., dtype=float32)
    """
    return checked_percentile(a, q, weights, out, "nanpercentile", axis, overwrite_input, method, keepdims, True)


@library(static=QUANTILE_STATICS)
@accepts(objects=True)
def nanmedian(a: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Array:
    """Compute the median over axes, ignoring NaNs.

    Args:
        a: The array.
        axis, out, overwrite_input, keepdims: See `median`.

    Returns:
        The medians.

    Example:
        >>> xnp.nanmedian(xnp.array([1.0, xnp.nan, 3.0, 8.0]))
        Array(3., dtype=float32)
    """
    return checked_quantile("nanmedian", a, None, axis, out, overwrite_input, "midpoint", keepdims, None, True)


def _replace_nonfinite(x, nan, posinf, neginf):
    [x] = promote_args("nan_to_num", x)
    d = tracing.aval_of(x).dtype
    if not dtypes.is_inexact(d):
        return x
    if d.kind == "c":
        return complex_(*[_replace_nonfinite(component(x), nan, posinf, neginf) for component in (real_, imag_)])
    limits = dtypes.finfo(d)
    for test, value in (("isnan", nan), ("isposinf", limits.max if posinf is None else posinf),
                        ("isneginf", limits.min if neginf is None else neginf)):
        value = asarray(value) if value is None or isinstance(value, (list, tuple)) else unwrap(value)
        x = searching.where(PUBLIC[test](x), as_type(value, d, False), x)
    return x


@library(static="copy")
@accepts(nodes=True)
def nan_to_num(x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
               neginf: ArrayLike | None = None) -> Array:
    """Replace NaNs and infinities by numbers.

    Args:
        x: The array.
        copy: Ignored; arrays are immutable and the result is always new.
        nan: Replacement for NaN.
        posinf, neginf: Replacements for infinities. Default: the largest and the smallest finite number.

    Returns:
        The array with these elements replaced.

    Example:
        >>> xnp.nan_to_num(xnp.array([1.0, xnp.nan]), nan=5.0)
        Array([1., 5.], dtype=float32)
    """
    check_arraylike("nan_to_num", x)
    return _replace_nonfinite(x, nan, posinf, neginf)
