"""Programs of `shard_map` in two halves, as linearisation and policies of `checkpoint` ask for, and what crosses between them.

A value crosses as an array of which each device keeps its part. One that an argument or a result is already does not cross
at all, nor one that differs from an argument only in its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlafront.core.ir import ClosedJaxpr, JaxprEqn, Literal, Var
from xlafront.lax.all_reductions import pvary_p
from xlafront.lax.shapes import reshape_p
from xlafront.parallel.shard_map_types import pick, spec_axes, vary_results, whole_type
from xlafront.runtime.sharding import PartitionSpec
from xlafront.transforms.ad.checkpoint import split_inside
from xlafront.transforms.ad.linearize import linearize_program


def _spec_across(aval, mesh, manual: frozenset, check: bool) -> PartitionSpec:
    """Values cross as they are on each device: joined along their first dimension over the axes they vary over."""
    names = tuple(a for a in mesh.axis_names if a in (aval.vma & manual if check else manual))
    return PartitionSpec(names) if names else PartitionSpec()


def _is_lifted(aval, spec) -> bool:
    """A scalar has no dimension to be joined along: it crosses with one."""
    return bool(spec) and not aval.ndim


def _reshaped(v, shape: tuple, site) -> tuple[Var, JaxprEqn]:
    new = Var(v.aval.update(shape=shape))
    return new, JaxprEqn([v], [new], reshape_p, {"new_sizes": shape, "dimensions": None, "sharding": None}, site=site)


def _sent(closed: ClosedJaxpr, count: int, specs: Sequence[PartitionSpec]) -> ClosedJaxpr:
    """The first half: scalars among the results after the first `count` with a dimension."""
    jaxpr = closed.jaxpr
    lifted = [_is_lifted(v.aval, spec) for v, spec in zip(jaxpr.outvars[count:], specs)]
    if not any(lifted):
        return closed
    sites = {v: eqn.site for eqn in jaxpr.eqns for v in eqn.outvars}
    eqns, outvars = list(jaxpr.eqns), list(jaxpr.outvars)
    for i, lift in enumerate(lifted, count):
        if lift:
            v = outvars[i]
            outvars[i], eqn = _reshaped(v, (1,), None if type(v) is Literal else sites.get(v))
            eqns.append(eqn)
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)


def _received(closed: ClosedJaxpr, start: int, specs: Sequence[PartitionSpec | None]) -> ClosedJaxpr:
    """The second half, whose inputs from `start` on are what was sent; where there is no spec, as they are."""
    jaxpr = closed.jaxpr
    eqns, invars = [], list(jaxpr.invars)
    for i, spec in enumerate(specs, start):
        if spec is not None and _is_lifted(invars[i].aval, spec):
            v = invars[i]
            invars[i] = Var(v.aval.update(shape=(1,)))
            eqns.append(_reshaped(invars[i], (), None)[1].replace(outvars=[v]))
    return ClosedJaxpr(jaxpr.replace(eqns=[*eqns, *jaxpr.eqns], invars=invars), closed.consts) if eqns else closed


# Linearisation


class Halves(NamedTuple):
    """`forward: inputs -> (results, what crosses)`, `linear: (residuals, tangents) -> tangents of results`.

    `sources[i]` says what residual `i` is: `("input", k)`, `("result", k)`, where results go on to what crosses. `outputs` says
    which results have a tangent.
    """

    forward: ClosedJaxpr
    linear: ClosedJaxpr
    sources: list[tuple[str, int]]
    specs: list[PartitionSpec]
    outputs: list[bool]


def halves_of(jaxpr: ClosedJaxpr, active, mesh, out_specs, manual: frozenset, check: bool, element_axes: frozenset) -> Halves:
    split = linearize_program(jaxpr, active)
    forward, linear = split.forward.jaxpr, split.linear.jaxpr
    count = len(jaxpr.out_avals)
    inputs = {v: k for k, v in enumerate(forward.invars)}
    results = {v: k for k, v in reversed([*enumerate(forward.outvars[:count])]) if type(v) is not Literal and (
        not v.aval.is_high and spec_axes(out_specs[k]) == (v.aval.vma & manual if check else manual))}
    casts = {eqn.outvars[0]: eqn for eqn in forward.eqns if eqn.primitive is pvary_p and eqn.invars[0] in inputs}
    computed = iter(forward.outvars[count:])
    sources: list[tuple[str, int]] = []
    specs: list[PartitionSpec] = []
    crossing: list[Var] = []
    cast_again: list[JaxprEqn] = []
    in_residuals = list(linear.invars)
    for i, known in enumerate(split.known):
        v = None if known is not None else next(computed)
        if v is None:
            sources.append(("input", known))
        elif v in casts:
            eqn = casts[v]
            sources.append(("input", inputs[eqn.invars[0]]))
            in_residuals[i] = Var(eqn.invars[0].aval)
            cast_again.append(eqn.replace(invars=[in_residuals[i]], outvars=[linear.invars[i]]))
        elif v in results:
            sources.append(("result", results[v]))
        else:
            sources.append(("result", count + len(crossing)))
            crossing.append(v)
            specs.append(_spec_across(v.aval, mesh, manual - element_axes, check))
    first = ClosedJaxpr(forward.replace(outvars=[*forward.outvars[:count], *crossing]), split.forward.consts)
    second = ClosedJaxpr(linear.replace(invars=in_residuals, eqns=[*cast_again, *linear.eqns]), split.linear.consts)
    first = _sent(first, count, specs)
    second = _received(second, 0, [
        specs[k - count] if where == "result" and k >= count else None for where, k in sources])
    if check:
        first = vary_results(first, [*out_specs, *specs])
        second = vary_results(second, pick(out_specs, split.outputs))
    return Halves(first, second, sources, specs, split.outputs)


# Policies of checkpoint


def split_by_policy(eqn: JaxprEqn, policy) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """What the policy saves inside becomes results of the first half, which the one that recomputes takes."""
    params = eqn.params
    closed, mesh, manual, check = params["jaxpr"], params["mesh"], params["newly_manual_axes"], params["check_vma"]
    split = closed.jaxpr.memoised(("split", policy), lambda: split_inside(closed, policy))
    if not split.num_saved or eqn.effects:
        return None
    count = len(eqn.outvars)
    specs = tuple(_spec_across(aval, mesh, manual, check) for aval in split.first.out_avals[count:])
    first, again = _sent(split.first, count, specs), _received(split.again, 0, specs)
    saved = [Var(whole_type(aval, spec, mesh, manual)) for aval, spec in zip(first.out_avals[count:], specs)]
    return (eqn.replace(outvars=[*eqn.outvars, *saved], params=params | {
                "jaxpr": first, "out_specs": (*params["out_specs"], *specs)}),
            eqn.replace(invars=[*saved, *eqn.invars], params=params | {
                "jaxpr": again, "in_specs": (*specs, *params["in_specs"])}), saved)
