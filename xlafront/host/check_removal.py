"""Removal of checks from jaxprs and from custom rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import Jaxpr, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.host.checks import ErrorEffect, check_p, error_trees_of
from xlafront.transforms.calls.custom_jvp import custom_jvp_call_p
from xlafront.transforms.calls.custom_vjp import custom_vjp_call_p
from xlafront.transforms.calls.custom_vmap import custom_vmap_call_p


def without_checks(value, known: frozenset | None = None):
    """Return a jaxpr, and those inside it, without its checks, or without those for the errors in `known`.

    For a tuple, this applies to its items; other values are returned unchanged.
    """
    if isinstance(value, Jaxpr):
        return _jaxpr_without_checks(value.structure, known).with_consts(value.consts)
    if not isinstance(value, tuple):
        return value
    items = [without_checks(item, known) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _jaxpr_without_checks(jaxpr: Jaxpr, known: frozenset | None) -> Jaxpr:
    if not any([isinstance(e, ErrorEffect) for e in jaxpr.effects]):
        return jaxpr

    def make():
        eqns = []
        for eqn in jaxpr.eqns:
            if eqn.primitive is check_p and (known is None or known.issuperset(error_trees_of(eqn.params["error_tree"]))):
                continue
            if eqn.effects and eqn.primitive is not check_p:
                params = {name: without_checks(value, known) for name, value in eqn.params.items()}
                inside = frozenset().union(*[p.effects for p in subprograms(params)])
                eqn = eqn.replace(params=params, effects=_remaining_effects(eqn.effects, inside))
            eqns.append(eqn)
        inside = frozenset().union(*[e.effects for e in eqns])
        return jaxpr.replace(eqns=eqns, effects=_remaining_effects(jaxpr.effects, inside))

    return jaxpr.memoised(("without checks", known), make)


def _remaining_effects(effects: frozenset, inner: frozenset) -> frozenset:
    return frozenset([e for e in effects if not isinstance(e, ErrorEffect) or e in inner])


def _run(function: Callable[..., tuple[Sequence[Any], Any]], values: Sequence[Any], known: frozenset) -> tuple[list, Any]:
    """Call a function that returns its results and something else, without the checks of the results."""
    closed, aux = tracing.trace_with_aux(function, [tracing.aval_of(x) for x in values])
    return without_checks(closed, known)(*values), aux


def _jvp(params: dict[str, Any], known: frozenset) -> dict[str, Any]:
    rule = params["jvp_jaxpr_fun"]

    def flat(primals, tangents):
        active = [type(t) is not Zero for t in tangents]

        def run(*xs):
            active_tangents = iter(xs[len(primals):])
            outs, out_tangents = rule(xs[:len(primals)],
                                      [next(active_tangents) if a else t for a, t in zip(active, tangents)])
            return [*outs, *[t for t in out_tangents if type(t) is not Zero]], (len(outs), out_tangents)

        results, (count, out_tangents) = _run(run, [*primals, *[t for t, a in zip(tangents, active) if a]], known)
        nonzero = iter(results[count:])
        return results[:count], [t if type(t) is Zero else next(nonzero) for t in out_tangents]

    return {"jvp_jaxpr_fun": rule.with_apply(flat)}


def _fwd(params: dict[str, Any], known: frozenset) -> dict[str, Any]:
    rule = params["fwd_jaxpr_thunk"]

    def flat(primals, perturbed):
        def run(*xs):
            outs, residuals, pullback = rule(xs, perturbed)
            return [*outs, *residuals], (len(outs), pullback)

        results, (count, pullback) = _run(run, primals, known)
        return results[:count], results[count:], pullback

    return {"fwd_jaxpr_thunk": rule.with_apply(flat)}


def _batching(params: dict[str, Any], known: frozenset) -> dict[str, Any]:
    rule = params["rule"]

    def flat(size, batched, values):
        return _run(lambda *xs: rule(size, batched, xs), values, known)

    return {"rule": rule.with_apply(flat)}


# Functions `(parameters, known)` that return the parameters of a call with its rule without the checks for known errors.
RULES: dict[Primitive, Callable] = {custom_jvp_call_p: _jvp, custom_vjp_call_p: _fwd,
                         custom_vmap_call_p: _batching}
