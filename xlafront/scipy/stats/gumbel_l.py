"""The left-skewed Gumbel distribution.

>>> from xlafront.scipy.stats import gumbel_l
>>> gumbel_l.logsf(0.0)
Array(-1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, require_real
from xlafront.scipy.stats import gumbel_r

_gumbel = distribution_method("left-skewed Gumbel", check=require_real)


def _reflect(function, x, loc, scale):
    """Evaluate `function` of the right-skewed Gumbel distribution at `-x`."""
    return function(-x, -loc, scale)


@_gumbel
def logpdf(x, loc=0, scale=1):
    return _reflect(gumbel_r.logpdf, x, loc, scale)


@_gumbel
def logsf(x, loc=0, scale=1):
    return _reflect(gumbel_r.logcdf, x, loc, scale)


@_gumbel
def cdf(x, loc=0, scale=1):
    return _reflect(gumbel_r.sf, x, loc, scale)


@_gumbel
def logcdf(x, loc=0, scale=1):
    return _reflect(gumbel_r.logsf, x, loc, scale)


@distribution_method("left-skewed Gumbel", check=require_real, p="Probabilities, between 0 and 1")
def ppf(p, loc=0, scale=1):
    return loc + scale * xnp.log(-xnp.log1p(-p))


pdf = exponentiate(logpdf, "pdf")
sf = exponentiate(logsf, "sf")
