"""The negative binomial distribution.

>>> from xlafront.scipy.stats import nbinom
>>> nbinom.pmf(-1, 1, 0.25)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.elementary_functions import xlog1py
from xlafront.scipy.members import exponential, member, of_first


@member("negative binomial", of_first, n="the number of successes", p="the probability of success")
def logpmf(k, n, p, loc=0):
    k = k - loc
    outside = k < 0
    k = xnp.where(outside, 0, k)
    ways = lax.lgamma(k + n) - lax.lgamma(n) - lax.lgamma(k + 1)
    return xnp.where(outside, -xnp.inf, ways + n * xnp.log(p) + xlog1py(k, -p))


pmf = exponential(logpmf, "pmf")
