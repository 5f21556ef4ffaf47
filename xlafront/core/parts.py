"""Programs on values that consist of others (`interpreters.hijax`) as programs on what these consist of.

Types of such values have `is_high` set and say what a value consists of (`lo_ty`, `lower_val`, `raise_val`). Transformations
see the values whole; before a program is lowered, each variable becomes those of its parts, and operations on them what they
compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import ClosedJaxpr, Jaxpr, eval_jaxpr, subprograms

in_use: list[type] = []  # the types that there are


def is_high(jaxpr: Jaxpr) -> bool:
    """Whether there are such values in a program."""
    if not in_use:
        return False

    def find() -> tuple[bool]:
        atoms = chain(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, *[eqn.outvars for eqn in jaxpr.eqns])
        return (any([v.aval.is_high for v in atoms]) or any(
            [is_high(inner) for eqn in jaxpr.eqns for inner in subprograms(eqn.params)]),)

    return jaxpr.memoised(("is_high",), find)[0]


def parts_of(kinds: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arrays that values of these types consist of."""
    return [part for kind, x in zip(kinds, values) for part in (kind.lower_val(x) if kind.is_high else (x,))]


def types_of_parts(kinds: Sequence[Any]) -> list[Any]:
    return [part for kind in kinds for part in (kind.lo_ty() if kind.is_high else (kind,))]


def for_parts(kinds: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """What is said of each value, for each of its parts; specs say it themselves (`HiPspec`)."""
    return [part for kind, x in zip(kinds, given) for part in (
        (x,) if not kind.is_high else x.to_lo() if hasattr(x, "to_lo") else (x,) * len(kind.lo_ty()))]


def put_together(kinds: Sequence[Any], parts: Sequence[Any]) -> list[Any]:
    """The values of these types that consist of arrays."""
    rest = iter(parts)
    return [kind.raise_val(*[next(rest) for _ in kind.lo_ty()]) if kind.is_high else next(rest) for kind in kinds]


def program_on_parts(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program on what the operands consist of, which returns what the results do."""
    jaxpr = closed.jaxpr

    def run(*parts):
        return parts_of(jaxpr.out_avals, eval_jaxpr(jaxpr, closed.consts, *put_together(jaxpr.in_avals, parts)))

    return ClosedJaxpr(*tracing.trace_to_jaxpr(run, types_of_parts(jaxpr.in_avals), kind=PartsTrace))


class PartsTrace(tracing.StagingTrace):
    """Writes down operations on arrays; values that consist of others are objects that hold traced arrays."""

    __slots__ = ()

    def process(self, primitive, args, params):
        kinds = [tracing.aval_of(x) for x in args]
        programs = [*subprograms(params)]
        if primitive.of_high_types:
            return primitive.own_impl(*args, **params)
        if not (any([kind.is_high for kind in kinds]) or any(map(is_high, programs))):
            return super().process(primitive, args, params)
        if primitive.custom_rule:  # which nobody asks for any more
            called = params[primitive.parameter]
            return eval_jaxpr(called.jaxpr, called.consts, *args)
        if not programs:
            return super().process(primitive, args, params)
        outs = primitive.abstract(*kinds, **params)
        with nullcontext() if primitive.in_scope is None else primitive.in_scope(**params):
            changed = _of_parts(params, kinds, outs)
        found = super().process(primitive, parts_of(kinds, args), {**params, **changed})
        return put_together(outs, found)


def _of_parts(params: dict[str, Any], kinds: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The parameters that are programs, and those that say something of each operand or result."""
    changed: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, ClosedJaxpr):
            changed[name] = program_on_parts(value)
        elif isinstance(value, (tuple, list)) and value and isinstance(value[0], ClosedJaxpr):
            changed[name] = tuple(map(program_on_parts, value))
    counts, first = [len(kind.lo_ty()) if kind.is_high else 1 for kind in kinds], 0
    for name in ("num_consts", "num_carry", "cond_nconsts", "body_nconsts"):
        if name in params:
            changed[name] = sum(counts[first:first + params[name]])
            first += params[name]
    for name, of in (("donated_invars", kinds), ("in_shardings", kinds), ("out_shardings", outs), ("in_specs", kinds),
                     ("out_specs", outs)):
        if name in params:
            changed[name] = tuple(for_parts(of, params[name]))
    if "check_vma" in params:  # (types of values that consist of others do not say where they vary)
        changed["check_vma"] = False
    return changed
