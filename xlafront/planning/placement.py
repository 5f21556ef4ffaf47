"""Placement of a planned program: its topology, its mesh, its arguments as types over the mesh, its lowering there."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding
from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.planning import topologies
from xlafront.runtime import keys
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging.jit import jit
from xlafront.staging.meshes import set_mesh


def _shardings_of(*trees) -> list[NamedSharding]:
    found = (sharding_of(x) for x in tree.leaves(trees))
    return [s for s in found if isinstance(s, NamedSharding)]


def topology_of(topology, platform, mesh, args, kwargs) -> topologies.TopologyDescription:
    if isinstance(topology, topologies.TopologyDescription):
        return topology
    if topology is not None:
        return topologies.get_topology_desc(topology, platform)
    meshes = [mesh] if mesh is not None else [s.mesh for s in _shardings_of(args, kwargs)]
    for candidate in meshes:
        if isinstance(candidate, Mesh):
            return topologies.TopologyDescription(list(candidate.devices.flat))
    return topologies.get_attached_topology(platform)


def mesh_of(mesh, devices: list, args, kwargs) -> Mesh:
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
    """Return the sizes of a mesh over `count` devices, with a size of -1 replaced."""
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


def on_mesh(fun: Callable, mesh: Mesh, args: tuple, kwargs: dict[str, Any], replicate: bool = False
           ) -> tuple[tuple, dict[str, Any]]:
    """Return the arguments as types over the mesh; an error names an argument that cannot be sharded.

    Arguments without sharding are left to the function (`pmap`, `shard_map` and `in_shardings` decide), or replicated if
    `replicate`.
    """
    names = parameters_of(fun)

    def place(path, x):
        try:
            return _type_on_mesh(mesh, x, replicate)
        except ValueError as e:
            raise ValueError(f"argument {argument_path(path, names)} of {getattr(fun, '__name__', 'the function')}: {e}"
                             ) from None

    return tree.map_with_path(place, (args, kwargs), is_leaf=lambda x: x is None)


def parameters_of(function: Callable) -> list[str]:
    """Return the names of the parameters of a function; none if they are not known."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def argument_path(path: tuple, names: list[str]) -> str:
    """Return the path of a leaf of `(args, kwargs)` as a user writes it, such as `params['w']`."""
    in_kwargs, first, *rest = path
    name = first.key if in_kwargs.idx else names[first.idx] if first.idx < len(names) else f"args[{first.idx}]"
    return name + tree.keystr(tuple(rest))


def sharding_of(x: Any) -> Any:
    """Return the sharding of an array or a `ShapeDtypeStruct`, whose spec may refer to no mesh yet; None without one."""
    return x._sharding if isinstance(x, ShapeDtypeStruct) else getattr(x, "sharding", None)


def _type_on_mesh(mesh: Mesh, x: Any, replicate: bool) -> Any:
    """Return an argument as a type with a sharding over the mesh; Python values are returned unchanged."""
    if not isinstance(x, (ShapeDtypeStruct, ArrayImpl, keys.KeyArray, np.ndarray, np.generic)):
        return x
    given, sharding = sharding_of(x), None
    if isinstance(given, NamedSharding):
        sharding = NamedSharding(mesh, given.spec, memory_kind=given.memory_kind)
    elif isinstance(given, PartitionSpec) or replicate:
        sharding = NamedSharding(mesh, given if isinstance(given, PartitionSpec) else PartitionSpec())
    if sharding is not None:
        sharding.shard_shape(keys.physical(ShapedArray(np.shape(x), x.dtype)).shape)  # raises if a dimension cannot be sharded
    return ShapeDtypeStruct(np.shape(x), x.dtype, sharding=sharding, weak_type=getattr(x, "weak_type", False))


def trace_on(mesh: Mesh, fun: Callable, args: tuple, kwargs: dict[str, Any]):
    """Trace a function over the devices of a mesh, jitted if it is not, and return what `jit(fun).trace` does."""
    with set_mesh(mesh), config.default_device(mesh.devices.flat[0]):
        return (fun if hasattr(fun, "lower") else jit(fun)).trace(*args, **kwargs)


def lower_on(mesh: Mesh, fun: Callable, args: tuple, kwargs: dict[str, Any]):
    """Lower a function over the devices of a mesh; return it, and the seconds of tracing and lowering by name."""
    started = time.perf_counter()
    traced = trace_on(mesh, fun, args, kwargs)
    traced_at = time.perf_counter()
    with set_mesh(mesh), config.default_device(mesh.devices.flat[0]):
        lowered = traced.lower()
    return lowered, {"trace": traced_at - started, "lower": time.perf_counter() - traced_at}
