"""The logarithm of the gamma function of complex numbers, and its derivative.

In the right half plane they are Stirling's series after a few steps of the recurrence; in the left one they are
reflected. The branch follows D. E. G. Hare, "Computing the principal branch of log-gamma", J. Algorithms 25 (1997).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.numpy.promotion import promotes_freely

# By the dtype of the real part: the size from which the series is used, recurrence steps up to it, and terms of the series.
_PLANS = {np.dtype(np.float32): (4, 4, 5), np.dtype(np.float64): (8, 8, 12)}


def bernoulli_numbers(count: int) -> list[Fraction]:
    """Return the first `count` of the Bernoulli numbers B0, B2, B4, ..., computed from tangent numbers.

    The algorithm is from Brent and Harvey, "Fast computation of Bernoulli, tangent and secant numbers", 2013.
    """
    tangent = [math.factorial(k) for k in range(count)]
    for k in range(1, count):
        for j in range(k, count):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    numbers = [Fraction((-1) ** (k - 1) * 2 * k * tangent[k - 1], 4**k * (4**k - 1)) for k in range(1, count)]
    return [Fraction(1), *numbers]


@promotes_freely
def log_gamma(z):
    """Compute the principal branch of the logarithm of the gamma function."""
    size, steps, terms = _PLANS[xnp.real(z).dtype]
    w, near, reflected = _map_to_quadrant(z, size)
    x, y = xnp.real(w), xnp.imag(w)
    # The product of w, w + 1, ...: its argument grows; each time that it passes pi, 2 pi is added.
    product, winding = w, xnp.zeros_like(x)
    for k in range(1, steps):
        next_product = product * (w + k)
        winding = winding + ((xnp.imag(next_product) < 0) & (xnp.imag(product) >= 0))
        product = next_product
    product = xnp.where(near, product, 1)
    log = lax.complex(xnp.log(xnp.abs(product)), xnp.angle(product) + 2 * math.pi * xnp.where(near, winding, 0))
    shifted = lax.complex(xnp.where(near, x + steps, x), y)
    inverse = 1 / shifted
    squared, series = inverse * inverse, xnp.zeros_like(z)
    for k, b in reversed(list(enumerate(bernoulli_numbers(terms + 1)[1:], 1))):
        series = series * squared + float(b) / (2 * k * (2 * k - 1))
    value = (shifted - 0.5) * xnp.log(shifted) - shifted + 0.5 * math.log(2 * math.pi) + series * inverse - log
    sine, _ = _sin_cos_pi(z, reflected)
    branch_shift = 2 * math.pi * xnp.floor(0.5 * xnp.real(z) + 0.25)
    is_below = _negative(xnp.imag(z))
    reflected_value = math.log(math.pi) + lax.complex(xnp.zeros_like(x), branch_shift) - xnp.log(sine) - xnp.conj(value)
    value = xnp.where(reflected, xnp.where(sine == 0, np.nan, reflected_value), value)
    return xnp.where(is_below, xnp.conj(value), value)


@promotes_freely
def digamma(z):
    """Compute the derivative of `log_gamma`."""
    size, steps, terms = _PLANS[xnp.real(z).dtype]
    w, near, reflected = _map_to_quadrant(z, size)
    total = sum(1 / (w + k) for k in range(steps))
    shifted = lax.complex(xnp.where(near, xnp.real(w) + steps, xnp.real(w)), xnp.imag(w))
    inverse = 1 / shifted
    squared, series = inverse * inverse, xnp.zeros_like(z)
    for k, b in reversed(list(enumerate(bernoulli_numbers(terms + 1)[1:], 1))):
        series = (series + float(b) / (2 * k)) * squared
    value = xnp.log(shifted) - 0.5 * inverse - series - xnp.where(near, total, 0)
    sine, cosine = _sin_cos_pi(z, reflected)
    value = xnp.where(reflected, xnp.conj(value) - math.pi * cosine / sine, value)
    return xnp.where(_negative(xnp.imag(z)), xnp.conj(value), value)


def _negative(y):
    return (y < 0) | ((y == 0) & xnp.signbit(y))


def _map_to_quadrant(z, size):
    """Map z to the first quadrant; also return True where the result is near 0, and True where it is 1 - z."""
    x, y = xnp.real(z), abs(xnp.imag(z))
    reflected = (x < 0.5) & (y < size)
    x = xnp.where(reflected, 1 - x, x)
    return lax.complex(x, y), (x < size) & (y < size), reflected


def _sin_cos_pi(z, mask):
    """Compute sine and cosine of `pi z` for z in the upper half plane, where the mask is True."""
    x, y = xnp.where(mask, xnp.real(z), 0.25), xnp.where(mask, abs(xnp.imag(z)), 0)
    rest = x - 2 * xnp.round(x / 2)
    # Reduce the argument, so that the sine vanishes exactly at integers.
    sine = xnp.where(abs(rest) > 0.5, xnp.sign(rest) * xnp.sin(math.pi * (1 - abs(rest))), xnp.sin(math.pi * rest))
    cosine = xnp.sin(math.pi * (0.5 - abs(rest)))  # exactly 0 at half-integers: its sign selects the branch
    c, s = xnp.cosh(math.pi * y), xnp.sinh(math.pi * y)
    return lax.complex(sine * c, cosine * s), lax.complex(cosine * c, -sine * s)
