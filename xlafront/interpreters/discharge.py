"""Discharge rules of primitives of other packages: how an operation on references is written as one on arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from xlafront.core import tracing
from xlafront.core.avals import AbstractValue
from xlafront.core.primitive import Primitive
from xlafront.core.refs import AbstractRef
from xlafront.interpreters.registries import Registry


@dataclasses.dataclass(frozen=True)
class DischargeContext:
    """The types of an operation that is discharged.

    Args:
        in_avals, out_avals: Types of operands and results.
        should_discharge: True for each operand that is a reference to discharge; the rule gets the array that it holds.
        strip_memory_space: True if arrays lose the memory space of their references.
    """

    in_avals: Sequence[AbstractValue]
    out_avals: Sequence[AbstractValue]
    should_discharge: Sequence[bool]
    strip_memory_space: bool


def _adapt(primitive: Primitive, rule: Callable) -> Callable:
    def discharge(primitive, refs, operands, params, keep_rules):
        marks = [r is not None for r in refs]
        avals = [AbstractRef(a) if m else a for a, m in zip([tracing.aval_of(x) for x in operands], marks)]
        types = primitive.types_of(tuple(avals), params)
        context = DischargeContext(avals, list(types) if primitive.multiple_results else [types], marks, False)
        new_values, results = rule(context, *operands, **params)
        written = {i: x for i, x in enumerate(new_values) if x is not None}
        return (list(results) if primitive.multiple_results else [results]), written

    primitive.traits = primitive.traits._replace(takes_refs=True)
    return discharge


discharge_rules = Registry("discharge_rules", "structured.discharge", _adapt)


def register_discharge_rule(prim: Primitive) -> Callable[[Callable], Callable]:
    """Make a decorator that registers the discharge rule of a primitive whose operands may be references.

    The rule is `rule(context, *operands, **params)`, with the values of references as operands. It returns the new values of
    the operands, None for unchanged ones, and the results. Equations keep their order by the effects that
    `def_effectful_abstract_eval` states.

    Args:
        prim: The primitive.

    Returns:
        The decorator, which returns the rule.

    Example:
        >>> from xlafront.extend.core import Primitive
        >>> add_p = Primitive("add_to")
        >>> add_p.multiple_results = True
        >>> _ = add_p.def_abstract_eval(lambda ref, x: [])
        >>> _ = register_discharge_rule(add_p)(lambda context, value, x: ([value + x, None], []))
    """
    def register(rule: Callable) -> Callable:
        discharge_rules[prim] = rule
        return rule

    return register
