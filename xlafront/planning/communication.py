"""Times of collectives: how long the links between the devices of a mesh are busy.

A group of devices of a TPU slice is along axes of the hardware. Each axis is a ring or a line of links, and the devices use
all axes at once. A group of GPUs of one host uses its links, at full rate for any pair. Slices and hosts are joined by the
network, of which each device has a share. Nothing else uses links or network meanwhile.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlafront.planning.costs import Collective
from xlafront.runtime.sharding import Mesh
from xlafront.runtime.topologies import Chip

LATENCY = 1e-6  # seconds for a link between neighbours
NETWORK_HOPS = 10  # as many such links take as long as the way to another slice or host


class Shape(enum.Enum):
    """The connections between the devices of a path."""

    LINE = enum.auto()
    RING = enum.auto()
    SWITCH = enum.auto()  # each with all others


class Path(NamedTuple):
    """The devices of a group along one axis of the hardware."""

    size: int
    rate: float  # bytes per second one way, of the part of a link that the group has
    shape: Shape

    @property
    def received(self) -> float:
        """The bytes per second that each device receives: those in a ring from two sides."""
        return self.rate * (2 if self.shape is Shape.RING else 1)

    @property
    def hops(self) -> int:
        return self.size // 2 if self.shape is Shape.RING else self.size - 1

    def exchange(self, size: float) -> float:
        """Return the time in which each device sends `size` bytes, in equal parts to all: half crosses the path's middle."""
        return size * (1 - 1 / self.size) / self.rate if self.shape is Shape.SWITCH else size * self.size / 4 / self.received


class Links(NamedTuple):
    """The connections of a group: paths within a slice or host, and the network between slices or hosts."""

    paths: tuple[Path, ...]
    domains: int  # slices or hosts
    network: float  # bytes per second one way, of a device

    def seconds(self, kind: str, size: float) -> float:
        """Return the time of a collective of `size` bytes, as `Collective.bytes` counts them."""
        outside = 1 - 1 / self.domains  # what comes from the others
        hops = sum(p.hops for p in self.paths) + NETWORK_HOPS * (self.domains - 1)
        if kind == "all-reduce":  # a reduce-scatter and an all-gather
            return 2 * self.seconds("all-gather", size)
        if kind in ("all-to-all", "ragged-all-to-all"):
            within = max([p.exchange(size) for p in self.paths], default=0.0)
            return max(within, size * outside / self.network) + LATENCY * hops
        if kind in ("collective-permute", "collective-broadcast"):
            rate = self.network if self.domains > 1 else min([p.rate for p in self.paths], default=math.inf)
            return size / rate + LATENCY
        count = math.prod(p.size for p in self.paths)
        within = size * (1 - 1 / count) / sum(p.received for p in self.paths) if count > 1 else 0.0
        return max(within, size / count * outside / self.network) + LATENCY * hops


def links(mesh: Mesh, axes: Sequence[str], chip: Chip, scope: str = "all") -> Links:
    """Return what joins the devices of a group along these axes of a mesh.

    Args:
        mesh: Mesh over all devices of the topology.
        axes: Axes of the group.
        chip: Properties of its devices.
        scope: The part of the way, as in `Collective`.

    Returns:
        The links of one group; the others have as many.
    """
    index = tuple(slice(None) if name in axes else 0 for name in mesh.axis_names)
    group = np.asarray(mesh.devices[index]).ravel()
    domains: dict[int, list] = {}
    for device in group:
        domains.setdefault(_domain(device), []).append(device)
    first = next(iter(domains.values()))
    if scope == "between slices":
        return Links((), len(domains), chip.network)
    if first[0].platform == "tpu":
        paths = _torus_paths(first, mesh, chip)
    else:
        paths = (Path(len(first), chip.link, Shape.SWITCH),)
    return Links(tuple(p for p in paths if p.size > 1), 1 if scope == "within slices" else len(domains), chip.network)


def _domain(device) -> int:
    """Return the slice of a TPU, or the host of another device."""
    return (getattr(device, "slice_index", None) or 0) if device.platform == "tpu" else device.process_index


def _torus_paths(group: Sequence, mesh: Mesh, chip: Chip) -> tuple[Path, ...]:
    """Return the paths of devices of one slice. Two devices of one chip exchange data for free, but share its links."""
    shape = np.max([d.coords for d in mesh.devices.flat], axis=0) + 1
    cores = 1 + max(d.core_on_chip for d in mesh.devices.flat)
    coordinates = np.array([d.coords for d in group])
    sharing = cores / len({d.core_on_chip for d in group})  # groups with devices of the same chips
    paths = []
    for axis, extent in enumerate(shape):
        values = np.unique(coordinates[:, axis])
        if len(values) > 1:
            stride = int(np.diff(values).min())  # as many groups use the same links, unless they close a ring
            closed = len(values) * stride == extent and _closed(shape, axis, chip)
            paths.append(Path(len(values), chip.link / stride / sharing, Shape.RING if closed else Shape.LINE))
    if math.prod(p.size for p in paths) * cores != len(group) * sharing:  # not a box: a line that passes through all others
        passed = max(1, len(mesh.devices.flat) // len(group))
        paths = [Path(len(group), chip.link / passed, Shape.LINE)]
    return tuple(paths)


def _closed(shape: np.ndarray, axis: int, chip: Chip) -> bool:
    """Return True if the links along an axis of a slice are a ring."""
    if chip.wraps_from:
        return bool(shape[axis] >= chip.wraps_from)
    return bool((shape % 4 == 0).all())


def seconds(collective: Collective, mesh: Mesh, chip: Chip) -> float:
    """Return the time of all runs of a collective. One whose groups are not along axes is counted over the whole mesh."""
    axes = mesh.axis_names if collective.axes is None else collective.axes
    return collective.times * links(mesh, axes, chip, collective.scope).seconds(collective.kind, collective.bytes)
