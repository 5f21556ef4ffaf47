"""What is about the program itself: values that must be computed though nobody reads them, values that become part of it."""

from __future__ import annotations

from typing import Any

from xlafront import lowering
from xlafront.core import errors, tracing, tree
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive
from xlafront.lax.families import elementwise, linear


class NoDCEEffect(Effect):
    """Of an operation that stays in programs though it has no results."""

    def __repr__(self):
        return "NoDCE"


_stays = frozenset([NoDCEEffect()])


def _sink_lower(ctx, x, *, prevent_mlir_dce):
    if prevent_mlir_dce:
        ctx.op("stablehlo.custom_call", [x], [], call_target_name=lowering.mlir.string("dce_sink"),
               has_side_effect=lowering.mlir.boolean(True))
    return []


def _sink_batch(axis_size, operands, dims, *, prevent_mlir_dce):
    return dce_sink_p.bind(*operands, prevent_mlir_dce=prevent_mlir_dce), []


dce_sink_p = Primitive(
    "dce_sink", multiple_results=True, abstract=lambda x, **_: [], lower=_sink_lower, batch=_sink_batch,
    jvp=lambda primals, tangents, **params: (dce_sink_p.bind(*primals, **params), []), effects=lambda *_, **__: _stays,
    impl=lambda x, **_: [])


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep the computation of a value in traced programs though nobody reads it; for tests and measurements.

    - `val`: a pytree of arrays.
    - `prevent_mlir_dce`: whether it is to stay when the program is compiled, too; a platform must know the call `dce_sink`.

    >>> xf.make_jaxpr(lambda x: lax.dce_sink(x * 2))(1.0).eqns[-1].primitive
    dce_sink
    """
    for i, x in enumerate(tree.leaves(val)):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "dce_sink", tree.path_of(val, i))
        dce_sink_p.bind(x, prevent_mlir_dce=bool(prevent_mlir_dce))


stage_p = elementwise("stage", lambda ctx, x: x, "any", derivatives=(lambda g, y, x: g,),
                      transpose=linear(0)(lambda i, ct, x: ct))
stage_p.cost = "cheap"


def stage(x: Any) -> Any:
    """A value as a part of the program that is being traced, of which `jit` and others then know no more than its type.

    - `x`: an array or a number.

    >>> float(lax.stage(2.0))
    2.0
    """
    return stage_p.bind(x)
