"""The normal distribution.

>>> from xlafront.scipy.stats import norm
>>> norm.cdf(0.0)
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.members import exponential, member, nothing, of_first, of_floats
from xlafront.scipy.normal_functions import log_ndtr, ndtr, ndtri

_normal, _quantile = (member("normal", of_first, refuse) for refuse in (nothing, of_floats))


@_normal
def logpdf(x, loc=0, scale=1):
    # Few operations for each x, also in derivatives, of which sums over x are: samplers spend their time here.
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


@_quantile
def isf(q, loc=0, scale=1):
    return loc - ndtri(q) * scale


pdf = exponential(logpdf, "pdf")
