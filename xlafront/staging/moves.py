"""Moving arrays to other placements and into other orders in memory, without their whole value passing through the host.

Most moves are copies of buffers. Where parts have to be cut and joined on devices, small programs do it that are written here,
since whatever calls compiled programs may have to move its arguments first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import backends
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, Var
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime.arrays import put_host
from xlafront.runtime.compile import CompileRequest, compile_module
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.disk_cache import cache_key
from xlafront.runtime.guards import between_devices
from xlafront.runtime.jax_names import buffers_of, host_copy
from xlafront.runtime.jaxlib_compat import ArrayImpl, NamedSharding, batched_device_put, result_handler
from xlafront.runtime.layouts import Layout, use as layouts_in_use
from xlafront.runtime.sharding import in_device_memory, open_sums, single_device
from xlafront.runtime.transfers import Plan, aligned_empty, copy_buffers, plan, shares_memory, skip_checks
from xlafront.staging import module_shardings
from xlafront.staging.device_assignment import DeviceAssignment


def put(value, aval, sharding, committed: bool) -> ArrayImpl:
    """An array with this type and placement from a host value or from another array."""
    if isinstance(value, ArrayImpl):
        return move(value, aval, sharding, committed)
    if isinstance(value, ShapeDtypeStruct):
        raise TypeError(f"{value} is not a valid JAX type where a function runs: it has no elements. Pass an array, or use it "
                        f"in eval_shape, make_jaxpr or jit(f).lower(...).")
    return put_host(value, aval, sharding, committed)


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
        made = reshard([arrays[i] for i in chosen], [shardings[i] for i in chosen])
        for i, x in zip(chosen, made):
            results[i] = ArrayImpl(avals[i], shardings[i], buffers_of(x), committed=committed, **skip_checks)
    return results


def _copy(arrays, avals, shardings, chosen: list[int], results: list, committed: bool) -> None:
    """Buffer by buffer to other devices or another memory, in one call of the runtime."""
    copied = copy_buffers([arrays[i] for i in chosen], [shardings[i] for i in chosen])
    for i, x in zip(chosen, copied):
        if x._committed != committed or x._aval is not avals[i]:
            x = ArrayImpl(avals[i], shardings[i], buffers_of(x), committed=committed, **skip_checks)
        results[i] = x


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
    with between_devices(aval):
        return batched_device_put(aval, sharding, buffers, list(steps.devices), True)


def _by_pieces_on_devices(array: ArrayImpl, aval, sharding, steps: Plan) -> ArrayImpl:
    """Pieces are cut where they are, sent, and joined on the first device that wants them; others copy from there."""
    parts = buffers_of(array)
    made: dict[int, ArrayImpl] = {}
    for i, (pieces, first) in enumerate(zip(steps.pieces, steps.same)):
        if first != i:
            continue
        place = single_device(steps.devices[i])
        cuts = [_typed(parts[p.source], array, aval) for p in pieces]
        cuts = [x if x.shape == p.shape else _cut(x, p.start, p.shape) for x, p in zip(cuts, pieces)]
        sent = copy_buffers(cuts, [place] * len(cuts))
        whole = sent[0]
        if len(pieces) > 1:
            whole = batched_device_put(aval.update(shape=steps.shape), place, [np.empty(steps.shape, aval.dtype)],
                                       [steps.devices[i]], True)
            for piece, part in zip(pieces, sent):
                whole = _paste(whole, part, piece.at)
        made[i] = whole
    buffers = copy_buffers([made[first] for first in steps.same], [single_device(d) for d in steps.devices])
    return ArrayImpl(aval, sharding, buffers, committed=True, **skip_checks)


def _typed(part: ArrayImpl, array: ArrayImpl, aval) -> ArrayImpl:
    """A bare buffer as an array of its own."""
    part_aval = aval.update(shape=tuple(array._sharding.shard_shape(tuple(aval.shape))))
    return ArrayImpl(part_aval, part._sharding, [part], committed=True, **skip_checks)


# Programs


def reshard(arrays: Sequence[ArrayImpl], shardings: Sequence[Any]) -> list[ArrayImpl]:
    """Arrays over the same devices, split in another way: one program, of nothing but the sends between devices."""
    run = _identity("reshard", tuple([_plain(x) for x in arrays]), tuple([x._sharding for x in arrays]), tuple(shardings))
    return run(arrays, [x._aval for x in arrays], shardings)


def relayout(x: ArrayImpl, layout: Layout) -> ArrayImpl:
    """The array with its elements in this order in memory, where it is."""
    layouts_in_use.others = True
    run = _identity("relayout", (_plain(x),), (x._sharding,), (x._sharding,), (Layout.from_pjrt_layout(x._pjrt_layout), layout))
    [result] = run([x], [x._aval], [x._sharding])
    return result if x._committed else ArrayImpl(x._aval, x._sharding, buffers_of(result), committed=False, **skip_checks)


def _plain(x: ArrayImpl) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype)


@functools.lru_cache(512)
def _identity(name: str, avals: tuple, sources: tuple, targets: tuple, layouts: tuple = ()) -> Callable:
    """A program that returns its arguments, in other shardings or in another order in memory."""
    variables = [Var(aval) for aval in avals]
    jaxpr, every = Jaxpr([], variables, variables, []), [True] * len(avals)
    devices = tuple(sources[0]._internal_device_list)
    mesh = next((s.mesh for s in sources if isinstance(s, NamedSharding)), None)
    shardings = module_shardings.ProgramShardings(DeviceAssignment(devices, sources, True, mesh), targets, every, 0, jaxpr)
    attributes = [module_shardings.argument_attributes(jaxpr, every, (), (), shardings, name, None),
                  shardings.result_attributes()]
    if layouts:
        attributes = [module_shardings.layout_attributes(found, [layout]) for found, layout in zip(attributes, layouts)]
    types = lowering.module.flat_types(avals)
    return _program(name, devices, types, types, lambda ctx, *xs: xs, *attributes, shardings=shardings)


def _cut(x: ArrayImpl, start: Sequence[int], shape: tuple[int, ...]) -> ArrayImpl:
    """A part of a buffer, where it is."""
    run = _cutting(x._sharding, x.shape, x.dtype, shape)
    [result] = run([x, *_indices(x, start)], [x._aval.update(shape=shape)], [x._sharding])
    return result


@functools.lru_cache(256)
def _cutting(sharding, whole: tuple, dtype, shape: tuple) -> Callable:
    mlir = lowering.mlir
    types = [mlir.tensor_type(whole, dtype), *[mlir.tensor_type((), np.dtype(np.int32))] * len(whole)]
    return _program("cut", tuple(sharding._internal_device_list), types, [mlir.tensor_type(shape, dtype)],
                    lambda ctx, x, *starts: [ctx.dynamic_slice(x, starts, (shape, dtype))])


def _paste(whole: ArrayImpl, part: ArrayImpl, at: Sequence[int]) -> ArrayImpl:
    """A buffer with a part of it replaced; it takes the memory of the buffer."""
    [result] = _pasting(whole._sharding, whole.shape, part.shape, whole.dtype)(
        [whole, part, *_indices(whole, at)], [whole._aval], [whole._sharding])
    return result


@functools.lru_cache(256)
def _pasting(sharding, whole: tuple, part: tuple, dtype) -> Callable:
    mlir = lowering.mlir
    types = [mlir.tensor_type(whole, dtype), mlir.tensor_type(part, dtype),
             *[mlir.tensor_type((), np.dtype(np.int32))] * len(whole)]
    with mlir.context:
        donated = [{"tf.aliasing_output": mlir.i32(0)}, *[{} for _ in types[1:]]]
    return _program("paste", tuple(sharding._internal_device_list), types, types[:1],
                    lambda ctx, x, y, *starts: [ctx.dynamic_update_slice(x, y, starts, (whole, dtype))], donated)


def _indices(x: ArrayImpl, start: Sequence[int]) -> list[ArrayImpl]:
    [device] = x._sharding.device_set
    aval = x._aval.update(shape=(), dtype=np.dtype(np.int32), weak_type=False)
    return [put_host(np.int32(i), aval, single_device(device), True) for i in start]


def _program(name: str, devices: tuple, arg_types, result_types, build: Callable, arg_attributes=None, result_attributes=None,
             shardings: module_shardings.ProgramShardings | None = None) -> Callable:
    """A compiled program of a few operations; it is called with arrays, the types of the results and their shardings."""
    client = devices[0].client
    context = lowering.programs.build_module(f"jit_{name}", backends.lowering_platform(client), arg_types, result_types, build,
                                             arg_attributes, result_attributes, len(devices))
    options = compile_options(len(devices), devices)
    if shardings is not None:
        shardings.declare_meshes(context)
        shardings.adjust(options)
    key = cache_key(lowering.written.stripped_bytecode(context.module), options.SerializeAsString(), client, devices)
    executable, _ = compile_module(CompileRequest(context.module, client, devices, options, [], key), backends.disk_cache())

    def run(arrays: Sequence[ArrayImpl], avals: Sequence[Any], shardings: Sequence[Any]) -> list[ArrayImpl]:
        results = executable.execute_sharded(list(arrays))
        return results.consume_with_handlers([result_handler(a, s, True) for a, s in zip(avals, shardings)])

    return run
