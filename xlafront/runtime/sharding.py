"""Shardings: the assignment of array shards to devices.

The classes are jaxlib's own, so that dispatch compares and hashes them in C++. The Python methods that users and jaxlib expect
of them are attached here.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from xlafront.base.jax_names import answered, serve
from xlafront.base.jaxlib_compat import (
    GSPMDSharding,
    HloSharding,
    JaxRuntimeError,
    NamedSharding,
    OpSharding,
    OpShardingType,
    Sharding,
    SingleDeviceSharding,
    allows_open_extremes,
)
from xlafront.base.meshes import (
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
    active as active,
    check_spec as check_spec,
    device_list as device_list,
    empty_abstract_mesh,
)
from xlafront.base.specs import (
    IndivisibleError,
    MissingDimensionError,
    P as P,
    PartitionSpec as PartitionSpec,
    UnreducedKind,
    axes_of as axes_of,
    check_rank,
)
from xlafront.core.traceback_filter import boundary

_replicated = HloSharding.replicate()


def in_device_memory(sharding) -> bool:
    """Return True if arrays of the sharding are in device memory, not in host memory."""
    return sharding.memory_kind in (None, "device")


def open_sums(sharding) -> frozenset:
    """Return the mesh axes over which arrays of the sharding are unreduced."""
    if not isinstance(sharding, NamedSharding):
        return frozenset()
    refuse_extremes(sharding.spec)
    return sharding.spec.unreduced


def refuse_extremes(spec: PartitionSpec) -> None:
    """Raise for arrays of open maxima or minima if the installed XLA cannot represent them."""
    kind = spec.unreduced_kind
    if kind not in (None, UnreducedKind.sum) and not allows_open_extremes():
        raise NotImplementedError(f"arrays over {spec} cannot be computed: the installed jaxlib has no open reductions "
                                  f"of the kind {kind.name}. Install jaxlib 0.11 or newer, or reduce at once, without "
                                  f"unreduced axes.")


def _attach(cls, **members) -> None:
    for name, member in members.items():
        setattr(cls, name, member)


# Members of all shardings, in terms of `device_set` and `devices_indices_map`.


def _is_fully_addressable(self) -> bool:
    return self._internal_device_list.is_fully_addressable


def _addressable_devices(self) -> set:
    return set(self._internal_device_list.addressable_device_list)


def _addressable_devices_indices_map(self, global_shape):
    indices = self.devices_indices_map(tuple(global_shape))
    if self.is_fully_addressable:
        return indices
    addressable = self.addressable_devices
    return {d: index for d, index in indices.items() if d in addressable}


def _is_equivalent_to(self, other, ndim: int) -> bool:
    if self == other:
        return True
    return (self._internal_device_list == other._internal_device_list and self.memory_kind == other.memory_kind
            and self._to_xla_hlo_sharding(ndim) == other._to_xla_hlo_sharding(ndim))


def _undefined_member(name: str):
    """Return a function that raises NotImplementedError for a member that each kind of sharding must define."""
    def unknown(self, *args):
        raise NotImplementedError(f"{type(self).__name__} is a Sharding that does not define {name}.")

    return unknown


_attach(Sharding, **{name: property(_undefined_member(name)) for name in (
            "_internal_device_list", "device_set", "is_fully_replicated", "memory_kind")},
        **{name: _undefined_member(name) for name in (
            "_to_xla_hlo_sharding", "devices_indices_map", "shard_shape", "with_memory_kind")},
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
    """Return the sharding of arrays on one device: the same object each time, for comparisons by identity."""
    return SingleDeviceSharding(device)


# Shardings over a mesh

_cached_check_spec = functools.lru_cache(4096)(check_spec)


@boundary
def _check_pspec(mesh, spec, *rest):
    """Check the spec of a sharding. Hot: called from C++ for each sharding that is created."""
    _cached_check_spec(mesh, spec) if type(spec) is PartitionSpec else check_spec(mesh, spec)


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
    replicated = [a for a in mesh.axis_names if a not in used and a not in summed]
    order = [mesh.axis_names.index(a) for a in [*used, *summed, *replicated]]
    groups = [(math.prod(mesh.shape[a] for a in names), kind) for names, kind in (
        (summed, OpShardingType.UNREDUCED), (replicated, OpShardingType.REPLICATED))]
    groups = [(n, kind) for n, kind in groups if n > 1]
    if math.prod(tiles) == 1 and not any([kind is OpShardingType.UNREDUCED for _, kind in groups]):
        return _replicated
    return HloSharding.iota_tile(
        dims=[*tiles, *[n for n, _ in groups]], reshape_dims=list(mesh.axis_sizes), transpose_perm=order,
        subgroup_types=[kind for _, kind in groups])


def _named_shard_shape(self, shape) -> tuple:
    return _shard_shape_of(self, tuple(shape))


@functools.lru_cache(4096)
def _shard_shape_of(self, shape: tuple) -> tuple:
    _, tiles = _tiles(self, len(shape))
    if len(tiles) > len(shape):
        raise MissingDimensionError(f"{self.spec} has {len(self.spec)} entries, but the array has shape {shape}, only "
                                    f"{len(shape)} dimension(s). Leave out entries.")
    for dimension, (n, num_shards) in enumerate(zip(shape, tiles)):
        if n % num_shards:
            raise IndivisibleError(
                f"an array of shape {shape} cannot be split by {self.spec} over {self.mesh}: dimension {dimension} has size "
                f"{n}, which is not evenly divisible by the {num_shards} parts that it is partitioned into by "
                f"{self.spec[dimension]!r}. Pad it, or leave that dimension unsplit.")
    return tuple([n // num_shards for n, num_shards in zip(shape, tiles)])


def _named_indices(self, shape) -> dict:
    return _indices_of(self, tuple(shape))


@functools.lru_cache(512)
def _indices_of(self, shape: tuple) -> dict:
    if PartitionSpec.UNCONSTRAINED in self.spec.partitions:
        raise ValueError(f"{self.spec} leaves a dimension to the compiler (UNCONSTRAINED), so the shards of an array are "
                         f"unknown. Only with_sharding_constraint takes such a spec. Name axes there, or None.")
    shard_shape = _named_shard_shape(self, shape)
    axes, _ = _tiles(self, len(shape))
    mesh = self.mesh
    sizes = mesh.shape
    result = {}
    for position in np.ndindex(*mesh.devices.shape):
        coordinates = dict(zip(mesh.axis_names, position))
        index = []
        for names, n in zip(axes, shard_shape):
            shard = 0
            for name in names:
                shard = shard * sizes[name] + coordinates[name]
            index.append(slice(shard * n, (shard + 1) * n) if names else slice(None))
        result[mesh.devices[position]] = tuple(index)
    return result


def _named_repr(self) -> str:
    memory = f", memory_kind={self.memory_kind}" if self.memory_kind is not None else ""
    return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{memory})"


def _named_update(self, **changes) -> NamedSharding:
    """Return the sharding with some of its fields replaced: `mesh`, `spec`, `memory_kind`."""
    fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self._memory_kind} | changes
    return NamedSharding(fields["mesh"], fields["spec"], memory_kind=fields["memory_kind"])


def _named_check(self, aval_shape) -> None:
    """Raise if the spec has more entries than the array has dimensions."""
    check_rank(self.spec, aval_shape)


def _make_named(mesh, spec, memory_kind) -> NamedSharding:
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


def _replicated_axes(self) -> frozenset:
    used = {a for p in self.spec for a in axes_of(p)} | self.spec.unreduced
    return frozenset(a for a in self.mesh.axis_names if a not in used)


@functools.lru_cache(4096)
def _is_fully_replicated(self) -> bool:
    """True if each device has the unsharded array."""
    sizes = self.mesh.shape
    return all([sizes[axis] == 1 for axis in (*[a for p in self.spec for a in axes_of(p)], *self.spec.unreduced)])


def _devices_of(self):
    """Return the devices of a sharding; raise an error for one over an AbstractMesh."""
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
        is_fully_replicated=property(_is_fully_replicated),
        __repr__=_named_repr,
        __reduce__=lambda self: (_make_named, (self.mesh, self.spec, self._memory_kind)))


# Shardings without a public mesh


def as_named(sharding: GSPMDSharding, ndim: int) -> NamedSharding:
    """Convert a sharding of the compiler to one over a new mesh, whose axes are the tiles."""
    devices: np.ndarray = np.array(tuple(sharding._internal_device_list), dtype=object)
    hlo = sharding._hlo_sharding
    if hlo.is_replicated():
        return NamedSharding(Mesh(devices, ("_",)), PartitionSpec())
    dims = list(hlo.tile_assignment_dimensions())
    names = tuple([f"_{i}" for i in range(len(dims))])
    return NamedSharding(Mesh(devices[list(hlo.tile_assignment_devices())].reshape(dims), names), PartitionSpec(*names[:ndim]))


def _in_device_order(sharding, indices: dict) -> dict:
    return {d: indices[d] for d in sharding._internal_device_list}


_attach(GSPMDSharding,
        _to_xla_hlo_sharding=lambda self, ndim: self._hlo_sharding,
        device_set=property(lambda self: set(self._internal_device_list)),
        memory_kind=property(lambda self: self._memory_kind),
        with_memory_kind=lambda self, kind: GSPMDSharding(self._internal_device_list, self._hlo_sharding, memory_kind=kind),
        shard_shape=lambda self, shape: as_named(self, len(shape)).shard_shape(shape),
        devices_indices_map=lambda self, shape: _in_device_order(self, as_named(self, len(shape)).devices_indices_map(shape)),
        is_fully_replicated=property(lambda self: self._hlo_sharding.is_replicated()),
        __repr__=lambda self: f"GSPMDSharding({self._hlo_sharding})")


def hlo_sharding_from_bytes(data: bytes) -> HloSharding:
    """Parse XLA's sharding from its serialized form."""
    proto = OpSharding()
    proto.ParseFromString(data)
    tiles, devices = list(proto.tile_assignment_dimensions), list(proto.tile_assignment_devices)
    reshape, order = list(proto.iota_reshape_dims), list(proto.iota_transpose_perm)
    count = math.prod(tiles)
    is_iota = sorted(order) == list(range(len(reshape))) and math.prod(reshape) == count
    try:
        if tiles and not is_iota and sorted(devices) != list(range(count)):  # XLA would abort the process
            raise JaxRuntimeError(f"{count} tiles are not all assigned")
        return HloSharding.from_proto(proto)
    except JaxRuntimeError as e:
        raise ValueError(f"the bytes {data!r} describe no sharding: {e}") from None


def hlo_sharding_to_bytes(sharding: HloSharding) -> bytes:
    return sharding.to_proto().SerializeToString()


# Conversion of the compiler's shardings to shardings over a mesh


@functools.lru_cache(4096)
def named_from_hlo(hlo, mesh: Mesh, ndim: int) -> NamedSharding | None:
    """Return the sharding over `mesh` that the compiler's sharding describes, found by enumeration; None if there is none."""
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

    expected_devices = hlo.tile_assignment_devices()
    for axes in candidates(0, list(mesh.axis_names)):
        while axes and not axes[-1]:
            axes = axes[:-1]
        spec = PartitionSpec(*axes)
        sharding = NamedSharding(mesh, spec)
        candidate = sharding._to_xla_hlo_sharding(ndim)
        if candidate == hlo or (not candidate.is_replicated()
                                and list(candidate.tile_assignment_devices()) == list(expected_devices)
                                and list(candidate.tile_assignment_dimensions())[:ndim] == tiles):
            return sharding
    return None
