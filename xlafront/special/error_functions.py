"""The scaled complementary error function, Dawson's integral and the Faddeeva function.

Real functions are Chebyshev series, of which the coefficients were computed from 40 digits of the functions. The Faddeeva
function `w(z) = exp(-z^2) erfc(-iz)` is an integral by rules with corrections for poles: Al Azah and Chandler-Wilde,
"Computation of the complex error function using modified trapezoidal rules", SIAM J. Numer. Anal. 59 (2021).
"""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.special.chebyshev import chebyshev

# (1 + 2x) erfcx(x) by 1 - 8 / (x + 4); Dawson's integral over x by 2 x^2 / 25 - 1 up to 5, times 2x by 50 / x^2 - 1 beyond.
_ERFCX = (
    1.1774832005374487, -0.007260796620301901, -0.081265123236185, 0.06009212804122225, -0.02875393558027666,
    0.01059566336347286, -0.003136927294554264, 0.0007456494372536184, -0.0001369696503010054, 1.7183861600300937e-05,
    -7.158364623450346e-07, -2.4261399442449534e-07, 5.5765709395703566e-08, -2.1057869513809494e-09,
    -1.1717889351884957e-09, 1.9098355172456688e-10, 1.408871764208813e-11, -6.901108320480815e-12,
    9.167958364111291e-14, 2.1454508286554553e-13, -1.471657502701064e-14, -6.668675118770415e-15,
    7.504598509880085e-16, 2.2200930066664006e-16, -3.170489895631705e-17, -8.193570309868115e-18,
    1.2459819733275632e-18)
_DAWSON_NEAR = (
    0.1772453850902791, -0.27449077018166923, 0.2008907701804693, -0.13855477018186832, 0.0898891701801088,
    -0.05480590618249315, 0.03140025625901689, -0.016913964194060348, 0.008574058018138897, -0.004095653364288093,
    0.0018463775176037363, -0.0007868721507131541, 0.0003175653204049755, -0.00012158452128144187,
    4.4239289220330554e-05, -1.5324191348797377e-05, 5.061986349643029e-06, -1.597156876012634e-06,
    4.821016872425284e-07, -1.3942674216842947e-07, 3.868939081765656e-08, -1.0314981957969098e-08,
    2.6456916669710896e-09, -6.536414083167736e-10, 1.5573204847430266e-10, -3.582098282767749e-11,
    7.963000319977222e-12, -1.712503304769159e-12, 3.5662814155107424e-13, -7.19818445025842e-14,
    1.4093795825613889e-14, -2.679088532423727e-15, 4.948114462214065e-16, -8.886066749094144e-17,
    1.552763068703898e-17, -2.641929225491113e-18, 4.379644893328844e-19)
_DAWSON_FAR = (
    1.0104930398155554, 0.010665188854844071, 0.0001771067342841464, 5.169683968011006e-06, 2.2447507782493716e-07,
    1.3464937144333474e-08, 1.0800215667819404e-09, 1.1489298262821258e-10, 1.5999865625921236e-11,
    2.7030055800944855e-12, 4.591872803691232e-13, 4.802799321125487e-14, -1.1195315281289649e-14,
    -8.85117397700223e-15, -2.76569233160298e-15, -2.9028411520786993e-16, 1.5545769481732379e-16,
    8.194209358364314e-17, 9.896570523855209e-18, -5.945081121749627e-18, -2.732691471044292e-18)
_NODES = {np.dtype(np.float32): 5, np.dtype(np.float64): 11}  # of the rule for w, with which its error is below rounding
_FAR = 200.0  # from where on four terms of its asymptotic series do


def erfcx(x):
    """`exp(x^2) erfc(x)` of real numbers."""
    y = abs(x)
    right = chebyshev(1 - 8 / (y + 4), _ERFCX) / (1 + 2 * y)
    return xnp.where(x < 0, 2 * _exp_of_square(y) - right, right)


def _exp_of_square(x):
    """`exp(x^2)` with an exponent in two parts, of which the larger is exact."""
    x = xnp.minimum(x, 40)  # where it is infinite in either type
    information = np.finfo(x.dtype)
    coarse = lax.reduce_precision(x, information.nexp, information.nmant // 2)
    value = xnp.exp(coarse * coarse)
    # XLA would make one exponential of a product of two.
    return xnp.where(value == np.inf, value, value + value * xnp.expm1((x - coarse) * (x + coarse)))


def dawson(x):
    """`exp(-x^2)` times the integral of `exp(t^2)` from 0 to x, of real numbers."""
    y = abs(x)
    near, far = xnp.minimum(y, 5), xnp.maximum(y, 5)
    series = near * chebyshev(near * near * (2 / 25) - 1, _DAWSON_NEAR)
    value = xnp.where(y > 5, chebyshev(50 / far / far - 1, _DAWSON_FAR) / (2 * far), series)
    return xnp.copysign(value, x)


def faddeeva(z):
    """`exp(-z^2) erfc(-iz)` of complex numbers."""
    real, imag = xnp.real(z), xnp.imag(z)
    x, y = abs(real), abs(imag)
    u, v = _upper_right_quarter(x, y)
    v = xnp.where(real < 0, -v, v)
    # Below the real axis 2 exp(-z^2) less the value across 0.
    turn = xnp.where((real == 0) | (imag == 0), 0, 2 * real * imag)
    size = 2 * xnp.exp(xnp.where(imag < 0, (y - x) * (y + x), 0))
    mirrored = xnp.where(turn == 0, size, size * xnp.cos(turn)) - u, xnp.where(turn == 0, 0, -size * xnp.sin(turn)) + v
    below = imag < 0
    return lax.complex(xnp.where(below, mirrored[0], u), xnp.where(below, mirrored[1], v))


def _upper_right_quarter(x, y):
    far = (x > _FAR) | (y > _FAR)
    near = _by_rule(xnp.where(far, 1, x), xnp.where(far, 1, y))
    beyond = _asymptotic(xnp.where(far, x, _FAR), xnp.where(far, y, _FAR))
    return [xnp.where(far, f, n) for f, n in zip(beyond, near)]


def _by_rule(x, y):
    """The rule of midpoints or the trapezoidal one, whichever has its nodes further from x."""
    last = _NODES[x.dtype]
    h = math.sqrt(math.pi / (last + 1))
    place = x / h
    place = place - xnp.floor(place)
    above = y >= xnp.maximum(x, math.pi / h)  # no pole has been crossed there
    trapezoidal = (place >= 0.25) & (place <= 0.75) & ~above
    a, b = (x - y) * (x + y), 2 * x * y  # z^2
    p, q = xnp.zeros_like(x), xnp.zeros_like(x)
    for k in range(last + 1):
        squares = (k * h) ** 2, ((k + 0.5) * h) ** 2
        t, weight = (xnp.where(trapezoidal, *(np.asarray(c, x.dtype) for c in pair)) for pair in (
            squares, (math.exp(-squares[0]) / (2 if k == 0 else 1), math.exp(-squares[1]))))
        scale = weight / ((a - t) * (a - t) + b * b)
        p, q = p + scale * (a - t), q - scale * b
    # 2 i h z / pi times the sum
    u, v = -2 * h / math.pi * (x * q + y * p), 2 * h / math.pi * (x * p - y * q)
    # The pole's part: 2 exp(-z^2) r / (r +- 1) with r = exp(2 pi i z / h).
    r = xnp.exp(-2 * math.pi / h * y)
    r, s = r * xnp.cos(2 * math.pi / h * x), r * xnp.sin(2 * math.pi / h * x)
    sign = xnp.where(trapezoidal, -1, 1).astype(x.dtype)
    size = (r + sign) * (r + sign) + s * s
    size = xnp.where(above, 1, size)
    c, d = (r * (r + sign) + s * s) / size, s * sign / size
    bell = 2 * xnp.exp(xnp.where(above, 0, -a))
    e, f = bell * xnp.cos(b), -bell * xnp.sin(b)
    return u + xnp.where(above, 0, c * e - d * f), v + xnp.where(above, 0, c * f + d * e)


def _asymptotic(x, y):
    scale = xnp.maximum(x, y)
    end = scale == np.inf
    s, t = xnp.where(end, 1, x) / xnp.where(end, 1, scale), xnp.where(end, 1, y) / xnp.where(end, 1, scale)
    size = (s * s + t * t) * scale
    p, q = xnp.where(end, 0, s / size), xnp.where(end, 0, -t / size)  # 1 / z
    a, b = p * p - q * q, 2 * p * q
    u, v = xnp.ones_like(x), xnp.zeros_like(x)
    for k in (5, 3, 1):
        u, v = 1 + k / 2 * (a * u - b * v), k / 2 * (a * v + b * u)
    root = 1 / math.sqrt(math.pi)
    return -root * (p * v + q * u), root * (p * u - q * v)
