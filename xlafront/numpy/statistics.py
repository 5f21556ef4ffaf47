"""Numbers that describe samples: averages, quantiles, covariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.dimensions import is_symbolic_dim, max_dim
from xlafront.core.typing import Array, ArrayLike, Axes, DTypeLike
from xlafront.lax import elementwise, shapes
from xlafront.lax.elementwise import (
    add,
    and_,
    as_type,
    ceil_,
    eq,
    floor_,
    gt,
    is_finite_,
    mul,
    ne,
    not_,
    size_as,
    sub,
    to_dtype,
)
from xlafront.lax.elementwise_functions import clamp
from xlafront.lax.resharding import with_out_sharding
from xlafront.lax.sorting import sort, sort_p
from xlafront.numpy import reductions
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
from xlafront.staging.library import library, written_once


@library(static=("axis", "returned", "keepdims"), lists="axis", converts=True)
def average(a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False,
            keepdims: bool = False) -> Array | tuple[Array, Array]:
    """The weighted mean over axes.

    - `a`: the values.
    - `axis`: an axis or several; all without.
    - `weights`: an array of the shape of `a`, or of its `axis` in their order; equal weights without.
    - `returned`: whether to return the sums of the weights too.
    - `keepdims`: whether the axes stay, with size 1.

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


@library(static=("axes", "keepdims", "method", "without_nans"))
def _quantile(a, q, weights, axes, keepdims, method, without_nans):
    a = promote_dtypes_inexact(unwrap(a), *(() if weights is None else (weights,)))[0]
    d = tracing.aval_of(a).dtype
    if d.kind == "c":
        raise ValueError("quantiles of complex numbers are not defined: they have no order. Take those of x.real and x.imag.")
    q = unwrap(0.5 if q is None else q)
    q = q if tracing.aval_of(q).dtype == d and isinstance(q, tracing.Tracer) else as_type(q, d, False)
    shape = np.shape(a)
    kept = [i for i in range(len(shape)) if i not in axes]
    rows = _rows(a, axes, kept)
    missing = ne(rows, rows)
    nan = (reductions.all if without_nans else reductions.any)(missing, 0)
    target = (*np.shape(q), *np.shape(rows)[1:])
    if method == "inverted_cdf":
        weights = full_like(rows, 1) if weights is None else _rows(as_type(weights, d, False), axes, kept)
        result = _inverted_cdf(rows, q, elementwise.where(missing, d.type(0), weights) if without_nans else weights)
    else:
        count = reductions.sum(not_(missing), 0, d) if without_nans else None
        result = _between(sort(rows, 0), q, method, count)
    if np.shape(nan) != target:
        nan = shapes.broadcast_in_dim(nan, target, range(len(target) - np.ndim(nan), len(target)))
    result = elementwise.where(nan, d.type(np.nan), result)
    if keepdims:
        sizes = [1 if i in axes else m for i, m in enumerate(shape)] or [1]  # a number counts as a vector of one
        result = shapes.reshape_to(result, (*np.shape(q), *sizes))
    return result


def _rows(a, axes, kept):
    """An array with the axes that are reduced as one in front."""
    shape = np.shape(a)
    return shapes.reshape_to(shapes.transpose_p.bind(a, permutation=(*axes, *kept)), (
        math.prod(shape[i] for i in axes), *[shape[i] for i in kept]))


def _between(ordered, q, method, count):
    """Of ordered rows those that lie at a fraction `q`, or what lies between two of them; `count` is how many rows count, of
    each column, where not all of them."""
    n, d = np.shape(ordered)[0], tracing.aval_of(ordered).dtype
    if count is None:
        place = mul(q, size_as(n - 1, d))
    else:
        place = shapes.expand_dims(q, range(np.ndim(q), np.ndim(q) + np.ndim(count))) * clip(count - 1, 0)
    low, high = floor_(place), ceil_(place)
    weight = sub(place, low)

    def at(position):
        rows = clamp(np.int32(0), to_dtype(position, np.int32), size_as(n - 1, np.int32))
        if count is None:
            return take_rows(ordered, rows)
        rows = shapes.reshape_to(rows, (math.prod(np.shape(q)), *np.shape(count)))
        return shapes.reshape_to(take_along_axis(ordered, rows, 0), np.shape(position))

    below, above = at(low), at(high)
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
    """The first of the ordered rows up to which the weights are a fraction `q` of all, each column by itself."""
    ordered, weights = sort_p.bind(rows, weights, dimension=0, is_stable=True, num_keys=1)
    reached = cumsum(weights, axis=0)
    columns = (1,) * (np.ndim(rows) - 1)
    wanted = shapes.reshape_to(q, (math.prod(np.shape(q)), 1, *columns)) * shapes.expand_dims(reached[-1], (0, 1))
    short = PUBLIC["less"](shapes.expand_dims(reached, (0,)), wanted)
    places = PUBLIC["minimum"](reductions.sum(short, axis=1, dtype=np.int32), size_as(np.shape(rows)[0] - 1, np.int32))
    found = take_along_axis(ordered, places, 0)
    return shapes.reshape_to(found, (*np.shape(q), *np.shape(rows)[1:]))


_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


QUANTILE_STATICS = ("axis", "overwrite_input", "method", "keepdims", "interpolation")


@library(static=QUANTILE_STATICS)
def quantile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
             interpolation: str | None = None) -> Array:
    """The values below which a fraction of the elements lies.

    - `a`: the array.
    - `q`: the fraction, a float or a vector of them.
    - `axis`: an axis or several; all without.
    - `out`, `overwrite_input`: of NumPy's signature; they must be None and False.
    - `method`: what lies between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; "inverted_cdf" takes the
      first element up to which a fraction of `q` lies.
    - `keepdims`: whether the axes stay, with size 1.
    - `weights`: what each element counts, of the shape of `a` or of its axis; with the method "inverted_cdf" alone.
    - `interpolation`: an older name of `method`.

    >>> xnp.quantile(xnp.array([1.0, 2.0, 3.0, 4.0]), xnp.array([0.0, 0.5]))
    Array([1. , 2.5], dtype=float32)
    """
    if q is None:
        check_arraylike("quantile", a, q)
    return checked_quantile("quantile", a, q, axis, out, overwrite_input, interpolation or method, keepdims, weights)


def checked_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, without_nans=False):
    """`quantile` and its kin by name: of all elements, or of those that are no NaN. Without `q` the middle."""
    if overwrite_input or out is not None:
        raise ValueError(f"xnp.{name} cannot overwrite its input nor `out`: arrays do not change.")
    check_arraylike(name, a)
    a = unwrap_node(a)
    if dtypes.is_complex(dtypes.operand_type(a)[0]):
        raise ValueError(f"xnp.{name} is not defined for complex numbers: they have no order. Take those of x.real and x.imag.")
    a = within_setting(a)
    if q is not None:
        check_arraylike(name, q)
        kind = tracing.aval_of(q)
        if not dtypes.is_float(kind.dtype):
            raise TypeError(f"xnp.{name} takes q as a floating-point number, got {kind}: q=1.0, not 1.")
        if kind.ndim > 1:
            raise ValueError(f"xnp.{name} takes q as a number or a vector: its rank must be at most 1, got shape {kind.shape}.")
    if method not in _METHODS:
        raise ValueError(f"xnp.{name} has no method {method!r}; it has {', '.join(_METHODS)}.")
    shape = np.shape(a)
    hashable_axis(axis, name)
    axes = reductions.static_axes(axis, len(shape), name)
    if 0 in [shape[i] for i in axes]:
        error = IndexError if without_nans and len(axes) == len(shape) and not keepdims else TypeError
        raise error(f"xnp.{name} of nothing: axis {axis} of shape {shape} has size 0.")
    if weights is not None:
        if method != "inverted_cdf":
            raise NotImplementedError(f"the method {method!r} of xnp.{name} does not support weights; 'inverted_cdf' does.")
        check_arraylike(name, weights)
        weights = asarray(weights)
        if weights.shape != shape:
            if weights.shape != tuple(shape[i] for i in axes):
                raise ValueError(f"xnp.{name} needs weights of the array's shape {shape} or of that of its axes, got shape "
                                 f"{weights.shape}.")
            weights = broadcast_to(shapes.broadcast_in_dim(
                transpose(weights, sorted(range(weights.ndim), key=axes.__getitem__)),
                tuple(n if i in axes else 1 for i, n in enumerate(shape)), sorted(axes)), shape)
    return _quantile(a, q, weights, axes, bool(keepdims), method, without_nans)


@written_once
def percentile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
               interpolation: str | None = None, out_sharding: Any = None) -> Array:
    """The values below which a percentage of the elements lies.

    - `a`: the array.
    - `q`: the percentage, a number or a vector of them.
    - `axis`: an axis or several; all without.
    - `out`, `overwrite_input`, `method`, `keepdims`, `weights`, `interpolation`: as for `quantile`.
    - `out_sharding`: how the result is split over devices.

    >>> xnp.percentile(xnp.array([1.0, 2.0, 3.0, 4.0]), 50)
    Array(2.5, dtype=float32)
    """
    return with_out_sharding("xnp.percentile", out_sharding, of_percentage, (a, q, weights, out), "percentile", axis,
                             overwrite_input, interpolation or method, keepdims)


def of_percentage(a, q, weights, out, name, axis, overwrite_input, method, keepdims, without_nans=False):
    """`percentile` and its kin by name."""
    check_arraylike(name, a, q, *(() if weights is None else (weights,)))
    hashable_axis(axis, name)
    # (not in one program with what follows, where XLA would multiply by 0.01)
    fraction = q / 100 if type(q) in (int, float) else PUBLIC["true_divide"](q, 100)
    return _of_fraction(a, fraction, weights, out, (name, axis, overwrite_input, method, keepdims, without_nans))


@library(static="asked", converts=True, name="quantile")
def _of_fraction(a, q, weights, out, asked):
    name, axis, overwrite_input, method, keepdims, without_nans = asked
    return checked_quantile(name, a, q, axis, out, overwrite_input, method, keepdims, weights, without_nans)


@library(static=QUANTILE_STATICS)
def median(a: ArrayLike, axis: Axes = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """The middle value over axes: the mean of the two in the middle, where the number of elements is even.

    - `a`: the array.
    - `axis`: an axis or several; all without.
    - `out`, `overwrite_input`: of NumPy's signature; they must be None and False.
    - `keepdims`: whether the axes stay, with size 1.

    >>> xnp.median(xnp.array([5.0, 1.0, 2.0]))
    Array(2., dtype=float32)
    """
    return checked_quantile("median", a, None, axis, out, overwrite_input, "midpoint", keepdims, None)


# How variables vary together


@library(static=("bias", "ddof", "dtype"), name="cov")
def _covariances(m, frequencies, weights, bias, ddof, dtype):
    """Of the rows of a matrix, each value counted by two kinds of weights."""
    m = as_type(m, dtype, False)
    real = dtypes.to_real(dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    for given in (frequencies, weights):
        if given is not None:
            given = as_type(unwrap(given), real, False)
            w = given if w is None else mul(w, given)
    if w is None:
        freedom = np.shape(m)[1] - ddof
        count = size_as(max_dim(freedom, 0), real) if is_symbolic_dim(freedom) else real.type(max(freedom, 0))
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


@library(static=("rowvar", "bias", "ddof", "dtype"), converts=True)
def cov(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: float | None = None,
        fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """The covariances of variables, a matrix.

    - `m`: a matrix with a variable in each row, or a vector, which is one.
    - `y`: more variables, in the same form.
    - `rowvar`: whether variables are rows, and not columns.
    - `bias`: whether sums are divided by the number of observations n, and not by n - 1.
    - `ddof`: they are divided by n - `ddof`, whatever `bias` says.
    - `fweights`: how often each observation counts, integers.
    - `aweights`: how much each observation counts.
    - `dtype`: that of the result.

    >>> xnp.cov(xnp.array([[0.0, 2.0], [3.0, 1.0]]))
    Array([[ 2., -2.],
           [-2.,  2.]], dtype=float32)
    """
    check_arraylike("cov", m, *[x for x in (y, fweights, aweights) if x is not None])
    if dtype is not None:
        dtype = dtypes.check_user_dtype(dtype, "xnp.cov")
        if not dtypes.is_inexact(dtype):
            raise ValueError(f"the dtype of xnp.cov must be inexact, a subclass of float or complex; got {dtype}.")
    given = [m] if y is None else [m, y]
    rows = []
    for name, x in zip("my", given):
        if np.ndim(x) > 2:
            raise ValueError(f"xnp.cov takes vectors and matrices, but {name} has more than 2 dimensions: {np.shape(x)}.")
        rows.append(atleast_2d(x) if rowvar or np.ndim(x) < 2 else transpose(x))
    d = dtypes.to_inexact(dtypes.result_type(*given, *(() if aweights is None else (aweights,)))) if dtype is None else dtype
    m = rows[0] if y is None else concatenate([as_type(x, d, False) for x in rows])
    if not np.shape(m)[0]:
        return zeros((0, 0), d)
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if name == "fweights" and not dtypes.is_integer(tracing.aval_of(unwrap(w)).dtype):
            raise TypeError(f"the fweights of xnp.cov must be integer, as they count; got {tracing.aval_of(unwrap(w)).dtype}.")
        if np.ndim(w) > 1:
            raise RuntimeError(f"xnp.cov cannot handle multidimensional {name}, got shape {np.shape(w)}: give a vector.")
        if np.shape(w) != np.shape(m)[1:]:
            raise RuntimeError(f"xnp.cov got incompatible numbers of samples and {name}: {np.shape(m)[1]} and {np.size(w)}.")
    return _covariances(m, fweights, aweights, bool(bias), ddof, d)


@library(name="corrcoef")
def _normalized(c):
    if not np.ndim(c):
        return c / c
    size = PUBLIC["sqrt"](PUBLIC["real"](diagonal(c)))
    c = c / size[:, None] / size[None, :]
    if tracing.aval_of(c).dtype.kind == "c":
        return elementwise.complex_(*[clip(part(c), -1, 1) for part in (elementwise.real_, elementwise.imag_)])
    return clip(c, -1, 1)


@library(static=("rowvar", "dtype"), converts=True)
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Array:
    """The correlations of variables, a matrix of numbers from -1 to 1.

    - `x`, `y`, `rowvar`, `dtype`: as `m` and the others of `cov`.

    >>> xnp.corrcoef(xnp.array([[0.0, 2.0], [3.0, 1.0]])).round(3)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    check_arraylike("corrcoef", x, *[v for v in (y,) if v is not None])
    return _normalized(cov(x, y, rowvar, dtype=dtype))
