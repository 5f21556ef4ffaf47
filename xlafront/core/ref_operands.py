"""Operations with jaxprs that use references, under transformations.

Such an operation is treated as one on values, between reads and writes of the references: the reads and writes carry the
tangents and the batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlafront.core import tracing
from xlafront.core.basic_primitives import get_p, swap_p
from xlafront.core.discharge import RuleNeedsReference
from xlafront.core.ir import RefEffect
from xlafront.core.program_call import ProgramCall

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive


def touched_operands(primitive: Primitive, params: dict[str, Any]) -> frozenset[int]:
    """Return the operands that are references on which an operation that contains jaxprs has an effect."""
    if primitive.traits.takes_refs or primitive.traits.calls_custom_rule:
        return frozenset()
    return frozenset([e.ref for e in primitive.effects(**params) if isinstance(e, RefEffect)])


def bind_on_values(trace: tracing.Trace, primitive: Primitive, args: tuple, params: dict[str, Any], ref_args: frozenset[int]
                   ) -> list[Any]:
    """Bind a primitive with jaxprs to the values of the references `ref_args` (positions), and write the new values back."""
    with tracing.current_trace(trace):
        values: dict[int, Any] = {}
        for i in sorted(ref_args):
            if id(args[i]) not in values:
                values[id(args[i])] = get_p.bind(args[i], tree=())
        refs = [id(x) if i in ref_args else None for i, x in enumerate(args)]
        operands = [x if r is None else values[r] for x, r in zip(args, refs)]
        try:
            results, updates = primitive.structured.discharge(primitive, refs, operands, params, True)
        except RuleNeedsReference:
            if not isinstance(primitive, ProgramCall):
                raise
            return params[primitive.parameter](*args)  # inline its equations
        for i, new in updates.items():
            swap_p.bind(args[i], new, tree=())
        return results
