"""The uniform distribution.

>>> from xlafront.scipy.stats import uniform
>>> uniform.cdf(0.25)
Array(0.25, dtype=float32)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.members import always, exponential, member, ordered

_uniform = member("uniform", refuse=ordered)


@_uniform
def logpdf(x, loc=0, scale=1):
    return xnp.where((x < loc) | (x > loc + scale), -xnp.inf, -xnp.log(scale))


@member("uniform", always, ordered)
def cdf(x, loc=0, scale=1):
    return xnp.where(x < loc, 0, xnp.where(x > loc + scale, 1, (x - loc) / scale))


@member("uniform")
def ppf(q, loc=0, scale=1):
    return xnp.where((q < 0) | (q > 1), xnp.nan, loc + q * scale)


pdf = exponential(logpdf, "pdf")
