"""The negative binomial distribution.

>>> from xlafront.scipy.stats import nbinom
>>> nbinom.pmf(-1, 1, 0.25)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.elementary_functions import xlog1py


@distribution_method("negative binomial", first_is_strong, n="Number of successes", p="Probability of success")
def logpmf(k, n, p, loc=0):
    k = k - loc
    outside = k < 0
    k = xnp.where(outside, 0, k)
    log_binomial = lax.lgamma(k + n) - lax.lgamma(n) - lax.lgamma(k + 1)
    return xnp.where(outside, -xnp.inf, log_binomial + n * xnp.log(p) + xlog1py(k, -p))


pmf = exponentiate(logpmf, "pmf")
