"""Reductions of boolean arrays on CPUs, as extremes of floats: XLA takes a third of the time to compile that.

It compiles loops over booleans, which LLVM unrolls many times; for the extremes of floats it calls a library. A run takes as
long. The results are equal: the floats are 0 and 1. They are in memory, so very large arrays are reduced as booleans.
"""

from __future__ import annotations

import math

import numpy as np

from xlafront import lowering
from xlafront.symbolic.dimensions import is_symbolic
from xlafront.tuning.wide_loops import is_for_one_cpu

_SIZES = range(2**10, 2**22)  # numbers of elements: smaller loops are not unrolled
_EXTREMES = {"stablehlo.or": ("stablehlo.maximum", 0), "stablehlo.and": ("stablehlo.minimum", 1)}
_FLAG, _FLOAT = np.dtype(bool), np.dtype(np.float32)


def reduces_flags(ctx, operation: str) -> bool:
    """Return True if a reduction by an operation is lowered by `lower_reduced_flags`."""
    aval = ctx.avals_in[0]
    return (aval.dtype == _FLAG and operation in _EXTREMES and not is_symbolic(aval.shape) and math.prod(aval.shape) in _SIZES
            and is_for_one_cpu(ctx.body.module))


def lower_reduced_flags(ctx, x, shape: tuple[int, ...], operation: str, axes: tuple[int, ...]):
    """Lower the reduction of booleans of a shape by `stablehlo.or` or `stablehlo.and` along axes."""
    extreme, identity = _EXTREMES[operation]
    dtype = _FLOAT
    if math.prod(shape) >= _SIZES.stop:
        extreme, dtype = operation, _FLAG
    scalar = ((), dtype)
    remaining = tuple([n for i, n in enumerate(shape) if i not in axes])
    found = ctx.with_region(
        "stablehlo.reduce", [ctx.convert(x, shape, dtype), ctx.constant(np.asarray(identity, dtype))], [scalar, scalar],
        lambda inner, a, b: [inner.op(extreme, [a, b], [scalar])], types=[(remaining, dtype)],
        dimensions=lowering.mlir.i64s(axes))[0]
    return ctx.convert(found, remaining, _FLAG)
