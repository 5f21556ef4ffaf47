"""The gamma distribution.

>>> from xlafront.scipy.stats import gamma
>>> gamma.cdf(0.0, 2.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong, never
from xlafront.scipy.elementary_functions import xlogy

_gamma, _gamma_sf = (distribution_method("gamma", is_strong, a="Shape parameter") for is_strong in (first_is_strong, never))


def _tail(lower, a, x, loc, scale):
    """Return the lower or upper tail probability; its derivative is 0 outside the support. NaN if `x` is NaN or `a` is not
    positive."""
    y = (x - loc) / scale
    integral, outside = lax.igamma if lower else lax.igammac, (y <= 0) | (y == xnp.inf)
    value = xnp.where(outside, (y > 0) == lower, integral(a, xnp.where(outside, 1, y)))
    return xnp.where((a > 0) & ~xnp.isnan(y), value, xnp.nan)


def _log_tail(lower, a, x, loc, scale):
    """Return the log of a tail probability; its derivative is 0 where the probability is 0."""
    tail = _tail(lower, a, x, loc, scale)
    is_zero = tail == 0
    return xnp.where(is_zero, -xnp.inf, xnp.log(xnp.where(is_zero, 1, tail)))


@_gamma
def logpdf(x, a, loc=0, scale=1):
    y = (x - loc) / scale
    outside = (x < loc) | ((x == xnp.inf) & (scale > 0))
    y = xnp.where(outside, 1, y)
    return xnp.where(outside, -xnp.inf, xlogy(a - 1, y) - y - lax.lgamma(a) - xnp.log(scale))


@_gamma
def cdf(x, a, loc=0, scale=1):
    return _tail(True, a, x, loc, scale)


@_gamma
def logcdf(x, a, loc=0, scale=1):
    return _log_tail(True, a, x, loc, scale)


@_gamma_sf
def sf(x, a, loc=0, scale=1):
    return _tail(False, a, x, loc, scale)


@_gamma_sf
def logsf(x, a, loc=0, scale=1):
    return _log_tail(False, a, x, loc, scale)


pdf = exponentiate(logpdf, "pdf")
