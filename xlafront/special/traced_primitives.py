"""Elementwise primitives whose lowering traces a Python function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlafront.core.basic_primitives import convert_element_type_p
from xlafront.core.primitive import Primitive, Traits
from xlafront.lax.families import elementwise
from xlafront.lax.lower_fun import lower_fun

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def widen_small_floats(function: Callable) -> Callable:
    """Wrap a function of float32 or float64 arrays so that it computes smaller floats in float32."""
    def compute(*xs):
        dtype = xs[0].dtype
        if dtype in _WIDE:
            return function(*xs)
        widened = [convert_element_type_p.bind(x, new_dtype=_WIDE[0], weak_type=False, sharding=None) for x in xs]
        return convert_element_type_p.bind(function(*widened), new_dtype=dtype, weak_type=False, sharding=None)

    return compute


def traced_elementwise(name: str, function: Callable, derivatives: Sequence[Callable | None],
                       shown_as: str | None = None) -> Primitive:
    """Define an elementwise primitive on floats that lowers `function`; `derivatives` are those of `families.elementwise`."""
    rule = lower_fun(widen_small_floats(function))

    def lower(ctx, *operands, **params):
        broadcast = [aval.update(shape=ctx.aval_out.shape) for aval in ctx.avals_in]  # scalar operands are broadcast by now
        return rule(ctx.replace(avals_in=broadcast), *operands, **params)

    lower.jaxpr_for = rule.jaxpr_for  # type: ignore[attr-defined]  # for compilers of kernels
    return elementwise(name, lower, "float", derivatives=derivatives, shown_as=shown_as, traits=Traits(lowers_by_function=True))
