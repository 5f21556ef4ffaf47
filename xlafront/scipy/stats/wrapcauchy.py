"""The wrapped Cauchy distribution.

>>> from xlafront.scipy.stats import wrapcauchy
>>> wrapcauchy.logpdf(7.0, 0.3)
Array(-inf, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, require_real


@distribution_method("wrapped Cauchy", check=require_real, c="Concentration, between 0 and 1")
def logpdf(x, c):
    value = xnp.log(1 - c * c) - math.log(2 * math.pi) - xnp.log(1 + c * c - 2 * c * xnp.cos(x))
    return xnp.where((c > 0) & (c < 1), xnp.where((x < 0) | (x > 2 * math.pi), -xnp.inf, value), xnp.nan)


pdf = exponentiate(logpdf, "pdf")
