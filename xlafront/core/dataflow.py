"""Dataflow in jaxprs: which equations are live, and which results depend on which inputs.

`forward` and `backward` walk over equations; the other functions are expressed by them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from xlafront.core.effects import effects_on, effects_outside, keeps_alive, no_effects
from xlafront.core.jaxpr import Jaxpr, JaxprEqn, subprograms

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive


def forward(eqns: Iterable[JaxprEqn], marked: Iterable[Any],
            rule: Callable[[JaxprEqn, list[bool]], Sequence[bool] | None] | None = None) -> set[Any]:
    """Return the marked variables and those that depend on them.

    Args:
        eqns: The equations, in order.
        marked: The variables from which the walk starts.
        rule: `(eqn, marks)` returns the marks of an equation's results for those of its operands, of which one is marked; None
            to mark all results. Default: mark all.
    """
    found = set(marked)
    for eqn in eqns:
        if not found.isdisjoint(eqn.invars):
            marks = None if rule is None else rule(eqn, [v in found for v in eqn.invars])
            found.update(eqn.outvars if marks is None else compress(eqn.outvars, marks))
    return found


def backward(eqns: Sequence[JaxprEqn], needed: Iterable[Any],
             rule: Callable[[JaxprEqn, set[Any]], JaxprEqn | None] | None = None) -> tuple[list[JaxprEqn], set[Any]]:
    """Return the equations that compute the needed variables, and these variables with those that they depend on.

    Args:
        eqns: The equations, in order.
        needed: The variables from which the walk starts.
        rule: `(eqn, needed)` returns the equation that stays in place of one, or None if none does. Called for equations that
            have a needed result or effects. Default: keep those that have a needed result.
    """
    found, live_eqns = set(needed), []
    for eqn in reversed(eqns):  # Hot: once for every equation that is compiled.
        if found.isdisjoint(eqn.outvars) and (rule is None or not eqn.effects):
            continue
        live = eqn if rule is None else rule(eqn, found)
        if live is not None:
            live_eqns.append(live)
            found.update(live.invars)
    live_eqns.reverse()
    return live_eqns, found


def any_equation(jaxpr: Jaxpr, key: Hashable, predicate: Callable[[JaxprEqn], Any]) -> bool:
    """True if the predicate holds for an equation of a jaxpr or of the jaxprs in it. Cached with each jaxpr under the key."""
    return jaxpr.memoised(key, lambda: any([
        predicate(eqn) or any([any_equation(inner, key, predicate) for inner in subprograms(eqn.params)])
        for eqn in jaxpr.eqns]))


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
              ) -> tuple[Jaxpr, list[bool]]:
    """Drop the equations that the used outputs do not need.

    An equation with an effect stays. Primitives that contain jaxprs may have a `dce` rule, which drops equations inside.

    Args:
        jaxpr: The jaxpr.
        used_outputs: True for each output that stays.
        instantiate: True for inputs that stay although no equation reads them; True alone for all.

    Returns:
        The jaxpr of the live equations, and for each input whether it is still there.
    """
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(jaxpr.invars)
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs) if used]
    live_eqns, live = backward(jaxpr.eqns, outvars, _live_part)
    effects = no_effects.union(*[eqn.effects for eqn in live_eqns if eqn.effects])
    used_inputs = [v in live or bool(keep) for v, keep in zip(jaxpr.invars, instantiate)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs) if used]
    if effects:
        effects = effects_outside(effects, (*jaxpr.constvars, *invars))
    return jaxpr.replace(invars=invars, outvars=outvars, eqns=live_eqns, effects=effects), used_inputs


def _live_part(eqn: JaxprEqn, needed: set[Any]) -> JaxprEqn | None:
    """Return what is live of an equation that has needed results or effects."""
    if eqn.effects and needed.isdisjoint(eqn.outvars) and not keeps_alive(eqn.effects):
        return None
    rule = eqn.primitive.structured.dce
    if rule is None:
        return eqn
    live = rule([v in needed for v in eqn.outvars], eqn)
    if live is None or not live.effects or live.primitive.effects is None:
        return live
    effects = live.primitive.effects(*[v.aval for v in live.invars], **live.params)  # the pruned jaxpr may have fewer
    return live.replace(effects=effects_on(effects, live.invars))


def dce_closed(closed: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
               ) -> tuple[Jaxpr, list[bool]]:
    """Apply `dce_jaxpr` to a jaxpr; the result is cached with its structure."""
    instantiate_key = instantiate if isinstance(instantiate, bool) else tuple(instantiate)

    def make() -> tuple[Jaxpr, list[bool]]:
        jaxpr, used_inputs = dce_jaxpr(closed.structure, used_outputs, instantiate)
        unchanged = len(jaxpr.eqns) == len(closed.eqns) and all(used_outputs) and all(used_inputs) and all(
            x is y for x, y in zip(jaxpr.eqns, closed.eqns))
        return closed.structure if unchanged else jaxpr, used_inputs

    jaxpr, used_inputs = closed.structure.memoised(("dce", tuple(used_outputs), instantiate_key), make)
    return jaxpr.with_consts(closed.consts), used_inputs


def dependent_results(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Return for each result of a jaxpr whether it depends on a marked input."""
    def find() -> list[bool]:
        reached = forward(jaxpr.eqns, [v for v, marked in zip(jaxpr.invars, inputs) if marked],
                          lambda eqn, marks: dependent_outputs(eqn.primitive, marks, eqn.params))
        return [v in reached for v in jaxpr.outvars]

    return list(jaxpr.memoised(("dependent", tuple(inputs)), find))


def dependent_outputs(primitive: Primitive, operands: Sequence[bool], params: dict[str, Any]) -> list[bool] | None:
    """Return for each result of an operation whether it depends on a marked operand; None if all may."""
    if primitive.structured.depends is not None:
        return primitive.structured.depends(operands, **params)
    program = params.get("jaxpr") or params.get("call_jaxpr") if primitive.structured.dce is not None else None
    return None if program is None else dependent_results(program.structure, operands)
