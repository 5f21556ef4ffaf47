"""`shard_map`: one function on the parts that devices hold becomes a function on whole arrays.

The function sees the part of each argument that its device has, and reaches the others by collectives over the axes of the
mesh. Where `check_vma` is on, types say over which axes a value varies between devices; from them follow what may be
returned as the same on all devices, and where derivatives sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors, tracing, tree
from xlafront.core.ir import ClosedJaxpr, Jaxpr
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import MeshAxis
from xlafront.parallel.shard_map_rules import shard_map_p
from xlafront.parallel.shard_map_types import axes_in_scope, local_type, parts_along, spec_axes, vary_results
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.sharding import AbstractMesh, Mesh, PartitionSpec, active, axes_of
from xlafront.runtime.specs import DuplicateSpecError
from xlafront.staging import signatures
from xlafront.staging.compiling import constants_as_arguments
from xlafront.transforms.calls import programs


class _Infer:
    def __repr__(self):
        return "Infer"


Infer = _Infer()


# Specs


def _is_spec(x) -> bool:
    return isinstance(x, PartitionSpec) or hasattr(x, "to_lo")  # a `HiPspec`, of values that consist of others


def _flat_specs(what: str, specs, full, is_leaf) -> list:
    found = tree.leaves_by_prefix(what, specs, full, is_leaf) if specs is not None else [None] * len(tree.leaves(full))
    return _checked(what, found)


def _checked(what: str, specs: list) -> list:
    for spec in specs:
        if not (spec is None or _is_spec(spec)):
            remedy = f" Write P({spec!r})." if isinstance(spec, str) else ""
            raise TypeError(f"{what} takes PartitionSpecs, as pytree prefixes, got {spec!r} of type "
                            f"{type(spec).__name__}.{remedy}")
    return specs


def surrounding_mesh():
    """The mesh of the `shard_map` that is being traced, else the one that is set."""
    for axis in reversed(tracing.thread.axes):
        if type(axis) is MeshAxis:
            return axis.mesh
    return active.abstract or active.mesh


def _check_context(name: str, mesh) -> None:
    """A mesh that is given is the one in force, where there is one."""
    inside = active.abstract_mesh()
    if not inside.empty and (inside.shape_tuple, inside.axis_types) != (mesh.shape_tuple, mesh.axis_types):
        raise ValueError(f"shard_map of {name} was given {mesh}, but the context mesh, in force here, is {inside}: they should "
                         f"match. Leave mesh out; axis_names says over which of its axes the function is.")


# Public


def shard_map(f: Callable | None = None, *, out_specs: Any, in_specs: Any = Infer, mesh: Any = None,
              axis_names: Any = frozenset(), check_vma: bool = True) -> Callable:
    """A function on whole arrays that applies another to the parts that each device of a mesh holds.

    - `f`: the other.
    - `in_specs`, `out_specs`: for each argument and result (as pytree prefixes) how its dimensions are split over mesh axes.
      None is for arguments that are no arrays, which `f` gets as they are. Without `in_specs`, as the types of arguments say,
      where the axes are of type Explicit. A result whose spec leaves out an axis is the same on all devices along it.
    - `mesh`: the devices; the mesh in force (`set_mesh`) when left out.
    - `axis_names`: the axes that `f` handles by itself; the rest are left to the compiler. All, when empty.
    - `check_vma`: check that results vary only over axes in their specs, and differentiate accordingly.

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
                            f"{next(iter(keywords))!r} by name. Fill arguments in with functools.partial before.")
        if isinstance(mesh, (Mesh, AbstractMesh)):
            _check_context(name, mesh)
        return _Call(f, name, mesh, axis_names, check_vma).run(args, in_specs, out_specs)

    return signatures.dress(mapped, f)


def smap(f: Callable | None = None, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any) -> Callable:
    """`shard_map` over one axis of the mesh in force.

    - `f`: the function of parts.
    - `in_axes`, `out_axes`: for each argument and result the dimension that is split, None for none.
    - `axis_name`: the name of the mesh axis.

    >>> with xf.set_mesh(xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,))):
    ...     xf.smap(lambda x: x - lax.pmax(x, "i"), in_axes=0, out_axes=0, axis_name="i")(xnp.arange(4))
    Array([0, 0, 0, 0], dtype=int32)
    """
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)

    if isinstance(axis_name, (tuple, list)):
        raise TypeError(f"smap is over one axis of the mesh, by its name, got axis_name={axis_name!r}. For several use "
                        "shard_map.")

    def spec(axis):
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes):
        return tree.map(spec, axes, is_leaf=lambda x: x is None or isinstance(x, int))

    return shard_map(f, in_specs=Infer if in_axes is Infer else specs(in_axes), out_specs=specs(out_axes),
                     axis_names={axis_name})


def _without_objects(f: Callable, in_tree, leaves: list, specs: list) -> tuple[Callable, Any, list, list[int]]:
    """A function of the arguments that are arrays, their tree, these, and their places among all: what has no spec and is no
    array, or a Python number, is passed on as it is."""
    objects = {i: x for i, (x, spec) in enumerate(zip(leaves, specs)) if spec is None and (
        isinstance(x, (bool, int, float, complex)) or not tracing.is_arraylike(x))}
    kept = [i for i in range(len(leaves)) if i not in objects]
    if not objects:
        return f, in_tree, leaves, kept

    def of_arrays(*arrays):
        whole = dict(zip(kept, arrays)) | objects
        return f(*tree.unflatten(in_tree, [whole[i] for i in range(len(leaves))]))

    arrays = [leaves[i] for i in kept]
    return of_arrays, tree.structure(tuple(arrays)), arrays, kept


def map_parts(part: Callable, name: str, mesh, in_specs: list, out_specs: list, operands: Sequence[Any]) -> list:
    """`shard_map` of a function of flat arguments, for `pmap`: tracing `part` fills `out_specs`, and nothing is checked."""
    call = _Call(part, name, mesh, frozenset(), False)
    return call.run(tuple(operands), tuple(in_specs), out_specs)


class _Later:
    """What only messages need, worked out when they are written."""

    def __init__(self, make: Callable[[], str]):
        self.make = make

    def __str__(self):
        return self.make()


class _Evaluate:
    """Outside of compiled code, Python may ask for values inside of the body that are the same on all devices: computes them by
    the program so far."""

    def __init__(self, call: _Call, values: list, specs):
        self.call, self.values, self.specs = call, values, specs
        self.around = tracing.thread.axes, active.abstract
        self.used = False  # whether what is traced depends on values

    @staticmethod
    def of(call: _Call, operands: Sequence[Any], specs) -> _Evaluate | None:
        known = [x._concrete() if isinstance(x, tracing.Tracer) else x for x in operands]
        return None if any([x is None for x in known]) else _Evaluate(call, known, specs)

    def __call__(self, jaxpr: Jaxpr, consts: Sequence[Any]):
        """The value of the result, or None where devices have different ones."""
        closed = ClosedJaxpr(jaxpr, list(consts))
        if not self.call.check or closed.out_avals[0].vma or any([isinstance(c, tracing.Tracer) for c in consts]):
            return None
        self.used = True
        program, values = constants_as_arguments(closed)
        saved = tracing.thread.axes, active.abstract
        tracing.thread.axes, active.abstract = self.around
        try:
            with tracing.eval_context():
                return self.call.bind(program, values, self.values, self.specs, [PartitionSpec()])[0]
        finally:
            tracing.thread.axes, active.abstract = saved


class _Call:
    """One call of a `shard_map`: its arguments checked, its body traced."""

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
        around = [axis for axis in tracing.thread.axes if type(axis) is MeshAxis]
        if around and around[-1].mesh.shape_tuple != self.mesh.shape_tuple:
            raise ValueError(f"shard_map of {name} is over {self.mesh}, inside of a shard_map over {around[-1].mesh}. Leave "
                             f"mesh out: it is that of the surrounding shard_map, of which axis_names says the axes.")
        surrounding = {axis[0] for axis in around}
        self.manual = names or frozenset(a for a in self.mesh.axis_names if a not in surrounding)
        taken = sorted(map(str, self.manual & surrounding))
        if taken:
            raise ValueError(f"shard_map of {name} is over the axis {taken[0]!r}, which a surrounding shard_map is over "
                             f"already. Pass the other axes as axis_names.")
        if not self.manual:
            raise ValueError(f"shard_map of {name} is inside of shard_maps over all axes of {self.mesh}: none is left for it.")
        self.sizes = self.mesh.shape

    def run(self, args: tuple, in_specs, out_specs):
        for i, spec in enumerate(_checked(f"shard_map of {self.name}: out_specs", tree.leaves(out_specs, _is_spec))):
            if isinstance(spec, PartitionSpec):
                self.check_axes(spec, _Later(lambda i=i: f"result{self.result(out_specs, i)}"), "out_specs")
        leaves, in_tree = tree.flatten(args)
        whole = in_tree
        who_has = [_Later(lambda i=i: f"argument {self.arguments(whole)[i]}") for i in range(len(leaves))]
        if in_specs is Infer:
            operands = programs.operands_of(leaves, f"shard_map of {self.name}", args)
            specs = self.specs_of_types(operands)
            f = self.f
        else:
            given = _flat_specs(f"shard_map of {self.name}: in_specs", in_specs, args, lambda x: x is None or _is_spec(x))
            f, in_tree, leaves, kept = _without_objects(self.f, in_tree, leaves, given)
            operands = programs.operands_of(leaves, f"shard_map of {self.name}", in_tree.unflatten(leaves))
            who_has = [who_has[i] for i in kept]
            specs = [PartitionSpec() if given[i] is None else given[i] for i in kept]
        if self.check and any([tracing.aval_of(x).is_high for x in operands]):
            self.check = False  # types of values that consist of others do not say where they vary
        local = []
        for x, spec, who in zip(operands, specs, who_has):
            aval = tracing.aval_of(x)
            if aval.is_high:
                local.append(aval.shard(self.mesh, self.manual, self.check, spec))
                continue
            self.check_spec(spec, aval, who, "in_specs")
            self.check_sums(spec, aval, who, "in_specs")
            self.check_type(spec, aval, who)
            if type(x) is ArrayImpl and x._committed:
                self.check_place(x, who)
            local.append(local_type(aval, spec, self.mesh, self.manual, self.check))
        evaluate = _Evaluate.of(self, operands, specs)
        with axes_in_scope(self.mesh, self.manual, self.check):
            closed, consts, out_tree = programs.trace_function(f, in_tree, local, "shard_map", evaluate)
        if self.check and any([aval.is_high for aval in closed.out_avals]):
            self.check = False
            return self.run(args, in_specs, out_specs)
        shown = tree.numbered(out_tree)
        if out_specs is None and out_tree.num_leaves:
            raise ValueError(f"shard_map of {self.name} has out_specs=None, but results: give P() for those that are the same "
                             f"on all devices.")
        outs = _flat_specs(f"shard_map of {self.name}: out_specs", out_specs, shown, _is_spec)
        for i, (aval, spec) in enumerate(zip(closed.out_avals, outs)):
            self.check_result(spec, aval, _Later(lambda i=i: f"result{self.result(shown, i)}"))
        if self.check:
            with axes_in_scope(self.mesh, self.manual, True):
                closed = vary_results(closed, outs)
        return out_tree.unflatten(self.bind(closed, consts, operands, specs, outs))

    def bind(self, closed: ClosedJaxpr, consts: Sequence[Any], operands: Sequence[Any], specs, outs) -> list:
        return shard_map_p.bind(
            *consts, *operands, jaxpr=closed, mesh=self.mesh, in_specs=(PartitionSpec(),) * len(consts) + tuple(specs),
            out_specs=tuple(outs), newly_manual_axes=self.manual, check_vma=self.check)

    def arguments(self, in_tree) -> list[str]:
        whole = tree.structure((tree.numbered(in_tree), {}))
        return signatures.argument_names(self.f, signatures.Selection(), whole)

    def result(self, shown, index: int) -> str:
        return tree.keystr(tree.flatten_with_path(shown, _is_spec)[0][index][0])

    def specs_of_types(self, operands) -> list:
        if not all(a in self.mesh.explicit_axes for a in self.manual):
            raise TypeError(f"shard_map of {self.name} needs in_specs: how each argument is split over the mesh, as "
                            f"PartitionSpecs. They may be left out only for axes of type Explicit, which {self.mesh} does not "
                            f"have throughout.")
        specs = [PartitionSpec() if s is None else s.spec for s in (tracing.aval_of(x).explicit_sharding for x in operands)]
        return [PartitionSpec(*[tuple(a for a in axes_of(p) if a in self.manual) for p in spec],
                              unreduced=spec.unreduced & self.manual, reduced=spec.reduced & self.manual) for spec in specs]

    def check_axes(self, spec, who: _Later, which: str) -> None:
        for axis in [*(a for p in spec for a in axes_of(p)), *spec.unreduced, *spec.reduced]:
            if axis not in self.manual:
                have = f"is over the axes {tuple(a for a in self.mesh.axis_names if a in self.manual)} of {self.mesh}"
                raise ValueError(f"shard_map of {self.name}: {which} has {spec} for {who}, but the shard_map {have}, and "
                                 f"{axis!r} is none of them.")

    def check_spec(self, spec, aval, who: _Later, which: str, divide: bool = True) -> None:
        if divide:
            self.check_axes(spec, who, which)
        seen: set = set()
        for axis in [*(a for p in spec for a in axes_of(p)), *spec.unreduced, *spec.reduced]:
            if axis in seen:
                raise DuplicateSpecError(f"shard_map of {self.name}: {which} has {spec} for {who}, which names the axis "
                                         f"{axis!r} twice: an axis can split only one dimension.")
            seen.add(axis)
        if len(spec) > aval.ndim:
            remedy = "" if divide else " Use P() for a scalar that is the same on all devices, or give it a dimension, x[None]."
            raise ValueError(f"shard_map of {self.name}: {which} has {spec}, with {len(spec)} entries, for {who} of shape "
                             f"{aval.shape}, which has only {aval.ndim} dimension(s).{remedy}")
        if divide:
            for dimension, (n, parts) in enumerate(zip(aval.shape, parts_along(spec, self.sizes, aval.ndim))):
                if n % parts:
                    raise ValueError(
                        f"shard_map of {self.name}: {who} has shape {aval.shape} and in_specs {spec}, which splits dimension "
                        f"{dimension} of size {n} over {spec[dimension]!r} of {self.mesh}, and {n} is not evenly divisible by "
                        f"{parts}. Pad the dimension, or split another one.")

    def check_type(self, spec, aval, who: _Later) -> None:
        """Over a mesh that is Explicit throughout types say how values are split, and a function of parts changes nothing
        about it."""
        if not self.mesh.are_all_axes_explicit or len(self.manual) < len(self.sizes):
            return
        own = PartitionSpec() if aval.explicit_sharding is None else aval.explicit_sharding.spec
        if own.padded(aval.ndim) != spec.padded(aval.ndim):
            raise ValueError(f"shard_map of {self.name}: in_specs has {spec} for {who} of type {aval}, which "
                             f"does not match the spec of the input, {own}. Leave in_specs out, or bring the argument to this "
                             f"sharding with reshard.")

    def check_place(self, x, who: _Later) -> None:
        if not isinstance(self.mesh, Mesh):
            return
        devices, here = self.mesh._internal_device_list, x.sharding._internal_device_list
        if here is not devices and set(here) != set(devices):
            raise ValueError(f"shard_map of {self.name} is over {self.mesh} on the devices {[d.id for d in devices]}, but "
                             f"{who} (shape {x.shape}) is on {[d.id for d in here]}. Move it with device_put(x, "
                             f"NamedSharding(mesh, spec)).")

    def check_sums(self, spec, aval, who: _Later, which: str, varying=frozenset()) -> None:
        """Types and specs agree on the axes over which sums are still to be made; one that varies may become a summand."""
        own = PartitionSpec() if aval.explicit_sharding is None else aval.explicit_sharding.spec
        found, wanted = (own.unreduced & self.manual, own.reduced & self.manual), (spec.unreduced - varying, spec.reduced)
        if found != wanted and (self.check or any(found)):
            raise ValueError(
                f"shard_map of {self.name}: {which} has {spec} for {who} of type {aval}: what one says is "
                f"unreduced or reduced, the other must say too. Write {spec.update(unreduced=found[0], reduced=found[1])}, or "
                f"bring the value to it: with reshard outside of the shard_map, with pcast or psum inside.")
        beyond = frozenset() if not (own.unreduced or own.reduced) else (
            (own.unreduced | own.reduced) & aval.explicit_sharding.mesh.explicit - self.manual)
        if beyond:
            axes = ", ".join(map(repr, sorted(beyond)))
            raise ValueError(f"shard_map of {self.name}: {who} has the type {aval}, unreduced or reduced over {axes}, which "
                             f"the shard_map leaves to types: XLA makes no sums of summands within it. Add {axes} to "
                             f"axis_names, or reshard the value before, to P(...) without them.")

    def check_result(self, spec, aval, who: _Later) -> None:
        if aval.is_high:
            return
        self.check_spec(spec, aval, who, "out_specs", False)
        self.check_sums(spec, aval, who, "out_specs", aval.vma)
        if self.check:
            beyond = sorted(map(str, (aval.vma & self.manual) - spec_axes(spec) - spec.unreduced))
            if beyond:
                axes = ", ".join(map(repr, beyond))
                raise ValueError(
                    f"shard_map of {self.name}: out_specs has {spec} for {who}, which require replication over {axes}: the "
                    "same value on all devices. It can't be statically inferred, as the type says that it varies there "
                    f"({aval}). Name {axes} in its spec, reduce the result over it (psum, pmean, pmax, all_gather(..., "
                    "to='invarying')), or pass check_vma=False if you know that it is the same.")
