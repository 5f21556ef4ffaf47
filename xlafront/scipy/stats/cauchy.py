"""The Cauchy distribution.

>>> from xlafront.scipy.stats import cauchy
>>> cauchy.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.members import exponential, member, of_first

_cauchy = member("Cauchy", of_first)


def _by_angle(y):
    """The share above `y`, by one arc tangent, as exact far out as near 0; far to the left what 1 exceeds it by, negative."""
    far = abs(y) > 1
    angle = xnp.arctan(xnp.where(far, 1 / xnp.where(far, y, 1), y)) / math.pi
    return far & (y < 0), xnp.where(far, angle, 0.5 - angle)


def _share(y):
    left, share = _by_angle(y)
    return xnp.where(left, 1 + share, share)


def _log_share(y):
    left, share = _by_angle(y)
    return xnp.where(left, xnp.log1p(xnp.where(left, share, 0)), xnp.log(xnp.where(left, 1, share)))


@_cauchy
def logpdf(x, loc=0, scale=1):
    y = (x - loc) / scale
    return -math.log(math.pi) - xnp.log(scale) - xnp.log1p(y * y)


@_cauchy
def cdf(x, loc=0, scale=1):
    return _share(-(x - loc) / scale)


@_cauchy
def logcdf(x, loc=0, scale=1):
    return _log_share(-(x - loc) / scale)


@_cauchy
def sf(x, loc=0, scale=1):
    return _share((x - loc) / scale)


@_cauchy
def logsf(x, loc=0, scale=1):
    return _log_share((x - loc) / scale)


def _value(q):
    """The value below which lies the share `q`: from the nearer end where that is closer than the middle."""
    left, right = q < 0.25, q > 0.75
    slope = xnp.tan(math.pi * xnp.where(left, q, xnp.where(right, 1 - q, q - 0.5)))
    far = 1 / xnp.where(left | right, slope, 1)
    return xnp.where(left, -far, xnp.where(right, far, slope))


@_cauchy
def ppf(q, loc=0, scale=1):
    return loc + scale * _value(q)


@_cauchy
def isf(q, loc=0, scale=1):
    return loc - scale * _value(q)


pdf = exponential(logpdf, "pdf")
