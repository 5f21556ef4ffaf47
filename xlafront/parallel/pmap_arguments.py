"""The devices of a `pmap`, and the flattening of its arguments and axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.api.vmap import sizes_along_axes
from xlafront.base import config
from xlafront.base.jaxlib_compat import Device
from xlafront.base.specs import IndivisibleError
from xlafront.core import tree
from xlafront.runtime import backends, distributed
from xlafront.runtime.clients import is_compile_only
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging.signatures import Selection


class Devices:
    """The devices that a `pmap` maps over, and the size of the mapped axis."""

    def __init__(self, name: str, axis_name, axis_size: int | None, devices: tuple | None, backend: str | None):
        self.name, self.axis_name, self.axis_size = name, axis_name, axis_size
        self.devices, self.backend = devices, backend

    def resolve(self) -> tuple:
        """Return the devices in order, grouped by process."""
        if self.devices is not None:
            return self.devices
        default_device = config.default_device.value
        if self.backend is None and isinstance(default_device, Device) and is_compile_only(default_device.client):
            return _all_devices(default_device.client)  # the topology that `plan` compiles for
        if distributed.state.num_processes == 1:
            return tuple(backends.local_devices(backend=self.backend))
        return _all_devices(backends.client(self.backend))

    @functools.cached_property
    def multi_process_mesh(self) -> Mesh | None:
        """The mesh, or None if all of its devices belong to this process."""
        devices = self.resolve()
        if all([d.process_index == distributed.state.process_id for d in devices]):
            return None
        if self.axis_size not in (None, len(devices)):
            raise ValueError(f"pmap of {self.name} has axis_size={self.axis_size}, but is over {len(devices)} devices of "
                             f"{distributed.state.num_processes} processes. Use all of them, or pass devices=local_devices().")
        return _mesh(devices, self.axis_name)

    def mesh(self, size: int, describe_arguments: Callable[[], str]) -> Mesh:
        devices = self.resolve()
        if not size:
            raise ValueError(
                f"pmap of {self.name} is over no elements ({describe_arguments()}): it needs at least one, for one device.")
        if size > len(devices):
            kind = devices[0].platform if devices else "no"
            availability = "devices= lists" if self.devices is not None else "there are"
            raise IndivisibleError(
                f"pmap of {self.name} is over {size} elements ({describe_arguments()}), one for each device, but "
                f"{availability} {len(devices)} ({kind}). Map over at most that many, with vmap or a loop inside for the rest"
                + (f", or simulate more: config.update('num_cpu_devices', {size}) before the first computation."
                   if kind == "cpu" and self.devices is None else "."))
        if self.devices is not None and len(set(devices)) < len(devices):
            raise ValueError(f"pmap of {self.name} has a device twice in devices= ({[d.id for d in devices]}): each runs one "
                             f"element.")
        return _mesh(devices[:size], self.axis_name)

    def size(self, leaves: Sequence[Any], axes: Sequence[int | None], names: Callable[[int], str]) -> int:
        sizes = sizes_along_axes(f"pmap of {self.name}", leaves, axes, names, "on all devices",
                                 " Each needs one slice for each device.")
        if not sizes:
            if self.axis_size is None:
                raise ValueError(f"pmap of {self.name} requires at least one mapped argument: in_axes must name an axis of "
                                 f"one, or axis_size must be given.")
            return self.axis_size
        [size] = sizes
        if self.axis_size is not None and self.axis_size != size:
            raise ValueError(f"pmap of {self.name} was specified with axis_size={self.axis_size}, which doesn't match the "
                             f"size {size}: {sizes[size]()}.")
        return size


@functools.lru_cache(8)
def _all_devices(client) -> tuple:
    return tuple(sorted(client.devices(), key=lambda d: (d.process_index, d.id)))


@functools.lru_cache(256)
def _mesh(devices: tuple, axis_name) -> Mesh:
    return Mesh(np.array(devices, dtype=object), (axis_name,))


def flat_axes(name: str, axes, full) -> list:
    return tree.leaves_by_prefix(name, axes, full, lambda x: x is None or isinstance(x, (int, np.integer)))


def split_arguments(static: Selection, in_axes, name: str, args: tuple, kwargs: dict) -> tuple[list, Any, list]:
    """Return the dynamic leaves of the arguments, their tree, and their mapped axes."""
    dynamic = tuple(x for i, x in enumerate(args) if i not in static.at(len(args)))
    dynamic_kwargs = {k: x for k, x in kwargs.items() if k not in static.names}
    leaves, in_tree = tree.flatten((dynamic, dynamic_kwargs))
    if isinstance(in_axes, tuple) and len(in_axes) == len(args) != len(dynamic):
        in_axes = tuple(a for i, a in enumerate(in_axes) if i not in static.at(len(args)))
    axes = flat_axes(f"pmap of {name}: in_axes", in_axes, dynamic) + [0] * tree.structure(dynamic_kwargs).num_leaves
    return leaves, in_tree, axes


def join_arguments(static: Selection, in_tree, leaves: Sequence[Any], args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Rebuild the arguments from other leaves."""
    dynamic_args, dynamic_kwargs = in_tree.unflatten(leaves)
    next_dynamic = iter(dynamic_args)
    positional = tuple([args[i] if i in static.at(len(args)) else next(next_dynamic) for i in range(len(args))])
    return positional, dynamic_kwargs | {k: x for k, x in kwargs.items() if k in static.names}


def spec_along(mesh: Mesh, axis: int | None) -> PartitionSpec:
    """Return the spec of arrays with one slice for each device along an axis, or of replicated ones if it is None."""
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, mesh.axis_names[0])
