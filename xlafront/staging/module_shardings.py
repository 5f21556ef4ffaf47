"""The shardings of a module: the attributes of its arguments, values and results, and the shardings of compiled results."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import GSPMDSharding, HloSharding, NamedSharding, OpSharding
from xlafront.base.layouts import Layout, MemorySpace
from xlafront.base.meshes import check_spec
from xlafront.core import avals, errors, tracing
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime import keys
from xlafront.runtime.guards import to_host
from xlafront.runtime.sharding import (
    AbstractMesh,
    Mesh,
    PartitionSpec,
    SingleDeviceSharding,
    as_named,
    axes_of,
    in_device_memory,
    named_from_hlo,
    open_sums,
    single_device,
)
from xlafront.staging.device_assignment import DeviceAssignment, has_devices, mesh_of
from xlafront.staging.sharding_arguments import UNSPECIFIED

INLINE_BYTES = 256  # constants up to this size are written into the module


def inline_constant(value) -> np.ndarray | None:
    """Return the value of a constant that is inlined in the module; None for one that becomes an argument."""
    if type(value) is ShapeDtypeStruct:
        raise TypeError(f"a function computes with a {value} that it closes over, which has a type and no value. Pass an "
                        f"array, or create one with zeros_like.")
    value = keys.physical_array(value) if type(value) is avals.Token else value
    aval = tracing.aval_of(value)
    if isinstance(value, tracing.Tracer) or aval.size * aval.dtype.itemsize > INLINE_BYTES or not isinstance(
            aval.dtype, np.dtype):
        return None
    with to_host():
        return np.asarray(value, dtype=aval.dtype)


def value_of_constant(value) -> np.ndarray:
    """Return the value of a constant in an exported module, where all constants are inlined."""
    if isinstance(value, tracing.Tracer):
        raise errors.UnexpectedTracerError(
            f"a program to export closes over a traced array (Tracer) of type {value.aval}, which has no "
            f"value yet: export the function outside of jit, grad and vmap, or pass the value as an argument.")
    words = keys.physical_array(value)
    with to_host():
        return np.asarray(words, dtype=tracing.aval_of(words).dtype)


class ProgramShardings:
    """The shardings of a program, for its module and its executable.

    `live` marks the arguments that the module takes, after so many hoisted constants.
    """

    def __init__(self, assignment: DeviceAssignment, out_shardings, live, hoisted: int, jaxpr):
        self.assignment, self.requested = assignment, out_shardings
        self.out_avals = [keys.physical(aval) for aval in jaxpr.out_avals]
        self.partitioned = len(assignment.devices) > 1
        self.out = tuple([self.on_devices(s) for s in out_shardings])
        if self.partitioned or assignment.mesh is not None:
            self.out = tuple([self.explicit_result(aval) if s is UNSPECIFIED else s for s, aval in zip(
                self.out, jaxpr.out_avals)])
        self.meshes: dict[Any, str] = {}
        self.symbols: dict[Any, str] = {}  # by mesh
        live_shardings = [s for s, is_live in zip(assignment.shardings, live) if is_live]
        self.arguments = [assignment.replicated()] * hoisted + live_shardings
        self.argument_avals = [keys.physical(aval) for aval, is_live in zip(jaxpr.in_avals, live) if is_live]
        self.memories = [_memory_kind(s, aval, given is not UNSPECIFIED) for s, aval, given in zip(
            self.out, jaxpr.out_avals, out_shardings)]

    def concrete(self, mesh) -> Mesh:
        """Return a mesh with the program's devices, from one that may be abstract."""
        if isinstance(mesh, Mesh):
            return mesh
        found = self.assignment.mesh
        if found is None or found.shape_tuple != mesh.shape_tuple:
            if mesh.size != len(self.assignment.devices):
                raise ValueError(f"a value is sharded over {mesh} in a program on {len(self.assignment.devices)} device(s). "
                                 f"Put a mesh of this shape in force with set_mesh(mesh), or give arguments over one.")
            return Mesh(np.array(self.assignment.devices, dtype=object).reshape(mesh.axis_sizes), mesh.axis_names,
                        mesh.axis_types)
        return found if found.axis_types == mesh.axis_types else found.update(axis_types=mesh.axis_types)

    def on_devices(self, sharding):
        """Return a user's sharding, over the program's devices if it has none of its own."""
        if has_devices(sharding):
            return sharding
        return NamedSharding(self.concrete(sharding.mesh), sharding.spec, memory_kind=sharding.memory_kind)

    def explicit_result(self, aval):
        """Return the sharding of a result by its type; UNSPECIFIED if the type has none."""
        if aval.explicit_sharding is not None and (
                aval.explicit_sharding.mesh.are_all_axes_explicit or aval.explicit_sharding.spec.unreduced):
            return NamedSharding(self.concrete(aval.explicit_sharding.mesh), aval.explicit_sharding.spec)
        mesh = self.assignment.mesh if self.assignment.types_have_mesh else None
        if aval.explicit_sharding is None and mesh is not None and mesh.are_all_axes_explicit and isinstance(aval,
                                                                                                             avals.ShapedArray):
            return NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim))
        return UNSPECIFIED

    def mesh_symbol(self, mesh: Mesh) -> str:
        """Return the name of a mesh in the module."""
        found = self.symbols.get(mesh)
        if found is None:
            mesh = self.concrete(mesh)
            key = (mesh.shape_tuple, tuple([d.id for d in mesh.devices.flat]))
            found = self.meshes.setdefault(key, "mesh" if not self.meshes else f"mesh_{len(self.meshes)}")
            self.symbols[mesh] = found
        return found

    def symbol_at(self, shape: tuple, positions: Sequence[int]) -> str:
        """Return the name of the mesh of this shape, `((name, size), ...)`, over the program's devices at these positions."""
        key = (shape, tuple([self.assignment.devices[i].id for i in positions]))
        return self.meshes.setdefault(key, f"mesh_{len(self.meshes)}")

    def one_device_symbol(self, index: int) -> str:
        """Return the name of the mesh of a single one of the program's devices."""
        key = ((), (self.assignment.devices[index].id,))
        return self.meshes.setdefault(key, f"device_{index}")

    def attribute(self, sharding, ndim: int):
        """Return the `sdy.sharding` attribute of a value."""
        if isinstance(sharding, SingleDeviceSharding):
            sharding = self.assignment.replicated()
        elif isinstance(sharding, GSPMDSharding):
            sharding = as_named(sharding, ndim)
        symbol = self.mesh_symbol(sharding.mesh)
        check_spec(sharding.mesh, sharding.spec, ndim)
        dims = []
        # The compiler may shard a value further over axes that are not part of types, except summands, which it would take for
        # sums.
        free = isinstance(sharding.mesh, AbstractMesh) and not sharding.mesh.are_all_axes_explicit
        more = ["?"] if free and not sharding.spec.unreduced else []
        for p in sharding.spec.padded(ndim)[:ndim]:
            if p is PartitionSpec.UNCONSTRAINED:
                dims.append("{?}")
            else:
                dims.append("{" + ", ".join([lowering.mlir.axis(a) for a in axes_of(p)] + more) + "}")
        sums = [axis for axis in sharding.mesh.explicit_axes if axis in sharding.spec.unreduced]
        if sums and sharding.mesh.manual_axes:  # XLA aborts
            raise NotImplementedError(
                f"a value in a shard_map over {', '.join(map(repr, sharding.mesh.manual_axes))} is unreduced over "
                f"{', '.join(map(repr, sums))}, which that shard_map leaves to types: XLA does not support open sums within "
                f"one. Request the sum at once (out_sharding without unreduced) or add the axes to the shard_map's axis_names.")
        unreduced = lowering.mlir.unreduced_axes(sharding.spec, sums)
        return lowering.mlir.attribute(f"#sdy.sharding<@{symbol}, [{', '.join(dims)}]{unreduced}>")

    def constrain_to_types(self, ctx, results):
        """Constrain the results of an operation to the shardings of their types."""
        made = []
        for value, v in zip(results, ctx._outvars):
            explicit = v.aval.explicit_sharding
            if explicit is not None and explicit.mesh.explicit:
                attribute = self.attribute(explicit, keys.physical(v.aval).ndim)
                value = ctx.op("sdy.sharding_constraint", [value], [v.aval], sharding=attribute)
            made.append(value)
        return made

    def _constrained(self, value, aval, sharding):
        return lowering.mlir.create(
            "sdy.sharding_constraint", results=[value.type], operands=[value], loc=lowering.mlir.unknown_location,
            attributes={"sharding": self.attribute(sharding, keys.physical(aval).ndim)}).result

    def constrain_to_type(self, value, aval):
        """Constrain a value to the sharding of its type. Operands of open sums must be; a constant is replicated otherwise."""
        sharding = aval.explicit_sharding
        return value if sharding is None or not sharding.mesh.explicit else self._constrained(value, aval, sharding)

    def broadcast_summands(self, value, aval, dims: Sequence[int], shape: Sequence[int]):
        """Broadcast an unreduced value to a shape in which its dimensions are at `dims`.

        Dimensions of size 1 that grow are dropped first: XLA drops them itself, and would reduce the sum there.
        """
        m, sharding = lowering.mlir, aval.explicit_sharding
        padded = sharding.spec.padded(aval.ndim)
        same = [i for i, d in enumerate(dims) if aval.shape[i] == shape[d]]
        if len(same) < aval.ndim:
            spec = sharding.spec.update([padded[i] for i in same])
            squeezed = aval.update(shape=tuple([aval.shape[i] for i in same]), sharding=NamedSharding(sharding.mesh, spec))
            value = m.create(
                "stablehlo.reshape", results=[m.type_of(squeezed)], operands=[value], loc=m.unknown_location).result
            value = self.constrain_to_type(value, squeezed)
        found = m.create("stablehlo.broadcast_in_dim", results=[m.tensor_type(tuple(shape), aval.dtype)], operands=[value],
                         attributes={"broadcast_dimensions": m.i64s([dims[i] for i in same])}, loc=m.unknown_location).result
        entries = [None] * len(shape)
        for i, d in enumerate(dims):
            entries[d] = padded[i]
        spec = sharding.spec.update(entries)
        return self.constrain_to_type(found, aval.update(shape=tuple(shape), sharding=NamedSharding(sharding.mesh, spec)))

    def constrain_results(self, results):
        """Constrain unreduced results to the shardings that users request for them."""
        return [value if aval.explicit_sharding is None or not aval.explicit_sharding.spec.unreduced or s is UNSPECIFIED
                else self._constrained(value, aval, s) for value, aval, s in zip(results, self.out_avals, self.out)]

    def result_attributes(self):
        """Return the attributes of the module's results: shardings and memories; None if there are none."""
        if not self.partitioned and not any(self.memories):
            return None
        with lowering.mlir.context:
            found = [{} if s is UNSPECIFIED or not self.partitioned else {"sdy.sharding": self.attribute(s, aval.ndim)}
                     for s, aval in zip(self.out, self.out_avals)]
            for entry, kind in zip(found, self.memories):
                if kind is not None:
                    entry["mhlo.memory_kind"] = lowering.mlir.string(kind)
            return found

    def declare_meshes(self, module_context) -> None:
        """Add the meshes that were used to the module."""
        mlir = lowering.mlir
        with mlir.context, mlir.unknown_location:
            for (shape, ids), symbol in self.meshes.items():
                axes = ", ".join(f"{mlir.axis(name)}={size}" for name, size in shape)
                order = {d.id: i for i, d in enumerate(self.assignment.devices)}
                positions = [order[i] for i in ids]
                text = f"[{axes}]"
                if not shape or positions != list(range(len(positions))):
                    text += f", device_ids=[{', '.join(map(str, positions))}]"
                mlir.create("sdy.mesh", attributes={"sym_name": mlir.string(symbol),
                                                    "mesh": mlir.attribute(f"#sdy.mesh<{text}>")},
                            ip=mlir.ir.InsertionPoint.at_block_begin(module_context.module.body))

    def adjust(self, options) -> None:
        """Set the compile options that depend on shardings."""
        if self.partitioned:
            build = options.executable_build_options
            build.allow_spmd_sharding_propagation_to_parameters = [False] * len(self.arguments)
            build.allow_spmd_sharding_propagation_to_output = [s is UNSPECIFIED for s in self.out] or [True]

    def results(self, executable, out_avals) -> list:
        """Return the sharding of each result of the compiled program."""
        found = [_with_sums(s, aval) for s, aval in zip(self._result_shardings(executable, out_avals), out_avals)]
        return [s if kind in (None, s.memory_kind) else s.with_memory_kind(kind) for s, kind in zip(found, self.memories)]

    def _result_shardings(self, executable, out_avals) -> list:
        if not self.partitioned:
            return self._on_one_device(out_avals)
        protos = executable.get_output_shardings()
        mesh = mesh_of(self.assignment)
        by_meaning = self._argument_shardings_by_meaning(mesh)
        results = []
        for i, (given, aval) in enumerate(zip(self.out, out_avals)):
            if given is not UNSPECIFIED:
                results.append(given if not isinstance(given, SingleDeviceSharding) else self.assignment.replicated())
                continue
            proto = HloSharding.replicate() if protos is None else protos[i]
            hlo = HloSharding.from_proto(proto) if isinstance(proto, OpSharding) else proto
            named = named_from_hlo(hlo, mesh, aval.ndim)
            if named is None:
                results.append(GSPMDSharding(self.assignment.devices, hlo))
            elif aval.explicit_sharding is not None:
                results.append(self._completed(aval.explicit_sharding, hlo))
            else:
                results.append(by_meaning.get((aval.ndim, named._to_xla_hlo_sharding(aval.ndim)), named))
        return results

    def _completed(self, explicit: NamedSharding, hlo):
        """Return the sharding of a result whose type shards it over some axes of a mesh, and the compiler over the others."""
        mesh = self.concrete(explicit.mesh)
        chosen = named_from_hlo(hlo, mesh, len(explicit.spec.partitions))
        if chosen is None:
            return GSPMDSharding(self.assignment.devices, hlo)
        more = chosen.spec.padded(len(explicit.spec.partitions))
        entries = [(*axes_of(own), *[a for a in axes_of(p) if a in mesh.auto_axes])
                   for own, p in zip(explicit.spec.partitions, more)]
        return NamedSharding(mesh, explicit.spec.update(partitions=[e or None for e in entries]))

    def _on_one_device(self, out_avals) -> list:
        """Return the shardings of results on one device; with a mesh, the specs are those of arguments of the same shape."""
        mesh, rest = None if self.assignment.single_device else self.assignment.mesh, single_device(self.assignment.devices[0])
        by_shape: dict = {}
        if mesh is not None:
            rest = NamedSharding(mesh, PartitionSpec())
            for aval, sharding in self._arguments_over(mesh):
                by_shape.setdefault(aval.shape, sharding)
        return [given if isinstance(given, (NamedSharding, SingleDeviceSharding)) else by_shape.get(aval.shape, rest)
                for given, aval in zip(self.out, out_avals)]

    def _argument_shardings_by_meaning(self, mesh) -> dict:
        """Return the arguments' shardings by rank and HLO sharding.

        A result like an argument with `P("x", None)` gets this spec, not the equivalent `P("x")`: another spec of a state that
        is passed again would be a new signature, and its step would be compiled a second time.
        """
        found: dict = {}
        for aval, sharding in self._arguments_over(mesh):
            found.setdefault((aval.ndim, sharding._to_xla_hlo_sharding(aval.ndim)), sharding)
        return found

    def _arguments_over(self, mesh):
        """Yield the types and shardings of arguments whose sharding a result may have too."""
        arguments = self.arguments[len(self.arguments) - len(self.argument_avals):]  # without constants
        for aval, sharding in zip(self.argument_avals, arguments):
            if (isinstance(sharding, NamedSharding) and sharding.mesh == mesh and not open_sums(sharding)
                    and in_device_memory(sharding)):
                yield aval, sharding


def _with_sums(sharding, aval):
    """Return the sharding of a result with the reduced axes of its type, which its compiled form lacks."""
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit:
        return sharding
    reduced = frozenset() if aval.explicit_sharding is None else aval.explicit_sharding.spec.reduced
    return sharding if sharding.spec.reduced == reduced else sharding.update(spec=sharding.spec.update(reduced=reduced))


def evenly(sharding, aval):
    """Return a sharding without the entries that do not divide their dimension."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    sizes = sharding.mesh.shape
    even = [None if n % math.prod([sizes[a] for a in axes_of(p)]) else p
            for n, p in zip(aval.shape, sharding.spec.partitions)]
    if even == list(sharding.spec.partitions[:aval.ndim]):
        return sharding
    while even and even[-1] is None:
        even.pop()
    return sharding.update(spec=sharding.spec.update(partitions=even))


def _memory_kind(sharding, aval, requested: bool) -> str | None:
    """Return the memory of a result, as requested or by its type; None for that of the device."""
    kind = None if sharding is UNSPECIFIED else sharding.memory_kind
    if not requested and kind in (None, "device") and isinstance(aval, avals.ShapedArray) and aval.memory is MemorySpace.Host:
        kind = "pinned_host"
    return None if kind == "device" else kind


def argument_attributes(jaxpr, live, donated, hoisted: Sequence[Any], shardings: ProgramShardings, name):
    """Return the attributes of the module's arguments: shardings, memories and donations; None if there are none.

    `hoisted` are the types of the constants that come first.
    """
    mlir = lowering.mlir
    with mlir.context:
        attributes: list[dict] = [{} for _ in range(len(hoisted) + len(jaxpr.invars))]
        if shardings.partitioned:
            for entry, sharding, aval in zip(attributes, shardings.arguments, [*hoisted, *jaxpr.in_avals]):
                entry["sdy.sharding"] = shardings.attribute(sharding, keys.physical(aval).ndim)
        for entry, sharding in zip(attributes, shardings.arguments):
            if not in_device_memory(sharding):
                entry["mhlo.memory_kind"] = mlir.string(sharding.memory_kind)
        if any(donated):
            flags = [d for d, is_live in zip(donated, live) if is_live]
            _mark_donations(attributes[len(hoisted):], jaxpr, flags, shardings, name)
        return attributes if any(attributes) else None


def _bytes(aval) -> int:
    words = keys.physical(aval)
    return words.size * words.dtype.itemsize


def _mark_donations(attributes, jaxpr, donated, shardings, name) -> None:
    """Pair each donated argument with a result that can take its memory; warn of arguments without one."""
    mlir = lowering.mlir
    free: dict[tuple, list[int]] = {}
    for i, aval in enumerate(map(keys.physical, jaxpr.out_avals)):
        free.setdefault((aval.shape, aval.dtype), []).append(i)
    unpaired = []
    for entry, v, flag in zip(attributes, jaxpr.invars, donated):
        aval = keys.physical(v.aval)
        results = free.get((aval.shape, aval.dtype))
        if not flag:
            continue
        if not results:
            unpaired.append((entry, v.aval))
        elif shardings.partitioned:
            results.pop(0)
            entry["jax.buffer_donor"] = mlir.boolean(True)
        else:
            entry["tf.aliasing_output"] = mlir.i32(results.pop(0))
    # A result of another shape or dtype can take the memory if it has as many bytes.
    sizes = [_bytes(jaxpr.out_avals[i]) for results in free.values() for i in results]
    # Where only the dtype is another, as of parameters that are converted, JAX does not warn.
    shapes = {shape for (shape, _), results in free.items() if results}
    unusable = []
    for entry, aval in unpaired:
        if (size := _bytes(aval)) in sizes:
            sizes.remove(size)
            entry["jax.buffer_donor"] = mlir.boolean(True)
        elif keys.physical(aval).shape not in shapes:
            unusable.append(avals.str_short(aval))
    if unusable:
        warnings.warn(f"Some donated buffers were not usable in {name}, as no result can take their memory: "
                      f"{', '.join(unusable)}. Donate only arguments that have the shape and dtype of a result.", stacklevel=2)


def layout_attributes(attributes: list[dict] | None, layouts: Sequence[Any]) -> list[dict]:
    """Add the requested layouts to the attributes of a module's arguments or results."""
    mlir = lowering.mlir
    found = [{} for _ in layouts] if attributes is None else attributes
    with mlir.context:
        for entry, layout in zip(found, layouts):
            mode = "default" if layout is None else "auto" if layout is Layout.AUTO else layout.mode()
            entry["mhlo.layout_mode"] = mlir.string(mode)
    return found


def constrain(ctx, values, value_avals, shardings):
    """Constrain MLIR values within a program to requested shardings."""
    context = ctx.module_context.sharding_context
    if context is None or not context.partitioned:
        return values
    return [v if s is UNSPECIFIED else ctx.op("sdy.sharding_constraint", [v], [aval],
                                              sharding=context.attribute(s, keys.physical(aval).ndim))
            for v, aval, s in zip(values, value_avals, shardings)]
