"""The normal distribution.

>>> from xlafront.scipy.stats import norm
>>> norm.cdf(0.0)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import accept_all, distribution_method, exponentiate, first_is_strong, require_float
from xlafront.scipy.normal_functions import log_ndtr, ndtr, ndtri

_normal, _quantile = (distribution_method("normal", first_is_strong, check) for check in (accept_all, require_float))


@_normal
def logpdf(x, loc=0, scale=1):
    # Few operations per element, also in the derivatives and their sums over x: MCMC samplers spend their time here.
    return xnp.square(x - loc) * (-0.5 / xnp.square(scale)) - (xnp.log(xnp.abs(scale)) + 0.5 * math.log(2 * math.pi))


@_normal
def cdf(x, loc=0, scale=1):
    return ndtr((x - loc) / scale)


@_normal
def logcdf(x, loc=0, scale=1):
    return log_ndtr((x - loc) / scale)


@_normal
def sf(x, loc=0, scale=1):
    return ndtr((loc - x) / scale)


@_normal
def logsf(x, loc=0, scale=1):
    return log_ndtr((loc - x) / scale)


@_quantile
def ppf(q, loc=0, scale=1):
    return ndtri(q) * scale + loc


@_normal
def isf(q, loc=0, scale=1):
    return loc - ndtri(q) * scale


pdf = exponentiate(logpdf, "pdf")
