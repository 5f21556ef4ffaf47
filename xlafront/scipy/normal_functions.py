"""The cumulative distribution function of the normal distribution, its logarithm and its inverse, accurate in the tails."""

from __future__ import annotations

import functools
import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import check_arraylike
from xlafront.special.chebyshev import chebyshev
from xlafront.special.normal import cumulative_normal
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


def check_float(name: str, dtype: np.dtype) -> None:
    """Raise a `TypeError` unless the dtype is float32 or float64, for which the formulas are made."""
    if dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{name} takes floats of 32 or 64 bits, got dtype {dtype}. Convert with x.astype(...).")


def _require_float(name: str, x):
    x = xnp.asarray(x)
    check_float(name, x.dtype)
    return x.astype(x.dtype)


@library
@accepts(objects=True)
def ndtr(x: ArrayLike) -> Array:
    """Compute the cumulative distribution function of the standard normal distribution.

    Args:
        x: Numbers of float32 or float64; lists are accepted.

    Returns:
        Probability that a standard normal variable is at most `x`.

    Example:
        >>> ndtr(0.0)
        Array(0.5, dtype=float32)
    """
    return cumulative_normal(_require_float("ndtr", x))


@library(static="series_order")
@accepts(nodes=True)
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Compute the logarithm of `ndtr(x)`, with an asymptotic series far in the left tail.

    Args:
        x: Numbers of float32 or float64; lists are accepted.
        series_order: Number of terms of the series, at most 30.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> round(float(log_ndtr(-30.0)), 3)
        -454.321
    """
    if not isinstance(series_order, int) or isinstance(series_order, bool):
        raise TypeError(f"series_order of log_ndtr must be an integer, got {series_order!r}.")
    if series_order < 0 or series_order > 30:
        raise ValueError(f"series_order of log_ndtr must be between 0 and 30, got {series_order}.")
    return _log_ndtr(_require_float("log_ndtr", x), series_order)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _log_ndtr(x, order):
    left = -20 if x.dtype == dtypes.float64 else -10
    far = xnp.minimum(x, left)
    tail = 0.5 * lax.erfc(xnp.abs(x) * math.sqrt(0.5))
    # One logarithm for all branches. For x > 0 it is that of 1 - tail, corrected by the rounding error of the difference.
    complement = 1 - tail
    value = xnp.log(xnp.where(x > left, xnp.where(x > 0, complement, tail), _asymptotic_series(far, order) / -far))
    return value + xnp.where(x > 0, ((1 - complement) - tail) / complement,
                             xnp.where(x > left, 0, -0.5 * far * far - _LOG_ROOT_2PI))


@_log_ndtr.defjvp
def _log_ndtr_jvp(order, primals, tangents):
    (x,), (t,) = primals, tangents
    value = _log_ndtr(x, order)
    left = -20 if x.dtype == dtypes.float64 else -10
    near = xnp.maximum(x, left)
    far = xnp.minimum(x, left)
    derivative = xnp.exp(-0.5 * near * near - xnp.where(x > left, value, 0) - _LOG_ROOT_2PI)
    return value, t * xnp.where(x > left, derivative, -far / _asymptotic_series(far, order))


@library
@accepts(nodes=True)
def ndtri(p: ArrayLike) -> Array:
    """Compute the inverse of `ndtr`, the quantile function of the standard normal distribution.

    Args:
        p: Probabilities of float32 or float64.

    Returns:
        Array of the shape of `p`.

    Example:
        >>> ndtri(0.5)
        Array(0., dtype=float32)
    """
    check_arraylike("ndtri", p)
    return _ndtri(_require_float("ndtri", p))


def _asymptotic_series(x, order):
    """Evaluate `1 - 1/x**2 * (1 - 3/x**2 * (1 - 5/x**2 ...))`, the ratio of the tail probability to the density divided by
    `-x`."""
    factor = xnp.ones_like(x)
    for n in range(order, 0, -1):
        factor = 1 - (2 * n - 1) / (x * x) * factor
    return factor


# The quantile of a probability `exp(-t^2 / 2)` is `-t + f / t`, where f is almost linear in log(t): its Chebyshev coefficients.
_FIRST, _LAST = math.log(1.66), math.log(38.8)  # range of log(t), from the probability 1/4 to the smallest float
_TAIL_COEFFICIENTS = (
    3.077087539, 1.475195195, 0.03653212109, -0.00769951701, 0.000878450921, -5.143136612e-05, 1.030464441e-05,
    -9.295561011e-07, -1.900081935e-06, 8.115496311e-07, -5.271210021e-08, -5.861492168e-08, 1.945092344e-08, -2.401531355e-10)

# The quantile of a probability `1/2 + r` is r times a Chebyshev series in `32 r^2 - 1`.
_CENTER_COEFFICIENTS = (
    2.5985484404303518, 0.095483670920019914, 0.0037354309511795844, 0.00018113465086677159, 9.7332177883378924e-06,
    5.5548383792355681e-07, 3.2982266840053689e-08, 2.0139495833357736e-09, 1.2556458045030054e-10, 7.9557824561513957e-12,
    5.1058616289252098e-13, 3.3112661791953818e-14, 2.1661487479377028e-15, 1.4274255749315613e-16)


@custom_jvp
def _ndtri(p):
    is_left = p <= 0.5
    q = xnp.where(is_left, p, 1 - p)
    inside = (q > 0) & (p < 1)
    logarithm = xnp.log(xnp.where(inside & (q < 0.25), q, 0.25))
    square = -2 * logarithm
    t = xnp.sqrt(square)
    x = chebyshev((xnp.log(square) - (_FIRST + _LAST)) / (_LAST - _FIRST), _TAIL_COEFFICIENTS) / t - t
    if p.dtype == np.float64:  # the series has eight digits; one step of Halley's method gives full accuracy
        value = _log_ndtr(x, 10)
        inverse_slope = xnp.exp(value + 0.5 * x * x + _LOG_ROOT_2PI)
        step = (value - logarithm) * inverse_slope
        x = x - step / (1 + 0.5 * step * (x + 1 / inverse_slope))
    x = xnp.where(q == 0, -xnp.inf, xnp.where(inside, x, xnp.nan))
    r = p - 0.5
    is_center = abs(r) < 0.25
    center = r * chebyshev(xnp.where(is_center, 32 * r * r - 1, 0), _CENTER_COEFFICIENTS)
    return xnp.where(is_center, center, xnp.where(is_left, x, -x))


@_ndtri.defjvp
def _ndtri_jvp(primals, tangents):
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * xnp.exp(0.5 * x * x + _LOG_ROOT_2PI)
