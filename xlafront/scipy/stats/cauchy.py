"""The Cauchy distribution.

>>> from xlafront.scipy.stats import cauchy
>>> cauchy.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.scipy.distribution_methods import distribution_method, exponentiate, first_is_strong

_cauchy = distribution_method("Cauchy", first_is_strong)


def _upper_tail(y):
    """Return the probability above `y` by one arc tangent, as accurate in the tail as near 0.

    Where the first result is True (`y < -1`) the second is this probability minus 1.
    """
    is_far = abs(y) > 1
    angle = xnp.arctan(xnp.where(is_far, 1 / xnp.where(is_far, y, 1), y)) / math.pi
    return is_far & (y < 0), xnp.where(is_far, angle, 0.5 - angle)


def _probability_above(y):
    left, tail = _upper_tail(y)
    return xnp.where(left, 1 + tail, tail)


def _log_probability_above(y):
    left, tail = _upper_tail(y)
    return xnp.where(left, xnp.log1p(xnp.where(left, tail, 0)), xnp.log(xnp.where(left, 1, tail)))


@_cauchy
def logpdf(x, loc=0, scale=1):
    y = (x - loc) / scale
    return -math.log(math.pi) - xnp.log(scale) - xnp.log1p(y * y)


@_cauchy
def cdf(x, loc=0, scale=1):
    return _probability_above(-(x - loc) / scale)


@_cauchy
def logcdf(x, loc=0, scale=1):
    return _log_probability_above(-(x - loc) / scale)


@_cauchy
def sf(x, loc=0, scale=1):
    return _probability_above((x - loc) / scale)


@_cauchy
def logsf(x, loc=0, scale=1):
    return _log_probability_above((x - loc) / scale)


def _quantile(q):
    """Return the value below which the probability is `q`, computed from the nearer tail if `q` is outside [0.25, 0.75]."""
    left, right = q < 0.25, q > 0.75
    tangent = xnp.tan(math.pi * xnp.where(left, q, xnp.where(right, 1 - q, q - 0.5)))
    far = 1 / xnp.where(left | right, tangent, 1)
    return xnp.where((q < 0) | (q > 1), xnp.nan, xnp.where(left, -abs(far), xnp.where(right, far, tangent)))


@_cauchy
def ppf(q, loc=0, scale=1):
    return loc + scale * _quantile(q)


@_cauchy
def isf(q, loc=0, scale=1):
    return loc - scale * _quantile(q)


pdf = exponentiate(logpdf, "pdf")
