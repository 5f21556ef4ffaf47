"""Shardings: which part of an array lives on which device.

The classes are jaxlib's own, so that dispatch compares and hashes them in C++; the Python methods that users
and jaxlib expect on them are attached here.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from xlafront.runtime.jax_names import answered, serve
from xlafront.runtime.jaxlib_compat import (
    GSPMDSharding,
    HloSharding,
    JaxRuntimeError,
    NamedSharding,
    OpSharding,
    OpShardingType,
    Sharding,
    SingleDeviceSharding,
)
from xlafront.runtime.meshes import (
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
    active as active,
    check_spec as check_spec,
    device_list as device_list,
    empty_abstract_mesh,
)
from xlafront.runtime.specs import (
    IndivisibleError,
    MissingDimensionError,
    P as P,
    PartitionSpec as PartitionSpec,
    RankError,
    axes_of as axes_of,
)

_replicated = HloSharding.replicate()


def in_device_memory(sharding) -> bool:
    """Whether arrays lie in the own memory of their devices, not in that of the host."""
    return sharding.memory_kind in (None, "device")


def open_sums(sharding) -> frozenset:
    """The mesh axes over which what the devices hold has still to be summed."""
    return sharding.spec.unreduced if isinstance(sharding, NamedSharding) else frozenset()


def _attach(cls, **members) -> None:
    for name, member in members.items():
        setattr(cls, name, member)


# What every sharding answers, in terms of `device_set` and `devices_indices_map`.


def _is_fully_addressable(self) -> bool:
    return self._internal_device_list.is_fully_addressable


def _addressable_devices(self) -> set:
    return set(self._internal_device_list.addressable_device_list)


def _addressable_devices_indices_map(self, global_shape):
    places = self.devices_indices_map(tuple(global_shape))
    if self.is_fully_addressable:
        return places
    addressable = self.addressable_devices
    return {d: index for d, index in places.items() if d in addressable}


def _is_equivalent_to(self, other, ndim: int) -> bool:
    if self == other:
        return True
    return (self._internal_device_list == other._internal_device_list and self.memory_kind == other.memory_kind
            and self._to_xla_hlo_sharding(ndim) == other._to_xla_hlo_sharding(ndim))


def _left_open(name: str):
    """What each kind of sharding has to say itself."""
    def unknown(self, *args):
        raise NotImplementedError(f"{type(self).__name__} is a Sharding that does not define {name}.")

    return unknown


_attach(Sharding, **{name: property(_left_open(name)) for name in ("device_set", "is_fully_replicated", "memory_kind")},
        **{name: _left_open(name) for name in ("devices_indices_map", "shard_shape", "with_memory_kind")},
        is_fully_addressable=property(_is_fully_addressable),
        addressable_devices=property(_addressable_devices),
        addressable_devices_indices_map=_addressable_devices_indices_map,
        is_equivalent_to=_is_equivalent_to,
        has_addressable_devices=property(lambda self: bool(self.addressable_devices)),
        check_compatible_aval=lambda self, aval_shape: None,
        num_devices=property(lambda self: len(self._internal_device_list)),
        _device_assignment=property(lambda self: tuple(self._internal_device_list)),
        _addressable_device_assignment=property(lambda self: tuple(self._internal_device_list.addressable_device_list)))


def _single_repr(self) -> str:
    memory = f", memory_kind={self.memory_kind}" if self.memory_kind is not None else ""
    return f"SingleDeviceSharding(device={self._device!r}{memory})"


_attach(SingleDeviceSharding,
        _to_xla_hlo_sharding=lambda self, ndim: _replicated,
        device_set=property(lambda self: {self._device}),
        memory_kind=property(lambda self: self._memory_kind),
        with_memory_kind=lambda self, kind: SingleDeviceSharding(self._device, memory_kind=kind),
        shard_shape=lambda self, shape: tuple(shape),
        devices_indices_map=lambda self, shape: {self._device: (slice(None),) * len(shape)},
        is_fully_replicated=property(lambda self: True),
        __eq__=lambda self, other: self is other or (
            type(other) is SingleDeviceSharding and self._device == other._device
            and self._memory_kind == other._memory_kind),
        __hash__=lambda self: hash((self._device, self._memory_kind)),
        __repr__=_single_repr,
        __deepcopy__=lambda self, memo: self,
        __reduce__=lambda self: (SingleDeviceSharding, (self._device, self.memory_kind)))


@functools.cache
def single_device(device) -> SingleDeviceSharding:
    """The sharding of arrays on one device; one object a device, so that comparisons are by pointer."""
    return SingleDeviceSharding(device)


# Over a mesh

_accept = functools.lru_cache(4096)(check_spec)


def _check_pspec(mesh, spec, *rest):
    """Hot: called from C++ for each sharding that is made."""
    _accept(mesh, spec) if type(spec) is PartitionSpec else check_spec(mesh, spec)


serve("jax._src.named_sharding", check_pspec=_check_pspec)
answered(NamedSharding, empty_abstract_mesh, PartitionSpec())  # looked up once a process


def _tiles(self, ndim: int) -> tuple[list[tuple], list[int]]:
    sizes = self.mesh.shape
    axes = [axes_of(p) for p in self.spec.padded(ndim)]
    while len(axes) > ndim and not axes[-1]:
        axes.pop()
    return axes, [math.prod([sizes[a] for a in names]) for names in axes]


@functools.lru_cache(4096)
def _named_hlo(self, ndim: int):
    mesh = self.mesh
    axes, tiles = _tiles(self, ndim)
    used = [a for names in axes for a in names]
    summed = [a for a in mesh.axis_names if a in self.spec.unreduced]
    rest = [a for a in mesh.axis_names if a not in used and a not in summed]
    order = [mesh.axis_names.index(a) for a in [*used, *summed, *rest]]
    groups = [(math.prod(mesh.shape[a] for a in names), kind) for names, kind in (
        (summed, OpShardingType.UNREDUCED), (rest, OpShardingType.REPLICATED))]
    groups = [(n, kind) for n, kind in groups if n > 1]
    if math.prod(tiles) == 1 and not any([kind is OpShardingType.UNREDUCED for _, kind in groups]):
        return _replicated
    return HloSharding.iota_tile(
        dims=[*tiles, *[n for n, _ in groups]], reshape_dims=list(mesh.axis_sizes), transpose_perm=order,
        subgroup_types=[kind for _, kind in groups])


def _named_shard_shape(self, shape) -> tuple:
    return _part_of(self, tuple(shape))


@functools.lru_cache(4096)
def _part_of(self, shape: tuple) -> tuple:
    _, tiles = _tiles(self, len(shape))
    if len(tiles) > len(shape):
        raise MissingDimensionError(f"{self.spec} has {len(self.spec)} entries, but the array has shape {shape}, only "
                                    f"{len(shape)} dimension(s). Leave out entries.")
    for dimension, (n, parts) in enumerate(zip(shape, tiles)):
        if n % parts:
            raise IndivisibleError(
                f"an array of shape {shape} cannot be split by {self.spec} over {self.mesh}: dimension {dimension} has size "
                f"{n}, which is not evenly divisible by the {parts} parts that it is partitioned into by "
                f"{self.spec[dimension]!r}. Pad it, or leave that dimension unsplit.")
    return tuple([n // parts for n, parts in zip(shape, tiles)])


def _named_indices(self, shape) -> dict:
    return _indices_of(self, tuple(shape))


@functools.lru_cache(512)
def _indices_of(self, shape: tuple) -> dict:
    if PartitionSpec.UNCONSTRAINED in self.spec.partitions:
        raise ValueError(f"{self.spec} leaves a dimension to the compiler (UNCONSTRAINED), so that nobody knows the parts of "
                         f"an array. Only with_sharding_constraint takes such a spec. Name axes there, or None.")
    part = _named_shard_shape(self, shape)
    axes, _ = _tiles(self, len(shape))
    mesh = self.mesh
    sizes = mesh.shape
    result = {}
    for position in np.ndindex(*mesh.devices.shape):
        at = dict(zip(mesh.axis_names, position))
        index = []
        for names, n in zip(axes, part):
            number = 0
            for name in names:
                number = number * sizes[name] + at[name]
            index.append(slice(number * n, (number + 1) * n) if names else slice(None))
        result[mesh.devices[position]] = tuple(index)
    return result


def _named_repr(self) -> str:
    memory = f", memory_kind={self.memory_kind}" if self.memory_kind is not None else ""
    return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{memory})"


def _named_update(self, **changes) -> NamedSharding:
    """The sharding with some of its fields changed: `mesh`, `spec`, `memory_kind`."""
    fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self._memory_kind} | changes
    return NamedSharding(fields["mesh"], fields["spec"], memory_kind=fields["memory_kind"])


def _named_check(self, aval_shape) -> None:
    """Raise for more entries than the array has dimensions, which shardings that are asked for do not have."""
    if len(self.spec) > len(aval_shape):
        raise RankError(f"{self.spec} has {len(self.spec)} entries, and so is only valid for arrays of rank at least "
                        f"{len(self.spec)}, but the array has shape {tuple(aval_shape)}. Leave out entries.")


def _make_named(mesh, spec, memory_kind) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


def _replicated_axes(self) -> frozenset:
    used = {a for p in self.spec for a in axes_of(p)} | self.spec.unreduced
    return frozenset(a for a in self.mesh.axis_names if a not in used)


@functools.lru_cache(4096)
def _is_whole(self) -> bool:
    """Whether each device has all of an array."""
    sizes = self.mesh.shape
    return all([sizes[axis] == 1 for axis in (*[a for p in self.spec for a in axes_of(p)], *self.spec.unreduced)])


def _devices_of(self):
    """The devices of a sharding over a mesh that has any."""
    if isinstance(self.mesh, AbstractMesh):
        raise ValueError(f"{self} is over an AbstractMesh, which has no devices. Use one over a Mesh, from make_mesh.")
    return self._internal_device_list


@functools.lru_cache(4096)
def _named_devices(self) -> set:
    return set(_devices_of(self))


@functools.lru_cache(4096)
def _named_addressable_devices(self) -> set:
    return set(_devices_of(self).addressable_device_list)


_attach(NamedSharding,
        _to_xla_hlo_sharding=_named_hlo,
        device_set=property(_named_devices),
        is_fully_addressable=property(lambda self: _devices_of(self).is_fully_addressable),
        addressable_devices=property(_named_addressable_devices),
        num_devices=property(lambda self: self.mesh.size if isinstance(self.mesh, AbstractMesh) else self.mesh.devices.size),
        memory_kind=property(lambda self: self._memory_kind),
        with_memory_kind=lambda self, kind: NamedSharding(self.mesh, self.spec, memory_kind=kind),
        update=_named_update,
        shard_shape=_named_shard_shape,
        check_compatible_aval=_named_check,
        devices_indices_map=_named_indices,
        replicated_axes=property(_replicated_axes),
        is_fully_replicated=property(_is_whole),
        __repr__=_named_repr,
        __reduce__=lambda self: (_make_named, (self.mesh, self.spec, self._memory_kind)))


# What no axes of the mesh in use describe


def as_named(sharding: GSPMDSharding, ndim: int) -> NamedSharding:
    """A sharding of the compiler's over a mesh of its own, whose axes are its tiles."""
    devices = np.array(tuple(sharding._internal_device_list), dtype=object)
    hlo = sharding._hlo_sharding
    if hlo.is_replicated():
        return NamedSharding(Mesh(devices, ("_",)), PartitionSpec())
    dims = list(hlo.tile_assignment_dimensions())
    names = tuple([f"_{i}" for i in range(len(dims))])
    return NamedSharding(Mesh(devices[list(hlo.tile_assignment_devices())].reshape(dims), names), PartitionSpec(*names[:ndim]))


def _in_order(sharding, places: dict) -> dict:
    return {d: places[d] for d in sharding._internal_device_list}


_attach(GSPMDSharding,
        _to_xla_hlo_sharding=lambda self, ndim: self._hlo_sharding,
        device_set=property(lambda self: set(self._internal_device_list)),
        memory_kind=property(lambda self: self._memory_kind),
        with_memory_kind=lambda self, kind: GSPMDSharding(self._internal_device_list, self._hlo_sharding, memory_kind=kind),
        shard_shape=lambda self, shape: as_named(self, len(shape)).shard_shape(shape),
        devices_indices_map=lambda self, shape: _in_order(self, as_named(self, len(shape)).devices_indices_map(shape)),
        is_fully_replicated=property(lambda self: self._hlo_sharding.is_replicated()),
        __repr__=lambda self: f"GSPMDSharding({self._hlo_sharding})")


def hlo_sharding_from_bytes(written: bytes) -> HloSharding:
    """XLA's description of a sharding from its serialised form."""
    proto = OpSharding()
    proto.ParseFromString(written)
    tiles, devices = list(proto.tile_assignment_dimensions), list(proto.tile_assignment_devices)
    reshape, order = list(proto.iota_reshape_dims), list(proto.iota_transpose_perm)
    count = math.prod(tiles)
    in_order = sorted(order) == list(range(len(reshape))) and math.prod(reshape) == count
    try:
        if tiles and not in_order and sorted(devices) != list(range(count)):  # at which XLA would end the process
            raise JaxRuntimeError(f"{count} tiles are not all assigned")
        return HloSharding.from_proto(proto)
    except JaxRuntimeError as e:
        raise ValueError(f"the bytes {written!r} describe no sharding: {e}") from None


def hlo_sharding_to_bytes(sharding: HloSharding) -> bytes:
    return sharding.to_proto().SerializeToString()


# What the compiler says of results, in terms of the mesh


@functools.lru_cache(4096)
def named_from_hlo(hlo, mesh: Mesh, ndim: int) -> NamedSharding | None:
    """The sharding over `mesh` that the compiler's answer describes, found by trying the few that there are."""
    if hlo.is_replicated():
        return NamedSharding(mesh, PartitionSpec())
    if not hlo.is_tiled():
        return None
    tiles = list(hlo.tile_assignment_dimensions())[:ndim]

    def candidates(dimension, available):
        if dimension == ndim:
            yield ()
            return
        for count in range(len(available) + 1):
            for names in itertools.permutations(available, count):
                if math.prod(mesh.shape[a] for a in names) == tiles[dimension] and (
                        count == 0 or all(mesh.shape[a] > 1 for a in names)):
                    rest = [a for a in available if a not in names]
                    for others in candidates(dimension + 1, rest):
                        yield (names, *others)

    wanted = hlo.tile_assignment_devices()
    for axes in candidates(0, list(mesh.axis_names)):
        while axes and not axes[-1]:
            axes = axes[:-1]
        spec = PartitionSpec(*axes)
        sharding = NamedSharding(mesh, spec)
        made = sharding._to_xla_hlo_sharding(ndim)
        if made == hlo or (not made.is_replicated() and list(made.tile_assignment_devices()) == list(wanted)
                           and list(made.tile_assignment_dimensions())[:ndim] == tiles):
            return sharding
    return None
