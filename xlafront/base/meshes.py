"""Meshes of devices, and the mesh in force."""

from __future__ import annotations

import enum
import functools
import math
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.interned import Interned
from xlafront.base.jaxlib_compat import Config, DeviceList, _jax
from xlafront.base.specs import DuplicateSpecError, PartitionSpec, RankError, axes_of


class AxisType(enum.Enum):
    """The kind of a mesh axis: sharding over it is up to the compiler, to the types of arrays, or to the program itself."""

    Auto = 1
    Explicit = 2
    Manual = 3

    def __repr__(self):
        return self.name


class AbstractDevice:
    """The properties of the devices of an `AbstractMesh`.

    Args:
        device_kind, platform: As for `Device`.
        num_cores: Number of cores per device, None if unknown.

    Example:
        >>> AbstractDevice("TPU v5e", 1, "tpu")
        AbstractDevice(device_kind=TPU v5e, num_cores=1, platform=tpu)
    """

    __slots__ = ("device_kind", "num_cores", "platform")

    def __init__(self, device_kind: str, num_cores: int | None, platform: str):
        self.device_kind, self.num_cores, self.platform = device_kind, num_cores, platform

    def _contents(self):
        return self.device_kind, self.num_cores, self.platform

    def __eq__(self, other):
        return isinstance(other, AbstractDevice) and self._contents() == other._contents()

    def __hash__(self):
        return hash(self._contents())

    def __repr__(self):
        return f"AbstractDevice({_device_text(self)})"

    def __reduce__(self):
        return AbstractDevice, self._contents()


def _device_text(device: AbstractDevice) -> str:
    return f"device_kind={device.device_kind}, num_cores={device.num_cores}, platform={device.platform}"


_AXES = ("axis_names", "axis_sizes", "axis_types", "shape_tuple", "shape", "explicit")


class _MeshAxes:
    """The axes of meshes: names, sizes and types."""

    __slots__ = ()

    axis_names: tuple
    axis_sizes: tuple
    axis_types: tuple
    shape_tuple: tuple  # pairs of names and sizes
    shape: OrderedDict  # the same, by name
    explicit: frozenset

    def _set_axes(self, names: tuple, sizes: tuple, kinds: tuple) -> None:
        self.axis_names, self.axis_sizes, self.axis_types = names, sizes, kinds
        self.shape_tuple = tuple(zip(names, sizes))
        self.shape = OrderedDict(self.shape_tuple)
        self.explicit = frozenset(self.explicit_axes)

    def _axes_of_type(self, kind: AxisType) -> tuple:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types) if t is kind)

    auto_axes = property(lambda self: self._axes_of_type(AxisType.Auto))
    explicit_axes = property(lambda self: self._axes_of_type(AxisType.Explicit))
    manual_axes = property(lambda self: self._axes_of_type(AxisType.Manual))

    def _all_axes_of_type(self, *kinds: AxisType) -> bool:
        return bool(self.axis_types) and all(t in kinds for t in self.axis_types)

    are_all_axes_auto = property(lambda self: self._all_axes_of_type(AxisType.Auto))
    are_all_axes_explicit = property(lambda self: self._all_axes_of_type(AxisType.Explicit))
    are_all_axes_manual = property(lambda self: self._all_axes_of_type(AxisType.Manual))
    are_all_axes_explicit_or_manual = property(lambda self: self._all_axes_of_type(AxisType.Explicit, AxisType.Manual))
    empty = property(lambda self: not self.axis_names)

    def _axes_text(self) -> str:
        axes = "".join(f"{name!r}: {size}, " for name, size in self.shape_tuple)
        return axes or "(), "


def _checked_axes(sizes: tuple, axis_names, axis_types, default: AxisType) -> tuple[tuple, tuple]:
    """Return the names and types of the axes of a mesh with these sizes; raise an error if they do not fit.

    All axes have the type `default` if `axis_types` is None.
    """
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if len(sizes) != len(names):
        raise ValueError(f"a mesh of shape {tuple(sizes)} needs {len(sizes)} axis names, got {names}.")
    if len(set(names)) != len(names):
        raise ValueError(f"the axis names of a mesh must differ, got {names}.")
    if None in names:
        raise ValueError(f"the axes of a mesh need names, such as strings, got None among {names}.")
    if axis_types is None:
        axis_types = (default,) * len(names)
    kinds = (axis_types,) if isinstance(axis_types, AxisType) else tuple(axis_types)
    invalid = [kind for kind in kinds if not isinstance(kind, AxisType)]
    if invalid or len(kinds) != len(names):
        raise (TypeError if invalid else ValueError)(
            f"a mesh needs an AxisType for each of its axes {names}, such as AxisType.Auto, got {axis_types!r}.")
    return names, kinds


_meshes, _abstract_meshes = Interned(256), Interned(256)  # interned while in use


class AbstractMesh(_MeshAxes):
    """A mesh without devices: the sizes, names and types of its axes. Functions are traced with abstract meshes.

    Meshes with equal contents are the same object.

    Args:
        axis_sizes: Size of each axis.
        axis_names: Name of each axis.
        axis_types: `AxisType` of each axis. Default: Explicit.
        abstract_device: Properties of the devices. Default: unknown.

    Example:
        >>> AbstractMesh((4, 2), ("data", "model"))
        AbstractMesh('data': 4, 'model': 2, axis_types=(Explicit, Explicit))
    """

    __slots__ = (*_AXES, "abstract_device", "size", "__weakref__")

    _internal_device_list = None
    size: int

    def __new__(cls, axis_sizes: Sequence[int], axis_names, axis_types=None, *,
                abstract_device: AbstractDevice | None = None):
        sizes = tuple(axis_sizes)
        names, kinds = _checked_axes(sizes, axis_names, axis_types, AxisType.Explicit)
        key = (sizes, names, kinds, abstract_device)
        mesh = _abstract_meshes.get(key)
        if mesh is None:
            mesh = object.__new__(cls)
            mesh._set_axes(names, sizes, kinds)
            mesh.abstract_device = abstract_device
            mesh.size = math.prod(sizes) if sizes else 0
            mesh = _abstract_meshes.add(key, mesh)
        return mesh

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    def update(self, axis_sizes=None, axis_names=None, axis_types=None, **abstract_device) -> AbstractMesh:
        """Return the mesh with some of its fields replaced, which may include `abstract_device`."""
        return AbstractMesh(self.axis_sizes if axis_sizes is None else axis_sizes,
                            self.axis_names if axis_names is None else axis_names,
                            self.axis_types if axis_types is None else axis_types,
                            **{"abstract_device": self.abstract_device, **abstract_device})

    def update_axis_types(self, name_to_type: dict) -> AbstractMesh:
        """Return the mesh with some axis types replaced, by axis name."""
        return self.update(axis_types=tuple(name_to_type.get(n, t) for n, t in zip(self.axis_names, self.axis_types)))

    def _refuse(name):  # noqa: N805
        def refuse(self):
            raise ValueError(f"an AbstractMesh has no devices, and so no {name!r}. Use a Mesh, from make_mesh.")

        return property(refuse)

    devices, device_ids, local_devices = _refuse("devices"), _refuse("device_ids"), _refuse("local_devices")
    local_mesh, is_multi_process = _refuse("local_mesh"), _refuse("is_multi_process")
    del _refuse

    def __repr__(self):
        device = f", {_device_text(self.abstract_device)}" if self.abstract_device is not None else ""
        return f"AbstractMesh({self._axes_text()}axis_types={self.axis_types}{device})"

    def __reduce__(self):
        return _make_abstract, (self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device)


def _make_abstract(sizes, names, types, device) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


empty_abstract_mesh = AbstractMesh((), ())


class Mesh(_MeshAxes):
    """A grid of devices with named axes. Meshes with equal contents are the same object.

    Args:
        devices: Devices as an array with one dimension per axis, or as nested lists.
        axis_names: Name of each axis, or a single name for a one-dimensional grid.
        axis_types: `AxisType` of each axis: sharding over it is chosen by the compiler (Auto), is part of the types of arrays
            (Explicit), or programs see the shard of each device (Manual). Default: Auto.

    Example:
        >>> mesh = Mesh(np.array(xf.devices()[:1]).reshape(1, 1), ("data", "model"))
    """

    __slots__ = (*_AXES, "devices", "size", "_internal_device_list", "_abstract", "__weakref__")

    devices: np.ndarray
    size: int
    _abstract: AbstractMesh | None

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Sequence[AxisType] | None = None) -> Mesh:
        if not isinstance(devices, np.ndarray):
            devices = np.array(devices, dtype=object)
        names, kinds = _checked_axes(devices.shape, axis_names, axis_types, AxisType.Auto)
        key = (names, kinds, devices.shape, tuple(devices.flat))
        mesh = _meshes.get(key)
        if mesh is None:
            mesh = object.__new__(cls)
            mesh._set_axes(names, devices.shape, kinds)
            mesh.devices = devices.copy()
            mesh.devices.flags.writeable = False
            mesh.size = mesh.devices.size if names else 0
            mesh._internal_device_list = device_list(key[-1])
            mesh._abstract = None
            mesh = _meshes.add(key, mesh)
        return mesh

    is_scalar = property(lambda self: self.devices.size == 1, doc="True if the mesh has one device.")
    device_ids = property(functools.lru_cache(256)(lambda self: np.vectorize(lambda d: d.id, otypes=[int])(self.devices)),
                          doc="The ids of the devices, in the same grid.")
    is_multi_process = property(lambda self: len({d.process_index for d in self.devices.flat}) > 1,
                                doc="True if the mesh has devices of several processes.")
    local_devices = property(functools.lru_cache(256)(
        lambda self: [d for d in self.devices.flat if d.process_index == d.client.process_index()]),
        doc="The devices of this process.")

    @property
    def local_mesh(self) -> Mesh:
        """The submesh of this process's devices."""
        return self if not self.is_multi_process else _local_submesh(self)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices, as it appears in types."""
        if self._abstract is None:
            device = None
            if self.axis_names:
                first = self.devices.flat[0]
                device = AbstractDevice(first.device_kind, getattr(first, "num_cores", None), first.platform)
            abstract_mesh = AbstractMesh(self.devices.shape, self.axis_names, self.axis_types, abstract_device=device)
            concrete_meshes[abstract_mesh] = self
            self._abstract = abstract_mesh
        return self._abstract

    def update(self, devices=None, axis_names=None, axis_types=None) -> Mesh:
        """Return the mesh with some of its fields replaced."""
        return Mesh(self.devices if devices is None else devices, self.axis_names if axis_names is None else axis_names,
                    self.axis_types if axis_types is None else axis_types)

    def with_axes(self, axes: AbstractMesh) -> Mesh:
        """Return the mesh with the axes of another one over as many devices: their names, sizes and types."""
        if (self.shape_tuple, self.axis_types) == (axes.shape_tuple, axes.axis_types):
            return self
        return Mesh(self.devices.reshape(axes.axis_sizes), axes.axis_names, axes.axis_types)

    def __call__(self, function: Callable) -> Callable:
        """Wrap a function so that it runs in `with mesh:`."""
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return wrapper

    def __enter__(self):
        """Let specs of `with_sharding_constraint` refer to the mesh. For all other uses there is `set_mesh`."""
        if config.disallow_mesh_context_manager.value:
            raise RuntimeError("`with mesh:`, the mesh context manager, is disabled by the setting "
                               "disallow_mesh_context_manager: put the mesh in force with `with set_mesh(mesh):`.")
        warnings.warn("`with mesh:` is deprecated; put the mesh in force with `with set_mesh(mesh):`.", DeprecationWarning,
                      stacklevel=2)
        _entered.previous = active.entered, getattr(_entered, "previous", None)
        active.entered = self
        return self

    def __exit__(self, *exception):
        active.entered, _entered.previous = _entered.previous

    def __str__(self):
        return "Mesh()" if self.empty else f"Mesh({self._axes_text()}axis_types={self.axis_types})"

    def __repr__(self):
        types = f", axis_types={self.axis_types}" if self.axis_names else ""
        return f"Mesh(axis_sizes={self.devices.shape if self.axis_names else ()}, axis_names={self.axis_names}{types})"

    def __reduce__(self):
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __deepcopy__(self, memo):
        return self  # devices cannot be copied, and meshes are immutable


_entered = threading.local()  # state before the innermost `with mesh:` of the thread
@functools.lru_cache(256)
def _local_submesh(mesh: Mesh) -> Mesh:
    is_local = np.vectorize(lambda d: d.process_index == d.client.process_index(), otypes=[bool])(mesh.devices)
    local_devices = mesh.devices[np.ix_(*(np.unique(positions) for positions in np.nonzero(is_local)))]
    if not is_local.any() or local_devices.size != is_local.sum():
        kind = "not a rectangular" if is_local.any() else "no"
        raise ValueError(f"the devices of this process are {kind} part of {mesh}. Make the mesh so that they are.")
    return Mesh(local_devices, mesh.axis_names, mesh.axis_types)


# A concrete mesh for each abstract one, for values whose types have only an abstract mesh while no mesh is in force.
concrete_meshes: weakref.WeakValueDictionary[AbstractMesh, Mesh] = weakref.WeakValueDictionary()


@functools.lru_cache(4096)
def device_list(devices: tuple) -> DeviceList:
    """Return the device list for these devices: the same object each time, for comparisons by identity."""
    return DeviceList(devices)


empty_mesh = Mesh(np.empty((), dtype=object), ())


# The mesh in force in each thread. It is part of the cache key of compiled functions.


class _Active:
    """The mesh of `set_mesh`, the abstract mesh that replaces it during tracing, and the mesh of `with mesh:`."""

    __slots__ = ()

    # Stored per thread in C++ as part of the key of each call, since functions may depend on them.
    _mesh = Config("active_mesh", None, include_in_jit_key=True)
    _abstract = Config("abstract_mesh", None, include_in_jit_key=True, include_in_trace_context=True)
    _entered = Config("entered_mesh", None, include_in_jit_key=True, include_in_trace_context=True)

    @property
    def mesh(self) -> Mesh | None:
        return self._mesh.value

    @mesh.setter
    def mesh(self, mesh: Mesh | None) -> None:
        self._mesh.set_local(_jax.config.unset if mesh is None else mesh)

    @property
    def abstract(self) -> AbstractMesh | None:
        return self._abstract.value

    @abstract.setter
    def abstract(self, mesh: AbstractMesh | None) -> None:
        self._abstract.set_local(_jax.config.unset if mesh is None else mesh)

    @property
    def entered(self) -> Mesh | None:
        return self._entered.value

    @entered.setter
    def entered(self, mesh: Mesh | None) -> None:
        self._entered.set_local(_jax.config.unset if mesh is None else mesh)

    def concrete(self) -> Mesh | None:
        """Return the mesh with devices, with the axes in effect here."""
        mesh, abstract = self.mesh, self.abstract
        if mesh is None or abstract is None or abstract.size != mesh.size or abstract.manual_axes:
            return mesh
        return mesh.with_axes(abstract)

    def abstract_mesh(self) -> AbstractMesh:
        """Return the mesh that specs without a mesh refer to."""
        abstract = self.abstract
        if abstract is not None:
            return abstract
        mesh = self.mesh
        return empty_abstract_mesh if mesh is None else mesh.abstract_mesh


active = _Active()


class SpecTypeError(TypeError, AttributeError):
    """A sharding was given something other than a PartitionSpec."""


def check_spec(mesh: Any, spec: PartitionSpec, rank: int | None = None) -> None:
    """Raise for axes that the mesh lacks, for duplicate axes, and for more entries than `rank` dimensions."""
    if not isinstance(spec, PartitionSpec):
        remedy = f" Write P{spec!r}." if isinstance(spec, tuple) else f" Write P({spec!r})." if isinstance(spec, str) else ""
        raise SpecTypeError(f"NamedSharding takes a PartitionSpec, got {type(spec).__name__}: {spec!r}.{remedy}")
    if not mesh.axis_names and not any(spec._partitions):
        return
    names = mesh.axis_names
    seen = []
    for axis in [a for p in spec._partitions for a in axes_of(p)] + [*spec.unreduced, *spec.reduced]:
        if axis not in names:
            raise ValueError(f"{spec} has the resource axis {axis!r}, a mesh axis that is not found in mesh {mesh}, which has "
                             f"only {names}. Use one of these, or a mesh with an axis {axis!r}.")
        if axis in seen:
            raise DuplicateSpecError(f"{spec} names the axis {axis!r} twice (duplicate entries): a mesh axis can split only "
                                     "one dimension, and not one that is unreduced.")
        seen.append(axis)
    if PartitionSpec.UNCONSTRAINED in spec._partitions and names and not mesh.auto_axes:
        raise ValueError(f"{spec} leaves a dimension to the compiler (UNCONSTRAINED), but {mesh} has no axis of type Auto, "
                         "over which it could split it. Name axes in its place, or None.")
    for axis in (*spec.unreduced, *spec.reduced):
        if mesh.shape[axis] and mesh.axis_types[names.index(axis)] is AxisType.Auto:
            raise ValueError(f"{spec} has the axis {axis!r} among its unreduced or reduced axes, which in {mesh} is not of "
                             "type Explicit. Make the mesh with AxisType.Explicit for it.")
    if rank is not None and any(map(axes_of, spec._partitions[rank:])):
        raise RankError(f"{spec} has {len(spec)} entries, but the array has only {rank} dimension(s). Leave entries out.")
