"""Storage of arrays with `tensorstore`, shard by shard.

A process writes the shards on its devices, one of each set of replicas, and reads the shards that its devices need.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

try:
    import tensorstore as ts
except ImportError:
    raise ImportError("experimental.array_serialization stores arrays with tensorstore, which is not installed: "
                      "pip install tensorstore") from None

from xlafront.base.jaxlib_compat import ArrayImpl, SingleDeviceSharding
from xlafront.base.layouts import Format
from xlafront.core import dtypes, tree
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.host.store_specs import metadata_of
from xlafront.lax.device_put import device_put
from xlafront.runtime import backends
from xlafront.runtime.shards import make_array_from_single_device_arrays

TS_CONTEXT = ts.Context({"file_io_concurrency": {"limit": 128}, "data_copy_concurrency": {"limit": 128},
                         "cache_pool": {"total_bytes_limit": 10_000_000_000},
                         "cache_pool#remote": {"total_bytes_limit": 10_000_000_000}})
_CHUNKS = ts.ChunkLayout(chunk_elements=100_000_000)


class ByteLimiter:
    """A semaphore that limits the number of bytes in use."""

    def __init__(self, limit: int):
        if limit <= 0:
            raise ValueError(f"the memory for reading must be more than nothing, got {limit} bytes.")
        self.limit, self.available = limit, limit
        self.changed = asyncio.Condition()

    async def wait_for_bytes(self, count: int) -> None:
        count = min(count, self.limit)  # a request above the limit passes when nothing else is in use
        async with self.changed:
            await self.changed.wait_for(lambda: self.available >= count)
            self.available -= count

    async def release_bytes(self, count: int) -> None:
        async with self.changed:
            self.available += min(count, self.limit)
            self.changed.notify_all()


async def async_serialize(arr_inp: Any, tensorstore_spec: dict[str, Any], commit_future: list | None = None,
                          context: Any = TS_CONTEXT, chunk_layout: Any = _CHUNKS, primary_host: int | None = None,
                          replica_id: int = 0, transaction: Any = None) -> None:
    """Write the shards of an array that are on the devices of this process.

    Args:
        arr_inp: Array to write.
        tensorstore_spec: Where to write it; missing metadata is added to this dictionary.
        commit_future: List to which futures of unfinished writes are appended. If None, all writes are finished on return.
        context, chunk_layout, transaction: Arguments of tensorstore.
        primary_host: Index of the process that creates the array's directory. Default: each process does.
        replica_id: Index of the replica to write.

    Example:
        >>> import asyncio, tempfile
        >>> spec = serialization.get_tensorstore_spec(tempfile.mkdtemp() + "/w")
        >>> asyncio.run(serialization.async_serialize(xnp.arange(3), spec))
    """
    x = arr_inp if isinstance(arr_inp, ArrayImpl) else _array(arr_inp)
    if "metadata" not in tensorstore_spec:
        tensorstore_spec["metadata"] = metadata_of(x, tensorstore_spec["driver"])
    tensorstore_spec.setdefault("dtype", np.dtype(x.dtype).name)
    creates = primary_host is None or backends.process_index() == primary_host
    spec = ts.Spec(tensorstore_spec)
    opened = ts.open(spec, create=creates, open=True, context=context, chunk_layout=chunk_layout, transaction=transaction,
                     assume_metadata=not creates)
    if creates and commit_future is not None:
        commit_future.append(opened)
    store = await opened
    if creates:
        # The metadata is known now: do not read it for each shard.
        store = await ts.open(spec, open=True, assume_metadata=True, context=context, transaction=transaction)
    pending = []
    for shard in x.addressable_shards:
        if shard.replica_id != replica_id:
            continue
        # Copy shards that are written after the return, as the program may donate or delete the array before.
        writing = store[shard.index].write(np.asarray(shard.data), can_reference_source_data_indefinitely=commit_future is None)
        pending.append(writing.copy if commit_future is not None else writing.commit)
        if commit_future is not None:
            commit_future.append(writing.commit)
    for future in pending:
        await future


def _array(x: Any) -> ArrayImpl:
    if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType):
        raise TypeError(f"an array of {x.dtype} cannot be stored: store its key data, random.key_data(keys), and restore the "
                        f"keys with random.wrap_key_data.")
    return device_put(x)


async def async_deserialize(in_type: Any, tensorstore_spec: Any, global_shape: Sequence[int] | None = None, dtype: Any = None,
                            byte_limiter: Any = None, context: Any = TS_CONTEXT, chunk_layout: Any = _CHUNKS,
                            assume_metadata: bool = False) -> ArrayImpl:
    """Read an array onto devices.

    Args:
        in_type: Sharding of the result: a sharding, a `Format`, or a `ShapeDtypeStruct` with a sharding.
        tensorstore_spec: Where the array is stored.
        global_shape: Shape of the result. The stored array is truncated or padded with zeros to it. Default: the stored shape.
        dtype: dtype of the result. Default: the stored dtype.
        byte_limiter: Limiter of the memory for reading, with `wait_for_bytes` and `release_bytes`.
        context, chunk_layout: Arguments of tensorstore.
        assume_metadata: If True, take the metadata from the specification without reading it.

    Returns:
        The array.

    Example:
        >>> import asyncio, tempfile
        >>> spec = serialization.get_tensorstore_spec(tempfile.mkdtemp() + "/w")
        >>> serialization.run_serialization([xnp.arange(3)], [spec])
        >>> asyncio.run(serialization.async_deserialize(xf.sharding.SingleDeviceSharding(xf.devices()[0]), spec))
        Array([0, 1, 2], dtype=int32)
    """
    layout = in_type.layout if isinstance(in_type, Format) else None
    sharding = in_type if not isinstance(in_type, (Format, ShapeDtypeStruct)) else in_type.sharding
    if sharding is None or not hasattr(sharding, "addressable_devices_indices_map"):
        raise ValueError(f"to read an array its sharding must be known, a NamedSharding or a SingleDeviceSharding, got "
                         f"{in_type}.")
    if isinstance(in_type, ShapeDtypeStruct):
        dtype = in_type.dtype if dtype is None else dtype
        global_shape = in_type.shape if global_shape is None else global_shape
    store = await ts.open(tensorstore_spec, open=True, assume_metadata=assume_metadata, context=context,
                          chunk_layout=chunk_layout)
    shape = tuple(store.shape if global_shape is None else global_shape)
    dtype = store.dtype.numpy_dtype if dtype is None else np.dtype(dtype)

    async def read_shard(index: tuple[slice, ...], devices: Sequence[Any]) -> list[ArrayImpl]:
        domain = ts.IndexDomain(shape=shape)[ts.d[:][index]] if shape else ts.IndexDomain(shape=())
        stored = domain.intersect(store.domain)
        size = int(np.prod(stored.shape, dtype=np.int64)) * store.dtype.numpy_dtype.itemsize
        if byte_limiter is not None:
            await byte_limiter.wait_for_bytes(size)
        try:
            if stored == domain:
                values = await store[domain].read()
            else:
                values = np.zeros(domain.shape, store.dtype.numpy_dtype)
                if all(stored.shape):
                    target = ts.array(values)[ts.d[:].translate_to[domain.origin]]
                    await target[stored].write(store[stored])
            values = np.asarray(values).astype(dtype, copy=False)
            return [device_put(values, SingleDeviceSharding(device, memory_kind=sharding.memory_kind)) for device in devices]
        finally:
            if byte_limiter is not None:
                await byte_limiter.release_bytes(size)

    shards: dict[tuple, tuple] = {}  # each shard is read once for all of its replicas
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        key = tuple([s.indices(n) for s, n in zip(index, shape)])
        shards.setdefault(key, (index, []))[1].append(device)
    found = await asyncio.gather(*[read_shard(index, devices) for index, devices in shards.values()])
    x = make_array_from_single_device_arrays(shape, sharding, [a for arrays in found for a in arrays])
    return x if layout is None else device_put(x, Format(layout, sharding))


def run_serialization(arrays: Any, tensorstore_specs: Any) -> None:
    """Write arrays, and wait until everything is written.

    Args:
        arrays: Pytree of arrays.
        tensorstore_specs: Pytree of specifications with the same structure.

    Example:
        >>> import tempfile
        >>> serialization.run_serialization([xnp.ones(3)], [serialization.get_tensorstore_spec(tempfile.mkdtemp() + "/w")])
    """
    run_together(arrays, tensorstore_specs, lambda x, spec: async_serialize(x, spec))


def run_deserialization(shardings: Any, tensorstore_specs: Any, global_shapes: Any = None, dtypes: Any = None,
                        concurrent_gb: int = 32) -> Any:
    """Read arrays onto devices.

    Args:
        shardings: Pytree of shardings, formats or types, as for `async_deserialize`.
        tensorstore_specs: Pytree of specifications with the same structure.
        global_shapes, dtypes: Pytrees of shapes and dtypes of the results. Default: those stored.
        concurrent_gb: Limit of the memory for reading, in gigabytes.

    Returns:
        Pytree of arrays with the structure of `shardings`.

    Example:
        >>> import tempfile
        >>> spec = serialization.get_tensorstore_spec(tempfile.mkdtemp() + "/w")
        >>> serialization.run_serialization([xnp.ones(3)], [spec])
        >>> serialization.run_deserialization([xf.sharding.SingleDeviceSharding(xf.devices()[0])], [spec])
        [Array([1., 1., 1.], dtype=float32)]
    """
    nones = tree.map(lambda _: None, shardings)
    limiter: list[ByteLimiter] = []  # created inside the event loop

    def read(sharding, spec, shape, dtype) -> Awaitable:
        if not limiter:
            limiter.append(ByteLimiter(int(concurrent_gb * 10**9)))
        return async_deserialize(sharding, spec, shape, dtype, limiter[0])

    rest = [nones if given is None else given for given in (global_shapes, dtypes)]
    return run_together(shardings, tensorstore_specs, read, *rest)


def run_together(values: Any, specs: Any, start: Callable[..., Awaitable], *rest: Any) -> Any:
    """Run `start` concurrently for each leaf of `values` and its specification; return a tree of the results."""
    leaves, structure = tree.flatten(values)
    columns = [structure.flatten_up_to(given) for given in (specs, *rest)]

    async def gather():
        return await asyncio.gather(*[start(*row) for row in zip(leaves, *columns)])

    return structure.unflatten(run_coroutine(gather))


def run_coroutine(start: Callable[[], Awaitable]) -> Any:
    """Run a coroutine and return its result, also if an event loop runs in this thread already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    found: list = []
    raised: list[BaseException] = []

    def run():
        try:
            found.append(asyncio.run(start()))
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


