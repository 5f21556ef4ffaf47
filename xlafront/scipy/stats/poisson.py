"""The Poisson distribution.

>>> from xlafront.scipy.stats import poisson
>>> poisson.pmf(-1, 1.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlogy
from xlafront.scipy.members import exponential, member, of_first

_poisson = member("Poisson", mu="the mean")


@_poisson
def logpmf(k, mu, loc=0):
    k = k - loc
    inside = (k >= 0) & (xnp.floor(k) == k)
    k = xnp.where(inside, k, 0)
    return xnp.where(inside, xlogy(k, mu) - lax.lgamma(k + 1) - mu, -xnp.inf)


@member("Poisson", of_first, mu="the mean")
def cdf(k, mu, loc=0):
    k = xnp.floor(k - loc)
    return xnp.where(k < 0, 0, lax.igammac(xnp.maximum(k, 0) + 1, mu))


_TERMS = 64


@_poisson
def entropy(mu, loc=0):
    """By its terms where the mean is small, by an asymptotic series where it is large."""
    mu = xnp.asarray(mu)
    small = xnp.where(mu < 20, mu, 1)
    k = xnp.arange(_TERMS, dtype=mu.dtype).reshape((1,) * mu.ndim + (_TERMS,))
    log = xlogy(k, small[..., None]) - lax.lgamma(k + 1) - small[..., None]
    summed = -xnp.sum(xnp.exp(log) * log, axis=-1)
    large = xnp.where(mu < 20, 20, mu)
    series = 0.5 * xnp.log(2 * math.pi * math.e * large) - (1 / 12 + (1 / 24 + 19 / (360 * large)) / large) / large
    return xnp.where(mu < 0, xnp.nan, xnp.where(mu == 0, 0, xnp.where(mu < 20, summed, series)))


pmf = exponential(logpmf, "pmf")
