"""Making a mesh of the devices that there are, and the mesh in force."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import backends, tracing
from xlafront.runtime.jaxlib_compat import SingleDeviceSharding
from xlafront.runtime.meshes import AbstractMesh, AxisType, Mesh, active, empty_mesh
from xlafront.staging.mesh_utils import arranged


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Sequence[AxisType] | None = None, *,
              devices: Sequence | None = None) -> Mesh:
    """A mesh over the devices, neighbours on the hardware next to each other in the mesh.

    - `axis_shapes`: the sizes of its axes.
    - `axis_names`: their names.
    - `axis_types`: their types, Explicit when left out: the types of arrays say how these are split over them.
    - `devices`: which ones; the first that there are when left out.

    >>> xf.make_mesh((1,), ("data",)).axis_types
    (Explicit,)
    """
    shape = tuple(int(n) for n in axis_shapes)
    names = (axis_names,) if isinstance(axis_names, str) and len(shape) == 1 else tuple(axis_names)
    if any(n < 1 for n in shape):
        raise ValueError(f"the axes of a mesh have at least one device each, got the shape {shape}.")
    if len(shape) != len(names):
        raise ValueError(f"make_mesh needs a name for each axis, got shape {shape} and names {names}.")
    found = list(backends.devices() if devices is None else devices)
    needed = math.prod(shape)
    if needed > len(found):
        raise ValueError(
            f"a mesh of shape {shape} needs {needed} devices, there are {len(found)}. On a CPU more "
            f"can be simulated: config.update('num_cpu_devices', {needed}) before the first computation.")
    types = (AxisType.Explicit,) * len(names) if axis_types is None else axis_types
    return Mesh(arranged(found[:needed], shape), names, types)


class set_mesh:
    """Put a mesh in force: at once, and with `with` until the block ends.

    Specs without a mesh then refer to it, and arrays that are bound to no device go to its devices.

    - `mesh`: the mesh; None: no mesh.

    >>> with xf.set_mesh(xf.make_mesh((1,), ("data",))):
    ...     x = xf.device_put(np.ones(4), xf.P("data"))
    """

    def __init__(self, mesh: Mesh | None):
        if not isinstance(mesh, (Mesh, type(None))):
            raise ValueError(f"set_mesh takes a Mesh, got {type(mesh).__name__}: {mesh!r:.80}. Make one with make_mesh; for an "
                             f"AbstractMesh there is use_abstract_mesh.")
        if tracing.is_tracing():
            raise ValueError("set_mesh was called inside of a function that is being traced. Set the mesh around the call of "
                             "the function; use_abstract_mesh, auto_axes and explicit_axes work inside.")
        if mesh is not None and mesh.manual_axes:
            raise ValueError(f"set_mesh was given {mesh}, which contains manual axes: {mesh.manual_axes}. Give the axes the "
                             f"type "
                             f"Auto or Explicit; inside of a shard_map they are Manual.")
        self.saved = active.mesh, active.abstract
        self.mesh = mesh
        active.mesh, active.abstract = None if mesh is empty_mesh else mesh, None

    def __enter__(self) -> Mesh | None:
        return self.mesh

    def __exit__(self, *exception) -> None:
        active.mesh, active.abstract = self.saved


class use_abstract_mesh:
    """With `with`: specs without a mesh refer to this one, whose devices need not be known. Also a decorator.

    - `mesh`: the mesh.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("data",))):
    ...     get_abstract_mesh().axis_names
    ('data',)
    """

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(f"use_abstract_mesh takes an AbstractMesh, got {type(mesh).__name__}: {mesh!r:.80}. A Mesh has "
                             f"one: mesh.abstract_mesh.")
        self.mesh = mesh
        self.saved: list = []

    def __enter__(self) -> AbstractMesh:
        before = active.abstract_mesh()
        if not (before.empty or self.mesh.empty) and before.size != self.mesh.size:
            raise ValueError(f"use_abstract_mesh cannot change the size of the mesh: {before}, in force here, has "
                             f"{before.size} "
                             f"device(s), {self.mesh} has {self.mesh.size}. Use a mesh over as many.")
        self.saved.append(active.abstract)
        active.abstract = self.mesh
        return self.mesh

    def __exit__(self, *exception) -> None:
        active.abstract = self.saved.pop()

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with use_abstract_mesh(self.mesh):
                return function(*args, **kwargs)

        return inside


def get_mesh() -> Mesh:
    """The mesh in force, which `set_mesh` put there; an empty one when there is none.

    >>> get_mesh().empty
    True
    """
    if tracing.is_tracing():
        raise ValueError("get_mesh has no answer inside of a function that is being traced, which may run on any devices. Use "
                         "get_abstract_mesh there.")
    return active.mesh or empty_mesh


def get_abstract_mesh() -> AbstractMesh:
    """The mesh in force without its devices; an empty one when there is none.

    >>> get_abstract_mesh().empty
    True
    """
    return active.abstract_mesh()


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of arrays that lie on one device.

    - `device`: the device.
    - `memory_kind`: in which of its memories; the default one when left out.

    >>> xf.sharding.make_single_device_sharding(xf.devices()[0]).num_devices
    1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
