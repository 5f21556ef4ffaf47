"""Exponential integrals.

Chebyshev coefficients were computed from 40 digits of the functions.
"""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.special.chebyshev import chebyshev, piecewise_chebyshev

# Series of E1(x) + log(x) + gamma in 2x - 1 for x <= 1; of x exp(x) E1(x) in 1 - 8 / (x + 3) for x > 1.
# Series of (Ei(x) - log(x / r)) / (x - r) in x / 3 - 1 for x <= 6, where r is the zero of Ei; of x exp(-x) Ei(x) in 1 / x
# between 6, 16, 40 and infinity.
_NEAR = (
    0.42112612200809707, 0.39708785273195646, -0.02277106547144326, 0.0012097775028096784, -5.5182563885653714e-05,
    2.1671613488351387e-06, -7.426313409051455e-08, 2.2509122178774545e-09, -6.107395323643698e-11,
    1.498675699736102e-12, -3.354930941889216e-14, 6.90235852390662e-16, -1.3134361119396419e-17)
_FAR = (
    0.8263723026492102, 0.1958583132635064, -0.026894668628431005, 0.005650920923667242, -0.0012248874409872107,
    0.0002963682050314543, -7.354170511954446e-05, 1.9200442647910543e-05, -5.102466192955602e-06,
    1.3966866746650878e-06, -3.871458804513193e-07, 1.0943496387326327e-07, -3.121824695445198e-08,
    9.031983574168806e-09, -2.6309155674441502e-09, 7.746657094425709e-10, -2.292636311414681e-10,
    6.844134829640368e-11, -2.0509616992631702e-11, 6.190871249349783e-12, -1.873928447973327e-12,
    5.708361817897318e-13, -1.7421685873084554e-13, 5.347901642932602e-14, -1.6433673163175604e-14,
    5.077951113252986e-15, -1.569380755944594e-15, 4.877379835498678e-16, -1.5146439165942076e-16,
    4.7316554862963923e-17, -1.475245456236999e-17, 4.63060025670584e-18, -1.4483579136184247e-18)
_EI_NEAR = (
    5.257958226943482, 6.004639395661629, 2.469688170948231, 0.7902956029932626, 0.2071548491532639,
    0.04602682604407321, 0.008880237057344323, 0.0015146911094885722, 0.00023159134968734474, 3.2092485124027427e-05,
    4.066921310320624e-06, 4.748419512679941e-07, 5.140302084703391e-08, 5.187110649842181e-09, 4.902148216697985e-10,
    4.356558086355594e-11, 3.6539244499196015e-12, 2.901505315385807e-13, 2.1876473555324577e-14,
    1.5701440360230516e-15, 1.0752799606371169e-16, 7.041144635241966e-18)
_EI_6 = (
    1.1680733396026677, 0.10407374192304131, 0.00789965885502367, -0.0008252157069900883, -0.0003729267763680881,
    2.331920122553071e-05, 1.4670027820474274e-05, -2.57902435029795e-06, -3.0202399976650966e-07,
    1.794120067590596e-07, -2.318897334676356e-08, -3.5241037171908044e-09, 2.082796860577049e-09,
    -3.875449342306865e-10, 3.1997839004861025e-12, 1.9390049785253573e-11, -6.2238744871933494e-12,
    9.731040295252425e-13, 1.1047497660181232e-14, -5.611528237957154e-14, 1.8836493871170515e-14,
    -3.600937620070161e-15, 2.6610128203774515e-16, 9.979295236810216e-17, -5.140637317378683e-17,
    1.3726003797112981e-17, -2.3561794525264006e-18)
_EI_16 = (
    1.048770495052241, 0.022968647746404083, 0.0005772221510351512, 2.6391231089166217e-05, 2.0180941963157556e-06,
    1.9703776847979273e-07, 9.703581408143273e-09, -3.377814629108972e-09, -9.81584569683767e-10,
    -2.8764093542544555e-11, 3.233851320791911e-11, 3.126523300648457e-12, -1.1606787297823743e-12,
    -1.2218673258253727e-13, 5.08236169585855e-14, 2.3444868549285246e-15, -2.325525363386709e-15,
    1.220187343389524e-16, 8.719019400203214e-17, -1.671993368528686e-17, -1.4437890392744121e-18)
_EI_40 = (
    1.013000946388941, 0.013173609544194371, 0.00017620552371111085, 3.64235205341306e-06, 1.0363147927429463e-07,
    3.813480680688101e-09, 1.7472024577825957e-10, 9.723024131328213e-12, 6.466039290327704e-13,
    5.0886256945617415e-14, 4.721535170473879e-15, 5.180702126195651e-16, 6.77619297788798e-17, 1.0571494842364164e-17,
    1.9011472863984796e-18)
_ZERO, _ZERO_REST = 0.3725074107813666, 1.3140183414386028e-17
_EDGES = (1 / 6, 1 / 16, 1 / 40, 0.0)


def exponential_integral(x):
    """Compute E1, the integral of `exp(-t) / t` from x to infinity; NaN for negative numbers."""
    near, far = xnp.minimum(x, 1), xnp.maximum(x, 1)
    inside = xnp.where(near > 0, near, 1)
    small = chebyshev(2 * inside - 1, _NEAR) - np.euler_gamma - xnp.log(inside)
    large = xnp.exp(-far) / far * chebyshev(1 - 8 / (far + 3), _FAR)
    return xnp.where(x > 1, large, xnp.where(x > 0, small, xnp.where(x == 0, np.inf, np.nan)).astype(x.dtype))


def principal_integral(x):
    """Compute Ei, the principal value of the integral of `exp(t) / t` from minus infinity to x."""
    y = abs(x)
    near, far = xnp.where((y > 0) & (y < 6), y, 1), xnp.maximum(y, 6)
    distance = (near - _ZERO) - _ZERO_REST
    # log1p if the ratio is close to 1, the zero of Ei.
    log = xnp.where(abs(distance) < 0.2, xnp.log1p(distance / _ZERO), xnp.log(near / _ZERO))
    small = log + distance * chebyshev(near / 3 - 1, _EI_NEAR)
    inverse = 1 / far
    conditions = [inverse > edge for edge in _EDGES[1:3]]
    low = xnp.where(conditions[0], _EDGES[1], xnp.where(conditions[1], _EDGES[2], _EDGES[3])).astype(x.dtype)
    high = xnp.where(conditions[0], _EDGES[0], xnp.where(conditions[1], _EDGES[1], _EDGES[2])).astype(x.dtype)
    t = (2 * inverse - low - high) / (high - low)
    # exp(x) as two factors, because it overflows before the product does.
    half = xnp.exp(far / 2)
    large = half * inverse * piecewise_chebyshev(t, conditions, [_EI_6, _EI_16, _EI_40]) * half
    positive = xnp.where(y < 6, small, xnp.where(far == np.inf, np.inf, large))
    return xnp.where(x < 0, -exponential_integral(y), xnp.where(x == 0, -np.inf, positive))


# The border between series and continued fraction of generalized integrals, and the number of terms that each needs there.
_EXPN_PLANS = {np.dtype(np.float32): (1.0, 16, 24), np.dtype(np.float64): (1.25, 24, 74)}


def generalized_integral(n, x):
    """Compute En, the integral of `exp(-x t) / t^n` from 1 to infinity; NaN for negative x."""
    border, terms, depth = _EXPN_PLANS[x.dtype]
    small = (x > 0) & (x <= border)
    value = xnp.where(small, _series(n, xnp.where(small, x, 1), terms), _fraction(n, xnp.where(x > border, x, 3), depth))
    # The series of small n lose digits: n = 0 and n = 1 have functions of their own, from which n = 2 follows.
    first, decay = exponential_integral(xnp.where(x > 0, x, 1)), xnp.exp(-x)
    value = xnp.where(n == 0, decay / xnp.where(x > 0, x, 1), xnp.where(n == 1, first, value))
    value = xnp.where((n == 2) & small, decay - x * first, value)
    at_zero = xnp.where(n > 1, 1 / xnp.where(n > 1, n - 1, 1), np.inf)
    value = xnp.where(x == 0, at_zero, xnp.where(x == np.inf, 0, value))
    return xnp.where((x >= 0) & ~xnp.isnan(n), value, np.nan)


def _series(n, x, terms):
    """Compute `gamma(1 - n) x^(n - 1)` minus the sum of `(-x)^m / ((m + 1 - n) m!)`.

    For a positive integer n the gamma function and the undefined term combine to a logarithm (DLMF 8.19.8).
    """
    is_integer = (n == xnp.floor(n)) & (n >= 1)
    power, total = xnp.ones_like(x), xnp.zeros_like(x)
    for m in range(terms):
        denominator = m + 1 - n
        total = total + xnp.where(denominator == 0, 0, power / xnp.where(denominator == 0, 1, denominator))
        power = power * (-x / (m + 1))
    order = xnp.where(is_integer, n, 1)
    sign = 1 - 2 * xnp.abs((order - 1) % 2)
    logarithm = sign * xnp.exp((order - 1) * xnp.log(x) - lax.lgamma(order)) * (lax.digamma(order) - xnp.log(x))
    complement = 1 - xnp.where(is_integer, 0, n)
    is_negative = (complement < 0) & (xnp.floor(complement) % 2 != 0)
    gamma = xnp.where(is_negative, -1, 1) * xnp.exp(lax.lgamma(complement) - complement * xnp.log(x))
    return xnp.where(is_integer, logarithm, gamma) - total


def _fraction(n, x, depth):
    """Evaluate the even part of Stieltjes' continued fraction (DLMF 8.19.17) backwards."""
    tail = x + n + 2 * depth
    for k in range(depth, 0, -1):
        tail = x + n + 2 * (k - 1) - k * (n + k - 1) / tail
    return xnp.exp(-x) / tail
