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


@_cauchy
def logpdf(x, loc=0, scale=1):
    y = (x - loc) / scale
    return -math.log(math.pi) - xnp.log(scale) - xnp.log1p(y * y)


@_cauchy
def cdf(x, loc=0, scale=1):
    return 0.5 + xnp.arctan((x - loc) / scale) / math.pi


@_cauchy
def logcdf(x, loc=0, scale=1):
    return xnp.log(xnp.arctan2(scale, loc - x) / math.pi)


@_cauchy
def sf(x, loc=0, scale=1):
    return 0.5 + xnp.arctan((loc - x) / scale) / math.pi


@_cauchy
def logsf(x, loc=0, scale=1):
    return xnp.log(xnp.arctan2(scale, x - loc) / math.pi)


@_cauchy
def ppf(q, loc=0, scale=1):
    return loc + scale * xnp.tan(math.pi * (q - 0.5))


@_cauchy
def isf(q, loc=0, scale=1):
    return loc + scale * xnp.tan(math.pi * (0.5 - q))


pdf = exponential(logpdf, "pdf")
