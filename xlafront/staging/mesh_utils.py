"""Arranging devices in a grid, so that neighbours in it are linked on the hardware."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import backends
from xlafront.staging.meshes import in_torus_order

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> np.ndarray:
    """An array of devices for `Mesh`, all of those given, whose axes lie along the links of the hardware.

    `contiguous_submeshes` keeps the devices of each host together in a block of the grid. `allow_split_physical_axes` lets axes
    share one of the hardware, which is always allowed here.

    >>> create_device_mesh((1, 1), devices()[:1]).shape
    (1, 1)
    """
    shape = tuple(int(n) for n in mesh_shape)
    found = list(backends.devices() if devices is None else devices)
    if math.prod(shape) != len(found):
        raise ValueError(f"a grid of shape {shape} has {math.prod(shape)} places for {len(found)} devices. Give as many "
                         f"devices as it has places, devices=devices()[:{math.prod(shape)}], or another shape.")
    ordered = in_torus_order(found, shape)
    if contiguous_submeshes:
        return _blocks_of_hosts(ordered, shape)
    return _grid(ordered, shape)


def _grid(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    grid = np.empty(len(devices), dtype=object)
    grid[:] = devices
    return grid.reshape(shape)


def _blocks_of_hosts(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """The grid in which each host has a block: the most cubic of the blocks that divide it."""
    hosts: dict[int, list] = {}
    for d in devices:
        hosts.setdefault(d.process_index, []).append(d)
    sizes = {len(own) for own in hosts.values()}
    if len(hosts) == 1:
        return _grid(devices, shape)
    if len(sizes) == 1:
        [size] = sizes
        blocks = [block for block in itertools.product(*[[k for k in range(1, n + 1) if n % k == 0] for n in shape])
                  if math.prod(block) == size]
        if blocks:
            return _tiled([_grid(own, min(blocks, key=max)) for own in hosts.values()], min(blocks, key=max), shape)
    raise ValueError(f"a grid of shape {shape} cannot be cut into equal blocks for the {len(hosts)} hosts, which have "
                     f"{sorted(sizes)} devices each. Use another shape, or contiguous_submeshes=False.")


def _tiled(parts: Sequence[np.ndarray], block: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Blocks of one shape put together to a grid, in row-major order."""
    grid = np.empty(shape, dtype=object)
    counts = tuple(n // k for n, k in zip(shape, block))
    for part, at in zip(parts, np.ndindex(*counts)):
        grid[tuple(slice(i * k, (i + 1) * k) for i, k in zip(at, block))] = part
    return grid


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
                              process_is_granule: bool = False, should_sort_granules_by_key: bool = True,
                              allow_split_physical_axes: bool = False) -> np.ndarray:
    """An array of devices for `Mesh` from several slices, which a slower network joins: axis `i` has
    `mesh_shape[i] * dcn_mesh_shape[i]` devices, of which those in one slice are neighbours.

    A slice is what shares a `slice_index`, or with `process_is_granule` the devices of a process.

    >>> create_hybrid_device_mesh((1, 1), (1, 1), devices()[:1], process_is_granule=True).shape
    (1, 1)
    """
    inner, outer = tuple(int(n) for n in mesh_shape), tuple(int(n) for n in dcn_mesh_shape)
    found = list(backends.devices() if devices is None else devices)
    kind = "process_index" if process_is_granule else "slice_index"
    if not all(hasattr(d, kind) for d in found):
        raise ValueError(f"the device {found[0]} has no slice_index: it is in no slice. Pass process_is_granule=True to take "
                         f"each process as one.")
    granules: dict[int, list] = {}
    for d in found:
        granules.setdefault(getattr(d, kind), []).append(d)
    if len(granules) != math.prod(outer):
        raise ValueError(f"dcn_mesh_shape {outer} needs {math.prod(outer)} slices, there are {len(granules)} "
                         f"({kind} {sorted(granules)}).")
    if len(inner) != len(outer):
        raise ValueError(f"mesh_shape {inner} and dcn_mesh_shape {outer} must have one entry for each axis of the mesh, both.")
    order = sorted(granules) if should_sort_granules_by_key else list(granules)
    parts = [create_device_mesh(inner, granules[g], allow_split_physical_axes=allow_split_physical_axes) for g in order]
    return _tiled(parts, inner, tuple(n * k for n, k in zip(inner, outer)))
