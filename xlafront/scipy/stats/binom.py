"""The binomial distribution.

>>> from xlafront.scipy.stats import binom
>>> binom.pmf(2, 1, 0.25)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate
from xlafront.scipy.elementary_functions import xlog1py, xlogy


@distribution_method("binomial", n="Number of trials", p="Probability of success")
def logpmf(k, n, p, loc=0):
    k = k - loc
    inside = (k >= 0) & (k <= n)
    k = xnp.where(inside, k, 0)
    log_binomial = lax.lgamma(n + 1) - lax.lgamma(k + 1) - lax.lgamma(n - k + 1)
    log_binomial = log_binomial - lax.stop_gradient(xnp.where((k == 0) | (k == n), log_binomial, 0))  # exactly 0
    return xnp.where(inside, log_binomial + xlogy(k, p) + xlog1py(n - k, -p), -xnp.inf)


pmf = exponentiate(logpmf, "pmf")
