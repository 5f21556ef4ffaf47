"""The generalized normal distribution.

>>> from xlafront.scipy.stats import gennorm
>>> gennorm.cdf(0.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate

_gennorm = distribution_method("generalized normal", beta="Shape parameter, the exponent")


@_gennorm
def logpdf(x, beta):
    return xnp.log(0.5 * beta) - lax.lgamma(1 / beta) - xnp.abs(x) ** beta


@_gennorm
def cdf(x, beta):
    probability = 0.5 * (1 + xnp.sign(x) * lax.igamma(1 / beta, xnp.abs(x) ** beta))
    return xnp.where(beta <= 0, xnp.nan, probability)


pdf = exponentiate(logpdf, "pdf")
