"""Making a mesh of the devices that there are, and the mesh in force."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlafront.core import backends
from xlafront.runtime.sharding import AxisType, Mesh, active


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Sequence[AxisType] | None = None, *,
              devices: Sequence | None = None) -> Mesh:
    """A mesh of the given shape over the devices, neighbours on the hardware next to each other in the mesh.

    >>> mesh = make_mesh((4, 2), ("data", "model"))
    """
    shape, names = tuple(int(n) for n in axis_shapes), tuple(axis_names)
    if len(shape) != len(names):
        raise ValueError(f"make_mesh needs a name for each axis, got shape {shape} and names {names}.")
    found = list(backends.devices() if devices is None else devices)
    needed = math.prod(shape)
    if needed > len(found):
        raise ValueError(
            f"a mesh of shape {shape} needs {needed} devices, there are {len(found)} ({found[0].platform}). On a CPU more "
            f"can be simulated: config.update('num_cpu_devices', {needed}) before the first computation.")
    chosen = _in_torus_order(found[:needed], shape)
    return Mesh(np.array(chosen, dtype=object).reshape(shape), names, axis_types)


def _in_torus_order(devices: list, shape: tuple[int, ...]) -> list:
    """TPU cores such that neighbours in the mesh are linked: several mesh axes lie along the rows and columns of the
    hardware, a single one winds through it. Other devices stay as they come."""
    if not all(hasattr(d, "coords") for d in devices):
        return devices
    winds = sum(n > 1 for n in shape) == 1
    height = 1 + max((*d.coords, 0)[1] for d in devices)

    def position(device):
        x, y, z = (*device.coords, 0, 0)[:3]
        if winds:
            y = y if z % 2 == 0 else height - 1 - y
            x = x if (z * height + y) % 2 == 0 else -x
        return getattr(device, "slice_index", 0) or 0, z, y, x, getattr(device, "core_on_chip", 0)

    return sorted(devices, key=position)


class set_mesh:
    """Put a mesh in force: at once, and with `with` until the block ends."""

    def __init__(self, mesh: Mesh):
        if not isinstance(mesh, Mesh):
            raise TypeError(f"set_mesh takes a Mesh, got {type(mesh).__name__}.")
        self.saved, active.mesh = active.mesh, mesh
        self.mesh = mesh

    def __enter__(self):
        return self.mesh

    def __exit__(self, *exception):
        active.mesh = self.saved
