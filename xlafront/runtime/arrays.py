"""Arrays on devices: making them from host values, moving them, reading them back.

The array class is jaxlib's `ArrayImpl`. Here it gets what the runtime itself needs; the NumPy-like methods and
operators are attached by `xlafront.numpy`.
"""

from __future__ import annotations

import numpy as np

from xlafront.runtime.jax_names import answered, buffers_of, host_copy
from xlafront.runtime.jaxlib_compat import ArrayImpl, batched_device_put
from xlafront.runtime.sharding import SingleDeviceSharding, single_device
from xlafront.runtime.transfers import places, skip_checks


def put_host(value, aval, sharding, committed: bool) -> ArrayImpl:
    """An array with this type and placement from a host value."""
    if not aval.dtype.itemsize:  # float0, tangents of integers, stays with NumPy
        return np.zeros(aval.shape, aval.dtype)
    host = np.asarray(value, dtype=aval.dtype)
    if type(sharding) is SingleDeviceSharding:
        return batched_device_put(aval, sharding, [host], [sharding._device], committed)
    indices, devices = places(sharding, host.shape)
    return batched_device_put(aval, sharding, [host[index] for index in indices], devices, committed)


def host_value(array: ArrayImpl) -> np.ndarray:
    """The elements as a read-only NumPy array; waits for them. Kept, so that a second reading is free."""
    array._check_if_deleted()
    cached = array._npy_value
    if cached is not None:
        return cached
    parts = buffers_of(array)  # none, when all of it lies in other processes
    if parts and (array.sharding.num_devices == 1 or array.sharding.is_fully_replicated):
        source = array if len(parts) == 1 else answered(array._fully_replicated_shard)
        value, did_copy = host_copy(source)
        value = _retype(value, array._aval)
        value.flags.writeable = False
        if did_copy:
            array._npy_value = value
        return value
    if not array.sharding.is_fully_addressable:
        raise RuntimeError(
            f"the array of shape {array._aval.shape} over {array.sharding} has parts on devices of other processes, so that "
            "its value cannot be read here. Use experimental.multihost_utils.process_allgather(x, tiled=True) for the whole, "
            "in all processes, or x.addressable_shards for the parts that are here.")
    spec = getattr(array.sharding, "spec", None)
    if spec is not None and spec.unreduced:
        raise NotImplementedError(
            f"the value of the array of shape {array._aval.shape} over {array.sharding} is the sum of what the devices hold "
            f"along {sorted(map(str, spec.unreduced))}, which has not been made. Make it first with reshard(x, P(...)), or see "
            f"the summands in x.addressable_shards.")
    value = np.empty(array._aval.shape, array._aval.dtype)
    if not value.size:
        return value
    indices = array.sharding.addressable_devices_indices_map(array._aval.shape)
    array.block_until_ready()
    for part in parts:  # bare buffers, without a type of their own
        [device] = part._sharding.device_set
        value[indices[device]] = _retype(host_copy(part)[0], array._aval)
    value.flags.writeable = False
    array._npy_value = value
    return value


def _retype(value: np.ndarray, aval) -> np.ndarray:
    return value if value.dtype == aval.dtype else value.view(aval.dtype)


def _check_if_deleted(self) -> None:
    if self.is_deleted():
        raise RuntimeError(
            f"Array has been deleted, with shape {self.aval}: its buffer was given away by `donate_argnums` in an earlier call "
            f"or freed by `.delete()`. Use the result of that call instead, or do not donate this argument.")


def _seen_aval(self):
    """The type with what follows from the sharding."""
    return self._aval if type(self._sharding) is SingleDeviceSharding and self._sharding._memory_kind in (
        None, "device") else self._aval.on(self._sharding)


def _devices(self) -> set:
    self._check_if_deleted()
    return self._sharding.device_set


def _attach() -> None:
    cls = ArrayImpl
    cls._check_and_rearrange = lambda self: None  # jaxlib 0.10 calls it on every array it is not told to trust
    cls._check_if_deleted = _check_if_deleted
    cls._value = property(host_value)
    cls._aval = cls.__dict__["aval"]  # as whoever made the array gave it
    cls.aval = property(_seen_aval)
    cls.shape = property(lambda self: self._aval.shape)
    cls.dtype = property(lambda self: self._aval.dtype)
    cls.ndim = property(lambda self: self._aval.ndim)
    cls.size = property(lambda self: self._aval.size)
    cls.weak_type = property(lambda self: self._aval.weak_type)
    cls.sharding = property(lambda self: self._sharding)
    cls.devices = _devices
    cls.committed = property(lambda self: self._committed)


_attach()

__all__ = ["ArrayImpl", "host_value", "put_host", "single_device", "skip_checks"]
