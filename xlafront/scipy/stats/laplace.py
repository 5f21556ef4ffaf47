"""The Laplace distribution.

>>> from xlafront.scipy.stats import laplace
>>> laplace.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong, require_real

_laplace = distribution_method("Laplace", first_is_strong, require_real)


@_laplace
def logpdf(x, loc=0, scale=1):
    return -xnp.abs(x - loc) / scale - xnp.log(2 * scale)


@_laplace
def cdf(x, loc=0, scale=1):
    y = (x - loc) / scale
    tail = 0.5 * xnp.exp(-xnp.abs(y))
    return xnp.where(y < 0, tail, 1 - tail)


pdf = exponentiate(logpdf, "pdf")
