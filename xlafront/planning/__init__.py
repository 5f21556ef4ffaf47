"""What a program will need on machines that are not here: memory, work, collectives, before anybody books them."""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import keys, tree
from xlafront.core.avals import ShapedArray, ShapeDtypeStruct
from xlafront.planning import topologies
from xlafront.planning.costs import Buffer, Collective
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging.meshes import set_mesh

__all__ = ["Buffer", "Collective", "Memory", "Plan", "plan"]


class Memory(NamedTuple):
    """Bytes on one device. `total` counts what is donated once; `limit` is what a program may use there."""

    arguments: int
    outputs: int
    donated: int
    temporaries: int
    code: int
    total: int
    limit: int | None


class Plan(NamedTuple):
    """What `plan` found; printed, it is a table.

    - `fits`: whether the program's memory is within the limit; None where no limit is known.
    - `memory`: bytes on each device. `buffers`: the largest values. `not_compiled`: the compiler's refusal, if it gave up.
    - `flops`, `bytes_accessed`: work of one device in one call. `collectives`: what it exchanges with others.
    - `seconds`: `compiler` (its own estimate for its kernels, where it makes one), `compute` and `memory` (the work at the
      chip's peak rates). What waiting for other devices takes is in none of them.
    - `stages`: seconds that tracing, lowering and compiling took here.
    """

    name: str
    topology: str
    mesh: Mesh
    device_kind: str
    device_count: int
    memory: Memory
    buffers: list[Buffer]
    flops: float | None
    bytes_accessed: float | None
    collectives: list[Collective]
    seconds: dict[str, float]
    stages: dict[str, float]
    notes: list[str]
    not_compiled: str | None

    @property
    def fits(self) -> bool | None:
        if self.not_compiled is not None:
            return False
        return None if self.memory.limit is None else self.memory.total <= self.memory.limit

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries."""
        return {
            "name": self.name, "topology": self.topology, "device_kind": self.device_kind, "device_count": self.device_count,
            "mesh": dict(self.mesh.shape), "fits": self.fits,
            "memory": self.memory._asdict(), "buffers": [b._asdict() for b in self.buffers],
            "flops": self.flops, "bytes_accessed": self.bytes_accessed,
            "collectives": [c._asdict() | {"axes": list(c.axes) if c.axes is not None else None} for c in self.collectives],
            "seconds": self.seconds, "stages": self.stages, "notes": self.notes, "not_compiled": self.not_compiled}

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        from xlafront.planning.report import table

        return table(self)

    __repr__ = __str__


def plan(fun: Callable, *args, topology: str | topologies.TopologyDescription | None = None, platform: str | None = None,
         mesh: Mesh | Mapping[str, int] | None = None, memory_limit: int | None = None,
         compiler_options: dict[str, Any] | None = None, **kwargs) -> Plan:
    """Compile a function for machines that need not be here, and say what it takes there: see `Plan`.

    - `args`, `kwargs`: arrays or `ShapeDtypeStruct`s; shardings may be `PartitionSpec`s. What has none is on every device.
    - `topology`: a name as in `get_topology_desc` ("v5e:16x16", "h100:8"), what that returned, or None for the devices here.
    - `mesh`: the names and sizes of its axes, {"data": -1, "model": 8}; one size may be -1. By default that of the arguments,
      or else the one axis "data". `memory_limit`: bytes of a device to stay within, instead of the chip's own.

    >>> x = ShapeDtypeStruct((512, 512), "float32", sharding=P("data"))
    >>> plan(lambda x: xnp.sum(x @ x.T), x, mesh={"data": 1}, memory_limit=2**30).fits
    True
    """
    if not callable(fun):
        raise TypeError(f"plan takes a function, got {type(fun).__name__}: {fun!r}")
    described = _topology(topology, platform, mesh, args, kwargs)
    chosen = _mesh(mesh, described.devices, args, kwargs)
    lowered, stages = _lower(fun, chosen, *_placed(fun, chosen, args, kwargs))
    if len(lowered._lowered.assignment.devices) < chosen.size:  # nothing says that it runs on all of them
        lowered, stages = _lower(fun, chosen, *_placed(fun, chosen, args, kwargs, everywhere=True))
    assignment = lowered._lowered.assignment
    if not set(assignment.devices) <= set(described.devices):
        if topology is not None:
            raise ValueError(f"{lowered._lowered.name} has shardings over other devices than those of {topology}: make them "
                             f"over the devices of get_topology_desc, or of PartitionSpecs, or leave out the topology.")
        described = topologies.TopologyDescription(list(assignment.devices))  # its own shardings say where it runs
    name = topology if isinstance(topology, str) else f"{len(described.devices)} {described.devices[0].platform} device(s)"
    final = assignment.mesh or Mesh(np.array(assignment.devices, dtype=object), chosen.axis_names[:1])
    from xlafront.planning.compiling import Planner

    return Planner(lowered, name, final, memory_limit, compiler_options, stages).plan()


def _lower(fun: Callable, mesh: Mesh, args: tuple, kwargs: dict[str, Any]):
    from xlafront.staging.jit import jit

    started = time.perf_counter()
    with set_mesh(mesh), config.default_device(mesh.devices.flat[0]):
        traced = (fun if hasattr(fun, "lower") else jit(fun)).trace(*args, **kwargs)
        middle = time.perf_counter()
        lowered = traced.lower()
    return lowered, {"trace": middle - started, "lower": time.perf_counter() - middle}


# Where the program is to run


def _shardings_of(*trees) -> list[NamedSharding]:
    found = (getattr(x, "sharding", None) for x in tree.leaves(trees))
    return [s for s in found if isinstance(s, NamedSharding)]


def _topology(topology, platform, mesh, args, kwargs) -> topologies.TopologyDescription:
    if isinstance(topology, topologies.TopologyDescription):
        return topology
    if topology is not None:
        return topologies.get_topology_desc(topology, platform)
    meshes = [mesh] if mesh is not None else [s.mesh for s in _shardings_of(args, kwargs)]
    for each in meshes:
        if isinstance(each, Mesh):
            return topologies.TopologyDescription(list(each.devices.flat))
    return topologies.get_attached_topology(platform)


def _mesh(mesh, devices: list, args, kwargs) -> Mesh:
    if mesh is not None and not isinstance(mesh, (Mesh, Mapping)) and not hasattr(mesh, "axis_names"):
        raise TypeError(f"plan takes the mesh as names and sizes of its axes, such as {{'data': -1, 'model': 8}}, or as a "
                        f"Mesh, got {mesh!r}.")
    if mesh is None:
        given = _shardings_of(args, kwargs)
        if not given:
            return topologies.make_mesh(topologies.TopologyDescription(devices), (len(devices),), ("data",))
        mesh = given[0].mesh
    if isinstance(mesh, Mesh) and set(mesh.devices.flat) <= set(devices):
        return mesh
    sizes = axis_sizes(dict(mesh if isinstance(mesh, Mapping) else mesh.shape), len(devices))
    return topologies.make_mesh(topologies.TopologyDescription(devices), tuple(sizes.values()), tuple(sizes))


def axis_sizes(sizes: dict[str, int], count: int) -> dict[str, int]:
    """The sizes of a mesh over `count` devices, with the one that is -1 worked out."""
    known = math.prod(n for n in sizes.values() if n != -1)
    open_axes = [name for name, n in sizes.items() if n == -1]
    text = ",".join(f"{name}={n}" for name, n in sizes.items())
    if len(open_axes) > 1 or not sizes or known < 1 or any(n < -1 or n == 0 for n in sizes.values()):
        raise ValueError(f"a mesh needs a positive size for each axis, of which one may be -1 (what is left), got {text!r}.")
    if open_axes and count % known == 0:
        return sizes | {open_axes[0]: count // known}
    if open_axes or known != count:
        raise ValueError(f"the mesh {text} does not fill the {count} devices of the topology: "
                         f"{known} {'does not divide' if open_axes else 'is not'} {count}. Give a mesh whose sizes multiply to "
                         f"{count}; one may be -1.")
    return sizes


def _placed(fun: Callable, mesh: Mesh, args: tuple, kwargs: dict[str, Any], everywhere: bool = False
            ) -> tuple[tuple, dict[str, Any]]:
    """The arguments as types over the mesh; one that cannot be is named. Those that have no sharding are left to the function
    (`pmap`, `shard_map` and `in_shardings` decide), or else are `everywhere`."""
    try:
        names = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        names = []

    def place(path, x):
        try:
            return _onto(mesh, x, everywhere)
        except ValueError as e:
            in_kwargs, first, *rest = path
            name = first.key if in_kwargs.idx else names[first.idx] if first.idx < len(names) else f"args[{first.idx}]"
            raise ValueError(f"argument {name}{tree.keystr(tuple(rest))} of {getattr(fun, '__name__', 'the function')}: {e}"
                             ) from None

    return tree.map_with_path(place, (args, kwargs), is_leaf=lambda x: x is None)


def _onto(mesh: Mesh, x: Any, everywhere: bool) -> Any:
    """An argument as a type with a sharding over the mesh. Python values stay."""
    if not isinstance(x, (ShapeDtypeStruct, ArrayImpl, keys.KeyArray, np.ndarray, np.generic)):
        return x
    given, placed = getattr(x, "sharding", None), None
    if isinstance(given, NamedSharding):
        placed = NamedSharding(mesh, given.spec, memory_kind=given.memory_kind)
    elif isinstance(given, PartitionSpec) or everywhere:
        placed = NamedSharding(mesh, given if isinstance(given, PartitionSpec) else PartitionSpec())
    if placed is not None:
        placed.shard_shape(keys.physical(ShapedArray(np.shape(x), x.dtype)).shape)  # raises where a dimension cannot be split
    return ShapeDtypeStruct(np.shape(x), x.dtype, sharding=placed, weak_type=getattr(x, "weak_type", False))
