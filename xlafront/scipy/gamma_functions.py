"""The gamma function, what is made of it (beta, factorials, binomials), and incomplete, Bessel and zeta functions."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact
from xlafront.scipy.differentiable import differentiable, real
from xlafront.special import gamma_quotients, log_gamma
from xlafront.special.by_function import in_wide_floats
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp


@library(converts=True)
def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of the gamma function.

    - `x`: real numbers.

    >>> f"{gammaln(10.0):.3f}"
    '12.802'
    """
    return lax.lgamma(*promote_args_inexact("gammaln", x))


_loggamma = differentiable(log_gamma.log_gamma, lambda y, z: log_gamma.digamma(z))


@library(converts=True)
def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of the gamma function: of complex numbers analytic but for the negative real axis.

    - `x`: complex or real numbers; NaN for negative real ones. `gammaln` has the logarithm of the absolute value of these.

    >>> round(float(loggamma(1.0)), 4)
    0.0
    """
    [x] = promote_args_inexact("loggamma", x)
    if tracing.aval_of(x).dtype.kind == "c":
        return _loggamma(xnp.asarray(x).astype(x.dtype))
    return lax.lgamma(xnp.where(x < 0, xnp.nan, x))


@library
def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function; NaN at negative integers, that of the zero at zeros.

    - `x`: real numbers.

    >>> gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    [x] = real("gammasgn", x)
    x = xnp.asarray(x).astype(xnp.asarray(x).dtype)
    floor = xnp.floor(x)
    even = 1 - 2 * xnp.abs(floor % 2)
    return xnp.where(x == 0, xnp.copysign(1, x), xnp.where(x > 0, 1, xnp.where(floor == x, xnp.nan, even))).astype(x.dtype)


@library(converts=True)
def gamma(x: ArrayLike) -> Array:
    """The gamma function.

    - `x`: real or complex numbers.

    >>> f"{gamma(4.0):.3f}"
    '6.000'
    """
    [x] = promote_args_inexact("gamma", x)
    if tracing.aval_of(x).dtype.kind == "c":
        return _gamma(xnp.asarray(x).astype(x.dtype))
    return gammasgn(x) * xnp.exp(lax.lgamma(x))


def _exp_of_log(z):
    value = xnp.exp(log_gamma.log_gamma(z))
    real, imaginary = xnp.real(value), xnp.imag(value)
    real_line = xnp.where(xnp.isnan(real), xnp.nan, 0)  # where turns are whole, NaN at the poles
    return lax.complex(real, xnp.where(xnp.imag(z) == 0, real_line, imaginary))


_gamma = differentiable(_exp_of_log, lambda y, z: y * log_gamma.digamma(z))


@library(converts=True)
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the absolute value of the beta function.

    - `a`, `b`: real numbers.

    >>> f"{betaln(2.0, 1.0):.3f}"
    '-0.693'
    """
    return _betaln(*real("betaln", a, b, complex_error=TypeError))


@custom_jvp
def _betaln(a, b):
    return in_wide_floats(gamma_quotients.log_beta)(xnp.asarray(a), xnp.asarray(b))


_betaln.defjvps(lambda g, answer, a, b: -g * gamma_quotients.slope_of_growth(a, b),
                lambda g, answer, a, b: -g * gamma_quotients.slope_of_growth(b, a))


@library(converts=True)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function `gamma(a) * gamma(b) / gamma(a + b)`.

    - `a`, `b`: real numbers.

    >>> f"{beta(2.0, 1.0):.3f}"
    '0.500'
    """
    a, b = real("beta", a, b)
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * xnp.exp(betaln(a, b))


@library(converts=True)
def digamma(x: ArrayLike) -> Array:
    """The derivative of `gammaln`.

    - `x`: real numbers.

    >>> round(float(digamma(1.0)), 4)
    -0.5772
    """
    return lax.digamma(*promote_args_inexact("digamma", x))


@library(converts="x")
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of order `n` of `digamma`.

    - `n`: the order, integers that are not negative. `x`: positive numbers.

    >>> round(float(polygamma(1, 1.0)), 4)
    1.6449
    """
    check_arraylike("polygamma", n, x)
    if not dtypes.is_integer(tracing.aval_of(n).dtype):
        raise ValueError(f"polygamma takes integers as orders n, got dtype {tracing.aval_of(n).dtype}. Floats are taken by "
                         f"lax.polygamma.")
    n, x = promote_args_inexact("polygamma", n, x)
    if tracing.aval_of(x).dtype.kind == "c":
        raise ValueError(f"polygamma takes real numbers, got dtype {tracing.aval_of(x).dtype}.")
    return lax.polygamma(n, x)


@library
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function, the sum of `(k + q)**-x` over `k` from 0.

    - `x`: numbers above 1. `q`: positive numbers; it must be given (1 for Riemann's function).

    >>> round(float(zeta(2.0, 1.0)), 4)
    1.6449
    """
    if q is None:
        raise NotImplementedError("zeta without q is Riemann's function, continued to all numbers, which is not there: for "
                                  "x > 1 give q=1.")
    return lax.zeta(*promote_args_inexact("zeta", x, q))


@library(converts=True)
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function.

    - `a`: positive numbers. `x`: numbers that are not negative.

    >>> gammainc(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.igamma(*promote_args_inexact("gammainc", a, x))


@library(converts=True)
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function, `1 - gammainc(a, x)`.

    - `a`: positive numbers. `x`: numbers that are not negative.

    >>> gammaincc(1.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.igammac(*promote_args_inexact("gammaincc", a, x))


@library(converts=True)
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function.

    - `a`, `b`: positive numbers. `x`: numbers between 0 and 1.

    >>> f"{betainc(1.0, 1.0, 0.25):.3f}"
    '0.250'
    """
    return lax.betainc(*real("betainc", a, b, x))


def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the gamma function of `d` dimensions.

    - `a`: numbers above `(d - 1) / 2`. `d`: the number of dimensions.

    >>> f"{multigammaln(3.0, 1):.3f}"
    '0.693'
    """
    return _multigammaln(a, int(d))


@library(static="d", converts=True)
def _multigammaln(a, d):
    [a] = map(xnp.asarray, promote_args_inexact("multigammaln", a))
    steps = (0.5 * np.arange(d)).astype(a.dtype).reshape((1,) * a.ndim + (d,))
    total = xnp.sum(lax.lgamma(xnp.expand_dims(a, -1) - steps), axis=-1)
    return total + np.asarray(d * (d - 1) / 4 * math.log(math.pi), a.dtype)


@library(static="exact", converts=True)
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """`gamma(n + 1)`, 0 for negative numbers.

    - `n`: numbers. `exact`: False: integers would not hold the result.

    >>> f"{factorial(3.0):.3f}"
    '6.000'
    """
    if exact:
        raise NotImplementedError("factorial with exact=True needs integers of any length. Use math.factorial.")
    [n] = promote_args_inexact("factorial", n)
    return xnp.where(n < 0, 0, xnp.exp(lax.lgamma(n + 1)))


@library(static="repetition", converts=True)
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:  # noqa: N803  (SciPy's name)
    """The number of ways to choose `k` of `N` things.

    - `N`, `k`: numbers; the result is 0 where one is negative or `k` is above `N`.
    - `repetition`: whether a thing may be chosen more than once.

    >>> f"{comb(4, 2):.3f}"
    '6.000'
    """
    n, k = promote_args_inexact("comb", N, k)
    if repetition:
        n = n + k - 1
    inside = (n >= 0) & (k >= 0) & (k <= n)
    n, k = xnp.where(inside, n, 1), xnp.where(inside, k, 0)
    return xnp.where(inside, xnp.exp(lax.lgamma(n + 1) - lax.lgamma(k + 1) - lax.lgamma(n - k + 1)), 0)


@library
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """`gamma(z + m) / gamma(z)`.

    - `z`, `m`: real numbers.

    >>> poch(3.0, 0.0)
    Array(1., dtype=float32)
    """
    z, m = real("poch", z, m)
    large = (z >= gamma_quotients.LARGE) & (z + m >= gamma_quotients.LARGE) & (z < np.inf)
    few = gammasgn(z) * gammasgn(z + m) * xnp.exp(lax.lgamma(z + m) - lax.lgamma(z))
    many = xnp.exp(gamma_quotients.growth(xnp.where(large, z, gamma_quotients.LARGE), xnp.where(large, m, 0)))
    return xnp.where(m == 0, 1, xnp.where(large, many, few))


@library(converts=True)
def i0e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0 times `exp(-abs(x))`.

    - `x`: real numbers.

    >>> f"{i0e(0.0):.3f}"
    '1.000'
    """
    return lax.bessel_i0e(*promote_args_inexact("i0e", x))


@library(converts=True)
def i1e(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1 times `exp(-abs(x))`.

    - `x`: real numbers.

    >>> i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.bessel_i1e(*promote_args_inexact("i1e", x))


@library(converts=True)
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    - `x`: real numbers.

    >>> f"{i0(0.0):.3f}"
    '1.000'
    """
    [x] = promote_args_inexact("i0", x)
    return xnp.exp(xnp.abs(x)) * lax.bessel_i0e(x)


@library(converts=True)
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    - `x`: real numbers.

    >>> i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    [x] = promote_args_inexact("i1", x)
    return xnp.exp(xnp.abs(x)) * lax.bessel_i1e(x)
