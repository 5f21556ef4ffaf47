"""Where the arguments, constants and results of a compiled program live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront import lowering
from xlafront.core import avals, backends, keys, tracing, tree
from xlafront.core.ir import ClosedJaxpr, Jaxpr, Literal, dce_jaxpr
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import Device, GSPMDSharding, HloSharding, NamedSharding, OpSharding, Sharding
from xlafront.runtime.layouts import Format, Layout, MemorySpace
from xlafront.runtime.sharding import (
    AbstractMesh,
    Mesh,
    PartitionSpec,
    SingleDeviceSharding,
    active,
    as_named,
    axes_of,
    check_spec,
    named_from_hlo,
    single_device,
)
from xlafront.runtime.topologies import is_elsewhere


class _Unspecified:
    def __repr__(self):
        return "UnspecifiedValue"


UNSPECIFIED = _Unspecified()
INLINE_BYTES = 256  # constants up to this size are written into the module


def flatten_shardings(what: str, given, full) -> tuple:
    """The sharding of each leaf of `full`, from a pytree prefix of shardings; None means unspecified."""

    def is_leaf(x):
        return x is None or isinstance(x, (Sharding, PartitionSpec, Device, Format, _Unspecified))

    try:
        leaves = tree.broadcast_prefix(given, full, is_leaf)
    except ValueError:
        for error in tree.prefix_errors(given, full, is_leaf):
            raise error(what) from None
        raise
    return tuple(_as_sharding(what, x) for x in leaves)


def _is_format(x) -> bool:
    return isinstance(x, (Format, Sharding, PartitionSpec))


def flatten_layouts(given, full) -> list:
    """The layout of each leaf of `full` that `given`, a pytree prefix, has a `Format` for."""
    leaves = tree.broadcast_prefix(given, full, lambda x: x is None or _is_format(x))
    return [x.layout if isinstance(x, Format) else None for x in leaves]


def asks_for_layouts(given) -> bool:
    """Whether there is a `Format` among shardings."""
    return given is not UNSPECIFIED and any([isinstance(x, Format) for x in tree.leaves(given, _is_format)])


def layout_attributes(attributes: list[dict] | None, layouts: Sequence[Any]) -> list[dict]:
    """The attributes of arguments or results of a module, with the layouts that are asked for."""
    mlir = lowering.mlir
    found = [{} for _ in layouts] if attributes is None else attributes
    with mlir.context:
        for entry, layout in zip(found, layouts):
            mode = "default" if layout is None else "auto" if layout is Layout.AUTO else layout.mode()
            entry["mhlo.layout_mode"] = mlir.string(mode)
    return found


def _as_sharding(what: str, x):
    if x is None or x is UNSPECIFIED:
        return UNSPECIFIED
    if isinstance(x, Format):
        return UNSPECIFIED if x.sharding is None else x.sharding
    if isinstance(x, PartitionSpec):
        return over_active_mesh(what, x, RuntimeError)
    if isinstance(x, Device):
        return single_device(x)
    if isinstance(x, Sharding):
        return x
    raise TypeError(f"{what} takes shardings, got {type(x).__name__}: {x!r}.")


def over_active_mesh(what: str, spec: PartitionSpec, error: type[Exception] = ValueError) -> NamedSharding:
    """A spec that was given without a mesh."""
    mesh = active.abstract or active.mesh
    if mesh is None:
        raise error(f"{what} has {spec}, but there is no mesh in force that it could refer to: use NamedSharding(mesh, "
                    f"{spec}), or set one with set_mesh(mesh).")
    if active.abstract is not None and active.mesh is not None and active.mesh.shape_tuple == mesh.shape_tuple:
        mesh = active.mesh.update(axis_types=mesh.axis_types)
    return NamedSharding(mesh, spec)


class Spots(NamedTuple):
    """The devices of a program, the sharding of each argument, and whether results are tied to them."""

    devices: tuple
    shardings: tuple
    committed: bool
    mesh: Mesh | None

    def replicated(self):
        if len(self.devices) == 1:
            return single_device(self.devices[0])
        return NamedSharding(self.mesh or _flat_mesh(self.devices), PartitionSpec())


def _flat_mesh(devices: tuple) -> Mesh:
    found = _flat_meshes.get(devices)
    if found is None:
        found = _flat_meshes[devices] = Mesh(np.array(devices, dtype=object), ("devices",))
    return found


_flat_meshes: dict[tuple, Mesh] = {}


def place_arguments(name: str, leaves: Sequence[Any], wanted: Sequence[Any], traced, options,
                    read: Sequence[bool] | None = None) -> Spots:
    """Decide where a program runs: where its committed arguments are, or where it was told to.

    `read` says which arguments matter, when it is not all.
    """
    if options.device is not None:
        return _all_on((options.device,), len(leaves), True)
    if options.backend is not None:
        return _all_on((backends.client(options.backend).local_devices()[0],), len(leaves), True)
    devices: tuple | None = None
    mesh = None
    first = None  # the argument that decides
    known = None  # the device list seen last: one object for all arguments of a mesh
    found: list[Any] = []
    for i, (x, given) in enumerate(zip(leaves, wanted)):
        sharding = given
        if given is UNSPECIFIED:
            sharding = None
            words = keys.words_of(x)
            if isinstance(words, ArrayImpl) and words._committed:
                sharding = words._sharding
            elif isinstance(x, avals.ShapeDtypeStruct) and isinstance(x.sharding, Sharding) and has_devices(x.sharding):
                sharding = x.sharding
        else:
            _check_given(name, x, given, traced, i)
            if not has_devices(given):
                raise ValueError(
                    f"{name} has in_shardings {given} for its argument {traced.debug_info.arg_names[i]}, which has no devices: "
                    f"its mesh is an AbstractMesh. Use a sharding over a Mesh, from make_mesh.")
        found.append(sharding)
        if sharding is None or read is not None and not read[i]:
            continue
        internal = sharding._internal_device_list
        these = devices if internal is known else tuple(internal)
        known = internal
        if devices is None or first is None:
            devices, first = these, i
        elif these != devices:
            if read is None and not options.keep_unused and not traced.closed.effects:
                read = dce_jaxpr(traced.closed.jaxpr, [True] * len(traced.closed.jaxpr.outvars))[1]
                if not all(read):  # those that nothing reads may be anywhere
                    return place_arguments(name, leaves, wanted, traced, options, read)
            names = traced.debug_info.arg_names
            raise ValueError(
                f"{name} got arguments on different devices: {names[first]} {_where(leaves[first], found[first])}, {names[i]} "
                f"{_where(x, sharding)}. The arrays of a call are on the same devices, in the same order. Move one of them "
                f"with device_put(x, sharding).")
        if isinstance(sharding, NamedSharding):
            mesh = mesh or sharding.mesh
            try:
                sharding.shard_shape(keys.physical(tracing.aval_of(x)).shape)
            except ValueError as e:
                raise type(e)(f"{name} got argument {traced.debug_info.arg_names[i]} that does not fit its sharding: "
                                 f"{e}") from None
    for sharding in _program_shardings(traced, options):
        these = tuple(sharding._internal_device_list)
        if devices is None:
            devices = these
        elif these != devices:
            who = f"another one is on {_ids(devices)}" if first is None else (
                f"argument {traced.debug_info.arg_names[first]} {_where(leaves[first], found[first])}")
            raise ValueError(
                f"{name} has a sharding or shard_map inside of it, or a result, {in_words(sharding)}, but {who}. All are over "
                f"the same devices, in the same order. Use one mesh, and move arguments there with device_put(x, "
                f"NamedSharding(mesh, P(...))).")
        if isinstance(sharding, NamedSharding):
            mesh = mesh or sharding.mesh
    if devices is None:
        mesh = active.mesh
        if mesh is None or is_elsewhere(mesh.devices.flat[0].client):
            return _all_on((backends.default_device(),), len(leaves), False)
        devices = tuple(mesh._internal_device_list)
    spots = Spots(devices, (), True, mesh)
    rest = spots.replicated()
    if len(devices) > 1 and any([s is None for s in found]):
        split = _split_by_bodies(traced.closed.jaxpr, devices)
        found = [split.get(v) if s is None else s for s, v in zip(found, traced.closed.jaxpr.invars)]
    return spots._replace(shardings=tuple(rest if s is None else s for s in found))


def split_types(in_avals: tuple, shardings: Sequence[Any]) -> tuple:
    """The types of arguments that come in these shardings."""
    return tuple([a.update(sharding=s) if isinstance(s, NamedSharding) and isinstance(a, avals.ShapedArray) and len(
        s.spec) <= a.ndim else a for a, s in zip(in_avals, shardings)])


def _check_given(name: str, x, given, traced, index: int) -> None:
    """An array that is bound to devices must come as `in_shardings` say; that of one device is moved, as are parts that
    only lie in another order on the same devices."""
    words = keys.words_of(x)
    if not isinstance(words, ArrayImpl) or not words._committed or words._sharding == given:
        return
    own = words._sharding
    if has_devices(given) and own.memory_kind == given.memory_kind:
        if own.num_devices == given.num_devices == 1:
            return
        hlo = [s._to_xla_hlo_sharding(words.ndim) for s in (own, given)]
        if own.device_set == given.device_set and hlo[0] == hlo[1]:
            return
    raise ValueError(
        f"{name} has in_shardings {given} for its argument {traced.debug_info.arg_names[index]}, but the array that it got "
        f"{_where(words, own)}. Move it with device_put(x, sharding), or leave in_shardings out.")


def in_words(sharding) -> str:
    """A sharding in words, with its devices."""
    memory = f" in {sharding.memory_kind} memory" if sharding.memory_kind not in (None, "device") else ""
    if isinstance(sharding, NamedSharding):
        devices = f" of {_ids(tuple(sharding._internal_device_list))}" if has_devices(sharding) else ""
        return f"split by {sharding.spec} over {sharding.mesh}{devices}{memory}"
    return f"on {_ids(tuple(sharding._internal_device_list))}{memory}"


def _where(x, sharding) -> str:
    return f"(shape {tuple(np.shape(x))}) is {in_words(sharding)}"


def check_results(name: str, shardings: Sequence[Any], traced) -> None:
    """Raise for results that cannot be split as `out_shardings` say, by their place among the results."""
    for i, (sharding, aval) in enumerate(zip(shardings, traced.closed.out_avals)):
        if isinstance(sharding, NamedSharding):
            try:
                sharding.shard_shape(aval.shape)
            except ValueError as e:
                paths, _ = tree.flatten_with_path(traced.out_tree.unflatten(range(traced.out_tree.num_leaves)))
                raise type(e)(f"out_shardings of {name} do not fit its result{tree.keystr(paths[i][0])}: {e}") from None


def _split_by_bodies(jaxpr, devices: tuple) -> dict:
    """The shardings in which functions of `shard_map` read the program's arguments."""
    def look():
        found: dict = {}
        for eqn in jaxpr.eqns:
            specs, mesh = eqn.params.get("in_specs"), eqn.params.get("mesh")
            if specs is not None and isinstance(mesh, Mesh) and tuple(mesh._internal_device_list) == devices:
                for v, spec in zip(eqn.invars, specs):
                    if type(v) is not Literal:
                        found.setdefault(v, NamedSharding(mesh, spec))
            elif isinstance(inner := eqn.params.get("jaxpr"), ClosedJaxpr) and len(inner.jaxpr.invars) == len(eqn.invars):
                split = _split_by_bodies(inner.jaxpr, devices) if eqn.primitive.name == "jit" else {}
                for v, own in zip(eqn.invars, inner.jaxpr.invars):
                    if own in split and type(v) is not Literal:
                        found.setdefault(v, split[own])
        return found

    return jaxpr.memoised(("split by bodies", devices), look)


def _program_shardings(traced, options):
    if options.out_shardings is not UNSPECIFIED:
        for s in tree.leaves(options.out_shardings, _is_format):
            s = s.sharding if isinstance(s, Format) else s
            if isinstance(s, Sharding):
                if has_devices(s):
                    yield s
            elif isinstance(s, PartitionSpec):
                yield _as_sharding("out_shardings", s)
            elif isinstance(s, Device):
                yield single_device(s)
    yield from inner_shardings(traced.closed.jaxpr)


def has_devices(sharding) -> bool:
    """Whether a sharding says on which devices, or only how."""
    return not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh))


def inner_shardings(jaxpr):
    """The shardings that equations of a program ask for."""
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            if value is None:
                continue
            for item in value if type(value) is tuple else (value,):
                if isinstance(item, Sharding):
                    if has_devices(item):
                        yield item
                elif isinstance(item, Mesh):
                    yield NamedSharding(item, PartitionSpec())
                elif isinstance(item, ClosedJaxpr):
                    yield from inner_shardings(item.jaxpr)
                elif isinstance(item, Jaxpr):
                    yield from inner_shardings(item)


def _all_on(devices: tuple, count: int, committed: bool) -> Spots:
    return Spots(devices, (single_device(devices[0]),) * count, committed, None)


def _ids(devices) -> str:
    return f"{devices[0].platform} device(s) {[d.id for d in devices]}"


def inline_constant(value) -> np.ndarray | None:
    """The value to write into the module, or None when it is better passed as an argument."""
    aval = tracing.aval_of(value)
    if isinstance(value, tracing.Tracer) or aval.size * aval.dtype.itemsize > INLINE_BYTES or not isinstance(
            aval.dtype, np.dtype):
        return None
    return np.asarray(value, dtype=aval.dtype)


class ProgramShardings:
    """The shardings of a whole program, as the module and the executable need them."""

    def __init__(self, spots: Spots, out_shardings, kept, hoisted: int, jaxpr):
        self.spots = spots
        self.out_avals = [keys.physical(aval) for aval in jaxpr.out_avals]
        self.partitioned = len(spots.devices) > 1
        self.out = tuple([self.on_devices(s) for s in out_shardings])
        if self.partitioned:
            self.out = tuple([self.explicit_result(aval) if s is UNSPECIFIED else s for s, aval in zip(
                self.out, jaxpr.out_avals)])
        self.meshes: dict[Any, str] = {}
        self.symbols: dict[Any, str] = {}  # of the meshes met so far
        kept_shardings = [s for s, keep in zip(spots.shardings, kept) if keep]
        self.arguments = [spots.replicated()] * hoisted + kept_shardings
        self.argument_avals = [keys.physical(aval) for aval, keep in zip(jaxpr.in_avals, kept) if keep]
        self.memories = [_memory_kind(s, aval, given is not UNSPECIFIED) for s, aval, given in zip(
            self.out, jaxpr.out_avals, out_shardings)]

    def concrete(self, mesh) -> Mesh:
        """A mesh with the program's devices, from one that may only have a shape."""
        if isinstance(mesh, Mesh):
            return mesh
        found = self.spots.mesh
        if found is None or found.shape_tuple != mesh.shape_tuple:
            if mesh.size != len(self.spots.devices):
                raise ValueError(f"a value is spread over {mesh} in a program on {len(self.spots.devices)} device(s). Put a "
                                 f"mesh of this shape in force with set_mesh(mesh), or give arguments over one.")
            return Mesh(np.array(self.spots.devices, dtype=object).reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
        return found if found.axis_types == mesh.axis_types else found.update(axis_types=mesh.axis_types)

    def on_devices(self, sharding):
        """A sharding that a user gave, over the program's devices if it has none of its own."""
        if has_devices(sharding):
            return sharding
        return NamedSharding(self.concrete(sharding.mesh), sharding.spec)

    def explicit_result(self, aval):
        """The sharding of a result whose type says it, else unspecified."""
        if aval.spread is not None and aval.spread.mesh.are_all_axes_explicit:
            return NamedSharding(self.concrete(aval.spread.mesh), aval.spread.spec)
        mesh = self.spots.mesh
        if aval.spread is None and mesh is not None and mesh.are_all_axes_explicit and isinstance(aval, avals.ShapedArray):
            return NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim))
        return UNSPECIFIED

    def mesh_symbol(self, mesh: Mesh) -> str:
        found = self.symbols.get(mesh)
        if found is None:
            mesh = self.concrete(mesh)
            key = (mesh.shape_tuple, tuple([d.id for d in mesh.devices.flat]))
            found = self.meshes.setdefault(key, "mesh" if not self.meshes else f"mesh_{len(self.meshes)}")
            self.symbols[mesh] = found
        return found

    def one_device_symbol(self, index: int) -> str:
        """The mesh that is one of the program's devices."""
        key = ((), (self.spots.devices[index].id,))
        return self.meshes.setdefault(key, f"device_{index}")

    def attribute(self, sharding, ndim: int):
        """The `sdy.sharding` attribute of a value."""
        if isinstance(sharding, SingleDeviceSharding):
            sharding = self.spots.replicated()
        elif isinstance(sharding, GSPMDSharding):
            sharding = as_named(sharding, ndim)
        symbol = self.mesh_symbol(sharding.mesh)
        check_spec(sharding.mesh, sharding.spec, ndim)
        dims = []
        # Along axes that types do not have the compiler may split values of such a type further.
        more = ["?"] if isinstance(sharding.mesh, AbstractMesh) and not sharding.mesh.are_all_axes_explicit else []
        for p in sharding.spec.padded(ndim):
            if p is PartitionSpec.UNCONSTRAINED:
                dims.append("{?}")
            else:
                dims.append("{" + ", ".join([f'"{axis}"' for axis in axes_of(p)] + more) + "}")
        sums = [f'"{axis}"' for axis in sharding.mesh.explicit_axes if axis in sharding.spec.unreduced]
        unreduced = f", unreduced={{{', '.join(sums)}}}" if sums else ""
        return lowering.mlir.attribute(f"#sdy.sharding<@{symbol}, [{', '.join(dims)}]{unreduced}>")

    def constrain_typed(self, ctx, results):
        """The results of an operation, split as their types say."""
        made = []
        for value, v in zip(results, ctx._outvars):
            spread = v.aval.spread
            if spread is not None and spread.mesh.explicit:
                attribute = self.attribute(spread, keys.physical(v.aval).ndim)
                value = ctx.op("sdy.sharding_constraint", [value], [v.aval], sharding=attribute)
            made.append(value)
        return made

    def _constrained(self, value, aval, sharding):
        return lowering.mlir.create(
            "sdy.sharding_constraint", results=[value.type], operands=[value], loc=lowering.mlir.unknown_location,
            attributes={"sharding": self.attribute(sharding, keys.physical(aval).ndim)}).result

    def constrain_constant(self, value, aval):
        """Constants come whole; sums that are left open must be of operands that are split as their types say."""
        return value if aval.spread is None or not aval.spread.mesh.explicit else self._constrained(value, aval, aval.spread)

    def constrain_results(self, results):
        """Results whose sums are still to be made, where a user asks for them in another sharding."""
        return [value if aval.spread is None or not aval.spread.spec.unreduced or s is UNSPECIFIED
                else self._constrained(value, aval, s) for value, aval, s in zip(results, self.out_avals, self.out)]

    def result_attributes(self):
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
        mlir = lowering.mlir
        with mlir.context, mlir.unknown_location:
            for (shape, ids), symbol in self.meshes.items():
                axes = ", ".join(f'"{name}"={size}' for name, size in shape)
                order = {d.id: i for i, d in enumerate(self.spots.devices)}
                positions = [order[i] for i in ids]
                text = f"[{axes}]"
                if not shape or positions != list(range(len(positions))):
                    text += f", device_ids=[{', '.join(map(str, positions))}]"
                mlir.create("sdy.mesh", attributes={"sym_name": mlir.string(symbol),
                                                    "mesh": mlir.attribute(f"#sdy.mesh<{text}>")},
                            ip=mlir.ir.InsertionPoint.at_block_begin(module_context.module.body))

    def adjust(self, options) -> None:
        if self.partitioned:
            build = options.executable_build_options
            build.allow_spmd_sharding_propagation_to_parameters = [False] * len(self.arguments)
            build.allow_spmd_sharding_propagation_to_output = [s is UNSPECIFIED for s in self.out] or [True]

    def results(self, executable, out_avals) -> list:
        """The sharding of each result."""
        found = self._result_shardings(executable, out_avals)
        return [s if kind in (None, s.memory_kind) else s.with_memory_kind(kind) for s, kind in zip(found, self.memories)]

    def _result_shardings(self, executable, out_avals) -> list:
        if not self.partitioned:
            return self._on_one_device(out_avals)
        protos = executable.get_output_shardings()
        mesh = self.spots.mesh or _flat_mesh(self.spots.devices)
        written = self._as_written(mesh)
        results = []
        for i, (given, aval) in enumerate(zip(self.out, out_avals)):
            if given is not UNSPECIFIED:
                results.append(given if not isinstance(given, SingleDeviceSharding) else self.spots.replicated())
                continue
            hlo = HloSharding.replicate() if protos is None else _hlo_of(protos[i])
            named = named_from_hlo(hlo, mesh, aval.ndim)
            if named is None:
                results.append(opaque(self.spots.devices, hlo))
            else:
                results.append(written.get((aval.ndim, str(named._to_xla_hlo_sharding(aval.ndim))), named))
        return results

    def _on_one_device(self, out_avals) -> list:
        """Over a mesh of one device results have specs as over a larger one: those of arguments of their shape."""
        mesh, rest = self.spots.mesh, single_device(self.spots.devices[0])
        of_shape: dict = {}
        if mesh is not None:
            rest = NamedSharding(mesh, PartitionSpec())
            for aval, sharding in zip(reversed(self.argument_avals), reversed(self.arguments)):
                if (isinstance(sharding, NamedSharding) and sharding.mesh == mesh and not sharding.spec.unreduced
                        and sharding.memory_kind in (None, "device")):
                    of_shape[aval.shape] = sharding
        return [given if isinstance(given, NamedSharding) else of_shape.get(aval.shape, rest)
                for given, aval in zip(self.out, out_avals)]

    def _as_written(self, mesh) -> dict:
        """The arguments' shardings, by rank and meaning: a result split as `P("x", None)` says has that, not `P("x")`, for a
        state that comes back written in another way would be a new signature, and its step be compiled a second time."""
        found: dict = {}
        for sharding, aval in zip(self.arguments[len(self.arguments) - len(self.argument_avals):], self.argument_avals):
            ndim = aval.ndim
            if (isinstance(sharding, NamedSharding) and sharding.mesh == mesh and not sharding.spec.unreduced
                    and sharding.memory_kind in (None, "device")):
                found.setdefault((ndim, str(sharding._to_xla_hlo_sharding(ndim))), sharding)
        return found


def unbound_sharding():
    """Where values go that are bound to no device."""
    mesh = active.mesh
    return single_device(backends.default_device()) if mesh is None else NamedSharding(mesh, PartitionSpec())


def _hlo_of(proto):
    return HloSharding.from_proto(proto) if isinstance(proto, OpSharding) else proto


def opaque(devices, hlo):
    return GSPMDSharding(devices, hlo)


def _memory_kind(sharding, aval, asked: bool) -> str | None:
    """The memory of a result, where that is not the device's own: as asked for, else as its type says."""
    kind = None if sharding is UNSPECIFIED else sharding.memory_kind
    if not asked and kind in (None, "device") and isinstance(aval, avals.ShapedArray) and aval.memory is MemorySpace.Host:
        kind = "pinned_host"
    return None if kind == "device" else kind


def argument_attributes(jaxpr, kept, donated, hoisted: Sequence[Any], shardings: ProgramShardings, name, traced):
    """What the module says of each argument: its sharding, and which result may take its memory.

    `hoisted` are the types of constants that come first.
    """
    mlir = lowering.mlir
    with mlir.context:
        attributes: list[dict] = [{} for _ in range(len(hoisted) + len(jaxpr.invars))]
        if shardings.partitioned:
            for entry, sharding, aval in zip(attributes, shardings.arguments, [*hoisted, *jaxpr.in_avals]):
                entry["sdy.sharding"] = shardings.attribute(sharding, keys.physical(aval).ndim)
        for entry, sharding in zip(attributes, shardings.arguments):
            if sharding.memory_kind not in (None, "device"):
                entry["mhlo.memory_kind"] = mlir.string(sharding.memory_kind)
        if any(donated):
            flags = [d for d, keep in zip(donated, kept) if keep]
            _mark_donations(attributes[len(hoisted):], jaxpr, flags, shardings, name, traced)
        return attributes if any(attributes) else None


def _mark_donations(attributes, jaxpr, donated, shardings, name, traced) -> None:
    """Pair each donated argument with a result of its type; warn of those that fit none."""
    mlir = lowering.mlir
    free: dict[tuple, list[int]] = {}
    for i, aval in enumerate(jaxpr.out_avals):
        free.setdefault((aval.shape, aval.dtype), []).append(i)
    unusable = []
    for entry, v, flag in zip(attributes, jaxpr.invars, donated):
        if not flag:
            continue
        results = free.get((v.aval.shape, v.aval.dtype))
        if not results:
            unusable.append(avals.str_short(v.aval))
        elif shardings.partitioned:
            results.pop(0)
            entry["jax.buffer_donor"] = mlir.boolean(True)
        else:
            entry["tf.aliasing_output"] = mlir.i32(results.pop(0))
    if unusable:
        import warnings

        warnings.warn(f"{name} has donated arguments that no result can take the memory of: {', '.join(unusable)}. "
                      f"Donate only arguments that have the shape and dtype of a result.", stacklevel=2)


def constrain(ctx, values, value_avals, shardings):
    """Attach shardings asked for inside a program to MLIR values."""
    context = ctx.module_context.sharding_context
    if context is None or not context.partitioned:
        return values
    return [v if s is UNSPECIFIED else ctx.op("sdy.sharding_constraint", [v], [aval],
                                              sharding=context.attribute(s, keys.physical(aval).ndim))
            for v, aval, s in zip(values, value_avals, shardings)]


def explain_compile_error(name: str, options: dict, error: Exception) -> Exception:
    text = str(error)
    for key in options:
        if key in text and ("No such compile option" in text or "nknown" in text):
            return ValueError(f"{name} was given the compiler option {key!r}, which XLA does not have: {text}")
    error.add_note(f"(while compiling {name})")
    return error
