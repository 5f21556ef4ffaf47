"""The primitive `pallas_call`, which runs a kernel on blocks of arrays, and its rules.

The operands are the dynamic sizes of the grid, the scalars for index maps, and the inputs; the results are the outputs. The
parameter `jaxpr` is the kernel: a jaxpr of references without results. `GridMapping` describes the references.
"""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlafront import tuning
from xlafront.base import config
from xlafront.base.meshes import active
from xlafront.control.scan import map as map_elements
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import move_dim, to_dtype
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.dataflow import any_equation
from xlafront.core.ir import DebugInfo, Jaxpr, JaxprEqn, RefEffect
from xlafront.core.primitive import MeshRules, Primitive, Structured, Traits
from xlafront.core.program_key import program_key
from xlafront.core.refs import AbstractRef, RefTangent
from xlafront.core.tangents import instantiate
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import joint_vma
from xlafront.core.zeros import Zero
from xlafront.host.callbacks import io_callback
from xlafront.lax import refs as ref_operations
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.pallas.device_threads import in_rounds
from xlafront.pallas.divergence import depends_on_device
from xlafront.pallas.grid_mapping import GridMapping, grid_mapping, inline_scalar_constants, source_name
from xlafront.pallas.interpret import interpret as run_in_loop, values_program
from xlafront.pallas.interpret_params import InterpretParams, forced_params
from xlafront.pallas.kernel_operation import on_core
from xlafront.pallas.primitives import KernelScope, index_aval, kernel_scope
from xlafront.pallas.semaphores import check_semaphores
from xlafront.pallas.simulator import simulated
from xlafront.pallas.specs import GridSpec, MemorySpace, grid_of, no_block_spec
from xlafront.pallas.subcores import in_phases
from xlafront.pallas.triton_primitives import barrier_effect
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.calls.programs import evaluate

# The primitive


def _types(*avals, jaxpr: Jaxpr, out_avals, **_):
    axes = joint_vma(avals)
    if tracing.checked_axes() - axes and depends_on_device(jaxpr):
        axes |= tracing.checked_axes()
    return [a.update(vma=a.vma | axes) if axes else a for a in out_avals]


@contextmanager
def _unchecked_axes():
    """Bind the mesh axes in scope without types that vary over them: references of kernels have no such types."""
    saved = tracing.thread.axes
    tracing.thread.axes = tuple([tracing.MeshAxis(*a, False, a.mesh, a.cast_varying) if type(a) is tracing.MeshAxis else a
                                 for a in saved])
    try:
        yield
    finally:
        tracing.thread.axes = saved


def _effects(*_, jaxpr: Jaxpr, **params):
    """Return the effects of a kernel other than those on its references and its core."""
    within = (*on_core, barrier_effect)
    return frozenset([e for e in jaxpr.effects if not isinstance(e, RefEffect) and e not in within])


def _sequential(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    """Return the kernel without operations that wait for other threads, which are interpreted one after the other."""
    with _unchecked_axes():
        return in_rounds(*in_phases(jaxpr, mapping))


def _run_interpreted(*operands: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, **params: Any) -> list[Any]:
    jaxpr, grid_mapping = _sequential(jaxpr, grid_mapping)
    return run_in_loop(*operands, jaxpr=jaxpr, grid_mapping=grid_mapping, **params)


_interpreted = lower_fun(_run_interpreted, multiple_results=True)


def _lower(ctx, *operands, **params):
    if not params["interpret"]:
        is_empty = params["grid_mapping"].is_empty  # then there is nothing to compile
        if ctx.platform == "cuda" and not is_empty:
            from xlafront.pallas.to_triton import kernel  # start-up: imports MLIR's bindings

            return kernel.lower(ctx, *operands, **params)
        if ctx.platform == "tpu" and not is_empty:
            from xlafront.pallas.to_mosaic import call  # start-up: imports MLIR's bindings

            return call.lower(ctx, *operands, **params)
        if ctx.platform == "cpu":
            raise ValueError("only interpret mode is supported on the CPU backend: nothing compiles kernels for CPUs. Give "
                             f"pallas_call of {params['jaxpr'].debug_info.label} interpret=True.")
        if ctx.platform not in ("cuda", "tpu"):
            warnings.warn(f"the kernel {params['jaxpr'].debug_info.label} is run as a loop that XLA compiles, as with "
                          "interpret=True: kernels are not compiled for this platform yet.", stacklevel=2)
    if isinstance(params["interpret"], InterpretParams):
        ctx.module_context.tuning.add(tuning.SIMULATED_KERNELS)
    return _interpreted(ctx, *operands, **params)


_kernel_cache: BoundedCache = BoundedCache(64)  # kernels that have run eagerly, by their computation


def _evaluated(*args, **params):
    """Run the kernel eagerly. Equal kernels share one executable."""
    jaxpr, mapping = _cached_kernel(params["jaxpr"], params["grid_mapping"])
    return evaluate(pallas_call_p, args, params | {"jaxpr": jaxpr, "grid_mapping": mapping}, jaxpr)


def _cached_kernel(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    def find_equal():
        program, grid_queries, written = values_program(_sequential(jaxpr, mapping)[0])
        maps = [b.index_map_jaxpr.structure for b in mapping.block_mappings]
        computed = [program_key(p) for p in (program.structure, *maps)]
        if program.consts or None in computed:
            return jaxpr, mapping
        blocks = tuple([(b.block_shape, b.array_aval) for b in mapping.block_mappings])
        key = (*computed, *grid_queries, *written, mapping.grid, mapping.vmapped_dims, mapping.num_inputs, blocks,
               mapping.index_avals, mapping.scratch_avals)
        return _kernel_cache.get(key) or _kernel_cache.put(key, (jaxpr, mapping))

    return jaxpr.memoised_with((), ("known", mapping), find_equal)


def _jvp(primals, tangents, /, *, jaxpr, grid_mapping, out_avals, input_output_aliases, **params):
    """Return results and tangents of a kernel on duals: active arrays get a second array of tangents, with equal blocks."""
    mapping = grid_mapping
    num_scalars = mapping.num_dynamic_grid_bounds + mapping.num_index_operands
    aliases = dict(input_output_aliases)
    if any([type(t) is not Zero for t in tangents[:num_scalars]]) or any([i < num_scalars for i in aliases]):  # active scalars
        params |= {"jaxpr": jaxpr, "grid_mapping": mapping, "out_avals": out_avals,
                   "input_output_aliases": input_output_aliases}
        return jvp_flat(_as_loop(tuple(map(tracing.aval_of, primals)), params), primals, tangents)
    array_tangents = list(tangents[num_scalars:])
    for i, o in aliases.items():  # an aliased output has a tangent, so its initial value needs one
        if type(array_tangents[i - num_scalars]) is Zero and _has_tangent(out_avals[o]):
            array_tangents[i - num_scalars] = instantiate(array_tangents[i - num_scalars])
    active = tuple([type(t) is not Zero for t in array_tangents])
    outputs = tuple(map(_has_tangent, out_avals))
    dual, dual_mapping, arrays = jaxpr.memoised_with((), ("kernel of duals", mapping, active), lambda: _dual(
        jaxpr, mapping, active, outputs))
    active_tangents = [t for t, a in zip(array_tangents, active) if a]
    active_inputs = [num_scalars + i for i, a in enumerate(active) if a]
    tangent_inputs = {i: num_scalars + len(array_tangents) + k for k, i in enumerate(active_inputs)}
    tangent_outputs = {o: len(out_avals) + k for k, o in enumerate([o for o, a in enumerate(outputs) if a])}
    results = pallas_call_p.bind(
        *primals, *active_tangents, *arrays, jaxpr=dual, grid_mapping=dual_mapping,
        out_avals=(*out_avals, *[a for a, out in zip(out_avals, outputs) if out]),
        input_output_aliases=(*input_output_aliases, *[(tangent_inputs[i], tangent_outputs[o]) for i, o in input_output_aliases
                                                       if i in tangent_inputs and o in tangent_outputs]), **params)
    derivatives = iter(results[len(out_avals):])
    return results[:len(out_avals)], [next(derivatives) if out else Zero(a.to_tangent_aval())
                                      for a, out in zip(out_avals, outputs)]


def _has_tangent(aval) -> bool:
    return isinstance(aval.dtype, np.dtype) and dtypes.is_inexact(aval.dtype)


def _dual(jaxpr: Jaxpr, mapping: GridMapping, active: Sequence[bool], outputs: Sequence[bool]
          ) -> tuple[Jaxpr, GridMapping, list[Any]]:
    """Return the kernel on values and tangents, its grid mapping, and the array constants that it takes as inputs."""
    kernel, arrays = inline_scalar_constants(*_dual_kernel(jaxpr, mapping, active, outputs))
    return *_pass_constants(kernel, _dual_mapping(mapping, active, outputs)), arrays


def _dual_mapping(mapping: GridMapping, active: Sequence[bool], outputs: Sequence[bool]) -> GridMapping:
    ins, outs = mapping.block_mappings[:mapping.num_inputs], mapping.block_mappings[mapping.num_inputs:]
    blocks = (*ins, *[b for b, a in zip(ins, active) if a], *outs, *[b for b, a in zip(outs, outputs) if a])
    return GridMapping(mapping.grid, blocks, len(ins) + sum(active), len(outs) + sum(outputs), mapping.index_avals,
                       (*mapping.scratch_avals, *[a for a in mapping.scratch_avals if _has_tangent(a)]), mapping.vmapped_dims)


def _dual_kernel(jaxpr: Jaxpr, mapping: GridMapping, active: Sequence[bool], outputs: Sequence[bool]) -> tuple[Jaxpr, list]:
    """Return the kernel on references to values and tangents. While it runs, tangents are values (`RefTangent`)."""
    counts = [mapping.num_index_operands, mapping.num_inputs, sum(active), mapping.num_outputs, sum(outputs),
              mapping.num_scratch_operands]
    avals = [v.aval for v in jaxpr.invars]
    scalars, ins, outs, scratch = _grouped(avals, [mapping.num_index_operands, mapping.num_inputs, mapping.num_outputs])
    active_groups = [False] * len(scalars), active, outputs, [_has_tangent(a) for a in scratch]

    def dual(*refs):
        index_refs, in_refs, in_tangents, out_refs, out_tangents, scratch_refs, scratch_tangents = _grouped(refs, counts)
        primals = [*index_refs, *in_refs, *out_refs, *scratch_refs]
        tangent_refs = iter([*in_tangents, *out_tangents, *scratch_tangents])
        refs_or_none = [next(tangent_refs) if m else None for m in [m for group in active_groups for m in group]]
        ref_tangents = [Zero(a.to_tangent_aval()) if t is None else RefTangent(ref_operations.get(t))
                        for a, t in zip(avals, refs_or_none)]
        jvp_flat(jaxpr, primals, ref_tangents)
        for ref_tangent, ref in zip(ref_tangents, refs_or_none):
            if ref is not None:
                ref_operations.set(ref, ..., instantiate(ref_tangent.value))
        return []

    duals = [*scalars, *ins, *[a for a, m in zip(ins, active) if m], *outs, *[a for a, m in zip(outs, outputs) if m],
             *scratch, *[a for a in scratch if _has_tangent(a)]]
    return tracing.trace_to_jaxpr(dual, duals, jaxpr.debug_info.with_unknown_names())


def _pass_constants(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    """Make the array constants of a kernel inputs, for which it gets references behind the others.

    The constants are NumPy arrays, which some internal functions create.
    """
    count = len(jaxpr.constvars)
    if not count:
        return jaxpr, mapping
    start = mapping.num_index_operands + mapping.num_inputs

    def kernel(*refs):
        consts = [ref_operations.get(r) for r in refs[start:start + count]]
        jaxpr.with_consts(consts)(*refs[:start], *refs[start + count:])
        return []

    avals, const_avals = [v.aval for v in jaxpr.invars], [v.aval for v in jaxpr.constvars]
    const_refs = [AbstractRef(a, MemorySpace.DEFAULT) for a in const_avals]
    kernel_jaxpr, _ = tracing.trace_to_jaxpr(kernel, [*avals[:start], *const_refs, *avals[start:]],
                                             jaxpr.debug_info.with_unknown_names())
    return kernel_jaxpr, mapping.with_arrays(const_avals)


def _grouped(items: Sequence, counts: Sequence[int]) -> list[list]:
    """Split items into groups with these counts, and the rest."""
    groups, start = [], 0
    for n in counts:
        groups.append(list(items[start:start + n]))
        start += n
    return [*groups, list(items[start:])]


def _as_loop(avals: tuple, params: Mapping[str, Any]) -> Jaxpr:
    """Return the jaxpr that `interpret=True` runs."""
    def make():
        def run(*operands):
            return _run_interpreted(*operands, **params)

        return tracing.trace_to_closed_jaxpr(run, avals, params["jaxpr"].debug_info.with_unknown_names())

    return params["jaxpr"].memoised_with((), ("loop", params["grid_mapping"], params["input_output_aliases"], avals), make)


def _linearize(primals, tangents, /, **params):
    """Linearize the kernel as the interpreted loop, since reverse mode needs what each step has read."""
    jaxpr = params["jaxpr"]
    if _sequential(jaxpr, params["grid_mapping"])[0] is not jaxpr:
        raise _not_reversible(jaxpr, "waits for other devices or subcores. Give")
    if isinstance(params["interpret"], InterpretParams) and any_equation(jaxpr, "while", _is_while):
        raise _not_reversible(jaxpr, "is simulated (InterpretParams). Use interpret=True, or give")
    program = _as_loop(tuple(map(tracing.aval_of, primals)), params)
    split = linearize_program(program, tuple([type(t) is not Zero for t in tangents]))
    count = len(program.out_avals)
    found = split.forward(*primals)
    computed = iter(found[count:])
    residuals = [next(computed) if k is None else primals[k] for k in split.forwarded_inputs]
    moved = iter(split.linear(*residuals, *[t for t in tangents if type(t) is not Zero]))
    return found[:count], [next(moved) if used else Zero(a.to_tangent_aval())
                           for used, a in zip(split.outputs, program.out_avals)]


def _not_reversible(jaxpr: Jaxpr, reason: str) -> NotImplementedError:
    return NotImplementedError(f"the kernel {jaxpr.debug_info.label} cannot be differentiated in reverse mode, since it "
                               f"{reason} it a derivative with custom_vjp.")


def _is_while(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "while"


def _batch(axis_size, operands, dims, *, jaxpr, grid_mapping, out_avals, **params):
    """Batch the kernel by a new first axis of the grid."""
    mapping = grid_mapping
    num_scalars = mapping.num_dynamic_grid_bounds + mapping.num_index_operands
    params |= {"jaxpr": jaxpr}
    aliased_inputs = {i for i, _ in params["input_output_aliases"]}
    # Batched grid sizes or scalars need a loop over the batch.
    if any([d is not None for d in dims[:num_scalars]]) or any([i < num_scalars for i in aliased_inputs]):
        def one(elements):
            sliced = iter(elements)
            return pallas_call_p.bind(*[x if d is None else next(sliced) for x, d in zip(operands, dims)],
                                      grid_mapping=mapping, out_avals=out_avals, **params)

        return map_elements(one, [move_dim(x, d, 0) for x, d in zip(operands, dims) if d is not None]), [0] * len(out_avals)
    mapped = [d is not None or i in aliased_inputs for i, d in enumerate(dims)][num_scalars:]
    batched_mapping = mapping.batched(axis_size, (*mapped, *[True] * mapping.num_outputs))
    batched_operands = [x if d is None and not m else broadcast_batch(x, None, axis_size) if d is None else move_dim(x, d, 0)
                        for x, d, m in zip(operands[num_scalars:], dims[num_scalars:], mapped)]
    results = pallas_call_p.bind(*operands[:num_scalars], *batched_operands, grid_mapping=batched_mapping, out_avals=tuple(
        [a.update(shape=(axis_size, *a.shape)) for a in out_avals]), **params)
    return results, [0] * len(out_avals)


pallas_call_p = Primitive(
    "pallas_call", multiple_results=True, abstract=_types, effects=_effects, lower=_lower, jvp=_jvp, batch=_batch,
    impl=_evaluated, structured=Structured(linearize=_linearize, expand=_as_loop), traits=Traits(memoise=False),
    mesh=MeshRules(binds_devices=lambda **_: False))


# The public function


class _FrozenDict(dict):
    """A hashable dict, for options that are parameters of the primitive."""

    def __hash__(self):
        return hash(frozenset(self.items()))


def _frozen(x: Any) -> Any:
    return _FrozenDict({k: _frozen(v) for k, v in x.items()}) if isinstance(x, Mapping) else x


@boundary
def pallas_call(kernel: Callable[..., None], out_shape: Any, *, grid_spec: GridSpec | None = None, grid: Any = (),
                in_specs: Any = no_block_spec, out_specs: Any = no_block_spec, scratch_shapes: Any = (),
                input_output_aliases: Mapping[int, int] = {}, debug: bool = False,  # noqa: B006
                interpret: Any = False, name: str | None = None, compiler_params: Any = None,
                cost_estimate: Any = None, metadata: Mapping[str, str] | None = None) -> Callable:
    """Make a function of arrays that runs a kernel once for each point of a grid, on a block of each array.

    Args:
        kernel: Function of a reference for each argument, for each result, and for scratch memory. It reads and writes these
            and returns nothing.
        out_shape: Pytree of the shapes and dtypes of the results, such as `ShapeDtypeStruct`.
        grid_spec: Grid, block specs and scratch shapes in one object, in place of the next four arguments.
        grid: Size of the grid along each axis; `pl.program_id` returns the current index. Default: a single point.
        in_specs, out_specs: A `pl.BlockSpec` for each array. Default: the kernel sees unblocked arrays.
        scratch_shapes: Scratch memory, whose content persists between points of the grid.
        input_output_aliases: Indices of results by those of the arguments whose memory they share.
        debug: If True, print the jaxpr of the kernel.
        interpret: If True, run the kernel as a loop over the grid, on any platform. Required on CPU. `pltpu.InterpretParams`
            simulate a TPU: copies that take time, semaphores, and checks for races.
        name: Name of the kernel. Default: that of the function.
        compiler_params: Options for the compiler of the platform.
        cost_estimate: A `pl.CostEstimate` for the compiler of the platform.
        metadata: Texts by name, for the compiler of the platform.

    Returns:
        A function of the arguments, which returns the results in the structure of `out_shape`.

    Example:
        >>> def double(x_ref, o_ref):
        ...     o_ref[...] = 2 * x_ref[...]
        >>> pl.pallas_call(double, out_shape=xf.ShapeDtypeStruct((4,), "float32"), interpret=True)(xnp.arange(4.0))
        Array([0., 2., 4., 6.], dtype=float32)
    """
    if not callable(kernel):
        raise errors.not_callable("pallas_call", kernel)
    if grid_spec is None:
        grid_spec = GridSpec(grid, in_specs, out_specs, scratch_shapes)
    else:
        for argument, value, default in (("grid", grid_of(grid), ()), ("in_specs", in_specs, no_block_spec),
                                     ("out_specs", out_specs, no_block_spec), ("scratch_shapes", scratch_shapes, ())):
            if value != default:
                raise ValueError(f"with grid_spec, `{argument}` must be {default!r}, since it is part of grid_spec. Got "
                                 f"{errors.short(value)}.")
    if not (interpret is None or isinstance(interpret, (bool, np.bool_, InterpretParams))):
        raise TypeError(f"pallas_call takes interpret as True, False or pltpu.InterpretParams, got {errors.short(interpret)}.")
    kernel_call = _KernelCall(kernel, out_shape, grid_spec, dict(input_output_aliases), bool(debug), name)
    options = {"compiler_params": _frozen(compiler_params), "cost_estimate": cost_estimate, "debug": bool(debug),
               "interpret": interpret, "mesh": getattr(kernel, "core_mesh", None), "metadata": _frozen(metadata), "name": name}

    @boundary
    def call(*args):
        leaves, in_tree = tree.flatten(args)
        for i, x in enumerate(leaves):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"pallas_call of {kernel_call.name}", tree.path_of(args, i))
        avals = [tracing.aval_of(x).strip_weak_type() for x in leaves]
        leaves = [to_dtype(x, a.dtype) if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)) else x
                  for x, a in zip(leaves, avals)]
        jaxpr, mapping, aliases, arrays = kernel_call.traced(in_tree, tuple([ShapedArray(a.shape, a.dtype) for a in avals]))
        bounds = [to_dtype(n, index_aval.dtype) for n, size in zip(grid_spec.grid, mapping.grid) if size is None]
        params = {"jaxpr": jaxpr, "grid_mapping": mapping, "out_avals": kernel_call.out_avals,
                  "input_output_aliases": aliases, **options, "interpret": interpret or forced_params() or False}
        bind = _simulate if isinstance(params["interpret"], InterpretParams) else pallas_call_p.bind
        return kernel_call.out_tree.unflatten(bind(*bounds, *leaves, *arrays, **params))

    call.__name__ = kernel_call.name
    return call


def _simulate(*operands: Any, jaxpr: Jaxpr, grid_mapping: GridMapping, out_avals: tuple, interpret: InterpretParams,
              input_output_aliases: tuple, **options: Any) -> list[Any]:
    """Run a kernel with its checks, and report what they find."""
    semantics = getattr(options["compiler_params"], "dimension_semantics", None)

    def make():
        kernel, mapping = _sequential(jaxpr, grid_mapping)
        params = interpret
        if mapping.grid != grid_mapping.grid:  # several subcores, whose memory the simulation has as one
            if params.detect_races:
                raise NotImplementedError(f"InterpretParams does not detect races of the kernel {jaxpr.debug_info.label}: "
                                          f"its subcores wait for each other or share counts. Leave detect_races out.")
            params = dataclasses.replace(params, dma_execution_mode="eager")
        with _unchecked_axes():
            kernel, consts, mapping, report = simulated(kernel, mapping, params, semantics, input_output_aliases)
        kernel, arrays = inline_scalar_constants(kernel, consts)
        return *_pass_constants(kernel, mapping), arrays, report

    kernel, mapping, arrays, report = jaxpr.memoised_with(
        (), ("simulated", grid_mapping, interpret, semantics, input_output_aliases), make)
    found_aval = mapping.block_mappings[-1].array_aval
    *results, found = pallas_call_p.bind(
        *operands, *arrays, jaxpr=kernel, grid_mapping=mapping, out_avals=(*out_avals, found_aval), interpret=interpret,
        input_output_aliases=input_output_aliases, **options)
    if isinstance(found, tracing.Tracer):
        io_callback(report.check, None, found)
    else:
        report.check(found)
    return results


# Calls of `pallas_call` with one kernel and references of equal types share its trace, also with other index maps.
_traces_by_kernel: weakref.WeakKeyDictionary[Callable, BoundedCache] = weakref.WeakKeyDictionary()


def _traces_of(kernel: Callable) -> BoundedCache:
    """Return the cache of the traces of a kernel; a new one if it has no hash or no weak references."""
    try:
        return _traces_by_kernel.setdefault(kernel, BoundedCache(32))
    except TypeError:
        return BoundedCache(32)


class _KernelCall:
    """A kernel and the specs of its arrays. It is traced once per argument types."""

    def __init__(self, kernel: Callable, out_shape: Any, spec: GridSpec, aliases: dict[int, int], debug: bool,
                 name: str | None):
        self.kernel, self.spec, self.aliases, self.debug = kernel, spec, aliases, debug
        self.name = name or signatures.function_name(kernel)
        if isinstance(out_shape, list):
            out_shape = tuple(out_shape)
        shapes, self.out_tree = tree.flatten(out_shape)
        for x in shapes:
            if not hasattr(x, "shape") or not hasattr(x, "dtype"):
                raise ValueError(f"out_shape of pallas_call of {self.name} takes what has a shape and a dtype, as "
                                 f"ShapeDtypeStruct((8,), 'float32'); invalid out_shape type {type(x).__name__}, "
                                 f"{errors.short(x)}.")
        self.out_avals = tuple([ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype)) for x in shapes])
        self.out_names = [path.replace("result", "outputs", 1) for path in tree.result_paths(self.out_tree)]
        self.single = not isinstance(out_shape, tuple)
        self.traces: BoundedCache = BoundedCache(32)

    def traced(self, in_tree, in_avals: tuple) -> tuple[Jaxpr, GridMapping, tuple, list[np.ndarray]]:
        """Return the kernel's jaxpr for arguments of these types, and the array constants that it takes as inputs."""
        key = (in_tree, in_avals, config.trace_context_key(), tracing.thread.axes, active.mesh)
        return self.traces.get(key) or self.traces.put(key, self._trace(in_tree, in_avals))

    def _trace(self, in_tree, in_avals: tuple) -> tuple[Jaxpr, GridMapping, tuple, list[np.ndarray]]:
        names = [path.replace("result", "args", 1) for path in tree.result_paths(in_tree)]
        mapping = grid_mapping(self.spec, in_avals, in_tree, names, self.out_avals, self.out_tree, self.out_names)
        bounds = mapping.num_dynamic_grid_bounds
        aliases = tuple([(bounds + i, o) for i, o in self._checked_aliases(in_avals)])
        scratch_tree = tree.structure(self.spec.scratch_shapes)
        avals = (*mapping.index_avals, *[b.block_aval for b in mapping.block_mappings], *mapping.scratch_avals)
        key = (self.name, mapping.grid, avals, len(in_avals), in_tree, self.out_tree, self.single, scratch_tree,
               config.trace_context_key(), tracing.thread.axes, active.mesh)
        cache = _traces_of(self.kernel)
        jaxpr, arrays = cache.get(key) or cache.put(key, self._trace_kernel(mapping, avals, in_tree, scratch_tree))
        jaxpr, mapping = _pass_constants(jaxpr, mapping)
        if self.debug:
            print(f"\nThe kernel's program, of {source_name(self.kernel)}:\n{jaxpr}\nIts grid: {mapping}")
        return jaxpr, mapping, aliases, arrays

    def _trace_kernel(self, mapping: GridMapping, avals: Sequence[AbstractRef], in_tree, scratch_tree
                      ) -> tuple[Jaxpr, list[np.ndarray]]:
        """Return the jaxpr of the kernel for references of these types, and its array constants."""
        num_inputs = mapping.num_index_operands + mapping.num_inputs
        source = source_name(self.kernel)

        def flat(*tracers):
            scope = kernel_scope.set(KernelScope(tracing.thread.trace, mapping.grid, memory={}))
            try:
                ins, outs, scratch = _grouped(tracers, [num_inputs, len(self.out_avals)])
                results = self.out_tree.unflatten(outs)
                scratch = scratch_tree.unflatten(scratch)
                if not isinstance(scratch, (tuple, list, dict)):
                    raise TypeError(f"scratch_shapes takes a tuple, a list or a dict of shapes, got {scratch!r}.")
                positional, named = ((), scratch) if isinstance(scratch, dict) else (scratch, {})
                result = self.kernel(*in_tree.unflatten(ins), *[results] if self.single else results, *positional, **named)
            finally:
                kernel_scope.reset(scope)
            if result is not None:
                raise ValueError(f"the kernel {source} of pallas_call should return None, as it writes its results to "
                                 f"references; it returned {errors.short(result)}.")
            return []

        origin = DebugInfo("pallas_call kernel", self.name, signatures.code_of(self.kernel)[0])
        with _unchecked_axes():
            jaxpr, consts = inline_scalar_constants(*tracing.trace_to_jaxpr(flat, avals, origin))
        check_semaphores(source, jaxpr)
        arrays = [c for c in consts if isinstance(c, np.ndarray)]
        if len(arrays) < len(consts):
            raise ValueError(f"the kernel {source} of pallas_call captures constants, arrays from outside of it: "
                             f"{', '.join([str(tracing.aval_of(c)) for c in consts])}. Pass them as arguments, for which the "
                             f"kernel gets references.")
        return jaxpr, arrays

    def _checked_aliases(self, in_avals: Sequence[ShapedArray]) -> list[tuple[int, int]]:
        for i, o in self.aliases.items():
            mapping_text = f"input_output_aliases of pallas_call of {self.name} contains the mapping '{i}:{o}'"
            if not 0 <= i < len(in_avals):
                raise ValueError(f"{mapping_text} with an input index outside of the range [0, {len(in_avals)}).")
            if not 0 <= o < len(self.out_avals):
                raise ValueError(f"{mapping_text} with an output index outside of the range [0, {len(self.out_avals)}).")
            if (in_avals[i].shape, in_avals[i].dtype) != (self.out_avals[o].shape, self.out_avals[o].dtype):
                raise ValueError(f"{mapping_text} of an input of type {in_avals[i]} and an output with a different type, "
                                 f"{self.out_avals[o]}: both are the same memory.")
        return list(self.aliases.items())
