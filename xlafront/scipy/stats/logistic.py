"""The logistic distribution.

>>> from xlafront.scipy.stats import logistic
>>> logistic.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong
from xlafront.scipy.elementary_functions import logit

_logistic = distribution_method("logistic")


@distribution_method("logistic", any)
def logpdf(x, loc=0, scale=1):
    y = (x - loc) / scale
    y = xnp.where(y.real < 0, -y, y)  # the density is even
    return -y - 2 * xnp.log1p(xnp.exp(-y)) - xnp.log(scale)


@_logistic
def cdf(x, loc=0, scale=1):
    return lax.logistic((x - loc) / scale)


@_logistic
def sf(x, loc=0, scale=1):
    return lax.logistic((loc - x) / scale)


@distribution_method("logistic", first_is_strong, x="Probabilities, between 0 and 1")
def ppf(x, loc=0, scale=1):
    return loc + scale * logit(x)


@distribution_method("logistic", first_is_strong, x="Probabilities, between 0 and 1")
def isf(x, loc=0, scale=1):
    return loc - scale * logit(x)


pdf = exponentiate(logpdf, "pdf")
