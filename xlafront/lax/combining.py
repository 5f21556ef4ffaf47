"""Operations of two arrays as they are written into modules, by elementwise operations, reductions and scatters alike."""

from __future__ import annotations

from xlafront.core import dtypes

# Which of two complex numbers is taken: they are ordered by real part, then by imaginary part.
_EXTREMES = {"stablehlo.maximum": "GT", "stablehlo.minimum": "LT"}


def combine(ctx, operation: str, x, y, shape: tuple, dtype):
    """The StableHLO operation on two values of this type; maxima and minima also of complex numbers."""
    if dtype.kind != "c" or operation not in _EXTREMES:
        return ctx.op(operation, [x, y], [(shape, dtype)])
    part, direction = dtypes.to_real(dtype), _EXTREMES[operation]
    (xr, yr), (xi, yi) = ([ctx.op(f"stablehlo.{name}", [v], [(shape, part)]) for v in (x, y)] for name in ("real", "imag"))
    same = ctx.compare("EQ", "FLOAT", xr, yr, shape)
    first = ctx.op("stablehlo.select", [same, ctx.compare(direction, "FLOAT", xi, yi, shape),
                                        ctx.compare(direction, "FLOAT", xr, yr, shape)], [(shape, dtypes.bool_)])
    return ctx.op("stablehlo.select", [first, x, y], [(shape, dtype)])
