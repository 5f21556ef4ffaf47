"""The Pareto distribution.

>>> from xlafront.scipy.stats import pareto
>>> pareto.sf(1.0, 2.0)
Array(1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong, never, require_real
from xlafront.scipy.elementary_functions import log1mexp

_pareto, _pareto_logcdf = (distribution_method("Pareto", is_strong, require_real, b="Shape parameter, the exponent")
                           for is_strong in (first_is_strong, never))


def _log_ratio(x, loc, scale):
    """Return the log of the ratio of `x` to the minimum of the support, 0 below it."""
    return xnp.log(xnp.where(x < loc + scale, 1, (x - loc) / scale))


@_pareto
def logpdf(x, b, loc=0, scale=1):
    return xnp.where(x < loc + scale, -xnp.inf, xnp.log(b) - xnp.log(scale) - (b + 1) * _log_ratio(x, loc, scale))


@_pareto
def logsf(x, b, loc=0, scale=1):
    return -b * _log_ratio(x, loc, scale)


@_pareto
def cdf(x, b, loc=0, scale=1):
    return -xnp.expm1(-b * _log_ratio(x, loc, scale))


@_pareto_logcdf
def logcdf(x, b, loc=0, scale=1):
    below = x < loc + scale
    return xnp.where(below, -xnp.inf, log1mexp(xnp.where(below, -1, -b * _log_ratio(x, loc, scale))))


@distribution_method("Pareto", first_is_strong, b="Shape parameter, the exponent")
def ppf(q, b, loc=0, scale=1):
    outside = (q < 0) | (q > 1)
    return xnp.where(outside, xnp.nan, loc + scale * xnp.exp(-xnp.log1p(-xnp.where(outside, 0, q)) / b))


pdf = exponentiate(logpdf, "pdf")
sf = exponentiate(logsf, "sf")
