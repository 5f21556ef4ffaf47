"""Elementwise operations whose values are computed by a Python function of arrays, which is traced when they are lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlafront.core import dtypes
from xlafront.core.primitive import Primitive
from xlafront.lax.elementwise import as_type, convert_element_type_p
from xlafront.lax.families import elementwise
from xlafront.lax.lower_fun import lower_fun

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def in_wide_floats(function: Callable) -> Callable:
    """The function of float32 or float64, for floats of fewer bits too: these are computed in float32."""
    def compute(*xs):
        dtype = xs[0].dtype
        if dtype in _WIDE:
            return function(*xs)
        wide = [convert_element_type_p.bind(x, new_dtype=_WIDE[0], weak_type=False, sharding=None) for x in xs]
        return convert_element_type_p.bind(function(*wide), new_dtype=dtype, weak_type=False, sharding=None)

    return compute


def computed(name: str, function: Callable, derivatives: Sequence[Callable | None], shown_as: str | None = None) -> Primitive:
    """A record for an elementwise operation on floats with these values; `derivatives` are as `families.elementwise` says."""
    rule = lower_fun(in_wide_floats(function))

    def lower(ctx, *operands, **params):
        full = [aval.update(shape=ctx.aval_out.shape) for aval in ctx.avals_in]  # scalars come spread
        return rule(ctx.replace(avals_in=full), *operands, **params)

    primitive = elementwise(name, lower, "float", derivatives=derivatives, shown_as=shown_as)
    primitive.by_function = True
    return primitive


def of_one_type(*operands) -> list:
    """Operands of which Python scalars have taken the dtype of the others."""
    if not any(type(x) in dtypes.python_scalar_dtypes for x in operands):
        return list(operands)
    dtype, weak = dtypes.operand_type(operands[0])
    for x in operands[1:]:
        dtype, weak = dtypes.promote_pair(dtype, weak, *dtypes.operand_type(x))
    return [as_type(x, dtype, weak) for x in operands]
