"""The Bernoulli distribution.

>>> from xlafront.scipy.stats import bernoulli
>>> bernoulli.pmf(1, 0.25)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.elementary_functions import xlog1py, xlogy
from xlafront.scipy.members import member

_bernoulli = member("Bernoulli", p="the probability of 1")


@_bernoulli
def logpmf(k, p, loc=0):
    k = k - loc
    return xnp.where((k == 0) | (k == 1), xlogy(k, p) + xlog1py(1 - k, -p), -xnp.inf)


@_bernoulli
def pmf(k, p, loc=0):
    k = k - loc
    return xnp.where(k == 1, p, xnp.where(k == 0, 1 - p, 0))


@_bernoulli
def cdf(k, p):
    valid = (p >= 0) & (p <= 1)
    return xnp.where(valid, xnp.where(k < 0, 0, xnp.where(k < 1, 1 - p, 1)), xnp.nan)


@_bernoulli
def ppf(q, p):
    valid = (p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)
    return xnp.where(valid, xnp.where(q == 0, -1, xnp.where(q <= 1 - p, 0, 1)), xnp.nan * q)
