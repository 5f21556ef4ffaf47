"""`shard_map`: one function on the parts that devices hold becomes a function on whole arrays.

The function sees the part of each argument that its device has, and reaches the others by collectives over the axes of the
mesh. Where `check_vma` is on, types say over which axes a value varies between devices; from them follow what may be
returned as the same on all devices, and where derivatives sum.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import avals, tracing, tree
from xlafront.core.ir import ClosedJaxpr, dce_jaxpr, eval_jaxpr, keeps_alive
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import MeshAxis
from xlafront.core.zeros import Zero, is_undefined
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import Mesh, PartitionSpec, active, axes_of
from xlafront.transforms import calls, placement, programs
from xlafront.transforms.jit import jit
from xlafront.transforms.manual_computation import lower_body


class _Infer:
    def __repr__(self):
        return "Infer"


Infer = _Infer()


# Specs


def spec_axes(spec) -> frozenset:
    """The mesh axes that a spec splits over."""
    return frozenset(axis for partition in spec for axis in axes_of(partition))


def _parts(spec, sizes, rank: int) -> list[int]:
    """The number of parts of each dimension."""
    counts = [math.prod([sizes[a] for a in axes_of(p)]) for p in spec]
    return counts + [1] * (rank - len(counts))


def _local(aval, spec, sizes, check: bool):
    """The type of a device's part."""
    shape = tuple(n // parts for n, parts in zip(aval.shape, _parts(spec, sizes, aval.ndim)))
    return aval.update(shape=shape, sharding=None, vma=aval.vma | spec_axes(spec) if check else aval.vma)


def _whole(aval, spec, mesh, manual: frozenset):
    """The type of the array that the parts make up."""
    shape = tuple(n * parts for n, parts in zip(aval.shape, _parts(spec, mesh.shape, aval.ndim)))
    return aval.update(shape=shape, sharding=NamedSharding(mesh, spec), vma=aval.vma - manual)


def _is_spec(x) -> bool:
    return isinstance(x, PartitionSpec)


def _flat_specs(what: str, specs, full, is_leaf) -> list:
    for error in tree.prefix_errors(specs, full, is_leaf):
        raise error(what)
    found = tree.broadcast_prefix(specs, full, is_leaf)
    for spec in found:
        if not (spec is None or _is_spec(spec)):
            raise TypeError(f"{what} takes PartitionSpecs, as pytree prefixes, got {spec!r} of type {type(spec).__name__}.")
    return [PartitionSpec() if spec is None else spec for spec in found]


class axes_in_scope:
    """The manual axes of a mesh as named axes, while a body is traced."""

    def __init__(self, mesh, manual: frozenset, check: bool):
        sizes = mesh.shape
        self.axes = tuple(MeshAxis(name, sizes[name], check, mesh) for name in mesh.axis_names if name in manual)

    def __enter__(self):
        self.saved = tracing.thread.axes
        tracing.thread.axes = (*self.saved, *self.axes)

    def __exit__(self, *exception):
        tracing.thread.axes = self.saved


def surrounding_mesh():
    """The mesh of the `shard_map` that is being traced, else the one that is set."""
    for axis in reversed(tracing.thread.axes):
        if type(axis) is MeshAxis:
            return axis.mesh
    return active.mesh


# Public


def shard_map(f: Callable | None = None, *, out_specs, in_specs=Infer, mesh=None, axis_names=frozenset(),
              check_vma: bool = True):
    """A function on whole arrays that applies `f` to the parts that each device of a mesh holds.

    - `in_specs`, `out_specs`: for each argument and result (as pytree prefixes) how its dimensions are split over mesh axes.
      Without `in_specs`, as the types of arguments say, where the axes are of type Explicit.
      A result whose spec leaves out an axis is the same on all devices along it.
    - `mesh`: the devices; the mesh in force (`set_mesh`) when left out.
    - `axis_names`: the axes that `f` handles by itself; the rest are left to the compiler. All, when empty.
    - `check_vma`: check that results vary only over axes in their specs, and differentiate accordingly.

    >>> mesh = make_mesh((1,), ("i",))
    >>> total = shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    >>> total(xnp.arange(4.0))
    """
    if f is None:
        import functools

        return functools.partial(shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
                                 check_vma=check_vma)
    if not callable(f):
        raise TypeError(f"shard_map takes a function, got {type(f).__name__}: {f!r}")
    name = calls.function_name(f)
    if in_specs is None:
        raise TypeError(f"shard_map of {name} needs in_specs: how each argument is split over the mesh, as PartitionSpecs.")

    @boundary
    def mapped(*args):
        return _Call(f, name, mesh, axis_names, check_vma).run(args, in_specs, out_specs)

    mapped.__name__ = getattr(f, "__name__", name)
    mapped.__qualname__ = f"shard_map({name})"
    mapped.__doc__ = f.__doc__
    mapped.__wrapped__ = f
    return mapped


def smap(f: Callable | None = None, *, in_axes=Infer, out_axes, axis_name):
    """`shard_map` over one axis of the mesh in force, with the dimension that it splits for each argument and result.

    >>> with set_mesh(make_mesh((1,), ("i",))):
    ...     smap(lambda x: x - lax.pmean(x, "i"), in_axes=0, out_axes=0, axis_name="i")(xnp.arange(4.0))
    """
    if f is None:
        import functools

        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    def spec(axis):
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes):
        return tree.map(spec, axes, is_leaf=lambda x: x is None or isinstance(x, int))

    return shard_map(f, in_specs=Infer if in_axes is Infer else specs(in_axes), out_specs=specs(out_axes),
                     axis_names={axis_name})


def map_parts(part: Callable, name: str, mesh, in_specs: list, out_specs: list, operands: Sequence[Any]) -> list:
    """`shard_map` of a function of flat arguments, for `pmap`: tracing `part` fills `out_specs`, and nothing is checked."""
    call = _Call(part, name, mesh, frozenset(), False)
    return call.run(tuple(operands), tuple(in_specs), out_specs)


class _Call:
    """One call of a `shard_map`: its arguments checked, its body traced."""

    def __init__(self, f, name: str, mesh, axis_names, check: bool):
        self.f, self.name, self.check = f, name, bool(check)
        self.mesh = surrounding_mesh() if mesh is None else mesh
        if self.mesh is None or not self.mesh.axis_names:
            raise ValueError(f"shard_map of {name} has no mesh: pass mesh=..., or set one with `with set_mesh(mesh):`.")
        names = frozenset((axis_names,) if isinstance(axis_names, str) else axis_names)
        unknown = sorted(map(str, names - set(self.mesh.axis_names)))
        if unknown:
            raise ValueError(f"shard_map of {name} has axis_names {set(names)}, but {self.mesh} has no axis {unknown[0]!r}. "
                             f"Use some of {self.mesh.axis_names}.")
        surrounding = {axis[0] for axis in tracing.thread.axes if type(axis) is MeshAxis}
        self.manual = names or frozenset(a for a in self.mesh.axis_names if a not in surrounding)
        taken = sorted(map(str, self.manual & surrounding))
        if taken:
            raise ValueError(f"shard_map of {name} is over the axis {taken[0]!r}, which a surrounding shard_map is over "
                             f"already. Pass the other axes as axis_names.")
        self.sizes = self.mesh.shape

    def run(self, args: tuple, in_specs, out_specs):
        leaves, in_tree = tree.flatten(args)
        if isinstance(in_specs, list):
            in_specs = tuple(in_specs)
        operands = programs.operands_of(leaves, f"shard_map of {self.name}", args)
        if in_specs is Infer:
            specs = self.specs_of_types(operands)
        else:
            specs = _flat_specs(f"shard_map of {self.name}: in_specs", in_specs, args, lambda x: x is None or _is_spec(x))
        local = []
        for i, (x, spec) in enumerate(zip(operands, specs)):
            aval = tracing.aval_of(x)
            self.check_spec(spec, aval, lambda i=i: f"argument {self.argument(in_tree, i)}", "in_specs")
            if type(x) is ArrayImpl and x._committed:
                self.check_place(x, lambda i=i: self.argument(in_tree, i))
            local.append(_local(aval, spec, self.sizes, self.check))
        with axes_in_scope(self.mesh, self.manual, self.check):
            closed, consts, out_tree = programs.trace_function(self.f, in_tree, local, "shard_map")
        shown = out_tree.unflatten(range(out_tree.num_leaves))
        outs = _flat_specs(f"shard_map of {self.name}: out_specs", out_specs, shown, _is_spec)
        for i, (aval, spec) in enumerate(zip(closed.out_avals, outs)):
            self.check_result(spec, aval, lambda i=i: f"result{self.result(shown, i)}")
        if self.check:
            closed = vary_results(closed, outs)
        results = shard_map_p.bind(
            *consts, *operands, jaxpr=closed, mesh=self.mesh, in_specs=(PartitionSpec(),) * len(consts) + tuple(specs),
            out_specs=tuple(outs), manual_axes=self.manual, check_vma=self.check)
        return out_tree.unflatten(results)

    def argument(self, in_tree, index: int) -> str:
        whole = tree.structure((tree.unflatten(in_tree, range(in_tree.num_leaves)), {}))
        return calls.argument_names(self.f, calls.Selection(), whole)[index]

    def result(self, shown, index: int) -> str:
        return tree.keystr(tree.flatten_with_path(shown)[0][index][0])

    def specs_of_types(self, operands) -> list:
        if not all(a in self.mesh.explicit_axes for a in self.manual):
            raise TypeError(f"shard_map of {self.name} needs in_specs: how each argument is split over the mesh, as "
                            f"PartitionSpecs. They may be left out only for axes of type Explicit, which {self.mesh} does not "
                            f"have throughout.")
        spreads = [tracing.aval_of(x).spread for x in operands]
        return [PartitionSpec() if s is None else PartitionSpec(*[
            tuple(a for a in axes_of(p) if a in self.manual) for p in s.spec]) for s in spreads]

    def check_spec(self, spec, aval, who: Callable[[], str], which: str, divide: bool = True) -> None:
        seen: set = set()
        for axis in (a for p in spec for a in axes_of(p)):
            if axis not in self.manual:
                have = f"is over the axes {tuple(a for a in self.mesh.axis_names if a in self.manual)} of {self.mesh}"
                raise ValueError(f"shard_map of {self.name}: {which} has {spec} for {who()}, but the shard_map {have}, and "
                                 f"{axis!r} is none of them.")
            if axis in seen:
                raise ValueError(f"shard_map of {self.name}: {which} has {spec} for {who()}, which names the axis {axis!r} "
                                 f"twice: an axis can split only one dimension.")
            seen.add(axis)
        if len(spec) > aval.ndim:
            remedy = "" if divide else " Use P() for a scalar that is the same on all devices, or give it a dimension, x[None]."
            raise ValueError(f"shard_map of {self.name}: {which} has {spec}, with {len(spec)} entries, for {who()} of shape "
                             f"{aval.shape}, which has only {aval.ndim} dimension(s).{remedy}")
        if divide:
            for dimension, (n, parts) in enumerate(zip(aval.shape, _parts(spec, self.sizes, aval.ndim))):
                if n % parts:
                    raise ValueError(
                        f"shard_map of {self.name}: {who()} has shape {aval.shape} and in_specs {spec}, which splits dimension "
                        f"{dimension} of size {n} over {spec[dimension]!r} of {self.mesh}, but {parts} does not divide {n}. "
                        f"Pad the dimension, or split another one.")

    def check_place(self, x, who: Callable[[], str]) -> None:
        if not isinstance(self.mesh, Mesh):
            return
        devices, here = self.mesh._internal_device_list, x.sharding._internal_device_list
        if here is not devices and set(here) != set(devices):
            raise ValueError(f"shard_map of {self.name} is over {self.mesh} on the devices {[d.id for d in devices]}, but "
                             f"argument {who()} (shape {x.shape}) is on {[d.id for d in here]}. Move it with device_put(x, "
                             f"NamedSharding(mesh, spec)).")

    def check_result(self, spec, aval, who: Callable[[], str]) -> None:
        self.check_spec(spec, aval, who, "out_specs", False)
        if self.check:
            beyond = sorted(map(str, (aval.vma & self.manual) - spec_axes(spec)))
            if beyond:
                axes = ", ".join(map(repr, beyond))
                raise ValueError(
                    f"shard_map of {self.name}: out_specs has {spec} for {who()}, so that it should be the same on all devices "
                    f"along {axes}, but it varies there ({avals.str_short(aval)}). Name {axes} in its spec, reduce the result "
                    f"over it (psum, pmean, pmax, all_gather(..., to='invarying')), or pass check_vma=False if you know "
                    f"that it is the same.")


# Programs of bodies


def _edited(closed: ClosedJaxpr, key: tuple, function: Callable[..., Sequence[Any]], in_avals=None) -> ClosedJaxpr:
    """A program made from another by `function`, once."""
    return closed.jaxpr.memoised(key, lambda: tracing.trace_to_closed_jaxpr(
        function, closed.in_avals if in_avals is None else in_avals, closed.debug_info))


def vary_results(closed: ClosedJaxpr, specs) -> ClosedJaxpr:
    """The program whose results vary over all the axes of their specs, as their cotangents will."""
    from xlafront.lax.collective_primitives import pvary_p

    missing = [tuple(sorted(spec_axes(spec) - aval.vma, key=str)) for spec, aval in zip(specs, closed.out_avals)]
    if not any(missing):
        return closed

    def run(*xs):
        results = eval_jaxpr(closed.jaxpr, closed.consts, *xs)
        return [pvary_p.bind(x, axes=axes) if axes else x for x, axes in zip(results, missing)]

    return _edited(closed, ("vary", tuple(missing)), run)


# The primitive


def _abstract(*_, jaxpr, mesh, in_specs, out_specs, manual_axes, check_vma):
    return [_whole(aval, spec, mesh, manual_axes) for aval, spec in zip(jaxpr.out_avals, out_specs)]


def _pick(items: Sequence[Any], flags: Sequence[bool]) -> tuple:
    return tuple(x for x, flag in zip(items, flags) if flag)


def _jvp(primals, tangents, *, jaxpr, mesh, in_specs, out_specs, manual_axes, check_vma):
    from xlafront.transforms.ad_core import jvp_program

    active = tuple(type(t) is not Zero for t in tangents)
    with axes_in_scope(mesh, manual_axes, check_vma):
        program, nonzero = jvp_program(jaxpr, active)
        outs = (*out_specs, *_pick(out_specs, nonzero))
        if check_vma:
            program = vary_results(program, outs)
    results = shard_map_p.bind(*primals, *_pick(tangents, active), jaxpr=program, mesh=mesh, manual_axes=manual_axes,
                               in_specs=(*in_specs, *_pick(in_specs, active)), out_specs=outs, check_vma=check_vma)
    count = len(nonzero)
    rest = iter(results[count:])
    whole = [tracing.aval_of(x).to_tangent_aval() for x in results[:count]]
    return results[:count], [next(rest) if nz else Zero(aval) for nz, aval in zip(nonzero, whole)]


def _residual_spec(aval, mesh, manual: frozenset, check: bool) -> PartitionSpec:
    """Residuals are kept as they are on each device: joined along their first dimension over the axes they vary over."""
    names = tuple(a for a in mesh.axis_names if a in (aval.vma & manual if check else manual))
    return PartitionSpec(names) if names else PartitionSpec()


def _linearize(primals, tangents, *, jaxpr, mesh, in_specs, out_specs, manual_axes, check_vma):
    from xlafront.lax.shapes import reshape_to
    from xlafront.transforms.ad_core import linearize_program

    active = tuple(type(t) is not Zero for t in tangents)
    params = {"mesh": mesh, "manual_axes": manual_axes, "check_vma": check_vma}
    count = len(jaxpr.out_avals)
    with axes_in_scope(mesh, manual_axes, check_vma):
        split = linearize_program(jaxpr, active)
        forward, linear = split.forward, split.linear
        computed = forward.out_avals[count:]
        specs = [_residual_spec(aval, mesh, manual_axes, check_vma) for aval in computed]
        # A scalar has no dimension to be joined along: it crosses with one.
        lifted = [bool(spec) and not aval.ndim for spec, aval in zip(specs, computed)]

        def with_dimensions(*xs):
            results = eval_jaxpr(forward.jaxpr, forward.consts, *xs)
            return [*results[:count], *[reshape_to(r, (1,)) if one else r for r, one in zip(results[count:], lifted)]]

        flags = iter(lifted)
        residual_lifted = [k is None and next(flags) for k in split.known]

        def from_dimensions(*xs):
            residuals = [reshape_to(x, ()) if one else x for x, one in zip(xs, residual_lifted)]
            return eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *xs[len(residuals):])

        if any(lifted):
            forward = _edited(forward, ("residuals out",), with_dimensions)
            in_avals = [aval.update(shape=(1,)) if one else aval for aval, one in zip(
                linear.in_avals, [*residual_lifted, *[False] * len(linear.in_avals)])]
            linear = _edited(linear, ("residuals in",), from_dimensions, in_avals)
        tangent_specs = _pick(out_specs, split.outputs)
        if check_vma:
            forward = vary_results(forward, [*out_specs, *specs])
            linear = vary_results(linear, tangent_specs)
    results = shard_map_p.bind(*primals, jaxpr=forward, in_specs=in_specs, out_specs=(*out_specs, *specs), **params)
    rest, rest_specs = iter(results[count:]), iter(specs)
    residuals = [next(rest) if k is None else primals[k] for k in split.known]
    residual_specs = [next(rest_specs) if k is None else in_specs[k] for k in split.known]
    out_tangents = iter(())
    if any(split.outputs):
        out_tangents = iter(shard_map_p.bind(
            *residuals, *_pick(tangents, active), jaxpr=linear, in_specs=(*residual_specs, *_pick(in_specs, active)),
            out_specs=tangent_specs, **params))
    whole = [tracing.aval_of(x).to_tangent_aval() for x in results[:count]]
    return results[:count], [next(out_tangents) if used else Zero(aval) for used, aval in zip(split.outputs, whole)]


def _transpose(cts, *operands, jaxpr, mesh, in_specs, out_specs, manual_axes, check_vma):
    from xlafront.transforms.ad_core import transpose_program

    linear = tuple(is_undefined(x) for x in operands)
    given = tuple(type(ct) is not Zero for ct in cts)
    others = [x for x, lin in zip(operands, linear) if not lin]
    with axes_in_scope(mesh, manual_axes, check_vma):
        program, nonzero = transpose_program(jaxpr, linear, given)
        ct_specs, outs = _pick(out_specs, given), _pick(_pick(in_specs, linear), nonzero)
        if check_vma:
            program = vary_results(program, outs)
        else:
            program = _shared_out(program, len(others), ct_specs, outs, mesh, manual_axes)
    results = iter(shard_map_p.bind(
        *others, *_pick(cts, given), jaxpr=program, mesh=mesh, manual_axes=manual_axes, check_vma=check_vma,
        in_specs=(*[s for s, lin in zip(in_specs, linear) if not lin], *ct_specs), out_specs=outs))
    flags = iter(nonzero)
    return [(next(results) if next(flags) else Zero(x.aval)) if lin else None for x, lin in zip(operands, linear)]


def _shared_out(program: ClosedJaxpr, others: int, ct_specs, out_specs, mesh, manual: frozenset) -> ClosedJaxpr:
    """Without types: a cotangent of a result that is the same along an axis is shared out among the devices there, and
    cotangents of an argument that is the same are summed."""
    from xlafront.lax.collective_primitives import psum_p
    from xlafront.lax.elementwise import div

    def rest(spec):
        return tuple(a for a in mesh.axis_names if a in manual - spec_axes(spec))

    shares = [math.prod([mesh.shape[a] for a in rest(spec)]) for spec in ct_specs]
    sums = [rest(spec) for spec in out_specs]
    if not any(sums) and all(n == 1 for n in shares):
        return program

    def run(*xs):
        cts = [x if n == 1 else div(x, np.asarray(n).astype(tracing.aval_of(x).dtype)[()])
               for x, n in zip(xs[others:], shares)]
        results = eval_jaxpr(program.jaxpr, program.consts, *xs[:others], *cts)
        return [psum_p.bind(x, axes=axes, axis_index_groups=None) if axes else x for x, axes in zip(results, sums)]

    return _edited(program, ("shared", others, tuple(shares), tuple(sums)), run)


def _batch(trace, operands, dims, *, jaxpr, mesh, in_specs, out_specs, manual_axes, check_vma):
    from xlafront.transforms.batching import batch_flat

    spread = () if trace.spmd_axis_name is None else trace.spmd_axis_name
    spread = tuple(a for a in (spread if isinstance(spread, tuple) else (spread,)) if a in manual_axes)
    size = trace.size // math.prod([mesh.shape[a] for a in spread])

    def make():
        out_dims: list = []

        def run(*xs):
            results, out_dims[:] = batch_flat(
                lambda *ys: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *ys), xs, dims, size, trace.axis_name)
            return results

        in_avals = [a if d is None else a.update(
            shape=(*a.shape[:d], size, *a.shape[d:]), vma=a.vma | set(spread) if check_vma else a.vma)
            for a, d in zip(jaxpr.in_avals, dims)]
        return tracing.trace_to_closed_jaxpr(run, in_avals, jaxpr.debug_info), out_dims

    def moved(spec, dim):
        if dim is None:
            return spec
        entries = [*spec, *[None] * (dim - len(spec))]
        entries.insert(dim, spread[0] if len(spread) == 1 else spread or None)
        return PartitionSpec(*entries)

    with axes_in_scope(mesh, manual_axes, check_vma):
        program, out_dims = jaxpr.jaxpr.memoised(
            ("shard_map batch", tuple(dims), size, trace.axis_name, spread, tracing.thread.axes), make)
        outs = tuple(moved(spec, d) for spec, d in zip(out_specs, out_dims))
        if check_vma:
            program = vary_results(program, outs)
    results = shard_map_p.bind(*operands, jaxpr=program, mesh=mesh, manual_axes=manual_axes, check_vma=check_vma,
                               in_specs=tuple(moved(spec, d) for spec, d in zip(in_specs, dims)), out_specs=outs)
    return results, out_dims


def _dce(used: list[bool], eqn):
    closed, params = eqn.params["jaxpr"], eqn.params
    if all(used):
        return eqn
    jaxpr, used_inputs = dce_jaxpr(closed.jaxpr, used)
    if not any(used) and not keeps_alive(jaxpr.effects):
        return None
    return eqn.replace(
        invars=list(_pick(eqn.invars, used_inputs)), outvars=list(_pick(eqn.outvars, used)), effects=jaxpr.effects,
        params=params | {"jaxpr": ClosedJaxpr(jaxpr, closed.consts), "in_specs": _pick(params["in_specs"], used_inputs),
                         "out_specs": _pick(params["out_specs"], used)})


# Running


def _impl(*args, jaxpr, **params):
    """Outside of every trace: compiled once for each program."""
    mesh, outs = params["mesh"], params["out_specs"]
    known = weakref.ref(jaxpr.jaxpr)  # the dispatcher must not keep alive the program that keeps it

    def make():
        def run(*xs):
            return shard_map_p.bind(*xs, jaxpr=ClosedJaxpr(known(), []), **params)

        run.__name__ = run.__qualname__ = f"shard_map_{jaxpr.debug_info.function_name}"
        shardings: Any = placement.UNSPECIFIED
        if params["manual_axes"] == frozenset(mesh.axis_names) and isinstance(mesh, Mesh):
            shardings = [NamedSharding(mesh, spec) for spec in outs]
        return jit(run, out_shardings=shardings)

    key = ("run", mesh, params["in_specs"], outs, params["manual_axes"], params["check_vma"])
    return jaxpr.jaxpr.memoised(key, make)(*args)


shard_map_p = Primitive(
    "shard_map", multiple_results=True, memoise=False, abstract=_abstract, lower=lower_body, jvp=_jvp, transpose=_transpose,
    linearize=_linearize, dce=_dce, impl=_impl, effects=lambda *_, jaxpr, **params: jaxpr.effects)
shard_map_p.batch_with_axis = _batch
