"""Logarithms of quotients of gamma functions of real numbers, in which large numbers do not cancel."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.special.incomplete_gamma import stirling
from xlafront.special.log_gamma import bernoulli_numbers

LARGE = 10.0  # from which Stirling's formula is used
_TERMS = 8  # of the series of digamma


def growth(x, step):
    """`log(gamma(x + step) / gamma(x))`, where both arguments are large."""
    end = x + step
    return (x - 0.5) * xnp.log1p(step / x) + step * xnp.log(end) - step + stirling(end) - stirling(x)


def log_beta(a, b):
    """The logarithm of the absolute value of the beta function. Its derivatives are formulas where it is used."""
    few, many = xnp.minimum(a, b), xnp.maximum(a, b)
    one_large = (many >= LARGE) & (few + many >= LARGE) & (many < np.inf)
    p, q = xnp.where(one_large, few, 1), xnp.where(one_large, many, LARGE)
    of_a, of_b = lax.lgamma(a), lax.lgamma(b)
    of_one = xnp.where(a < b, of_a, of_b) - growth(q, p)
    both_large = p >= LARGE
    p = xnp.where(both_large, p, LARGE)
    of_both = 0.5 * (math.log(2 * math.pi) - xnp.log(q)) - (p - 0.5) * xnp.log1p(q / p) - q * xnp.log1p(p / q)
    of_both = of_both + stirling(p) + stirling(q) - stirling(p + q)
    return xnp.where(one_large, xnp.where(both_large, of_both, of_one), of_a + of_b - lax.lgamma(a + b))


def slope_of_growth(x, step):
    """`digamma(x + step) - digamma(x)`, the derivative of `growth` in `x`; the difference of the two where one is small."""
    end = x + step
    large = (x >= LARGE) & (end >= LARGE) & (end < np.inf)
    p, q = 1 / xnp.where(large, x, LARGE), 1 / xnp.where(large, end, LARGE)
    step = xnp.where(large, step, 0)
    series, power, difference = 0, 1, step * p * q * (p + q)  # of 1 / x**2, then of its powers
    decrease = difference
    for k, b in enumerate(bernoulli_numbers(_TERMS + 1)[1:], 1):
        series = series + float(b) / (2 * k) * difference
        power = power * (q * q)
        difference = difference * (p * p) + power * decrease
    value = xnp.log1p(step * p) + 0.5 * step * p * q + series
    return xnp.where(large, value, lax.digamma(end) - lax.digamma(x))
