"""`pallas_call`: a kernel on blocks of arrays as one operation of programs, and its rules.

The operation's operands are the sizes of the grid that are known only when it runs, scalars for index maps, and the inputs; its
results are the outputs. `jaxpr` is the kernel: a program of references, without results (`GridMapping` says which they are).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.control.scan import map as map_elements
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, RefEffect, eval_jaxpr, internal_refs, jaxpr_as_fun
from xlafront.core.memo import Memo
from xlafront.core.primitive import Primitive
from xlafront.core.refs import AbstractRef, RefTangent
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import joint_vma
from xlafront.core.zeros import Zero
from xlafront.lax import refs as ref_operations
from xlafront.lax.elementwise import to_dtype
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch, move_dim
from xlafront.lax.zeros import instantiate
from xlafront.pallas.grid_mapping import GridMapping, grid_mapping, source_name, with_numbers_in_place
from xlafront.pallas.interpret import interpret as run_interpreted, values_program
from xlafront.pallas.primitives import KernelScope, index_aval, kernel_scope
from xlafront.pallas.specs import GridSpec, MemorySpace, grid_of, no_block_spec
from xlafront.runtime import config
from xlafront.staging import signatures
from xlafront.staging.equal_programs import identity
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_program
from xlafront.transforms.calls.programs import evaluate

# The operation


def _types(*avals, out_avals, **_):
    axes = joint_vma(avals)
    return [a.update(vma=a.vma | axes) if axes else a for a in out_avals]


def _effects(*_, jaxpr: Jaxpr, **params):
    """What a kernel does beside writing to its references."""
    return frozenset([e for e in jaxpr.effects if not isinstance(e, RefEffect) and e is not internal_refs])


_interpreted = lower_fun(run_interpreted, multiple_results=True)


def _lower(ctx, *operands, **params):
    if not params["interpret"]:
        if ctx.platform == "cpu":
            raise ValueError("only interpret mode is supported on the CPU backend: nothing compiles kernels for CPUs. Give "
                             f"pallas_call of {params['jaxpr'].debug_info.func_src_info} interpret=True.")
        warnings.warn(f"the kernel {params['jaxpr'].debug_info.func_src_info} is run as a loop that XLA compiles, as with "
                      "interpret=True: kernels are not compiled for this platform yet.", stacklevel=2)
    return _interpreted(ctx, *operands, **params)


_known: Memo = Memo(64)  # kernels that have run eagerly, by what they compute


def _evaluated(*args, **params):
    """Compiled once for all kernels that compute the same."""
    jaxpr, mapping = _known_kernel(params["jaxpr"], params["grid_mapping"])
    return evaluate(pallas_call_p, args, params | {"jaxpr": jaxpr, "grid_mapping": mapping}, jaxpr)


def _known_kernel(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    def find():
        program, asked, written = values_program(jaxpr)
        maps = [b.index_map_jaxpr.jaxpr for b in mapping.block_mappings]
        computed = [identity(p) for p in (program.jaxpr, *maps)]
        if program.consts or None in computed:
            return jaxpr, mapping
        blocks = tuple([(b.block_shape, b.array_aval) for b in mapping.block_mappings])
        key = (*computed, *asked, *written, mapping.grid, mapping.vmapped_dims, mapping.num_inputs, blocks, mapping.index_avals,
               mapping.scratch_avals)
        return _known.get(key) or _known.keep(key, (jaxpr, mapping))

    return jaxpr.memoised_with((), ("known", mapping), find)


def _jvp(primals, tangents, /, *, jaxpr, grid_mapping, out_avals, input_output_aliases, **params):
    """A kernel of the values and their tangents: for each array that has one a second, with blocks in the same places."""
    mapping = grid_mapping
    first = mapping.num_dynamic_grid_bounds + mapping.num_index_operands
    aliases = dict(input_output_aliases)
    if any([type(t) is not Zero for t in tangents[:first]]) or any([i < first for i in aliases]):  # scalars that are moved
        whole = {"jaxpr": jaxpr, "grid_mapping": mapping, "out_avals": out_avals, "input_output_aliases": input_output_aliases}
        return jvp_flat(jaxpr_as_fun(_as_loop(tuple(map(tracing.aval_of, primals)), whole | params)), primals, tangents)
    given = list(tangents[first:])
    for i, o in aliases.items():  # what an output holds at first has a tangent as the output has
        if type(given[i - first]) is Zero and _has_tangent(out_avals[o]):
            given[i - first] = instantiate(given[i - first])
    active = tuple([type(t) is not Zero for t in given])
    outputs = tuple(map(_has_tangent, out_avals))
    dual, places, arrays = jaxpr.memoised_with((), ("kernel of duals", mapping, active), lambda: _dual(
        jaxpr, mapping, active, outputs))
    moved = [t for t, a in zip(given, active) if a]
    numbers = {i: first + len(given) + k for k, i in enumerate([first + i for i, a in enumerate(active) if a])}
    moved_out = {o: len(out_avals) + k for k, o in enumerate([o for o, a in enumerate(outputs) if a])}
    found = pallas_call_p.bind(
        *primals, *moved, *arrays, jaxpr=dual, grid_mapping=places,
        out_avals=(*out_avals, *[a for a, out in zip(out_avals, outputs) if out]),
        input_output_aliases=(*input_output_aliases, *[(numbers[i], moved_out[o]) for i, o in input_output_aliases
                                                       if i in numbers and o in moved_out]), **params)
    derivatives = iter(found[len(out_avals):])
    return found[:len(out_avals)], [next(derivatives) if out else Zero(a.to_tangent_aval())
                                    for a, out in zip(out_avals, outputs)]


def _has_tangent(aval) -> bool:
    return isinstance(aval.dtype, np.dtype) and dtypes.is_inexact(aval.dtype)


def _dual(jaxpr: Jaxpr, mapping: GridMapping, active: Sequence[bool], outputs: Sequence[bool]
          ) -> tuple[Jaxpr, GridMapping, list[Any]]:
    """The kernel of values and tangents, its grid and blocks, and arrays of its own."""
    kernel, arrays = with_numbers_in_place(*_dual_kernel(jaxpr, mapping, active, outputs))
    return *_passed_along(kernel, _dual_mapping(mapping, active, outputs)), arrays


def _dual_mapping(mapping: GridMapping, active: Sequence[bool], outputs: Sequence[bool]) -> GridMapping:
    ins, outs = mapping.block_mappings[:mapping.num_inputs], mapping.block_mappings[mapping.num_inputs:]
    blocks = (*ins, *[b for b, a in zip(ins, active) if a], *outs, *[b for b, a in zip(outs, outputs) if a])
    return GridMapping(mapping.grid, blocks, len(ins) + sum(active), len(outs) + sum(outputs), mapping.index_avals,
                       (*mapping.scratch_avals, *[a for a in mapping.scratch_avals if _has_tangent(a)]), mapping.vmapped_dims)


def _dual_kernel(jaxpr: Jaxpr, mapping: GridMapping, active: Sequence[bool], outputs: Sequence[bool]) -> tuple[Jaxpr, list]:
    """From references to values and tangents; the tangents are values while it runs (`RefTangent`)."""
    counts = [mapping.num_index_operands, mapping.num_inputs, sum(active), mapping.num_outputs, sum(outputs),
              mapping.num_scratch_operands]
    avals = [v.aval for v in jaxpr.invars]
    scalars, ins, outs, scratch = _grouped(avals, [mapping.num_index_operands, mapping.num_inputs, mapping.num_outputs])
    moving = [False] * len(scalars), active, outputs, [_has_tangent(a) for a in scratch]

    def dual(*refs):
        index_refs, in_refs, in_tangents, out_refs, out_tangents, scratch_refs, scratch_tangents = _grouped(refs, counts)
        primals = [*index_refs, *in_refs, *out_refs, *scratch_refs]
        given = iter([*in_tangents, *out_tangents, *scratch_tangents])
        places = [next(given) if m else None for m in [m for group in moving for m in group]]
        cells = [Zero(a.to_tangent_aval()) if t is None else RefTangent(ref_operations.get(t)) for a, t in zip(avals, places)]
        jvp_flat(jaxpr_as_fun(ClosedJaxpr(jaxpr, ())), primals, cells)
        for cell, place in zip(cells, places):
            if place is not None:
                ref_operations.set(place, ..., instantiate(cell.value))
        return []

    duals = [*scalars, *ins, *[a for a, m in zip(ins, active) if m], *outs, *[a for a, m in zip(outs, outputs) if m],
             *scratch, *[a for a in scratch if _has_tangent(a)]]
    return tracing.trace_to_jaxpr(dual, duals, jaxpr.debug_info.with_unknown_names())


def _passed_along(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    """A kernel that gets references to its constants, behind those to its inputs: arrays of NumPy, as functions of the library
    make some."""
    count = len(jaxpr.constvars)
    if not count:
        return jaxpr, mapping
    at = mapping.num_index_operands + mapping.num_inputs

    def kernel(*refs):
        eval_jaxpr(jaxpr, [ref_operations.get(r) for r in refs[at:at + count]], *refs[:at], *refs[at + count:])
        return []

    avals, own = [v.aval for v in jaxpr.invars], [v.aval for v in jaxpr.constvars]
    made, _ = tracing.trace_to_jaxpr(kernel, [*avals[:at], *[AbstractRef(a, MemorySpace.DEFAULT) for a in own], *avals[at:]],
                                     jaxpr.debug_info.with_unknown_names())
    return made, mapping.with_arrays(own)


def _grouped(items: Sequence, counts: Sequence[int]) -> list[list]:
    """As many items as each count says, and the rest."""
    found, at = [], 0
    for n in counts:
        found.append(list(items[at:at + n]))
        at += n
    return [*found, list(items[at:])]


def _as_loop(avals: tuple, params: Mapping[str, Any]) -> ClosedJaxpr:
    """The program that `interpret=True` runs."""
    def make():
        def run(*operands):
            return run_interpreted(*operands, **params)

        return tracing.trace_to_closed_jaxpr(run, avals, params["jaxpr"].debug_info.with_unknown_names())

    return params["jaxpr"].memoised_with((), ("loop", params["grid_mapping"], params["input_output_aliases"], avals), make)


def _linearize(primals, tangents, /, **params):
    """The derivative of that loop: reverse mode needs what each step has read."""
    program = _as_loop(tuple(map(tracing.aval_of, primals)), params)
    split = linearize_program(program, tuple([type(t) is not Zero for t in tangents]))
    count = len(program.out_avals)
    found = jaxpr_as_fun(split.forward)(*primals)
    computed = iter(found[count:])
    residuals = [next(computed) if k is None else primals[k] for k in split.known]
    moved = iter(jaxpr_as_fun(split.linear)(*residuals, *[t for t in tangents if type(t) is not Zero]))
    return found[:count], [next(moved) if used else Zero(a.to_tangent_aval())
                           for used, a in zip(split.outputs, program.out_avals)]


def _batch(axis_size, operands, dims, *, jaxpr, grid_mapping, out_avals, **params):
    """A grid with one more axis, the first."""
    mapping = grid_mapping
    first = mapping.num_dynamic_grid_bounds + mapping.num_index_operands
    params |= {"jaxpr": jaxpr}
    aliased = {i for i, _ in params["input_output_aliases"]}
    if any([d is not None for d in dims[:first]]) or any([i < first for i in aliased]):  # with grids or scalars of their own
        def one(elements):
            given = iter(elements)
            return pallas_call_p.bind(*[x if d is None else next(given) for x, d in zip(operands, dims)],
                                      grid_mapping=mapping, out_avals=out_avals, **params)

        return map_elements(one, [move_dim(x, d, 0) for x, d in zip(operands, dims) if d is not None]), [0] * len(out_avals)
    mapped = [d is not None or i in aliased for i, d in enumerate(dims)][first:]
    places = mapping.of_batch(axis_size, (*mapped, *[True] * mapping.num_outputs))
    moved = [x if d is None and not m else broadcast_batch(x, None, axis_size) if d is None else move_dim(x, d, 0)
             for x, d, m in zip(operands[first:], dims[first:], mapped)]
    results = pallas_call_p.bind(*operands[:first], *moved, grid_mapping=places, out_avals=tuple(
        [a.update(shape=(axis_size, *a.shape)) for a in out_avals]), **params)
    return results, [0] * len(out_avals)


pallas_call_p = Primitive("pallas_call", multiple_results=True, abstract=_types, effects=_effects, lower=_lower, jvp=_jvp,
                          linearize=_linearize, batch=_batch, impl=_evaluated, memoise=False)
pallas_call_p.as_program = _as_loop


# The function


class _FrozenDict(dict):
    """Options that are given as a dict, as a parameter."""

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
    """A function of arrays that runs a kernel once for each point of a grid, on a block of each array.

    - `kernel`: the kernel. It gets a reference for each argument, for each result, and for scratch space; it reads and writes
      these, and returns nothing.
    - `out_shape`: what the results are: anything with a shape and a dtype, in any pytree.
    - `grid_spec`: grid, specs and scratch space as one, in place of the next four.
    - `grid`: how many times the kernel runs, along each axis; it asks `pl.program_id` where it is.
    - `in_specs`, `out_specs`: a `pl.BlockSpec` for each array; without, the kernel sees all of it.
    - `scratch_shapes`: memory that keeps what is in it from one point of the grid to the next.
    - `input_output_aliases`: numbers of arguments, and of the results that begin with what they hold.
    - `debug`: print the kernel's program.
    - `interpret`: run it as a loop over the grid, on any platform; on CPUs this is the only way.
    - `name`: of the kernel, in place of its own.
    - `compiler_params`, `cost_estimate`, `metadata`: for the compiler of the platform.

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
        for word, value, default in (("grid", grid_of(grid), ()), ("in_specs", in_specs, no_block_spec),
                                     ("out_specs", out_specs, no_block_spec), ("scratch_shapes", scratch_shapes, ())):
            if value != default:
                raise ValueError(f"with grid_spec, `{word}` must be {default!r}: it is part of grid_spec. Got "
                                 f"{errors.short(value)}.")
    made = _Call(kernel, out_shape, grid_spec, dict(input_output_aliases), bool(debug), name)
    options = {"compiler_params": _frozen(compiler_params), "cost_estimate": cost_estimate, "debug": bool(debug),
               "interpret": interpret, "mesh": None, "metadata": _frozen(metadata), "name": name}

    @boundary
    def call(*args):
        leaves, in_tree = tree.flatten(args)
        for i, x in enumerate(leaves):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"pallas_call of {made.name}", tree.path_of(args, i))
        avals = [tracing.aval_of(x).strip_weak_type() for x in leaves]
        leaves = [to_dtype(x, a.dtype) if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)) else x
                  for x, a in zip(leaves, avals)]
        jaxpr, mapping, aliases, arrays = made.traced(in_tree, tuple([ShapedArray(a.shape, a.dtype) for a in avals]))
        bounds = [to_dtype(n, index_aval.dtype) for n, known in zip(grid_spec.grid, mapping.grid) if known is None]
        results = pallas_call_p.bind(*bounds, *leaves, *arrays, jaxpr=jaxpr, grid_mapping=mapping, out_avals=made.out_avals,
                                     input_output_aliases=aliases, **options)
        return made.out_tree.unflatten(results)

    call.__name__ = made.name
    return call


class _Call:
    """A kernel and what is said of its arrays; it is traced once for arguments of the same types."""

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
        self.known: Memo = Memo(32)

    def traced(self, in_tree, in_avals: tuple) -> tuple[Jaxpr, GridMapping, tuple, list[np.ndarray]]:
        """The kernel's program for arguments of these types, and arrays that it takes behind them."""
        key = (in_tree, in_avals, config.trace_context_key(), tracing.thread.axes)
        return self.known.get(key) or self.known.keep(key, self._trace(in_tree, in_avals))

    def _trace(self, in_tree, in_avals: tuple) -> tuple[Jaxpr, GridMapping, tuple, list[np.ndarray]]:
        names = [path.replace("result", "args", 1) for path in tree.result_paths(in_tree)]
        mapping = grid_mapping(self.spec, in_avals, in_tree, names, self.out_avals, self.out_tree, self.out_names)
        bounds = mapping.num_dynamic_grid_bounds
        aliases = tuple([(bounds + i, o) for i, o in self._checked_aliases(in_avals)])
        blocks = [b.block_aval for b in mapping.block_mappings]
        scratch_tree = tree.structure(self.spec.scratch_shapes)
        where = source_name(self.kernel)

        def flat(*tracers):
            scope = kernel_scope.set(KernelScope(tracing.thread.trace, mapping.grid))
            try:
                ins, outs, scratch = _grouped(tracers, [len(in_avals), len(self.out_avals)])
                results = self.out_tree.unflatten(outs)
                scratch = scratch_tree.unflatten(scratch)
                if not isinstance(scratch, (tuple, list, dict)):
                    raise TypeError(f"scratch_shapes takes a tuple, a list or a dict of shapes, got {scratch!r}.")
                positional, named = ((), scratch) if isinstance(scratch, dict) else (scratch, {})
                found = self.kernel(*in_tree.unflatten(ins), *[results] if self.single else results, *positional, **named)
            finally:
                kernel_scope.reset(scope)
            if found is not None:
                raise ValueError(f"the kernel {where} of pallas_call should return None, as it writes its results to "
                                 f"references; it returned {errors.short(found)}.")
            return []

        origin = DebugInfo("pallas_call kernel", self.name, getattr(self.kernel, "__code__", None))
        jaxpr, consts = with_numbers_in_place(*tracing.trace_to_jaxpr(
            flat, [*mapping.index_avals, *blocks, *mapping.scratch_avals], origin))
        arrays = [c for c in consts if isinstance(c, np.ndarray)]
        if len(arrays) < len(consts):
            raise ValueError(f"the kernel {where} of pallas_call captures constants, arrays from outside of it: "
                             f"{', '.join([str(tracing.aval_of(c)) for c in consts])}. Pass them as arguments, which the "
                             f"kernel gets references to.")
        jaxpr, mapping = _passed_along(jaxpr, mapping)
        if self.debug:
            print(f"\nThe kernel's program, of {where}:\n{jaxpr}\nIts grid: {mapping}")
        return jaxpr, mapping, aliases, arrays

    def _checked_aliases(self, in_avals: Sequence[ShapedArray]) -> list[tuple[int, int]]:
        for i, o in self.aliases.items():
            mapped = f"input_output_aliases of pallas_call of {self.name} contains the mapping '{i}:{o}'"
            if not 0 <= i < len(in_avals):
                raise ValueError(f"{mapped} with an input index outside of the range [0, {len(in_avals)}).")
            if not 0 <= o < len(self.out_avals):
                raise ValueError(f"{mapped} with an output index outside of the range [0, {len(self.out_avals)}).")
            if (in_avals[i].shape, in_avals[i].dtype) != (self.out_avals[o].shape, self.out_avals[o].dtype):
                raise ValueError(f"{mapped} of an input of type {in_avals[i]} and an output with a different type, "
                                 f"{self.out_avals[o]}: both are the same memory.")
        return list(self.aliases.items())
