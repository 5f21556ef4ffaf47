"""Modified Bessel functions of the first kind, plain and exponentially scaled."""

from __future__ import annotations

import functools
import math

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import constant_like, mul, sign_, sub
from xlafront.lax.families import elementwise
from xlafront.special.chebyshev import clenshaw
from xlafront.special.traced_primitives import traced_elementwise, widen_small_floats
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_jvp import custom_jvp

# Chebyshev coefficients of exp(-x) I0(x) on [0, 8], and of sqrt(x) exp(-x) I0(x) by 8 / x on [0, 1].
_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14,
    -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17)
_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11,
    -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18)


def _i0e(x):
    x = abs(x)
    far = xnp.maximum(x, 8)
    return xnp.where(x <= 8, clenshaw(x / 4 - 1, _NEAR), clenshaw(16 / far - 1, _FAR) / xnp.sqrt(far))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _scaled_quotient(x, n):
    """Compute `exp(-abs(x)) * I_n(x) / x**n`, which is regular and not 0 at 0, for n > 0."""
    return widen_small_floats(lambda x: _first_quotient(x) if n == 1 else _later_quotient(x, n))(x)


@_scaled_quotient.defjvp
def _scaled_quotient_jvp(n, primals, tangents):
    [x], [x_t] = primals, tangents
    y = _scaled_quotient(x, n)
    return y, x_t * (x * _scaled_quotient(x, n + 1) - xnp.sign(x) * y)


def _first_quotient(x):
    is_nonzero = abs(x) > dtypes.finfo(x.dtype).eps
    safe = xnp.where(is_nonzero, x, constant_like(x, 1))
    return xnp.where(is_nonzero, bessel_i1e_p.bind(x) / safe, constant_like(x, 0.5))


def _later_quotient(x, n):
    """Sum the power series, whose terms are positive, near 0; farther away use the recurrence in n, which cancels near 0."""
    limit = 8 + 4 * n
    is_near = abs(x) <= limit
    quarter = (xnp.where(is_near, x, 0) / 2) ** 2
    total = xnp.ones_like(x)
    for k in reversed(range(1, _num_terms(n, (limit / 2) ** 2, dtypes.finfo(x.dtype).eps))):
        total = 1 + total * quarter / (k * (k + n))
    near = xnp.exp(-abs(x)) * total / (2**n * math.factorial(n))
    far = xnp.where(is_near, limit, x)
    low, high = _i0e(far), _first_quotient(far)
    for m in range(1, n):
        low, high = high, (low - 2 * m * high) / far**2
    return xnp.where(is_near, near, high)


def _num_terms(n: int, q: float, eps: float) -> int:
    """Return how many terms the sum of `q**k * n! / (k! (k + n)!)` has that count."""
    term, k = 1.0, 0
    while term > eps:
        k += 1
        term *= q / (k * (k + n))
    return k


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _quotient(x, n):
    """Compute `I_n(x) / x**n`, whose derivative is x times that of n + 1."""
    return xnp.exp(abs(x)) * (bessel_i0e_p.bind(x) if n == 0 else _scaled_quotient(x, n))


@_quotient.defjvp
def _quotient_jvp(n, primals, tangents):
    [x], [x_t] = primals, tangents
    return _quotient(x, n), x_t * (x * _quotient(x, n + 1))


def bessel_i0(x):
    """Compute the modified Bessel function of order 0 of a float array."""
    return _quotient(x, 0)


@custom_jvp
def bessel_i1(x):
    """Compute the modified Bessel function of order 1 of a float array."""
    return xnp.exp(abs(x)) * bessel_i1e_p.bind(x)


@bessel_i1.defjvp
def _bessel_i1_jvp(primals, tangents):
    [x], [x_t] = primals, tangents
    return bessel_i1(x), x_t * (_quotient(x, 0) - _quotient(x, 1))


bessel_i1e_p = elementwise("bessel_i1e", "chlo.bessel_i1e", "float", derivatives=(
    lambda g, y, x: mul(g, sub(sub(bessel_i0e_p.bind(x), _scaled_quotient(x, 1)), mul(sign_(x), y))),))
bessel_i0e_p = traced_elementwise("bessel_i0e", _i0e, (
    lambda g, y, x: mul(g, sub(bessel_i1e_p.bind(x), mul(sign_(x), y))),))


@library
@accepts(nodes=True)
def bessel_i0e(x: ArrayLike) -> Array:
    """Compute the exponentially scaled modified Bessel function of order 0, `exp(-abs(x)) * I0(x)`, elementwise.

    Args:
        x: Array of floats.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> np.asarray(lax.bessel_i0e(xnp.array([0.0, 1.0]))).round(3)
        array([1.   , 0.466], dtype=float32)
    """
    return bessel_i0e_p.bind(x)


@library
@accepts(nodes=True)
def bessel_i1e(x: ArrayLike) -> Array:
    """Compute the exponentially scaled modified Bessel function of order 1, `exp(-abs(x)) * I1(x)`, elementwise.

    Args:
        x: Array of floats.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> np.asarray(lax.bessel_i1e(xnp.array([0.0, 1.0]))).round(3)
        array([0.   , 0.208], dtype=float32)
    """
    return bessel_i1e_p.bind(x)
