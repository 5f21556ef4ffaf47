"""The Poisson distribution.

>>> from xlafront.scipy.stats import poisson
>>> poisson.pmf(-1, 1.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.elementary_functions import xlogy

_poisson = distribution_method("Poisson", mu="Mean")


@_poisson
def logpmf(k, mu, loc=0):
    k = k - loc
    inside = (k >= 0) & (xnp.floor(k) == k)
    k = xnp.where(inside, k, 0)
    return xnp.where(inside, xlogy(k, mu) - lax.lgamma(k + 1) - mu, -xnp.inf)


@distribution_method("Poisson", first_is_strong, mu="Mean")
def cdf(k, mu, loc=0):
    k = xnp.floor(k - loc)
    return xnp.where(k < 0, 0, lax.igammac(xnp.maximum(k, 0) + 1, mu))


_TERMS = 64


@_poisson
def entropy(mu, loc=0):
    """Sum the series directly for small means; use an asymptotic series for large ones."""
    mu = xnp.asarray(mu)
    small = xnp.where(mu < 20, mu, 1)
    k = xnp.arange(_TERMS, dtype=mu.dtype).reshape((1,) * mu.ndim + (_TERMS,))
    log = xlogy(k, small[..., None]) - lax.lgamma(k + 1) - small[..., None]
    direct = -xnp.sum(xnp.exp(log) * log, axis=-1)
    large = xnp.where(mu < 20, 20, mu)
    asymptotic = 0.5 * xnp.log(2 * math.pi * math.e * large) - (1 / 12 + (1 / 24 + 19 / (360 * large)) / large) / large
    return xnp.where(mu < 0, xnp.nan, xnp.where(mu == 0, 0, xnp.where(mu < 20, direct, asymptotic)))


pmf = exponentiate(logpmf, "pmf")
