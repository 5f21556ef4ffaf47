"""The regularised incomplete beta function: the probability that a beta variable is below a limit."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.while_loop import while_loop
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import add, constant_like, exp_, log1p_, log_, mul, neg, sub
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.special.by_function import computed, of_one_type
from xlafront.special.incomplete_gamma import excess, stirling
from xlafront.staging.library import library

_lgamma = PUBLIC["lgamma"]
_LARGE = 10.0  # from which Stirling's formula is used
_STEPS = 5000


def _entropy(part, whole):
    """`part log(part / whole) - part + whole`, exact where both are close."""
    m = (whole - part) / part
    near = abs(m) < 0.3
    return part * xnp.where(near, m * m / 2 * excess(xnp.where(near, m, 0)), m - xnp.log1p(m))


def _mass(a, b, x):
    """`x^a (1 - x)^b / beta(a, b)`; by Stirling's formula for large a and b, so that no large numbers cancel."""
    large = (a >= _LARGE) & (b >= _LARGE)
    p, q = xnp.where(large, a, _LARGE), xnp.where(large, b, _LARGE)
    n = p + q
    rest = stirling(n) - stirling(p) - stirling(q)
    by_stirling = xnp.sqrt(p * q / (2 * math.pi * n)) * xnp.exp(rest - _entropy(p, n * x) - _entropy(q, n * (1 - x)))
    by_one = (a >= _LARGE) | (b >= _LARGE)
    first = a < b
    of_first, of_second = xnp.log(x), xnp.log1p(-x)
    few, many = xnp.where(first, a, b), xnp.maximum(xnp.where(first, b, a), _LARGE)
    n = few + many
    of_few, of_many = xnp.where(first, of_first, of_second), xnp.where(first, of_second, of_first)
    one_large = few * (of_few + xnp.log(n)) + (many * of_many + (many - 0.5) * xnp.log1p(few / many) - few)
    one_large = one_large + stirling(n) - stirling(many) - _lgamma(few)
    p, q = xnp.where(by_one, 1, a), xnp.where(by_one, 1, b)
    plain = p * of_first + q * of_second + _lgamma(p + q) - _lgamma(p) - _lgamma(q)
    return xnp.where(large, by_stirling, xnp.exp(xnp.where(by_one, one_large, plain)))


def _fraction(a, b, x, used):
    """The continued fraction (DLMF 8.17.22) by which the function is `mass` times, over a: two of its steps at a time, by
    Lentz's method."""
    eps = np.finfo(x.dtype).eps
    tiny = np.finfo(x.dtype).tiny * 16

    def advance(value, c, d, top, open_):
        d = 1 + top * d
        d = 1 / xnp.where(abs(d) < tiny, tiny, d)
        c = 1 + top / c
        c = xnp.where(abs(c) < tiny, tiny, c)
        return xnp.where(open_, value * c * d, value), c, d

    def step(state):
        n, value, c, d, open_ = state
        n = n + 1
        even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n))
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        value, c, d = advance(value, c, d, even, open_)
        before = value
        value, c, d = advance(value, c, d, odd, open_)
        return n, value, c, d, open_ & (abs(value - before) > eps * abs(value))

    one = xnp.ones_like(x)
    first = 1 - (a + b) * x / (a + 1)
    d = 1 / xnp.where(abs(first) < tiny, tiny, first)
    _, value, *_ = while_loop(lambda state: xnp.any(state[-1]) & (state[0] < _STEPS), step,
                              (xnp.zeros((), x.dtype), d, one, d, used))
    return value


def _betainc(a, b, x):
    usual = (a > 0) & (b > 0) & (a < np.inf) & (b < np.inf) & (x > 0) & (x < 1)
    p, q, y = (xnp.where(usual, v, safe) for v, safe in ((a, 1), (b, 1), (x, 0.5)))
    # The fraction converges below the mean; beyond it, it is used for 1 - x.
    mirrored = y > (p + 1) / (p + q + 2)
    p, q, z = xnp.where(mirrored, q, p), xnp.where(mirrored, p, q), xnp.where(mirrored, 1 - y, y)
    value = _mass(p, q, z) / p * _fraction(p, q, z, usual)
    value = xnp.maximum(xnp.where(mirrored, 1 - value, value), 0)
    nowhere = ~((a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)) | ((a == 0) & (b == 0)) | ((a == np.inf) & (b == np.inf))
    # All is at 0 where a = 0 or b is infinite, at 1 where b = 0 or a is.
    at_zero = (a == 0) | (b == np.inf)
    at_one = (b == 0) | (a == np.inf)
    border = xnp.where(at_zero, x > 0, xnp.where(at_one, x >= 1, x > 0.5)).astype(x.dtype)
    return xnp.where(nowhere, np.nan, xnp.where(usual, value, border))


def _refused(g, y, a, b, x):
    raise ValueError("the gradient of betainc with respect to a and b is not supported: they have no elementary form. Hold "
                     "them constant with lax.stop_gradient; in x it can be differentiated.")


def _density(g, y, a, b, x):
    """`g x^(a-1) (1 - x)^(b-1) / beta(a, b)`."""
    one = constant_like(x, 1)
    powers = add(mul(sub(b, one), log1p_(neg(x))), mul(sub(a, one), log_(x)))
    return mul(g, exp_(sub(powers, sub(add(_lgamma(a), _lgamma(b)), _lgamma(add(a, b))))))


regularized_incomplete_beta_p = computed("regularized_incomplete_beta", _betainc, (_refused, _refused, _density))


@library
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function, elementwise: the probability that a beta variable is below `x`.

    - `a`, `b`: the parameters of the beta distribution, not negative.
    - `x`: the limit, between 0 and 1. It can be differentiated in this one.

    >>> np.asarray(lax.betainc(2.0, 1.0, xnp.array([0.5, 0.7]))).round(3)
    array([0.25, 0.49], dtype=float32)
    """
    return regularized_incomplete_beta_p.bind(*of_one_type(a, b, x))
