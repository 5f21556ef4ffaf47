"""The truncated normal distribution.

>>> from xlafront.scipy.stats import truncnorm
>>> truncnorm.cdf(0.0, -1.0, 1.0)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.members import exponential, member
from xlafront.scipy.normal_functions import log_ndtr

_truncated = member("truncated normal", a="the lower bound, before location and scale", b="the upper bound, before them")


def _log_difference(upper, lower):
    """`log(exp(upper) - exp(lower))`."""
    none = upper == -xnp.inf
    return upper + xnp.log1p(-xnp.exp(xnp.minimum(lower - xnp.where(none, 0, upper), 0)))


def _log_mass(a, b):
    """The logarithm of the normal probability between two numbers: from the tail in which they lie, or about 0."""
    flip, about_0 = a > 0, (a < 1) & (b > -1) & (a < b)
    lower, upper = xnp.where(flip, -b, a), xnp.where(flip, -a, b)
    left, right = (lax.erf(xnp.where(about_0, x, s) * math.sqrt(0.5)) for x, s in ((a, -1), (b, 1)))
    lower, upper = xnp.where(about_0, -2, lower), xnp.where(about_0, -1, upper)
    return xnp.where(about_0, xnp.log(0.5 * (right - left)), _log_difference(log_ndtr(upper), log_ndtr(lower)))


def _middle(a, b):
    """A number between two of which either may be infinite: where slopes are finite."""
    low = xnp.where(a == -xnp.inf, xnp.where(b == xnp.inf, -1, b - 2), a)
    return 0.5 * (low + xnp.where(b == xnp.inf, low + 2, b))


def _of_share(share, rest):
    """The logarithm of a share, from that of the rest where there is little of it."""
    most = share > -0.1
    return xnp.where(most, xnp.log1p(-xnp.exp(xnp.where(most, rest, -1))), share)


def _when_in_order(a, b, value):
    return xnp.where(a >= b, xnp.nan, value)


@_truncated
def logpdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    value = -0.5 * (y * y + math.log(2 * math.pi)) - xnp.log(xnp.abs(scale)) - _log_mass(a, b)
    return _when_in_order(a, b, xnp.where((y < a) | (y > b), -xnp.inf, value))


@_truncated
def logcdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    below, inside = y <= a, (y > a) & (y < b)
    whole, y = _log_mass(a, b), xnp.where(inside, y, _middle(a, b))
    value = _of_share(_log_mass(a, y) - whole, _log_mass(y, b) - whole)
    return _when_in_order(a, b, xnp.where(below, -xnp.inf, xnp.where(inside, value, 0)))


@_truncated
def logsf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    above, inside = y >= b, (y > a) & (y < b)
    whole, y = _log_mass(a, b), xnp.where(inside, y, _middle(a, b))
    value = _of_share(_log_mass(y, b) - whole, _log_mass(a, y) - whole)
    return _when_in_order(a, b, xnp.where(above, -xnp.inf, xnp.where(inside, value, 0)))


pdf = exponential(logpdf, "pdf")
cdf = exponential(logcdf, "cdf")
sf = exponential(logsf, "sf")
