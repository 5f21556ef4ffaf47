"""The chi-squared distribution.

>>> from xlafront.scipy.stats import chi2
>>> chi2.cdf(0.0, 2.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlogy
from xlafront.scipy.members import exponential, member

_chi2 = member("chi-squared", df="degrees of freedom")


@_chi2
def logpdf(x, df, loc=0, scale=1):
    y = (x - loc) / scale
    inside = y >= 0
    y, half = xnp.where(inside, y, 1), 0.5 * df
    value = xlogy(half - 1, y) - 0.5 * y - half * math.log(2) - lax.lgamma(half) - xnp.log(scale)
    return xnp.where(inside, value, -xnp.inf)


@_chi2
def cdf(x, df, loc=0, scale=1):
    return lax.igamma(0.5 * df, xnp.maximum((x - loc) / (2 * scale), 0))


@_chi2
def logcdf(x, df, loc=0, scale=1):
    return xnp.log(lax.igamma(0.5 * df, xnp.maximum((x - loc) / (2 * scale), 0)))


@_chi2
def sf(x, df, loc=0, scale=1):
    return lax.igammac(0.5 * df, xnp.maximum((x - loc) / (2 * scale), 0))


@_chi2
def logsf(x, df, loc=0, scale=1):
    return xnp.log(lax.igammac(0.5 * df, xnp.maximum((x - loc) / (2 * scale), 0)))


pdf = exponential(logpdf, "pdf")
