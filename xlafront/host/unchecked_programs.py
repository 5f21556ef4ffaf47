"""Programs, and the rules of users, without the checks in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import ClosedJaxpr, Jaxpr, jaxpr_as_fun, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.host.checks import ErrorEffect, check_p, kinds_of
from xlafront.transforms.calls.custom_jvp import custom_jvp_call_p
from xlafront.transforms.calls.custom_vjp import custom_vjp_call_p
from xlafront.transforms.calls.custom_vmap import custom_vmap_call_p


def without_checks(value, known: frozenset | None = None):
    """A program without its checks, or without those for `known` kinds of errors, in the programs that it contains too. Of
    tuples, those in them; what is none is as it was."""
    if isinstance(value, Jaxpr):
        return _of_program(value, known)
    if isinstance(value, ClosedJaxpr):
        return ClosedJaxpr(_of_program(value.jaxpr, known), value.consts)
    if not isinstance(value, tuple):
        return value
    items = [without_checks(item, known) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _of_program(jaxpr: Jaxpr, known: frozenset | None) -> Jaxpr:
    if not any([isinstance(e, ErrorEffect) for e in jaxpr.effects]):
        return jaxpr

    def make():
        eqns = []
        for eqn in jaxpr.eqns:
            if eqn.primitive is check_p and (known is None or known.issuperset(kinds_of(eqn.params["error_tree"]))):
                continue
            if eqn.effects and eqn.primitive is not check_p:
                params = {name: without_checks(value, known) for name, value in eqn.params.items()}
                inside = frozenset().union(*[p.effects for p in subprograms(params)])
                eqn = eqn.replace(params=params, effects=_others(eqn.effects, inside))
            eqns.append(eqn)
        return jaxpr.replace(eqns=eqns, effects=_others(jaxpr.effects, frozenset().union(*[e.effects for e in eqns])))

    return jaxpr.memoised(("without checks", known), make)


def _others(effects: frozenset, left: frozenset) -> frozenset:
    return frozenset([e for e in effects if not isinstance(e, ErrorEffect) or e in left])


def _run(function: Callable[..., Sequence[Any]], values: Sequence[Any], known: frozenset) -> list[Any]:
    jaxpr, consts = tracing.trace_to_jaxpr(function, [tracing.aval_of(x) for x in values])
    return jaxpr_as_fun(without_checks(ClosedJaxpr(jaxpr, consts), known))(*values)


def _jvp(params: dict[str, Any], known: frozenset) -> dict[str, Any]:
    rule = params["jvp_jaxpr_fun"]

    def flat(primals, tangents):
        active = [type(t) is not Zero for t in tangents]
        out_tangents: list[Any] = []
        count = 0

        def run(*xs):
            nonlocal count
            moving = iter(xs[len(primals):])
            outs, found = rule(xs[:len(primals)], [next(moving) if a else t for a, t in zip(active, tangents)])
            out_tangents[:], count = found, len(outs)
            return [*outs, *[t for t in found if type(t) is not Zero]]

        found = _run(run, [*primals, *[t for t, a in zip(tangents, active) if a]], known)
        moved = iter(found[count:])
        return found[:count], [t if type(t) is Zero else next(moved) for t in out_tangents]

    return {"jvp_jaxpr_fun": rule.around(flat)}


def _fwd(params: dict[str, Any], known: frozenset) -> dict[str, Any]:
    rule = params["fwd_jaxpr_thunk"]

    def flat(primals, perturbed):
        count, pullback = 0, None

        def run(*xs):
            nonlocal count, pullback
            outs, residuals, pullback = rule(xs, perturbed)
            count = len(outs)
            return [*outs, *residuals]

        found = _run(run, primals, known)
        return found[:count], found[count:], pullback

    return {"fwd_jaxpr_thunk": rule.around(flat)}


def _batching(params: dict[str, Any], known: frozenset) -> dict[str, Any]:
    rule = params["rule"]

    def flat(size, batched, values):
        flags: list[bool] = []

        def run(*xs):
            outs, flags[:] = rule(size, batched, xs)
            return outs

        return _run(run, values, known), flags

    return {"rule": rule.around(flat)}


# The parameters of a call whose rule is without the checks for known kinds of errors: `(parameters, known)`.
RULES: dict[Primitive, Callable] = {custom_jvp_call_p: _jvp, custom_vjp_call_p: _fwd,
                         custom_vmap_call_p: _batching}
