"""How arrays get from one placement to another, and copies of buffers.

What has to go where is a plan, worked out once for each pair of shardings and shape: buffers that can stay, buffers that go to
another device as they are, and pieces that are cut out of buffers and put together on the device that wants them. What carries
plans out is `staging.moves`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.runtime.jax_names import buffers_of
from xlafront.runtime.jaxlib_compat import ArrayCopySemantics, ArrayImpl, _jax

skip_checks = {"_skip_checks": True}
Box = tuple[tuple[int, int], ...]  # the part of an array: first and last+1 along each dimension


def shares_memory(platform: str) -> bool:
    """Whether the host reads buffers of these devices where they are, so that it cuts and joins them best."""
    return platform == "cpu"


class Piece(NamedTuple):
    """A part of one buffer of the source, and where it goes in a buffer of the target."""

    source: int
    start: tuple[int, ...]
    shape: tuple[int, ...]
    at: tuple[int, ...]
    cut: tuple[slice, ...]  # the two of them as indices
    paste: tuple[slice, ...]


def _piece(source: int, start, shape, at) -> Piece:
    start, shape, at = tuple(start), tuple(shape), tuple(at)
    return Piece(source, start, shape, at, *[tuple([slice(a, a + n) for a, n in zip(place, shape)]) for place in (start, at)])


class Plan(NamedTuple):
    """How the buffers of a target come from those of a source."""

    positional: bool  # buffer by buffer, in order
    whole: bool  # each buffer of the target is one of the source
    pieces: tuple[tuple[Piece, ...], ...]  # for each buffer of the target
    same: tuple[int, ...]  # the first buffer of the target that is equal to it
    devices: tuple
    shape: tuple[int, ...]  # of each buffer


@functools.lru_cache(maxsize=4096)
def places(sharding, shape: tuple[int, ...]) -> tuple[list[tuple], list]:
    """The parts of an array that devices of this process hold, and these devices."""
    indices = sharding.addressable_devices_indices_map(shape)
    return list(indices.values()), list(indices)


def _boxes(sharding, shape: tuple[int, ...]) -> dict[Any, Box]:
    return {d: tuple([(s.start or 0, n if s.stop is None else s.stop) for s, n in zip(index, shape)])
            for index, d in zip(*places(sharding, shape))}


@functools.lru_cache(maxsize=4096)
def plan(source, target, shape: tuple[int, ...]) -> Plan:
    """Work out a move; the buffers of an array lie in the order of its sharding's devices."""
    held, wanted = _boxes(source, shape), _boxes(target, shape)
    devices, boxes = list(held), list(held.values())
    holders: dict[Box, list[int]] = {}
    for i, box in enumerate(boxes):
        holders.setdefault(box, []).append(i)
    pieces: list[tuple[Piece, ...]] = []
    same: list[int] = []
    first: dict[Box, int] = {}
    for i, (device, box) in enumerate(wanted.items()):
        same.append(first.setdefault(box, i))
        if box in holders:
            choice = _nearest(holders[box], devices, device)
            pieces.append((_piece(choice, (0,) * len(box), [b - a for a, b in box], (0,) * len(box)),))
        else:
            pieces.append(_cover(box, holders, devices, device))
    return Plan(len(boxes) == len(wanted) and boxes == list(wanted.values()), all([box in holders for box in wanted.values()]),
                tuple(pieces), tuple(same), tuple(wanted), tuple(target.shard_shape(shape)))


def _nearest(candidates: Sequence[int], devices: Sequence[Any], device) -> int:
    """The holder that is the device itself, else any: a different one for each device, so that links share the work."""
    for i in candidates:
        if devices[i] == device:
            return i
    return candidates[device.id % len(candidates)]


def _cover(box: Box, holders: dict[Box, list[int]], devices, device) -> tuple[Piece, ...]:
    """The pieces of the source that make up a box; the parts of a sharding do not overlap."""
    found = []
    for held, candidates in holders.items():
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, held)]
        if all([a < b for a, b in common]):
            found.append(_piece(_nearest(candidates, devices, device), [a - c for (a, _), (c, _) in zip(common, held)],
                                [b - a for a, b in common], [a - c for (a, _), (c, _) in zip(common, box)]))
    return tuple(found)


def copy_buffers(arrays: Sequence[ArrayImpl], shardings: Sequence[Any], always: bool = False) -> list[ArrayImpl]:
    """Copies of arrays over as many devices, in the same order; `always` also of what lies there already."""
    for x in arrays:  # the runtime would read memory that is not there
        x._check_if_deleted()
    semantics = ArrayCopySemantics.ALWAYS_COPY if always else ArrayCopySemantics.REUSE_INPUT
    return _jax.batched_copy_array_to_devices_with_sharding(
        list(arrays), [s._internal_device_list for s in shardings], list(shardings), [semantics] * len(arrays))


def aligned_empty(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Memory that a CPU device can take as it is: XLA reads whole cache lines."""
    if dtype.hasobject:  # strings, which the device copies
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(shape)


def apart(array: ArrayImpl, other: ArrayImpl) -> ArrayImpl:
    """The array without buffers of the other one: what they share is copied."""
    theirs = {part.unsafe_buffer_pointer() for part in buffers_of(other)}
    parts = list(buffers_of(array))
    for i, part in enumerate(parts):
        if part.unsafe_buffer_pointer() in theirs:
            [parts[i]] = copy_buffers([part], [part._sharding], always=True)
    return ArrayImpl(array._aval, array._sharding, parts, committed=array._committed, **skip_checks)


def copied(array: ArrayImpl, aval) -> ArrayImpl:
    """The array in memory of its own."""
    [fresh] = copy_buffers([array], [array._sharding], always=True)
    return ArrayImpl(aval, array._sharding, buffers_of(fresh), committed=array._committed, **skip_checks)

