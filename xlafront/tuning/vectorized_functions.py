"""Functions of large float32 arrays on CPUs, as arithmetic in float64 that XLA's loops vectorize.

XLA calls the C library for each element of `sin`, `cos`, `asin`, `acos`, `atan2` and `rem`, which takes 10 to 25 ns. Here they
take 1.5 to 4. Remainders are exact, as in the library. The other functions are rounded from float64, to within 0.501 units in
the last place. The library's results differ in that place: their errors are up to 0.56 units (`sin`, `cos`), or 2.

Angles above 2^20 and quotients of 2^29 and more would need more digits than float64 has. An array with one of these is left to
the library, by a conditional in the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from xlafront.symbolic.dimensions import is_symbolic
from xlafront.tuning.reduced_flags import lower_reduced_flags
from xlafront.tuning.wide_loops import is_for_one_cpu

_NARROW, _WIDE, _WORD, _FLAG = (np.dtype(name) for name in ("float32", "float64", "uint32", "bool"))
# Number of elements from which the longer program saves what its compilation costs, in some 200 calls: 10 ms, and 50 to 100 ms
# for those with a conditional.
_MIN_SIZE, _MIN_SIZE_OF_CONDITIONAL = 2**12, 2**16
_LARGEST_ANGLE = 2.0**20
_LARGEST_QUOTIENT = 2.0**29
_SMALLEST_DIVISOR = np.float32(2.0**-102)
_SIGN = np.uint32(1 << 31)

# Half of pi as a sum: multiples of the first part, which has 33 bits, are exact.
_HALF_PI = Fraction("1.57079632679489661923132169163975144209858469968755291048747")
_HALF_PI_HIGH = math.floor(_HALF_PI * 2**32) / 2**32
_HALF_PI_LOW = float(_HALF_PI - Fraction(_HALF_PI_HIGH))

# Taylor coefficients, in squares of angles up to a quarter of pi: errors below 2^-36.
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(7)]


@cache
def _arctangent() -> list[float]:
    """Return coefficients of `atan(t) / t` in `t^2` for t from 0 to 1.

    Those of the Chebyshev series of `atan` are powers of the square root of 2 less 1. The error is below 2^-36.
    """
    series = [0.0] * 28
    for k in range(14):
        series[2 * k + 1] = 2 * (-1) ** k * (math.sqrt(2) - 1) ** (2 * k + 1) / (2 * k + 1)
    return [float(c) for c in np.polynomial.chebyshev.cheb2poly(series)[1::2]]


class _Arithmetic:
    """Operations on arrays of one shape: on float64, except where a dtype is given."""

    def __init__(self, ctx):
        self.ctx, self.shape = ctx, ctx.aval_out.shape

    def op(self, name: str, *operands, dtype: np.dtype = _WIDE):
        return self.ctx.op(f"stablehlo.{name}", operands, [(self.shape, dtype)])

    def number(self, value: float | np.generic, dtype: np.dtype = _WIDE):
        return self.ctx.constant(np.asarray(value, dtype), self.shape)

    def wide(self, x):
        return self.op("convert", x)

    def narrow(self, x):
        return self.op("convert", x, dtype=_NARROW)

    def add(self, a, b):
        return self.op("add", a, b)

    def sub(self, a, b):
        return self.op("subtract", a, b)

    def mul(self, a, b):
        return self.op("multiply", a, b)

    def div(self, a, b):
        return self.op("divide", a, b)

    def select(self, flag, a, b):
        return self.op("select", flag, a, b)

    def compare(self, direction: str, a, b, kind: str = "FLOAT"):
        return self.ctx.compare(direction, kind, a, b, self.shape)

    def both(self, a, b):
        return self.op("and", a, b, dtype=_FLAG)

    def polynomial(self, coefficients: Sequence[float], x):
        value = self.number(coefficients[-1])
        for c in coefficients[-2::-1]:
            value = self.add(self.mul(value, x), self.number(c))
        return value

    def bits(self, x):
        return self.op("bitcast_convert", x, dtype=_WORD)

    def is_negative(self, x):
        """True for negative float32 numbers, -0 among them."""
        return self.compare("GE", self.bits(x), self.number(_SIGN, _WORD), "UNSIGNED")

    def with_sign_of(self, x, magnitude):
        """Return float32 numbers that are not negative with the signs of `x`."""
        sign = self.op("and", self.bits(x), self.number(_SIGN, _WORD), dtype=_WORD)
        return self.op("bitcast_convert", self.op("or", self.bits(magnitude), sign, dtype=_WORD), dtype=_NARROW)

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


def _sine_of(a: _Arithmetic, x, shift: int):
    """Return the sine of angles up to `_LARGEST_ANGLE`, with `shift` 1 the cosine."""
    x = a.wide(x)
    turns = a.op("round_nearest_even", a.mul(x, a.number(2 / math.pi)))  # quarters
    rest = a.sub(a.sub(x, a.mul(turns, a.number(_HALF_PI_HIGH))), a.mul(turns, a.number(_HALF_PI_LOW)))
    square, word = a.mul(rest, rest), np.dtype(np.int32)
    quadrant = a.op("add", a.op("convert", turns, dtype=word), a.number(shift, word), dtype=word)
    is_cosine, is_negated = (
        a.compare("NE", a.op("and", quadrant, a.number(bit, word), dtype=word), a.number(0, word), "SIGNED") for bit in (1, 2))
    value = a.select(is_cosine, a.polynomial(_COSINE, square), a.mul(rest, a.polynomial(_SINE, square)))
    return a.narrow(a.select(is_negated, a.op("negate", value), value))


def _unless_large(ctx, default, x, compute: Callable):
    a = _Arithmetic(ctx)
    is_large = a.compare("GT", a.op("abs", x, dtype=_NARROW), a.number(_LARGEST_ANGLE, _NARROW))
    return a.unless_any(is_large, lambda inner: compute(_Arithmetic(inner)), lambda inner: default(inner, x))


def _sin(ctx, default, x):
    return _unless_large(ctx, default, x, lambda a: a.unless_small(x, _sine_of(a, x, 0)))


def _cos(ctx, default, x):
    return _unless_large(ctx, default, x, lambda a: _sine_of(a, x, 1))


def _rem(ctx, default, x, y):
    def compute(inner):
        a = _Arithmetic(inner)
        p, q = (a.op("abs", a.wide(v)) for v in (x, y))
        quotient = a.op("floor", a.div(p, q))
        is_less = a.compare("EQ", quotient, a.number(0))  # also than infinity, whose product with 0 is NaN
        return a.with_sign_of(x, a.narrow(a.select(is_less, p, a.sub(p, a.mul(quotient, q)))))

    a = _Arithmetic(ctx)
    p, q = (a.op("abs", v, dtype=_NARROW) for v in (x, y))
    is_large = a.both(a.compare("GE", p, a.op("multiply", q, a.number(_LARGEST_QUOTIENT, _NARROW), dtype=_NARROW)),
                      a.compare("LT", p, a.number(np.inf, _NARROW)))
    # Remainders of the smallest divisors may be subnormal, which conversions make zeros. 0 - 1 is the largest word.
    is_tiny = a.compare("LT", a.op("subtract", a.bits(q), a.number(1, _WORD), dtype=_WORD),
                        a.number(_SMALLEST_DIVISOR.view(_WORD), _WORD), "UNSIGNED")
    excluded = a.op("or", a.both(is_large, a.compare("NE", y, a.number(0, _NARROW))), is_tiny, dtype=_FLAG)
    return a.unless_any(excluded, compute, lambda inner: default(inner, x, y))


def _angle(a: _Arithmetic, y, x, x_is_negative):
    """Return the angle of points as float64, for `y` that is not negative."""
    p = a.op("abs", x)
    low, high = a.op("minimum", y, p), a.op("maximum", y, p)
    # Of two zeros the quotient is 0, of two infinities 1.
    at_zero = a.compare("EQ", high, a.number(0))
    quotient = a.div(low, a.select(at_zero, a.number(1), high))
    is_equal = a.compare("EQ", low, a.number(np.inf))
    t = a.select(is_equal, a.number(1), quotient)
    angle = a.mul(t, a.polynomial(_arctangent(), a.mul(t, t)))
    angle = a.select(a.compare("GT", y, p), a.sub(a.number(math.pi / 2), angle), angle)
    return a.select(x_is_negative, a.sub(a.number(math.pi), angle), angle)


def _atan2(ctx, _, y, x):
    a = _Arithmetic(ctx)
    angle = _angle(a, a.op("abs", a.wide(y)), a.wide(x), a.is_negative(x))
    return a.with_sign_of(y, a.narrow(angle))


def _asin(ctx, _, x):
    a = _Arithmetic(ctx)
    size = a.op("abs", a.wide(x))
    angle = a.narrow(_angle(a, size, _other_side(a, size), a.number(False, _FLAG)))
    return a.unless_small(x, a.with_sign_of(x, angle))


def _acos(ctx, _, x):
    a = _Arithmetic(ctx)
    wide = a.wide(x)
    return a.narrow(_angle(a, _other_side(a, a.op("abs", wide)), wide, a.compare("LT", wide, a.number(0))))


def _other_side(a: _Arithmetic, side):
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
