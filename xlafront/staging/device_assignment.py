"""Placement: the devices that a program runs on, and the shardings of its arguments there."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding, Sharding, SingleDeviceSharding
from xlafront.core import source, tracing, tree
from xlafront.core.ir import Jaxpr, Literal, dce_jaxpr
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime import backends, keys
from xlafront.runtime.clients import is_compile_only
from xlafront.runtime.sharding import AbstractMesh, Mesh, PartitionSpec, active, in_device_memory, single_device
from xlafront.staging.sharding_arguments import UNSPECIFIED, as_sharding, given_leaves


class DeviceAssignment(NamedTuple):
    """The devices of a program and the sharding of each argument."""

    devices: tuple
    shardings: tuple  # by argument
    committed: bool  # results are committed to the devices
    mesh: Mesh | None
    single_device: bool = False  # on one device: results have no mesh, whatever meshes the program uses
    types_have_mesh: bool = True  # False if the mesh is that of `in_shardings` alone: then the compiler shards results

    def replicated(self):
        """Return the sharding of a value that all devices have."""
        if len(self.devices) == 1:
            return single_device(self.devices[0])
        return NamedSharding(mesh_of(self), PartitionSpec())


def mesh_of(assignment: DeviceAssignment) -> Mesh:
    """Return the mesh of a program; one of a single axis over its devices if it has none."""
    return assignment.mesh or _flat_mesh(assignment.devices)


@functools.lru_cache(256)
def _flat_mesh(devices: tuple) -> Mesh:
    return Mesh(np.array(devices, dtype=object), ("devices",))


def place_arguments(name: str, leaves: Sequence[Any], requested: Sequence[Any], traced, options) -> DeviceAssignment:
    """Choose the devices of a program: those of its committed arguments, of shardings inside it, or those of `options`.

    `requested` has the sharding that `in_shardings` gives each argument, or UNSPECIFIED.
    """
    if options.device is not None or options.backend is not None:
        if options.context_mesh is not None and options.allow_mesh_context:
            raise ValueError(f"{name} was called in `with mesh:`, whose devices it runs on, and has the argument device or "
                             f"backend, which names others. Leave device and backend out.")
        return _on_requested_device(name, len(leaves), traced, options)
    mesh = options.context_mesh
    if mesh is not None and is_compile_only(mesh.devices.flat[0].client):
        mesh = None
    own = [_committed_sharding(x) for x in leaves]
    requested = [_on_mesh(given, mesh) for given in requested]
    arguments = _Arguments(name, leaves, traced, [
        sharding if given is UNSPECIFIED else _checked(name, x, given, traced, i)
        for i, (x, sharding, given) in enumerate(zip(leaves, own, requested))])
    decisive, devices, first = _devices_of_arguments(arguments, mesh, options)
    mesh_of_types = _mesh_of_types(arguments, own, mesh, devices)
    mesh = _mesh_of_arguments(arguments, decisive, mesh_of_types)
    types_have_mesh = mesh is None or mesh_of_types is not None or not active.abstract_mesh().empty
    for sharding in _program_shardings(traced, options):
        these = tuple(sharding._internal_device_list)
        if devices is None:
            devices = these
        elif these != devices:
            other = f"another one is on {_ids(devices)}" if first is None else arguments.describe(first)
            raise ValueError(
                f"{name} got incompatible devices: a sharding or shard_map inside of it, or a result, is "
                f"{describe_sharding(sharding)}, but {other}. All must be over the same devices, in the same order. Use one "
                f"mesh, and move arguments there with device_put(x, NamedSharding(mesh, P(...))).")
        if isinstance(sharding, NamedSharding):
            mesh = mesh or sharding.mesh
    if devices is None:
        return _all_on((backends.default_device(),), len(leaves), False)
    found = arguments.shardings
    on_one_device = len(devices) == 1 and mesh is not None and not mesh.explicit and isinstance(
        next((s for s in found if s is not None), None), SingleDeviceSharding)
    assignment = DeviceAssignment(devices, (), True, mesh, on_one_device, types_have_mesh)
    rest = assignment.replicated()
    if len(devices) > 1 and any([s is None for s in found]):
        by_body = _shard_map_shardings(traced.closed.structure, devices)
        found = [by_body.get(v) if s is None else s for s, v in zip(found, traced.closed.invars)]
    return assignment._replace(shardings=tuple(rest if s is None else s for s in found))


def _on_mesh(sharding, mesh: Mesh | None):
    """Return a requested sharding; one over an abstract mesh of the size of the mesh in context is over its devices."""
    if mesh is None or sharding is UNSPECIFIED or has_devices(sharding) or sharding.mesh.size != mesh.size:
        return sharding
    return sharding.update(mesh=mesh.with_axes(sharding.mesh))


class _Arguments(NamedTuple):
    """The arguments of a call, with the sharding that each is committed to or was given; None for an uncommitted one."""

    name: str
    leaves: Sequence[Any]
    traced: Any
    shardings: Sequence[Any]

    def describe(self, i: int) -> str:
        """Return the name and the placement of an argument, for messages."""
        return f"argument {self.traced.debug_info.arg_names[i]} {_describe_array(self.leaves[i], self.shardings[i])}"


def _on_requested_device(name: str, count: int, traced, options) -> DeviceAssignment:
    """Return the assignment to the device or backend that `jit` was given."""
    device = options.device or backends.client(options.backend).local_devices()[0]
    for sharding in _program_shardings(traced, options):
        if tuple(sharding._internal_device_list) != (device,):
            raise ValueError(f"{name} has incompatible devices: jit was told to run it on {device}, but a sharding inside "
                             f"of it, or of a result, is {describe_sharding(sharding)}. Leave device and backend out.")
    return _all_on((device,), count, True)


def _committed_sharding(x):
    """Return the sharding that an argument is committed to, or that its type has; None if there is none."""
    words = keys.physical_array(x)
    if isinstance(words, ArrayImpl) and words._committed:
        return words._sharding
    if isinstance(x, ShapeDtypeStruct) and isinstance(x.sharding, Sharding) and has_devices(x.sharding):
        return x.sharding
    return None


def _checked(name: str, x, given, traced, index: int):
    """Return the sharding that `in_shardings` gives an argument; raise if the argument cannot have it."""
    argument = traced.debug_info.arg_names[index]
    _check_given(name, x, given, argument)
    _check_rank(f"{name} got in_shardings for argument {argument}", given, np.shape(x))
    if not has_devices(given):
        raise ValueError(f"{name} has in_shardings {given} for its argument {argument}, which has no devices: its mesh is an "
                         f"AbstractMesh. Use a sharding over a Mesh, from make_mesh.")
    return given


def _devices_of_arguments(arguments: _Arguments, mesh: Mesh | None, options) -> tuple[Sequence[Any], tuple | None, int | None]:
    """Return the shardings that determine the devices, these devices, and the index of the first argument on them.

    The devices are those of the mesh in context, if there is one. If arguments differ, those that are not read are ignored.
    """
    decisive = arguments.shardings
    devices = None if mesh is None else tuple(mesh._internal_device_list)
    agreed, first, other = _agreed_devices(decisive, devices)
    program = arguments.traced.closed
    if other is not None and mesh is None and not options.keep_unused and not program.effects:
        read = dce_jaxpr(program.structure, [True] * len(program.outvars))[1]
        decisive = [s if r else None for s, r in zip(decisive, read)]
        agreed, first, other = _agreed_devices(decisive, devices)
    if other is None:
        return decisive, agreed, first
    if first is None:
        raise ValueError(
            f"{arguments.name} got incompatible devices: {arguments.describe(other)}, but the mesh in force, {mesh}, is on "
            f"{_ids(devices)}. Move it there with device_put(x, P(...)), or call the function without the mesh.")
    raise ValueError(
        f"incompatible devices for the jitted computation {arguments.name}, whose arguments are on different devices: "
        f"{arguments.describe(first)}, {arguments.describe(other)}. The arrays of a call must be on the same devices, in the "
        "same order. Move one of them with device_put(x, sharding).")


def _agreed_devices(shardings: Sequence[Any], devices: tuple | None) -> tuple[tuple | None, int | None, int | None]:
    """Return the devices of shardings, the index of the first that has them, and that of the first with other devices."""
    first = known = None  # `known`: the last device list, which is one object for all arguments of a mesh
    for i, sharding in enumerate(shardings):
        if sharding is None or sharding._internal_device_list is known:
            continue
        known = sharding._internal_device_list
        these = tuple(known)
        if devices is None:
            devices, first = these, i
        elif these != devices:
            return devices, first, i
    return devices, first, None


def _mesh_of_types(arguments: _Arguments, own: Sequence[Any], mesh: Mesh | None, devices: tuple | None) -> Mesh | None:
    """Return the mesh of types: the one in context, or that of the arrays on the program's devices.

    Raise if these differ and have explicit axes. An equation that was traced earlier is over the mesh of its arrays.
    """
    if source.thread.site is not None:
        return next((s.mesh for s in own if isinstance(s, NamedSharding)), mesh)
    inside = mesh
    for i, sharding in enumerate(own):
        if not isinstance(sharding, NamedSharding) or tuple(sharding._internal_device_list) != devices:
            continue
        mesh = mesh or sharding.mesh
        if mesh is not sharding.mesh and (mesh.explicit or sharding.mesh.explicit) and mesh != sharding.mesh:
            other = f"the context mesh, in force here, is {mesh}" if mesh is inside else f"another argument is over {mesh}"
            where = _describe_array(arguments.leaves[i], sharding)
            raise ValueError(
                f"{arguments.name} got argument {arguments.traced.debug_info.arg_names[i]} {where}, but {other}: they should "
                f"match. Move it there with device_put(x, NamedSharding(mesh, P(...))).")
    return mesh


def _mesh_of_arguments(arguments: _Arguments, shardings: Sequence[Any], mesh: Mesh | None) -> Mesh | None:
    """Return the mesh of a program: that of types, or that of the first argument; raise if a sharding does not fit."""
    for i, sharding in enumerate(shardings):
        if not isinstance(sharding, NamedSharding):
            continue
        mesh = mesh or sharding.mesh
        try:
            sharding.shard_shape(keys.physical(tracing.aval_of(arguments.leaves[i])).shape)
        except ValueError as e:
            argument = arguments.traced.debug_info.arg_names[i]
            raise type(e)(f"{arguments.name} got argument {argument} that does not fit its sharding: {e}") from None
    return mesh


def _sharding_of(x, given):
    """Return the sharding that was requested for an argument, or that its type has; None if there is none."""
    return given if given is not UNSPECIFIED else x.sharding if isinstance(x, ShapeDtypeStruct) else None


def abstract_mesh_of_arguments(leaves: Sequence[Any], requested: Sequence[Any]) -> AbstractMesh | None:
    """Return the abstract mesh of a program's arguments, or of types in context; None if one of these has devices."""
    found = None
    for x, given in zip(leaves, requested):
        sharding = _sharding_of(x, given)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
            found = found or sharding.mesh
        elif isinstance(sharding, Sharding) or getattr(keys.physical_array(x), "_committed", False):
            return None
    if active.mesh is not None:
        return None
    inside = active.abstract_mesh()
    return inside if found is None and inside.explicit and not inside.manual_axes else found


class AbsentDevice:
    """A device of a mesh that is larger than this machine: modules are lowered for it, to be exported."""

    def __init__(self, number: int, like):
        self.id = self.local_hardware_id = number
        self.like, self.process_index = like, 0

    client = property(lambda self: self.like.client)
    platform, device_kind = property(lambda self: self.like.platform), property(lambda self: self.like.device_kind)

    def default_memory(self):
        return self.like.default_memory()

    def addressable_memories(self):
        return self.like.addressable_memories()

    def __repr__(self):
        return f"AbsentDevice({self.id})"


def devices_for_export(count: int) -> Sequence[Any]:
    """Return the devices of this process if there are `count` of them, else stand-ins."""
    devices = backends.devices()
    return devices if len(devices) >= count else [AbsentDevice(i, devices[0]) for i in range(count)]


def assign_abstract_mesh(mesh: AbstractMesh, devices: Sequence[Any], leaves: Sequence[Any], requested: Sequence[Any]
                 ) -> DeviceAssignment:
    """Return the assignment of a program over an abstract mesh to the first of these devices."""
    chosen = tuple(devices)[:mesh.size]
    if len(chosen) < mesh.size:
        raise ValueError(f"a program over {mesh} needs {mesh.size} devices, there are {len(chosen)}.")
    concrete = Mesh(np.array(chosen, dtype=object).reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
    rest = NamedSharding(concrete, PartitionSpec())
    found = [_sharding_of(x, given) for x, given in zip(leaves, requested)]
    shardings = tuple([rest if s is None else s.update(mesh=concrete.with_axes(s.mesh)) for s in found])
    return DeviceAssignment(chosen, shardings, True, concrete)


def _check_rank(subject: str, sharding, shape: tuple) -> None:
    """Raise for a sharding that does not fit a shape; `subject` is the start of the message."""
    try:
        sharding.check_compatible_aval(shape)
    except ValueError as e:
        raise type(e)(f"{subject} that do not fit it: {e}") from None


def _check_given(name: str, x, given, argument: str) -> None:
    """Raise for a committed array that is not sharded as `in_shardings` says, or a type with another sharding.

    The shards may be on other devices: they are transferred.
    """
    words = keys.physical_array(x)
    if isinstance(words, ArrayImpl):
        own = words._sharding if words._committed else None
    else:
        own = x.sharding if isinstance(x, ShapeDtypeStruct) else None
    if own is None or own == given:
        return
    if has_devices(given) and own.memory_kind == given.memory_kind:
        hlo = [s._to_xla_hlo_sharding(np.ndim(words)) for s in (own, given)]
        if hlo[0] == hlo[1]:
            return
    raise ValueError(
        f"{name} has in_shardings {given} for its argument {argument}, but the array that it got "
        f"{_describe_array(words, own)}. Move it with device_put(x, sharding), or leave in_shardings out.")


def describe_sharding(sharding) -> str:
    """Return the description of a sharding and its devices in a message."""
    memory = f" in {sharding.memory_kind} memory" if not in_device_memory(sharding) else ""
    if isinstance(sharding, NamedSharding):
        devices = f" of {_ids(tuple(sharding._internal_device_list))}" if has_devices(sharding) else ""
        return f"split by {sharding.spec} over {sharding.mesh}{devices}{memory}"
    return f"on {_ids(tuple(sharding._internal_device_list))}{memory}"


def _describe_array(x, sharding) -> str:
    return f"(shape {tuple(np.shape(x))}) is {describe_sharding(sharding)}"


def check_results(name: str, shardings: Sequence[Any], traced) -> None:
    """Raise for a result that does not fit its sharding in `out_shardings`."""
    for i, (sharding, aval) in enumerate(zip(shardings, traced.closed.out_avals)):
        if isinstance(sharding, NamedSharding):
            try:
                sharding.check_compatible_aval(aval.shape)
                sharding.shard_shape(aval.shape)
            except ValueError as e:
                paths, _ = tree.flatten_with_path(tree.leaf_indices(traced.out_tree))
                raise type(e)(f"out_shardings of {name} do not fit its result{tree.keystr(paths[i][0])}: {e}") from None


def _shard_map_shardings(jaxpr, devices: tuple) -> dict:
    """Return the shardings of the program's inputs that are operands of a `shard_map` over these devices, by variable."""
    def find():
        found: dict = {}
        for eqn in jaxpr.eqns:
            specs, mesh = eqn.params.get("in_specs"), eqn.params.get("mesh")
            if specs is not None and isinstance(mesh, Mesh) and tuple(mesh._internal_device_list) == devices:
                for v, spec in zip(eqn.invars, specs):
                    if type(v) is not Literal:
                        found.setdefault(v, NamedSharding(mesh, spec))
            elif isinstance(inner := eqn.params.get("jaxpr"), Jaxpr) and len(inner.invars) == len(eqn.invars):
                in_call = _shard_map_shardings(inner.structure, devices) if eqn.primitive.structured.only_calls_program else {}
                for v, own in zip(eqn.invars, inner.invars):
                    if own in in_call and type(v) is not Literal:
                        found.setdefault(v, in_call[own])
        return found

    return jaxpr.memoised(("shard_map shardings", devices), find)


def _program_shardings(traced, options):
    """Yield the shardings of `out_shardings` and of equations that have devices."""
    for given in given_leaves(options.out_shardings):
        sharding = as_sharding("out_shardings", given, options.allow_mesh_context)
        if sharding is not UNSPECIFIED and has_devices(sharding):
            yield sharding
    yield from inner_shardings(traced.closed.structure)


def has_devices(sharding) -> bool:
    """True if a sharding has devices, not only a mesh shape."""
    return not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh))


# Parameters that request no sharding: `ctx_mesh` is the mesh in context where a jitted function was called.
_REQUESTS_NOTHING = {"ctx_mesh", "in_layouts", "out_layouts"}
_NO_SHARDINGS = {int, bool, str, float, tuple, type(None), type(UNSPECIFIED)}


def inner_shardings(jaxpr):
    """Yield the shardings that equations of a program request. Within a program, `device_put` to one device has no effect."""
    for eqn in jaxpr.eqns:
        binds = eqn.primitive.mesh.binds_devices
        if binds is not None and not binds(**eqn.params):
            continue
        for name, value in eqn.params.items():
            if value is None or name in _REQUESTS_NOTHING:
                continue
            for item in value if type(value) is tuple else (value,):
                if type(item) in _NO_SHARDINGS:
                    continue
                if isinstance(item, Sharding):
                    if has_devices(item):
                        yield item
                elif isinstance(item, Mesh):
                    yield NamedSharding(item, PartitionSpec())
                elif isinstance(item, Jaxpr):
                    program = item.structure
                    yield from program.memoised(("inner shardings",), lambda program=program: [*inner_shardings(program)])


def _all_on(devices: tuple, count: int, committed: bool) -> DeviceAssignment:
    return DeviceAssignment(devices, (single_device(devices[0]),) * count, committed, None)


def _ids(devices) -> str:
    return f"{devices[0].platform} device(s) {[d.id for d in devices]}"


def unbound_sharding():
    """Return the sharding of uncommitted values: replicated over the mesh in context, or the default device."""
    mesh = active.concrete()
    return single_device(backends.default_device()) if mesh is None else NamedSharding(mesh, PartitionSpec())
