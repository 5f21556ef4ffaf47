"""Where a program runs, and where its arguments are when it does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import backends, keys, tracing, tree
from xlafront.core.ir import ClosedJaxpr, Jaxpr, Literal, dce_jaxpr
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding, Sharding, SingleDeviceSharding
from xlafront.runtime.sharding import AbstractMesh, Mesh, PartitionSpec, active, in_device_memory, single_device
from xlafront.runtime.topologies import is_compile_only
from xlafront.staging.sharding_arguments import UNSPECIFIED, as_sharding, given_leaves


class DeviceAssignment(NamedTuple):
    """The devices of a program, the sharding of each argument, and whether results are tied to them.

    On one device, `alone` says that results lie there without a mesh, whatever meshes the program knows. `untyped` says that
    the mesh is that of `in_shardings` alone: types know nothing of it, and the compiler splits results.
    """

    devices: tuple
    shardings: tuple
    committed: bool
    mesh: Mesh | None
    alone: bool = False
    untyped: bool = False

    def replicated(self):
        if len(self.devices) == 1:
            return single_device(self.devices[0])
        return NamedSharding(mesh_of(self), PartitionSpec())


def mesh_of(assignment: DeviceAssignment) -> Mesh:
    return assignment.mesh or _flat_mesh(assignment.devices)


@functools.lru_cache(256)
def _flat_mesh(devices: tuple) -> Mesh:
    return Mesh(np.array(devices, dtype=object), ("devices",))


def place_arguments(name: str, leaves: Sequence[Any], wanted: Sequence[Any], traced, options) -> DeviceAssignment:
    """Decide where a program runs: where its committed arguments are, or where it was told to."""
    if options.device is not None or options.backend is not None:
        return _where_told(name, len(leaves), traced, options)
    mesh = active.concrete()
    if mesh is not None and is_compile_only(mesh.devices.flat[0].client):
        mesh = None
    own = [_committed_sharding(x) for x in leaves]
    arguments = _Arguments(name, leaves, traced, [
        sharding if given is UNSPECIFIED else _checked(name, x, given, traced, i)
        for i, (x, sharding, given) in enumerate(zip(leaves, own, wanted))])
    decisive, devices, first = _devices_of_arguments(arguments, mesh, options)
    typed = _mesh_of_types(arguments, own, mesh, devices)
    mesh = _mesh_of_arguments(arguments, decisive, typed)
    untyped = mesh is not None and typed is None and active.abstract_mesh().empty
    for sharding in _program_shardings(traced, options):
        these = tuple(sharding._internal_device_list)
        if devices is None:
            devices = these
        elif these != devices:
            who = f"another one is on {_ids(devices)}" if first is None else arguments.placed(first)
            raise ValueError(
                f"{name} got incompatible devices: a sharding or shard_map inside of it, or a result, is {in_words(sharding)}, "
                f"but {who}. All are over the same devices, in the same order. Use one mesh, and move arguments there with "
                f"device_put(x, NamedSharding(mesh, P(...))).")
        if isinstance(sharding, NamedSharding):
            mesh = mesh or sharding.mesh
    if devices is None:
        return _all_on((backends.default_device(),), len(leaves), False)
    found = arguments.shardings
    alone = len(devices) == 1 and mesh is not None and not mesh.explicit and isinstance(
        next((s for s in found if s is not None), None), SingleDeviceSharding)
    assignment = DeviceAssignment(devices, (), True, mesh, alone, untyped)
    rest = assignment.replicated()
    if len(devices) > 1 and any([s is None for s in found]):
        split = _split_by_bodies(traced.closed.jaxpr, devices)
        found = [split.get(v) if s is None else s for s, v in zip(found, traced.closed.jaxpr.invars)]
    return assignment._replace(shardings=tuple(rest if s is None else s for s in found))


class _Arguments(NamedTuple):
    """The arguments of a call, with the sharding that each is bound to or was given; None for one that goes anywhere."""

    name: str
    leaves: Sequence[Any]
    traced: Any
    shardings: Sequence[Any]

    def placed(self, i: int) -> str:
        """Which argument it is, and where."""
        return f"argument {self.traced.debug_info.arg_names[i]} {_where(self.leaves[i], self.shardings[i])}"


def _where_told(name: str, count: int, traced, options) -> DeviceAssignment:
    """The assignment of a program that `jit` was given a device or a backend for."""
    device = options.device or backends.client(options.backend).local_devices()[0]
    for sharding in _program_shardings(traced, options):
        if tuple(sharding._internal_device_list) != (device,):
            raise ValueError(f"{name} has incompatible devices: jit was told to run it on {device}, but a sharding inside "
                             f"of it, or of a result, is {in_words(sharding)}. Leave device and backend out.")
    return _all_on((device,), count, True)


def _committed_sharding(x):
    """The sharding that an argument is bound to, or that stands in its type."""
    words = keys.physical_array(x)
    if isinstance(words, ArrayImpl) and words._committed:
        return words._sharding
    if isinstance(x, ShapeDtypeStruct) and isinstance(x.sharding, Sharding) and has_devices(x.sharding):
        return x.sharding
    return None


def _checked(name: str, x, given, traced, index: int):
    """What `in_shardings` say of an argument that can be so."""
    argument = traced.debug_info.arg_names[index]
    _check_given(name, x, given, argument)
    _check_rank(f"{name} got in_shardings for argument {argument}", given, np.shape(x))
    if not has_devices(given):
        raise ValueError(f"{name} has in_shardings {given} for its argument {argument}, which has no devices: its mesh is an "
                         f"AbstractMesh. Use a sharding over a Mesh, from make_mesh.")
    return given


def _devices_of_arguments(arguments: _Arguments, mesh: Mesh | None, options) -> tuple[Sequence[Any], tuple | None, int | None]:
    """The shardings that decide, the devices that they agree on, and the index of the argument that came first.

    Devices are those of the mesh in force, if there is one. Of arguments that differ, those that nothing reads may be anywhere.
    """
    decisive = arguments.shardings
    devices = None if mesh is None else tuple(mesh._internal_device_list)
    agreed, first, other = _agreed_devices(decisive, devices)
    program = arguments.traced.closed
    if other is not None and mesh is None and not options.keep_unused and not program.effects:
        read = dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars))[1]
        decisive = [s if r else None for s, r in zip(decisive, read)]
        agreed, first, other = _agreed_devices(decisive, devices)
    if other is None:
        return decisive, agreed, first
    if first is None:
        raise ValueError(
            f"{arguments.name} got incompatible devices: {arguments.placed(other)}, but the mesh in force, {mesh}, is on "
            f"{_ids(devices)}. Move it there with device_put(x, P(...)), or leave the mesh out of force.")
    raise ValueError(
        f"incompatible devices for the jitted computation {arguments.name}, whose arguments are on different devices: "
        f"{arguments.placed(first)}, {arguments.placed(other)}. The arrays of a call are on the same devices, in the same "
        "order. Move one of them with device_put(x, sharding).")


def _agreed_devices(shardings: Sequence[Any], devices: tuple | None) -> tuple[tuple | None, int | None, int | None]:
    """The devices of shardings, the index of the one that decided them, and that of the first one that is elsewhere."""
    first = known = None  # `known`: the device list seen last, one object for all arguments of a mesh
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
    """The mesh that types are over: the one in force, or that of the arrays that are on the program's devices, which agree
    where axes are explicit."""
    inside = mesh
    for i, sharding in enumerate(own):
        if not isinstance(sharding, NamedSharding) or tuple(sharding._internal_device_list) != devices:
            continue
        mesh = mesh or sharding.mesh
        if mesh is not sharding.mesh and (mesh.explicit or sharding.mesh.explicit) and mesh != sharding.mesh:
            other = f"the context mesh, in force here, is {mesh}" if mesh is inside else f"another argument is over {mesh}"
            where = _where(arguments.leaves[i], sharding)
            raise ValueError(
                f"{arguments.name} got argument {arguments.traced.debug_info.arg_names[i]} {where}, but {other}: they should "
                f"match. Bring it there with device_put(x, NamedSharding(mesh, P(...))).")
    return mesh


def _mesh_of_arguments(arguments: _Arguments, shardings: Sequence[Any], mesh: Mesh | None) -> Mesh | None:
    """The mesh of a program: that of types, or the first that arguments are to be over, whose shardings fit them."""
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
    """The sharding that an argument was asked to have, or that stands in its type."""
    return given if given is not UNSPECIFIED else x.sharding if isinstance(x, ShapeDtypeStruct) else None


def only_abstract(leaves: Sequence[Any], wanted: Sequence[Any]) -> AbstractMesh | None:
    """The mesh without devices that the arguments of a program are over, where none of them knows devices."""
    found = None
    for x, given in zip(leaves, wanted):
        sharding = _sharding_of(x, given)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
            found = found or sharding.mesh
        elif isinstance(sharding, Sharding) or getattr(keys.physical_array(x), "_committed", False):
            return None
    return None if active.mesh is not None else found


class AbsentDevice:
    """A device of a mesh that is larger than this machine: modules are written for it, to run elsewhere."""

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


def devices_to_write_for(count: int) -> Sequence[Any]:
    """The devices of this process, where they are so many, else what stands for others."""
    devices = backends.devices()
    return devices if len(devices) >= count else [AbsentDevice(i, devices[0]) for i in range(count)]


def over_devices(mesh: AbstractMesh, devices: Sequence[Any], leaves: Sequence[Any], wanted: Sequence[Any]) -> DeviceAssignment:
    """The assignment of a program about an abstract mesh to devices in its place: the first of these."""
    chosen = tuple(devices)[:mesh.size]
    if len(chosen) < mesh.size:
        raise ValueError(f"a program over {mesh} needs {mesh.size} devices, there are {len(chosen)}.")
    concrete = Mesh(np.array(chosen, dtype=object).reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
    rest = NamedSharding(concrete, PartitionSpec())
    found = [_sharding_of(x, given) for x, given in zip(leaves, wanted)]
    shardings = tuple([rest if s is None else NamedSharding(concrete, s.spec) for s in found])
    return DeviceAssignment(chosen, shardings, True, concrete)


def _check_rank(what: str, sharding, shape: tuple) -> None:
    try:
        sharding.check_compatible_aval(shape)
    except ValueError as e:
        raise type(e)(f"{what} that do not fit it: {e}") from None


def _check_given(name: str, x, given, argument: str) -> None:
    """An array that is bound to devices must be split as `in_shardings` say; its parts may lie on other devices, and move. What
    stands for an array is held to the sharding that it names."""
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
        f"{name} has in_shardings {given} for its argument {argument}, but the array that it got {_where(words, own)}. Move it "
        "with device_put(x, sharding), or leave in_shardings out.")


def in_words(sharding) -> str:
    """A sharding in words, with its devices."""
    memory = f" in {sharding.memory_kind} memory" if not in_device_memory(sharding) else ""
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
                sharding.check_compatible_aval(aval.shape)
                sharding.shard_shape(aval.shape)
            except ValueError as e:
                paths, _ = tree.flatten_with_path(tree.numbered(traced.out_tree))
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
                split = _split_by_bodies(inner.jaxpr, devices) if eqn.primitive.calls_program else {}
                for v, own in zip(eqn.invars, inner.jaxpr.invars):
                    if own in split and type(v) is not Literal:
                        found.setdefault(v, split[own])
        return found

    return jaxpr.memoised(("split by bodies", devices), look)


def _program_shardings(traced, options):
    for given in given_leaves(options.out_shardings):
        sharding = as_sharding("out_shardings", given, options.entered)
        if sharding is not UNSPECIFIED and has_devices(sharding):
            yield sharding
    yield from inner_shardings(traced.closed.jaxpr)


def has_devices(sharding) -> bool:
    """Whether a sharding says on which devices, or only how."""
    return not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh))


_ASKS_FOR_NOTHING = {"ctx_mesh", "in_layouts", "out_layouts"}  # the mesh is that in force where a jitted function was called
_NO_SHARDINGS = {int, bool, str, float, tuple, type(None), type(UNSPECIFIED)}


def inner_shardings(jaxpr):
    """The shardings that equations of a program ask for. Inside of a program `device_put` to one device changes nothing."""
    for eqn in jaxpr.eqns:
        binds = eqn.primitive.binds_devices
        if binds is not None and not binds(**eqn.params):
            continue
        for name, value in eqn.params.items():
            if value is None or name in _ASKS_FOR_NOTHING:
                continue
            for item in value if type(value) is tuple else (value,):
                if type(item) in _NO_SHARDINGS:
                    continue
                if isinstance(item, Sharding):
                    if has_devices(item):
                        yield item
                elif isinstance(item, Mesh):
                    yield NamedSharding(item, PartitionSpec())
                elif isinstance(item, (ClosedJaxpr, Jaxpr)):
                    program = item.jaxpr if isinstance(item, ClosedJaxpr) else item
                    yield from program.memoised(("inner shardings",), lambda program=program: [*inner_shardings(program)])


def _all_on(devices: tuple, count: int, committed: bool) -> DeviceAssignment:
    return DeviceAssignment(devices, (single_device(devices[0]),) * count, committed, None)


def _ids(devices) -> str:
    return f"{devices[0].platform} device(s) {[d.id for d in devices]}"


def unbound_sharding():
    """Where values go that are bound to no device."""
    mesh = active.mesh
    return single_device(backends.default_device()) if mesh is None else NamedSharding(mesh, PartitionSpec())
