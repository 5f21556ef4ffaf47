"""Special functions that are short formulas of logarithms and exponentials, with correct limits."""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax, nn
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import constant_like
from xlafront.numpy.promotion import promote_args_inexact
from xlafront.scipy.derivative_formulas import promote_real
from xlafront.special import inverse_error_functions
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp


@library
@accepts(objects=True)
def erf(x: ArrayLike) -> Array:
    """Compute the error function.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> erf(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf(*promote_args_inexact("erf", x))


@library
@accepts(objects=True)
def erfc(x: ArrayLike) -> Array:
    """Compute the complementary error function `1 - erf(x)` without cancellation.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> erfc(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
    return lax.erfc(*promote_args_inexact("erfc", x))


@library
@accepts(objects=True)
def erfinv(x: ArrayLike) -> Array:
    """Compute the inverse of the error function.

    Args:
        x: Numbers between -1 and 1.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> erfinv(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf_inv(*promote_args_inexact("erfinv", x))


@library
@accepts(objects=True)
def erfcinv(y: ArrayLike) -> Array:
    """Compute the inverse of the complementary error function, accurate for small arguments too.

    Args:
        y: Real numbers between 0 and 2; for others the result is NaN.

    Returns:
        Array of the shape of `y`.

    Example:
        >>> erfcinv(xnp.array([0.0, 0.5, 1.0, 2.0]))
        Array([       inf, 0.47693628, 0.        ,       -inf], dtype=float32)
    """
    [y] = promote_args_inexact("erfcinv", y)
    y = xnp.asarray(y)
    if dtypes.is_complex(y.dtype):
        raise ValueError(f"erfcinv takes real numbers and does not support complex-valued inputs, got dtype {y.dtype}.")
    wide = max(y.dtype, np.dtype(np.float32), key=lambda d: d.itemsize)
    return inverse_error_functions.erfcinv(y.astype(wide)).astype(y.dtype)


@library
@accepts(objects=True)
def expit(x: ArrayLike) -> Array:
    """Compute the logistic function `1 / (1 + exp(-x))`.

    Args:
        x: Real or complex numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> expit(0.0)
        Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(*promote_args_inexact("expit", x))


@library
@accepts(nodes=True)
def logit(x: ArrayLike) -> Array:
    """Compute `log(x / (1 - x))`, the inverse of `expit`.

    Args:
        x: Numbers between 0 and 1.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> logit(0.5)
        Array(0., dtype=float32, weak_type=True)
    """
    return _logit(*promote_args_inexact("logit", x))


@custom_jvp
def _logit(x):
    return xnp.log(x / (constant_like(x, 1) - x))


_logit.defjvps(lambda g, answer, x: g / (x * (constant_like(x, 1) - x)))


def log1mexp(x):
    """Compute `log(1 - exp(x))` for `x <= 0` with whichever of two formulas is accurate; NaN for `x > 0`."""
    is_near = x > -math.log(2)
    small, large = xnp.where(is_near, x, -1), xnp.where(is_near, -1, x)
    return xnp.where(is_near, xnp.log(-xnp.expm1(small)), xnp.log1p(-xnp.exp(large)))


@library
@accepts(nodes=True)
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Compute `x * log(y)`, which is 0 where `x` is 0 and `y` is not NaN.

    Args:
        x, y: Real or complex numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> xlogy(0.0, 0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*promote_args_inexact("xlogy", x, y))


@custom_jvp
def _xlogy(x, y):
    return xnp.where((x == 0) & (y == y), constant_like(x, 0), x * xnp.log(y))


_xlogy.defjvps(lambda g, answer, x, y: g * xnp.log(y), lambda g, answer, x, y: g * x / y)


@library
@accepts(nodes=True)
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Compute `x * log(1 + y)`, which is 0 where `x` is 0 and `y` is not NaN.

    Args:
        x, y: Real or complex numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> xlog1py(0.0, -1.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(*promote_args_inexact("xlog1py", x, y))


@custom_jvp
def _xlog1py(x, y):
    return xnp.where((x == 0) & (y == y), constant_like(x, 0), x * xnp.log1p(y))


_xlog1py.defjvps(lambda g, answer, x, y: g * xnp.log1p(y), lambda g, answer, x, y: g * x / (1 + y))


@library
@accepts(objects=True)
def entr(x: ArrayLike) -> Array:
    """Compute the entropy function `-x * log(x)`, minus infinity for negative numbers.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> entr(1.0)
        Array(-0., dtype=float32, weak_type=True)
    """
    return _entr(*promote_real("entr", x))


@custom_jvp
def _entr(x):
    return xnp.where(x < 0, constant_like(x, -xnp.inf), -_xlogy(x, x))


_entr.defjvps(lambda g, answer, x: g * (constant_like(x, -1) - xnp.log(x)))


@library
@accepts(objects=True)
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Compute the relative entropy `p * log(p / q)`.

    It is 0 where `p` is 0 and `q` is not negative, and infinite where an argument is outside of the domain.

    Args:
        p, q: Non-negative numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> rel_entr(2.0, 2.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return _rel_entr(*promote_real("rel_entr", p, q))


def _in_domain(p, q):
    return (p > 0) & (q > 0)


@custom_jvp
def _rel_entr(p, q):
    return xnp.where(_in_domain(p, q), p * _log_quotient(p, q), xnp.where((p == 0) & (q >= 0), 0, _outside(p, q, xnp.inf)))


def _outside(p, q, value):
    """Return what a function is outside of the domain, NaN for NaN."""
    return xnp.where(xnp.isnan(p) | xnp.isnan(q), constant_like(p, xnp.nan), constant_like(p, value))


_rel_entr.defjvps(lambda g, answer, p, q: g * _rel_entr_dp(p, q), lambda g, answer, p, q: -g * _rel_entr_dq(p, q))


# These derivatives and their own derivatives are 0 outside of the domain, and NaN for NaN. The selection comes last, so that
# XLA fuses each function into one loop.


@custom_jvp
def _rel_entr_dp(p, q):
    return xnp.where(_in_domain(p, q), _log_quotient(p, q) + 1, _outside(p, q, 0))


@custom_jvp
def _rel_entr_dq(p, q):
    return xnp.where(_in_domain(p, q), p / q, _outside(p, q, 0))


def _safe_arguments(p, q):
    """Return `p` and `q`, replaced by 1 outside of the domain, and a factor that is 0 there and 1 inside."""
    inside = _in_domain(p, q)
    return xnp.where(inside, p, 1), xnp.where(inside, q, 1), xnp.where(inside, xnp.ones_like(p), 0)


@_rel_entr_dp.defjvp
def _rel_entr_dp_jvp(primals, tangents):
    p, q, inside = _safe_arguments(*primals)
    return _rel_entr_dp(*primals), inside * (tangents[0] / p - tangents[1] / q)


@_rel_entr_dq.defjvp
def _rel_entr_dq_jvp(primals, tangents):
    p, q, inside = _safe_arguments(*primals)
    return _rel_entr_dq(*primals), inside * (tangents[0] - p / q * tangents[1]) / q


def _log_quotient(p, q):
    """Compute `log(p / q)` of positive numbers with one logarithm, accurate if they are close and without overflow of the
    quotient."""
    below = p < q
    small, large = xnp.where(below, p, q), xnp.where(below, q, p)
    bits = xnp.finfo(small.dtype).maxexp // 2
    far = large > small * 2.0 ** (2 * bits - 2)  # False if this product overflows
    small, large = xnp.where(far, small * 2.0 ** bits, small), xnp.where(far, large * 2.0 ** -bits, large)
    relative_difference = (small - large) / small
    ratio = 1 - relative_difference
    logarithm = xnp.log(ratio) + ((1 - ratio) - relative_difference) / ratio  # corrects the rounding error of the difference
    logarithm = logarithm + xnp.where(far, 2 * bits * math.log(2), 0)
    logarithm = xnp.where(xnp.isinf(large), large - small, logarithm)
    return xnp.where(below, -logarithm, logarithm)


@library
@accepts(objects=True)
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """Compute the Kullback-Leibler divergence `p * log(p / q) - p + q`, with the domain of `rel_entr`.

    Args:
        p, q: Non-negative numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> kl_div(0.0, 3.0)
        Array(3., dtype=float32, weak_type=True)
    """
    p, q = promote_real("kl_div", p, q)
    entropy = _rel_entr(p, q)
    return xnp.where(_in_domain(p, q), entropy - p + q, entropy + xnp.where((p == 0) & (q >= 0), q, 0))


@library
@accepts(objects=True)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Compute the Box-Cox transformation `(x**lmbda - 1) / lmbda`, or `log(x)` where `lmbda` is 0.

    Args:
        x: Positive numbers.
        lmbda: Exponent.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> boxcox(1.0, 2.0)
        Array(0., dtype=float32, weak_type=True)
    """
    x, lmbda = promote_args_inexact("boxcox", x, lmbda)
    return _boxcox_of_log(xnp.log(x), lmbda)


@library
@accepts(objects=True)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Compute `boxcox(1 + x, lmbda)`, accurate for small `x`.

    Args:
        x: Numbers above -1.
        lmbda: Exponent.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> boxcox1p(0.0, 2.0)
        Array(0., dtype=float32, weak_type=True)
    """
    x, lmbda = promote_args_inexact("boxcox1p", x, lmbda)
    return _boxcox_of_log(xnp.log1p(x), lmbda)


def _boxcox_of_log(log, lmbda):
    nonzero = xnp.where(lmbda == 0, constant_like(lmbda, 1), lmbda)
    return xnp.where(lmbda == 0, log, xnp.expm1(nonzero * log) / nonzero)



def softmax(x: ArrayLike, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Compute the softmax function `exp(x) / sum(exp(x))`.

    Args:
        x: Real numbers.
        axis: Axis or axes to sum over. None: all axes.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> softmax(xnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)
    """
    return nn.softmax(x, axis=tuple(range(np.ndim(x))) if axis is None else axis)


def log_softmax(x: ArrayLike, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """Compute the logarithm of the softmax function, `x - log(sum(exp(x)))`.

    Args:
        x: Real numbers.
        axis: Axis or axes to sum over. None: all axes.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> log_softmax(xnp.zeros(1))
        Array([0.], dtype=float32)
    """
    return nn.log_softmax(x, axis=tuple(range(np.ndim(x))) if axis is None else axis)
