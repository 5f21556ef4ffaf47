"""The operation under `shard_map`, and what transformations make of it.

Its program is that of one device, whose types have the shapes of parts.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from xlafront.core import tracing
from xlafront.core.avals import entry_of, with_dimension, with_entry
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, dce_closed, effects_by_operand, eval_jaxpr, jaxpr_as_fun, keeps_alive
from xlafront.core.parts import is_high
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.all_reductions import psum_p
from xlafront.lax.elementwise import div
from xlafront.lax.manual_computation import lower_body
from xlafront.lax.named_axes import unbound_axis
from xlafront.parallel.shard_map_ordered import ordered_calls, run_in_order
from xlafront.parallel.shard_map_residuals import halves_of, split_by_policy
from xlafront.parallel.shard_map_types import axes_in_scope, axes_of_vmaps, edited, pick, spec_axes, vary_results, whole_type
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import AxisType, Mesh, PartitionSpec, axes_of
from xlafront.staging import device_assignment
from xlafront.staging.debug_nans import check_steps
from xlafront.staging.jitted import Jitted, Options, make_dispatcher
from xlafront.transforms.ad.jvp import jvp_program
from xlafront.transforms.ad.transpose import transpose_program
from xlafront.transforms.batching.vmap import batch_flat, works_over


def _abstract(*_, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    return [whole_type(aval, spec, mesh, newly_manual_axes) for aval, spec in zip(jaxpr.out_avals, out_specs)]


def _jvp(primals, tangents, *, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    active = tuple(type(t) is not Zero for t in tangents)
    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        program, nonzero = jvp_program(jaxpr, active)
        outs = (*out_specs, *_of_tangents(pick(out_specs, nonzero)))
        if check_vma:
            program = vary_results(program, outs)
    results = shard_map_p.bind(
        *primals, *pick(tangents, active), jaxpr=program, mesh=mesh, newly_manual_axes=newly_manual_axes,
        in_specs=(*in_specs, *_of_tangents(pick(in_specs, active))), out_specs=outs, check_vma=check_vma)
    count = len(nonzero)
    rest = iter(results[count:])
    whole = [tracing.aval_of(x).to_tangent_aval() for x in results[:count]]
    return results[:count], [next(rest) if nz else Zero(aval) for nz, aval in zip(nonzero, whole)]


def _of_tangents(specs) -> list:
    return [spec if isinstance(spec, PartitionSpec) else spec.to_tangent_spec() for spec in specs]


def _linearize(primals, tangents, *, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    active = tuple(type(t) is not Zero for t in tangents)
    params = {"mesh": mesh, "newly_manual_axes": newly_manual_axes, "check_vma": check_vma}
    count = len(jaxpr.out_avals)
    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        element_axes = frozenset() if check_vma else axes_of_vmaps()
        halves = jaxpr.jaxpr.memoised(
            ("shard_map halves", active, mesh, out_specs, newly_manual_axes, check_vma, element_axes),
            lambda: halves_of(jaxpr, active, mesh, out_specs, newly_manual_axes, check_vma, element_axes))
    result_specs = (*out_specs, *halves.specs)
    results = shard_map_p.bind(*primals, jaxpr=halves.forward, in_specs=in_specs, out_specs=result_specs, **params)
    residuals = [primals[k] if where == "input" else results[k] for where, k in halves.sources]
    residual_specs = [in_specs[k] if where == "input" else result_specs[k] for where, k in halves.sources]
    out_tangents = iter(())
    if any(halves.outputs):
        out_tangents = iter(shard_map_p.bind(
            *residuals, *pick(tangents, active), jaxpr=halves.linear,
            in_specs=(*residual_specs, *_of_tangents(pick(in_specs, active))),
            out_specs=tuple(_of_tangents(pick(out_specs, halves.outputs))), **params))
    whole = [tracing.aval_of(x).to_tangent_aval() for x in results[:count]]
    return results[:count], [next(out_tangents) if used else Zero(aval) for used, aval in zip(halves.outputs, whole)]


def _transpose(cts, *operands, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    linear = tuple(is_undefined(x) for x in operands)
    given = tuple(type(ct) is not Zero for ct in cts)
    others = [x for x, lin in zip(operands, linear) if not lin]
    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        program, nonzero = transpose_program(jaxpr, linear, given)
        ct_specs = tuple([spec.to_ct_spec() for spec in pick(out_specs, given)])
        outs = tuple([spec.to_ct_spec() for spec in pick(pick(in_specs, linear), nonzero)])
        if check_vma:
            program = vary_results(program, outs)
        else:
            program = _shared_out(program, len(others), ct_specs, outs, mesh, newly_manual_axes)
    results = iter(shard_map_p.bind(
        *others, *pick(cts, given), jaxpr=program, mesh=mesh, newly_manual_axes=newly_manual_axes, check_vma=check_vma,
        in_specs=(*[s for s, lin in zip(in_specs, linear) if not lin], *ct_specs), out_specs=outs))
    flags = iter(nonzero)
    return [(next(results) if next(flags) else Zero(x.aval)) if lin else None for x, lin in zip(operands, linear)]


def _shared_out(program: ClosedJaxpr, others: int, ct_specs, out_specs, mesh, manual: frozenset) -> ClosedJaxpr:
    """Without types: a cotangent of a result that is the same along an axis is shared out among the devices there, and
    cotangents of an argument that is the same are summed."""
    element_axes = axes_of_vmaps()

    def rest(spec):
        return tuple(a for a in mesh.axis_names if a in manual - element_axes - spec_axes(spec))

    shares = [math.prod([mesh.shape[a] for a in rest(spec)]) for spec in ct_specs]
    sums = [rest(spec) for spec in out_specs]
    if not any(sums) and all(n == 1 for n in shares):
        return program

    def run(*xs):
        cts = [x if n == 1 else div(x, np.asarray(n).astype(tracing.aval_of(x).dtype)[()])
               for x, n in zip(xs[others:], shares)]
        results = eval_jaxpr(program.jaxpr, program.consts, *xs[:others], *cts)
        return [psum_p.bind(x, axes=axes, axis_index_groups=None) if axes else x for x, axes in zip(results, sums)]

    return edited(program, ("shared", others, tuple(shares), tuple(sums)), run)


def _batch_of(part, d: int, size: int, batch, manual: frozenset):
    """The type of a device's parts of the elements of a batch, which explicit axes may split too."""
    aval = with_dimension(part, d, size)
    entry = tuple([a for a in axes_of(entry_of(batch, d)) if a not in manual])
    if not entry:
        return aval
    inner = batch.explicit_sharding.mesh.update_axis_types({a: AxisType.Manual for a in manual})
    whole = NamedSharding(inner,
                          PartitionSpec(*[None] * part.ndim)) if part.explicit_sharding is None else part.explicit_sharding
    return aval.update(sharding=with_entry(whole, d, entry))


def _batch(trace, operands, dims, *, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    batches = tuple([tracing.aval_of(x) for x in operands])
    split = next((e for e in map(entry_of, batches, dims) if e is not None), None)
    names = axes_of(trace.spmd_axis_name if split is None else split)
    vmapped = f"vmap with spmd_axis_name={trace.spmd_axis_name!r}"
    what = f"the shard_map of {jaxpr.debug_info.function_name}"
    element_axes, size = _axes_of_elements(trace, jaxpr, mesh, names, split is not None, newly_manual_axes, vmapped, what)
    left = tuple(a for a in names if a not in newly_manual_axes) if split is None else ()

    def make():
        out_dims: list = []

        def run(*xs):
            results, out_dims[:] = batch_flat(
                jaxpr_as_fun(jaxpr), xs, dims, size, trace.axis_name, left or None)
            return results

        in_avals = [a if d is None else _batch_of(a, d, size, batch, newly_manual_axes).update(
            vma=a.vma | set(element_axes) if check_vma else a.vma) for a, d, batch in zip(jaxpr.in_avals, dims, batches)]
        return tracing.trace_to_closed_jaxpr(run, in_avals, jaxpr.debug_info.with_unknown_results()), out_dims

    def moved(specs, dims):
        return tuple([spec if d is None else _with_elements(spec, d, element_axes, vmapped, what)
                      for spec, d in zip(specs, dims)])

    with axes_in_scope(mesh, newly_manual_axes, check_vma):
        program, out_dims = jaxpr.jaxpr.memoised(
            ("shard_map batch", tuple(dims), size, trace.axis_name, names, tracing.thread.axes, tuple(
                entry_of(aval, d) for aval, d in zip(batches, dims))), make)
        outs = moved(out_specs, out_dims)
        if check_vma:
            program = vary_results(program, outs)
    results = shard_map_p.bind(*operands, jaxpr=program, mesh=mesh, newly_manual_axes=newly_manual_axes, check_vma=check_vma,
                               in_specs=moved(in_specs, dims), out_specs=outs)
    return results, out_dims


def _axes_of_elements(trace, jaxpr, mesh, names, by_type: bool, newly_manual_axes, vmapped: str, what: str) -> tuple:
    """The mesh axes that spread the elements of a batch over devices, and the number of elements that each device has.

    `names` were asked for, or split the elements already, as their types say (`by_type`).
    """
    unknown = [a for a in names if a not in mesh.axis_names]
    if unknown:
        raise KeyError(f"{vmapped} of {what} over {mesh}, which has no axis {unknown[0]!r}.")
    element_axes = tuple(a for a in names if a in newly_manual_axes)
    if by_type:
        for a in element_axes:
            if works_over(jaxpr.jaxpr, a):
                raise unbound_axis(a, f"a collective in {what}", [
                    n for n in mesh.axis_names if n in newly_manual_axes and n not in element_axes])
    if any([works_over(jaxpr.jaxpr, a) for a in (trace.axis_name, *element_axes) if a is not None]):
        element_axes = ()  # collectives want all elements, or the same one, on each device
    if not by_type and element_axes and mesh.are_all_axes_explicit:
        raise ValueError(f"{vmapped} of {what} over {mesh}, of type Explicit: the elements' dimension is not split over "
                         f"{element_axes}, as in_specs would then say, which does not match. Bring the batch to it with "
                         "reshard.")
    parts = math.prod([mesh.shape[a] for a in element_axes])
    if trace.size % parts:
        raise ValueError(f"{vmapped} spreads {trace.size} elements over {mesh} in {what}, but {parts} does not divide "
                         f"{trace.size}. Pad the batch, or leave spmd_axis_name out.")
    return element_axes, trace.size // parts


def _with_elements(spec: PartitionSpec, dim: int, element_axes: tuple, vmapped: str, what: str) -> PartitionSpec:
    """The spec of a batch, whose elements lie along `dim`, from that of one of them."""
    taken = sorted(map(str, spec_axes(spec) & set(element_axes)))
    if taken:
        raise ValueError(f"{vmapped} spreads its elements over {taken[0]!r}, which {what} uses already, in the spec {spec}: it "
                         "cannot appear in in_specs or out_specs. Spread them over an axis that it leaves free, or leave "
                         "spmd_axis_name out.")
    entries = [*spec, *[None] * (dim - len(spec))]
    entries.insert(dim, element_axes[0] if len(element_axes) == 1 else element_axes or None)
    return spec.update(partitions=entries)


def _dce(used: list[bool], eqn):
    params = eqn.params
    closed, kept = dce_closed(params["jaxpr"], used)
    if not any(used) and not keeps_alive(closed.effects):
        return None
    if closed.jaxpr is params["jaxpr"].jaxpr:
        return eqn
    return eqn.replace(
        invars=list(pick(eqn.invars, kept)), outvars=list(pick(eqn.outvars, used)),
        params=params | {"jaxpr": closed, "in_specs": pick(params["in_specs"], kept),
                         "out_specs": pick(params["out_specs"], used)})


def _discharge(primitive, refs, operands, params, keep_rules):
    """What the body leaves in a reference is split as it was on entry."""
    with axes_in_scope(params["mesh"], params["newly_manual_axes"], params["check_vma"]):
        program, written = discharge_program(params["jaxpr"], [r is not None for r in refs], keep_rules)
    specs, count = params["out_specs"], len(params["out_specs"])
    results = primitive.bind(*operands, **params | {
        "jaxpr": program, "out_specs": (*specs, *[params["in_specs"][i] for i in written])})
    return results[:count], dict(zip(written, results[count:]))


# Running


def _steps(run, operands, params) -> None:
    """One device after the other, each as far as its first exchange with others."""
    mesh = params["mesh"]
    if not isinstance(mesh, Mesh) or not all([isinstance(x, (ArrayImpl, np.ndarray)) for x in operands]):
        return
    parts = [NamedSharding(mesh, spec).addressable_devices_indices_map(np.shape(x))
             for x, spec in zip(operands, params["in_specs"])]
    for device in mesh.local_devices:
        try:
            run(params["jaxpr"], *[np.asarray(x)[part[device]] for x, part in zip(operands, parts)])
        except Exception:  # noqa: S110  (an exchange cannot be made by one device: it is not the operation looked for)
            pass


def _impl(*args, jaxpr, **params):
    """Outside of every trace: compiled once for each program."""
    mesh, outs = params["mesh"], params["out_specs"]
    if calls := ordered_calls(jaxpr, mesh):
        return run_in_order(shard_map_p.bind, args, calls, jaxpr=jaxpr, **params)
    known, consts = weakref.ref(jaxpr.jaxpr), jaxpr.consts  # the dispatcher must not keep alive the program that keeps it

    def make():
        def run(*xs):
            return shard_map_p.bind(*xs, jaxpr=ClosedJaxpr(known(), consts), **params)

        run.__name__ = run.__qualname__ = f"shard_map_{jaxpr.debug_info.function_name}"
        shardings: Any = device_assignment.UNSPECIFIED
        if not is_high(jaxpr.jaxpr) and params["newly_manual_axes"] == frozenset(mesh.axis_names) and isinstance(mesh, Mesh):
            shardings = [NamedSharding(mesh, spec) for spec in outs]
        jitted = Jitted(run, Options(out_shardings=shardings))
        return jitted, make_dispatcher(run, jitted, jitted.cache_miss)

    key = ("run", mesh, params["in_specs"], outs, params["newly_manual_axes"], params["check_vma"], *map(id, consts))
    jitted, dispatcher = jaxpr.jaxpr.memoised(key, make)
    results = jitted.evaluate(*args)[0] if config.disable_jit.value else dispatcher(*args)
    if (config.debug_nans.value or config.debug_infs.value) and not jaxpr.effects:  # callbacks are not to run once more
        check_steps(shard_map_p, args, {"jaxpr": jaxpr, **params})
    return results


shard_map_p = Primitive(
    "shard_map", multiple_results=True, memoise=False, abstract=_abstract, lower=lower_body, jvp=_jvp, linearize=_linearize,
    transpose=_transpose, partial_eval=split_by_policy, dce=_dce, impl=_impl, discharge=_discharge,
    effects=lambda *_, jaxpr, **params: effects_by_operand(jaxpr))
shard_map_p.batch_with_axis = _batch
shard_map_p.steps = _steps
shard_map_p.in_scope = lambda mesh, newly_manual_axes, **_: axes_in_scope(mesh, newly_manual_axes, False)
