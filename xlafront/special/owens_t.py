"""Owen's T function, from which bivariate normal probabilities follow."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax

# Number of Gauss-Legendre points, by dtype, with which the integral over at most _WIDTH deviations is accurate up to rounding.
_POINTS = {np.dtype(np.float32): 12, np.dtype(np.float64): 24}
_WIDTH = {np.dtype(np.float32): 6.0, np.dtype(np.float64): 9.0}
_BEYOND = 64.0  # deviations at which the density underflows in both dtypes


def owens_t(h, a):
    """Compute the integral of `exp(-h^2 (1 + t^2) / 2) / (2 pi (1 + t^2))` from 0 to a."""
    h, abs_a = abs(h), abs(a)
    is_steep = abs_a > 1
    # T(h, a) = (p + q) / 2 - p q - T(a h, 1 / a), where p and q are the normal probabilities above h and a h.
    product = xnp.where((h == 0) | (abs_a == 0), 0, h * abs_a)
    x = xnp.where(is_steep, product, h)
    end = xnp.where(is_steep, 1 / xnp.where(is_steep, abs_a, 1), abs_a)
    p, q = (0.5 * lax.erfc(math.sqrt(0.5) * v) for v in (h, product))
    integral = _integral(x, end)
    value = xnp.where(is_steep, 0.5 * (p + q) - p * q - integral, integral)
    at_end = xnp.where(abs_a == np.inf, xnp.where(h == 0, 0.25, 0.5 * p), value)
    return xnp.copysign(xnp.where(xnp.isnan(h) | xnp.isnan(a), np.nan, at_end), a)


def _integral(h, a):
    h = xnp.minimum(h, _BEYOND)
    points, weights = np.polynomial.legendre.leggauss(_POINTS[h.dtype])
    a = xnp.minimum(a, _WIDTH[h.dtype] / xnp.where(h > 0, h, 1e-30))
    total = xnp.zeros_like(h)
    for point, weight in zip((points + 1) / 2, weights / 2):
        t = (a * point) ** 2
        total = total + weight * xnp.exp(-0.5 * h * h * t) / (1 + t)
    return a * total * xnp.exp(-0.5 * h * h) / (2 * math.pi)
