"""Arrays written to storage and read from it by `tensorstore`, each device's part by itself.

A process writes the parts that its devices hold, and of parts that several devices hold one; it reads what its devices need.
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

from xlafront.core import backends, dtypes, tree
from xlafront.core.shards import make_array_from_single_device_arrays
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.host.store_specs import metadata_of
from xlafront.lax.device_put import device_put
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import SingleDeviceSharding
from xlafront.runtime.layouts import Format

TS_CONTEXT = ts.Context({"file_io_concurrency": {"limit": 128}, "data_copy_concurrency": {"limit": 128},
                         "cache_pool": {"total_bytes_limit": 10_000_000_000},
                         "cache_pool#remote": {"total_bytes_limit": 10_000_000_000}})
_CHUNKS = ts.ChunkLayout(chunk_elements=100_000_000)


class ByteLimiter:
    """Lets pass so many bytes at a time."""

    def __init__(self, limit: int):
        if limit <= 0:
            raise ValueError(f"the memory for reading must be more than nothing, got {limit} bytes.")
        self.limit, self.available = limit, limit
        self.changed = asyncio.Condition()

    async def wait_for_bytes(self, count: int) -> None:
        count = min(count, self.limit)  # what is larger than all of it passes alone
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
    """Write an array, the parts of which are on the devices of this process.

    - `arr_inp`: the array. `tensorstore_spec`: where it goes; what it does not say of the format is added to it.
    - `commit_future`: a list that gets futures of what is still to be written when this returns; without it, nothing is.
    - `context`, `transaction`, `chunk_layout`: of tensorstore.
    - `primary_host`: the number of the process that makes the array's directory; None: each does.
    - `replica_id`: which copy is written, of parts that several devices hold.

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
        # Others, and the parts below, need no look at what is there.
        store = await ts.open(spec, open=True, assume_metadata=True, context=context, transaction=transaction)
    pending = []
    for shard in x.addressable_shards:
        if shard.replica_id != replica_id:
            continue
        # What is written later is copied: until then the program may give its memory to another array.
        writing = store[shard.index].write(np.asarray(shard.data), can_reference_source_data_indefinitely=commit_future is None)
        pending.append(writing.copy if commit_future is not None else writing.commit)
        if commit_future is not None:
            commit_future.append(writing.commit)
    for future in pending:
        await future


def _array(x: Any) -> ArrayImpl:
    if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType):
        raise TypeError(f"an array of {x.dtype} cannot be stored: store its words, random.key_data(keys), and make keys of "
                        f"them with random.wrap_key_data.")
    return device_put(x)


async def async_deserialize(in_type: Any, tensorstore_spec: Any, global_shape: Sequence[int] | None = None, dtype: Any = None,
                            byte_limiter: Any = None, context: Any = TS_CONTEXT, chunk_layout: Any = _CHUNKS,
                            assume_metadata: bool = False) -> ArrayImpl:
    """Read an array onto devices.

    - `in_type`: how it is split: a sharding, a `Format`, or a `ShapeDtypeStruct` with a sharding.
    - `tensorstore_spec`: where it is. `dtype`: of the result; None for what is stored.
    - `global_shape`: the shape of the result; what is stored is cut off, or filled up with zeros.
    - `byte_limiter`: what lets pass so many bytes at a time.
    - `context`, `chunk_layout`: of tensorstore. `assume_metadata`: take the format from the specification, without a look.

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

    async def part(index: tuple[slice, ...], devices: Sequence[Any]) -> list[ArrayImpl]:
        wanted = ts.IndexDomain(shape=shape)[ts.d[:][index]] if shape else ts.IndexDomain(shape=())
        there = wanted.intersect(store.domain)
        size = int(np.prod(there.shape, dtype=np.int64)) * store.dtype.numpy_dtype.itemsize
        if byte_limiter is not None:
            await byte_limiter.wait_for_bytes(size)
        try:
            if there == wanted:
                values = await store[wanted].read()
            else:
                values = np.zeros(wanted.shape, store.dtype.numpy_dtype)
                if all(there.shape):
                    place = ts.array(values)[ts.d[:].translate_to[wanted.origin]]
                    await place[there].write(store[there])
            values = np.asarray(values).astype(dtype, copy=False)
            return [device_put(values, SingleDeviceSharding(device, memory_kind=sharding.memory_kind)) for device in devices]
        finally:
            if byte_limiter is not None:
                await byte_limiter.release_bytes(size)

    parts: dict[tuple, tuple] = {}  # each is read once, whatever the number of devices that hold it
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        key = tuple([s.indices(n) for s, n in zip(index, shape)])
        parts.setdefault(key, (index, []))[1].append(device)
    found = await asyncio.gather(*[part(index, devices) for index, devices in parts.values()])
    x = make_array_from_single_device_arrays(shape, sharding, [a for arrays in found for a in arrays])
    return x if layout is None else device_put(x, Format(layout, sharding))


def run_serialization(arrays: Any, tensorstore_specs: Any) -> None:
    """Write arrays; when this returns, all of it is written.

    - `arrays`: a pytree of them. `tensorstore_specs`: one for each, in the same structure.

    >>> import tempfile
    >>> serialization.run_serialization([xnp.ones(3)], [serialization.get_tensorstore_spec(tempfile.mkdtemp() + "/w")])
    """
    run_together(arrays, tensorstore_specs, lambda x, spec: async_serialize(x, spec))


def run_deserialization(shardings: Any, tensorstore_specs: Any, global_shapes: Any = None, dtypes: Any = None,
                        concurrent_gb: int = 32) -> Any:
    """Read arrays onto devices.

    - `shardings`: how each is split, as for `async_deserialize`. `tensorstore_specs`: where each is.
    - `global_shapes`, `dtypes`: of each, or None for what is stored.
    - `concurrent_gb`: how much memory what is being read may take, in gigabytes.

    >>> import tempfile
    >>> spec = serialization.get_tensorstore_spec(tempfile.mkdtemp() + "/w")
    >>> serialization.run_serialization([xnp.ones(3)], [spec])
    >>> serialization.run_deserialization([xf.sharding.SingleDeviceSharding(xf.devices()[0])], [spec])
    [Array([1., 1., 1.], dtype=float32)]
    """
    unsaid = tree.map(lambda _: None, shardings)
    limiter: list[ByteLimiter] = []  # made where the loop runs

    def read(sharding, spec, shape, dtype) -> Awaitable:
        if not limiter:
            limiter.append(ByteLimiter(int(concurrent_gb * 10**9)))
        return async_deserialize(sharding, spec, shape, dtype, limiter[0])

    rest = [unsaid if given is None else given for given in (global_shapes, dtypes)]
    return run_together(shardings, tensorstore_specs, read, *rest)


def run_together(things: Any, specs: Any, start: Callable[..., Awaitable], *rest: Any) -> Any:
    """What `start` gives for all of them, in the structure of `things`."""
    leaves, structure = tree.flatten(things)
    columns = [structure.flatten_up_to(given) for given in (specs, *rest)]

    async def together():
        return await asyncio.gather(*[start(*row) for row in zip(leaves, *columns)])

    return structure.unflatten(run_to_the_end(together))


def run_to_the_end(start: Callable[[], Awaitable]) -> Any:
    """The result of a coroutine, also where a loop runs in this thread already, as in a notebook."""
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


