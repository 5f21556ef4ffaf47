"""Functions of large float32 arrays on CPUs, as arithmetic in float64 that XLA's loops vectorize.

XLA calls the C library for each element of `sin`, `cos`, `asin`, `acos`, `atan2` and `rem`, which takes 10 to 25 ns. Here they
take 1.5 to 4. Remainders are exact, as in the library. The other functions are rounded from float64, to within 0.501 units in
the last place. The library's results differ in that place: their errors are up to 0.56 units (`sin`, `cos`), or 2.

Angles above 2^20 and quotients of 2^29 and more would need more digits than float64 has. An array with one of these is left to
the library, by a conditional in the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from xlafront.symbolic.dimensions import is_symbolic
from xlafront.tuning.arithmetic import Arithmetic
from xlafront.tuning.reduced_flags import lower_reduced_flags
from xlafront.tuning.wide_loops import is_for_one_cpu

_NARROW, _WORD, _FLAG = (np.dtype(name) for name in ("float32", "uint32", "bool"))
# Number of elements from which the longer program saves what its compilation costs, in some 200 calls: 10 ms, and 50 to 100 ms
# for those with a conditional.
_MIN_SIZE, _MIN_SIZE_OF_CONDITIONAL = 2**12, 2**16
_LARGEST_ANGLE = 2.0**20
_LARGEST_QUOTIENT = 2.0**29
_SMALLEST_DIVISOR = np.float32(2.0**-102)

# Half of pi as a sum: multiples of the first part, which has 33 bits, are exact. The cosine is what the float of pi lacks.
_HALF_PI_HIGH = math.floor(math.pi / 2 * 2**32) / 2**32
_HALF_PI_LOW = math.pi / 2 - _HALF_PI_HIGH + math.cos(math.pi / 2)

# Taylor coefficients, from the last, in squares of angles up to a quarter of pi: errors below 2^-36.
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(6))]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in reversed(range(7))]


@cache
def _arctangent() -> list[float]:
    """Return coefficients of `atan(t) / t` in `t^2`, from the last, for t from 0 to 1.

    Those of the Chebyshev series of `atan` are powers of the square root of 2 less 1. The error is below 2^-36.
    """
    series = [0.0] * 28
    for k in range(14):
        series[2 * k + 1] = 2 * (-1) ** k * (math.sqrt(2) - 1) ** (2 * k + 1) / (2 * k + 1)
    return [float(c) for c in np.polynomial.chebyshev.cheb2poly(series)[:0:-2]]


class _Wide(Arithmetic):
    """Operations on float64, of float32 operands where they say so."""

    def __init__(self, ctx):
        super().__init__(ctx, np.float64)

    def wide(self, x):
        return self.op("convert", x)

    def narrow(self, x):
        return self.op("convert", x, dtype=_NARROW)

    def series(self, coefficients: list[float], x):
        return self.polynomial(x, self.number(coefficients[0]), coefficients[1:])

    def unless_small(self, x, value):
        """Return `x` where it is so small, or -0, that it is its own sine; `value` for other float32 numbers."""
        is_small = self.compare("LT", self.op("abs", x, dtype=_NARROW), self.number(2.0**-13, _NARROW))
        return self.op("select", is_small, x, value, dtype=_NARROW)

    def unless_any(self, flags, compute: Callable, otherwise: Callable):
        """Return `compute(ctx)`, or `otherwise(ctx)` if a flag of the array is True."""
        ctx = self.ctx
        found = lower_reduced_flags(ctx, flags, self.shape, "stablehlo.or", tuple(range(len(self.shape))))
        index = ctx.convert(found, (), np.dtype(np.int32))
        return ctx.case(index, [lambda inner: [compute(inner)], lambda inner: [otherwise(inner)]], [ctx.aval_out])[0]


def _sine_of(a: _Wide, x, shift: int):
    """Return the sine of angles up to `_LARGEST_ANGLE`, with `shift` 1 the cosine."""
    x = a.wide(x)
    turns = a.op("round_nearest_even", a.mul(x, a.number(2 / math.pi)))  # quarters
    rest = a.sub(a.sub(x, a.mul(turns, a.number(_HALF_PI_HIGH))), a.mul(turns, a.number(_HALF_PI_LOW)))
    square, word = a.mul(rest, rest), np.dtype(np.int32)
    quadrant = a.op("add", a.op("convert", turns, dtype=word), a.number(shift, word), dtype=word)
    is_cosine, is_negated = (
        a.compare("NE", a.op("and", quadrant, a.number(bit, word), dtype=word), a.number(0, word), "SIGNED") for bit in (1, 2))
    value = a.select(is_cosine, a.series(_COSINE, square), a.mul(rest, a.series(_SINE, square)))
    return a.narrow(a.select(is_negated, a.op("negate", value), value))


def _unless_large(ctx, default, x, compute: Callable):
    a = _Wide(ctx)
    is_large = a.compare("GT", a.op("abs", x, dtype=_NARROW), a.number(_LARGEST_ANGLE, _NARROW))
    return a.unless_any(is_large, lambda inner: compute(_Wide(inner)), lambda inner: default(inner, x))


def _sin(ctx, default, x):
    return _unless_large(ctx, default, x, lambda a: a.unless_small(x, _sine_of(a, x, 0)))


def _cos(ctx, default, x):
    return _unless_large(ctx, default, x, lambda a: _sine_of(a, x, 1))


def _rem(ctx, default, x, y):
    def compute(inner):
        a = _Wide(inner)
        p, q = (a.op("abs", a.wide(v)) for v in (x, y))
        quotient = a.op("floor", a.div(p, q))
        is_less = a.compare("EQ", quotient, a.number(0))  # also than infinity, whose product with 0 is NaN
        return a.with_sign_of(x, a.narrow(a.select(is_less, p, a.sub(p, a.mul(quotient, q)))))

    a = _Wide(ctx)
    p, q = (a.op("abs", v, dtype=_NARROW) for v in (x, y))
    is_large = a.both(a.compare("GE", p, a.op("multiply", q, a.number(_LARGEST_QUOTIENT, _NARROW), dtype=_NARROW)),
                      a.compare("LT", p, a.number(np.inf, _NARROW)))
    # Remainders of the smallest divisors may be subnormal, which conversions make zeros. 0 - 1 is the largest word.
    is_tiny = a.compare("LT", a.op("subtract", a.bits(q), a.number(1, _WORD), dtype=_WORD),
                        a.number(_SMALLEST_DIVISOR.view(_WORD), _WORD), "UNSIGNED")
    excluded = a.either(a.both(is_large, a.compare("NE", y, a.number(0, _NARROW))), is_tiny)
    return a.unless_any(excluded, compute, lambda inner: default(inner, x, y))


def _angle(a: _Wide, y, x, x_is_negative):
    """Return the angle of points as float64, for `y` that is not negative."""
    p = a.op("abs", x)
    low, high = a.op("minimum", y, p), a.op("maximum", y, p)
    # Of two zeros the quotient is 0, of two infinities 1.
    at_zero = a.compare("EQ", high, a.number(0))
    quotient = a.div(low, a.select(at_zero, a.number(1), high))
    is_equal = a.compare("EQ", low, a.number(np.inf))
    t = a.select(is_equal, a.number(1), quotient)
    angle = a.mul(t, a.series(_arctangent(), a.mul(t, t)))
    angle = a.select(a.compare("GT", y, p), a.sub(a.number(math.pi / 2), angle), angle)
    return a.select(x_is_negative, a.sub(a.number(math.pi), angle), angle)


def _atan2(ctx, _, y, x):
    a = _Wide(ctx)
    angle = _angle(a, a.op("abs", a.wide(y)), a.wide(x), a.is_negative(x))
    return a.with_sign_of(y, a.narrow(angle))


def _asin(ctx, _, x):
    a = _Wide(ctx)
    size = a.op("abs", a.wide(x))
    angle = a.narrow(_angle(a, size, _other_side(a, size), a.number(False, _FLAG)))
    return a.unless_small(x, a.with_sign_of(x, angle))


def _acos(ctx, _, x):
    a = _Wide(ctx)
    wide = a.wide(x)
    return a.narrow(_angle(a, _other_side(a, a.op("abs", wide)), wide, a.compare("LT", wide, a.number(0))))


def _other_side(a: _Wide, side):
    """Return the other side of a right triangle whose longest side is 1."""
    one = a.number(1)
    return a.op("sqrt", a.mul(a.sub(one, side), a.add(one, side)))


# by name: the function, called as `function(ctx, default, *operands)`, and the least size of its arrays
_FUNCTIONS = {
    "sin": (_sin, _MIN_SIZE_OF_CONDITIONAL), "cos": (_cos, _MIN_SIZE_OF_CONDITIONAL), "rem": (_rem, _MIN_SIZE_OF_CONDITIONAL),
    "atan2": (_atan2, _MIN_SIZE), "asin": (_asin, _MIN_SIZE), "acos": (_acos, _MIN_SIZE),
}


def vectorized(name: str, default: Callable) -> Callable:
    """Return a lowering rule that computes a function of large arrays by arithmetic, and others by the rule `default`."""
    function, min_size = _FUNCTIONS[name]

    def lower(ctx, *operands, **params):
        aval = ctx.aval_out
        if (aval.dtype != _NARROW or params.get("accuracy") is not None or is_symbolic(aval.shape)
                or math.prod(aval.shape) < min_size or not is_for_one_cpu(ctx.body.module)):
            return default(ctx, *operands, **params)
        return function(ctx, default, *operands)

    return lower
