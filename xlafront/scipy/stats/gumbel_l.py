"""The left Gumbel distribution.

>>> from xlafront.scipy.stats import gumbel_l
>>> gumbel_l.logsf(0.0)
Array(-1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.scipy.members import exponential, member, ordered
from xlafront.scipy.stats import gumbel_r

_gumbel = member("left Gumbel", refuse=ordered)


def _mirrored(function, x, loc, scale):
    """What `function` of the right distribution says of `-x`."""
    return function(-x, -loc, scale)


@_gumbel
def logpdf(x, loc=0, scale=1):
    return _mirrored(gumbel_r.logpdf, x, loc, scale)


@_gumbel
def logsf(x, loc=0, scale=1):
    return _mirrored(gumbel_r.logcdf, x, loc, scale)


@_gumbel
def cdf(x, loc=0, scale=1):
    return _mirrored(gumbel_r.sf, x, loc, scale)


@_gumbel
def logcdf(x, loc=0, scale=1):
    return _mirrored(gumbel_r.logsf, x, loc, scale)


@member("left Gumbel", refuse=ordered, p="probabilities")
def ppf(p, loc=0, scale=1):
    return loc + scale * xnp.log(-xnp.log1p(-p))


pdf = exponential(logpdf, "pdf")
sf = exponential(logsf, "sf")
