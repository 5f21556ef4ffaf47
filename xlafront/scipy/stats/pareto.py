"""The Pareto distribution.

>>> from xlafront.scipy.stats import pareto
>>> pareto.sf(1.0, 2.0)
Array(1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.elementary_functions import log_of_rest
from xlafront.scipy.members import exponential, member, never, of_first, ordered

_pareto, _pareto_log = (member("Pareto", strong, ordered, b="the exponent") for strong in (of_first, never))


def _logarithm(x, loc, scale):
    """Of how many times the least value this is."""
    return xnp.log(xnp.where(x < loc + scale, 1, (x - loc) / scale))


@_pareto
def logpdf(x, b, loc=0, scale=1):
    return xnp.where(x < loc + scale, -xnp.inf, xnp.log(b) - xnp.log(scale) - (b + 1) * _logarithm(x, loc, scale))


@_pareto
def logsf(x, b, loc=0, scale=1):
    return -b * _logarithm(x, loc, scale)


@_pareto
def cdf(x, b, loc=0, scale=1):
    return -xnp.expm1(-b * _logarithm(x, loc, scale))


@_pareto_log
def logcdf(x, b, loc=0, scale=1):
    below = x < loc + scale
    return xnp.where(below, -xnp.inf, log_of_rest(xnp.where(below, -1, -b * _logarithm(x, loc, scale))))


@member("Pareto", of_first, b="the exponent")
def ppf(q, b, loc=0, scale=1):
    return xnp.where((q < 0) | (q > 1), xnp.nan, loc + scale * xnp.exp(-xnp.log1p(-q) / b))


pdf = exponential(logpdf, "pdf")
sf = exponential(logsf, "sf")
