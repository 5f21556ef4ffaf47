"""The beta distribution.

>>> from xlafront.scipy.stats import beta
>>> beta.cdf(0.0, 1.0, 1.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.elementary_functions import xlog1py, xlogy
from xlafront.scipy.gamma_functions import betainc, betaln

_beta = distribution_method("beta", first_is_strong, a="First shape parameter", b="Second shape parameter")


@_beta
def logpdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    outside = (y < 0) | (y > 1)
    invalid = xnp.isnan(y) | (a <= 0) | (b <= 0) | (scale <= 0)
    y = xnp.where(outside, 0.5, y)
    value = xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - xnp.log(scale)
    return xnp.where(invalid, xnp.nan, xnp.where(outside, -xnp.inf, value))


def _lower_tail(a, b, y):
    """Return the probability below `y`; its derivative is 0 outside the support, where that of the integral may be
    infinite."""
    outside = (y <= 0) | (y >= 1)
    p = betainc(a, b, xnp.where(outside, 0.5, y))
    is_defined = (a >= 0) & (b >= 0) & (a + b > 0) & ((a < xnp.inf) | (b < xnp.inf))  # else `p` is NaN
    return xnp.where(outside & is_defined, y >= 1, p)


@_beta
def cdf(x, a, b, loc=0, scale=1):
    return _lower_tail(a, b, (x - loc) / scale)


@_beta
def logcdf(x, a, b, loc=0, scale=1):
    return xnp.log(_lower_tail(a, b, (x - loc) / scale))


@_beta
def sf(x, a, b, loc=0, scale=1):
    return _lower_tail(b, a, 1 - (x - loc) / scale)


@_beta
def logsf(x, a, b, loc=0, scale=1):
    return xnp.log(_lower_tail(b, a, 1 - (x - loc) / scale))


pdf = exponentiate(logpdf, "pdf")
