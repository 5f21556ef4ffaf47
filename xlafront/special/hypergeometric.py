"""Kummer's and Gauss's hypergeometric functions of real numbers, and their derivatives in the parameters.

Both are sums of `(a)_k ... / (b)_k ... x^k / k!`, brought to where these converge by the transformations of DLMF 13.2(vii) and
15.8; Kummer's function of large x is its asymptotic series (DLMF 13.7).
"""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.while_loop import while_loop
from xlafront.transforms.ad.derivatives import jvp
from xlafront.transforms.calls.custom_jvp import SymbolicZero, custom_jvp

_CHUNK = 8  # terms for a look at whether there are enough
_LIMIT = 40_000  # of terms


def _sum(tops, bottoms, x, of=None):
    """The series, or its derivative in the parameter number `of` among `tops` and `bottoms`."""
    eps = np.finfo(x.dtype).eps

    def step(k, term, slope):
        place = k.astype(x.dtype)
        top, bottom = x / (place + 1), 1.0
        for a in tops:
            top = top * (a + place)
        for b in bottoms:
            bottom = bottom * (b + place)
        following = xnp.where(top * term == 0, 0, term * (top / bottom))
        if slope is None:
            return following, None
        if of < len(tops):  # without the parameter's own factor, which may be 0
            rest = x / (place + 1)
            for i, a in enumerate(tops):
                rest = rest if i == of else rest * (a + place)
            return following, (slope * top + term * rest) / bottom
        return following, xnp.where(top == 0, 0, slope * (top / bottom)) - following / (bottoms[of - len(tops)] + place)

    def body(state):
        k, term, slope, total, _ = state
        for i in range(_CHUNK):
            term, slope = step(k + i, term, slope)
            total = total + (term if slope is None else slope)
        return k + _CHUNK, term, slope, total, xnp.any(abs(term if slope is None else slope) > eps * abs(total))

    one, zero = xnp.ones_like(x), xnp.zeros_like(x)
    slope, total = (None, one) if of is None else (zero, zero)
    state = (np.int32(0), one, slope, total, np.bool_(True))
    return while_loop(lambda state: state[4] & (state[0] < _LIMIT), body, state)[3]


def _rule(function, tops: int):
    """The derivatives of a series with `tops` parameters above: in these and those below a sum, in x a series of the kind."""
    def rule(primals, tangents):
        *parameters, x = primals
        above, below = parameters[:tops], parameters[tops:]
        total = xnp.zeros_like(x)
        for i, tangent in enumerate(tangents):
            if isinstance(tangent, SymbolicZero):
                continue
            if i < len(parameters):
                slope = _sum(above, below, x, i)
            else:
                slope = function(*[p + 1 for p in parameters], x) * math.prod(above) / math.prod(below)
            total = total + slope * tangent
        return function(*primals), total

    function.defjvp(rule, symbolic_zeros=True)


@custom_jvp
def _kummer_series(a, b, x):
    return _sum((a,), (b,), x)


@custom_jvp
def _gauss_series(a, b, c, x):
    return _sum((a, b), (c,), x)


_rule(_kummer_series, 1)
_rule(_gauss_series, 2)


def _is_pole(x):
    return (x <= 0) & (x == xnp.floor(x))


def _gamma_ratio(above, below):
    """The product of the gamma functions of `above` over that of `below`; 0 where one of these is infinite."""
    exponent, odd, none = 0, False, False
    for sign, numbers in ((1, above), (-1, below)):
        for x in numbers:
            pole = _is_pole(x)
            if sign < 0:
                none = none | pole
            x = xnp.where(pole, 1, x)
            exponent = exponent + sign * lax.lgamma(x)
            odd = odd ^ ((x < 0) & (xnp.floor(x) % 2 != 0))
    return xnp.where(none, 0, xnp.where(odd, -1, 1) * xnp.exp(exponent))


_ASYMPTOTIC_TERMS = 20
# From where on they do, and how much further for larger parameters.
_FAR = {np.dtype(np.float32): (20, 6), np.dtype(np.float64): (50, 10)}


def kummer(a, b, x):
    """`1F1(a; b; x)`."""
    polynomial = _is_pole(a)
    turned = (x < 0) & ~polynomial
    top, y = xnp.where(turned, b - a, a), xnp.where(turned, -x, x)
    large = xnp.maximum(abs(b - top), abs(1 - top))
    start, more = _FAR[x.dtype]
    far = ~polynomial & (y > start + more * large) & ~_is_pole(top) & (y < np.inf)
    near = xnp.where(far | xnp.isinf(y), 1, y)
    series = _kummer_series(top, b, near) * xnp.where(turned, xnp.exp(-near), 1)
    z, term = xnp.where(far, y, 100), xnp.ones_like(x)
    total, p, q = term, xnp.where(far, b - top, 1), xnp.where(far, 1 - top, 1)
    for k in range(_ASYMPTOTIC_TERMS):
        term = term * (p + k) * (q + k) / ((k + 1) * z)
        total = total + term
    p, q = xnp.where(far, b, 1), xnp.where(far, top, 1)
    half = xnp.exp(xnp.where(turned, 0, z / 2))  # twice: the powers may hold back what would overflow
    beyond = _gamma_ratio((p,), (q,)) * half * z ** (q - p) * total * half
    value = xnp.where(far, beyond, series)
    value = xnp.where(xnp.isinf(x), _limit(a, b, x), value)
    nowhere = _is_pole(b) & ~(polynomial & (a > b)) & (a != 0) & (a != b)
    value = xnp.where((a == b) & ~polynomial, xnp.exp(x), value)
    return xnp.where(xnp.isnan(x), x, xnp.where(nowhere, np.inf, value))


def _limit(a, b, x):
    """At the infinities: a polynomial's sign, an exponential's, or a power's."""
    polynomial = _is_pole(a)
    grows = xnp.where(polynomial & (x > 0) & (a % 2 != 0), -np.inf, np.inf)
    left = xnp.where(polynomial, np.inf, xnp.where(a > 0, 0, np.nan))
    value = xnp.where(x > 0, grows, left)
    return xnp.where(a == 0, 1, value).astype(x.dtype)


def _sign_of_gamma(z):
    return xnp.where((z < 0) & (xnp.floor(z) % 2 != 0), -1, 1).astype(z.dtype)


_BORDER = 0.8  # beyond it the series is one of 1 - x
_BORDER_OF_LARGE, _LARGE = 0.98, 15
_FAR_LEFT = -50


@custom_jvp
def gauss(a, b, c, x):
    """`2F1(a, b; c; x)`; infinite beyond 1, where it has no real value."""
    nowhere = _is_pole(c) & ~((_is_pole(a) & (a > c)) | (_is_pole(b) & (b > c))) & (a != 0) & (b != 0)
    terminates, half, a, top, y, rest = _turned(a, b, c, x)
    d = c - a - top
    # Close to a whole number the terms of the series around 1 cancel; its own is longer, and loses as much as y is close to 1.
    close = ~_is_whole(d, a, top, c) & (abs(d - xnp.round(d)) < xnp.minimum(0.02, rest)) & (rest > 0.001)
    # Those of large parameters cancel too, where none of its own do that are all positive.
    large = (a > 0) & (top > 0) & (c > 0) & (a + top + c > _LARGE)
    late = ~terminates & (y > xnp.where(large, _BORDER_OF_LARGE, _BORDER)) & ~close
    # A finite sum may go to any x; others only where they converge.
    inside = xnp.where(late | (~terminates & ~(abs(y) <= 1)), 0.5, y)
    series = _gauss_series(a, top, c, inside)
    below_one = late & (rest > 0)
    value = xnp.where(below_one, _around_one(a, top, c, xnp.where(below_one, rest, 0.1)), series)
    at_one = xnp.where(d > 0, _gamma_ratio((c, xnp.where(d > 0, d, 1)), (c - a, c - top)),
                       np.inf * _sign_of_gamma(a) * _sign_of_gamma(top) * _sign_of_gamma(c))
    value = half * xnp.where(late & (rest == 0), at_one, value) * half
    falls = _falls(terminates, a, top, c, y, x)
    value = lax.cond(xnp.any(falls), lambda: xnp.where(falls, _by_recurrence(falls, a, top, c, y, x), value), lambda: value)
    nowhere = (late & (rest < 0)) | nowhere
    return xnp.where(xnp.isnan(x), x, xnp.where(nowhere, np.inf, value))


def _turned(a, b, c, x):
    """Whether the sum ends, and Pfaff's transformation of negative x: the root of its factor, which alone may go beyond what
    numbers can hold, a, what takes the places of b and x, and how far this is from 1, which it may round to."""
    terminates = _is_pole(a) | _is_pole(b)
    negative = (x < 0) & ~terminates
    # Terms of one sign, where there is a way to have them.
    one_sign = (b > 0) & (a <= c) & ((a <= 0) | (b > c))
    swapped = negative & xnp.where(c > 0, one_sign | ((c < a) & (a < b)), (c < b) & (a < b))
    swapped = xnp.where(x < _FAR_LEFT, b < a, swapped) & negative  # there the factor grows as the function does
    a, b = xnp.where(swapped, b, a), xnp.where(swapped, a, b)
    below = xnp.where(negative, 1 - x, 1)
    y = xnp.where(negative, xnp.where(x == -np.inf, 1, x / -below), x)
    top = xnp.where(negative, c - b, b)
    rest = xnp.where(negative, 1 / below, 1 - x)
    return terminates | (negative & _is_pole(top)), xnp.where(negative, below ** (-a / 2), 1), a, top, y, rest


def _falls(terminates, a, b, c, y, x):
    """Where one parameter is so far below 0 that the terms, of alternating signs, would cancel, or the sum or Pfaff's
    factor beyond what numbers can hold."""
    low, high = xnp.minimum(a, b), xnp.maximum(a, b)
    power = xnp.maximum(abs(high + low - c), xnp.where(x < 0, abs(a), 0))
    large = power * -xnp.log1p(-xnp.clip(y, 0, 0.99)) > math.log(np.finfo(y.dtype).max) / 2
    return ~terminates & ((low < -1) | large) & (high > 0) & (c >= 1) & (y > 0) & (y < 0.99)


def _by_recurrence(falls, a, b, c, y, x):
    """The function of `falls`, with the factor of Pfaff's transformation: a Jacobi function of a degree that need not be whole,
    from those of the degrees around 0 by their recurrence (DLMF 18.9.2). Powers of `1 - y`, which could overflow, are put
    together last."""
    low, high = xnp.minimum(a, b), xnp.maximum(a, b)
    low, high, c, y = (xnp.where(falls, v, other) for v, other in ((low, -1.5), (high, 1), (c, 1), (y, 0.5)))
    beta = high + low - c
    degree = xnp.where(beta < 0, high - c, -low)  # by Euler's transformation beta is not negative
    power = xnp.where(beta < 0, 0, -beta) + xnp.where(x < 0, a, 0)
    beta = abs(beta)
    steps = xnp.maximum(xnp.floor(lax.stop_gradient(degree)), 0)
    start, logarithm = degree - steps, xnp.log1p(-y)
    before, first = (_scaled_sum(-n, n + c + beta, c, y, beta * logarithm) for n in (start - 1, start))
    total = c - 1 + beta

    def body(state):
        k, before, here = state
        n = start + k
        m = 2 * n + total
        after = (m + 1) * ((m + 2) * m * (1 - 2 * y) + (c - 1 - beta) * total) * here - 2 * n * (n + beta) * (m + 2) * before
        below = 2 * (n + c) * (n + 1 + total) * m
        on = k < steps
        return k + 1, xnp.where(on, here, before), xnp.where(on, after / xnp.where(on & (below != 0), below, 1), here)

    last = xnp.max(steps)
    value = while_loop(lambda state: state[0] < last, body, (xnp.zeros_like(last), before, first))[2]
    return value * xnp.exp(power * logarithm)


def _scaled_sum(a, b, c, y, shift):
    """`exp(shift)` times the series, which alone may go beyond the largest number."""
    eps, large = np.finfo(y.dtype).eps, 2.0**40

    def body(state):
        k, term, total, exponent, _ = state
        for i in range(_CHUNK):
            place = (k + i).astype(y.dtype)
            term = term * ((a + place) * (b + place) / ((c + place) * (place + 1)) * y)
            total = total + term
        big = abs(term) > large
        shrink = xnp.where(big, 1 / large, 1)
        exponent = exponent + xnp.where(big, math.log(large), 0)
        return k + _CHUNK, term * shrink, total * shrink, exponent, xnp.any(abs(term) > eps * abs(total))

    one, zero = xnp.ones_like(y), xnp.zeros_like(y)
    state = (np.int32(0), one, one, zero, np.bool_(True))
    _, _, total, exponent, _ = while_loop(lambda state: state[4] & (state[0] < _LIMIT), body, state)
    return total * xnp.exp(exponent + shift)


def _is_whole(d, a, b, c):
    """Whether `d = c - a - b` is, but for rounding."""
    return abs(d - xnp.round(d)) <= 4 * np.finfo(d.dtype).eps * (abs(a) + abs(b) + abs(c))


def _around_one(a, b, c, y):
    """By series of `y = 1 - x` (DLMF 15.8.4), with logarithms where `c - a - b` is a whole number (DLMF 15.8.10)."""
    d = c - a - b
    whole = _is_whole(d, a, b, c)
    d = xnp.where(whole, xnp.round(d), d)
    e = xnp.where(whole, 0.5, d)
    first = _gamma_ratio((c, e), (c - a, c - b)) * _gauss_series(a, b, xnp.where(whole, 1, 1 - d), xnp.where(whole, 0.2, y))
    other = _gauss_series(c - a, c - b, xnp.where(whole, 1, 1 + d), xnp.where(whole, 0.2, y))
    second = y**e * _gamma_ratio((c, -e), (a, b)) * other
    # Euler's transformation makes d positive or 0.
    down = whole & (d < 0)
    p, q = xnp.where(down, c - a, a), xnp.where(down, c - b, b)
    logarithmic = xnp.where(down, y**d, 1) * _with_logarithm(p, q, xnp.where(whole, abs(d), 0), y)
    return xnp.where(whole, logarithmic, first + second)


def _with_logarithm(a, b, m, y):
    """The function of `c = a + b + m` with a whole number m that is not negative."""
    finite = _finite_part(a, b, m, y)
    eps = np.finfo(y.dtype).eps

    def body(state):
        k, term, bracket, total, _ = state
        for i in range(_CHUNK):
            place = (k + i).astype(y.dtype)
            total = total + term * bracket
            term = term * (a + m + place) * (b + m + place) / ((place + 1) * (place + m + 1)) * y
            bracket = bracket - 1 / (place + 1) - 1 / (place + m + 1) + 1 / (a + m + place) + 1 / (b + m + place)
        return k + _CHUNK, term, bracket, total, xnp.any(abs(term * bracket) > eps * abs(total))

    bracket = xnp.log(y) + np.euler_gamma - lax.digamma(m + 1) + lax.digamma(a + m) + lax.digamma(b + m)
    term = xnp.exp(m * xnp.log(y) - lax.lgamma(m + 1))
    state = (np.int32(0), term, bracket, xnp.zeros_like(y), np.bool_(True))
    total = while_loop(lambda state: state[4] & (state[0] < _LIMIT), body, state)[3]
    sign = xnp.where(m % 2 == 0, 1, -1)
    return finite - sign * _gamma_ratio((a + b + m,), (a, b)) * total


def _finite_part(a, b, m, y):
    """The m terms before the logarithm."""
    def body(state):
        k, term, total = state
        place = k.astype(y.dtype)
        total = xnp.where(place < m, total + term, total)
        below = (place + 1) * (1 - m + place)
        return k + 1, term * (a + place) * (b + place) / xnp.where(below == 0, 1, below) * y, total

    last = xnp.max(m, initial=0)
    state = (np.int32(0), xnp.ones_like(y), xnp.zeros_like(y))
    total = while_loop(lambda state: (state[0].astype(last.dtype) < last) & (state[0] < _LIMIT), body, state)[2]
    return xnp.where(m > 0, _gamma_ratio((xnp.where(m > 0, m, 1), a + b + m), (a + m, b + m)) * total, 0)


def _direct(a, b, c, x):
    """The series itself, for the derivatives in the parameters: they converge wherever it does."""
    terminates, half, a, top, y, _ = _turned(a, b, c, x)
    value = half * _gauss_series(a, top, c, xnp.where(terminates | (abs(y) < 1), y, 0.5)) * half
    falls = _falls(terminates, a, top, c, y, x)
    return lax.cond(xnp.any(falls), lambda: xnp.where(falls, _by_recurrence(falls, a, top, c, y, x), value), lambda: value)


def _gauss_rule(primals, tangents):
    *parameters, x = primals
    total = xnp.zeros_like(x)
    for i, tangent in enumerate(tangents):
        if isinstance(tangent, SymbolicZero):
            continue
        if i == 3:
            a, b, c = parameters
            slope = gauss(a + 1, b + 1, c + 1, x) * (a * b / c)
        else:
            of_one = lambda p, i=i: _direct(*[p if j == i else other for j, other in enumerate(parameters)], x)
            slope = jvp(of_one, (parameters[i],), (xnp.ones_like(parameters[i]),))[1]
        total = total + slope * tangent
    return gauss(*primals), total


gauss.defjvp(_gauss_rule, symbolic_zeros=True)
