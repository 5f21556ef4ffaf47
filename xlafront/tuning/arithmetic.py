"""Arithmetic on arrays of one shape, as StableHLO operations of a lowering rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_FLAG, _WORD = np.dtype(bool), np.dtype(np.uint32)
_SIGN = np.uint32(1 << 31)


class Arithmetic:
    """Operations whose results have the shape of the rule's result, and a dtype where none is given."""

    def __init__(self, ctx: Any, dtype: Any):
        self.ctx, self.shape, self.dtype = ctx, ctx.aval_out.shape, np.dtype(dtype)

    def op(self, name: str, *operands, dtype: Any = None):
        return self.ctx.op(f"stablehlo.{name}", operands, [(self.shape, self.dtype if dtype is None else np.dtype(dtype))])

    def number(self, value: float | np.generic, dtype: Any = None):
        return self.ctx.constant(np.asarray(value, self.dtype if dtype is None else dtype), self.shape)

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

    def either(self, a, b):
        return self.op("or", a, b, dtype=_FLAG)

    def polynomial(self, x, value, coefficients: Iterable[float]):
        """Multiply a value by `x` and add a coefficient, once for each coefficient."""
        for c in coefficients:
            value = self.add(self.mul(value, x), self.number(c))
        return value

    # The bits of float32 numbers

    def bits(self, x):
        return self.op("bitcast_convert", x, dtype=_WORD)

    def is_negative(self, x):
        """True for negative numbers, -0 among them."""
        return self.compare("GE", self.bits(x), self.number(_SIGN, _WORD), "UNSIGNED")

    def with_sign_of(self, x, magnitude):
        """Return numbers that are not negative with the signs of `x`."""
        sign = self.op("and", self.bits(x), self.number(_SIGN, _WORD), dtype=_WORD)
        return self.op("bitcast_convert", self.op("or", self.bits(magnitude), sign, dtype=_WORD), dtype=np.float32)
