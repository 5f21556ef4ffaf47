"""Grids of devices whose neighbours are linked on the hardware.

The chips of a TPU slice form a torus of three axes. The axes of a mesh are mapped to those of the torus, the last one first, as
programs communicate most over it. Small slices have special orders, which are rings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.runtime import backends

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> np.ndarray:
    """Arrange devices in an array for `Mesh`, whose axes follow the links of the hardware.

    Devices other than TPUs stay in their order.

    Args:
        mesh_shape: Sizes of the axes; later axes get the better links.
        devices: Devices to arrange, all of which are used. Default: all available ones.
        contiguous_submeshes: If True, each row of the grid, or each block of rows of one host, is a contiguous part of the
            torus; only for some shapes.
        allow_split_physical_axes: If True, axes of the grid may share an axis of the hardware.

    Returns:
        NumPy array of devices, of shape `mesh_shape`.

    Example:
        >>> create_device_mesh((1, 1), xf.devices()[:1]).shape
        (1, 1)
    """
    shape = tuple(int(n) for n in mesh_shape)
    found = list(backends.devices() if devices is None else devices)
    if math.prod(shape) != len(found):
        raise ValueError(f"a grid of shape {shape} has {math.prod(shape)} places for {len(found)} devices. Give as "
                         f"many devices, devices=devices()[:{math.prod(shape)}], or another shape: the number of "
                         f"devices must equal the product of mesh_shape.")
    if not found or getattr(found[0], "platform", None) != "tpu":
        return _grid(found, shape)
    rings = _rings(found, shape)
    if rings is not None:
        return _grid(rings, shape)
    torus = _torus(found)
    if contiguous_submeshes:
        return _in_blocks(torus, shape)
    return _along_torus(torus, shape, allow_split_physical_axes)


def arranged(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Arrange devices as `create_device_mesh` does, splitting axes of the hardware if needed.

    The devices of an incomplete torus stay in their order.
    """
    for split in (False, True):
        try:
            return create_device_mesh(shape, devices, allow_split_physical_axes=split)
        except NotImplementedError:
            pass
        except ValueError:
            break
    return _grid(devices, shape)


def _grid(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    grid = np.empty(len(devices), dtype=object)
    grid[:] = devices
    return grid.reshape(shape)


_TRAY = (0, 1, 2, 3, 6, 7, 4, 5)  # the cores of 2x2 chips, as a ring
# Rings through rows of chips: by their number, the size of the part of the torus if it matters, and the order.
_CHIP_RINGS = {
    4: ((2, 2), (0, 1, 3, 2)),
    8: (None, (0, 1, 2, 3, 7, 6, 5, 4)),
    16: ((4, 4), (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4)),
}


def _rings(devices: Sequence[Any], shape: tuple[int, ...]) -> list | None:
    """Return the devices of a small slice in the order of a ring; None for slices arranged by the axes of the torus."""
    kind, count = devices[0].device_kind, len(devices)
    if kind in ("TPU v2", "TPU v3"):
        return _around_trays(devices) if count == 8 or shape[-1:] == (8,) else list(devices)
    if kind.startswith("TPU7") and count in (8, 16) and _cores(devices) == 2:
        return _around_trays(devices)
    if kind in ("TPU v5 lite", "TPU v6 lite") and count in _CHIP_RINGS and not any(d.coords[2] for d in devices):
        size, order = _CHIP_RINGS[count]
        found = sorted(devices, key=lambda d: d.coords[::-1])
        width, height = (1 + max(d.coords[i] for d in found) - found[0].coords[i] for i in (0, 1))
        if size in (None, (width, height)) and (count < 16 or count in shape):
            return [found[i] for i in order]
    return None


def _around_trays(devices: Sequence[Any]) -> list:
    return [devices[first + i] for first in range(0, len(devices), 8) for i in _TRAY]


def _cores(devices: Sequence[Any]) -> int:
    return 1 + max(d.core_on_chip for d in devices)


def _torus(devices: Sequence[Any]) -> np.ndarray:
    """Return the devices by coordinates; if the cores of a chip are separate devices, along a fourth axis."""
    cores, kind = _cores(devices), devices[0].device_kind
    if cores > 1 and not kind.startswith("TPU7"):
        raise ValueError(f"chips of the kind {kind} are arranged as one device each (in megacore mode), but "
                         f"{devices[0]} is one of {cores} cores.")
    positions = [(*d.coords, d.core_on_chip)[:4 if cores > 1 else 3] for d in devices]
    first = [min(axis) for axis in zip(*positions)]
    size = [1 + max(axis) - low for axis, low in zip(zip(*positions), first)]
    if len(set(positions)) != len(positions) or len(positions) != math.prod(size):
        raise ValueError(f"the devices do not fill their part of the hardware, of {_times(size)} chips. "
                         f"Include those between them, or make a Mesh of them in an order of your own.")
    torus = np.empty(size, dtype=object)
    for position, device in zip(positions, devices):
        torus[tuple(i - low for i, low in zip(position, first))] = device
    return torus


def _times(size: Sequence[int]) -> str:
    return "x".join(map(str, size))


# Grids of which rows, or blocks of rows, are connected: by the size of the torus, which of its axes are rows and columns.
_BLOCKS = {
    (2, 2, 1): [((2, 1), (0,))],
    (2, 2, 4): [((2,), (0, 1))],
    (4, 4, 4): [((2, 1), (0,))],
    (4, 8, 8): [((2, 1), (0,)), ((0,), (2, 1))],
    (8, 8, 8): [((2, 1), (0,))],
    (8, 16, 16): [((2, 1), (0,)), ((0,), (2, 1))],
}


def _in_blocks(torus: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    known = {tuple(math.prod(torus.shape[i] for i in axes) for axes in both): (*both[0], *both[1])
             for both in _BLOCKS.get(torus.shape, ())}
    axes = known.get(tuple(n for n in shape if n != 1))
    if axes is None:
        raise ValueError(f"there are no contiguous submeshes for a grid of shape {shape} over a torus of {_times(torus.shape)} "
                         f"chips, only for {list(known)}. Leave contiguous_submeshes out.")
    return torus.transpose(axes).reshape(shape)


def _along_torus(torus: np.ndarray, shape: tuple[int, ...], split: bool) -> np.ndarray:
    """Return the grid whose axes are products of axes of the torus, or with `split` of factors of them.

    The later an axis, the smaller its strides on the torus.
    """
    remaining = list(torus.shape)
    factors: list[tuple[int, ...]] = []
    for axis in reversed(range(len(shape))):
        chosen = (_split_axes if split else _full_axes)(shape[axis], remaining, torus.shape)
        if chosen is None:
            raise NotImplementedError(
                f"a grid of shape {shape} cannot be mapped to a torus of {_times(torus.shape)} chips: there are no axes of "
                f"product {shape[axis]} for its axis {axis} in {_times(remaining)}, which remains for it. "
                f"{'Use another shape.' if split else 'Pass allow_split_physical_axes=True to share axes.'}")
        factors.insert(0, chosen)
        remaining = [n // k for n, k in zip(remaining, chosen)]
    rank, count = torus.ndim, len(shape)
    pieces = torus.reshape([chosen[i] for i in range(rank) for chosen in factors])
    return pieces.transpose([i * count + axis for axis in range(count) for i in range(rank)]).reshape(shape)


def _full_axes(size: int, remaining: Sequence[int], full: Sequence[int]) -> tuple[int, ...] | None:
    """Return a factor for each axis of the torus: the axis or 1, with as many axes as possible, whose product is `size`."""
    for count in reversed(range(1, len(remaining) + 1)):
        for axes in itertools.combinations(range(len(remaining)), count):
            if all([remaining[i] == full[i] for i in axes]) and math.prod(remaining[i] for i in axes) == size:
                return tuple(n if i in axes else 1 for i, n in enumerate(remaining))
    return (1,) * len(remaining) if size == 1 else None


def _split_axes(size: int, remaining: Sequence[int], full: Sequence[int]) -> tuple[int, ...] | None:
    """Return a factor of each axis of the torus, whose product is `size`: with many and long full axes, which are rings."""
    def worth(factors):
        rings = [k for k, n in zip(factors, full) if k == n > 1]
        return len(rings), sum(rings), factors

    divisors = [[k for k in range(1, n + 1) if n % k == 0] for n in remaining]
    return max((f for f in itertools.product(*divisors) if math.prod(f) == size), key=worth, default=None)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
                              process_is_granule: bool = False, should_sort_granules_by_key: bool = True,
                              allow_split_physical_axes: bool = False) -> np.ndarray:
    """Arrange the devices of several slices, which a slower network connects, in an array for `Mesh`.

    Axis `i` has `mesh_shape[i] * dcn_mesh_shape[i]` devices; those of one slice are neighbours.

    Args:
        mesh_shape: Sizes of the axes within a slice.
        dcn_mesh_shape: Number of slices along each axis.
        devices: Devices to arrange. Default: all available ones.
        process_is_granule: If True, the devices of a process form a slice; otherwise those with the same `slice_index`.
        should_sort_granules_by_key: If True, slices are sorted by index; otherwise they stay in the order of `devices`.
        allow_split_physical_axes: As for `create_device_mesh`.

    Returns:
        NumPy array of devices.

    Example:
        >>> create_hybrid_device_mesh((1, 1), (1, 1), xf.devices()[:1], process_is_granule=True).shape
        (1, 1)
    """
    inner, outer = tuple(int(n) for n in mesh_shape), tuple(int(n) for n in dcn_mesh_shape)
    found = list(backends.devices() if devices is None else devices)
    kind = "process_index" if process_is_granule else "slice_index"
    if not all(hasattr(d, kind) for d in found):
        raise ValueError(f"the device {found[0]} has no slice_index: it is in no slice. Pass process_is_granule=True to use "
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
    grid = np.empty(tuple(n * k for n, k in zip(inner, outer)), dtype=object)
    for granule, at in zip(order, np.ndindex(*outer)):
        grid[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, inner))] = create_device_mesh(
            inner, granules[granule], allow_split_physical_axes=allow_split_physical_axes)
    return grid
