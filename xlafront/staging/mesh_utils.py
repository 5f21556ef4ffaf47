"""Arranging devices in a grid, so that neighbours in it are linked on the hardware.

The chips of a TPU slice are a torus of three axes. The axes of a mesh are laid along those of the torus, the last one first:
it is the one over which programs communicate most. Slices of few chips have orders of their own, which are rings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import backends

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> np.ndarray:
    """An array of devices for `Mesh`, all of those given, whose axes lie along the links of the hardware.

    Devices that are no TPUs stay in their order.

    - `mesh_shape`: the sizes of the axes; later ones get the better links.
    - `devices`: the devices; all that there are when left out.
    - `contiguous_submeshes`: each row of the grid, or each block of rows of one host, is a part of the torus without gaps; for
      the few shapes of which that is known.
    - `allow_split_physical_axes`: axes of the grid may share one of the hardware.

    >>> create_device_mesh((1, 1), xf.devices()[:1]).shape
    (1, 1)
    """
    shape = tuple(int(n) for n in mesh_shape)
    found = list(backends.devices() if devices is None else devices)
    if math.prod(shape) != len(found):
        raise ValueError(f"a grid of shape {shape} has {math.prod(shape)} places for {len(found)} devices. Give as many "
                         f"devices as it has places, devices=devices()[:{math.prod(shape)}], or another shape: the number of "
                         f"devices must equal the product of mesh_shape.")
    if not found or getattr(found[0], "platform", None) != "tpu":
        return _grid(found, shape)
    rings = _rings(found, shape)
    if rings is not None:
        return _grid(rings, shape)
    torus = _torus(found)
    if contiguous_submeshes:
        return _in_blocks(torus, shape)
    return _laid_along(torus, shape, allow_split_physical_axes)


def arranged(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """As `create_device_mesh` where it can be done without splitting axes of the hardware, else with it; what is no whole
    torus stays in its order."""
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


_TRAY = (0, 1, 2, 3, 6, 7, 4, 5)  # the cores of 2x2 chips, around
# Rings through rows of chips: by their number, the size of the part of the torus if it matters, and the order.
_OF_CHIPS = {
    4: ((2, 2), (0, 1, 3, 2)),
    8: (None, (0, 1, 2, 3, 7, 6, 5, 4)),
    16: ((4, 4), (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4)),
}


def _rings(devices: Sequence[Any], shape: tuple[int, ...]) -> list | None:
    """The order of devices in small slices, where it is known; None where the axes of the torus say it."""
    kind, count = devices[0].device_kind, len(devices)
    if kind in ("TPU v2", "TPU v3"):
        return _around_trays(devices) if count == 8 or shape[-1:] == (8,) else list(devices)
    if kind.startswith("TPU7") and count in (8, 16) and _cores(devices) == 2:
        return _around_trays(devices)
    if kind in ("TPU v5 lite", "TPU v6 lite") and count in _OF_CHIPS and not any(d.coords[2] for d in devices):
        size, order = _OF_CHIPS[count]
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
    """The devices at their coordinates; the cores of a chip, where they are devices of their own, along a fourth axis."""
    cores, kind = _cores(devices), devices[0].device_kind
    if cores > 1 and not kind.startswith("TPU7"):
        raise ValueError(f"chips of the kind {kind} are arranged as one device each (in megacore mode), but "
                         f"{devices[0]} is one of {cores} cores.")
    places = [(*d.coords, d.core_on_chip)[:4 if cores > 1 else 3] for d in devices]
    first = [min(axis) for axis in zip(*places)]
    size = [1 + max(axis) - low for axis, low in zip(zip(*places), first)]
    if len(set(places)) != len(places) or len(places) != math.prod(size):
        raise ValueError(f"the devices do not fill the part of the hardware in which they are, of {_times(size)} chips. "
                         f"Leave out none between them, or make a Mesh of them in an order of your own.")
    torus = np.empty(size, dtype=object)
    for place, device in zip(places, devices):
        torus[tuple(i - low for i, low in zip(place, first))] = device
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


def _laid_along(torus: np.ndarray, shape: tuple[int, ...], split: bool) -> np.ndarray:
    """The grid whose axes are products of axes of the torus, or with `split` of parts of them: the later the axis, the
    smaller the steps that it takes there."""
    left = list(torus.shape)
    parts: list[tuple[int, ...]] = []
    for axis in reversed(range(len(shape))):
        chosen = (_part if split else _whole_axes)(shape[axis], left, torus.shape)
        if chosen is None:
            raise NotImplementedError(
                f"a grid of shape {shape} cannot be laid along a torus of {_times(torus.shape)} chips: there are no axes of "
                f"product {shape[axis]} for its axis {axis} in {_times(left)}, which is left for it. "
                f"{'Use another shape.' if split else 'Pass allow_split_physical_axes=True to share axes.'}")
        parts.insert(0, chosen)
        left = [n // k for n, k in zip(left, chosen)]
    rank, count = torus.ndim, len(shape)
    pieces = torus.reshape([part[i] for i in range(rank) for part in parts])
    return pieces.transpose([i * count + axis for axis in range(count) for i in range(rank)]).reshape(shape)


def _whole_axes(size: int, left: Sequence[int], whole: Sequence[int]) -> tuple[int, ...] | None:
    """Axes of a torus that have so many devices together, as many of them as possible: a factor for each axis."""
    for count in reversed(range(1, len(left) + 1)):
        for axes in itertools.combinations(range(len(left)), count):
            if all([left[i] == whole[i] for i in axes]) and math.prod(left[i] for i in axes) == size:
                return tuple(n if i in axes else 1 for i, n in enumerate(left))
    return (1,) * len(left) if size == 1 else None


def _part(size: int, left: Sequence[int], whole: Sequence[int]) -> tuple[int, ...] | None:
    """A factor of each axis, together so many devices: with as many whole axes as possible, which are rings, and long ones."""
    def worth(factors):
        rings = [k for k, n in zip(factors, whole) if k == n > 1]
        return len(rings), sum(rings), factors

    divisors = [[k for k in range(1, n + 1) if n % k == 0] for n in left]
    return max((f for f in itertools.product(*divisors) if math.prod(f) == size), key=worth, default=None)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
                              process_is_granule: bool = False, should_sort_granules_by_key: bool = True,
                              allow_split_physical_axes: bool = False) -> np.ndarray:
    """An array of devices for `Mesh` from several slices, which a slower network joins: axis `i` has
    `mesh_shape[i] * dcn_mesh_shape[i]` devices, of which those in one slice are neighbours.

    - `mesh_shape`: the sizes of the axes within a slice.
    - `dcn_mesh_shape`: over how many slices each axis goes.
    - `devices`: the devices; all that there are when left out.
    - `process_is_granule`: the devices of a process are taken as a slice; otherwise what shares a `slice_index` is one.
    - `should_sort_granules_by_key`: slices are in the order of their numbers, not in that in which they come.
    - `allow_split_physical_axes`: as for `create_device_mesh`.

    >>> create_hybrid_device_mesh((1, 1), (1, 1), xf.devices()[:1], process_is_granule=True).shape
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
    grid = np.empty(tuple(n * k for n, k in zip(inner, outer)), dtype=object)
    for granule, at in zip(order, np.ndindex(*outer)):
        grid[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, inner))] = create_device_mesh(
            inner, granules[granule], allow_split_physical_axes=allow_split_physical_axes)
    return grid
