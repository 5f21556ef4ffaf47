"""The scaled complementary error function, Dawson's integral and the Faddeeva function.

Real functions are Chebyshev series whose coefficients were computed from 40 digits of the functions. The Faddeeva
function `w(z) = exp(-z^2) erfc(-iz)` is an integral evaluated by quadrature rules with corrections for poles: Al Azah
and Chandler-Wilde, "Computation of the complex error function using modified trapezoidal rules", SIAM J. Numer. Anal.
59 (2021).
"""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.special.chebyshev import chebyshev

# Series of (1 + 2x) erfcx(x) in 1 - 8 / (x + 4); of Dawson's integral times (1 + 2 x^2) / x in 2 x^2 / 25 - 1 for x <= 5, and
# times 2x in 50 / x^2 - 1 for x > 5.
_ERFCX = (
    1.1774832005374487, -0.007260796620301901, -0.081265123236185, 0.06009212804122225, -0.02875393558027666,
    0.01059566336347286, -0.003136927294554264, 0.0007456494372536184, -0.0001369696503010054, 1.7183861600300937e-05,
    -7.158364623450346e-07, -2.4261399442449534e-07, 5.5765709395703566e-08, -2.1057869513809494e-09,
    -1.1717889351884957e-09, 1.9098355172456688e-10, 1.408871764208813e-11, -6.901108320480815e-12,
    9.167958364111291e-14, 2.1454508286554553e-13, -1.471657502701064e-14, -6.668675118770415e-15,
    7.504598509880085e-16, 2.2200930066664006e-16, -3.170489895631705e-17, -8.193570309868115e-18,
    1.2459819733275632e-18)
_DAWSON_NEAR = (
    1.177245385076391, -0.19449077021055614, 0.06009077014798263, 0.03232522977864992, -0.07989002987168964,
    0.09116426974424928, -0.08009171697247951, 0.05991585941887833, -0.03969471100774418, 0.023768456725292503,
    -0.013025753479818445, 0.006590609556566891, -0.0030990100694030863, 0.0013613600669988369, -0.0005611373881493962,
    0.00021783696955593798, -7.990520771940639e-05, 2.777502168474098e-05, -9.172651358957556e-06,
    2.8847931793731454e-06, -8.658473903209113e-07, 2.484990001506491e-07, -6.831980873732507e-08,
    1.8023119826831288e-08, -4.56924662897377e-09, 1.1148425564088838e-09, -2.6213056833617537e-10,
    5.947026984510557e-11, -1.303373268556886e-11, 2.7624962601414123e-12, -5.66822971471638e-13,
    1.1270128905492429e-13, -2.173426739717679e-14, 4.068861106591091e-15, -7.400640610923934e-16,
    1.3087977984187937e-16, -2.2521822710530852e-17, 3.773698563318967e-18)
_DAWSON_FAR = (
    1.0104930398155554, 0.010665188854844071, 0.0001771067342841464, 5.169683968011006e-06, 2.2447507782493716e-07,
    1.3464937144333474e-08, 1.0800215667819404e-09, 1.1489298262821258e-10, 1.5999865625921236e-11,
    2.7030055800944855e-12, 4.591872803691232e-13, 4.802799321125487e-14, -1.1195315281289649e-14,
    -8.85117397700223e-15, -2.76569233160298e-15, -2.9028411520786993e-16, 1.5545769481732379e-16,
    8.194209358364314e-17, 9.896570523855209e-18, -5.945081121749627e-18, -2.732691471044292e-18)
_NODES = {np.dtype(np.float32): 5, np.dtype(np.float64): 11}  # quadrature nodes for w, for an error below rounding
_FAR = 200.0  # from here on four terms of the asymptotic series suffice


def erfcx(x):
    """Compute `exp(x^2) erfc(x)` of real numbers."""
    y = abs(x)
    right = chebyshev(1 - 8 / (y + 4), _ERFCX) / (1 + 2 * y)
    return xnp.where(x < 0, 2 * _exp_square(y) - right, right)


def _exp_square(x):
    """Compute `exp(x^2)` with the exponent split in two parts, the larger of which is exact."""
    x = xnp.minimum(x, 40)  # from here on the result is infinite in both dtypes
    information = np.finfo(x.dtype)
    coarse = lax.reduce_precision(x, information.nexp, information.nmant // 2)
    value, rest = xnp.exp(coarse * coarse), (x - coarse) * (x + coarse)
    # The rest is at most 0.05 (float32) or 1e-5 (float64): four terms of the series of expm1 suffice.
    expm1_rest = rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24))))
    return xnp.where(value == np.inf, value, value + value * expm1_rest)


def dawson(x):
    """Compute `exp(-x^2)` times the integral of `exp(t^2)` from 0 to x, of real numbers."""
    y = abs(x)
    near, far, is_far = xnp.minimum(y, 5), xnp.maximum(y, 5), y > 5
    square = near * near
    above = xnp.where(is_far, chebyshev(50 / far / far - 1, _DAWSON_FAR), near * chebyshev(square * (2 / 25) - 1, _DAWSON_NEAR))
    value = above / xnp.where(is_far, 2 * far, 1 + 2 * square)
    return xnp.copysign(value, x)


def faddeeva(z):
    """Compute `exp(-z^2) erfc(-iz)` of complex numbers."""
    real, imag = xnp.real(z), xnp.imag(z)
    x, y = abs(real), abs(imag)
    on_axis = (x == 0) | (y == 0)
    cosine, sine = _cos_sin(xnp.where(on_axis, 0, 2 * x * y))
    magnitude = 2 * xnp.exp((y - x) * (y + x))
    underflows = magnitude == 0  # then the angle is irrelevant
    # 2 exp(-z^2) of x + iy
    bell = xnp.where(underflows, 0, magnitude * cosine), xnp.where(on_axis | underflows, 0, -magnitude * sine)
    u, v = _first_quadrant(x, y, bell)
    # Below the real axis w(z) = 2 exp(-z^2) - w(-z).
    below = imag < 0
    u, v = xnp.where(below, bell[0] - u, u), xnp.where(below, bell[1] - v, v)
    return lax.complex(u, xnp.where((real < 0) ^ below, -v, v))


# Taylor series in the square of the angle, up to pi / 4.
_COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(9))
_SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))


# pi / 2 as a sum of parts, the first two with few digits, so that integer multiples of them are exact (Cody-Waite reduction).
_QUARTER = {
    np.dtype(np.float32): (1.5703125, 0.0004837512969970703, 7.549789954891882e-08),
    np.dtype(np.float64): (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17),
}


def _cos_sin(x):
    """Compute cosine and sine; XLA's own are not vectorized on CPUs."""
    quarters = xnp.round(x * (2 / math.pi))
    for part in _QUARTER[x.dtype]:
        x = x - quarters * part
    return _cos_sin_reduced(x, quarters)


def _cos_sin_2pi(t):
    """Compute cosine and sine of `2 pi t`."""
    quarters = xnp.round(4 * t)
    return _cos_sin_reduced((t - quarters / 4) * (2 * math.pi), quarters)


def _cos_sin_reduced(angle, quarters):
    terms = 5 if angle.dtype == np.float32 else 9
    square = angle * angle
    cosine, sine = _horner(square, _COSINE[:terms]), angle * _horner(square, _SINE[:terms])
    quadrant = quarters - 4 * xnp.floor(quarters / 4)
    is_odd = (quadrant == 1) | (quadrant == 3)
    cosine, sine = xnp.where(is_odd, sine, cosine), xnp.where(is_odd, cosine, sine)
    return xnp.where((quadrant == 1) | (quadrant == 2), -cosine, cosine), xnp.where(quadrant >= 2, -sine, sine)


def _horner(x, coefficients):
    total = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def _first_quadrant(x, y, bell):
    far = (x > _FAR) | (y > _FAR)
    near = _quadrature(xnp.where(far, 1, x), xnp.where(far, 1, y), bell)
    beyond = _asymptotic(xnp.where(far, x, _FAR), xnp.where(far, y, _FAR))
    return [xnp.where(far, f, n) for f, n in zip(beyond, near)]


def _quadrature(x, y, bell):
    """Apply the midpoint or the trapezoidal rule, whichever has its nodes further from x; `bell` is `2 exp(-z^2)`."""
    last = _NODES[x.dtype]
    h = math.sqrt(math.pi / (last + 1))
    position = x / h
    fraction = position - xnp.floor(position)
    above = y >= xnp.maximum(x, math.pi / h)  # no pole correction is needed there
    trapezoidal = (fraction >= 0.25) & (fraction <= 0.75) & ~above
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
    # The correction for the pole: 2 exp(-z^2) r / (r +- 1) with r = exp(2 pi i z / h).
    r = xnp.exp(-2 * math.pi / h * y)
    cosine, sine = _cos_sin_2pi(position)
    r, s = r * cosine, r * sine
    sign = xnp.where(trapezoidal, -1, 1).astype(x.dtype)
    size = (r + sign) * (r + sign) + s * s
    size = xnp.where(above, 1, size)
    c, d = (r * (r + sign) + s * s) / size, s * sign / size
    e, f = bell
    return u + xnp.where(above, 0, c * e - d * f), v + xnp.where(above, 0, c * f + d * e)


def _asymptotic(x, y):
    scale = xnp.maximum(x, y)
    end = scale == np.inf
    s, t = xnp.where(end, 1, x) / xnp.where(end, 1, scale), xnp.where(end, 1, y) / xnp.where(end, 1, scale)
    size, inverse = s * s + t * t, xnp.where(end, 0, 1 / scale)  # separate: XLA would merge the divisions, and overflow
    p, q = s / size * inverse, -t / size * inverse  # 1 / z
    a, b = p * p - q * q, 2 * p * q
    u, v = xnp.ones_like(x), xnp.zeros_like(x)
    for k in (5, 3, 1):
        u, v = 1 + k / 2 * (a * u - b * v), k / 2 * (a * v + b * u)
    root = 1 / math.sqrt(math.pi)
    return -root * (p * v + q * u), root * (p * u - q * v)
