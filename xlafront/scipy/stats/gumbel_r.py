"""The right Gumbel distribution.

>>> from xlafront.scipy.stats import gumbel_r
>>> gumbel_r.logcdf(0.0)
Array(-1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront.scipy.elementary_functions import log_of_rest
from xlafront.scipy.members import exponential, member, of_first, ordered

_gumbel = member("right Gumbel", refuse=ordered)


def _standard(x, loc, scale):
    return (x - loc) / xnp.where(scale > 0, scale, xnp.nan)


@_gumbel
def logpdf(x, loc=0, scale=1):
    y = _standard(x, loc, scale)
    return xnp.where(y == -np.inf, -np.inf, -y - xnp.exp(-y) - xnp.log(scale))


@_gumbel
def logcdf(x, loc=0, scale=1):
    return -xnp.exp(-_standard(x, loc, scale))


@member("right Gumbel", of_first, ordered)
def sf(x, loc=0, scale=1):
    return -xnp.expm1(-xnp.exp(-_standard(x, loc, scale)))


@_gumbel
def logsf(x, loc=0, scale=1):
    return log_of_rest(-xnp.exp(-_standard(x, loc, scale)))


@member("right Gumbel", refuse=ordered, p="probabilities")
def ppf(p, loc=0, scale=1):
    return loc - scale * xnp.log(-xnp.log(p))


pdf = exponential(logpdf, "pdf")
cdf = exponential(logcdf, "cdf")
