"""NumPy's polynomials: vectors of coefficients, highest power first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.polynomials import polynomial
from xlafront.control.scan import scan
from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import with_weakness
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import as_type
from xlafront.linalg.numpy_functions import eigvals, inv, lstsq
from xlafront.numpy.promotion import (
    check_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    promotes_freely,
    unwrap,
    within_setting,
)
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, common_shape, is_symbolic_dim, known, max_dim


def _concrete_value(name: str, x, remedy: str) -> np.ndarray:
    """Return coefficients whose values determine the shape of a result; raise if they are traced."""
    value = x._concrete() if isinstance(x, tracing.Tracer) else x
    if value is None:
        raise errors.ConcretizationTypeError(x, f"The number of coefficients of numpy.{name} depends on values: {remedy}.")
    return np.asarray(value)


def _check_not_scalar(name: str, p, error: type[Exception]) -> None:
    """Raise an error for a scalar, which has no dimension of coefficients."""
    if not np.ndim(p):
        raise error(f"numpy.{name} takes the coefficients of a polynomial as a vector, got an unsized (0-d) scalar. "
                    f"Pass a constant as numpy.array([c]).")


def _coefficients(name: str, p) -> Array:
    """Return the coefficients of one polynomial as a vector."""
    p = unwrap(p)
    _check_not_scalar(name, p, TypeError)
    p = xnp.asarray(p)
    if p.ndim != 1:
        raise ValueError(f"numpy.{name} takes the coefficients of one polynomial: the input must be a rank-1 array, its shape "
                         f"is {p.shape}.")
    return p


def _from_roots(roots):
    result = xnp.ones((1,), roots.dtype)
    zero = xnp.zeros((1,), roots.dtype)
    for i in range(roots.shape[0]):
        result = xnp.append(result, zero) - roots[i] * xnp.append(zero, result)
    return result


@library
@accepts(objects=True)
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Compute the coefficients of the monic polynomial with given roots.

    Args:
        seq_of_zeros: Vector of roots, or a square matrix, whose eigenvalues are the roots.

    Returns:
        Coefficients, highest power first.

    Example:
        >>> xnp.poly(xnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    check_arraylike("poly", seq_of_zeros)
    [roots] = promote_dtypes_inexact(unwrap(seq_of_zeros))
    roots = xnp.atleast_1d(roots)
    if roots.ndim == 2 and roots.shape[0] == roots.shape[1] and roots.shape[0]:
        roots = eigvals(roots)
    if roots.ndim != 1:
        raise ValueError(f"numpy.poly: the input must be 1d or a non-empty square 2d array, got shape {roots.shape}.")
    return _from_roots(roots) if roots.shape[0] else xnp.ones((), roots.dtype)


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Compute the roots of a polynomial.

    Args:
        p: Coefficients, highest power first.
        strip_zeros: If True, strip zeros at both ends, which determines the number of roots. It must be False in traced
            functions; leading zeros then give NaN as the last roots.

    Returns:
        Roots, complex numbers.

    Example:
        >>> abs(xnp.roots(xnp.array([1.0, -3.0, 2.0])) - xnp.array([2.0, 1.0])).max() < 1e-5
        Array(True, dtype=bool)
    """
    check_arraylike("roots", p)
    [p] = promote_dtypes_inexact(unwrap(p))
    if np.ndim(p) > 1:
        raise ValueError(f"numpy.roots: the input must be a rank-1 array, got shape {np.shape(p)}.")
    d = dtypes.to_complex(tracing.aval_of(p).dtype)
    if not np.ndim(p):
        return xnp.zeros((0,), d)
    if not strip_zeros:
        return _roots_without_stripping(xnp.asarray(p)) if np.size(p) > 1 else xnp.zeros((0,), d)
    nonzero = np.flatnonzero(_concrete_value("roots", p, "pass strip_zeros=False"))
    if not len(nonzero):
        return xnp.zeros((0,), d)
    first, last = int(nonzero[0]), int(nonzero[-1])
    zeros = xnp.zeros((np.size(p) - 1 - last,), d)
    if last == first:
        return zeros
    return xnp.concatenate([zeros, _companion_roots(xnp.asarray(p)[first:last + 1])])


@library(name="roots")
def _companion_roots(p):
    """Compute roots as the eigenvalues of the companion matrix."""
    n = p.shape[0] - 1
    matrix = xnp.eye(n, k=-1, dtype=p.dtype).at[0].set(-p[1:] / p[0])
    return eigvals(matrix)


@library(name="roots")
def _roots_without_stripping(p):
    """Compute as many roots as there are coefficients minus one; those missing due to leading zeros are NaN."""
    leading = xnp.argmax(p != 0)
    n = p.shape[0] - 1
    candidates = _companion_roots(xnp.roll(p, -leading))
    ordered = xnp.roll(candidates[xnp.argsort(abs(candidates))], -leading)  # each leading zero has become a root 0
    missing = xnp.arange(n) >= n - leading
    return xnp.where(leading == 0, candidates, xnp.where(missing, complex(np.nan, np.nan), ordered))


@library(static="unroll")
@accepts(nodes=True)
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int | None = None) -> Array:
    """Evaluate a polynomial.

    Args:
        p: Coefficients, highest power first, along the first axis.
        x: Points at which to evaluate.
        unroll: The largest number of coefficients that is evaluated without a loop, as of `lax.polynomial`.

    Returns:
        Values of the polynomial.

    Example:
        >>> xnp.polyval(xnp.array([1.0, 0.0, 2.0]), 3.0)
        Array(11., dtype=float32)
    """
    check_arraylike("polyval", p, x)
    _check_not_scalar("polyval", p, IndexError)
    p, x = map(within_setting, promote_dtypes(unwrap(p), unwrap(x)))
    weak = dtypes.is_weakly_typed(x) and dtypes.is_weakly_typed(p)
    d = tracing.aval_of(x).dtype
    p, x = as_type(p, d, False), as_type(x, d, False)
    shape = common_shape(np.shape(p)[1:], np.shape(x))
    if is_symbolic_dim(np.shape(p)[0]):
        return as_type(scan(lambda y, c: (y * x + c, None), xnp.zeros(shape, d), p)[0], d, weak)
    rows = [xnp.expand_dims(row, range(len(shape) - np.ndim(row))) if np.ndim(row) else row
            for row in (xnp.unstack(p) if tracing.aval_of(p).explicit_sharding is None else p)]
    if np.ndim(x) not in (0, len(shape)):
        x = xnp.expand_dims(x, range(len(shape) - np.ndim(x)))
    value = polynomial(x, rows[::-1], unroll=unroll)
    return as_type(xnp.broadcast_to(value, shape), d, weak)


# Arithmetic


def _add_aligned(name, a1, a2, operation):
    """Add or subtract polynomials, aligned at their last coefficients. Dimensions after the first are broadcast."""
    check_arraylike(name, a1, a2)
    a1, a2 = promote_dtypes(*(unwrap(a) for a in (a1, a2)))
    for a in (a1, a2):
        _check_not_scalar(name, a, IndexError)
    n = max_dim(np.shape(a1)[0], np.shape(a2)[0])
    if np.ndim(a1) == np.ndim(a2) == 1:
        a1, a2 = (xnp.pad(a, (n - np.shape(a)[0], 0)) if np.shape(a)[0] != n else a for a in (a1, a2))
        return getattr(xnp, operation)(a1, a2)
    negative = operation == "subtract"
    (long, short) = (a1, -a2 if negative else a2) if np.shape(a1)[0] == n else (-a2 if negative else a2, a1)
    return long.at[n - np.shape(short)[0]:].add(short)


@library
@accepts(objects=True)
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Add two polynomials.

    Args:
        a1, a2: Coefficients, highest power first.

    Returns:
        Coefficients of the sum.

    Example:
        >>> xnp.polyadd(xnp.array([1, 2]), xnp.array([3]))
        Array([1, 5], dtype=int32)
    """
    return _add_aligned("polyadd", a1, a2, "add")


@library
@accepts(objects=True)
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Subtract two polynomials.

    Args:
        a1, a2: Coefficients, highest power first.

    Returns:
        Coefficients of the difference.

    Example:
        >>> xnp.polysub(xnp.array([1, 2]), xnp.array([3]))
        Array([ 1, -1], dtype=int32)
    """
    return _add_aligned("polysub", a1, a2, "subtract")


def _trim_leading_zeros(name: str, p) -> Array:
    nonzero = np.flatnonzero(_concrete_value(name, p, "omit trim_leading_zeros"))
    return p[int(nonzero[0]) if len(nonzero) else p.shape[0]:]


@library(static=None)
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Multiply two polynomials.

    Args:
        a1, a2: Coefficients, highest power first.
        trim_leading_zeros: If True, trim leading zeros of the operands, which must be concrete.

    Returns:
        Coefficients of the product, as floats.

    Example:
        >>> xnp.polymul(xnp.array([1.0, 2.0]), xnp.array([1.0, 3.0]))
        Array([1., 5., 6.], dtype=float32)
    """
    check_arraylike("polymul", a1, a2)
    a1, a2 = (_coefficients("polymul", a) for a in promote_dtypes(unwrap(a1), unwrap(a2)))
    if trim_leading_zeros:
        a1, a2 = (_trim_leading_zeros("polymul", a) for a in (a1, a2))
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
    """Divide two polynomials.

    Args:
        u: Coefficients of the dividend, highest power first.
        v: Coefficients of the divisor; the first one must not be 0.
        trim_leading_zeros: If True, trim leading zeros of the remainder as NumPy does; the values must be concrete.
            Otherwise it has as many coefficients as `u`.

    Returns:
        Coefficients of the quotient and of the remainder.

    Example:
        >>> xnp.polydiv(xnp.array([1.0, 5.0, 6.0]), xnp.array([1.0, 3.0]))[0]
        Array([1., 2.], dtype=float32)
    """
    check_arraylike("polydiv", u, v)
    u, v = (xnp.asarray(x) for x in promote_dtypes_inexact(_coefficients("polydiv", u), _coefficients("polydiv", v)))
    quotient, remainder = _long_division(u, v)
    return quotient, _trim_leading_zeros("polydiv", remainder) if trim_leading_zeros else remainder


# Derivative, integral, fit


def _check_order(name: str, operation: str, m) -> int:
    m = as_size(m)
    if m < 0:
        raise ValueError(f"the order of {operation} must be positive for numpy.{name}, got m={m}.")
    return m


def _falling_factorial(powers: Any, m: int) -> Any:
    """Compute the falling factorial `powers * (powers - 1) * ...` of `m` factors."""
    if isinstance(powers, tracing.Tracer):
        return math.prod([powers - i for i in range(m)])
    return np.prod([powers - i for i in range(m)], axis=0, dtype=np.float64)


@library(static="m")
@accepts(objects=True)
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Differentiate a polynomial.

    Args:
        p: Coefficients, highest power first. The last dimension of an array of more dimensions is broadcast with the factors
            of its first one, as in NumPy.
        m: Order of the derivative.

    Returns:
        Coefficients of the derivative.

    Example:
        >>> xnp.polyder(xnp.array([1.0, 2.0, 3.0]))
        Array([2., 2.], dtype=float32)
    """
    check_arraylike("polyder", p)
    coefficients: Any
    m, [coefficients] = _check_order("polyder", "derivative", m), promote_dtypes_inexact(unwrap(p))
    if not m:
        return coefficients
    _check_not_scalar("polyder", coefficients, TypeError)
    p = xnp.asarray(coefficients)
    n = np.shape(p)[0]
    factors = _falling_factorial((xnp if is_symbolic_dim(n) else np).arange(n - 1, m - 1, -1), m).astype(p.dtype)
    return p[:max_dim(n - m, 0)] * factors


@library(static="m")
@accepts(objects=True)
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Integrate a polynomial.

    Args:
        p: Coefficients, highest power first.
        m: Number of integrations.
        k: Integration constants: a vector with one per integration, or one for all. Default: 0.

    Returns:
        Coefficients of the integral.

    Example:
        >>> xnp.polyint(xnp.array([2.0, 2.0]), k=3.0)
        Array([1., 2., 3.], dtype=float32)
    """
    k = 0 if k is None else k
    check_arraylike("polyint", p, k)
    m, p, k = _check_order("polyint", "integral", m), unwrap(p), unwrap(k)
    if np.ndim(k) > 1 or np.size(k) not in (1, m):
        raise ValueError(f"numpy.polyint needs one constant k, or one for each of the {m} integrals; got shape {np.shape(k)}.")
    if not m:
        return promote_dtypes_inexact(p)[0]
    p, k = promote_dtypes_inexact(_coefficients("polyint", p), k)
    n = np.shape(p)[0]
    divisors = _falling_factorial((xnp if is_symbolic_dim(n) else np).arange(n + m - 1, m - 1, -1), m)
    constants = np.array([math.factorial(i) for i in range(m - 1, -1, -1)], np.float64)
    return xnp.concatenate([p / divisors.astype(p.dtype), xnp.broadcast_to(k, (m,)) / constants.astype(p.dtype)])


_MAX_UNROLLED_POWERS = 16  # up to here powers are products of the preceding ones, ten times as fast


@library(static=("N", "increasing"))
@accepts(objects=True)
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803  (NumPy's name)
    """Build a Vandermonde matrix, whose rows are powers of the elements of a vector.

    Args:
        x: Vector.
        N: Number of columns. Default: the length of `x`.
        increasing: If True, order the powers from 0 up.

    Returns:
        Matrix of shape `(len(x), N)`.

    Example:
        >>> xnp.vander(xnp.array([2, 3]), 3)
        Array([[4, 2, 1],
               [9, 3, 1]], dtype=int32)
    """
    check_arraylike("vander", x)
    if np.ndim(x) != 1:
        raise ValueError(f"numpy.vander: x must be a one-dimensional array, got shape {np.shape(x)}.")
    n = np.shape(x)[0] if N is None else as_size(N)
    if n < 0:
        raise ValueError(f"numpy.vander: N must be nonnegative, got {n}.")
    x = xnp.asarray(unwrap(x))
    if x.dtype == dtypes.bool_:
        raise TypeError("numpy.vander needs numbers, got booleans, which have no powers.")
    if 0 < known(n, 0) <= _MAX_UNROLLED_POWERS:
        columns = [xnp.ones_like(x)]
        while len(columns) < n:
            columns.append(columns[-1] * x)
        return with_weakness(xnp.stack(columns if increasing else columns[::-1], axis=1), False)
    d, shape = x.dtype, (x.shape[0], n)
    powers = xnp.arange(n, dtype=np.int32 if dtypes.is_inexact(d) else d)
    powers = xnp.broadcast_to(powers if increasing else powers[::-1], shape)
    base = xnp.broadcast_to(x[:, None], shape)
    return lax.pow(base, powers) if dtypes.is_inexact(d) else xnp.power(base, powers)


@library(static=("deg", "rcond", "full", "cov"))
@accepts(objects=True)
@promotes_freely
def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None,
            cov: bool | str = False) -> Any:
    """Fit a polynomial to samples by least squares.

    Args:
        x: Positions of the samples, a vector.
        y: Values of the samples; each column of a matrix is fitted separately.
        deg: Degree of the polynomial.
        rcond: Singular values below this fraction of the largest one are ignored. Default: the dtype's precision times
            the number of samples.
        full: If True, return the residuals, rank, singular values and `rcond` too.
        w: Weights of the samples.
        cov: If True, return the covariance matrix of the coefficients too; "unscaled" does not scale it by the
            residuals.

    Returns:
        Coefficients, highest power first, and the results that `full` or `cov` select.

    Example:
        >>> xnp.polyfit(xnp.array([0.0, 1.0, 2.0]), xnp.array([1.0, 3.0, 5.0]), 1).round(3)
        Array([2., 1.], dtype=float32)
    """
    check_arraylike("polyfit", x, y, *[v for v in (w,) if v is not None])
    deg = as_size(deg)
    if deg < 0:
        raise ValueError(f"numpy.polyfit expected deg >= 0, got {deg}.")
    if np.ndim(x) != 1:
        raise TypeError(f"numpy.polyfit expected a 1D vector for x, got shape {np.shape(x)}.")
    if not np.size(x):
        raise TypeError("numpy.polyfit expected a non-empty vector for x.")
    if np.ndim(y) not in (1, 2):
        raise TypeError(f"numpy.polyfit expected a 1D or 2D array for y, got shape {np.shape(y)}.")
    if np.shape(x)[0] != np.shape(y)[0]:
        raise TypeError(f"numpy.polyfit expected x and y to have the same length, got {np.shape(x)[0]} and {np.shape(y)[0]}.")
    if w is not None and np.ndim(w) != 1:
        raise TypeError(f"numpy.polyfit expected a 1D vector for weights, got shape {np.shape(w)}.")
    if w is not None and np.shape(w) != np.shape(x):
        raise TypeError(f"numpy.polyfit expected w and y to have the same length, got {np.shape(w)[0]} and {np.shape(y)[0]}.")
    x, y, *weights = promote_dtypes_inexact(*map(unwrap, (x, y, *[v for v in (w,) if v is not None])))
    d = tracing.aval_of(x).dtype
    if rcond is None:
        rcond = np.size(x) * float(dtypes.finfo(d).eps)
    if cov and not full and cov != "unscaled" and np.size(x) <= deg + 1:
        raise ValueError(f"numpy.polyfit: the number of data points, {np.size(x)}, must exceed the {deg + 1} coefficients to "
                         f"scale the covariance matrix.")
    matrix, target = vander(x, deg + 1), xnp.asarray(y)
    if weights:
        scale = xnp.asarray(weights[0])
        matrix = matrix * scale[:, None]
        target = target * (scale[:, None] if target.ndim == 2 else scale)
    column_norms = xnp.sqrt(xnp.sum(matrix * xnp.conj(matrix), axis=0).real)
    matrix = matrix / column_norms[None]
    coefficients, residuals, rank, singular = lstsq(matrix, target, float(rcond))
    coefficients = (coefficients.T / column_norms).T
    if full:
        return coefficients, residuals, rank, singular, xnp.asarray(rcond)
    if not cov:
        return coefficients
    covariance = inv(matrix.T @ matrix) / xnp.outer(column_norms, column_norms)
    if target.ndim == 2:
        covariance = covariance[..., None]
    return coefficients, covariance if cov == "unscaled" else covariance * (residuals / (np.size(x) - (deg + 1)))
