"""The gamma function and functions derived from it (beta, factorial, binomial), incomplete gamma and beta, Bessel and zeta
functions."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact
from xlafront.scipy.derivative_formulas import promote_real, with_derivatives
from xlafront.special import gamma_quotients, log_gamma
from xlafront.special.bessel import bessel_i0, bessel_i1
from xlafront.special.traced_primitives import widen_small_floats
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp


@library
@accepts(objects=True)
def gammaln(x: ArrayLike) -> Array:
    """Compute the logarithm of the absolute value of the gamma function.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> f"{gammaln(10.0):.3f}"
        '12.802'
    """
    return lax.lgamma(*promote_args_inexact("gammaln", x))


_loggamma = with_derivatives(log_gamma.log_gamma, lambda y, z: log_gamma.digamma(z))


@library
@accepts(objects=True)
def loggamma(x: ArrayLike) -> Array:
    """Compute the principal branch of the logarithm of the gamma function.

    For complex arguments it is analytic except on the negative real axis.

    Args:
        x: Real or complex numbers. The result is NaN for negative real numbers; use `gammaln` for these.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(loggamma(1.0)), 4)
        0.0
    """
    [x] = promote_args_inexact("loggamma", x)
    if tracing.aval_of(x).dtype.kind == "c":
        x = xnp.asarray(x)
        return _loggamma(x.astype(x.dtype))
    return lax.lgamma(xnp.where(x < 0, xnp.nan, x))


@library
@accepts(nodes=True)
def gammasgn(x: ArrayLike) -> Array:
    """Compute the sign of the gamma function.

    Args:
        x: Real numbers. The result is NaN at negative integers and the sign of the zero at 0.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> gammasgn(-0.5)
        Array(-1., dtype=float32)
    """
    [x] = promote_real("gammasgn", x)
    x = xnp.asarray(x).astype(xnp.asarray(x).dtype)
    floor = xnp.floor(x)
    even = 1 - 2 * xnp.abs(floor % 2)
    return xnp.where(x == 0, xnp.copysign(1, x), xnp.where(x > 0, 1, xnp.where(floor == x, xnp.nan, even))).astype(x.dtype)


@library
@accepts(objects=True)
def gamma(x: ArrayLike) -> Array:
    """Compute the gamma function.

    Args:
        x: Real or complex numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> f"{gamma(4.0):.3f}"
        '6.000'
    """
    [x] = promote_args_inexact("gamma", x)
    if tracing.aval_of(x).dtype.kind == "c":
        x = xnp.asarray(x)
        return _gamma(x.astype(x.dtype))
    return gammasgn(x) * xnp.exp(lax.lgamma(x))


def _exp_of_log(z):
    value = xnp.exp(log_gamma.log_gamma(z))
    real, imaginary = xnp.real(value), xnp.imag(value)
    real_line = xnp.where(xnp.isnan(real), xnp.nan, 0)  # the result is real for real z, NaN at the poles
    return lax.complex(real, xnp.where(xnp.imag(z) == 0, real_line, imaginary))


_gamma = with_derivatives(_exp_of_log, lambda y, z: y * log_gamma.digamma(z))


@library
@accepts(objects=True)
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Compute the logarithm of the absolute value of the beta function.

    Args:
        a, b: Real numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> f"{betaln(2.0, 1.0):.3f}"
        '-0.693'
    """
    return _betaln(*promote_real("betaln", a, b, complex_error=TypeError))


@custom_jvp
def _betaln(a, b):
    return widen_small_floats(gamma_quotients.log_beta)(xnp.asarray(a), xnp.asarray(b))


_betaln.defjvps(lambda g, answer, a, b: -g * gamma_quotients.digamma_difference(a, b),
                lambda g, answer, a, b: -g * gamma_quotients.digamma_difference(b, a))


@library
@accepts(objects=True)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Compute the beta function `gamma(a) * gamma(b) / gamma(a + b)`.

    Args:
        a, b: Real numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> f"{beta(2.0, 1.0):.3f}"
        '0.500'
    """
    a, b = promote_real("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * xnp.exp(betaln(a, b))


@library
@accepts(objects=True)
def digamma(x: ArrayLike) -> Array:
    """Compute the digamma function, the derivative of `gammaln`.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(digamma(1.0)), 4)
        -0.5772
    """
    return lax.digamma(*promote_args_inexact("digamma", x))


@library
@accepts(objects="x")
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Compute the polygamma function, the derivative of order `n` of `digamma`.

    Args:
        n: Order, non-negative integers.
        x: Positive numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> round(float(polygamma(1, 1.0)), 4)
        1.6449
    """
    check_arraylike("polygamma", n, x)
    if not dtypes.is_integer(tracing.aval_of(n).dtype):
        raise ValueError(f"polygamma takes integers as orders n, got dtype {tracing.aval_of(n).dtype}. Use lax.polygamma for "
                         f"floats.")
    n, x = promote_args_inexact("polygamma", n, x)
    if tracing.aval_of(x).dtype.kind == "c":
        raise ValueError(f"polygamma takes real numbers, got dtype {tracing.aval_of(x).dtype}.")
    return lax.polygamma(n, x)


@library
@accepts(nodes=True)
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Compute the Hurwitz zeta function, the sum of `(k + q)**-x` over `k >= 0`.

    Args:
        x: Numbers above 1.
        q: Positive numbers; 1 gives the Riemann zeta function. None is not supported.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> round(float(zeta(2.0, 1.0)), 4)
        1.6449
    """
    if q is None:
        raise NotImplementedError("zeta without q, the Riemann zeta function of all numbers, is not supported. For x > 1, "
                                  "give q=1.")
    return lax.zeta(*promote_args_inexact("zeta", x, q))


@library
@accepts(objects=True)
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized lower incomplete gamma function.

    Args:
        a: Positive numbers.
        x: Non-negative numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> gammainc(1.0, 0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return lax.igamma(*promote_args_inexact("gammainc", a, x))


@library
@accepts(objects=True)
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized upper incomplete gamma function, `1 - gammainc(a, x)`.

    Args:
        a: Positive numbers.
        x: Non-negative numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> gammaincc(1.0, 0.0)
        Array(1., dtype=float32, weak_type=True)
    """
    return lax.igammac(*promote_args_inexact("gammaincc", a, x))


@library
@accepts(objects=True)
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized incomplete beta function.

    Args:
        a, b: Positive numbers.
        x: Numbers between 0 and 1.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> f"{betainc(1.0, 1.0, 0.25):.3f}"
        '0.250'
    """
    return lax.betainc(*promote_real("betainc", a, b, x))


def multigammaln(a: ArrayLike, d: int) -> Array:
    """Compute the logarithm of the multivariate gamma function.

    Args:
        a: Numbers above `(d - 1) / 2`.
        d: Number of dimensions.

    Returns:
        Array of the shape of `a`.

    Example:
        >>> f"{multigammaln(3.0, 1):.3f}"
        '0.693'
    """
    return _multigammaln(a, int(d))


@library(static="d")
@accepts(objects=True)
def _multigammaln(a, d):
    [a] = map(xnp.asarray, promote_args_inexact("multigammaln", a))
    offsets = (0.5 * np.arange(d)).astype(a.dtype).reshape((1,) * a.ndim + (d,))
    total = xnp.sum(lax.lgamma(xnp.expand_dims(a, -1) - offsets), axis=-1)
    return total + np.asarray(d * (d - 1) / 4 * math.log(math.pi), a.dtype)


@library(static="exact")
@accepts(objects=True)
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Compute the factorial `gamma(n + 1)`, which is 0 for negative numbers.

    Args:
        n: Real numbers.
        exact: Must be False: no integer dtype holds exact results.

    Returns:
        Array of floats of the shape of `n`.

    Example:
        >>> f"{factorial(3.0):.3f}"
        '6.000'
    """
    if exact:
        raise NotImplementedError("factorial does not support exact=True, which needs arbitrary-precision integers. Use "
                                  "math.factorial.")
    [n] = promote_args_inexact("factorial", n)
    return xnp.where(n < 0, 0, xnp.exp(lax.lgamma(n + 1)))


@library(static="repetition")
@accepts(objects=True)
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:  # noqa: N803  (SciPy's name)
    """Compute the number of combinations of `k` out of `N` elements.

    Args:
        N, k: Real numbers. The result is 0 where one is negative or `k > N`.
        repetition: If True, count combinations with repetition.

    Returns:
        Array of floats of the broadcast shape of the arguments.

    Example:
        >>> f"{comb(4, 2):.3f}"
        '6.000'
    """
    n, k = promote_args_inexact("comb", N, k)
    if repetition:
        n = xnp.where(k == 0, n, n + k - 1)
    inside = (n >= 0) & (k >= 0) & (k <= n)
    n, k = xnp.where(inside, n, 1), xnp.where(inside, k, 0)
    return xnp.where(inside, xnp.exp(lax.lgamma(n + 1) - lax.lgamma(k + 1) - lax.lgamma(n - k + 1)), 0)


@library
@accepts(nodes=True)
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Compute the Pochhammer symbol `gamma(z + m) / gamma(z)`.

    Args:
        z, m: Real numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> poch(3.0, 0.0)
        Array(1., dtype=float32)
    """
    z, m = promote_real("poch", z, m)
    is_large = (z >= gamma_quotients.LARGE) & (z + m >= gamma_quotients.LARGE) & (z < np.inf)
    direct = gammasgn(z) * gammasgn(z + m) * xnp.exp(lax.lgamma(z + m) - lax.lgamma(z))
    large_z = xnp.where(is_large, z, gamma_quotients.LARGE)
    large_value = xnp.exp(gamma_quotients.log_gamma_ratio(large_z, xnp.where(is_large, m, 0)))
    return xnp.where(m == 0, 1, xnp.where(is_large, large_value, direct))


@library
@accepts(objects=True)
def i0e(x: ArrayLike) -> Array:
    """Compute the exponentially scaled modified Bessel function of order 0, `exp(-abs(x)) * i0(x)`.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> f"{i0e(0.0):.3f}"
        '1.000'
    """
    return lax.bessel_i0e(*promote_args_inexact("i0e", x))


@library
@accepts(objects=True)
def i1e(x: ArrayLike) -> Array:
    """Compute the exponentially scaled modified Bessel function of order 1, `exp(-abs(x)) * i1(x)`.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> i1e(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return lax.bessel_i1e(*promote_args_inexact("i1e", x))


@library
@accepts(objects=True)
def i0(x: ArrayLike) -> Array:
    """Compute the modified Bessel function of order 0.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> f"{i0(0.0):.3f}"
        '1.000'
    """
    return bessel_i0(*promote_real("i0", x))


@library
@accepts(objects=True)
def i1(x: ArrayLike) -> Array:
    """Compute the modified Bessel function of order 1.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> i1(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return bessel_i1(*promote_real("i1", x))
