"""The truncated normal distribution.

>>> from xlafront.scipy.stats import truncnorm
>>> truncnorm.cdf(0.0, -1.0, 1.0)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, require_wide
from xlafront.scipy.integral_functions import erfcx

_truncated = distribution_method("truncated normal", check=require_wide, a="Lower bound of the standardized variable",
                                 b="Upper bound of the standardized variable")


def _tail(x):
    """Return the normal probability above `x` divided by `exp(-x * x / 2)`."""
    return 0.5 * erfcx(x * math.sqrt(0.5))


def _mass(a, b):
    """Return the normal probability between two bounds as `(n, log(p / exp(-n * n / 2)))`.

    `n` is one of the bounds, or 0. Quotients of masses far from 0 need differences of such squares, which would lose
    all digits if they were computed one by one.
    """
    left, contains_0 = b <= -1, (a < 1) & (b > -1) & (a < b)
    near = xnp.where(contains_0, 1, xnp.where(left, -b, a))
    far = xnp.where(contains_0, 2, xnp.where(left, -a, b))
    is_unbounded = far == xnp.inf
    far = xnp.where(is_unbounded, near + 1, far)
    far_tail = xnp.where(is_unbounded, 0, xnp.exp(-0.5 * (far - near) * (far + near)) * _tail(far))
    below, above = (lax.erf(xnp.where(contains_0, x, s) * math.sqrt(0.5)) for x, s in ((a, -1), (b, 1)))
    return xnp.where(contains_0, 0, near), xnp.log(xnp.where(contains_0, 0.5 * (above - below), _tail(near) - far_tail))


def _log_quotient(part, total):
    """Return the log of the quotient of two masses."""
    (near_part, log_part), (near_total, log_total) = part, total
    return log_part - log_total - 0.5 * (near_part - near_total) * (near_part + near_total)


def _midpoint(a, b):
    """Return a point between two bounds, either of which may be infinite, where derivatives are finite."""
    low = xnp.where(a == -xnp.inf, xnp.where(b == xnp.inf, -1, b - 2), a)
    return 0.5 * (low + xnp.where(b == xnp.inf, low + 2, b))


def _log_from_complement(log_p, log_complement):
    """Return the log of a probability, computed from that of the complement if the probability is near 1."""
    is_near_1 = log_p > -0.1
    return xnp.where(is_near_1, xnp.log1p(-xnp.exp(xnp.where(is_near_1, log_complement, -1))), log_p)


def _nan_unless_ordered(a, y, b, value):
    return xnp.where((a < b) & (y == y), value, xnp.nan)


@_truncated
def logpdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    value = _log_quotient((xnp.abs(y), -0.5 * math.log(2 * math.pi) - xnp.log(xnp.abs(scale))), _mass(a, b))
    return _nan_unless_ordered(a, y, b, xnp.where((y < a) | (y > b), -xnp.inf, value))


@_truncated
def logcdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    below, inside = y <= a, (y > a) & (y < b)
    total, z = _mass(a, b), xnp.where(inside, y, _midpoint(a, b))
    value = _log_from_complement(_log_quotient(_mass(a, z), total), _log_quotient(_mass(z, b), total))
    return _nan_unless_ordered(a, y, b, xnp.where(below, -xnp.inf, xnp.where(inside, value, 0)))


@_truncated
def logsf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    above, inside = y >= b, (y > a) & (y < b)
    total, z = _mass(a, b), xnp.where(inside, y, _midpoint(a, b))
    value = _log_from_complement(_log_quotient(_mass(z, b), total), _log_quotient(_mass(a, z), total))
    return _nan_unless_ordered(a, y, b, xnp.where(above, -xnp.inf, xnp.where(inside, value, 0)))


pdf = exponentiate(logpdf, "pdf")
cdf = exponentiate(logcdf, "cdf")
sf = exponentiate(logsf, "sf")
