"""The gamma distribution.

>>> from xlafront.scipy.stats import gamma
>>> gamma.cdf(0.0, 2.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlogy
from xlafront.scipy.members import exponential, member, never, of_first

_gamma, _gamma_above = (member("gamma", strong, a="the shape") for strong in (of_first, never))


def _between(lower, a, x, loc, scale):
    """A part of the integral, whose slope is 0 where there is nothing; NaN of NaN and of shapes that are none."""
    y = (x - loc) / scale
    integral, outside = lax.igamma if lower else lax.igammac, (y <= 0) | (y == xnp.inf)
    value = xnp.where(outside, (y > 0) == lower, integral(a, xnp.where(outside, 1, y)))
    return xnp.where(xnp.isnan(y) | (a <= 0), xnp.nan, value)


def _log_between(lower, a, x, loc, scale):
    """Its logarithm, whose slope is 0 where there is nothing."""
    share = _between(lower, a, x, loc, scale)
    none = share == 0
    return xnp.where(none, -xnp.inf, xnp.log(xnp.where(none, 1, share)))


@_gamma
def logpdf(x, a, loc=0, scale=1):
    y = (x - loc) / scale
    outside = (x < loc) | ((x == xnp.inf) & (scale > 0))
    y = xnp.where(outside, 1, y)
    return xnp.where(outside, -xnp.inf, xlogy(a - 1, y) - y - lax.lgamma(a) - xnp.log(scale))


@_gamma
def cdf(x, a, loc=0, scale=1):
    return _between(True, a, x, loc, scale)


@_gamma
def logcdf(x, a, loc=0, scale=1):
    return _log_between(True, a, x, loc, scale)


@_gamma_above
def sf(x, a, loc=0, scale=1):
    return _between(False, a, x, loc, scale)


@_gamma_above
def logsf(x, a, loc=0, scale=1):
    return _log_between(False, a, x, loc, scale)


pdf = exponential(logpdf, "pdf")
