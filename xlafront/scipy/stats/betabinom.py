"""The beta-binomial distribution.

>>> from xlafront.scipy.stats import betabinom
>>> betabinom.pmf(-1, 1, 1.0, 1.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.gamma_functions import betaln
from xlafront.scipy.members import exponential, member, of_first


@member("beta-binomial", of_first, n="the number of trials", a="the first shape", b="the second shape")
def logpmf(k, n, a, b, loc=0):
    k = xnp.floor(k) - loc
    outside = (k < 0) | (k > n)
    k = xnp.where(outside, 0, k)
    ways = -xnp.log1p(n) - betaln(n - k + 1, k + 1)
    value = ways + betaln(k + a, n - k + b) - betaln(a, b)
    return xnp.where((n < 0) | (a <= 0) | (b <= 0), xnp.nan, xnp.where(outside, -xnp.inf, value))


pmf = exponential(logpmf, "pmf")
