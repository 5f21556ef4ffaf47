"""Meshes of devices that are not here, to compile for: `jit(f, in_shardings=...).lower(types).compile()`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlafront.core import backends
from xlafront.runtime import clients, topologies
from xlafront.runtime.jaxlib_compat import Device
from xlafront.runtime.sharding import AxisType, Mesh
from xlafront.staging import meshes
from xlafront.staging.mesh_utils import create_device_mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """The devices of a topology, to be arranged in meshes.

    >>> get_attached_topology().devices == xlafront.devices()
    True
    """

    def __init__(self, devices: list[Device]):
        self.devices = devices

    def __repr__(self) -> str:
        return f"TopologyDescription({len(self.devices)} x {self.devices[0].device_kind})"


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices that are here.

    - `platform`: of which platform; of the default one without.

    >>> len(get_attached_topology("cpu").devices) == xf.device_count("cpu")
    True
    """
    return TopologyDescription(backends.devices(platform))


def get_topology_desc(topology_name: str | None = "", platform: str | None = None, **kwargs: Any) -> TopologyDescription:
    """The devices of a TPU slice (`"v5e:16x16"`) or of GPU machines (`"h100:8"`, `"h100:4x8"`), which need not be here.

    Programs can be compiled for them, with libtpu or the CUDA plugin installed. With libtpu:
    `mesh = make_mesh(get_topology_desc("v5e:4x4"), (4, 4), ("data", "model"))`.

    - `topology_name`: the kind of the devices, and how many there are.
    - `platform`: the platform, where the name does not say it.
    - `kwargs`: what goes to the plugin: `num_slices`, `chips_per_host_bounds`, `wrap` for TPUs; `topology`, `target_config` for
      GPUs that are not in the table.

    >>> get_topology_desc("v9:4x4")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: there is no topology 'v9:4x4'. ...
    """
    name = topology_name or ""
    if platform is None:
        if not name:
            raise ValueError(f"get_topology_desc needs a name or a platform. Known are {topologies.known_names()}.")
        platform = topologies.platform_of(name)
    platform = clients.canonical_platform(platform)
    if platform not in ("tpu", "cuda"):
        raise NotImplementedError(f"there are no topologies of {platform} devices: they are the attached ones. Known are "
                                  f"{topologies.known_names()}.")
    return TopologyDescription(topologies.topology_devices(name, platform, kwargs))


def make_mesh(topo: TopologyDescription, mesh_shape: Sequence[int], axis_names: tuple[str, ...], *,
              contiguous_submeshes: bool = False) -> Mesh:
    """A mesh over a topology's devices, linked ones next to each other, along axes of the hardware or parts of them. The
    compiler decides how values are split over its axes.

    - `topo`: the topology, all of whose devices are in the mesh.
    - `mesh_shape`, `axis_names`: sizes and names of the axes; later ones get the better links.
    - `contiguous_submeshes`: rows of the mesh are connected parts of the hardware, for the shapes of which that is known.

    >>> make_mesh(get_attached_topology(), (1, len(xf.devices())), ("data", "model")).axis_names
    ('data', 'model')
    """
    if math.prod(mesh_shape) != len(topo.devices):
        raise ValueError(f"the mesh {tuple(mesh_shape)} is of {math.prod(mesh_shape)} devices, but the topology has "
                         f"{len(topo.devices)}: choose sizes whose product that is, or give some of the devices, "
                         f"TopologyDescription(topology.devices[:n]).")
    types = (AxisType.Auto,) * len(axis_names)
    if contiguous_submeshes:
        return Mesh(create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=True), axis_names, types)
    return meshes.make_mesh(mesh_shape, axis_names, types, devices=topo.devices)
