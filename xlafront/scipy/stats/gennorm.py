"""The generalized normal distribution.

>>> from xlafront.scipy.stats import gennorm
>>> gennorm.cdf(0.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.members import exponential, member

_gennorm = member("generalized normal", beta="the exponent")


@_gennorm
def logpdf(x, beta):
    return xnp.log(0.5 * beta) - lax.lgamma(1 / beta) - xnp.abs(x) ** beta


@_gennorm
def cdf(x, beta):
    share = 0.5 * (1 + xnp.sign(x) * lax.igamma(1 / beta, xnp.abs(x) ** beta))
    return xnp.where(beta <= 0, xnp.nan, share)


pdf = exponential(logpdf, "pdf")
