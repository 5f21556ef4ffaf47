"""Meshes of devices that are not attached, for compilation: `jit(f, in_shardings=...).lower(types).compile()`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from xlafront.base.jaxlib_compat import HAS_TOPOLOGY_FILES, Device
from xlafront.runtime import backends, clients, topologies
from xlafront.runtime.sharding import AxisType, Mesh
from xlafront.staging import meshes
from xlafront.staging.mesh_utils import create_device_mesh, create_hybrid_device_mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """The devices of a topology, to be arranged in meshes.

    Example:
        >>> get_attached_topology().devices == xlafront.devices()
        True
    """

    def __init__(self, devices: list[Device], description: dict[str, Any] | None = None):
        self.devices = devices
        self._description = description  # how to find the devices in another process

    def serialize(self) -> bytes:
        """Return the topology as bytes, for `deserialize` in another process.

        With jaxlib 0.12 or later these are a protobuf of PJRT, which JAX reads too.

        Returns:
            The bytes.

        Example:
            >>> type(get_attached_topology().serialize()).__name__
            'bytes'
        """
        if HAS_TOPOLOGY_FILES:
            return topologies.to_protobuf(self.devices)
        description = self._description or {"platform": self.devices[0].platform, "ids": [d.id for d in self.devices]}
        return json.dumps(description).encode()

    @classmethod
    def deserialize(cls, serialized: bytes) -> TopologyDescription:
        """Return the topology that `serialize` has written.

        Args:
            serialized: The bytes. Protobufs of PJRT need jaxlib 0.12 or later.

        Returns:
            The topology.

        Example:
            >>> topology = get_attached_topology()
            >>> len(TopologyDescription.deserialize(topology.serialize()).devices) == len(topology.devices)
            True
        """
        if not serialized.startswith(b"{"):
            if HAS_TOPOLOGY_FILES:
                return cls(topologies.from_protobuf(serialized))
            raise ValueError("TopologyDescription.deserialize failed to parse these bytes: they were not written by serialize, "
                             "or with jaxlib 0.12 or later, which the installed jaxlib cannot read.")
        description = json.loads(serialized)
        if "name" in description:
            return get_topology_desc(description["name"], description["platform"], **description["options"])
        attached = {d.id: d for d in backends.devices(description["platform"])}
        missing = [i for i in description["ids"] if i not in attached]
        if missing:
            raise ValueError(f"the topology has {description['platform']} devices with the ids {missing}, which this process "
                             f"does not have.")
        return cls([attached[i] for i in description["ids"]], description)

    def __repr__(self) -> str:
        return f"TopologyDescription({len(self.devices)} x {self.devices[0].device_kind})"


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """Return the attached devices as a topology.

    Args:
        platform: Platform of the devices. Default: the default platform.

    Returns:
        The topology.

    Example:
        >>> len(get_attached_topology("cpu").devices) == xf.device_count("cpu")
        True
    """
    return TopologyDescription(backends.devices(platform))


def get_topology_desc(topology_name: str | None = "", platform: str | None = None, **kwargs: Any) -> TopologyDescription:
    """Return the devices of a TPU slice (`"v5e:16x16"`; `"2xv5e:16x16"`: two) or of GPU machines (`"h100:8"`, `"h100:4x8"`).

    The devices need not be attached: with libtpu or the CUDA plugin installed, programs can be compiled for them. With libtpu:
    `mesh = make_mesh(get_topology_desc("v5e:4x4"), (4, 4), ("data", "model"))`.

    Args:
        topology_name: Kind and number of the devices.
        platform: Platform, if the name does not imply it.
        kwargs: Options of the plugin: `num_slices`, `chips_per_host_bounds`, `wrap` for TPUs; `topology`, `target_config` for
            GPUs that are not in the table.

    Returns:
        The topology.

    Example:
        >>> get_topology_desc("v9:4x4")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: there is no topology 'v9:4x4'. ...
    """
    name = topology_name or ""
    if platform is None:
        if not name:
            raise ValueError(f"get_topology_desc needs a name or a platform. Known are {topologies.known_names()}.")
        platform = topologies.platform_of(name)
    try:
        platform = clients.canonical_platform(platform)
    except clients.PlatformError as e:
        raise NotImplementedError(f"there are no topologies of {platform} devices: {e}") from None
    if platform not in ("tpu", "cuda"):
        raise NotImplementedError(f"there are no topologies of {platform} devices: they are the attached ones. Known are "
                                  f"{topologies.known_names()}.")
    return TopologyDescription(topologies.topology_devices(name, platform, kwargs),
                               {"name": name, "platform": platform, "options": kwargs})


def make_mesh(topo: TopologyDescription, mesh_shape: Sequence[int], axis_names: tuple[str, ...], *,
              contiguous_submeshes: bool = False) -> Mesh:
    """Return a mesh over the devices of a topology whose axes follow axes of the hardware, with linked devices side by side.

    The axes have the type `Auto`: the compiler decides how values are sharded. Of several slices, which only the network joins,
    the first axes cross the boundaries.

    Args:
        topo: Topology, all of whose devices are in the mesh.
        mesh_shape, axis_names: Sizes and names of the axes; later axes get the faster links.
        contiguous_submeshes: If True, rows of the mesh are connected parts of the hardware, for shapes for which this is known.

    Returns:
        The mesh.

    Example:
        >>> make_mesh(get_attached_topology(), (1, len(xf.devices())), ("data", "model")).axis_names
        ('data', 'model')
    """
    if math.prod(mesh_shape) != len(topo.devices):
        raise ValueError(f"the mesh {tuple(mesh_shape)} is of {math.prod(mesh_shape)} devices, but the topology has "
                         f"{len(topo.devices)}: choose sizes with this product, or pass a part of the devices, "
                         f"TopologyDescription(topology.devices[:n]).")
    types = (AxisType.Auto,) * len(axis_names)
    if contiguous_submeshes:
        return Mesh(create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=True), axis_names, types)
    slices = len({getattr(d, "slice_index", None) for d in topo.devices})
    if slices > 1 and (across := across_slices(mesh_shape, slices)) is not None:
        within = [n // k for n, k in zip(mesh_shape, across)]
        grid = create_hybrid_device_mesh(within, across, topo.devices, allow_split_physical_axes=True)
        return Mesh(grid, axis_names, types)
    return meshes.make_mesh(mesh_shape, axis_names, types, devices=topo.devices)


def across_slices(shape: Sequence[int], slices: int) -> list[int] | None:
    """Return the factor of each axis that is over slices, of the first axes the most; None if the sizes do not allow it."""
    factors = []
    for size in shape:
        factors.append(math.gcd(size, slices))
        slices //= factors[-1]
    return factors if slices == 1 else None
