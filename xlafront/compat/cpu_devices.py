"""Pickling of meshes, device lists and shardings by CPU device ids, for functions that are sent to other hosts.

xlafront's colocated functions stay in their process. Orbax replaces these functions by its own, for a runtime in which hosts
number their devices differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import DeviceList, SingleDeviceSharding
from xlafront.extend import backend
from xlafront.runtime import backends
from xlafront.runtime.sharding import Mesh

xb = SimpleNamespace(backends=backend.backends, local_devices=backends.local_devices)


def _get_cpu_device_map() -> dict[int, Any]:
    return {device.id: device for device in backends.devices("cpu")}


def _devices(ids: Sequence[int]) -> tuple:
    known = _get_cpu_device_map()
    missing = [number for number in ids if number not in known]
    if missing:
        raise ValueError(f"there are no CPU devices of the numbers {missing}, only {sorted(known)}.")
    return tuple([known[number] for number in ids])


def _ids(devices: Sequence[Any]) -> tuple[int, ...]:
    others = [device for device in devices if device.platform != "cpu"]
    if others:
        raise ValueError(f"only CPU devices have the same ids on all hosts, got {others}. Use colocated_cpu_devices to get "
                         f"the CPU devices of their hosts.")
    return tuple([device.id for device in devices])


def _mesh(ids: tuple[int, ...], shape: tuple[int, ...], axis_names: tuple, axis_types: tuple) -> Mesh:
    devices = np.empty(len(ids), object)
    devices[:] = _devices(ids)
    return Mesh(devices.reshape(shape), axis_names, axis_types)


def _list(ids: tuple[int, ...]) -> DeviceList:
    return DeviceList(_devices(ids))


def _single_device_sharding(ids: tuple[int, ...], memory_kind: str | None) -> SingleDeviceSharding:
    return SingleDeviceSharding(_devices(ids)[0], memory_kind=memory_kind)


def _reduce_mesh(mesh: Mesh) -> tuple[Callable, tuple]:
    return _mesh, (_ids(list(mesh.devices.flat)), mesh.devices.shape, mesh.axis_names, mesh.axis_types)


def _reduce_device_list(device_list: DeviceList) -> tuple[Callable, tuple]:
    return _list, (_ids(list(device_list)),)


def _reduce_single_device_sharding(sharding: SingleDeviceSharding) -> tuple[Callable, tuple]:
    return _single_device_sharding, (_ids(list(sharding.device_set)), sharding.memory_kind)
