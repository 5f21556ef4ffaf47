"""The Cauchy distribution.

>>> from xlafront.scipy.stats import cauchy
>>> cauchy.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.members import exponential, member

_cauchy = member("Cauchy")


def _share(y):
    """The share above `y`, which is as exact far out as near 0."""
    return xnp.arctan2(1, y) / math.pi


def _log_share(y):
    return xnp.where(y < 0, xnp.log1p(-_share(-y)), xnp.log(_share(y)))


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


@_cauchy
def ppf(q, loc=0, scale=1):
    return loc + scale * xnp.tan(math.pi * (q - 0.5))


@_cauchy
def isf(q, loc=0, scale=1):
    return loc + scale * xnp.tan(math.pi * (0.5 - q))


pdf = exponential(logpdf, "pdf")
