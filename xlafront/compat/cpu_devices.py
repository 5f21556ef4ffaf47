"""Meshes, lists of devices and shardings by the numbers of CPU devices: how functions that are sent to the hosts of devices
name what they close over. xlafront's colocated functions stay in their process; Orbax puts functions of its own in place of
these, for a runtime in which hosts number their devices otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from xlafront.core import backends
from xlafront.extend import backend
from xlafront.runtime.jaxlib_compat import DeviceList, SingleDeviceSharding
from xlafront.runtime.sharding import Mesh

xb = SimpleNamespace(backends=backend.backends, local_devices=backends.local_devices)


def _get_cpu_device_map() -> dict[int, Any]:
    return {device.id: device for device in backends.devices("cpu")}


def _devices(numbers: Sequence[int]) -> tuple:
    known = _get_cpu_device_map()
    missing = [number for number in numbers if number not in known]
    if missing:
        raise ValueError(f"there are no CPU devices of the numbers {missing} here, only {sorted(known)}.")
    return tuple([known[number] for number in numbers])


def _numbers(devices: Sequence[Any]) -> tuple[int, ...]:
    others = [device for device in devices if device.platform != "cpu"]
    if others:
        raise ValueError(f"only CPU devices have the same numbers on the hosts of devices, got {others}. "
                         f"colocated_cpu_devices gives those of their hosts.")
    return tuple([device.id for device in devices])


def _mesh(numbers: tuple[int, ...], shape: tuple[int, ...], axis_names: tuple, axis_types: tuple) -> Mesh:
    devices = np.empty(len(numbers), object)
    devices[:] = _devices(numbers)
    return Mesh(devices.reshape(shape), axis_names, axis_types)


def _list(numbers: tuple[int, ...]) -> DeviceList:
    return DeviceList(_devices(numbers))


def _single_device_sharding(numbers: tuple[int, ...], memory_kind: str | None) -> SingleDeviceSharding:
    return SingleDeviceSharding(_devices(numbers)[0], memory_kind=memory_kind)


def _reduce_mesh(mesh: Mesh) -> tuple[Callable, tuple]:
    return _mesh, (_numbers(list(mesh.devices.flat)), mesh.devices.shape, mesh.axis_names, mesh.axis_types)


def _reduce_device_list(device_list: DeviceList) -> tuple[Callable, tuple]:
    return _list, (_numbers(list(device_list)),)


def _reduce_single_device_sharding(sharding: SingleDeviceSharding) -> tuple[Callable, tuple]:
    return _single_device_sharding, (_numbers(list(sharding.device_set)), sharding.memory_kind)
