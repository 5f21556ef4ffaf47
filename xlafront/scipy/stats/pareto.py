"""The Pareto distribution.

>>> from xlafront.scipy.stats import pareto
>>> pareto.sf(1.0, 2.0)
Array(1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.members import exponential, member

_pareto = member("Pareto", b="the exponent")


@_pareto
def logpdf(x, b, loc=0, scale=1):
    y = (x - loc) / scale
    return xnp.where(y < 1, -xnp.inf, xnp.log(b) - xnp.log(scale) - (b + 1) * xnp.log(xnp.where(y < 1, 1, y)))


@_pareto
def logsf(x, b, loc=0, scale=1):
    return -b * xnp.log(xnp.maximum((x - loc) / scale, 1))


@_pareto
def cdf(x, b, loc=0, scale=1):
    return -xnp.expm1(-b * xnp.log(xnp.maximum((x - loc) / scale, 1)))


@_pareto
def logcdf(x, b, loc=0, scale=1):
    return xnp.log(-xnp.expm1(-b * xnp.log(xnp.maximum((x - loc) / scale, 1))))


@_pareto
def ppf(q, b, loc=0, scale=1):
    return xnp.where((q < 0) | (q > 1), xnp.nan, loc + scale * xnp.exp(-xnp.log1p(-q) / b))


pdf = exponential(logpdf, "pdf")
sf = exponential(logsf, "sf")
