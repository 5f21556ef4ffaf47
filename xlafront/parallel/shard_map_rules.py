"""The `shard_map` primitive and its transformation rules. Its jaxpr is that of one device, with types of local shards."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding
from xlafront.core import tracing
from xlafront.core.avals import entry_of, with_dimension, with_entry
from xlafront.core.composite_lowering import is_high
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import Jaxpr, dce_closed, effects_by_operand, keeps_alive
from xlafront.core.primitive import Primitive, Structured, Traits
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.all_reductions import psum_p
from xlafront.lax.elementwise import div
from xlafront.lax.manual_computation import lower_body
from xlafront.lax.named_axes import unbound_axis
from xlafront.lax.shapes import reshape_to
from xlafront.parallel.shard_map_ordered import ordered_calls, run_in_order
from xlafront.parallel.shard_map_residuals import linearize_shard_map, split_by_policy
from xlafront.parallel.shard_map_types import (
    axes_in_scope,
    axes_of_vmaps,
    global_type_of,
    pick,
    spec_axes,
    vary_results,
)
from xlafront.runtime.sharding import AxisType, Mesh, PartitionSpec, axes_of
from xlafront.staging import device_assignment
from xlafront.staging.debug_nans import check_steps
from xlafront.staging.dispatch import make_dispatcher
from xlafront.staging.jitted import Jitted
from xlafront.staging.signatures import Options
from xlafront.transforms.ad import backward_logs
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.ad.transpose import transpose_program
from xlafront.transforms.batching.vmap import batch_flat, has_collective_over


def _abstract(*_, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    return [global_type_of(aval, spec, mesh, newly_manual_axes) for aval, spec in zip(jaxpr.out_avals, out_specs)]


def _jvp(primals, tangents, *, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    active = tuple(type(t) is not Zero for t in tangents)
    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        jvp_jaxpr, nonzero = jvp_program(jaxpr, active)
        jvp_out_specs = (*out_specs, *_tangent_specs(pick(out_specs, nonzero)))
        if check_vma:
            jvp_jaxpr = vary_results(jvp_jaxpr, jvp_out_specs)
    results = shard_map_p.bind(
        *primals, *pick(tangents, active), jaxpr=jvp_jaxpr, mesh=mesh, newly_manual_axes=newly_manual_axes,
        in_specs=(*in_specs, *_tangent_specs(pick(in_specs, active))), out_specs=jvp_out_specs, check_vma=check_vma)
    count = len(nonzero)
    out_tangents = iter(results[count:])
    tangent_avals = [tracing.aval_of(x).to_tangent_aval() for x in results[:count]]
    return results[:count], [next(out_tangents) if nz else Zero(aval) for nz, aval in zip(nonzero, tangent_avals)]


def _tangent_specs(specs) -> list:
    return [spec if isinstance(spec, PartitionSpec) else spec.to_tangent_spec() for spec in specs]


def _linearize(primals, tangents, *, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    active = tuple(type(t) is not Zero for t in tangents)
    params = {"mesh": mesh, "newly_manual_axes": newly_manual_axes, "check_vma": check_vma}
    count = len(jaxpr.out_avals)
    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        element_axes = frozenset() if check_vma else axes_of_vmaps()
        linearized = jaxpr.memoised(
            ("shard_map halves", active, mesh, out_specs, newly_manual_axes, check_vma, element_axes),
            lambda: linearize_shard_map(jaxpr, active, mesh, out_specs, newly_manual_axes, check_vma, element_axes))
    result_specs = (*out_specs, *linearized.specs)
    results = shard_map_p.bind(*primals, jaxpr=linearized.forward, in_specs=in_specs, out_specs=result_specs, **params)
    residuals = [primals[k] if kind == "input" else results[k] for kind, k in linearized.sources]
    residual_specs = [in_specs[k] if kind == "input" else result_specs[k] for kind, k in linearized.sources]
    out_tangents = iter(())
    if any(linearized.outputs):
        out_tangents = iter(shard_map_p.bind(
            *residuals, *pick(tangents, active), jaxpr=linearized.linear,
            in_specs=(*residual_specs, *_tangent_specs(pick(in_specs, active))),
            out_specs=tuple(_tangent_specs(pick(out_specs, linearized.outputs))), **params))
    tangent_avals = [tracing.aval_of(x).to_tangent_aval() for x in results[:count]]
    return results[:count], [next(out_tangents) if nonzero else Zero(aval)
                             for nonzero, aval in zip(linearized.outputs, tangent_avals)]


def _transpose(cts, *operands, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    linear = tuple(is_undefined(x) for x in operands)
    has_ct = tuple(type(ct) is not Zero for ct in cts)
    nonlinear = [x for x, lin in zip(operands, linear) if not lin]
    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        transposed, nonzero, logs = transpose_program(jaxpr, linear, has_ct)
        ct_specs = tuple([spec.to_ct_spec() for spec in pick(out_specs, has_ct)])
        ct_out_specs = tuple([spec.to_ct_spec() for spec in pick(pick(in_specs, linear), nonzero)])
        if logs.num_leaves:
            transposed = _with_vectors(transposed, sum(nonzero))
            ct_out_specs += (PartitionSpec(tuple([a for a in mesh.axis_names if a in newly_manual_axes])),) * logs.num_leaves
        if check_vma:
            transposed = vary_results(transposed, ct_out_specs)
        else:
            transposed = _divide_and_sum_cotangents(transposed, len(nonlinear), ct_specs, ct_out_specs, mesh, newly_manual_axes)
    results = iter(shard_map_p.bind(
        *nonlinear, *pick(cts, has_ct), jaxpr=transposed, mesh=mesh, newly_manual_axes=newly_manual_axes, check_vma=check_vma,
        in_specs=(*[s for s, lin in zip(in_specs, linear) if not lin], *ct_specs), out_specs=ct_out_specs))
    flags = iter(nonzero)
    in_cts = [(next(results) if next(flags) else Zero(x.aval)) if lin else None for x, lin in zip(operands, linear)]
    backward_logs.record_results(logs, list(results))
    return in_cts


def _with_vectors(closed: Jaxpr, first: int) -> Jaxpr:
    """Return the jaxpr with vectors in place of scalar results from position `first` on: values of all devices are joined."""
    def run(*xs):
        results = closed(*xs)
        return [*results[:first], *[x if np.ndim(x) else reshape_to(x, (1,)) for x in results[first:]]]

    return tracing.derive(closed, ("vectors", first), run)


def _divide_and_sum_cotangents(closed: Jaxpr, num_nonlinear: int, ct_specs, out_specs, mesh,
                               manual: frozenset) -> Jaxpr:
    """Without varying types: divide the cotangent of a replicated result among the devices along the axis, and sum the
    cotangents of a replicated argument."""
    element_axes = axes_of_vmaps()

    def unmapped_axes(spec):
        return tuple(a for a in mesh.axis_names if a in manual - element_axes - spec_axes(spec))

    divisors = [math.prod([mesh.shape[a] for a in unmapped_axes(spec)]) for spec in ct_specs]
    sum_axes = [unmapped_axes(spec) for spec in out_specs]
    if not any(sum_axes) and all(n == 1 for n in divisors):
        return closed

    def run(*xs):
        cts = [x if n == 1 else div(x, np.asarray(n).astype(tracing.aval_of(x).dtype)[()])
               for x, n in zip(xs[num_nonlinear:], divisors)]
        results = closed(*xs[:num_nonlinear], *cts)
        return [psum_p.bind(x, axes=axes, axis_index_groups=None) if axes else x for x, axes in zip(results, sum_axes)]

    return tracing.derive(closed, ("shared", num_nonlinear, tuple(divisors), tuple(sum_axes)), run)


def _batched_local_type(local_aval, d: int, size: int, batch, manual: frozenset):
    """Return the type of a batch of local shards, whose elements may be sharded over explicit axes."""
    aval = with_dimension(local_aval, d, size)
    entry = tuple([a for a in axes_of(entry_of(batch, d)) if a not in manual])
    if not entry:
        return aval
    local_mesh = batch.explicit_sharding.mesh.update_axis_types({a: AxisType.Manual for a in manual})
    local_sharding = local_aval.explicit_sharding
    if local_sharding is None:
        local_sharding = NamedSharding(local_mesh, PartitionSpec(*[None] * local_aval.ndim))
    return aval.update(sharding=with_entry(local_sharding, d, entry))


def _batch(trace, operands, dims, *, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    batch_avals = tuple([tracing.aval_of(x) for x in operands])
    split = next((e for e in map(entry_of, batch_avals, dims) if e is not None), None)
    names = axes_of(trace.spmd_axis_name if split is None else split)
    vmapped = f"vmap with spmd_axis_name={trace.spmd_axis_name!r}"
    name = f"the shard_map of {jaxpr.debug_info.function_name}"
    element_axes, size = _element_axes(trace, jaxpr, mesh, names, split is not None, newly_manual_axes, vmapped, name)
    auto_names = tuple(a for a in names if a not in newly_manual_axes) if split is None else ()

    def make():
        def run(*xs):
            return batch_flat(jaxpr, xs, dims, size, trace.axis_name, auto_names or None)

        in_avals = [a if d is None else _batched_local_type(a, d, size, batch, newly_manual_axes).update(
            vma=a.vma | set(element_axes) if check_vma else a.vma) for a, d, batch in zip(jaxpr.in_avals, dims, batch_avals)]
        return tracing.trace_with_aux(run, in_avals, jaxpr.debug_info.with_unknown_results())

    def batched_specs(specs, dims):
        return tuple([spec if d is None else _batched_spec(spec, d, element_axes, vmapped, name)
                      for spec, d in zip(specs, dims)])

    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        batched, out_dims = jaxpr.memoised(
            ("shard_map batch", tuple(dims), size, trace.axis_name, names, tracing.thread.axes, tuple(
                entry_of(aval, d) for aval, d in zip(batch_avals, dims))), make)
        batched_out_specs = batched_specs(out_specs, out_dims)
        if check_vma:
            batched = vary_results(batched, batched_out_specs)
    results = shard_map_p.bind(*operands, jaxpr=batched, mesh=mesh, newly_manual_axes=newly_manual_axes, check_vma=check_vma,
                               in_specs=batched_specs(in_specs, dims), out_specs=batched_out_specs)
    return results, out_dims


def _element_axes(trace, jaxpr, mesh, names, by_type: bool, newly_manual_axes, vmapped: str, name: str) -> tuple:
    """Return the mesh axes that shard the elements of a batch, and the number of elements on each device. `names` are the
    requested axes or, if `by_type`, those that already shard the elements according to their type."""
    unknown = [a for a in names if a not in mesh.axis_names]
    if unknown:
        raise KeyError(f"{vmapped} of {name} over {mesh}, which has no axis {unknown[0]!r}.")
    element_axes = tuple(a for a in names if a in newly_manual_axes)
    if by_type:
        for a in element_axes:
            if has_collective_over(jaxpr.structure, a):
                raise unbound_axis(a, f"a collective in {name}", [
                    n for n in mesh.axis_names if n in newly_manual_axes and n not in element_axes])
    if any([has_collective_over(jaxpr.structure, a) for a in (trace.axis_name, *element_axes) if a is not None]):
        element_axes = ()  # collectives need all elements, or the same one, on each device
    if not by_type and element_axes and mesh.are_all_axes_explicit:
        raise ValueError(f"{vmapped} of {name} over {mesh}, of type Explicit: the batch dimension is not sharded over "
                         f"{element_axes}, so that it does not match the in_specs. Shard it with reshard.")
    num_shards = math.prod([mesh.shape[a] for a in element_axes])
    if trace.size % num_shards:
        raise ValueError(f"{vmapped} shards {trace.size} elements over {mesh} in {name}, but {num_shards} does not divide "
                         f"{trace.size}. Pad the batch, or leave spmd_axis_name out.")
    return element_axes, trace.size // num_shards


def _batched_spec(spec: PartitionSpec, dim: int, element_axes: tuple, vmapped: str, name: str) -> PartitionSpec:
    """Return the spec of a batch along `dim` from the spec of an element."""
    conflicts = sorted(map(str, spec_axes(spec) & set(element_axes)))
    if conflicts:
        raise ValueError(
            f"{vmapped} shards its elements over {conflicts[0]!r}, which {name} uses already, in the spec {spec}: it "
                         "cannot appear in in_specs or out_specs. Shard them over a free axis, or leave spmd_axis_name "
                         "out.")
    entries = [*spec, *[None] * (dim - len(spec))]
    entries.insert(dim, element_axes[0] if len(element_axes) == 1 else element_axes or None)
    return spec.update(partitions=entries)


def _dce(used: list[bool], eqn):
    params = eqn.params
    closed, live_in = dce_closed(params["jaxpr"], used)
    if not any(used) and not keeps_alive(closed.effects):
        return None
    if closed.structure is params["jaxpr"].structure:
        return eqn
    return eqn.replace(
        invars=list(pick(eqn.invars, live_in)), outvars=list(pick(eqn.outvars, used)),
        params=params | {"jaxpr": closed, "in_specs": pick(params["in_specs"], live_in),
                         "out_specs": pick(params["out_specs"], used)})


def _discharge(primitive, refs, operands, params, keep_rules):
    """Discharge Refs: the final value of a Ref has the spec of its initial value."""
    with axes_in_scope(params["mesh"], params["newly_manual_axes"], params["check_vma"]):
        discharged, written = discharge_program(params["jaxpr"], [r is not None for r in refs], keep_rules)
    specs, count = params["out_specs"], len(params["out_specs"])
    results = primitive.bind(*operands, **params | {
        "jaxpr": discharged, "out_specs": (*specs, *[params["in_specs"][i] for i in written])})
    return results[:count], dict(zip(written, results[count:]))


# Evaluation


def _steps(run, operands, params) -> None:
    """Run the body for one device after the other, each up to its first collective."""
    mesh = params["mesh"]
    if not isinstance(mesh, Mesh) or not all([isinstance(x, (ArrayImpl, np.ndarray)) for x in operands]):
        return
    indices = [NamedSharding(mesh, spec).addressable_devices_indices_map(np.shape(x))
               for x, spec in zip(operands, params["in_specs"])]
    for device in mesh.local_devices:
        try:
            run(params["jaxpr"], *[np.asarray(x)[index[device]] for x, index in zip(operands, indices)])
        except Exception:  # noqa: S110  (a collective cannot run on one device; it is not the operation that is searched for)
            pass


def _impl(*args, jaxpr, **params):
    """Run a compiled `shard_map`, which is cached with its jaxpr."""
    mesh, out_specs = params["mesh"], params["out_specs"]
    if calls := ordered_calls(jaxpr, mesh):
        return run_in_order(shard_map_p.bind, args, calls, jaxpr=jaxpr, **params)
    structure, consts = weakref.ref(jaxpr.structure), jaxpr.consts  # avoid a cycle: the jaxpr caches the dispatcher

    def make():
        def run(*xs):
            return shard_map_p.bind(*xs, jaxpr=structure().with_consts(consts), **params)

        run.__name__ = run.__qualname__ = f"shard_map_{jaxpr.debug_info.function_name}"
        shardings: Any = device_assignment.UNSPECIFIED
        if not is_high(jaxpr) and params["newly_manual_axes"] == frozenset(mesh.axis_names) and isinstance(mesh, Mesh):
            shardings = [NamedSharding(mesh, spec) for spec in out_specs]
        jitted = Jitted(run, Options(out_shardings=shardings))
        return jitted, make_dispatcher(run, jitted, jitted.cache_miss)

    key = ("run", mesh, params["in_specs"], out_specs, params["newly_manual_axes"], params["check_vma"], *map(id, consts))
    jitted, dispatcher = jaxpr.memoised(key, make)
    results = jitted.evaluate(*args)[0] if config.disable_jit.value else dispatcher(*args)
    if (config.debug_nans.value or config.debug_infs.value) and not jaxpr.effects:  # do not run callbacks again
        check_steps(shard_map_p, args, {"jaxpr": jaxpr, **params})
    return results


shard_map_p = Primitive(
    "shard_map", multiple_results=True, abstract=_abstract, lower=lower_body, jvp=_jvp, transpose=_transpose, impl=_impl,
    effects=lambda *_, jaxpr, **params: effects_by_operand(jaxpr), batch_with_axis=_batch,
    structured=Structured(
        linearize=_linearize, partial_eval=split_by_policy, dce=_dce, discharge=_discharge, debug_steps=_steps,
        scope=lambda mesh, newly_manual_axes, **_: axes_in_scope(mesh, newly_manual_axes, False)),
    traits=Traits(memoise=False))
