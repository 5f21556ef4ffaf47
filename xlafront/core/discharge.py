"""Programs with references as programs of values: what every program becomes before it is lowered.

A reference that a program takes becomes an array that it takes, and one more result where the program writes to it.
A primitive that takes references, or has a program that uses them, says with its `discharge` rule what it becomes:
`discharge(primitive, refs, operands, params, keep_rules) -> (results, written)`. `refs` has an entry for each operand: None,
or for a reference what it is known by (the same for the same reference), and its operand is the array that it holds.
`written` maps numbers of operands to the arrays that their references hold from then on. A result may be a function that
makes it, for where nobody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core import source, tracing
from xlafront.core.ir import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    RefEffect,
    Var,
    effects_outside,
    internal_refs,
)
from xlafront.core.refs import AbstractRef
from xlafront.core.tracing import StagedTracer, StagingTrace, current_trace

ended = object()  # in `written`: the reference must not be used any more


class RuleNeedsReference(NotImplementedError):
    """A function with a rule of its own closes over a reference: as one of values it would lose the rule."""


def takes_refs(jaxpr: Jaxpr) -> bool:
    """Whether there are references among what a program takes and closes over."""
    return any([type(v.aval) is AbstractRef for v in (*jaxpr.constvars, *jaxpr.invars)])


def touched_operands(primitive, params: dict[str, Any]) -> frozenset[int]:
    """The operands that are references on which an operation that contains programs has an effect."""
    if primitive.ref_primitive or primitive.custom_rule:
        return frozenset()
    return frozenset([e.ref for e in primitive.effects(**params) if isinstance(e, RefEffect)])


def discharge_program(closed: ClosedJaxpr, refs: Sequence[bool] | None = None, keep_rules: bool = False
                      ) -> tuple[ClosedJaxpr, list[int]]:
    """The program of arrays in place of the references marked (all of them without `refs`), and the numbers of the inputs that
    it writes to: what they hold in the end are its last results, in that order.

    With `keep_rules` calls of functions with rules of their own stay such calls, for the transformations that ask for those.
    """
    jaxpr = closed.jaxpr
    marked = tuple([type(v.aval) is AbstractRef for v in jaxpr.invars] if refs is None else refs)
    if not any(marked) and internal_refs not in jaxpr.effects:
        return closed, []
    made, written, consts = jaxpr.memoised(("discharged", marked, keep_rules), lambda: _discharge(jaxpr, marked, keep_rules))
    return ClosedJaxpr(made, [*closed.consts, *consts]), written


def _discharge(jaxpr: Jaxpr, marked: Sequence[bool], keep_rules: bool) -> tuple[Jaxpr, list[int], list]:
    trace = StagingTrace(tracing.thread.trace, jaxpr.debug_info)
    inputs = {v: Var(v.aval.inner_aval) for v, m in zip(jaxpr.invars, marked) if m}
    held: dict[Any, Any] = dict(inputs)  # what references hold, as an atom
    values: dict[Any, Any] = {}  # variables that have become other atoms
    changed: set = set()
    over: set = set()
    read = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
    read.update([v for v in jaxpr.outvars if type(v) is not Literal])
    thread = source.thread
    saved = thread.site
    try:
        with current_trace(trace):
            for eqn in jaxpr.eqns:
                atoms = [v if type(v) is Literal else values.get(v, v) for v in eqn.invars]
                refs = [v if type(v) is not Literal and v in held else None for v in atoms]
                takes = any([r is not None for r in refs])
                if not takes and (internal_refs not in eqn.effects or keep_rules and eqn.primitive.custom_rule):
                    trace.eqns.append(eqn if atoms == eqn.invars else eqn.replace(invars=atoms))
                    trace.effects |= eqn.effects
                    continue
                rule = eqn.primitive.discharge
                if rule is None:
                    raise NotImplementedError(
                        f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) takes a reference and cannot be run: "
                        f"nothing says what it does to the array that the reference holds. Give the primitive "
                        f"{eqn.primitive.name} a `discharge` rule, or read the reference before, with ref[...].")
                for r in refs:
                    if r is not None and r in over:
                        raise _used_after_end(eqn, r)
                thread.site = eqn.site
                operands = [x.val if type(x) is Literal else StagedTracer(trace, x.aval, x)
                            for x in [v if r is None else held[r] for v, r in zip(atoms, refs)]]
                results, written = rule(eqn.primitive, refs, operands, eqn.params, keep_rules)
                for i, new in written.items():
                    if new is ended:
                        if refs[i] in inputs:
                            raise _ended_elsewhere(eqn, refs[i])
                        over.add(refs[i])
                    else:
                        held[refs[i]] = trace.to_atom(new)
                        changed.add(refs[i])
                for v, x in zip(eqn.outvars, results):
                    if callable(x):
                        if v not in read:
                            continue
                        x = x()
                    (held if type(v.aval) is AbstractRef else values)[v] = trace.to_atom(x)
        written = [i for i, v in enumerate(jaxpr.invars) if v in inputs and v in changed]
        outvars = [v if type(v) is Literal else values.get(v, v) for v in jaxpr.outvars]
        outvars += [held[jaxpr.invars[i]] for i in written]
    finally:
        thread.site = saved
        trace.end()
    invars = [inputs.get(v, v) for v in jaxpr.invars]
    constvars = [*jaxpr.constvars, *[v for v, _ in trace.constants.values()]]
    effects = effects_outside(trace.effects, (*constvars, *invars))
    made = Jaxpr(constvars, invars, outvars, trace.eqns, effects, jaxpr.debug_info.with_unknown_results())
    return made, written, [value for _, value in trace.constants.values()]


def _used_after_end(eqn: JaxprEqn, ref: Var) -> RuntimeError:
    return RuntimeError(f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) uses a reference of type {ref.aval} after "
                        f"freeze or free_ref, which end it. Use what freeze returned, or end the reference later.")


def _ended_elsewhere(eqn: JaxprEqn, ref: Var) -> ValueError:
    return ValueError(f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) would end a reference of type {ref.aval} "
                      f"that the function has not made itself. End it where it was made; here, read the value with ref[...].")
