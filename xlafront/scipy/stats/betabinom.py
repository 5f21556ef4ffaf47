"""The beta-binomial distribution.

>>> from xlafront.scipy.stats import betabinom
>>> betabinom.pmf(-1, 1, 1.0, 1.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.gamma_functions import betaln


@distribution_method("beta-binomial", first_is_strong, n="Number of trials", a="First shape parameter of the beta distribution",
                     b="Second shape parameter of the beta distribution")
def logpmf(k, n, a, b, loc=0):
    k = xnp.floor(k) - loc
    outside = (k < 0) | (k > n)
    k = xnp.where(outside, 0, k)
    log_binomial = -xnp.log1p(n) - betaln(n - k + 1, k + 1)
    value = log_binomial + betaln(k + a, n - k + b) - betaln(a, b)
    return xnp.where((n < 0) | (a <= 0) | (b <= 0), xnp.nan, xnp.where(outside, -xnp.inf, value))


pmf = exponentiate(logpmf, "pmf")
