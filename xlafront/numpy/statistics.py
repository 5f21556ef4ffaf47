"""Descriptive statistics: averages, quantiles, covariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax import elementwise, shapes
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.elementwise import add, and_, as_type, ceil_, eq, floor_, gt, is_finite_, mul, ne, not_, size_scalar, sub
from xlafront.lax.elementwise_functions import clamp
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.sorting import sort, sort_p
from xlafront.numpy import host_sorting, reductions
from xlafront.numpy.creation import asarray, astype, full_like, zeros
from xlafront.numpy.diagonals import diagonal
from xlafront.numpy.indexing import take_along_axis, take_rows
from xlafront.numpy.linear import matmul
from xlafront.numpy.manipulation import atleast_2d, broadcast_to, concatenate, reshape, squeeze, transpose
from xlafront.numpy.promotion import (
    check_arraylike,
    hashable_axis,
    promote_dtypes_inexact,
    unwrap,
    unwrap_node,
    within_setting,
)
from xlafront.numpy.reductions import cumsum
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim, max_dim


@library(static=("axis", "returned", "keepdims"))
@accepts(objects=True, lists="axis")
def average(a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False,
            keepdims: bool = False) -> Array | tuple[Array, Array]:
    """Compute the weighted mean over axes.

    Args:
        a: The values.
        axis: Axis or axes to reduce over. Default: all.
        weights: Weights of the shape of `a`, or of the shape of its `axis` in their order. Default: equal weights.
        returned: If True, also return the sums of the weights.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        The mean, or a tuple of the mean and the sums of the weights.

    Example:
        >>> xnp.average(xnp.array([1.0, 2.0, 4.0]), weights=xnp.array([1, 1, 2]))
        Array(2.75, dtype=float32)
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
            raise ValueError(f"numpy.average needs an axis if the shape of the weights, {w.shape}, differs from that of the "
                             f"array, {a.shape}.")
        axes = reductions.static_axes(axis, a.ndim, "average")
        if w.shape != tuple(a.shape[i] for i in axes):
            raise ValueError(f"numpy.average needs weights of the array's shape {a.shape}, or of that of its axis {axis}; got "
                             f"shape {w.shape}.")
        order = sorted(range(w.ndim), key=axes.__getitem__)
        w = reshape(transpose(w, order), tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))
        w = broadcast_to(w, a.shape)
    total = reductions.sum(w, axis=axis, keepdims=keepdims)
    result = reductions.sum(a * w, axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


# Quantiles


@library(static=("axes", "keepdims", "method", "ignore_nan"))
def _quantile(a, q, weights, axes, keepdims, method, ignore_nan):
    a = promote_dtypes_inexact(unwrap(a), *(() if weights is None else (weights,)))[0]
    d = tracing.aval_of(a).dtype
    if d.kind == "c":
        raise ValueError("quantiles of complex numbers are not defined: they have no order. Use x.real and x.imag.")
    q = _fraction(q, d)
    shape = np.shape(a)
    batch_axes = [i for i in range(len(shape)) if i not in axes]
    rows = _collapse_axes(a, axes, batch_axes)
    missing = ne(rows, rows)
    nan = (reductions.all if ignore_nan else reductions.any)(missing, 0)
    target = (*np.shape(q), *np.shape(rows)[1:])
    if method == "inverted_cdf":
        weights = full_like(rows, 1) if weights is None else _collapse_axes(as_type(weights, d, False), axes, batch_axes)
        result = _inverted_cdf(rows, q, elementwise.where(missing, d.type(0), weights) if ignore_nan else weights)
    else:
        count = reductions.sum(not_(missing), 0, d) if ignore_nan else None
        result = _interpolate(sort(rows, 0, is_stable=False), q, method, count)
    if np.shape(nan) != target:
        nan = shapes.broadcast_in_dim(nan, target, range(len(target) - np.ndim(nan), len(target)))
    result = elementwise.where(nan, d.type(np.nan), result)
    if keepdims:
        sizes = [1 if i in axes else m for i, m in enumerate(shape)] or [1]  # a scalar counts as a vector of one element
        result = shapes.reshape_to(result, (*np.shape(q), *sizes))
    return result


def _fraction(q, dtype):
    q = unwrap(0.5 if q is None else q)
    return q if tracing.aval_of(q).dtype == dtype and isinstance(q, tracing.Tracer) else as_type(q, dtype, False)


@library(static=("method", "sizes"), name="quantile")
def _quantile_of_ordered(ordered, q, method, sizes):
    """Return the quantiles of a vector that is sorted as far as they read it. NaN, which is last, makes all of them NaN.

    `sizes` are the axes to keep.
    """
    [ordered] = promote_dtypes_inexact(ordered)
    d = tracing.aval_of(ordered).dtype
    q = _fraction(q, d)
    result = _interpolate(ordered, q, method, None)
    last = ordered[-1]
    return shapes.reshape_to(elementwise.where(ne(last, last), d.type(np.nan), result), (*np.shape(q), *sizes))


def _quantile_on_host(x, values, q, axis, out, overwrite_input, method, keepdims, weights, ignore_nan=False):
    """Return a quantile over all axes, whose elements NumPy sorts as far as needed; None for other calls."""
    if overwrite_input or out is not None or weights is not None or ignore_nan or method not in _METHODS[:-1]:
        return None
    if axis is not None and (x.ndim != 1 or axis not in (0, -1)) or not (
            q is None or type(q) is float or isinstance(q, Array) and q.ndim < 2 and dtypes.is_float(q.dtype)):
        return None
    d = dtypes.to_inexact(values.dtype)
    position = np.nan_to_num(np.asarray(0.5 if q is None else q, d) * d.type(values.size - 1)).reshape(-1)
    rows = np.clip([*np.floor(position), *np.ceil(position)], 0, values.size - 1).astype(np.int64)
    ordered = host_sorting.from_host(host_sorting.partly_sorted(values.reshape(-1), rows), x, x.weak_type)
    return _quantile_of_ordered(ordered, q, method, (1,) * (x.ndim if keepdims else 0))


def _collapse_axes(a, axes, batch_axes):
    """Collapse the reduced axes into one leading axis."""
    shape = np.shape(a)
    return shapes.reshape_to(shapes.transpose_p.bind(a, permutation=(*axes, *batch_axes)), (
        math.prod(shape[i] for i in axes), *[shape[i] for i in batch_axes]))


def _interpolate(ordered, q, method, count):
    """Return the values at the fraction `q` of sorted rows, interpolated by `method`.

    `count` is the number of valid rows of each column (None: all rows are valid).
    """
    n, d = np.shape(ordered)[0], tracing.aval_of(ordered).dtype
    if count is None:
        position = mul(q, size_scalar(n - 1, d))
    else:
        position = shapes.expand_dims(q, range(np.ndim(q), np.ndim(q) + np.ndim(count))) * clip(count - 1, 0)
    low, high = floor_(position), ceil_(position)
    weight = sub(position, low)

    def rows_at(row):
        rows = clamp(np.int32(0), to_dtype(row, np.int32), size_scalar(n - 1, np.int32))
        if count is None:
            return take_rows(ordered, rows)
        rows = shapes.reshape_to(rows, (math.prod(np.shape(q)), *np.shape(count)))
        return shapes.reshape_to(take_along_axis(ordered, rows, 0), np.shape(row))

    below, above = rows_at(low), rows_at(high)
    w = weight if not np.ndim(weight) else shapes.broadcast_in_dim(weight, np.shape(below), range(np.ndim(weight)))
    half, one = d.type(0.5), d.type(1)
    if method == "linear":
        result = add(mul(below, sub(one, w)), mul(above, w))
        infinite = not_(is_finite_(below))
        return elementwise.where(and_(infinite, eq(below, above)), below, result)
    if method == "midpoint":
        return mul(add(below, above), half)
    if method == "nearest":
        return elementwise.where(gt(w, half), above, below)
    return below if method == "lower" else above


def _inverted_cdf(rows, q, weights):
    """Return, for each column, the first sorted row at which the cumulative weight reaches the fraction `q` of the
    total."""
    ordered, weights = sort_p.bind(rows, weights, dimension=0, is_stable=True, num_keys=1)
    cumulative = cumsum(weights, axis=0)
    columns = (1,) * (np.ndim(rows) - 1)
    threshold = shapes.reshape_to(q, (math.prod(np.shape(q)), 1, *columns)) * shapes.expand_dims(cumulative[-1], (0, 1))
    below = PUBLIC["less"](shapes.expand_dims(cumulative, (0,)), threshold)
    positions = PUBLIC["minimum"](reductions.sum(below, axis=1, dtype=np.int32), size_scalar(np.shape(rows)[0] - 1, np.int32))
    found = take_along_axis(ordered, positions, 0)
    return shapes.reshape_to(found, (*np.shape(q), *np.shape(rows)[1:]))


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


QUANTILE_STATICS = ("axis", "overwrite_input", "method", "keepdims")


@host_sorting.on_host(lambda x, values, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *,
                      weights=None: _quantile_on_host(x, values, q, axis, out, overwrite_input, method, keepdims, weights))
@library(static=QUANTILE_STATICS)
@accepts(nodes=True)
def quantile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None) -> Array:
    """Compute quantiles over axes.

    Args:
        a: The array.
        q: The quantile in [0, 1], a float or a vector of floats.
        axis: Axis or axes to reduce over. Default: all.
        out, overwrite_input: Not supported; must be None and False.
        method: Interpolation between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; "inverted_cdf"
            returns the first element at which the cumulative weight reaches `q`.
        keepdims: If True, keep reduced axes with size 1.
        weights: Weights of the shape of `a` or of its `axis`. Only for the method "inverted_cdf".

    Returns:
        The quantiles, with the shape of `q` in front of the remaining axes.

    Example:
        >>> xnp.quantile(xnp.array([1.0, 2.0, 3.0, 4.0]), xnp.array([0.0, 0.5]))
        Array([1. , 2.5], dtype=float32)
    """
    if q is None:
        check_arraylike("quantile", a, q)
    return checked_quantile("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


def checked_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, ignore_nan=False):
    """Check arguments and compute `quantile` or one of its variants. `q=None` is the median; `ignore_nan` excludes
    NaNs."""
    if overwrite_input or out is not None:
        raise ValueError(f"numpy.{name} cannot overwrite its input or `out`: arrays are immutable.")
    check_arraylike(name, a)
    a = unwrap_node(a)
    if dtypes.is_complex(dtypes.operand_type(a)[0]):
        raise ValueError(f"numpy.{name} is not defined for complex numbers: they have no order. Use x.real and x.imag.")
    a = within_setting(a)
    if q is not None:
        check_arraylike(name, q)
        kind = tracing.aval_of(q)
        if not dtypes.is_float(kind.dtype):
            raise TypeError(f"numpy.{name} needs q as a floating-point number, got {kind}: q=1.0, not 1.")
        if kind.ndim > 1:
            raise ValueError(
                f"numpy.{name} needs q as a number or a vector: its rank must be at most 1, got shape {kind.shape}.")
    if method not in _METHODS:
        raise ValueError(f"numpy.{name} has no method {method!r}; it has {', '.join(_METHODS)}.")
    shape = np.shape(a)
    hashable_axis(axis, name)
    axes = reductions.static_axes(axis, len(shape), name)
    if ignore_nan and 0 in shape:
        return reductions.mean(stop_gradient(a), axis=axis, keepdims=bool(keepdims))  # NaN, which is constant
    if 0 in [shape[i] for i in axes]:
        error = ValueError if name == "median" else TypeError
        raise error(f"numpy.{name} cannot reduce an empty axis: axis {axis} of shape {shape} has size 0.")
    if weights is not None:
        if method != "inverted_cdf":
            raise NotImplementedError(f"the method {method!r} of numpy.{name} does not support weights; 'inverted_cdf' does.")
        check_arraylike(name, weights)
        weights = asarray(weights)
        if weights.shape != shape:
            if weights.shape != tuple(shape[i] for i in axes):
                raise ValueError(f"numpy.{name} needs weights of the array's shape {shape} or of that of its axes, got shape "
                                 f"{weights.shape}.")
            weights = broadcast_to(shapes.broadcast_in_dim(
                transpose(weights, sorted(range(weights.ndim), key=axes.__getitem__)),
                tuple(n if i in axes else 1 for i, n in enumerate(shape)), sorted(axes)), shape)
    return _quantile(a, q, weights, axes, bool(keepdims), method, ignore_nan)


@library(static=None)
def percentile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
               out_sharding: Any = None) -> Array:
    """Compute percentiles over axes.

    Args:
        a: The array.
        q: The percentage in [0, 100], a number or a vector of numbers.
        axis: Axis or axes to reduce over. Default: all.
        out, overwrite_input, method, keepdims, weights: See `quantile`.
        out_sharding: Sharding of the result.

    Returns:
        The percentiles, with the shape of `q` in front of the remaining axes.

    Example:
        >>> xnp.percentile(xnp.array([1.0, 2.0, 3.0, 4.0]), 50)
        Array(2.5, dtype=float32)
    """
    return with_out_sharding("numpy.percentile", out_sharding, checked_percentile, (a, q, weights, out), "percentile", axis,
                             overwrite_input, method, keepdims)


def checked_percentile(a, q, weights, out, name, axis, overwrite_input, method, keepdims, ignore_nan=False):
    """Compute `percentile` or one of its variants."""
    check_arraylike(name, a, q, *(() if weights is None else (weights,)))
    hashable_axis(axis, name)
    # Divide outside of the compiled function, in which XLA would multiply by 0.01 instead.
    fraction = q / 100 if type(q) in (int, float) else PUBLIC["true_divide"](q, 100)
    return _quantile_of_fraction(a, fraction, weights, out, (name, axis, overwrite_input, method, keepdims, ignore_nan))


@host_sorting.on_host(lambda x, values, q, weights, out, options: _quantile_on_host(
    x, values, q, options[1], out, options[2], options[3], options[4], weights, options[5]))
@library(static="options", name="quantile")
@accepts(objects=True)
def _quantile_of_fraction(a, q, weights, out, options):
    name, axis, overwrite_input, method, keepdims, ignore_nan = options
    return checked_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, ignore_nan)


@host_sorting.on_host(lambda x, values, axis=None, out=None, overwrite_input=False, keepdims=False: _quantile_on_host(
    x, values, None, axis, out, overwrite_input, "midpoint", keepdims, None))
@library(static=QUANTILE_STATICS)
@accepts(nodes=True)
def median(a: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """Compute the median over axes: the mean of the two middle values if the number of elements is even.

    Args:
        a: The array.
        axis: Axis or axes to reduce over. Default: all.
        out, overwrite_input: Not supported; must be None and False.
        keepdims: If True, keep reduced axes with size 1.

    Returns:
        The medians.

    Example:
        >>> xnp.median(xnp.array([5.0, 1.0, 2.0]))
        Array(2., dtype=float32)
    """
    return checked_quantile("median", a, None, axis, out, overwrite_input, "midpoint", keepdims, None)


# Covariances


@library(static=("bias", "ddof", "dtype"), name="cov")
def _covariances(m, frequencies, weights, bias, ddof, dtype):
    """Return the covariance matrix of the rows of a matrix, with frequencies and weights of the observations."""
    m = as_type(m, dtype, False)
    real = dtypes.to_real(dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    for factor in (frequencies, weights):
        if factor is not None:
            factor = as_type(unwrap(factor), real, False)
            w = factor if w is None else mul(w, factor)
    if w is None:
        freedom = np.shape(m)[1] - ddof
        count = size_scalar(max_dim(freedom, 0), real) if is_symbolic_dim(freedom) else real.type(max(freedom, 0))
        centre = reductions.mean(m, axis=1, keepdims=True)
    else:
        sum_of_weights = reductions.sum(w)
        centre = reductions.sum(m * w[None], axis=1, keepdims=True) / sum_of_weights
        if weights is None or ddof == 0:
            count = sum_of_weights - ddof
        else:
            count = sum_of_weights - ddof * reductions.sum(w * as_type(unwrap(weights), real, False)) / sum_of_weights
    m = m - centre
    other = m if w is None else m * w[None]
    return squeeze(matmul(m, PUBLIC["conjugate"](transpose(other))) / count)


@library(static=("rowvar", "bias", "ddof", "dtype"))
@accepts(objects=True)
def cov(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: float | None = None,
        fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Compute the covariance matrix of variables.

    Args:
        m: A matrix whose rows are variables, or a vector, which is one variable.
        y: Additional variables, in the same form.
        rowvar: If True, variables are rows, else columns.
        bias: If True, divide by the number of observations n, else by n - 1.
        ddof: If given, divide by n - `ddof`, regardless of `bias`.
        fweights: Frequency of each observation, integers.
        aweights: Weight of each observation.
        dtype: dtype of the result.

    Returns:
        The covariance matrix; a scalar for one variable.

    Example:
        >>> xnp.cov(xnp.array([[0.0, 2.0], [3.0, 1.0]]))
        Array([[ 2., -2.],
               [-2.,  2.]], dtype=float32)
    """
    check_arraylike("cov", m, *[x for x in (y, fweights, aweights) if x is not None])
    if dtype is not None:
        dtype = dtypes.check_user_dtype(dtype, "numpy.cov")
        if not dtypes.is_inexact(dtype):
            raise ValueError(f"the dtype of numpy.cov must be inexact, a subclass of float or complex; got {dtype}.")
    given = [m] if y is None else [m, y]
    rows = []
    for name, x in zip("my", given):
        if np.ndim(x) > 2:
            raise ValueError(f"numpy.cov takes vectors and matrices, but {name} has more than 2 dimensions: {np.shape(x)}.")
        rows.append(atleast_2d(x) if rowvar or np.ndim(x) < 2 else transpose(x))
    d = dtypes.to_inexact(dtypes.result_type(*given, *(() if aweights is None else (aweights,)))) if dtype is None else dtype
    m = rows[0] if y is None else concatenate([as_type(x, d, False) for x in rows])
    if not np.shape(m)[0]:
        return zeros((0, 0))
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if name == "fweights" and not dtypes.is_integer(tracing.aval_of(unwrap(w)).dtype):
            raise TypeError(f"the fweights of numpy.cov must be integer counts, got {tracing.aval_of(unwrap(w)).dtype}.")
        if np.ndim(w) > 1:
            raise RuntimeError(f"numpy.cov cannot handle multidimensional {name}, got shape {np.shape(w)}: give a vector.")
        if np.shape(w) != np.shape(m)[1:]:
            raise RuntimeError(f"numpy.cov got incompatible numbers of samples and {name}: {np.shape(m)[1]} and {np.size(w)}.")
    return _covariances(m, fweights, aweights, bool(bias), ddof, d)


@library(name="corrcoef")
def _normalize_covariances(c):
    if not np.ndim(c):
        return c / c
    size = PUBLIC["sqrt"](PUBLIC["real"](diagonal(c)))
    c = c / size[:, None] / size[None, :]
    if tracing.aval_of(c).dtype.kind == "c":
        return elementwise.complex_(*[clip(component(c), -1, 1) for component in (elementwise.real_, elementwise.imag_)])
    return clip(c, -1, 1)


@library(static=("rowvar", "dtype"))
@accepts(objects=True)
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Array:
    """Compute the matrix of correlation coefficients of variables.

    Args:
        x, y, rowvar, dtype: See `m`, `y`, `rowvar` and `dtype` of `cov`.

    Returns:
        The correlation matrix, with elements from -1 to 1; a scalar for one variable.

    Example:
        >>> xnp.corrcoef(xnp.array([[0.0, 2.0], [3.0, 1.0]])).round(3)
        Array([[ 1., -1.],
               [-1.,  1.]], dtype=float32)
    """
    check_arraylike("corrcoef", x, *[v for v in (y,) if v is not None])
    return _normalize_covariances(cov(x, y, rowvar, dtype=dtype))
