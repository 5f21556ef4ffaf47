"""Moving arrays from one placement to another without their whole value passing through the host.

What has to go where is a plan, worked out once for each pair of shardings and shape: buffers that can stay, buffers that go to
another device as they are, and pieces that are cut out of buffers and put together on the device that wants them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.runtime.jax_names import buffers_of, host_copy
from xlafront.runtime.jaxlib_compat import ArrayImpl, _jax, batched_device_put
from xlafront.runtime.sharding import in_device_memory, open_sums, single_device

skip_checks = {"_skip_checks": True}
Box = tuple[tuple[int, int], ...]  # the part of an array: first and last+1 along each dimension


class _Kernels:
    """Programs that this layer needs and cannot make; given by `transforms.device_put`."""

    reshard: Callable[[Sequence[ArrayImpl], Sequence[Any]], list[ArrayImpl]]  # all parts of arrays, on the same devices
    cut: Callable[[ArrayImpl, tuple[int, ...], tuple[int, ...]], ArrayImpl]  # out of a buffer, where it is
    paste: Callable[[ArrayImpl, ArrayImpl, tuple[int, ...]], ArrayImpl]  # into a buffer, whose memory it takes


kernels = _Kernels()


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


def move(array: ArrayImpl, aval, sharding, committed: bool):
    """The array at another placement."""
    return move_all([array], [aval], [sharding], committed)[0]


def move_all(arrays: Sequence[ArrayImpl], avals: Sequence[Any], shardings: Sequence[Any], committed: bool) -> list[ArrayImpl]:
    """Arrays at other placements; those that go the same way go together."""
    results: list[Any] = [None] * len(arrays)
    copies: list[int] = []
    programs: dict[Any, list[int]] = {}
    for i, (array, aval, sharding) in enumerate(zip(arrays, avals, shardings)):
        current = array._sharding
        if current == sharding and array._committed == committed:
            results[i] = array
        elif current.is_equivalent_to(sharding, aval.ndim):
            results[i] = ArrayImpl(aval, sharding, buffers_of(array), committed=committed, **skip_checks)
        elif current.num_devices == sharding.num_devices == 1:
            copies.append(i)
        elif open_sums(current):
            array._value  # noqa: B018  raises: the sums are to be made first
        elif current.memory_kind != sharding.memory_kind and current.is_equivalent_to(
                sharding.with_memory_kind(current.memory_kind), aval.ndim):
            copies.append(i)
        elif not in_device_memory(current):  # programs and pieces are about the memory of devices
            near = move(array, aval, current.with_memory_kind("device"), committed)
            results[i] = move(near, aval, sharding, committed)
        elif not in_device_memory(sharding):
            near = move(array, aval, sharding.with_memory_kind("device"), committed)
            results[i] = move(near, aval, sharding, committed)
        elif (steps := plan(current, sharding, tuple(aval.shape))).positional:
            copies.append(i)
        elif not steps.whole and not shares_memory(array.platform()) and current._internal_device_list == (
                sharding._internal_device_list):
            programs.setdefault(current._internal_device_list, []).append(i)
        else:
            results[i] = _by_pieces(array, aval, sharding, steps)
    if copies:
        _copy(arrays, avals, shardings, copies, results, committed)
    for chosen in programs.values():
        made = kernels.reshard([arrays[i] for i in chosen], [shardings[i] for i in chosen])
        for i, x in zip(chosen, made):
            results[i] = ArrayImpl(avals[i], shardings[i], buffers_of(x), committed=committed, **skip_checks)
    return results


def _copy(arrays, avals, shardings, chosen: list[int], results: list, committed: bool) -> None:
    """Buffer by buffer to other devices or another memory, in one call of the runtime."""
    copied = copy_buffers([arrays[i] for i in chosen], [shardings[i] for i in chosen])
    for i, x in zip(chosen, copied):
        if x._committed != committed or x.aval is not avals[i]:
            x = ArrayImpl(avals[i], shardings[i], buffers_of(x), committed=committed, **skip_checks)
        results[i] = x


def copy_buffers(arrays: Sequence[ArrayImpl], shardings: Sequence[Any], always: bool = False) -> list[ArrayImpl]:
    """Copies of arrays over as many devices, in the same order; `always` also of what lies there already."""
    semantics = _jax.ArrayCopySemantics.ALWAYS_COPY if always else _jax.ArrayCopySemantics.REUSE_INPUT
    return _jax.batched_copy_array_to_devices_with_sharding(
        list(arrays), [s._internal_device_list for s in shardings], list(shardings), [semantics] * len(arrays))


def _by_pieces(array: ArrayImpl, aval, sharding, steps: Plan) -> ArrayImpl:
    parts = buffers_of(array)
    if steps.whole and (not shares_memory(array.platform()) or all(
            [next(iter(parts[p.source]._sharding.device_set)) == d for (p,), d in zip(steps.pieces, steps.devices)])):
        chosen = [parts[piece.source] for (piece,) in steps.pieces]
        buffers = copy_buffers(chosen, [single_device(d) for d in steps.devices])
        return ArrayImpl(aval, sharding, buffers, committed=True, **skip_checks)
    if not shares_memory(array.platform()):
        return _by_pieces_on_devices(array, aval, sharding, steps)
    views: dict[int, np.ndarray] = {}
    large = aval.size > 1 << 20

    def view(i: int) -> np.ndarray:
        if i not in views:
            found = host_copy(parts[i])[0]
            views[i] = found if found.dtype == aval.dtype else found.view(aval.dtype)
        return views[i]

    buffers: list[np.ndarray] = []
    jobs: list[tuple[np.ndarray, np.ndarray]] = []
    for i, (pieces, first) in enumerate(zip(steps.pieces, steps.same)):
        if first != i:
            buffers.append(buffers[first])
            continue
        found = [view(piece.source)[piece.cut] for piece in pieces]
        if len(pieces) == 1 and (found[0].flags.c_contiguous or not large):
            buffers.append(found[0])
            continue
        made = aligned_empty(steps.shape, aval.dtype)
        jobs += [(made[piece.paste], part) for piece, part in zip(pieces, found)]
        buffers.append(made)
    if large and len(jobs) > 1:
        from concurrent.futures import ThreadPoolExecutor  # start-up: 4 ms

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(np.copyto, *zip(*jobs)))
    else:
        for whole, part in jobs:
            whole[...] = part
    return batched_device_put(aval, sharding, buffers, list(steps.devices), True)


def aligned_empty(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Memory that a CPU device can take as it is: XLA reads whole cache lines."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(shape)


def _by_pieces_on_devices(array: ArrayImpl, aval, sharding, steps: Plan) -> ArrayImpl:
    """Pieces are cut where they are, sent, and joined on the first device that wants them; others copy from there."""
    parts = buffers_of(array)
    made: dict[int, ArrayImpl] = {}
    for i, (pieces, first) in enumerate(zip(steps.pieces, steps.same)):
        if first != i:
            continue
        place = single_device(steps.devices[i])
        cuts = [_typed(parts[p.source], array, aval) for p in pieces]
        cuts = [x if x.shape == p.shape else kernels.cut(x, p.start, p.shape) for x, p in zip(cuts, pieces)]
        sent = copy_buffers(cuts, [place] * len(cuts))
        whole = sent[0]
        if len(pieces) > 1:
            whole = batched_device_put(aval.update(shape=steps.shape), place, [np.empty(steps.shape, aval.dtype)],
                                       [steps.devices[i]], True)
            for piece, part in zip(pieces, sent):
                whole = kernels.paste(whole, part, piece.at)
        made[i] = whole
    buffers = copy_buffers([made[first] for first in steps.same], [single_device(d) for d in steps.devices])
    return ArrayImpl(aval, sharding, buffers, committed=True, **skip_checks)


def _typed(part: ArrayImpl, array: ArrayImpl, aval) -> ArrayImpl:
    """A bare buffer as an array of its own."""
    part_aval = aval.update(shape=tuple(array._sharding.shard_shape(tuple(aval.shape))))
    return ArrayImpl(part_aval, part._sharding, [part], committed=True, **skip_checks)


def apart(array: ArrayImpl, other: ArrayImpl) -> ArrayImpl:
    """The array without buffers of the other one: what they share is copied."""
    theirs = {part.unsafe_buffer_pointer() for part in buffers_of(other)}
    parts = list(buffers_of(array))
    for i, part in enumerate(parts):
        if part.unsafe_buffer_pointer() in theirs:
            [parts[i]] = copy_buffers([part], [part._sharding], always=True)
    return ArrayImpl(array.aval, array._sharding, parts, committed=array._committed, **skip_checks)


def copied(array: ArrayImpl, aval) -> ArrayImpl:
    """The array in memory of its own."""
    [fresh] = copy_buffers([array], [array._sharding], always=True)
    return ArrayImpl(aval, array._sharding, buffers_of(fresh), committed=array._committed, **skip_checks)

