"""Discharge of references: a jaxpr that takes references becomes one on arrays, before it is lowered.

A reference among the inputs becomes an array, and one more result if the jaxpr writes to it. The rule for a primitive that
takes references, or contains a jaxpr that uses them, is `discharge(primitive, refs, operands, params, keep_rules) ->
(results, written)`. `refs` has an entry for each operand: None, or an identifier of the reference, whose operand is then
the array that it holds. `written` maps indices of operands to the arrays that their references hold afterwards. A result
may be a function that returns it, which is called only if the result is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlafront.core import source, tracing
from xlafront.core.ir import (
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    effects_outside,
    internal_refs,
    last_reads,
)
from xlafront.core.refs import AbstractRef
from xlafront.core.tracing import StagedTracer, StagingTrace, current_trace

if TYPE_CHECKING:
    pass

ended = object()  # in `written`: the reference must not be used any more


class RuleNeedsReference(NotImplementedError):
    """Raised for a function with a custom rule that closes over a reference: discharged, it would lose the rule."""


def takes_refs(jaxpr: Jaxpr) -> bool:
    """True if a jaxpr takes references or closes over them."""
    return any([type(v.aval) is AbstractRef for v in (*jaxpr.constvars, *jaxpr.invars)])


def discharge_program(closed: Jaxpr, refs: Sequence[bool] | None = None, keep_rules: bool = False
                      ) -> tuple[Jaxpr, list[int]]:
    """Return a jaxpr on arrays instead of references, and the indices of the inputs that it writes to.

    The final values of these inputs are its last results, in that order.

    Args:
        closed: The jaxpr.
        refs: True for each input that is a reference to discharge. Default: all references.
        keep_rules: If True, calls of functions with custom rules stay such calls, for transformations that use the rules.
    """
    jaxpr = closed.structure
    marked = tuple([type(v.aval) is AbstractRef for v in jaxpr.invars] if refs is None else refs)
    if not any(marked) and internal_refs not in jaxpr.effects:
        return closed, []
    made, written, consts = jaxpr.memoised(("discharged", marked, keep_rules), lambda: _discharge(jaxpr, marked, keep_rules))
    return made.with_consts([*closed.consts, *consts]), written


def _discharge(jaxpr: Jaxpr, marked: Sequence[bool], keep_rules: bool) -> tuple[Jaxpr, list[int], list]:
    state = _Discharge(jaxpr, marked, keep_rules)
    trace, thread = state.trace, source.thread
    saved = thread.site
    try:
        with current_trace(trace):
            for eqn in jaxpr.eqns:
                state.add(eqn)
    finally:
        thread.site = saved
        trace.end()
    written = [i for i, v in enumerate(jaxpr.invars) if v in state.inputs and v in state.changed]
    outvars = [state.atom(v) for v in jaxpr.outvars] + [state.held[jaxpr.invars[i]] for i in written]
    invars = [state.inputs.get(v, v) for v in jaxpr.invars]
    constvars = [*jaxpr.constvars, *[v for v, _ in trace.constants.values()]]
    effects = effects_outside(trace.effects, (*constvars, *invars))
    made = Jaxpr(constvars, invars, outvars, trace.eqns, effects, jaxpr.debug_info.with_unknown_results())
    return made, written, [value for _, value in trace.constants.values()]


class _Discharge:
    """The state of references and values while a jaxpr is discharged."""

    def __init__(self, jaxpr: Jaxpr, marked: Sequence[bool], keep_rules: bool) -> None:
        self.keep_rules = keep_rules
        self.trace = StagingTrace(tracing.thread.trace, jaxpr.debug_info)
        self.inputs = {v: Var(v.aval.inner_aval) for v, m in zip(jaxpr.invars, marked) if m}
        self.held: dict[Any, Any] = dict(self.inputs)  # reference -> atom of its current value
        self.values: dict[Any, Any] = {}  # variable -> atom that replaces it
        self.changed: set = set()
        self.ended: set = set()
        self.read = last_reads(jaxpr)

    def atom(self, v: Any) -> Any:
        return v if type(v) is Literal else self.values.get(v, v)

    def add(self, eqn: JaxprEqn) -> None:
        """Append an equation of the jaxpr, unchanged or as its rule rewrites it."""
        atoms = [self.atom(v) for v in eqn.invars]
        refs = [v if type(v) is not Literal and v in self.held else None for v in atoms]
        if all([r is None for r in refs]) and (
                internal_refs not in eqn.effects or self.keep_rules and eqn.primitive.traits.calls_custom_rule):
            self.trace.eqns.append(eqn if atoms == eqn.invars else eqn.replace(invars=atoms))
            self.trace.effects |= eqn.effects
            return
        rule = eqn.primitive.structured.discharge
        if rule is None:
            raise NotImplementedError(
                f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) takes a reference and cannot be run: it has no "
                f"rule for the array that the reference holds. Give the primitive {eqn.primitive.name} a `discharge` rule, or "
                f"read the reference before, with ref[...].")
        for r in refs:
            if r is not None and r in self.ended:
                raise _used_after_end(eqn, r)
        source.thread.site = eqn.site
        operands = [x.val if type(x) is Literal else StagedTracer(self.trace, x.aval, x)
                    for x in [v if r is None else self.held[r] for v, r in zip(atoms, refs)]]
        results, written = rule(eqn.primitive, refs, operands, eqn.params, self.keep_rules)
        for i, new in written.items():
            self.write(eqn, refs[i], new)
        for v, x in zip(eqn.outvars, results):
            if callable(x):
                if v not in self.read:
                    continue
                x = x()
            (self.held if type(v.aval) is AbstractRef else self.values)[v] = self.trace.to_atom(x)

    def write(self, eqn: JaxprEqn, ref: Var, new: Any) -> None:
        if new is not ended:
            self.held[ref] = self.trace.to_atom(new)
            self.changed.add(ref)
        elif ref in self.inputs:
            raise _ended_in_subprogram(eqn, ref)
        else:
            self.ended.add(ref)


def _used_after_end(eqn: JaxprEqn, ref: Var) -> RuntimeError:
    return RuntimeError(f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) uses a reference of type {ref.aval} after "
                        f"freeze or free_ref, which end it. Use what freeze returned, or end the reference later.")


def _ended_in_subprogram(eqn: JaxprEqn, ref: Var) -> ValueError:
    return ValueError(f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) would end a reference of type {ref.aval} "
                      f"that the function has not made itself. End it where it was made; here, read the value with ref[...].")
