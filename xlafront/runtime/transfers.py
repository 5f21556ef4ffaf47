"""Transfers of arrays between shardings, and copies of buffers.

A `Plan`, computed once for each pair of shardings and each shape, says which buffers can be reused, which are transferred to
another device unchanged, and which pieces of buffers are sliced out and joined on the target device. `staging.array_transfers`
executes plans.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.base.jax_names import buffers_of
from xlafront.base.jaxlib_compat import ArrayCopySemantics, ArrayImpl, NamedSharding, _jax

skip_checks = {"_skip_checks": True}
Box = tuple[tuple[int, int], ...]  # a slice of an array: start and stop in each dimension


def shares_memory(platform: str) -> bool:
    """True if the host can access buffers of these devices in place, so that it slices and joins them fastest."""
    return platform == "cpu"


class Piece(NamedTuple):
    """A slice of one source buffer, and its position in a target buffer."""

    source: int
    start: tuple[int, ...]
    shape: tuple[int, ...]
    target_start: tuple[int, ...]
    source_index: tuple[slice, ...]  # the slices of the source and of the target
    target_index: tuple[slice, ...]


def _piece(source: int, start, shape, target_start) -> Piece:
    start, shape, target_start = tuple(start), tuple(shape), tuple(target_start)
    slices = [tuple([slice(a, a + n) for a, n in zip(first, shape)]) for first in (start, target_start)]
    return Piece(source, start, shape, target_start, *slices)


class Plan(NamedTuple):
    """The derivation of the buffers of a target sharding from those of a source sharding."""

    positional: bool  # each target buffer is the source buffer at the same position
    reuses_buffers: bool  # each target buffer equals a source buffer
    pieces: tuple[tuple[Piece, ...], ...]  # per target buffer
    same: tuple[int, ...]  # per target buffer: the first one that is equal
    devices: tuple
    shape: tuple[int, ...]  # of each target buffer


def check_explicit_rank(sharding, shape: tuple[int, ...]) -> None:
    """Raise an error if a spec over explicit axes, which is part of the array's type, has more entries than dimensions."""
    if isinstance(sharding, NamedSharding) and sharding.mesh.explicit:
        sharding.check_compatible_aval(shape)


@functools.lru_cache(maxsize=4096)
def shard_indices_and_devices(sharding, shape: tuple[int, ...]) -> tuple[list[tuple], list]:
    """Return the slices of an array on devices of this process, and these devices."""
    indices = sharding.addressable_devices_indices_map(shape)
    check_explicit_rank(sharding, shape)
    return list(indices.values()), list(indices)


def _boxes(sharding, shape: tuple[int, ...]) -> dict[Any, Box]:
    return {d: tuple([(s.start or 0, n if s.stop is None else s.stop) for s, n in zip(index, shape)])
            for index, d in zip(*shard_indices_and_devices(sharding, shape))}


@functools.lru_cache(maxsize=4096)
def plan(source, target, shape: tuple[int, ...]) -> Plan:
    """Compute the plan of a transfer. Buffers of an array are in the order of its sharding's devices."""
    source_boxes, target_boxes = _boxes(source, shape), _boxes(target, shape)
    devices, boxes = list(source_boxes), list(source_boxes.values())
    holders: dict[Box, list[int]] = {}
    for i, box in enumerate(boxes):
        holders.setdefault(box, []).append(i)
    pieces: list[tuple[Piece, ...]] = []
    same: list[int] = []
    first: dict[Box, int] = {}
    for i, (device, box) in enumerate(target_boxes.items()):
        same.append(first.setdefault(box, i))
        if box in holders:
            choice = _nearest(holders[box], devices, device)
            pieces.append((_piece(choice, (0,) * len(box), [b - a for a, b in box], (0,) * len(box)),))
        else:
            pieces.append(_cover(box, holders, devices, device))
    return Plan(len(boxes) == len(target_boxes) and boxes == list(target_boxes.values()),
                all([box in holders for box in target_boxes.values()]), tuple(pieces), tuple(same),
                tuple(target_boxes), tuple(target.shard_shape(shape)))


def _nearest(candidates: Sequence[int], devices: Sequence[Any], device) -> int:
    """Return the holder on the same device, or else one that varies with the device, to balance the load of links."""
    for i in candidates:
        if devices[i] == device:
            return i
    return candidates[device.id % len(candidates)]


def _cover(box: Box, holders: dict[Box, list[int]], devices, device) -> tuple[Piece, ...]:
    """Return the source pieces that make up a box. Boxes of one sharding do not overlap."""
    pieces = []
    for source_box, candidates in holders.items():
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, source_box)]
        if all([a < b for a, b in common]):
            pieces.append(_piece(_nearest(candidates, devices, device), [a - c for (a, _), (c, _) in zip(common, source_box)],
                                [b - a for a, b in common], [a - c for (a, _), (c, _) in zip(common, box)]))
    return tuple(pieces)


def copy_buffers(arrays: Sequence[ArrayImpl], shardings: Sequence[Any], always: bool = False) -> list[ArrayImpl]:
    """Copy arrays to shardings over equally many devices, in the same order. `always` copies also on the same device."""
    for x in arrays:  # the runtime would read freed memory
        x._check_if_deleted()
    semantics = ArrayCopySemantics.ALWAYS_COPY if always else ArrayCopySemantics.REUSE_INPUT
    return _jax.batched_copy_array_to_devices_with_sharding(
        list(arrays), [s._internal_device_list for s in shardings], list(shardings), [semantics] * len(arrays))


def aligned_empty(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Allocate memory that a CPU device can adopt: XLA reads whole cache lines, so it is aligned to 64 bytes."""
    if dtype.hasobject:  # strings, which the device copies
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(shape)


def unshare_buffers(array: ArrayImpl, other: ArrayImpl) -> ArrayImpl:
    """Return the array with copies of the buffers that it shares with the other one."""
    other_pointers = {buffer.unsafe_buffer_pointer() for buffer in buffers_of(other)}
    buffers = list(buffers_of(array))
    for i, buffer in enumerate(buffers):
        if buffer.unsafe_buffer_pointer() in other_pointers:
            [buffers[i]] = copy_buffers([buffer], [buffer._sharding], always=True)
    return ArrayImpl(array._aval, array._sharding, buffers, committed=array._committed, **skip_checks)


def copied(array: ArrayImpl, aval) -> ArrayImpl:
    """Return a copy of the array."""
    [fresh] = copy_buffers([array], [array._sharding], always=True)
    return ArrayImpl(aval, array._sharding, buffers_of(fresh), committed=array._committed, **skip_checks)

