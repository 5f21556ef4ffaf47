"""Lowering of composite values (`interpreters.hijax`): a jaxpr on them becomes one on their component arrays.

The types of such values have `is_high` set and give the components (`lo_ty`, `lower_val`, `raise_val`). Transformations see
the composite values; before a jaxpr is lowered, each variable is replaced by its components, and operations on composite
values by what they compute on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

from xlafront.core import tracing
from xlafront.core.ir import Jaxpr, subprograms

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import Params

in_use: list[type] = []  # the composite types that have been defined


def is_high(jaxpr: Jaxpr) -> bool:
    """True if a jaxpr contains composite values."""
    if not in_use:
        return False

    def find() -> tuple[bool]:
        atoms = chain(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, *[eqn.outvars for eqn in jaxpr.eqns])
        return (any([v.aval.is_high for v in atoms]) or any(
            [is_high(inner) for eqn in jaxpr.eqns for inner in subprograms(eqn.params)]),)

    return jaxpr.memoised(("is_high",), find)[0]


def components_of(kinds: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the component arrays of values of these types."""
    return [component for kind, x in zip(kinds, values) for component in (kind.lower_val(x) if kind.is_high else (x,))]


def component_types(kinds: Sequence[Any]) -> list[Any]:
    return [component for kind in kinds for component in (kind.lo_ty() if kind.is_high else (kind,))]


def with_components(kinds: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Return the entry of each value once for each of its components. Specs give the entries themselves (`HiPspec`)."""
    return [component for kind, x in zip(kinds, given) for component in (
        (x,) if not kind.is_high else x.to_lo() if hasattr(x, "to_lo") else (x,) * len(kind.lo_ty()))]


def assemble(kinds: Sequence[Any], components: Sequence[Any]) -> list[Any]:
    """Return the values of these types that have the given components."""
    rest = iter(components)
    return [kind.raise_val(*[next(rest) for _ in kind.lo_ty()]) if kind.is_high else next(rest) for kind in kinds]


def program_on_components(closed: Jaxpr) -> Jaxpr:
    """Return a jaxpr on the components of the operands that returns the components of the results."""
    def run(*components: tracing.StagedTracer) -> list[Any]:
        return components_of(closed.out_avals, closed(*assemble(closed.in_avals, components)))

    jaxpr, consts = tracing.trace_to_jaxpr(run, component_types(closed.in_avals), kind=CompositeTrace)
    return jaxpr.with_consts(consts)


class CompositeTrace(tracing.StagingTrace):
    """Stages operations on arrays; composite values are objects that hold tracers."""

    __slots__ = ()

    def process(self, primitive: Primitive, args: Sequence[Any], params: Params) -> Any:
        kinds = [tracing.aval_of(x) for x in args]
        programs = [*subprograms(params)]
        if primitive.traits.accepts_composites:
            return primitive.own_impl(*args, **params)
        if not (any([kind.is_high for kind in kinds]) or any(map(is_high, programs))):
            return super().process(primitive, args, params)
        if primitive.traits.calls_custom_rule:  # no transformation uses the rule any more
            return params[primitive.parameter](*args)  # type: ignore[attr-defined]
        if not programs:
            return super().process(primitive, args, params)
        outs = primitive.abstract(*kinds, **params)
        with nullcontext() if primitive.structured.scope is None else primitive.structured.scope(**params):
            changed = _component_params(params, kinds, outs)
        found = super().process(primitive, components_of(kinds, args), {**params, **changed})
        return assemble(outs, found)


def _component_params(params: dict[str, Any], kinds: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters to replace: jaxprs, and those with an entry for each operand or result."""
    changed: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Jaxpr):
            changed[name] = program_on_components(value)
        elif isinstance(value, (tuple, list)) and value and isinstance(value[0], Jaxpr):
            changed[name] = tuple(map(program_on_components, value))
    counts, first = [len(kind.lo_ty()) if kind.is_high else 1 for kind in kinds], 0
    for name in ("num_consts", "num_carry", "cond_nconsts", "body_nconsts"):
        if name in params:
            changed[name] = sum(counts[first:first + params[name]])
            first += params[name]
    for name, types in (("donated_invars", kinds), ("in_shardings", kinds), ("out_shardings", outs), ("in_specs", kinds),
                     ("out_specs", outs)):
        if name in params:
            changed[name] = tuple(with_components(types, params[name]))
    if "check_vma" in params:  # composite types have no varying axes
        changed["check_vma"] = False
    return changed
