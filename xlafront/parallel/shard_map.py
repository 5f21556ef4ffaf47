"""`shard_map`: map a function over the shards of global arrays.

The function takes the local shard of each argument, and communicates with collectives over mesh axes. With `check_vma`, types
track the axes over which a value varies between devices. They determine which results may be returned as replicated, and where
derivatives sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.specs import DuplicateSpecError
from xlafront.core import errors, tracing, tree
from xlafront.core.ir import Jaxpr
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import MeshAxis
from xlafront.parallel.shard_map_rules import shard_map_p
from xlafront.parallel.shard_map_types import axes_in_scope, local_type, shards_along, spec_axes, vary_results
from xlafront.runtime.sharding import AbstractMesh, Mesh, PartitionSpec, active, axes_of
from xlafront.staging import signatures
from xlafront.staging.compiling import constants_as_arguments
from xlafront.transforms.calls import programs


class _Infer:
    def __repr__(self):
        return "Infer"


Infer = _Infer()


# Specs


def _is_spec(x) -> bool:
    return isinstance(x, PartitionSpec) or hasattr(x, "to_lo")  # a `HiPspec`, for composite values


def _flat_specs(name: str, specs, full, is_leaf) -> list:
    flat = tree.leaves_by_prefix(name, specs, full, is_leaf) if specs is not None else [None] * len(tree.leaves(full))
    return _check_specs(name, flat)


def _check_specs(name: str, specs: list) -> list:
    for spec in specs:
        if not (spec is None or _is_spec(spec)):
            remedy = f" Write P({spec!r})." if isinstance(spec, str) else ""
            raise TypeError(f"{name} takes PartitionSpecs, as pytree prefixes, got {spec!r} of type "
                            f"{type(spec).__name__}.{remedy}")
    return specs


def surrounding_mesh():
    """Return the mesh of the `shard_map` being traced, else the context mesh."""
    for axis in reversed(tracing.thread.axes):
        if type(axis) is MeshAxis:
            return axis.mesh
    return active.abstract or active.mesh


def _check_context(name: str, mesh) -> None:
    """Raise if the given mesh differs from a context mesh."""
    context_mesh = active.abstract_mesh()
    if not context_mesh.empty and (context_mesh.shape_tuple, context_mesh.axis_types) != (mesh.shape_tuple, mesh.axis_types):
        raise ValueError(
            f"shard_map of {name} was given {mesh}, but the context mesh is {context_mesh}: they should match. Leave mesh "
                         f"out; axis_names selects axes of the context mesh.")


# Public

_F = TypeVar("_F", bound=Callable)
_R = TypeVar("_R")


@overload
def shard_map(f: Callable[..., _R], *, out_specs: Any, in_specs: Any = Infer, mesh: Any = None,
              axis_names: Any = frozenset(), check_vma: bool = True) -> Callable[..., _R]: ...


@overload
def shard_map(f: None = None, *, out_specs: Any, in_specs: Any = Infer, mesh: Any = None, axis_names: Any = frozenset(),
              check_vma: bool = True) -> Callable[[_F], _F]: ...


def shard_map(f: Callable | None = None, *, out_specs: Any, in_specs: Any = Infer, mesh: Any = None,
              axis_names: Any = frozenset(), check_vma: bool = True) -> Callable:
    """Map a function over the shards of its arguments on each device of a mesh.

    Args:
        f: Function of the local shards. If None, return a decorator.
        out_specs: Pytree prefix of the results with a `PartitionSpec` for each: how the local results are assembled to global
            arrays. A
            result is replicated along mesh axes that its spec omits.
        in_specs: Pytree prefix of the arguments with a `PartitionSpec` for each: how its dimensions are sharded over mesh
            axes. None
            passes an argument that is not an array to `f` unchanged. Default: the shardings in the argument types, if the axes
            are
            Explicit.
        mesh: Mesh of devices. Default: the context mesh (`set_mesh`).
        axis_names: Set of mesh axes that are manual in `f`; the compiler handles the other axes. Default: all.
        check_vma: If True, check that results vary only over axes in their specs, and differentiate accordingly.

    Returns:
        A function of global arrays.

    Example:
        >>> mesh = xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,))
        >>> total = xf.shard_map(lambda x: lax.psum(xnp.sum(x), "i"), mesh=mesh, in_specs=xf.P("i"), out_specs=xf.P())
        >>> total(xnp.arange(4))
        Array(6, dtype=int32)
    """
    if f is None:
        return functools.partial(shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names,
                                 check_vma=check_vma)
    if not callable(f):
        raise errors.not_callable("shard_map", f)
    name = signatures.function_name(f)
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(f"shard_map of {name} takes axis_names as a set of names of mesh axes, got {axis_names!r} of type "
                        f"{type(axis_names).__name__}. Write {{{axis_names!r}}}.")

    @boundary
    def mapped(*args, **keywords):
        if keywords:
            raise TypeError(f"shard_map of {name} takes its arguments by position, as in_specs lists them, got "
                            f"{next(iter(keywords))!r} by name. Bind keyword arguments with functools.partial first.")
        if isinstance(mesh, (Mesh, AbstractMesh)):
            _check_context(name, mesh)
        return _Call(f, name, mesh, axis_names, check_vma).run(args, in_specs, out_specs)

    return signatures.copy_metadata(mapped, f)


def smap(f: Callable | None = None, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any) -> Callable:
    """Map a function over shards along one axis of the context mesh.

    Args:
        f: Function of the local shards. If None, return a decorator.
        in_axes: Pytree prefix of the arguments with the dimension of each that is sharded, or None. Default: the shardings in
            the
            argument types.
        out_axes: Pytree prefix of the results with the dimension of each that is sharded, or None.
        axis_name: Name of the mesh axis.

    Returns:
        A function of global arrays.

    Example:
        >>> with xf.set_mesh(xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,))):
        ...     xf.smap(lambda x: x - lax.pmax(x, "i"), in_axes=0, out_axes=0, axis_name="i")(xnp.arange(4))
        Array([0, 0, 0, 0], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)

    if isinstance(axis_name, (tuple, list)):
        raise TypeError(f"smap is over one axis of the mesh, given by its name, got axis_name={axis_name!r}. Use shard_map "
                        "for several.")

    def spec(axis):
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes):
        return tree.map(spec, axes, is_leaf=lambda x: x is None or isinstance(x, int))

    return shard_map(f, in_specs=Infer if in_axes is Infer else specs(in_axes), out_specs=specs(out_axes),
                     axis_names={axis_name})


def _close_over_objects(f: Callable, in_tree, leaves: list, specs: list) -> tuple[Callable, Any, list, list[int]]:
    """Close over arguments without a spec that are not arrays, or are Python scalars. Return a function of the other
    arguments, their tree, the arguments, and their positions."""
    objects = {i: x for i, (x, spec) in enumerate(zip(leaves, specs)) if spec is None and (
        isinstance(x, (bool, int, float, complex)) or not tracing.is_arraylike(x))}
    array_positions = [i for i in range(len(leaves)) if i not in objects]
    if not objects:
        return f, in_tree, leaves, array_positions

    def f_of_arrays(*arrays):
        all_leaves = dict(zip(array_positions, arrays)) | objects
        return f(*tree.unflatten(in_tree, [all_leaves[i] for i in range(len(leaves))]))

    arrays = [leaves[i] for i in array_positions]
    return f_of_arrays, tree.structure(tuple(arrays)), arrays, array_positions


def shard_map_flat(local_fun: Callable, name: str, mesh, in_specs: list, out_specs: list, operands: Sequence[Any]) -> list:
    """Apply `shard_map` without checks to a function of flat arguments, for `pmap`. Tracing `local_fun` fills in
    `out_specs`."""
    call = _Call(local_fun, name, mesh, frozenset(), False)
    return call.run(tuple(operands), tuple(in_specs), out_specs)


class _LazyString:
    """A string for messages, made on demand."""

    def __init__(self, make: Callable[[], str]):
        self.make = make

    def __str__(self):
        return self.make()


class _BodyEvaluator:
    """Evaluates replicated values in the body when Python needs them outside of compiled code, by running the jaxpr traced
    so far."""

    def __init__(self, call: _Call, values: list, specs):
        self.call, self.values, self.specs = call, values, specs
        self.outer_context = tracing.thread.axes, active.abstract
        self.used = False  # True if the trace depends on values

    @staticmethod
    def of(call: _Call, operands: Sequence[Any], specs) -> _BodyEvaluator | None:
        values = [x._concrete() if isinstance(x, tracing.Tracer) else x for x in operands]
        return None if any([x is None for x in values]) else _BodyEvaluator(call, values, specs)

    def __call__(self, jaxpr: Jaxpr, consts: Sequence[Any]):
        """Return the value of the result, or None if it varies over devices."""
        closed = jaxpr.with_consts(list(consts))
        if not self.call.check or closed.out_avals[0].vma or any([isinstance(c, tracing.Tracer) for c in consts]):
            return None
        self.used = True
        body, const_values = constants_as_arguments(closed)
        saved = tracing.thread.axes, active.abstract
        tracing.thread.axes, active.abstract = self.outer_context
        try:
            with tracing.eval_context():
                return self.call.bind(body, const_values, self.values, self.specs, [PartitionSpec()])[0]
        finally:
            tracing.thread.axes, active.abstract = saved


class _Call:
    """A call of a `shard_map`: checks its arguments and traces its body."""

    def __init__(self, f, name: str, mesh, axis_names, check: bool):
        self.f, self.name, self.check = f, name, bool(check)
        self.mesh = surrounding_mesh() if mesh is None else mesh
        if not isinstance(self.mesh, (Mesh, AbstractMesh, type(None))):
            raise TypeError(f"shard_map of {name} takes mesh as a Mesh or an AbstractMesh, from make_mesh, got "
                            f"{self.mesh!r} of type {type(self.mesh).__name__}.")
        if self.mesh is None or not self.mesh.axis_names:
            raise ValueError(f"shard_map of {name} has no mesh, and the context mesh cannot be empty: pass mesh=..., or set "
                             "one with `with set_mesh(mesh):`.")
        names = frozenset(axis_names)
        unknown = sorted(map(str, names - set(self.mesh.axis_names)))
        if unknown:
            raise ValueError(f"shard_map of {name} has axis_names {set(names)}, but {self.mesh} has no axis {unknown[0]!r}. "
                             f"Use some of {self.mesh.axis_names}.")
        outer_axes = [axis for axis in tracing.thread.axes if type(axis) is MeshAxis]
        if outer_axes and outer_axes[-1].mesh.shape_tuple != self.mesh.shape_tuple:
            raise ValueError(
                f"shard_map of {name} is over {self.mesh}, inside of a shard_map over {outer_axes[-1].mesh}. Leave "
                             f"mesh out: it defaults to the surrounding shard_map's, and axis_names selects its axes.")
        outer_names = {axis[0] for axis in outer_axes}
        self.manual = names or frozenset(a for a in self.mesh.axis_names if a not in outer_names)
        conflicts = sorted(map(str, self.manual & outer_names))
        if conflicts:
            raise ValueError(f"shard_map of {name} is over the axis {conflicts[0]!r}, which is already manual in a surrounding "
                             f"shard_map. Pass the other axes as axis_names.")
        if not self.manual:
            raise ValueError(f"shard_map of {name} is inside of shard_maps over all axes of {self.mesh}: no axis is left.")
        self.sizes = self.mesh.shape

    def run(self, args: tuple, in_specs, out_specs):
        for i, spec in enumerate(_check_specs(f"shard_map of {self.name}: out_specs", tree.leaves(out_specs, _is_spec))):
            if isinstance(spec, PartitionSpec):
                self.check_axes(spec, _LazyString(lambda i=i: f"result{self.result(out_specs, i)}"), "out_specs")
        leaves, in_tree = tree.flatten(args)
        full_tree = in_tree
        descriptions = [_LazyString(lambda i=i: f"argument {self.arguments(full_tree)[i]}") for i in range(len(leaves))]
        if in_specs is Infer:
            operands = programs.operands_of(leaves, f"shard_map of {self.name}", args)
            specs = self.specs_of_types(operands)
            f = self.f
        else:
            flat_specs = _flat_specs(f"shard_map of {self.name}: in_specs", in_specs, args, lambda x: x is None or _is_spec(x))
            f, in_tree, leaves, array_positions = _close_over_objects(self.f, in_tree, leaves, flat_specs)
            operands = programs.operands_of(leaves, f"shard_map of {self.name}", in_tree.unflatten(leaves))
            descriptions = [descriptions[i] for i in array_positions]
            specs = [PartitionSpec() if flat_specs[i] is None else flat_specs[i] for i in array_positions]
        if self.check and any([tracing.aval_of(x).is_high for x in operands]):
            self.check = False  # types of composite values do not track varying axes
        local_avals = []
        for x, spec, description in zip(operands, specs, descriptions):
            aval = tracing.aval_of(x)
            if aval.is_high:
                local_avals.append(aval.shard(self.mesh, self.manual, self.check, spec))
                continue
            self.check_spec(spec, aval, description, "in_specs")
            self.check_sums(spec, aval, description, "in_specs")
            self.check_type(spec, aval, description)
            if type(x) is ArrayImpl and x._committed:
                self.check_operand_index(x, description)
            local_avals.append(local_type(aval, spec, self.mesh, self.manual, self.check))
        evaluate = _BodyEvaluator.of(self, operands, specs)
        with axes_in_scope(self.mesh, self.manual, self.check):
            closed, consts, out_tree = programs.trace_function(f, in_tree, local_avals, "shard_map", evaluate)
        if self.check and any([aval.is_high for aval in closed.out_avals]):
            self.check = False
            return self.run(args, in_specs, out_specs)
        out_numbers = tree.leaf_indices(out_tree)
        if out_specs is None and out_tree.num_leaves:
            raise ValueError(f"shard_map of {self.name} has out_specs=None, but the function returns results: pass P() for "
                             f"replicated results.")
        flat_out_specs = _flat_specs(f"shard_map of {self.name}: out_specs", out_specs, out_numbers, _is_spec)
        for i, (aval, spec) in enumerate(zip(closed.out_avals, flat_out_specs)):
            self.check_result(spec, aval, _LazyString(lambda i=i: f"result{self.result(out_numbers, i)}"))
        if self.check:
            with axes_in_scope(self.mesh, self.manual, True):
                closed = vary_results(closed, flat_out_specs)
        return out_tree.unflatten(self.bind(closed, consts, operands, specs, flat_out_specs))

    def bind(self, closed: Jaxpr, consts: Sequence[Any], operands: Sequence[Any], specs, outs) -> list:
        return shard_map_p.bind(
            *consts, *operands, jaxpr=closed, mesh=self.mesh, in_specs=(PartitionSpec(),) * len(consts) + tuple(specs),
            out_specs=tuple(outs), newly_manual_axes=self.manual, check_vma=self.check)

    def arguments(self, in_tree) -> list[str]:
        call_tree = tree.structure((tree.leaf_indices(in_tree), {}))
        return signatures.argument_names(self.f, signatures.Selection(), call_tree)

    def result(self, out_tree, index: int) -> str:
        return tree.keystr(tree.flatten_with_path(out_tree, _is_spec)[0][index][0])

    def specs_of_types(self, operands) -> list:
        if not all(a in self.mesh.explicit_axes for a in self.manual):
            raise TypeError(
                f"shard_map of {self.name} needs in_specs, PartitionSpecs of the arguments over the mesh. They may be "
                            f"left out only if all axes are of type Explicit, unlike those of {self.mesh}.")
        specs = [PartitionSpec() if s is None else s.spec for s in (tracing.aval_of(x).explicit_sharding for x in operands)]
        return [spec.update([tuple(a for a in axes_of(p) if a in self.manual) for p in spec],
                            unreduced=spec.unreduced & self.manual, reduced=spec.reduced & self.manual) for spec in specs]

    def check_axes(self, spec, value: _LazyString, param: str) -> None:
        for axis in [*(a for p in spec for a in axes_of(p)), *spec.unreduced, *spec.reduced]:
            if axis not in self.manual:
                scope = f"is over the axes {tuple(a for a in self.mesh.axis_names if a in self.manual)} of {self.mesh}"
                raise ValueError(f"shard_map of {self.name}: {param} has {spec} for {value}, but the shard_map {scope}, and "
                                 f"{axis!r} is none of them.")

    def check_spec(self, spec, aval, value: _LazyString, param: str, check_divides: bool = True) -> None:
        if check_divides:
            self.check_axes(spec, value, param)
        seen: set = set()
        for axis in [*(a for p in spec for a in axes_of(p)), *spec.unreduced, *spec.reduced]:
            if axis in seen:
                raise DuplicateSpecError(f"shard_map of {self.name}: {param} has {spec} for {value}, which names the axis "
                                         f"{axis!r} twice: an axis can shard only one dimension.")
            seen.add(axis)
        if len(spec) > aval.ndim:
            remedy = "" if check_divides else " Use P() for a replicated scalar, or add a dimension with x[None]."
            raise ValueError(f"shard_map of {self.name}: {param} has {spec}, with {len(spec)} entries, for {value} of shape "
                             f"{aval.shape}, which has only {aval.ndim} dimension(s).{remedy}")
        if check_divides:
            for dimension, (n, num_shards) in enumerate(zip(aval.shape, shards_along(spec, self.sizes, aval.ndim))):
                if n % num_shards:
                    raise ValueError(
                        f"shard_map of {self.name}: {value} has shape {aval.shape} and in_specs {spec}, which shards dimension "
                        f"{dimension} of size {n} over {spec[dimension]!r} of {self.mesh}, and {n} is not evenly divisible by "
                        f"{num_shards}. Pad the dimension, or shard another one.")

    def check_type(self, spec, aval, value: _LazyString) -> None:
        """Check a spec against the sharding over manual axes in the argument's type, if these axes are Explicit."""
        if not all([a in self.mesh.explicit_axes for a in self.manual]):
            return
        own = PartitionSpec() if aval.explicit_sharding is None else aval.explicit_sharding.spec
        entries = [axes_of(entry) for entry in own.padded(aval.ndim)]
        manual = [tuple([a for a in axes if a in self.manual]) for axes in entries]
        for axes, of_shards in zip(entries, manual):
            if axes[:len(of_shards)] != of_shards:
                raise ValueError(f"shard_map of {self.name}: {value} has the type {aval}, of which {axes} shard one dimension: "
                                 f"the manual axes, {of_shards}, must be the first of them. Reshard the argument.")
        if manual != [axes_of(entry) for entry in spec.padded(aval.ndim)]:
            raise ValueError(f"shard_map of {self.name}: in_specs has {spec} for {value} of type {aval}, which "
                             f"does not match the spec of the input, {own}. Leave in_specs out, or reshard the argument "
                             f"to this sharding.")

    def check_operand_index(self, x, value: _LazyString) -> None:
        if not isinstance(self.mesh, Mesh):
            return
        devices, operand_devices = self.mesh._internal_device_list, x.sharding._internal_device_list
        if operand_devices is not devices and set(operand_devices) != set(devices):
            raise ValueError(f"shard_map of {self.name} is over {self.mesh} on the devices {[d.id for d in devices]}, but "
                             f"{value} (shape {x.shape}) is on {[d.id for d in operand_devices]}. Transfer it with "
                             f"device_put(x, NamedSharding(mesh, spec)).")

    def check_sums(self, spec, aval, value: _LazyString, param: str) -> None:
        """Check that the type and the spec have the same unreduced and reduced axes."""
        own = PartitionSpec() if aval.explicit_sharding is None else aval.explicit_sharding.spec
        type_sums = own.unreduced & self.manual, own.reduced & self.manual
        same_kind = not type_sums[0] or own.unreduced_kind is spec.unreduced_kind
        if (type_sums != (spec.unreduced, spec.reduced) or not same_kind) and (self.check or any(type_sums)):
            raise ValueError(
                f"shard_map of {self.name}: {param} has {spec} for {value} of type {aval}: the spec and the type "
                f"must have the same unreduced and reduced axes{'' if same_kind else ' and unreduced_kind'}, here "
                f"unreduced={set(type_sums[0])} and reduced={set(type_sums[1])}. Change the spec, or convert the value, with "
                f"reshard outside of the shard_map or with pcast or psum inside.")
        auto_axes = frozenset() if not (own.unreduced or own.reduced) else (
            (own.unreduced | own.reduced) & aval.explicit_sharding.mesh.explicit - self.manual)
        if auto_axes:
            axes = ", ".join(map(repr, sorted(auto_axes)))
            raise ValueError(f"shard_map of {self.name}: {value} has the type {aval}, unreduced or reduced over {axes}, which "
                             f"are not manual in the shard_map: XLA does not sum unreduced values inside. Add {axes} to "
                             f"axis_names, or reshard the value before, to P(...) without them.")

    def check_result(self, spec, aval, value: _LazyString) -> None:
        if aval.is_high:
            return
        self.check_spec(spec, aval, value, "out_specs", False)
        self.check_sums(spec, aval, value, "out_specs")
        if self.check:
            extra_axes = sorted(map(str, (aval.vma & self.manual) - spec_axes(spec) - spec.unreduced))
            if extra_axes:
                axes = ", ".join(map(repr, extra_axes))
                raise ValueError(
                    f"shard_map of {self.name}: out_specs has {spec} for {value}, which require replication over {axes}: the "
                    "same value on all devices. It can't be statically inferred, because its type varies there "
                    f"({aval}). Name {axes} in its spec, reduce the result over it (psum, pmean, pmax, all_gather(..., "
                    "to='invarying')), or pass check_vma=False if you know that it is the same.")
