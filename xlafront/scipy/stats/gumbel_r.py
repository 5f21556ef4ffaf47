"""The right-skewed Gumbel distribution.

>>> from xlafront.scipy.stats import gumbel_r
>>> gumbel_r.logcdf(0.0)
Array(-1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong, require_real
from xlafront.scipy.elementary_functions import log1mexp

_gumbel = distribution_method("right-skewed Gumbel", check=require_real)


def _standardize(x, loc, scale):
    return (x - loc) / xnp.where(scale > 0, scale, xnp.nan)


@_gumbel
def logpdf(x, loc=0, scale=1):
    y = _standardize(x, loc, scale)
    return xnp.where(y == -np.inf, -np.inf, -y - xnp.exp(-y) - xnp.log(scale))


@_gumbel
def logcdf(x, loc=0, scale=1):
    return -xnp.exp(-_standardize(x, loc, scale))


@distribution_method("right-skewed Gumbel", first_is_strong, require_real)
def sf(x, loc=0, scale=1):
    return -xnp.expm1(-xnp.exp(-_standardize(x, loc, scale)))


@_gumbel
def logsf(x, loc=0, scale=1):
    return log1mexp(-xnp.exp(-_standardize(x, loc, scale)))


@distribution_method("right-skewed Gumbel", check=require_real, p="Probabilities, between 0 and 1")
def ppf(p, loc=0, scale=1):
    return loc - scale * xnp.log(-xnp.log(p))


pdf = exponentiate(logpdf, "pdf")
cdf = exponentiate(logcdf, "cdf")
