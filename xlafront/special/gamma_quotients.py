"""Logarithms of quotients of gamma functions of real numbers, without cancellation for large arguments."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.special.incomplete_gamma import stirling
from xlafront.special.log_gamma import bernoulli_numbers

LARGE = 10.0  # from here on Stirling's formula is used
_TERMS = 8  # terms of the digamma series


def log_gamma_ratio(x, step):
    """Compute `log(gamma(x + step) / gamma(x))` for large x and x + step."""
    end = x + step
    return (x - 0.5) * xnp.log1p(step / x) + step * xnp.log(end) - step + stirling(end) - stirling(x)


def log_beta(a, b):
    """Compute the logarithm of the absolute value of the beta function. Its callers define the derivatives."""
    small, large = xnp.minimum(a, b), xnp.maximum(a, b)
    one_large = (large >= LARGE) & (small + large >= LARGE) & (large < np.inf)
    p, q = xnp.where(one_large, small, 1), xnp.where(one_large, large, LARGE)
    lgamma_a, lgamma_b = lax.lgamma(a), lax.lgamma(b)
    one_value = xnp.where(a < b, lgamma_a, lgamma_b) - log_gamma_ratio(q, p)
    both_large = p >= LARGE
    p = xnp.where(both_large, p, LARGE)
    both_value = 0.5 * (math.log(2 * math.pi) - xnp.log(q)) - (p - 0.5) * xnp.log1p(q / p) - q * xnp.log1p(p / q)
    both_value = both_value + stirling(p) + stirling(q) - stirling(p + q)
    return xnp.where(one_large, xnp.where(both_large, both_value, one_value), lgamma_a + lgamma_b - lax.lgamma(a + b))


def digamma_difference(x, step):
    """Compute `digamma(x + step) - digamma(x)`, the derivative of `log_gamma_ratio` in `x`; directly if an argument is
    small."""
    end = x + step
    is_large = (x >= LARGE) & (end >= LARGE) & (end < np.inf)
    p, q = 1 / xnp.where(is_large, x, LARGE), 1 / xnp.where(is_large, end, LARGE)
    step = xnp.where(is_large, step, 0)
    series, power, difference = 0, 1, step * p * q * (p + q)  # of 1 / x**2, then of its powers
    decrease = difference
    for k, b in enumerate(bernoulli_numbers(_TERMS + 1)[1:], 1):
        series = series + float(b) / (2 * k) * difference
        power = power * (q * q)
        difference = difference * (p * p) + power * decrease
    value = xnp.log1p(step * p) + 0.5 * step * p * q + series
    return xnp.where(is_large, value, lax.digamma(end) - lax.digamma(x))
