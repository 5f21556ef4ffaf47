"""The truncated normal distribution.

>>> from xlafront.scipy.stats import truncnorm
>>> truncnorm.cdf(0.0, -1.0, 1.0)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.integral_functions import erfcx
from xlafront.scipy.members import exponential, member

_truncated = member("truncated normal", a="the lower bound, before location and scale", b="the upper bound, before them")


def _tail(x):
    """The normal probability beyond `x` over `exp(-x * x / 2)`."""
    return 0.5 * erfcx(x * math.sqrt(0.5))


def _mass(a, b):
    """The normal probability between two numbers: one of them, n, or 0, and the logarithm of what `exp(-n * n / 2)` is
    multiplied with. Far out the squares, which alone would take all digits, are left to differences."""
    left, about_0 = b <= -1, (a < 1) & (b > -1) & (a < b)
    near = xnp.where(about_0, 1, xnp.where(left, -b, a))
    far = xnp.where(about_0, 2, xnp.where(left, -a, b))
    endless = far == xnp.inf
    far = xnp.where(endless, near + 1, far)
    rest = xnp.where(endless, 0, xnp.exp(-0.5 * (far - near) * (far + near)) * _tail(far))
    below, above = (lax.erf(xnp.where(about_0, x, s) * math.sqrt(0.5)) for x, s in ((a, -1), (b, 1)))
    return xnp.where(about_0, 0, near), xnp.log(xnp.where(about_0, 0.5 * (above - below), _tail(near) - rest))


def _log_quotient(part, whole):
    """Of two masses."""
    (n, log), (m, other) = part, whole
    return log - other - 0.5 * (n - m) * (n + m)


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
    value = _log_quotient((xnp.abs(y), -0.5 * math.log(2 * math.pi) - xnp.log(xnp.abs(scale))), _mass(a, b))
    return _when_in_order(a, b, xnp.where((y < a) | (y > b), -xnp.inf, value))


@_truncated
def logcdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    below, inside = y <= a, (y > a) & (y < b)
    whole, y = _mass(a, b), xnp.where(inside, y, _middle(a, b))
    value = _of_share(_log_quotient(_mass(a, y), whole), _log_quotient(_mass(y, b), whole))
    return _when_in_order(a, b, xnp.where(below, -xnp.inf, xnp.where(inside, value, 0)))


@_truncated
def logsf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    above, inside = y >= b, (y > a) & (y < b)
    whole, y = _mass(a, b), xnp.where(inside, y, _middle(a, b))
    value = _of_share(_log_quotient(_mass(y, b), whole), _log_quotient(_mass(a, y), whole))
    return _when_in_order(a, b, xnp.where(above, -xnp.inf, xnp.where(inside, value, 0)))


pdf = exponential(logpdf, "pdf")
cdf = exponential(logcdf, "cdf")
sf = exponential(logsf, "sf")
