"""The binomial distribution.

>>> from xlafront.scipy.stats import binom
>>> binom.pmf(2, 1, 0.25)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlog1py, xlogy
from xlafront.scipy.members import exponential, member


@member("binomial", n="the number of trials", p="the probability of success")
def logpmf(k, n, p, loc=0):
    k = k - loc
    inside = (k >= 0) & (k <= n)
    k = xnp.where(inside, k, 0)
    ways = lax.lgamma(n + 1) - lax.lgamma(k + 1) - lax.lgamma(n - k + 1)
    ways = ways - lax.stop_gradient(xnp.where((k == 0) | (k == n), ways, 0))  # one way: the logarithm is 0, not nearly so
    return xnp.where(inside, ways + xlogy(k, p) + xlog1py(n - k, -p), -xnp.inf)


pmf = exponential(logpmf, "pmf")
