"""Transfers of arrays to other shardings and layouts, without passing the unsharded value through the host.

Most transfers are copies of buffers. Where pieces must be cut and joined on devices, small executables do it. They are built
here without `jit`: a call of a jitted function may have to transfer its arguments first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.base.jax_names import buffers_of, host_copy
from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding, batched_device_put, result_handler
from xlafront.base.layouts import Layout, use as layouts_in_use
from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.ir import Jaxpr, Var
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime import backends
from xlafront.runtime.arrays import put_host
from xlafront.runtime.compile import CompileRequest, compile_module
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.disk_cache import cache_key
from xlafront.runtime.guards import between_devices
from xlafront.runtime.sharding import in_device_memory, open_sums, single_device
from xlafront.runtime.transfers import Plan, aligned_empty, copy_buffers, plan, shares_memory, skip_checks
from xlafront.staging import module_shardings
from xlafront.staging.device_assignment import DeviceAssignment


def put(value, aval, sharding, committed: bool) -> ArrayImpl:
    """Return an array of this type and sharding from a host value or another array."""
    if isinstance(value, ArrayImpl):
        return transfer(value, aval, sharding, committed)
    if type(value) in tracing.symbolic_constants:
        return tracing.symbolic_constants[type(value)](value)  # raises: sizes have values only in exported programs
    if isinstance(value, ShapeDtypeStruct):
        raise TypeError(f"{value} is not a valid JAX type where a function runs: it has no elements. Pass an array, or use it "
                        f"in eval_shape, make_jaxpr or jit(f).lower(...).")
    return put_host(value, aval, sharding, committed)


def transfer(array: ArrayImpl, aval, sharding, committed: bool) -> ArrayImpl:
    """Return an array with another sharding."""
    return transfer_all([array], [aval], [sharding], committed)[0]


def transfer_all(arrays: Sequence[ArrayImpl], avals: Sequence[Any], shardings: Sequence[Any], committed: bool
                 ) -> list[ArrayImpl]:
    """Return arrays with other shardings; transfers of the same kind run together."""
    results: list[Any] = [None] * len(arrays)
    copies: list[int] = []
    by_executable: dict[Any, list[int]] = {}  # by devices: one executable reshards all arrays on them
    for i, (array, aval, sharding) in enumerate(zip(arrays, avals, shardings)):
        current = array._sharding
        if current == sharding and array._committed == committed:
            results[i] = array
        elif current.is_equivalent_to(sharding, aval.ndim):
            results[i] = ArrayImpl(aval, sharding, buffers_of(array), committed=committed, **skip_checks)
        elif current.num_devices == sharding.num_devices == 1:
            copies.append(i)
        elif open_sums(current):
            array._value  # noqa: B018  raises: unreduced values cannot be transferred
        elif current.memory_kind != sharding.memory_kind and current.is_equivalent_to(
                sharding.with_memory_kind(current.memory_kind), aval.ndim):
            copies.append(i)
        elif not in_device_memory(current):  # executables and pieces are in the memory of devices
            on_device = transfer(array, aval, current.with_memory_kind("device"), committed)
            results[i] = transfer(on_device, aval, sharding, committed)
        elif not in_device_memory(sharding):
            on_device = transfer(array, aval, sharding.with_memory_kind("device"), committed)
            results[i] = transfer(on_device, aval, sharding, committed)
        elif (steps := plan(current, sharding, tuple(aval.shape))).positional:
            copies.append(i)
        elif not steps.reuses_buffers and not shares_memory(array.platform()) and current._internal_device_list == (
                sharding._internal_device_list):
            by_executable.setdefault(current._internal_device_list, []).append(i)
        else:
            results[i] = _by_pieces(array, aval, sharding, steps)
    if copies:
        _copy(arrays, avals, shardings, copies, results, committed)
    for chosen in by_executable.values():
        made = reshard([arrays[i] for i in chosen], [shardings[i] for i in chosen])
        for i, x in zip(chosen, made):
            results[i] = ArrayImpl(avals[i], shardings[i], buffers_of(x), committed=committed, **skip_checks)
    return results


def _copy(arrays, avals, shardings, chosen: list[int], results: list, committed: bool) -> None:
    """Copy arrays buffer by buffer to other devices or another memory, in one call of the runtime."""
    copied = copy_buffers([arrays[i] for i in chosen], [shardings[i] for i in chosen])
    for i, x in zip(chosen, copied):
        if x._committed != committed or x._aval is not avals[i]:
            x = ArrayImpl(avals[i], shardings[i], buffers_of(x), committed=committed, **skip_checks)
        results[i] = x


def _by_pieces(array: ArrayImpl, aval, sharding, steps: Plan) -> ArrayImpl:
    """Return an array with another sharding, whose shards are made of pieces of the old ones as `steps` says."""
    shards = buffers_of(array)
    if steps.reuses_buffers and (not shares_memory(array.platform()) or all(
            [next(iter(shards[p.source]._sharding.device_set)) == d for (p,), d in zip(steps.pieces, steps.devices)])):
        chosen = [shards[piece.source] for (piece,) in steps.pieces]
        buffers = copy_buffers(chosen, [single_device(d) for d in steps.devices])
        return ArrayImpl(aval, sharding, buffers, committed=True, **skip_checks)
    if not shares_memory(array.platform()):
        return _by_pieces_on_devices(array, aval, sharding, steps)
    views: dict[int, np.ndarray] = {}
    large = aval.size > 1 << 20

    def view(i: int) -> np.ndarray:
        if i not in views:
            found = host_copy(shards[i])[0]
            views[i] = found if found.dtype == aval.dtype else found.view(aval.dtype)
        return views[i]

    buffers: list[np.ndarray] = []
    jobs: list[tuple[np.ndarray, np.ndarray]] = []
    for i, (pieces, first) in enumerate(zip(steps.pieces, steps.same)):
        if first != i:
            buffers.append(buffers[first])
            continue
        found = [view(piece.source)[piece.source_index] for piece in pieces]
        if len(pieces) == 1 and (found[0].flags.c_contiguous or not large):
            buffers.append(found[0])
            continue
        made = aligned_empty(steps.shape, aval.dtype)
        jobs += [(made[piece.target_index], values) for piece, values in zip(pieces, found)]
        buffers.append(made)
    if large and len(jobs) > 1:
        from concurrent.futures import ThreadPoolExecutor  # start-up: 4 ms

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(np.copyto, *zip(*jobs)))
    else:
        for target, piece in jobs:
            target[...] = piece
    with between_devices(aval):
        return batched_device_put(aval, sharding, buffers, list(steps.devices), True)


def _by_pieces_on_devices(array: ArrayImpl, aval, sharding, steps: Plan) -> ArrayImpl:
    """Cut pieces on their devices, transfer them, and join them on the first device of each shard; replicas copy from there."""
    shards = buffers_of(array)
    made: dict[int, ArrayImpl] = {}
    for i, (pieces, first) in enumerate(zip(steps.pieces, steps.same)):
        if first != i:
            continue
        target = single_device(steps.devices[i])
        cuts = [_typed(shards[p.source], array, aval) for p in pieces]
        cuts = [x if x.shape == p.shape else _slice(x, p.start, p.shape) for x, p in zip(cuts, pieces)]
        sent = copy_buffers(cuts, [target] * len(cuts))
        shard = sent[0]
        if len(pieces) > 1:
            shard = batched_device_put(aval.update(shape=steps.shape), target, [np.empty(steps.shape, aval.dtype)],
                                       [steps.devices[i]], True)
            for piece, values in zip(pieces, sent):
                shard = _update_slice(shard, values, piece.target_start)
        made[i] = shard
    buffers = copy_buffers([made[first] for first in steps.same], [single_device(d) for d in steps.devices])
    return ArrayImpl(aval, sharding, buffers, committed=True, **skip_checks)


def _typed(shard: ArrayImpl, array: ArrayImpl, aval) -> ArrayImpl:
    """Return a shard of an array as an array with a type."""
    shard_aval = aval.update(shape=tuple(array._sharding.shard_shape(tuple(aval.shape))))
    return ArrayImpl(shard_aval, shard._sharding, [shard], committed=True, **skip_checks)


# Executables

_executables: BoundedCache = BoundedCache(1024)  # by the function that compiles them and its arguments


def _compiled(compile_one: Callable, *args: Any) -> Callable:
    """Return `compile_one(*args)`, an executable, which is compiled once."""
    key = (compile_one, *args)
    found = _executables.get(key)
    return _executables.put(key, compile_one(*args)) if found is None else found


def reshard(arrays: Sequence[ArrayImpl], shardings: Sequence[Any]) -> list[ArrayImpl]:
    """Reshard arrays over the same devices by one executable, which only sends between devices."""
    sources = tuple([x._sharding for x in arrays])
    run = _compiled(_compile_identity, "reshard", tuple([_plain(x) for x in arrays]), sources, tuple(shardings))
    return run(arrays, [x._aval for x in arrays], shardings)


def relayout(x: ArrayImpl, layout: Layout) -> ArrayImpl:
    """Return an array with another layout, on the same devices."""
    layouts_in_use.others = True
    layouts, shardings = (Layout.from_pjrt_layout(x._pjrt_layout), layout), (x._sharding,)
    run = _compiled(_compile_identity, "relayout", (_plain(x),), shardings, shardings, layouts)
    [result] = run([x], [x._aval], [x._sharding])
    return result if x._committed else ArrayImpl(x._aval, x._sharding, buffers_of(result), committed=False, **skip_checks)


layouts_in_use.relayout = relayout


def _plain(x: ArrayImpl) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype)


def _compile_identity(name: str, avals: tuple, sources: tuple, targets: tuple, layouts: tuple = ()) -> Callable:
    """Compile the identity function to results with other shardings or layouts."""
    variables = [Var(aval) for aval in avals]
    jaxpr, every = Jaxpr([], variables, variables, []), [True] * len(avals)
    devices = tuple(sources[0]._internal_device_list)
    mesh = next((s.mesh for s in sources if isinstance(s, NamedSharding)), None)
    shardings = module_shardings.ProgramShardings(DeviceAssignment(devices, sources, True, mesh), targets, every, 0, jaxpr)
    attributes = [module_shardings.argument_attributes(jaxpr, every, (), (), shardings, name),
                  shardings.result_attributes()]
    if layouts:
        attributes = [module_shardings.layout_attributes(found, [layout]) for found, layout in zip(attributes, layouts)]
    types = lowering.module.flat_types(avals)
    return _compile_operations(name, devices, types, types, lambda ctx, *xs: xs, *attributes, shardings=shardings)


def _slice(x: ArrayImpl, start: Sequence[int], shape: tuple[int, ...]) -> ArrayImpl:
    """Return a slice of a buffer, on its device."""
    run = _compiled(_compile_slice, x._sharding, x.shape, x.dtype, shape)
    [result] = run([x, *_indices(x, start)], [x._aval.update(shape=shape)], [x._sharding])
    return result


def _compile_slice(sharding, full: tuple, dtype, shape: tuple) -> Callable:
    """Compile the slicing of buffers of the shape `full`."""
    mlir = lowering.mlir
    types = [mlir.tensor_type(full, dtype), *[mlir.tensor_type((), np.dtype(np.int32))] * len(full)]
    return _compile_operations("cut", tuple(sharding._internal_device_list), types, [mlir.tensor_type(shape, dtype)],
                               lambda ctx, x, *starts: [ctx.dynamic_slice(x, starts, (shape, dtype))])


def _update_slice(x: ArrayImpl, update: ArrayImpl, start: Sequence[int]) -> ArrayImpl:
    """Return a buffer with a slice of it updated, in place."""
    run = _compiled(_compile_update, x._sharding, x.shape, update.shape, x.dtype)
    [result] = run([x, update, *_indices(x, start)], [x._aval], [x._sharding])
    return result


def _compile_update(sharding, full: tuple, shape: tuple, dtype) -> Callable:
    """Compile the update of slices of buffers of the shape `full`, in place."""
    mlir = lowering.mlir
    types = [mlir.tensor_type(full, dtype), mlir.tensor_type(shape, dtype),
             *[mlir.tensor_type((), np.dtype(np.int32))] * len(full)]
    with mlir.context:
        donated = [{"tf.aliasing_output": mlir.i32(0)}, *[{} for _ in types[1:]]]
    return _compile_operations("paste", tuple(sharding._internal_device_list), types, types[:1],
                               lambda ctx, x, y, *starts: [ctx.dynamic_update_slice(x, y, starts, (full, dtype))], donated)


def _indices(x: ArrayImpl, start: Sequence[int]) -> list[ArrayImpl]:
    [device] = x._sharding.device_set
    aval = x._aval.update(shape=(), dtype=np.dtype(np.int32), weak_type=False)
    return [put_host(np.int32(i), aval, single_device(device), True) for i in start]


def _compile_operations(name: str, devices: tuple, arg_types, result_types, build: Callable, arg_attributes=None,
                        result_attributes=None, shardings: module_shardings.ProgramShardings | None = None) -> Callable:
    """Compile a few operations. Return a function of arrays, the types of the results and their shardings."""
    client = devices[0].client
    context = lowering.programs.build_module(f"jit_{name}", backends.lowering_platform(client), arg_types, result_types, build,
                                             arg_attributes, result_attributes, len(devices))
    options = compile_options(len(devices), devices)
    if shardings is not None:
        shardings.declare_meshes(context)
        shardings.adjust(options)
    key = cache_key(lowering.module_text.stripped_bytecode(context.module), options.SerializeAsString(), client, devices)
    request = CompileRequest(context.module, client, devices, options, [], key)
    executable = compile_module(request, backends.disk_cache()).loaded

    def run(arrays: Sequence[ArrayImpl], avals: Sequence[Any], shardings: Sequence[Any]) -> list[ArrayImpl]:
        results = executable.execute_sharded(list(arrays))
        return results.consume_with_handlers([result_handler(a, s, True) for a, s in zip(avals, shardings)])

    return run
