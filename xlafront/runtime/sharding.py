"""Shardings: which part of an array lives on which device.

The classes are jaxlib's own, so that dispatch compares and hashes them in C++; the Python methods that users
and jaxlib expect on them are attached here.
"""

from __future__ import annotations

import enum
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from xlafront.runtime.jaxlib_compat import (
    Config,
    DeviceList,
    HloSharding,
    NamedSharding,
    OpShardingType,
    Sharding,
    SingleDeviceSharding,
    _jax,
    prime,
    serve,
)

_replicated = HloSharding.replicate()


def _attach(cls, **members) -> None:
    for name, member in members.items():
        setattr(cls, name, member)


# What every sharding answers, in terms of `device_set` and `devices_indices_map`.


def _is_fully_addressable(self) -> bool:
    return self._internal_device_list.is_fully_addressable


def _addressable_devices(self) -> set:
    return set(self._internal_device_list.addressable_device_list)


def _addressable_devices_indices_map(self, global_shape):
    addressable = self.addressable_devices
    return {d: index for d, index in self.devices_indices_map(tuple(global_shape)).items() if d in addressable}


def _is_equivalent_to(self, other, ndim: int) -> bool:
    if self == other:
        return True
    return (self._internal_device_list == other._internal_device_list and self.memory_kind == other.memory_kind
            and self._to_xla_hlo_sharding(ndim) == other._to_xla_hlo_sharding(ndim))


_attach(Sharding, is_fully_addressable=property(_is_fully_addressable),
        addressable_devices=property(_addressable_devices),
        addressable_devices_indices_map=_addressable_devices_indices_map,
        is_equivalent_to=_is_equivalent_to,
        num_devices=property(lambda self: len(self._internal_device_list)),
        _device_assignment=property(lambda self: tuple(self._internal_device_list)))


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
            and self.memory_kind == other.memory_kind),
        __hash__=lambda self: hash((self._device, self.memory_kind)),
        __repr__=_single_repr,
        __reduce__=lambda self: (SingleDeviceSharding, (self._device, self.memory_kind)))

_of_device: dict = {}


def single_device(device) -> SingleDeviceSharding:
    """The sharding of arrays on one device; one object a device, so that comparisons are by pointer."""
    found = _of_device.get(device)
    if found is None:
        found = _of_device[device] = SingleDeviceSharding(device)
    return found


_lists: dict = {}


def device_list(devices: tuple) -> DeviceList:
    found = _lists.get(devices)
    if found is None:
        found = _lists[devices] = DeviceList(devices)
    return found


# Meshes


class AxisType(enum.Enum):
    """How the compiler treats a mesh axis: decides itself, follows the types, or leaves it to the program."""

    Auto = 0
    Explicit = 1
    Manual = 2

    def __repr__(self):
        return self.name


class PartitionSpec(tuple):
    """For each dimension of an array the mesh axis (or axes) it is split over, or None.

    >>> P("data", None)
    """

    __slots__ = ()

    UNCONSTRAINED = object()

    def __new__(cls, *partitions, unreduced=frozenset(), reduced=frozenset()):
        if unreduced or reduced:
            raise ValueError("unreduced and reduced axes belong to explicit sharding types, which are not in use here")
        return super().__new__(cls, (tuple(p) if isinstance(p, list) else p for p in partitions))

    unreduced = property(lambda self: frozenset())
    reduced = property(lambda self: frozenset())

    def __repr__(self):
        return f"PartitionSpec({', '.join(map(repr, self))})"

    def __reduce__(self):
        return PartitionSpec, tuple(self)

    def __eq__(self, other):
        return isinstance(other, tuple) and self.canonical() == PartitionSpec(*other).canonical()

    def __hash__(self):
        return hash(self.canonical())

    def canonical(self) -> tuple:
        """Each entry as a tuple of axes, without trailing unsplit dimensions."""
        entries = [axes_of(p) for p in self]
        while entries and entries[-1] == ():
            entries.pop()
        return tuple(entries)

    def update(self, **changes):
        return PartitionSpec(*changes.get("partitions", self))


P = PartitionSpec


class Format(NamedTuple):
    """How an array lies in memory: the order of its elements on a device, and its sharding."""

    layout: Any = None
    sharding: Any = None


def axes_of(partition) -> tuple:
    if partition is None:
        return ()
    return tuple(partition) if isinstance(partition, (tuple, list)) else (partition,)


class Mesh:
    """Devices in a grid whose axes have names.

    >>> mesh = Mesh(np.array(xlafront.devices()).reshape(2, 4), ("data", "model"))
    """

    __slots__ = ("devices", "axis_names", "axis_types", "_internal_device_list", "_hash", "_saved", "__weakref__")

    def __init__(self, devices, axis_names, axis_types=None):
        if not isinstance(devices, np.ndarray):
            devices = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if devices.ndim != len(names):
            raise ValueError(f"a mesh of shape {devices.shape} needs {devices.ndim} axis names, got {names}.")
        if len(set(names)) != len(names):
            raise ValueError(f"the axis names of a mesh must differ, got {names}.")
        self.devices = devices.copy()
        self.devices.flags.writeable = False
        self.axis_names = names
        self.axis_types = tuple(axis_types) if axis_types is not None else (AxisType.Auto,) * len(names)
        self._internal_device_list = device_list(tuple(self.devices.flat))
        self._hash = hash((self.axis_names, self.devices.shape, tuple(self.devices.flat)))
        self._saved = []

    @property
    def shape(self) -> dict:
        return dict(zip(self.axis_names, self.devices.shape))

    @property
    def shape_tuple(self) -> tuple:
        return tuple(zip(self.axis_names, self.devices.shape))

    axis_sizes = property(lambda self: self.devices.shape)
    size = property(lambda self: self.devices.size)
    empty = property(lambda self: self.devices.ndim == 0)
    device_ids = property(lambda self: np.vectorize(lambda d: d.id, otypes=[int])(self.devices))
    is_multi_process = property(lambda self: len({d.process_index for d in self.devices.flat}) > 1)
    local_devices = property(lambda self: [d for d in self.devices.flat if d.process_index == d.client.process_index()])

    def __eq__(self, other):
        return self is other or (
            isinstance(other, Mesh) and self.axis_names == other.axis_names
            and self.devices.shape == other.devices.shape and self.axis_types == other.axis_types
            and self._internal_device_list is other._internal_device_list)  # one object for the same devices

    def __hash__(self):
        return self._hash

    def __enter__(self):
        self._saved.append(active.mesh)
        active.mesh = self
        return self

    def __exit__(self, *exception):
        active.mesh = self._saved.pop()

    def __repr__(self):
        return f"Mesh({', '.join(f'{name!r}: {size}' for name, size in self.shape_tuple)})"

    def __reduce__(self):
        return Mesh, (self.devices, self.axis_names, self.axis_types)


_unset = _jax.config.unset
# C++ keeps it by thread, and has it in the key of each call: what a function does may depend on it.
_active_mesh = Config("active_mesh", None, include_in_jit_key=True)


class _Active:
    @property
    def mesh(self) -> Mesh | None:
        return _active_mesh.value

    @mesh.setter
    def mesh(self, mesh: Mesh | None) -> None:
        _active_mesh.set_local(_unset if mesh is None else mesh)


active = _Active()  # the mesh of the enclosing `with mesh:`


def check_spec(mesh, spec, rank: int | None = None) -> None:
    seen = []
    for partition in spec:
        for axis in () if partition is PartitionSpec.UNCONSTRAINED else axes_of(partition):
            if axis not in mesh.axis_names:
                raise ValueError(f"{spec} names the axis {axis!r}, but {mesh} has only {mesh.axis_names}.")
            if axis in seen:
                raise ValueError(f"{spec} names the axis {axis!r} twice: an axis can split only one dimension.")
            seen.append(axis)
    if rank is not None and len(spec) > rank:
        raise ValueError(f"{spec} has {len(spec)} entries, but the array has only {rank} dimension(s).")


class _NoMesh:
    """Enough of a mesh for the sharding with which C++ finds `check_spec`."""

    size, axis_names, _internal_device_list = 0, (), None


serve("jax._src.named_sharding", check_pspec=lambda mesh, spec, *rest: check_spec(mesh, spec))
prime(lambda: NamedSharding(_NoMesh, PartitionSpec()))


def _tiles(self, ndim: int) -> tuple[list[tuple], list[int]]:
    spec = [() if p is PartitionSpec.UNCONSTRAINED else axes_of(p) for p in self.spec]
    sizes = self.mesh.shape
    axes = spec + [()] * (ndim - len(spec))
    return axes, [math.prod(sizes[a] for a in names) for names in axes]


def _named_hlo(self, ndim: int):
    key = (self, ndim)
    found = _hlo_of_named.get(key)
    if found is None:
        mesh = self.mesh
        axes, tiles = _tiles(self, ndim)
        used = [a for names in axes for a in names]
        rest = [a for a in mesh.axis_names if a not in used]
        order = [mesh.axis_names.index(a) for a in [*used, *rest]]
        remaining = math.prod(mesh.shape[a] for a in rest)
        if math.prod(tiles) == 1:
            found = _replicated
        else:
            kinds = [OpShardingType.REPLICATED] if remaining > 1 else []
            found = HloSharding.iota_tile(
                dims=[*tiles, *([remaining] if remaining > 1 else [])], reshape_dims=list(mesh.devices.shape),
                transpose_perm=order, subgroup_types=kinds)
        _hlo_of_named[key] = found
    return found


_hlo_of_named: dict = {}


def _named_shard_shape(self, shape) -> tuple:
    _, tiles = _tiles(self, len(shape))
    check_spec(self.mesh, self.spec, len(shape))
    for dimension, (n, parts) in enumerate(zip(shape, tiles)):
        if n % parts:
            raise ValueError(
                f"an array of shape {tuple(shape)} cannot be split by {self}: dimension {dimension} has size {n}, which "
                f"is not divisible by the {parts} parts that {self.spec[dimension]!r} asks for. Pad it, or leave that "
                f"dimension unsplit.")
    return tuple(n // parts for n, parts in zip(shape, tiles))


def _named_indices(self, shape) -> dict:
    shape = tuple(shape)
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


_attach(NamedSharding,
        _to_xla_hlo_sharding=_named_hlo,
        device_set=property(lambda self: set(self.mesh.devices.flat)),
        memory_kind=property(lambda self: self._memory_kind),
        with_memory_kind=lambda self, kind: NamedSharding(self.mesh, self.spec, memory_kind=kind),
        update=lambda self, **changes: NamedSharding(changes.get("mesh", self.mesh), changes.get("spec", self.spec)),
        shard_shape=_named_shard_shape,
        devices_indices_map=_named_indices,
        is_fully_replicated=property(lambda self: all(n == 1 for n in _tiles(self, len(self.spec))[1])),
        __repr__=_named_repr,
        __reduce__=lambda self: (NamedSharding, (self.mesh, self.spec)))


# What the compiler says of results, in terms of the mesh


def named_from_hlo(hlo, mesh: Mesh, ndim: int) -> NamedSharding | None:
    """The sharding over `mesh` that the compiler's answer describes, found by trying the few that there are."""
    key = (str(hlo), mesh, ndim)
    if key not in _named_of_hlo:
        _named_of_hlo[key] = _search(hlo, mesh, ndim)
    return _named_of_hlo[key]


_named_of_hlo: dict = {}


def _search(hlo, mesh, ndim):
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
        spec = PartitionSpec(*(names[0] if len(names) == 1 else (names or None) for names in axes))
        sharding = NamedSharding(mesh, spec)
        made = sharding._to_xla_hlo_sharding(ndim)
        if made == hlo or (not made.is_replicated() and list(made.tile_assignment_devices()) == list(wanted)
                           and list(made.tile_assignment_dimensions())[:ndim] == tiles):
            return sharding
    return None
