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
    """What is known of references and values on the way through a program."""

    def __init__(self, jaxpr: Jaxpr, marked: Sequence[bool], keep_rules: bool):
        self.keep_rules = keep_rules
        self.trace = StagingTrace(tracing.thread.trace, jaxpr.debug_info)
        self.inputs = {v: Var(v.aval.inner_aval) for v, m in zip(jaxpr.invars, marked) if m}
        self.held: dict[Any, Any] = dict(self.inputs)  # what references hold, as an atom
        self.values: dict[Any, Any] = {}  # variables that have become other atoms
        self.changed: set = set()
        self.over: set = set()
        self.read = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
        self.read.update([v for v in jaxpr.outvars if type(v) is not Literal])

    def atom(self, v):
        return v if type(v) is Literal else self.values.get(v, v)

    def add(self, eqn: JaxprEqn) -> None:
        """An equation of the program, as it is or as what its rule makes of it."""
        atoms = [self.atom(v) for v in eqn.invars]
        refs = [v if type(v) is not Literal and v in self.held else None for v in atoms]
        if all([r is None for r in refs]) and (
                internal_refs not in eqn.effects or self.keep_rules and eqn.primitive.custom_rule):
            self.trace.eqns.append(eqn if atoms == eqn.invars else eqn.replace(invars=atoms))
            self.trace.effects |= eqn.effects
            return
        rule = eqn.primitive.discharge
        if rule is None:
            raise NotImplementedError(
                f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) takes a reference and cannot be run: nothing says "
                f"what it does to the array that the reference holds. Give the primitive {eqn.primitive.name} a `discharge` "
                f"rule, or read the reference before, with ref[...].")
        for r in refs:
            if r is not None and r in self.over:
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

    def write(self, eqn: JaxprEqn, ref: Var, new) -> None:
        if new is not ended:
            self.held[ref] = self.trace.to_atom(new)
            self.changed.add(ref)
        elif ref in self.inputs:
            raise _ended_elsewhere(eqn, ref)
        else:
            self.over.add(ref)


def _used_after_end(eqn: JaxprEqn, ref: Var) -> RuntimeError:
    return RuntimeError(f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) uses a reference of type {ref.aval} after "
                        f"freeze or free_ref, which end it. Use what freeze returned, or end the reference later.")


def _ended_elsewhere(eqn: JaxprEqn, ref: Var) -> ValueError:
    return ValueError(f"{eqn.primitive.shown_as} (at {source.describe(eqn.site)}) would end a reference of type {ref.aval} "
                      f"that the function has not made itself. End it where it was made; here, read the value with ref[...].")
