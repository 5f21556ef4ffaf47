"""Special functions that are short formulas of logarithms and exponentials, finite where their limits are."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax, nn
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import constant_like
from xlafront.numpy.promotion import promote_args_inexact
from xlafront.scipy.differentiable import real
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp


@library(converts=True)
def erf(x: ArrayLike) -> Array:
    """The error function.

    - `x`: real numbers.

    >>> erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf(*promote_args_inexact("erf", x))


@library(converts=True)
def erfc(x: ArrayLike) -> Array:
    """`1 - erf(x)`, without cancellation.

    - `x`: real numbers.

    >>> erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.erfc(*promote_args_inexact("erfc", x))


@library(converts=True)
def erfinv(x: ArrayLike) -> Array:
    """The inverse of the error function.

    - `x`: numbers between -1 and 1.

    >>> erfinv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf_inv(*promote_args_inexact("erfinv", x))


@library(converts=True)
def expit(x: ArrayLike) -> Array:
    """The logistic function `1 / (1 + exp(-x))`.

    - `x`: numbers.

    >>> expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(*promote_args_inexact("expit", x))


@library
def logit(x: ArrayLike) -> Array:
    """`log(x / (1 - x))`, the inverse of `expit`.

    - `x`: numbers between 0 and 1.

    >>> logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _logit(*promote_args_inexact("logit", x))


@custom_jvp
def _logit(x):
    return xnp.log(x / (constant_like(x, 1) - x))


_logit.defjvps(lambda g, answer, x: g / (x * (constant_like(x, 1) - x)))


def log_of_rest(x):
    """`log(1 - exp(x))` of numbers up to 0, from the difference that is exact; NaN of others."""
    near = x > -math.log(2)
    small, large = xnp.where(near, x, -1), xnp.where(near, -1, x)
    return xnp.where(near, xnp.log(-xnp.expm1(small)), xnp.log1p(-xnp.exp(large)))


@library
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """`x * log(y)`, 0 where `x` is 0 and `y` is a number.

    - `x`, `y`: numbers.

    >>> xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*promote_args_inexact("xlogy", x, y))


@custom_jvp
def _xlogy(x, y):
    return xnp.where((x == 0) & (y == y), constant_like(x, 0), x * xnp.log(y))


_xlogy.defjvps(lambda g, answer, x, y: g * xnp.log(y), lambda g, answer, x, y: g * x / y)


@library
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """`x * log(1 + y)`, 0 where `x` is 0 and `y` is a number.

    - `x`, `y`: numbers.

    >>> xlog1py(0.0, -1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(*promote_args_inexact("xlog1py", x, y))


@custom_jvp
def _xlog1py(x, y):
    return xnp.where((x == 0) & (y == y), constant_like(x, 0), x * xnp.log1p(y))


_xlog1py.defjvps(lambda g, answer, x, y: g * xnp.log1p(y), lambda g, answer, x, y: g * x / (1 + y))


@library(converts=True)
def entr(x: ArrayLike) -> Array:
    """`-x * log(x)`, minus infinity for negative numbers.

    - `x`: real numbers.

    >>> entr(1.0)
    Array(-0., dtype=float32, weak_type=True)
    """
    return _entr(*real("entr", x))


@custom_jvp
def _entr(x):
    return xnp.where(x < 0, constant_like(x, -xnp.inf), -_xlogy(x, x))


_entr.defjvps(lambda g, answer, x: g * (constant_like(x, -1) - xnp.log(x)))


@library(converts=True)
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """`p * log(p / q)`: 0 where `p` is 0, infinite where either is out of its domain.

    - `p`, `q`: numbers that are not negative.

    >>> rel_entr(2.0, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _rel_entr(*real("rel_entr", p, q))


def _in_domain(p, q):
    return (p > 0) & (q > 0)


@custom_jvp
def _rel_entr(p, q):
    return xnp.where(_in_domain(p, q), p * _log_of_quotient(p, q), xnp.where((p == 0) & (q >= 0), 0, xnp.inf))


_rel_entr.defjvps(lambda g, answer, p, q: g * _slope(p, q), lambda g, answer, p, q: -g * _quotient(p, q))


# 0 outside of the domain, and with them their derivatives. What selects comes last, for XLA to make one loop of each.


@custom_jvp
def _slope(p, q):
    return xnp.where(_in_domain(p, q), _log_of_quotient(p, q) + 1, 0)


@custom_jvp
def _quotient(p, q):
    return xnp.where(_in_domain(p, q), p / q, 0)


def _apart(p, q):
    """Numbers that can be divided by: those of the domain, 1 elsewhere; and factors of what is 0 there."""
    inside = _in_domain(p, q)
    return xnp.where(inside, p, 1), xnp.where(inside, q, 1), xnp.where(inside, xnp.ones_like(p), 0)


@_slope.defjvp
def _slope_jvp(primals, tangents):
    p, q, inside = _apart(*primals)
    return _slope(*primals), inside * (tangents[0] / p - tangents[1] / q)


@_quotient.defjvp
def _quotient_jvp(primals, tangents):
    p, q, inside = _apart(*primals)
    return _quotient(*primals), inside * (tangents[0] - p / q * tangents[1]) / q


def _log_of_quotient(p, q):
    """Of positive numbers, by one logarithm: exact where they are close, and where the quotient is too large for a number."""
    below = p < q
    small, large = xnp.where(below, p, q), xnp.where(below, q, p)
    bits = xnp.finfo(small.dtype).maxexp // 2
    far = large > small * 2.0 ** (2 * bits - 2)  # or this is too large itself
    small, large = xnp.where(far, small * 2.0 ** bits, small), xnp.where(far, large * 2.0 ** -bits, large)
    less = (small - large) / small
    whole = 1 - less
    logarithm = xnp.log(whole) + ((1 - whole) - less) / whole  # with what the difference lost in rounding
    logarithm = logarithm + xnp.where(far, 2 * bits * math.log(2), 0)
    return xnp.where(below, -logarithm, logarithm)


@library(converts=True)
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """`p * log(p / q) - p + q`, with the domain of `rel_entr`.

    - `p`, `q`: numbers that are not negative.

    >>> kl_div(0.0, 3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    p, q = real("kl_div", p, q)
    return rel_entr(p, q) - p + q


@library(converts=True)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """`(x**lmbda - 1) / lmbda`, the logarithm for `lmbda` 0.

    - `x`: positive numbers. `lmbda`: the power.

    >>> boxcox(1.0, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x, lmbda = promote_args_inexact("boxcox", x, lmbda)
    return _power_of_logarithm(xnp.log(x), lmbda)


@library(converts=True)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """`boxcox(1 + x, lmbda)`, exact for small `x`.

    - `x`: numbers above -1. `lmbda`: the power.

    >>> boxcox1p(0.0, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x, lmbda = promote_args_inexact("boxcox1p", x, lmbda)
    return _power_of_logarithm(xnp.log1p(x), lmbda)


def _power_of_logarithm(log, lmbda):
    other = xnp.where(lmbda == 0, constant_like(lmbda, 1), lmbda)
    return xnp.where(lmbda == 0, log, xnp.expm1(other * log) / other)


# Over an axis


def softmax(x: ArrayLike, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """`exp(x) / sum(exp(x))`.

    - `x`: numbers. `axis`: the axes of the sum, None for all of them.

    >>> softmax(xnp.zeros(2))
    Array([0.5, 0.5], dtype=float32)
    """
    return nn.softmax(x, axis=tuple(range(np.ndim(x))) if axis is None else axis)


def log_softmax(x: ArrayLike, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """`x - log(sum(exp(x)))`.

    - `x`: numbers. `axis`: the axes of the sum, None for all of them.

    >>> log_softmax(xnp.zeros(1))
    Array([0.], dtype=float32)
    """
    return nn.log_softmax(x, axis=tuple(range(np.ndim(x))) if axis is None else axis)
