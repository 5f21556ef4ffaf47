"""The uniform distribution.

>>> from xlafront.scipy.stats import uniform
>>> uniform.cdf(0.25)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, require_ordered

_uniform = distribution_method("uniform", check=require_ordered)


@distribution_method("uniform")
def logpdf(x, loc=0, scale=1):
    density = xnp.where((x < loc) | (x > loc + scale), -xnp.inf, -xnp.log(scale))
    return xnp.where(xnp.isnan(x - loc) | xnp.isnan(scale), xnp.nan, density)


@_uniform
def cdf(x, loc=0, scale=1):
    return xnp.clip((x - loc) / scale, 0, 1)


@distribution_method("uniform")
def ppf(q, loc=0, scale=1):
    return xnp.where((q < 0) | (q > 1), xnp.nan, loc + q * scale)


pdf = exponentiate(logpdf, "pdf")
