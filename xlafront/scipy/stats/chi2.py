"""The chi-squared distribution: the gamma distribution with shape `df / 2` and scale 2.

>>> from xlafront.scipy.stats import chi2
>>> chi2.cdf(0.0, 2.0)
Array(0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.stats import gamma

_chi2 = distribution_method("chi-squared", first_is_strong, df="Degrees of freedom")


@_chi2
def logpdf(x, df, loc=0, scale=1):
    return gamma.logpdf(x, 0.5 * df, loc, 2 * scale)


@_chi2
def cdf(x, df, loc=0, scale=1):
    return gamma.cdf(x, 0.5 * df, loc, 2 * scale)


@_chi2
def logcdf(x, df, loc=0, scale=1):
    return gamma.logcdf(x, 0.5 * df, loc, 2 * scale)


@_chi2
def sf(x, df, loc=0, scale=1):
    return gamma.sf(x, 0.5 * df, loc, 2 * scale)


@_chi2
def logsf(x, df, loc=0, scale=1):
    return gamma.logsf(x, 0.5 * df, loc, 2 * scale)


pdf = exponentiate(logpdf, "pdf")
