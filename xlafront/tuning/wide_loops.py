"""Functions of random numbers, as arithmetic that XLA's CPU loops vectorize at any width.

XLA's `log1p` has vectors of at most eight numbers, and a loop is no wider than the narrowest function in it. Here, `log1p` is
expanded as XLA computes it: a rational approximation near 0 (Cephes), and `log` for other values. Each step is rounded in the
same way, so all bits of the results are equal (`tests/tuning/test_wide_loops.py` compares every number that `random.normal` can
sample).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlafront.symbolic.dimensions import is_symbolic
from xlafront.tuning.arithmetic import Arithmetic
from xlafront.tuning.compiler_options import WIDE_LOOPS

_FLOAT = np.dtype(np.float32)
_MIN_SIZE = 1024  # number of elements from which a wide loop is worth a longer module
_NEAR_ZERO = math.sqrt(2) - 1
_ABOVE = (4.5270000862445199635215E-5, 4.9854102823193375972212E-1, 6.5787325942061044846969E0, 2.9911919328553073277375E1,
          6.0949667980987787057556E1, 5.7112963590585538103336E1, 2.0039553499201281259648E1)
_BELOW = (1.5062909083469192043167E1, 8.3047565967967209469434E1, 2.2176239823732856465394E2, 3.0909872225312059774938E2,
          2.1642788614495947685003E2, 6.0118660497603843919306E1)
# Giles, "Approximating the erfinv function" (2010): polynomials in w = -log(1 - x^2), for w < 5 and for w >= 5.
_CENTRAL = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
            0.246640727, 1.50140941)
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
         1.00167406, 2.83297682)


def is_for_one_cpu(module) -> bool:
    """True if a module is compiled for one CPU of this process only."""
    return module.target.platforms == ("cpu",) and not module.target.for_export and module.num_partitions == 1


def mark_module(ctx) -> None:
    """Mark a module that samples many random numbers, if it is compiled only for this CPU: its loops become wide."""
    module, shape = ctx.body.module, ctx.aval_out.shape
    if is_for_one_cpu(module) and not is_symbolic(shape) and math.prod(shape) >= _MIN_SIZE:
        module.tuning.add(WIDE_LOOPS)


def wide_rule(vectorized: Callable, default: Callable) -> Callable:
    """Return a lowering rule that uses `vectorized` for large arrays in modules that sample random numbers."""
    def lower(ctx, x, accuracy=None):
        shape, dtype = ctx.aval_out.shape, ctx.aval_out.dtype
        is_sampling = WIDE_LOOPS in ctx.body.module.tuning and dtype == _FLOAT and not is_symbolic(shape)
        if not is_sampling or accuracy is not None or math.prod(shape) < _MIN_SIZE:
            return default(ctx, x) if accuracy is None else default(ctx, x, accuracy=accuracy)
        return vectorized(Arithmetic(ctx, _FLOAT), x)

    return lower


def log1p(a: Arithmetic, x):
    above = a.polynomial(x, a.number(_ABOVE[0]), _ABOVE[1:])
    below = a.polynomial(x, a.add(x, a.number(_BELOW[0])), _BELOW[1:])
    square = a.mul(x, x)
    correction = a.mul(a.mul(x, square), a.op("divide", above, below))
    # x - square / 2 + correction. Doubling and halving are exact, so `correction` is rounded first: no fused multiply-add can
    # take it unrounded.
    twice = a.sub(a.mul(correction, a.number(2)), square)
    near = a.add(x, a.mul(twice, a.number(0.5)))
    is_near = a.compare("LT", a.op("abs", x), a.number(_NEAR_ZERO))
    return a.select(is_near, near, a.op("log", a.add(x, a.number(1))))


def erf_inv(a: Arithmetic, x):
    w = a.op("negate", log1p(a, a.op("negate", a.mul(x, x))))
    central = a.compare("LT", w, a.number(5))
    w = a.select(central, a.sub(w, a.number(2.5)), a.sub(a.op("sqrt", w), a.number(3)))
    value = a.select(central, a.number(_CENTRAL[0]), a.number(_TAIL[0]))
    for c, t in zip(_CENTRAL[1:], _TAIL[1:]):
        value = a.add(a.select(central, a.number(c), a.number(t)), a.mul(w, value))
    at_end = a.compare("EQ", a.op("abs", x), a.number(1))
    return a.mul(x, a.select(at_end, a.number(np.inf), value))
