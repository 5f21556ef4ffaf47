"""The truncated normal distribution.

>>> from xlafront.scipy.stats import truncnorm
>>> truncnorm.cdf(0.0, -1.0, 1.0)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.members import exponential, member
from xlafront.scipy.normal_functions import log_ndtr

_truncated = member("truncated normal", a="the lower bound, before location and scale", b="the upper bound, before them")


def _log_difference(upper, lower):
    """`log(exp(upper) - exp(lower))`."""
    return upper + xnp.log1p(-xnp.exp(xnp.minimum(lower - upper, 0)))


def _log_mass(a, b):
    """The logarithm of the normal probability between two numbers, from the tail in which they lie."""
    flip = a > 0
    lower, upper = xnp.where(flip, -b, a), xnp.where(flip, -a, b)
    return _log_difference(log_ndtr(upper), log_ndtr(lower))


@_truncated
def logpdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    value = -0.5 * (y * y + math.log(2 * math.pi)) - xnp.log(scale) - _log_mass(a, b)
    return xnp.where((y < a) | (y > b), -xnp.inf, value)


@_truncated
def logcdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    inside = (y > a) & (y < b)
    value = _log_mass(a, xnp.where(inside, y, b)) - _log_mass(a, b)
    return xnp.where(y <= a, -xnp.inf, xnp.where(inside, value, 0))


@_truncated
def logsf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    inside = (y > a) & (y < b)
    value = _log_mass(xnp.where(inside, y, a), b) - _log_mass(a, b)
    return xnp.where(y >= b, -xnp.inf, xnp.where(inside, value, 0))


pdf = exponential(logpdf, "pdf")
cdf = exponential(logcdf, "cdf")
sf = exponential(logsf, "sf")
