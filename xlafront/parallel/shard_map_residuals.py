"""Split `shard_map` jaxprs for linearization and checkpoint policies, and the residuals that are passed between the parts.

A residual is passed as an array of which each device has a shard. Residuals that are arguments or results, or that differ from
an
argument only by a varying-axes cast, are not passed separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xlafront.core.basic_primitives import pvary_p
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, Var
from xlafront.lax.shapes import reshape_p
from xlafront.parallel.shard_map_types import global_type_of, pick, spec_axes, vary_results
from xlafront.runtime.sharding import PartitionSpec
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.calls.checkpoint import split_inside


def _residual_spec(aval, mesh, manual: frozenset, check: bool) -> PartitionSpec:
    """Return the spec of a residual: device-local values joined along the first dimension, over the axes that they vary
    over."""
    names = tuple(a for a in mesh.axis_names if a in (aval.vma & manual if check else manual))
    return PartitionSpec(names) if names else PartitionSpec()


def _needs_dimension(aval, spec) -> bool:
    """True for a scalar with a non-empty spec: it is passed with a dimension of size 1."""
    return bool(spec) and not aval.ndim


def _reshape_equation(v, shape: tuple, site) -> tuple[Var, JaxprEqn]:
    new = Var(v.aval.update(shape=shape))
    return new, JaxprEqn([v], [new], reshape_p, {"new_sizes": shape, "dimensions": None, "sharding": None}, site=site)


def _lift_scalar_outputs(closed: Jaxpr, count: int, specs: Sequence[PartitionSpec]) -> Jaxpr:
    """Add a dimension to scalar residuals among the results after the first `count`."""
    lift_flags = [_needs_dimension(v.aval, spec) for v, spec in zip(closed.outvars[count:], specs)]
    if not any(lift_flags):
        return closed
    sites = {v: eqn.site for eqn in closed.eqns for v in eqn.outvars}
    eqns, outvars = list(closed.eqns), list(closed.outvars)
    for i, lift in enumerate(lift_flags, count):
        if lift:
            v = outvars[i]
            outvars[i], eqn = _reshape_equation(v, (1,), None if type(v) is Literal else sites.get(v))
            eqns.append(eqn)
    return closed.replace(eqns=eqns, outvars=outvars)


def _lower_scalar_inputs(closed: Jaxpr, start: int, specs: Sequence[PartitionSpec | None]) -> Jaxpr:
    """Remove the added dimension of the residuals among the inputs from `start` on; a spec of None leaves an input
    unchanged."""
    eqns, invars = [], list(closed.invars)
    for i, spec in enumerate(specs, start):
        if spec is not None and _needs_dimension(invars[i].aval, spec):
            v = invars[i]
            invars[i] = Var(v.aval.update(shape=(1,)))
            eqns.append(_reshape_equation(invars[i], (), None)[1].replace(outvars=[v]))
    return closed.replace(eqns=[*eqns, *closed.eqns], invars=invars) if eqns else closed


# Linearization


class LinearizedShardMap(NamedTuple):
    """A linearized body: `forward: inputs -> (results, passed residuals)`, `linear: (residuals, tangents) -> tangents of
    results`.

    `sources[i]` is the origin of residual `i`: `("input", k)` or `("result", k)`, where passed residuals are counted after the
    results.
    `outputs` flags the results that have a tangent.
    """

    forward: Jaxpr
    linear: Jaxpr
    sources: list[tuple[str, int]]
    specs: list[PartitionSpec]
    outputs: list[bool]


def linearize_shard_map(jaxpr: Jaxpr, active, mesh, out_specs, manual: frozenset, check: bool,
                        element_axes: frozenset) -> LinearizedShardMap:
    linearized = linearize_program(jaxpr, active)
    forward, linear = linearized.forward, linearized.linear
    count = len(jaxpr.out_avals)
    inputs = {v: k for k, v in enumerate(forward.invars)}
    results = {v: k for k, v in reversed([*enumerate(forward.outvars[:count])]) if type(v) is not Literal and (
        not v.aval.is_high and spec_axes(out_specs[k]) == (v.aval.vma & manual if check else manual))}
    casts = {eqn.outvars[0]: eqn for eqn in forward.eqns if eqn.primitive is pvary_p and eqn.invars[0] in inputs}
    computed = iter(forward.outvars[count:])
    sources: list[tuple[str, int]] = []
    specs: list[PartitionSpec] = []
    passed: list[Var] = []
    recast_eqns: list[JaxprEqn] = []
    in_residuals = list(linear.invars)
    for i, forwarded in enumerate(linearized.forwarded_inputs):
        v = None if forwarded is not None else next(computed)
        if v is None:
            sources.append(("input", forwarded))
        elif v in casts:
            eqn = casts[v]
            sources.append(("input", inputs[eqn.invars[0]]))
            in_residuals[i] = Var(eqn.invars[0].aval)
            recast_eqns.append(eqn.replace(invars=[in_residuals[i]], outvars=[linear.invars[i]]))
        elif v in results:
            sources.append(("result", results[v]))
        else:
            sources.append(("result", count + len(passed)))
            passed.append(v)
            specs.append(_residual_spec(v.aval, mesh, manual - element_axes, check))
    first = forward.replace(outvars=[*forward.outvars[:count], *passed])
    second = linear.replace(invars=in_residuals, eqns=[*recast_eqns, *linear.eqns])
    first = _lift_scalar_outputs(first, count, specs)
    second = _lower_scalar_inputs(second, 0, [
        specs[k - count] if kind == "result" and k >= count else None for kind, k in sources])
    if check:
        first = vary_results(first, [*out_specs, *specs])
        second = vary_results(second, pick(out_specs, linearized.outputs))
    return LinearizedShardMap(first, second, sources, specs, linearized.outputs)


# Policies of checkpoint


def split_by_policy(eqn: JaxprEqn, policy) -> tuple[JaxprEqn, JaxprEqn, list[Var]] | None:
    """Split a shard_map under a checkpoint policy: saved values become results that the recomputing shard_map takes."""
    params = eqn.params
    closed, mesh, manual, check = params["jaxpr"], params["mesh"], params["newly_manual_axes"], params["check_vma"]
    split = closed.memoised(("split", policy), lambda: split_inside(closed, policy))
    if not split.num_saved or eqn.effects:
        return None
    count = len(eqn.outvars)
    specs = tuple(_residual_spec(aval, mesh, manual, check) for aval in split.first.out_avals[count:])
    first, recompute = _lift_scalar_outputs(split.first, count, specs), _lower_scalar_inputs(split.recompute, 0, specs)
    saved = [Var(global_type_of(aval, spec, mesh, manual)) for aval, spec in zip(first.out_avals[count:], specs)]
    return (eqn.replace(outvars=[*eqn.outvars, *saved], params=params | {
                "jaxpr": first, "out_specs": (*params["out_specs"], *specs)}),
            eqn.replace(invars=[*saved, *eqn.invars], params=params | {
                "jaxpr": recompute, "in_specs": (*specs, *params["in_specs"])}), saved)
