"""Kummer's and Gauss's hypergeometric functions of real numbers, and their derivatives in the parameters.

Both are sums of `(a)_k ... / (b)_k ... x^k / k!`, mapped to their region of convergence by the transformations of DLMF
13.2(vii) and 15.8. Kummer's function of large x is its asymptotic series (DLMF 13.7).
"""

from __future__ import annotations

import math

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.api.derivatives import jvp
from xlafront.control.while_loop import while_loop
from xlafront.transforms.calls.custom_jvp import SymbolicZero, custom_jvp

_CHUNK = 8  # terms between checks for convergence
_LIMIT = 40_000  # maximum number of terms


def _sum(tops, bottoms, x, index=None):
    """Sum the series, or its derivative in the parameter number `index` among `tops` and `bottoms`."""
    eps = np.finfo(x.dtype).eps

    def step(k, term, derivative):
        k_float = k.astype(x.dtype)
        top, bottom = x / (k_float + 1), 1.0
        for a in tops:
            top = top * (a + k_float)
        for b in bottoms:
            bottom = bottom * (b + k_float)
        next_term = xnp.where(top * term == 0, 0, term * (top / bottom))
        if derivative is None:
            return next_term, None
        if index < len(tops):  # without the parameter's own factor, which may be 0
            others = x / (k_float + 1)
            for i, a in enumerate(tops):
                others = others if i == index else others * (a + k_float)
            return next_term, (derivative * top + term * others) / bottom
        first = xnp.where(top == 0, 0, derivative * (top / bottom))
        return next_term, first - next_term / (bottoms[index - len(tops)] + k_float)

    def body(state):
        k, term, derivative, total, _ = state
        for i in range(_CHUNK):
            term, derivative = step(k + i, term, derivative)
            total = total + (term if derivative is None else derivative)
        return k + _CHUNK, term, derivative, total, xnp.any(abs(term if derivative is None else derivative) > eps * abs(total))

    one, zero = xnp.ones_like(x), xnp.zeros_like(x)
    derivative, total = (None, one) if index is None else (zero, zero)
    state = (np.int32(0), one, derivative, total, np.bool_(True))
    return while_loop(lambda state: state[4] & (state[0] < _LIMIT), body, state)[3]


def _define_derivatives(function, tops: int):
    """Define the derivatives of a series with `tops` numerator parameters: sums in the parameters, a series of the same
    kind in x."""
    def rule(primals, tangents):
        *parameters, x = primals
        numerators, denominators = parameters[:tops], parameters[tops:]
        total = xnp.zeros_like(x)
        for i, tangent in enumerate(tangents):
            if isinstance(tangent, SymbolicZero):
                continue
            if i < len(parameters):
                derivative = _sum(numerators, denominators, x, i)
            else:
                derivative = function(*[p + 1 for p in parameters], x) * math.prod(numerators) / math.prod(denominators)
            total = total + derivative * tangent
        return function(*primals), total

    function.defjvp(rule, symbolic_zeros=True)


@custom_jvp
def _kummer_series(a, b, x):
    return _sum((a,), (b,), x)


@custom_jvp
def _gauss_series(a, b, c, x):
    return _sum((a, b), (c,), x)


_define_derivatives(_kummer_series, 1)
_define_derivatives(_gauss_series, 2)


def _is_pole(x):
    return (x <= 0) & (x == xnp.floor(x))


def _gamma_ratio(above, below):
    """Compute the product of the gamma functions of `above` divided by that of `below`; 0 if one of the latter is
    infinite."""
    exponent, is_negative, vanishes = 0, False, False
    for sign, numbers in ((1, above), (-1, below)):
        for x in numbers:
            pole = _is_pole(x)
            if sign < 0:
                vanishes = vanishes | pole
            x = xnp.where(pole, 1, x)
            exponent = exponent + sign * lax.lgamma(x)
            is_negative = is_negative ^ ((x < 0) & (xnp.floor(x) % 2 != 0))
    return xnp.where(vanishes, 0, xnp.where(is_negative, -1, 1) * xnp.exp(exponent))


_ASYMPTOTIC_TERMS = 20
# The x from which the asymptotic series suffices, and its increase per unit of the parameters.
_FAR = {np.dtype(np.float32): (20, 6), np.dtype(np.float64): (50, 10)}


def kummer(a, b, x):
    """Compute `1F1(a; b; x)`."""
    polynomial = _is_pole(a)
    is_transformed = (x < 0) & ~polynomial
    top, y = xnp.where(is_transformed, b - a, a), xnp.where(is_transformed, -x, x)
    large = xnp.maximum(abs(b - top), abs(1 - top))
    start, increase = _FAR[x.dtype]
    is_far = ~polynomial & (y > start + increase * large) & ~_is_pole(top) & (y < np.inf)
    near = xnp.where(is_far | xnp.isinf(y), 1, y)
    series = _kummer_series(top, b, near) * xnp.where(is_transformed, xnp.exp(-near), 1)
    z, term = xnp.where(is_far, y, 100), xnp.ones_like(x)
    total, p, q = term, xnp.where(is_far, b - top, 1), xnp.where(is_far, 1 - top, 1)
    for k in range(_ASYMPTOTIC_TERMS):
        term = term * (p + k) * (q + k) / ((k + 1) * z)
        total = total + term
    p, q = xnp.where(is_far, b, 1), xnp.where(is_far, top, 1)
    half = xnp.exp(xnp.where(is_transformed, 0, z / 2))  # applied twice, around the powers, to avoid overflow
    asymptotic = _gamma_ratio((p,), (q,)) * half * z ** (q - p) * total * half
    value = xnp.where(is_far, asymptotic, series)
    value = xnp.where(xnp.isinf(x), _limit(a, b, x), value)
    is_pole = _is_pole(b) & ~(polynomial & (a > b)) & (a != 0) & (a != b)
    # The sum of a finite value and a constant keeps the derivatives in a and b.
    exponential = xnp.exp(x)
    corrected = xnp.where(xnp.isfinite(value), value + lax.stop_gradient(exponential - value), exponential)
    value = xnp.where((a == b) & ~polynomial, corrected, value)
    return xnp.where(xnp.isnan(x), x, xnp.where(is_pole, np.inf, value))


def _limit(a, b, x):
    """Return the limit at infinity: the sign of a polynomial, an exponential or a power."""
    polynomial = _is_pole(a)
    grows = xnp.where(polynomial & (x > 0) & (a % 2 != 0), -np.inf, np.inf)
    left = xnp.where(polynomial, np.inf, xnp.where(a > 0, 0, np.nan))
    value = xnp.where(x > 0, grows, left)
    return xnp.where(a == 0, 1, value).astype(x.dtype)


def _sign_of_gamma(z):
    return xnp.where((z < 0) & (xnp.floor(z) % 2 != 0), -1, 1).astype(z.dtype)


_SWITCH = 0.8  # for larger x the series is in 1 - x
_SWITCH_LARGE, _LARGE = 0.98, 15
_FAR_LEFT = -50


@custom_jvp
def gauss(a, b, c, x):
    """Compute `2F1(a, b; c; x)`; infinite for x > 1, where it has no real value."""
    is_pole = _is_pole(c) & ~((_is_pole(a) & (a > c)) | (_is_pole(b) & (b > c))) & (a != 0) & (b != 0)
    terminates, root_factor, a, top, y, one_minus_y = _pfaff_transform(a, b, c, x)
    d = c - a - top
    # If d is close to an integer the series at 1 cancels; the direct series is longer and loses accuracy as y approaches 1.
    close = (~_is_integer_difference(d, a, top, c) & (abs(d - xnp.round(d)) < xnp.minimum(0.02, one_minus_y))
             & (one_minus_y > 0.001))
    # The series at 1 also cancels for large parameters, while the direct series of positive parameters does not.
    large = (a > 0) & (top > 0) & (c > 0) & (a + top + c > _LARGE)
    near_one = ~terminates & (y > xnp.where(large, _SWITCH_LARGE, _SWITCH)) & ~close
    # A finite sum holds for any x, an infinite one only where it converges.
    inside = xnp.where(near_one | (~terminates & ~(abs(y) <= 1)), 0.5, y)
    series = _gauss_series(a, top, c, inside)
    below_one = near_one & (one_minus_y > 0)
    value = xnp.where(below_one, _series_at_one(a, top, c, xnp.where(below_one, one_minus_y, 0.1)), series)
    at_one = xnp.where(d > 0, _gamma_ratio((c, xnp.where(d > 0, d, 1)), (c - a, c - top)),
                       np.inf * _sign_of_gamma(a) * _sign_of_gamma(top) * _sign_of_gamma(c))
    value = root_factor * xnp.where(near_one & (one_minus_y == 0), at_one, value) * root_factor
    recur = _needs_recurrence(terminates, a, top, c, y, x)
    value = lax.cond(xnp.any(recur), lambda: xnp.where(recur, _by_recurrence(recur, a, top, c, y, x), value), lambda: value)
    is_pole = (near_one & (one_minus_y < 0)) | is_pole
    return xnp.where(xnp.isnan(x), x, xnp.where(is_pole, np.inf, value))


def _pfaff_transform(a, b, c, x):
    """Apply Pfaff's transformation to negative x.

    The results are: True where the sum is finite; the square root of the factor, which may itself overflow; a; the replacements
    of b and x; and 1 minus the latter, which may round to 1.
    """
    terminates = _is_pole(a) | _is_pole(b)
    is_negative = (x < 0) & ~terminates
    # Choose the form whose terms have one sign, if there is one.
    one_sign = (b > 0) & (a <= c) & ((a <= 0) | (b > c))
    is_swapped = is_negative & xnp.where(c > 0, one_sign | ((c < a) & (a < b)), (c < b) & (a < b))
    is_swapped = xnp.where(x < _FAR_LEFT, b < a, is_swapped) & is_negative  # there the factor grows like the function
    a, b = xnp.where(is_swapped, b, a), xnp.where(is_swapped, a, b)
    below = xnp.where(is_negative, 1 - x, 1)
    y = xnp.where(is_negative, xnp.where(x == -np.inf, 1, x / -below), x)
    top = xnp.where(is_negative, c - b, b)
    one_minus_y = xnp.where(is_negative, 1 / below, 1 - x)
    return terminates | (is_negative & _is_pole(top)), xnp.where(is_negative, below ** (-a / 2), 1), a, top, y, one_minus_y


def _needs_recurrence(terminates, a, b, c, y, x):
    """True where the recurrence is needed: a parameter is so negative that the alternating terms cancel, or the sum or
    Pfaff's factor overflows."""
    low, high = xnp.minimum(a, b), xnp.maximum(a, b)
    power = xnp.maximum(abs(high + low - c), xnp.where(x < 0, abs(a), 0))
    large = power * -xnp.log1p(-xnp.clip(y, 0, 0.99)) > math.log(np.finfo(y.dtype).max) / 2
    return ~terminates & ((low < -1) | large) & (high > 0) & (c >= 1) & (y > 0) & (y < 0.99)


def _by_recurrence(where_needed, a, b, c, y, x):
    """Compute the function where `where_needed` is True, with the factor of Pfaff's transformation.

    It is a Jacobi function of a real degree, computed from those of degrees around 0 by their recurrence (DLMF 18.9.2).
    Powers of `1 - y`, which could overflow, are combined last.
    """
    low, high = xnp.minimum(a, b), xnp.maximum(a, b)
    low, high, c, y = (xnp.where(where_needed, v, other) for v, other in ((low, -1.5), (high, 1), (c, 1), (y, 0.5)))
    beta = high + low - c
    degree = xnp.where(beta < 0, high - c, -low)  # by Euler's transformation beta is not negative
    power = xnp.where(beta < 0, 0, -beta) + xnp.where(x < 0, a, 0)
    beta = abs(beta)
    steps = xnp.maximum(xnp.floor(lax.stop_gradient(degree)), 0)
    start, logarithm = degree - steps, xnp.log1p(-y)
    previous, current = (_scaled_sum(-n, n + c + beta, c, y, beta * logarithm) for n in (start - 1, start))
    total = c - 1 + beta

    def body(state):
        k, previous, here = state
        n = start + k
        m = 2 * n + total
        after = (m + 1) * ((m + 2) * m * (1 - 2 * y) + (c - 1 - beta) * total) * here - 2 * n * (n + beta) * (m + 2) * previous
        below = 2 * (n + c) * (n + 1 + total) * m
        is_active = k < steps
        after = after / xnp.where(is_active & (below != 0), below, 1)
        return k + 1, xnp.where(is_active, here, previous), xnp.where(is_active, after, here)

    last = xnp.max(steps, initial=0)
    value = while_loop(lambda state: state[0] < last, body, (xnp.zeros_like(last), previous, current))[2]
    return value * xnp.exp(power * logarithm)


def _scaled_sum(a, b, c, y, shift):
    """Compute `exp(shift)` times the series, which may overflow by itself."""
    eps, large = np.finfo(y.dtype).eps, 2.0**40

    def body(state):
        k, term, total, exponent, _ = state
        for i in range(_CHUNK):
            k_float = (k + i).astype(y.dtype)
            term = term * ((a + k_float) * (b + k_float) / ((c + k_float) * (k_float + 1)) * y)
            total = total + term
        big = abs(term) > large
        shrink = xnp.where(big, 1 / large, 1)
        exponent = exponent + xnp.where(big, math.log(large), 0)
        return k + _CHUNK, term * shrink, total * shrink, exponent, xnp.any(abs(term) > eps * abs(total))

    one, zero = xnp.ones_like(y), xnp.zeros_like(y)
    state = (np.int32(0), one, one, zero, np.bool_(True))
    _, _, total, exponent, _ = while_loop(lambda state: state[4] & (state[0] < _LIMIT), body, state)
    return total * xnp.exp(exponent + shift)


def _is_integer_difference(d, a, b, c):
    """True if `d = c - a - b` is an integer up to rounding."""
    return abs(d - xnp.round(d)) <= 4 * np.finfo(d.dtype).eps * (abs(a) + abs(b) + abs(c))


def _series_at_one(a, b, c, y):
    """Sum series in `y = 1 - x` (DLMF 15.8.4), with logarithms if `c - a - b` is an integer (DLMF 15.8.10)."""
    d = c - a - b
    is_integer = _is_integer_difference(d, a, b, c)
    d = xnp.where(is_integer, xnp.round(d), d)
    e = xnp.where(is_integer, 0.5, d)
    first = _gamma_ratio((c, e), (c - a, c - b)) * _gauss_series(
        a, b, xnp.where(is_integer, 1, 1 - d), xnp.where(is_integer, 0.2, y))
    second_series = _gauss_series(c - a, c - b, xnp.where(is_integer, 1, 1 + d), xnp.where(is_integer, 0.2, y))
    second = y**e * _gamma_ratio((c, -e), (a, b)) * second_series
    # Euler's transformation makes d non-negative.
    is_negative = is_integer & (d < 0)
    p, q = xnp.where(is_negative, c - a, a), xnp.where(is_negative, c - b, b)
    logarithmic = xnp.where(is_negative, y**d, 1) * _logarithmic_case(p, q, xnp.where(is_integer, abs(d), 0), y)
    return xnp.where(is_integer, logarithmic, first + second)


def _logarithmic_case(a, b, m, y):
    """Compute the function of `c = a + b + m` for a non-negative integer m."""
    finite = _finite_sum(a, b, m, y)
    eps = np.finfo(y.dtype).eps

    def body(state):
        k, term, bracket, total, _ = state
        for i in range(_CHUNK):
            k_float = (k + i).astype(y.dtype)
            total = total + term * bracket
            term = term * (a + m + k_float) * (b + m + k_float) / ((k_float + 1) * (k_float + m + 1)) * y
            bracket = bracket - 1 / (k_float + 1) - 1 / (k_float + m + 1) + 1 / (a + m + k_float) + 1 / (b + m + k_float)
        return k + _CHUNK, term, bracket, total, xnp.any(abs(term * bracket) > eps * abs(total))

    bracket = xnp.log(y) + np.euler_gamma - lax.digamma(m + 1) + lax.digamma(a + m) + lax.digamma(b + m)
    term = xnp.exp(m * xnp.log(y) - lax.lgamma(m + 1))
    state = (np.int32(0), term, bracket, xnp.zeros_like(y), np.bool_(True))
    total = while_loop(lambda state: state[4] & (state[0] < _LIMIT), body, state)[3]
    sign = xnp.where(m % 2 == 0, 1, -1)
    return finite - sign * _gamma_ratio((a + b + m,), (a, b)) * total


def _finite_sum(a, b, m, y):
    """Sum the m terms before the logarithm."""
    def body(state):
        k, term, total = state
        k_float = k.astype(y.dtype)
        total = xnp.where(k_float < m, total + term, total)
        denominator = (k_float + 1) * (1 - m + k_float)
        return k + 1, term * (a + k_float) * (b + k_float) / xnp.where(denominator == 0, 1, denominator) * y, total

    last = xnp.max(m, initial=0)
    state = (np.int32(0), xnp.ones_like(y), xnp.zeros_like(y))
    total = while_loop(lambda state: (state[0].astype(last.dtype) < last) & (state[0] < _LIMIT), body, state)[2]
    return xnp.where(m > 0, _gamma_ratio((xnp.where(m > 0, m, 1), a + b + m), (a + m, b + m)) * total, 0)


def _direct_series(a, b, c, x):
    """Compute the series directly, for derivatives in the parameters, whose series converge wherever it does."""
    terminates, root_factor, a, top, y, _ = _pfaff_transform(a, b, c, x)
    value = root_factor * _gauss_series(a, top, c, xnp.where(terminates | (abs(y) < 1), y, 0.5)) * root_factor
    recur = _needs_recurrence(terminates, a, top, c, y, x)
    return lax.cond(xnp.any(recur), lambda: xnp.where(recur, _by_recurrence(recur, a, top, c, y, x), value), lambda: value)


def _gauss_rule(primals, tangents):
    *parameters, x = primals
    total = xnp.zeros_like(x)
    for i, tangent in enumerate(tangents):
        if isinstance(tangent, SymbolicZero):
            continue
        if i == 3:
            a, b, c = parameters
            derivative = gauss(a + 1, b + 1, c + 1, x) * (a * b / c)
        else:
            function = lambda p, i=i: _direct_series(*[p if j == i else other for j, other in enumerate(parameters)], x)
            derivative = jvp(function, (parameters[i],), (xnp.ones_like(parameters[i]),))[1]
        total = total + derivative * tangent
    return gauss(*primals), total


gauss.defjvp(_gauss_rule, symbolic_zeros=True)
