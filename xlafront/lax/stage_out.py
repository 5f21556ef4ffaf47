"""Primitives that act on the jaxpr itself: `dce_sink` protects values from dead code elimination, `stage` hides values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlafront import lowering
from xlafront.core import errors, tracing, tree
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive
from xlafront.lax.families import elementwise, linear
from xlafront.lax.shapes import CHEAP

if TYPE_CHECKING:
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


class NoDCEEffect(Effect):
    """The effect of an operation that dead code elimination must not remove."""

    def __repr__(self) -> str:
        return "NoDCE"


_no_dce = frozenset([NoDCEEffect()])


def _sink_lower(ctx: RuleContext, x: ir.Value, *, prevent_mlir_dce: bool) -> list[ir.Value]:
    if prevent_mlir_dce:
        m = lowering.mlir
        # With an empty configuration XLA removes the call, for which platforms have no function.
        ctx.op("stablehlo.custom_call", [x], [], call_target_name=m.string("dce_sink"), has_side_effect=m.boolean(True),
               backend_config=m.string(""), **{"mhlo.backend_config": m.dictionary({})})
    return []


def _sink_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, prevent_mlir_dce: bool) -> tuple[Any, Any]:
    return dce_sink_p.bind(*operands, prevent_mlir_dce=prevent_mlir_dce), []


dce_sink_p = Primitive(
    "dce_sink", multiple_results=True, abstract=lambda x, **_: [], lower=_sink_lower, batch=_sink_batch,
    jvp=lambda primals, tangents, **params: (dce_sink_p.bind(*primals, **params), []), effects=lambda *_, **__: _no_dce,
    impl=lambda x, **_: [])


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Protect the computation of a value from dead code elimination in jaxprs. Use it for tests and measurements.

    Args:
        val: A pytree of arrays.
        prevent_mlir_dce: If True, also protect it in the module that is given to the compiler.

    Example:
        >>> xf.make_jaxpr(lambda x: lax.dce_sink(x * 2))(1.0).eqns[-1].primitive
        dce_sink
    """
    for i, x in enumerate(tree.leaves(val)):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "dce_sink", tree.path_of(val, i))
        dce_sink_p.bind(x, prevent_mlir_dce=bool(prevent_mlir_dce))


stage_p = elementwise(
    "stage", lambda ctx, x: x, "any", derivatives=(lambda g, y, x: g,), transpose=linear(0)(lambda i, ct, x: ct),
    traits=CHEAP)


def stage(x: Any) -> Any:
    """Stage a value into the jaxpr that is being traced, so that transformations see only its type.

    Args:
        x: An array or a number.

    Returns:
        An array with the same value.

    Example:
        >>> float(lax.stage(2.0))
        2.0
    """
    return stage_p.bind(x)
