"""Comparisons by the total order of IEEE 754, and the high half of integer products.

In the total order, -0 is less than 0, and each NaN equals itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xlafront.core import dtypes
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.families import elementwise
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def _comparison(name: str, direction: str) -> Primitive:
    def lower(ctx: RuleContext, x: ir.Value, y: ir.Value) -> ir.Value:
        d = ctx.avals_in[0].dtype
        kind = "TOTALORDER" if dtypes.is_inexact(d) else "UNSIGNED" if d == dtypes.bool_ or dtypes.is_unsigned(d) else "SIGNED"
        return ctx.compare(direction, kind, x, y, ctx.aval_out.shape)

    return elementwise(name, lower, "int float bool", derivatives=(None, None), result=lambda *_, **__: np.dtype(bool))


eq_to_p, le_to_p, lt_to_p = _comparison("eq_to", "EQ"), _comparison("le_to", "LE"), _comparison("lt_to", "LT")
mulhi_p = elementwise("mulhi", "chlo.mulhi", "int", derivatives=(None, None))


@library
def mulhi(x: ArrayLike, y: ArrayLike) -> Array:
    """Compute the high half of the product of integers, `x * y >> bits` without overflow.

    Args:
        x, y: Arrays of one integer dtype.

    Returns:
        An array of the dtype of the operands.

    Example:
        >>> lax.mulhi(xnp.array([2**30, 7]), xnp.array([8, 7]))
        Array([2, 0], dtype=int32)
    """
    return mulhi_p.bind(x, y)
