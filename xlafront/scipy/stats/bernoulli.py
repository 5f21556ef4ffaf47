"""The Bernoulli distribution.

>>> from xlafront.scipy.stats import bernoulli
>>> bernoulli.pmf(1, 0.25)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, first_is_strong, require_real
from xlafront.scipy.elementary_functions import xlog1py, xlogy

_bernoulli = distribution_method("Bernoulli", first_is_strong, require_real, p="Probability of 1")


@_bernoulli
def logpmf(k, p, loc=0):
    k = k - loc
    return xnp.where((k == 0) | (k == 1) | xnp.isnan(k + p), xlogy(k, p) + xlog1py(1 - k, -p), -xnp.inf)


@_bernoulli
def pmf(k, p, loc=0):
    k = k - loc
    one, zero = xnp.where(p < 0, xnp.nan, p), xnp.where(p > 1, xnp.nan, 1 - p)
    return xnp.where(k == 1, one, xnp.where(k == 0, zero, xnp.where(xnp.isnan(k + p), k + p, 0)))


@_bernoulli
def cdf(k, p):
    valid = (p >= 0) & (p <= 1) & ~xnp.isnan(k)
    return xnp.where(valid, xnp.where(k < 0, xnp.zeros_like(k), xnp.where(k < 1, 1 - p, 1)), xnp.nan)


@_bernoulli
def ppf(q, p):
    valid = (p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)
    return xnp.where(valid, xnp.where(q == 0, -xnp.ones_like(q), xnp.where(q <= 1 - p, 0, 1)), xnp.nan)
