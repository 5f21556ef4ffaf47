"""The regularized incomplete beta function, the cumulative distribution function of the beta distribution."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.while_loop import while_loop
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import add, constant_like, exp_, log1p_, log_, mul, neg, sub
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.special.incomplete_gamma import log1p_excess, stirling
from xlafront.special.traced_primitives import traced_elementwise
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

_lgamma = PUBLIC["lgamma"]
_LARGE = 10.0  # from here on Stirling's formula is used
_STEPS = 5000


def _entropy(p, q):
    """Compute `p log(p / q) - p + q`, accurate if both are close."""
    m = (q - p) / p
    is_near = abs(m) < 0.3
    return p * xnp.where(is_near, m * m / 2 * log1p_excess(xnp.where(is_near, m, 0)), m - xnp.log1p(m))


def _mass(a, b, x):
    """Compute `x^a (1 - x)^b / beta(a, b)`, by Stirling's formula for large a and b, which avoids cancellation."""
    both_large = (a >= _LARGE) & (b >= _LARGE)
    p, q = xnp.where(both_large, a, _LARGE), xnp.where(both_large, b, _LARGE)
    n = p + q
    stirling_terms = stirling(n) - stirling(p) - stirling(q)
    value_both_large = xnp.sqrt(p * q / (2 * math.pi * n)) * xnp.exp(
        stirling_terms - _entropy(p, n * x) - _entropy(q, n * (1 - x)))
    any_large = (a >= _LARGE) | (b >= _LARGE)
    a_is_smaller = a < b
    log_x, log1m_x = xnp.log(x), xnp.log1p(-x)
    small, large = xnp.where(a_is_smaller, a, b), xnp.maximum(xnp.where(a_is_smaller, b, a), _LARGE)
    n = small + large
    log_small, log_large = xnp.where(a_is_smaller, log_x, log1m_x), xnp.where(a_is_smaller, log1m_x, log_x)
    value_one_large = small * (log_small + xnp.log(n)) + (large * log_large + (large - 0.5) * xnp.log1p(small / large) - small)
    value_one_large = value_one_large + stirling(n) - stirling(large) - _lgamma(small)
    p, q = xnp.where(any_large, 1, a), xnp.where(any_large, 1, b)
    direct = p * log_x + q * log1m_x + _lgamma(p + q) - _lgamma(p) - _lgamma(q)
    return xnp.where(both_large, value_both_large, xnp.exp(xnp.where(any_large, value_one_large, direct)))


def _fraction(a, b, x, is_active):
    """Evaluate the continued fraction (DLMF 8.17.22) by Lentz's method, two steps at a time; the function is `mass` times
    it over a."""
    eps = np.finfo(x.dtype).eps
    tiny = np.finfo(x.dtype).tiny * 16

    def advance(value, c, d, top, is_active):
        d = 1 + top * d
        d = 1 / xnp.where(abs(d) < tiny, tiny, d)
        c = 1 + top / c
        c = xnp.where(abs(c) < tiny, tiny, c)
        return xnp.where(is_active, value * c * d, value), c, d

    def step(state):
        n, value, c, d, is_active = state
        n = n + 1
        even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n))
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        value, c, d = advance(value, c, d, even, is_active)
        previous = value
        value, c, d = advance(value, c, d, odd, is_active)
        return n, value, c, d, is_active & (abs(value - previous) > eps * abs(value))

    one = xnp.ones_like(x)
    first = 1 - (a + b) * x / (a + 1)
    d = 1 / xnp.where(abs(first) < tiny, tiny, first)
    _, value, *_ = while_loop(lambda state: xnp.any(state[-1]) & (state[0] < _STEPS), step,
                              (xnp.zeros((), x.dtype), d, one, d, is_active))
    return value


def _betainc(a, b, x):
    is_regular = (a > 0) & (b > 0) & (a < np.inf) & (b < np.inf) & (x > 0) & (x < 1)
    p, q, y = (xnp.where(is_regular, v, safe) for v, safe in ((a, 1), (b, 1), (x, 0.5)))
    # The fraction converges below the mean; above it, it is used for 1 - x.
    is_mirrored = y > (p + 1) / (p + q + 2)
    p, q, z = xnp.where(is_mirrored, q, p), xnp.where(is_mirrored, p, q), xnp.where(is_mirrored, 1 - y, y)
    value = _mass(p, q, z) / p * _fraction(p, q, z, is_regular)
    value = xnp.maximum(xnp.where(is_mirrored, 1 - value, value), 0)
    is_undefined = ~((a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)) | ((a == 0) & (b == 0)) | ((a == np.inf) & (b == np.inf))
    # The distribution is concentrated at 0 if a = 0 or b is infinite, at 1 if b = 0 or a is infinite.
    at_zero = (a == 0) | (b == np.inf)
    at_one = (b == 0) | (a == np.inf)
    border = xnp.where(at_zero, x > 0, xnp.where(at_one, x >= 1, x > 0.5)).astype(x.dtype)
    return xnp.where(is_undefined, np.nan, xnp.where(is_regular, value, border))


def _no_parameter_derivative(g, y, a, b, x):
    raise ValueError("the gradient of betainc with respect to a and b is not supported: they have no elementary form. Hold "
                     "them constant with lax.stop_gradient; only x is differentiable.")


def _density(g, y, a, b, x):
    """Compute `g x^(a-1) (1 - x)^(b-1) / beta(a, b)`, the derivative in x."""
    one = constant_like(x, 1)
    powers = add(mul(sub(b, one), log1p_(neg(x))), mul(sub(a, one), log_(x)))
    return mul(g, exp_(sub(powers, sub(add(_lgamma(a), _lgamma(b)), _lgamma(add(a, b))))))


regularized_incomplete_beta_p = traced_elementwise(
    "regularized_incomplete_beta", _betainc, (_no_parameter_derivative, _no_parameter_derivative, _density))


@library
@accepts(nodes=True)
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Compute the regularized incomplete beta function elementwise: the probability that a beta variable is below `x`.

    Args:
        a, b: Shape parameters of the beta distribution, not negative.
        x: Upper limit, between 0 and 1. Only this argument is differentiable.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> np.asarray(lax.betainc(2.0, 1.0, xnp.array([0.5, 0.7]))).round(3)
        array([0.25, 0.49], dtype=float32)
    """
    return regularized_incomplete_beta_p.bind(a, b, x)
