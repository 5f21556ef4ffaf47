"""NumPy's polynomials: vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.scan import scan
from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import as_size, common_shape, is_symbolic_dim, known, max_dim
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import as_type, with_weakness
from xlafront.linalg.numpy_functions import eigvals, inv, lstsq
from xlafront.numpy.promotion import (
    check_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    promotes_freely,
    unwrap,
    within_setting,
)
from xlafront.staging.library import library, written_once


def _known(name: str, x, remedy: str) -> np.ndarray:
    """Coefficients whose values decide the shape of a result."""
    value = x._concrete() if isinstance(x, tracing.Tracer) else x
    if value is None:
        raise errors.ConcretizationTypeError(x, f"How many coefficients xnp.{name} has to do with depends on values: {remedy}.")
    return np.asarray(value)


def _refuse_scalar(name: str, p, error: type[Exception]) -> None:
    """A scalar has no dimension to hold the coefficients of a polynomial."""
    if not np.ndim(p):
        raise error(f"xnp.{name} takes the coefficients of a polynomial as a vector, got an unsized (0-d) scalar. "
                    f"Give a constant as xnp.array([c]).")


def _vector(name: str, p) -> Array:
    """The coefficients of a polynomial."""
    p = unwrap(p)
    _refuse_scalar(name, p, TypeError)
    p = xnp.asarray(p)
    if p.ndim != 1:
        raise ValueError(f"xnp.{name} takes the coefficients of one polynomial: the input must be a rank-1 array, its shape is "
                         f"{p.shape}.")
    return p


def _from_roots(roots):
    result = xnp.ones((1,), roots.dtype)
    zero = xnp.zeros((1,), roots.dtype)
    for i in range(roots.shape[0]):
        result = xnp.append(result, zero) - roots[i] * xnp.append(zero, result)
    return result


@library(converts=True)
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The coefficients of the polynomial with these roots and 1 as the first of them.

    - `seq_of_zeros`: the roots, or a square matrix, whose eigenvalues are.

    >>> xnp.poly(xnp.array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    check_arraylike("poly", seq_of_zeros)
    [roots] = promote_dtypes_inexact(unwrap(seq_of_zeros))
    roots = xnp.atleast_1d(roots)
    if roots.ndim == 2 and roots.shape[0] == roots.shape[1] and roots.shape[0]:
        roots = eigvals(roots)
    if roots.ndim != 1:
        raise ValueError(f"xnp.poly: the input must be 1d or a non-empty square 2d array, got shape {roots.shape}.")
    return _from_roots(roots) if roots.shape[0] else xnp.ones((), roots.dtype)


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial, complex numbers.

    - `p`: its coefficients.
    - `strip_zeros`: whether zeros at both ends are left out, which decides how many roots there are. Inside of traced
      functions it must be False; zeros in front then give roots that are NaN, at the end.

    >>> abs(xnp.roots(xnp.array([1.0, -3.0, 2.0])) - xnp.array([2.0, 1.0])).max() < 1e-5
    Array(True, dtype=bool)
    """
    check_arraylike("roots", p)
    [p] = promote_dtypes_inexact(unwrap(p))
    if np.ndim(p) > 1:
        raise ValueError(f"xnp.roots: the input must be a rank-1 array, got shape {np.shape(p)}.")
    d = dtypes.to_complex(tracing.aval_of(p).dtype)
    if not np.ndim(p):
        return xnp.zeros((0,), d)
    if not strip_zeros:
        return _roots_of_any(xnp.asarray(p)) if np.size(p) > 1 else xnp.zeros((0,), d)
    places = np.flatnonzero(_known("roots", p, "pass strip_zeros=False"))
    if not len(places):
        return xnp.zeros((0,), d)
    first, last = int(places[0]), int(places[-1])
    zeros = xnp.zeros((np.size(p) - 1 - last,), d)
    if last == first:
        return zeros
    return xnp.concatenate([zeros, _companion_roots(xnp.asarray(p)[first:last + 1])])


@library(name="roots")
def _companion_roots(p):
    """The eigenvalues of the companion matrix."""
    n = p.shape[0] - 1
    matrix = xnp.eye(n, k=-1, dtype=p.dtype).at[0].set(-p[1:] / p[0])
    return eigvals(matrix)


@library(name="roots")
def _roots_of_any(p):
    """As many roots as coefficients allow; those that zeros in front take away are NaN."""
    leading = xnp.argmax(p != 0)
    n = p.shape[0] - 1
    found = _companion_roots(xnp.roll(p, -leading))
    ordered = xnp.roll(found[xnp.argsort(abs(found))], -leading)  # each zero in front has become a root 0
    missing = xnp.arange(n) >= n - leading
    return xnp.where(leading == 0, found, xnp.where(missing, complex(np.nan, np.nan), ordered))


@library(static="unroll")
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The values of a polynomial.

    - `p`: its coefficients; an array of more dimensions has them along the first.
    - `x`: where.
    - `unroll`: how many steps of the loop over coefficients are written out, as that of `lax.scan`.

    >>> xnp.polyval(xnp.array([1.0, 0.0, 2.0]), 3.0)
    Array(11., dtype=float32)
    """
    check_arraylike("polyval", p, x)
    _refuse_scalar("polyval", p, IndexError)
    p, x = map(within_setting, promote_dtypes(unwrap(p), unwrap(x)))
    weak = dtypes.is_weakly_typed(x) and dtypes.is_weakly_typed(p)
    d = tracing.aval_of(x).dtype
    p, x = as_type(p, d, False), as_type(x, d, False)
    start = xnp.zeros(common_shape(np.shape(p)[1:], np.shape(x)), d)
    return as_type(scan(lambda y, c: (y * x + c, None), start, p, unroll=unroll)[0], d, weak)


# Arithmetic


def _aligned(name, a1, a2, operation):
    """The longer polynomial with the other one added or subtracted at its end; more dimensions are broadcast, not longer."""
    check_arraylike(name, a1, a2)
    a1, a2 = promote_dtypes(*(unwrap(a) for a in (a1, a2)))
    for a in (a1, a2):
        _refuse_scalar(name, a, IndexError)
    n = max_dim(np.shape(a1)[0], np.shape(a2)[0])
    if np.ndim(a1) == np.ndim(a2) == 1:
        a1, a2 = (xnp.pad(a, (n - np.shape(a)[0], 0)) if np.shape(a)[0] != n else a for a in (a1, a2))
        return getattr(xnp, operation)(a1, a2)
    negative = operation == "subtract"
    (long, short) = (a1, -a2 if negative else a2) if np.shape(a1)[0] == n else (-a2 if negative else a2, a1)
    return long.at[n - np.shape(short)[0]:].add(short)


@library(converts=True)
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    - `a1`, `a2`: their coefficients.

    >>> xnp.polyadd(xnp.array([1, 2]), xnp.array([3]))
    Array([1, 5], dtype=int32)
    """
    return _aligned("polyadd", a1, a2, "add")


@library(converts=True)
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    - `a1`, `a2`: their coefficients.

    >>> xnp.polysub(xnp.array([1, 2]), xnp.array([3]))
    Array([ 1, -1], dtype=int32)
    """
    return _aligned("polysub", a1, a2, "subtract")


def _without_leading_zeros(name: str, p) -> Array:
    places = np.flatnonzero(_known(name, p, "leave trim_leading_zeros away"))
    return p[int(places[0]) if len(places) else p.shape[0]:]


@written_once
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, as floats.

    - `a1`, `a2`: their coefficients.
    - `trim_leading_zeros`: whether zeros in front are left out first; the coefficients must then be known.

    >>> xnp.polymul(xnp.array([1.0, 2.0]), xnp.array([1.0, 3.0]))
    Array([1., 5., 6.], dtype=float32)
    """
    check_arraylike("polymul", a1, a2)
    a1, a2 = _vector("polymul", unwrap(a1)), _vector("polymul", unwrap(a2))
    if trim_leading_zeros:
        a1, a2 = (_without_leading_zeros("polymul", a) for a in (a1, a2))
    a1, a2 = (a if a.shape[0] else xnp.zeros((1,), a.dtype) for a in (a1, a2))
    return xnp.convolve(a1, a2, mode="full")


@library(name="polydiv")
def _long_division(u, v):
    m, n = u.shape[0] - 1, v.shape[0] - 1
    quotient = xnp.zeros((max(m - n + 1, 1),), u.dtype)
    scale = 1 / v[0]
    for k in range(m - n + 1):
        factor = scale * u[k]
        quotient = quotient.at[k].set(factor)
        u = u.at[k:k + n + 1].add(-factor * v)
    return quotient, u


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient of two polynomials, and the rest.

    - `u`: the coefficients of the one that is divided.
    - `v`: those of the other; the first must not be 0.
    - `trim_leading_zeros`: whether zeros in front of the rest are left out, as NumPy does; values must then be known. Without,
      it has as many coefficients as `u`.

    >>> xnp.polydiv(xnp.array([1.0, 5.0, 6.0]), xnp.array([1.0, 3.0]))[0]
    Array([1., 2.], dtype=float32)
    """
    check_arraylike("polydiv", u, v)
    u, v = (xnp.asarray(x) for x in promote_dtypes_inexact(_vector("polydiv", u), _vector("polydiv", v)))
    quotient, rest = _long_division(u, v)
    return quotient, _without_leading_zeros("polydiv", rest) if trim_leading_zeros else rest


# Derivative, integral, fit


def _order(name: str, what: str, m) -> int:
    m = as_size(m)
    if m < 0:
        raise ValueError(f"the order of {what} must be positive for xnp.{name}, got m={m}.")
    return m


def _falling(powers: Any, m: int) -> Any:
    """`powers * (powers - 1) * ...`, of `m` factors."""
    if isinstance(powers, tracing.Tracer):
        return math.prod([powers - i for i in range(m)])
    return np.prod([powers - i for i in range(m)], axis=0, dtype=np.float64)


@library(static="m", converts=True)
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The derivative of a polynomial.

    - `p`: its coefficients.
    - `m`: how many times to differentiate.

    >>> xnp.polyder(xnp.array([1.0, 2.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    check_arraylike("polyder", p)
    m, [p] = _order("polyder", "derivative", m), promote_dtypes_inexact(unwrap(p))
    if not m:
        return p
    p = _vector("polyder", p)
    n = np.shape(p)[0]
    factors = _falling((xnp if is_symbolic_dim(n) else np).arange(n - 1, m - 1, -1), m).astype(p.dtype)
    return p[:max_dim(n - m, 0)] * factors


@library(static="m", converts=True)
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The integral of a polynomial.

    - `p`: its coefficients.
    - `m`: how many times to integrate.
    - `k`: the constants of integration, one for each time, or one for all; 0 without.

    >>> xnp.polyint(xnp.array([2.0, 2.0]), k=3.0)
    Array([1., 2., 3.], dtype=float32)
    """
    k = 0 if k is None else k
    check_arraylike("polyint", p, k)
    m, p, k = _order("polyint", "integral", m), unwrap(p), unwrap(k)
    if np.ndim(k) > 1 or np.size(k) not in (1, m):
        raise ValueError(f"xnp.polyint needs one constant k, or one for each of the {m} integrals; got shape {np.shape(k)}.")
    if not m:
        return promote_dtypes_inexact(p)[0]
    p, k = promote_dtypes_inexact(_vector("polyint", p), k)
    n = np.shape(p)[0]
    divisors = _falling((xnp if is_symbolic_dim(n) else np).arange(n + m - 1, m - 1, -1), m)
    constants = np.array([math.factorial(i) for i in range(m - 1, -1, -1)], np.float64)
    return xnp.concatenate([p / divisors.astype(p.dtype), xnp.broadcast_to(k, (m,)) / constants.astype(p.dtype)])


_FEW_POWERS = 16  # which are products of the ones before, in a tenth of the time


@library(static=("N", "increasing"), converts=True)
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803  (NumPy's name)
    """The Vandermonde matrix: in each row the powers of a number.

    - `x`: the numbers, a vector.
    - `N`: how many powers, as many as there are numbers without.
    - `increasing`: whether the lowest power comes first.

    >>> xnp.vander(xnp.array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    check_arraylike("vander", x)
    if np.ndim(x) != 1:
        raise ValueError(f"xnp.vander: x must be a one-dimensional array, got shape {np.shape(x)}.")
    n = np.shape(x)[0] if N is None else as_size(N)
    if n < 0:
        raise ValueError(f"xnp.vander: N must be nonnegative, got {n}.")
    x = xnp.asarray(unwrap(x))
    if x.dtype == dtypes.bool_:
        raise TypeError("xnp.vander needs numbers, got booleans, which have no powers.")
    if 0 < known(n, 0) <= _FEW_POWERS:
        columns = [xnp.ones_like(x)]
        while len(columns) < n:
            columns.append(columns[-1] * x)
        return with_weakness(xnp.stack(columns if increasing else columns[::-1], axis=1), False)
    d, shape = x.dtype, (x.shape[0], n)
    powers = xnp.arange(n, dtype=np.int32 if dtypes.is_inexact(d) else d)
    powers = xnp.broadcast_to(powers if increasing else powers[::-1], shape)
    base = xnp.broadcast_to(x[:, None], shape)
    return lax.pow(base, powers) if dtypes.is_inexact(d) else xnp.power(base, powers)


@library(static=("deg", "rcond", "full", "cov"), converts=True)
@promotes_freely
def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None,
            cov: bool | str = False) -> Any:
    """The polynomial of a degree that is closest to samples, by least squares.

    - `x`: the positions of the samples, a vector.
    - `y`: their values; a matrix has those of one fit in each column.
    - `deg`: the degree.
    - `rcond`: singular values below this fraction of the largest are left out.
    - `full`: whether to return residuals, rank, singular values and `rcond` too.
    - `w`: what each sample counts.
    - `cov`: whether to return the covariances of the coefficients too; "unscaled" takes the weights as they are.

    >>> xnp.polyfit(xnp.array([0.0, 1.0, 2.0]), xnp.array([1.0, 3.0, 5.0]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    check_arraylike("polyfit", x, y, *[v for v in (w,) if v is not None])
    deg = as_size(deg)
    if deg < 0:
        raise ValueError(f"xnp.polyfit expected deg >= 0, got {deg}.")
    if np.ndim(x) != 1:
        raise TypeError(f"xnp.polyfit expected a 1D vector for x, got shape {np.shape(x)}.")
    if not np.size(x):
        raise TypeError("xnp.polyfit expected a non-empty vector for x.")
    if np.ndim(y) not in (1, 2):
        raise TypeError(f"xnp.polyfit expected a 1D or 2D array for y, got shape {np.shape(y)}.")
    if np.shape(x)[0] != np.shape(y)[0]:
        raise TypeError(f"xnp.polyfit expected x and y to have the same length, got {np.shape(x)[0]} and {np.shape(y)[0]}.")
    if w is not None and np.ndim(w) != 1:
        raise TypeError(f"xnp.polyfit expected a 1D vector for weights, got shape {np.shape(w)}.")
    if w is not None and np.shape(w) != np.shape(x):
        raise TypeError(f"xnp.polyfit expected w and y to have the same length, got {np.shape(w)[0]} and {np.shape(y)[0]}.")
    x, y, *weights = promote_dtypes_inexact(*map(unwrap, (x, y, *[v for v in (w,) if v is not None])))
    d = tracing.aval_of(x).dtype
    if rcond is None:
        rcond = np.size(x) * float(dtypes.finfo(d).eps)
    if cov and not full and cov != "unscaled" and np.size(x) <= deg + 1:
        raise ValueError(f"xnp.polyfit: the number of data points, {np.size(x)}, must exceed the {deg + 1} coefficients to "
                         f"scale the covariance matrix.")
    matrix, target = vander(x, deg + 1), xnp.asarray(y)
    if weights:
        scale = xnp.asarray(weights[0])
        matrix = matrix * scale[:, None]
        target = target * (scale[:, None] if target.ndim == 2 else scale)
    size = xnp.sqrt(xnp.sum(matrix * xnp.conj(matrix), axis=0).real)
    matrix = matrix / size[None]
    found, residuals, rank, singular = lstsq(matrix, target, float(rcond))
    found = (found.T / size).T
    if full:
        return found, residuals, rank, singular, xnp.asarray(rcond)
    if not cov:
        return found
    base = inv(matrix.T @ matrix) / xnp.outer(size, size)
    if target.ndim == 2:
        base = base[..., None]
    return found, base if cov == "unscaled" else base * (residuals / (np.size(x) - (deg + 1)))
