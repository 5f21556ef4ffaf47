"""The distribution function of the normal distribution, its logarithm and its inverse, to full accuracy in the tails."""

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
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp

_LOG_OF_ROOT = 0.5 * math.log(2 * math.pi)


def _float(name: str, x):
    """Of 32 or 64 bits: the formulas are made for these."""
    x = xnp.asarray(x)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{name} takes floats of 32 or 64 bits, got dtype {x.dtype}. Convert with x.astype(...).")
    return x.astype(x.dtype)


@library(converts=True)
def ndtr(x: ArrayLike) -> Array:
    """The probability that a normal variable is at most `x`.

    - `x`: float32 or float64, lists of numbers too.

    >>> ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    return _ndtr(_float("ndtr", x))


def _ndtr(x):
    tail, near = _halves(x)
    return xnp.where(xnp.abs(x) < 1, 0.5 + near, xnp.where(x > 0, 1 - tail, tail))


def _halves(x):
    """The probability beyond `abs(x)`, exact where it is small, and that between 0 and `x`, exact around 0."""
    return 0.5 * lax.erfc(xnp.abs(x) * math.sqrt(0.5)), 0.5 * lax.erf(x * math.sqrt(0.5))


@library(static="series_order")
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of `ndtr(x)`, which far to the left is an asymptotic series.

    - `x`: float32 or float64, lists of numbers too. `series_order`: how many terms of the series.

    >>> round(float(log_ndtr(-30.0)), 3)
    -454.321
    """
    if not isinstance(series_order, int) or isinstance(series_order, bool):
        raise TypeError(f"series_order of log_ndtr must be an integer, got {series_order!r}.")
    if series_order < 0 or series_order > 30:
        raise ValueError(f"series_order of log_ndtr must lie between 0 and 30, got {series_order}.")
    return _log_ndtr(_float("log_ndtr", x), series_order)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _log_ndtr(x, order):
    left = -20 if x.dtype == dtypes.float64 else -10
    far = xnp.minimum(x, left)
    tail = 0.5 * lax.erfc(xnp.abs(x) * math.sqrt(0.5))
    # One logarithm for all. Right of 0 it is that of 1 - tail, with what this difference lost in rounding.
    rest = 1 - tail
    value = xnp.log(xnp.where(x > left, xnp.where(x > 0, rest, tail), _series(far, order) / -far))
    return value + xnp.where(x > 0, ((1 - rest) - tail) / rest, xnp.where(x > left, 0, -0.5 * far * far - _LOG_OF_ROOT))


@_log_ndtr.defjvp
def _log_ndtr_jvp(order, primals, tangents):
    (x,), (t,) = primals, tangents
    value = _log_ndtr(x, order)
    left = -20 if x.dtype == dtypes.float64 else -10
    near = xnp.maximum(x, left)
    far = xnp.minimum(x, left)
    slope = xnp.exp(-0.5 * near * near - xnp.where(x > left, value, 0) - _LOG_OF_ROOT)
    return value, t * xnp.where(x > left, slope, -far / _series(far, order))


@library
def ndtri(p: ArrayLike) -> Array:
    """The inverse of `ndtr`.

    - `p`: probabilities, float32 or float64.

    >>> ndtri(0.5)
    Array(0., dtype=float32)
    """
    check_arraylike("ndtri", p)
    return _ndtri(_float("ndtri", p))


def _series(x, order):
    """`1 - 1/x**2 * (1 - 3/x**2 * (1 - 5/x**2 ...))`: what the normal density divided by `-x` is too large by."""
    factor = xnp.ones_like(x)
    for n in range(order, 0, -1):
        factor = 1 - (2 * n - 1) / (x * x) * factor
    return factor


# Of a probability `exp(-t^2 / 2)` the quantile is `-t + f / t` where f is almost a line of log(t): its Chebyshev coefficients.
_FIRST, _LAST = math.log(1.66), math.log(38.8)  # of the logarithms: of 1/4, and of the smallest number
_QUANTILES = (
    3.077087539, 1.475195195, 0.03653212109, -0.00769951701, 0.000878450921, -5.143136612e-05, 1.030464441e-05,
    -9.295561011e-07, -1.900081935e-06, 8.115496311e-07, -5.271210021e-08, -5.861492168e-08, 1.945092344e-08, -2.401531355e-10)

# And of a probability `1/2 + r` it is r times these, of polynomials in `32 r^2 - 1`.
_MIDDLE = (
    2.5985484404303518, 0.095483670920019914, 0.0037354309511795844, 0.00018113465086677159, 9.7332177883378924e-06,
    5.5548383792355681e-07, 3.2982266840053689e-08, 2.0139495833357736e-09, 1.2556458045030054e-10, 7.9557824561513957e-12,
    5.1058616289252098e-13, 3.3112661791953818e-14, 2.1661487479377028e-15, 1.4274255749315613e-16)


@custom_jvp
def _ndtri(p):
    left = p <= 0.5
    q = xnp.where(left, p, 1 - p)
    inside = (q > 0) & (p < 1)
    logarithm = xnp.log(xnp.where(inside & (q < 0.25), q, 0.25))
    square = -2 * logarithm
    t = xnp.sqrt(square)
    x = chebyshev((xnp.log(square) - (_FIRST + _LAST)) / (_LAST - _FIRST), _QUANTILES) / t - t
    if p.dtype == np.float64:  # eight digits, of which a step of Halley's method makes all
        value = _log_ndtr(x, 10)
        inverse_slope = xnp.exp(value + 0.5 * x * x + _LOG_OF_ROOT)
        step = (value - logarithm) * inverse_slope
        x = x - step / (1 + 0.5 * step * (x + 1 / inverse_slope))
    x = xnp.where(q == 0, -xnp.inf, xnp.where(inside, x, xnp.nan))
    r = p - 0.5
    middle = abs(r) < 0.25
    near = r * chebyshev(xnp.where(middle, 32 * r * r - 1, 0), _MIDDLE)
    return xnp.where(middle, near, xnp.where(left, x, -x))


@_ndtri.defjvp
def _ndtri_jvp(primals, tangents):
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * xnp.exp(0.5 * x * x + _LOG_OF_ROOT)
