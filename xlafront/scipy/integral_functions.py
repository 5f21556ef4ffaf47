"""Special functions defined by integrals: error functions, exponential and trigonometric integrals, Owen's T function."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike
from xlafront.scipy.derivative_formulas import promote_inexact, promote_inexact_lists, with_derivatives
from xlafront.special import error_functions, exponential_integrals, oscillating_integrals, owens_t as owen
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

_2_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _scaled_erfc(x):
    if x.dtype.kind != "c":
        return error_functions.erfcx(x)
    return error_functions.faddeeva(lax.complex(-xnp.imag(x), xnp.real(x)))


_dawsn = with_derivatives(error_functions.dawson, lambda y, x: 1 - 2 * x * y)
_erfcx = with_derivatives(_scaled_erfc, lambda y, x: 2 * x * y - _2_OVER_ROOT_PI)
_wofz = with_derivatives(error_functions.faddeeva, lambda w, z: _2_OVER_ROOT_PI * 1j - 2 * z * w)
_exp1 = with_derivatives(exponential_integrals.exponential_integral, lambda y, x: -xnp.exp(-x) / x)
_expi = with_derivatives(exponential_integrals.principal_integral, lambda y, x: xnp.exp(x) / x)
_expn = with_derivatives(exponential_integrals.generalized_integral, None, lambda y, n, x: -_expn(n - 1, x))
_fresnel_integrands = with_derivatives(
    oscillating_integrals.fresnel_integrands, lambda y, x: (math.pi * x * y[1], -math.pi * x * y[0]))
_fresnel = with_derivatives(oscillating_integrals.fresnel, lambda y, x: _fresnel_integrands(x))
_sici = with_derivatives(oscillating_integrals.sine_and_cosine_integral, lambda y, x: (
    xnp.where(x == 0, 1, xnp.sin(x) / xnp.where(x == 0, 1, x)), xnp.cos(x) / x))
_spence = with_derivatives(oscillating_integrals.spence, lambda y, x: xnp.where(
    x == 1, -1 + (x - 1) / 2 - (x - 1)**2 / 3, xnp.log(xnp.where(x == 1, 2, x)) / (1 - xnp.where(x == 1, 2, x))))
_owens_t = with_derivatives(
    owen.owens_t,
    lambda y, h, a: -xnp.exp(-0.5 * h * h) * lax.erf(math.sqrt(0.5) * a * h) / (2 * math.sqrt(2 * math.pi)),
    lambda y, h, a: xnp.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)))


@library
@accepts(objects=True)
def dawsn(x: ArrayLike) -> Array:
    """Compute Dawson's integral, `exp(-x**2)` times the integral of `exp(t**2)` from 0 to `x`.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(dawsn(1.0)), 4)
        0.5381
    """
    return _dawsn(*promote_inexact("dawsn", x))


@library
@accepts(objects=True)
def erfcx(x: ArrayLike) -> Array:
    """Compute the scaled complementary error function `exp(x**2) * erfc(x)`, which does not underflow.

    Args:
        x: Real or complex numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(erfcx(10.0)), 4)
        0.0561
    """
    return _erfcx(*promote_inexact("erfcx", x, complex_error=None))


@library
@accepts(objects=True)
def wofz(z: ArrayLike) -> Array:
    """Compute the Faddeeva function `exp(-z**2) * erfc(-1j * z)`.

    Args:
        z: Complex numbers; real ones are converted.

    Returns:
        Complex array of the shape of `z`.

    Example:
        >>> complex(wofz(0.0))
        (1+0j)
    """
    [z] = promote_inexact("wofz", z, complex_error=None)
    return _wofz(z if z.dtype.kind == "c" else lax.complex(z, xnp.zeros_like(z)) if z.dtype.itemsize >= 4 else
                 z.astype(np.complex64))


@library
@accepts(objects=True)
def exp1(x: ArrayLike) -> Array:
    """Compute the exponential integral E1, the integral of `exp(-t) / t` from `x` to infinity.

    Args:
        x: Real numbers. The result is NaN for negative ones.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(exp1(1.0)), 4)
        0.2194
    """
    return _exp1(*promote_inexact("exp1", x))


@library
@accepts(nodes=True)
def expi(x: ArrayLike) -> Array:
    """Compute the exponential integral Ei, the principal value of the integral of `exp(t) / t` from minus infinity to `x`.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(expi(1.0)), 4)
        1.8951
    """
    return _expi(*promote_inexact("expi", x))


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Compute the generalized exponential integral, the integral of `exp(-x * t) / t**n` from 1 to infinity.

    Args:
        n: Order, any real number. It has no derivative.
        x: Real numbers. The result is NaN for negative ones.

    Returns:
        Array of the broadcast shape of the arguments.

    Note:
        SciPy accepts only non-negative integers as the order.

    Example:
        >>> round(float(expn(2, 1.0)), 4)
        0.1485
    """
    check_arraylike("expn", n, x)
    return _expn_kernel(*promote_inexact_lists("expn", n, x))


@library
def _expn_kernel(n, x):
    return _expn(*xnp.broadcast_arrays(n, x))


@library
@accepts(nodes=True)
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Compute the Fresnel integrals, of `sin(pi * t**2 / 2)` and of `cos(pi * t**2 / 2)` from 0 to `x`.

    Args:
        x: Real numbers.

    Returns:
        Sine and cosine integral, each of the shape of `x`.

    Example:
        >>> fresnel(xnp.inf)
        (Array(0.5, dtype=float32), Array(0.5, dtype=float32))
    """
    return _fresnel(*promote_inexact("fresnel", x, complex_error=NotImplementedError))


@library
@accepts(nodes=True)
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Compute the sine integral, of `sin(t) / t` from 0 to `x`, and the cosine integral.

    Args:
        x: Real numbers.

    Returns:
        Sine integral of `x` and cosine integral of `abs(x)`, each of the shape of `x`.

    Example:
        >>> [round(float(y), 4) for y in sici(1.0)]
        [0.9461, 0.3374]
    """
    return _sici(*promote_inexact("sici", x))


def spence(x: ArrayLike) -> Array:
    """Compute Spence's function, the integral of `log(t) / (1 - t)` from 1 to `x`: the dilogarithm of `1 - x`.

    Args:
        x: Numbers of float32 or float64. The result is NaN for negative ones.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(spence(0.0)), 4)
        1.6449
    """
    x = xnp.asarray(x)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"spence takes floats of 32 or 64 bits, got dtype {x.dtype}. Convert with x.astype(...).")
    return _spence_kernel(x)


@library
def _spence_kernel(x):
    return _spence(*promote_inexact("spence", x))


@library
@accepts(objects=True)
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Compute Owen's T function: the probability that `X > h` and `0 < Y < a * X` for independent standard normal X and Y.

    Args:
        h, a: Real numbers.

    Returns:
        Array of the broadcast shape of the arguments, at least float32.

    Example:
        >>> round(float(owens_t(0.0, 1.0)), 4)
        0.125
    """
    h, a = promote_inexact("owens_t", h, a)
    wide = h.dtype if h.dtype.itemsize >= 4 else np.float32
    return _owens_t(*xnp.broadcast_arrays(h.astype(wide), a.astype(wide)))
