"""The gamma distribution.

>>> from xlafront.scipy.stats import gamma
>>> gamma.cdf(0.0, 2.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlogy
from xlafront.scipy.members import exponential, member

_gamma = member("gamma", a="the shape")


@_gamma
def logpdf(x, a, loc=0, scale=1):
    y = (x - loc) / scale
    inside = y >= 0
    y = xnp.where(inside, y, 1)
    return xnp.where(inside, xlogy(a - 1, y) - y - lax.lgamma(a) - xnp.log(scale), -xnp.inf)


@_gamma
def cdf(x, a, loc=0, scale=1):
    return lax.igamma(a, xnp.maximum((x - loc) / scale, 0))


@_gamma
def logcdf(x, a, loc=0, scale=1):
    return xnp.log(lax.igamma(a, xnp.maximum((x - loc) / scale, 0)))


@_gamma
def sf(x, a, loc=0, scale=1):
    return lax.igammac(a, xnp.maximum((x - loc) / scale, 0))


@_gamma
def logsf(x, a, loc=0, scale=1):
    return xnp.log(lax.igammac(a, xnp.maximum((x - loc) / scale, 0)))


pdf = exponential(logpdf, "pdf")
