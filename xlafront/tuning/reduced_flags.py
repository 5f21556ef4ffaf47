"""Reductions of large boolean arrays on CPUs, as extremes of floats: XLA takes a third of the time to compile that.

LLVM unrolls loops over booleans and integers many times, and those over floats not, since it does not reorder these. A run
takes as long. The results are equal: the floats are 0 and 1.
"""

from __future__ import annotations

import math

import numpy as np

from xlafront import lowering
from xlafront.symbolic.dimensions import is_symbolic
from xlafront.tuning.wide_loops import is_for_one_cpu

_MIN_SIZE = 2**10  # number of elements from which XLA's loops are unrolled
_EXTREMES = {"stablehlo.or": ("stablehlo.maximum", 0), "stablehlo.and": ("stablehlo.minimum", 1)}
_FLAG, _FLOAT = np.dtype(bool), np.dtype(np.float32)


def reduces_flags(ctx, operation: str) -> bool:
    """Return True if `lower_reduced_flags` lowers a reduction by this operation."""
    aval = ctx.avals_in[0]
    return (aval.dtype == _FLAG and operation in _EXTREMES and not is_symbolic(aval.shape)
            and math.prod(aval.shape) >= _MIN_SIZE and is_for_one_cpu(ctx.body.module))


def lower_reduced_flags(ctx, x, shape: tuple[int, ...], operation: str, axes: tuple[int, ...]):
    """Lower the reduction of booleans of a shape by `stablehlo.or` or `stablehlo.and` along axes."""
    extreme, identity = _EXTREMES[operation]
    scalar = ((), _FLOAT)
    remaining = tuple([n for i, n in enumerate(shape) if i not in axes])
    found = ctx.with_region(
        "stablehlo.reduce", [ctx.convert(x, shape, _FLOAT), ctx.constant(np.float32(identity))], [scalar, scalar],
        lambda inner, a, b: [inner.op(extreme, [a, b], [scalar])], types=[(remaining, _FLOAT)],
        dimensions=lowering.mlir.i64s(axes))[0]
    return ctx.convert(found, remaining, _FLAG)
