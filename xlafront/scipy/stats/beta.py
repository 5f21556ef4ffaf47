"""The beta distribution.

>>> from xlafront.scipy.stats import beta
>>> beta.cdf(0.0, 1.0, 1.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlog1py, xlogy
from xlafront.scipy.gamma_functions import betaln
from xlafront.scipy.members import exponential, member

_beta = member("beta", a="the first shape", b="the second shape")


@_beta
def logpdf(x, a, b, loc=0, scale=1):
    y = (x - loc) / scale
    outside = (y < 0) | (y > 1)
    y = xnp.where(outside, 0.5, y)
    return xnp.where(outside, -xnp.inf, xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - xnp.log(scale))


@_beta
def cdf(x, a, b, loc=0, scale=1):
    return lax.betainc(a, b, xnp.clip((x - loc) / scale, 0, 1))


@_beta
def logcdf(x, a, b, loc=0, scale=1):
    return xnp.log(lax.betainc(a, b, xnp.clip((x - loc) / scale, 0, 1)))


@_beta
def sf(x, a, b, loc=0, scale=1):
    return lax.betainc(b, a, 1 - xnp.clip((x - loc) / scale, 0, 1))


@_beta
def logsf(x, a, b, loc=0, scale=1):
    return xnp.log(lax.betainc(b, a, 1 - xnp.clip((x - loc) / scale, 0, 1)))


pdf = exponential(logpdf, "pdf")
