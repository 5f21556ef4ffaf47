"""Logarithms of quotients of gamma functions of real numbers, in which large numbers do not cancel."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.special.incomplete_gamma import stirling

LARGE = 10.0  # from which Stirling's formula is used


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
