"""Ids of devices in kernels that communicate, and what interpreted kernels of all devices exchange.

Kernels name a device by its coordinates in the mesh of the surrounding `shard_map`, or by its logical id, the position in the
mesh in row-major order. The operations of kernels take logical ids.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import axis_index_p, to_dtype
from xlafront.lax.collective_exchanges import all_gather_p
from xlafront.lax.elementwise import add, div, mul, rem_
from xlafront.lax.named_axes import axis_index
from xlafront.pallas.specs import DeviceIdType

Axes = tuple[tuple[Hashable, int], ...]  # names and sizes of the axes of a mesh
_int32 = np.dtype(np.int32)
NO_DEVICE = np.int32(-2**31)  # in place of a logical id: nothing is sent


def mesh_axes(caller: str) -> Axes:
    """Return the axes of the mesh of the surrounding `shard_map`."""
    manual = [a for a in tracing.thread.axes if type(a) is tracing.MeshAxis]
    if not manual:
        raise ValueError(f"{caller} got a device_id, but the kernel is not inside of shard_map, so that there is one device. "
                         f"Call the kernel in xf.shard_map(f, mesh=mesh, ...), or leave device_id out.")
    mesh = manual[-1].mesh
    names = [name for name, _ in manual]
    automatic = [name for name in mesh.axis_names if name not in names]
    if automatic:
        raise ValueError(f"{caller}: the axes {automatic} of the mesh are left to the compiler, so that devices cannot be "
                         f"named by their coordinates. Make all axes manual: leave axis_names of shard_map out.")
    return tuple([(name, mesh.shape[name]) for name in mesh.axis_names])


def logical_id(caller: str, device_id: Any, device_id_type: DeviceIdType | None, axes: Axes) -> Any:
    """Return the logical id of a device: an int32 scalar.

    Args:
        caller: Name of the function, for messages.
        device_id: Coordinates: a tuple with one for each axis of the mesh, or a dict by the names of axes, without those along
            which the device has the coordinate of the caller's. Or a scalar, the logical id.
        device_id_type: Form of `device_id`. None: coordinates if it is a tuple or a dict.
        axes: Axes of the mesh.
    """
    is_scalar = not isinstance(device_id, (Mapping, tuple, list))
    if device_id_type not in (None, DeviceIdType.MESH, DeviceIdType.LOGICAL):
        raise TypeError(f"{caller}: device_id_type takes pl.DeviceIdType.MESH or LOGICAL, got {errors.short(device_id_type)}.")
    if is_scalar and device_id_type is DeviceIdType.MESH and len(axes) != 1:
        raise ValueError(f"{caller}: device_id={errors.short(device_id)} is one coordinate, the mesh has the axes "
                         f"{[name for name, _ in axes]}. Give a dict, device_id={{{axes[-1][0]!r}: i}}, or "
                         f"device_id_type=pl.DeviceIdType.LOGICAL.")
    if is_scalar:
        return _coordinate(caller, device_id)
    if device_id_type is DeviceIdType.LOGICAL:
        raise TypeError(f"{caller}: a logical device_id is one integer, got {errors.short(device_id)}. Give one, or "
                        f"device_id_type=pl.DeviceIdType.MESH.")
    found: Any = None
    for coordinate, (_, size) in zip(_coordinates(caller, device_id, axes), axes):
        found = coordinate if found is None else add(mul(found, np.int32(size)), coordinate)
    return found


def _coordinates(caller: str, device_id: Any, axes: Axes) -> list[Any]:
    names = [name for name, _ in axes]
    if not isinstance(device_id, Mapping):
        if len(device_id) != len(names):
            raise ValueError(f"{caller}: device_id={errors.short(device_id)} has {len(device_id)} coordinates, the mesh has "
                             f"the {len(names)} axes {names}. Give one for each, or a dict by the names of axes.")
        return [_coordinate(caller, x) for x in device_id]
    by_axis: dict[Hashable, Any] = {}
    for key, x in device_id.items():
        if key not in names and not (isinstance(key, tuple) and all([name in names for name in key])):
            raise ValueError(f"{caller}: device_id has a coordinate along {key!r}, the axes of the mesh are {names}.")
        index = _coordinate(caller, x)
        if not isinstance(key, tuple):
            by_axis[key] = index
            continue
        for name in reversed(key):  # one index for several axes, the last of them varies fastest
            size = dict(axes)[name]
            by_axis[name], index = rem_(index, np.int32(size)), div(index, np.int32(size))
    return [by_axis[name] if name in by_axis else axis_index(name) for name in names]


def _coordinate(caller: str, x: Any) -> Any:
    if not tracing.is_arraylike(x) or tracing.aval_of(x).shape or not dtypes.is_integer(tracing.aval_of(x).dtype):
        raise TypeError(f"{caller}: the coordinates of device_id are integer scalars, got {errors.short(x)}.")
    return to_dtype(x, _int32) if isinstance(x, tracing.Tracer) else np.int32(x)


# Interpretation: all devices run the same operation at the same time


def own_id(axes: Axes) -> Any:
    """Return the logical id of the device."""
    found: Any = np.int32(0)
    for name, size in axes:
        found = add(mul(found, np.int32(size)), axis_index_p.bind(axis_name=name))
    return found


def gather_from_devices(values: Sequence[Any], axes: Axes) -> list[list[Any]]:
    """Return the values of each device, by logical ids."""
    names, size = tuple([name for name, _ in axes]), math.prod([n for _, n in axes])
    stacked = [all_gather_p.bind(x, axis_name=names, all_gather_dimension=0, axis_size=size, axis_index_groups=None,
                                 tiled=False) for x in values]
    return [[x[d] for x in stacked] for d in range(size)]
