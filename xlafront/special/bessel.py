"""Exponentially scaled modified Bessel functions of the first kind."""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.elementwise import abs_, add, constant_like, div, gt, mul, sign_, sub, where
from xlafront.lax.families import elementwise
from xlafront.special.chebyshev import clenshaw
from xlafront.special.traced_primitives import traced_elementwise
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

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


def _i1e_derivative(g, y, x):
    """Differentiate `bessel_i1e`; at 0 the derivative is 1/2, where the formula gives 0 / 0."""
    eps = constant_like(x, dtypes.finfo(tracing.aval_of(x).dtype).eps)
    is_nonzero = gt(abs_(x), eps)
    safe = where(is_nonzero, x, eps)
    derivative = sub(bessel_i0e_p.bind(safe), mul(y, add(sign_(safe), div(constant_like(safe, 1), safe))))
    return mul(g, where(is_nonzero, derivative, constant_like(x, 0.5)))


bessel_i1e_p = elementwise("bessel_i1e", "chlo.bessel_i1e", "float", derivatives=(_i1e_derivative,))
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
