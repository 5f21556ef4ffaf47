"""Creation of meshes from the available devices, and the mesh in context."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base.jaxlib_compat import SingleDeviceSharding
from xlafront.base.meshes import AbstractMesh, AxisType, Mesh, active, empty_mesh
from xlafront.core import tracing
from xlafront.runtime import backends
from xlafront.staging.mesh_utils import arranged


def _accept_axis_shapes(make: Callable) -> Callable:
    """Accept the older name of the keyword `axis_sizes`."""
    @functools.wraps(make)
    def make_by_either_name(*args: Any, **kwargs: Any) -> Mesh:
        if "axis_shapes" in kwargs:
            if "axis_sizes" in kwargs or args:
                raise TypeError("make_mesh got axis_sizes and also axis_shapes, its older name: give axis_sizes only.")
            kwargs["axis_sizes"] = kwargs.pop("axis_shapes")
        return make(*args, **kwargs)

    return make_by_either_name


@_accept_axis_shapes
def make_mesh(axis_sizes: Sequence[int], axis_names: Sequence[str], axis_types: Sequence[AxisType] | None = None, *,
              devices: Sequence | None = None) -> Mesh:
    """Create a mesh of devices in which neighbours are linked on the hardware.

    Args:
        axis_sizes: Sizes of the axes. Its older name, `axis_shapes`, is accepted as a keyword.
        axis_names: Names of the axes.
        axis_types: Types of the axes. Default: Explicit, so that the types of arrays have shardings over them.
        devices: Devices to use. Default: the first of the available ones.

    Returns:
        The mesh.

    Example:
        >>> xf.make_mesh((1,), ("data",)).axis_types
        (Explicit,)
    """
    sizes = tuple(axis_sizes)
    try:
        shape = tuple([int(n) for n in sizes])
    except TypeError:
        raise ValueError(f"axis_sizes of make_mesh should be a sequence of ints, the size of each axis, got {axis_sizes!r}."
                         ) from None
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
    """Set the mesh in context: at once, and as a context manager until the block ends.

    Specs without a mesh refer to it, and uncommitted arrays are transferred to its devices.

    Args:
        mesh: The mesh; None for no mesh.

    Example:
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
                             f"type Auto or Explicit; inside of a shard_map they are Manual.")
        self.saved = active.mesh, active.abstract
        self.mesh = mesh
        active.mesh, active.abstract = None if mesh is empty_mesh else mesh, None

    def __enter__(self) -> Mesh | None:
        return self.mesh

    def __exit__(self, *exception) -> None:
        active.mesh, active.abstract = self.saved


class use_abstract_mesh:
    """Set the abstract mesh in context, to which specs without a mesh refer: a context manager or a decorator.

    Args:
        mesh: The mesh; its devices need not be known.

    Example:
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
                             f"{before.size} device(s), {self.mesh} has {self.mesh.size}. Use a mesh over as many.")
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
    """Return the mesh that `set_mesh` put in context; an empty one if there is none.

    Returns:
        The mesh.

    Example:
        >>> get_mesh().empty
        True
    """
    if tracing.is_tracing():
        raise ValueError("get_mesh cannot be called inside of a function that is being traced, which may run on any devices. "
                         "Use get_abstract_mesh there.")
    return active.mesh or empty_mesh


def get_abstract_mesh() -> AbstractMesh:
    """Return the mesh in context without its devices; an empty one if there is none.

    Returns:
        The abstract mesh.

    Example:
        >>> get_abstract_mesh().empty
        True
    """
    return active.abstract_mesh()


def make_single_device_sharding(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """Create the sharding of an array on a single device.

    Args:
        device: Device of the array.
        memory_kind: Memory of the device. Default: its default memory.

    Returns:
        The sharding.

    Example:
        >>> xf.sharding.make_single_device_sharding(xf.devices()[0]).num_devices
        1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)
