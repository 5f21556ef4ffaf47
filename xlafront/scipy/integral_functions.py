"""Special functions that are integrals: of errors, exponentials, oscillations, and of two normal variables."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.scipy.differentiable import differentiable, inexact, inexact_from_lists
from xlafront.special import error_functions, exponential_integrals, oscillating_integrals, owens_t as owen
from xlafront.staging.library import library

_2_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _scaled(x):
    if x.dtype.kind != "c":
        return error_functions.erfcx(x)
    return error_functions.faddeeva(lax.complex(-xnp.imag(x), xnp.real(x)))


_dawsn = differentiable(error_functions.dawson, lambda y, x: 1 - 2 * x * y)
_erfcx = differentiable(_scaled, lambda y, x: 2 * x * y - _2_OVER_ROOT_PI)
_wofz = differentiable(error_functions.faddeeva, lambda w, z: _2_OVER_ROOT_PI * 1j - 2 * z * w)
_exp1 = differentiable(exponential_integrals.exponential_integral, lambda y, x: -xnp.exp(-x) / x)
_expi = differentiable(exponential_integrals.principal_integral, lambda y, x: xnp.exp(x) / x)
_expn = differentiable(exponential_integrals.generalized_integral, None, lambda y, n, x: -_expn(n - 1, x))
_of_square = differentiable(oscillating_integrals.of_square, lambda y, x: (math.pi * x * y[1], -math.pi * x * y[0]))
_fresnel = differentiable(oscillating_integrals.fresnel, lambda y, x: _of_square(x))
_sici = differentiable(oscillating_integrals.sine_and_cosine_integral, lambda y, x: (
    xnp.where(x == 0, 1, xnp.sin(x) / xnp.where(x == 0, 1, x)), xnp.cos(x) / x))
_spence = differentiable(oscillating_integrals.spence, lambda y, x: xnp.where(
    x == 1, -1, xnp.log(xnp.where(x == 1, 2, x)) / (1 - xnp.where(x == 1, 2, x))))
_owens_t = differentiable(
    owen.owens_t,
    lambda y, h, a: -xnp.exp(-0.5 * h * h) * lax.erf(math.sqrt(0.5) * a * h) / (2 * math.sqrt(2 * math.pi)),
    lambda y, h, a: xnp.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)))


@library(converts=True)
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, `exp(-x**2)` times the integral of `exp(t**2)` from 0 to `x`.

    - `x`: real numbers.

    >>> round(float(dawsn(1.0)), 4)
    0.5381
    """
    return _dawsn(*inexact("dawsn", x))


@library(converts=True)
def erfcx(x: ArrayLike) -> Array:
    """The scaled complementary error function `exp(x**2) * erfc(x)`, which does not underflow.

    - `x`: real or complex numbers.

    >>> round(float(erfcx(10.0)), 4)
    0.0561
    """
    return _erfcx(*inexact("erfcx", x, complex_error=None))


@library(converts=True)
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function `exp(-z**2) * erfc(-1j * z)`.

    - `z`: complex numbers; others are taken as such.

    >>> complex(wofz(0.0))
    (1+0j)
    """
    [z] = inexact("wofz", z, complex_error=None)
    return _wofz(z if z.dtype.kind == "c" else lax.complex(z, xnp.zeros_like(z)) if z.dtype.itemsize >= 4 else
                 z.astype(np.complex64))


@library(converts=True)
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1, of `exp(-t) / t` from `x` to infinity: NaN for negative numbers.

    - `x`: real numbers.

    >>> round(float(exp1(1.0)), 4)
    0.2194
    """
    return _exp1(*inexact("exp1", x))


@library
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei, the principal value of that of `exp(t) / t` from minus infinity to `x`.

    - `x`: real numbers.

    >>> round(float(expi(1.0)), 4)
    1.8951
    """
    return _expi(*inexact("expi", x))


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The generalized exponential integral, of `exp(-x * t) / t**n` from 1 to infinity: NaN for negative `x`.

    - `n`: the order. SciPy takes integers that are not negative, here it is any real number; it has no derivative.
    - `x`: real numbers.

    >>> round(float(expn(2, 1.0)), 4)
    0.1485
    """
    return _expn_kernel(*inexact_from_lists("expn", n, x))


@library
def _expn_kernel(n, x):
    return _expn(*xnp.broadcast_arrays(n, x))


@library
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The Fresnel integrals: of the sine, and of the cosine, of `pi * t**2 / 2` from 0 to `x`.

    - `x`: real numbers.

    >>> fresnel(xnp.inf)
    (Array(0.5, dtype=float32), Array(0.5, dtype=float32))
    """
    return _fresnel(*inexact("fresnel", x, complex_error=NotImplementedError))


@library
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine integral, of `sin(t) / t` from 0 to `x`, and the cosine integral of the absolute value of `x`.

    - `x`: real numbers.

    >>> [round(float(y), 4) for y in sici(1.0)]
    [0.9461, 0.3374]
    """
    return _sici(*inexact("sici", x))


def spence(x: ArrayLike) -> Array:
    """Spence's function, the integral of `log(t) / (1 - t)` from 1 to `x`, which is the dilogarithm of `1 - x`.

    - `x`: float32 or float64. Below 0 the result is NaN.

    >>> round(float(spence(0.0)), 4)
    1.6449
    """
    x = xnp.asarray(x)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"spence takes floats of 32 or 64 bits, got dtype {x.dtype}. Convert with x.astype(...).")
    return _spence_kernel(x)


@library
def _spence_kernel(x):
    return _spence(*inexact("spence", x))


@library(converts=True)
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function: the probability that a normal variable exceeds `h` and another lies between 0 and `a` times it.

    - `h`, `a`: real numbers. The result has 32 bits at least.

    >>> round(float(owens_t(0.0, 1.0)), 4)
    0.125
    """
    h, a = inexact("owens_t", h, a)
    wide = h.dtype if h.dtype.itemsize >= 4 else np.float32
    return _owens_t(*xnp.broadcast_arrays(h.astype(wide), a.astype(wide)))
