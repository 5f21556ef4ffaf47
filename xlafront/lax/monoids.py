"""Lowering of binary operations, for elementwise operations, reductions and scatters alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlafront.core import dtypes

if TYPE_CHECKING:
    import numpy as np

    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

# Complex numbers are compared by real component, then by imaginary component.
_EXTREMES = {"stablehlo.maximum": "GT", "stablehlo.minimum": "LT"}


def combine(ctx: RuleContext, operation: str, x: ir.Value, y: ir.Value, shape: tuple, dtype: np.dtype) -> ir.Value:
    """Emit a StableHLO operation on two values of one type; maximum and minimum also of complex numbers."""
    if dtype.kind != "c" or operation not in _EXTREMES:
        return ctx.op(operation, [x, y], [(shape, dtype)])
    real, direction = dtypes.to_real(dtype), _EXTREMES[operation]
    (xr, yr), (xi, yi) = ([ctx.op(f"stablehlo.{name}", [v], [(shape, real)]) for v in (x, y)] for name in ("real", "imag"))
    same = ctx.compare("EQ", "FLOAT", xr, yr, shape)
    takes_first = ctx.op("stablehlo.select", [same, ctx.compare(direction, "FLOAT", xi, yi, shape),
                                        ctx.compare(direction, "FLOAT", xr, yr, shape)], [(shape, dtypes.bool_)])
    return ctx.op("stablehlo.select", [takes_first, x, y], [(shape, dtype)])
