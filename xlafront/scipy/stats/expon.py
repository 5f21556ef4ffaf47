"""The exponential distribution.

>>> from xlafront.scipy.stats import expon
>>> expon.cdf(0.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, require_real
from xlafront.scipy.elementary_functions import log1mexp

_exponential = distribution_method("exponential", check=require_real)


def _standardize(x, loc, scale):
    return xnp.where(x < loc, 0, (x - loc) / scale)


@_exponential
def logpdf(x, loc=0, scale=1):
    return xnp.where(x < loc, -xnp.inf, -(x - loc) / scale - xnp.log(scale))


@_exponential
def logsf(x, loc=0, scale=1):
    return -_standardize(x, loc, scale)


@_exponential
def cdf(x, loc=0, scale=1):
    return -xnp.expm1(-_standardize(x, loc, scale))


@_exponential
def logcdf(x, loc=0, scale=1):
    below = x < loc
    return xnp.where(below, -xnp.inf, log1mexp(xnp.where(below, -1, -_standardize(x, loc, scale))))


@distribution_method("exponential")
def ppf(q, loc=0, scale=1):
    return xnp.where((q < 0) | (q > 1), xnp.nan, loc - scale * xnp.log1p(-q))


pdf = exponentiate(logpdf, "pdf")
sf = exponentiate(logsf, "sf")
