"""Arrays on devices: making them from host values, moving them, reading them back.

The array class is jaxlib's `ArrayImpl`. Here it gets what the runtime itself needs; the NumPy-like methods and
operators are attached by `xlafront.numpy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.runtime import config
from xlafront.runtime.jax_names import answered, buffers_of, host_copy
from xlafront.runtime.jaxlib_compat import ArrayImpl, batched_device_put
from xlafront.runtime.sharding import SingleDeviceSharding, single_device
from xlafront.runtime.transfers import places, skip_checks


def put_host(value, aval, sharding, committed: bool) -> ArrayImpl:
    """An array with this type and placement from a host value."""
    if not aval.dtype.itemsize:  # float0, tangents of integers, stays with NumPy
        return np.zeros(aval.shape, aval.dtype)
    host = np.asarray(value, dtype=aval.dtype)
    if aval.dtype.itemsize > 4 and not config.enable_x64.value:
        with config.enable_x64(True):  # else jaxlib takes bits away, which the type says are there
            return _put_host(host, aval, sharding, committed)
    return _put_host(host, aval, sharding, committed)


def _put_host(host: np.ndarray, aval, sharding, committed: bool) -> ArrayImpl:
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
    indices, _ = places(array._sharding, array._aval.shape)
    array.block_until_ready()
    first = {tuple([(s.start, s.stop) for s in index]): i for i, index in reversed(list(enumerate(indices)))}
    for i in first.values():  # of equal parts one is copied: bare buffers, without a type of their own
        value[indices[i]] = _retype(host_copy(parts[i])[0], array._aval)
    value.flags.writeable = False
    array._npy_value = value
    return value


def _retype(value: np.ndarray, aval) -> np.ndarray:
    return value if value.dtype == aval.dtype else value.view(aval.dtype)


class DeletedArrayError(RuntimeError, ValueError):
    """The values of an array are gone; a ValueError, too, as the runtime raises for an argument of a compiled function.

    - `array`: the array.
    - `use`: what was to be done with it.
    """

    def __init__(self, array: ArrayImpl, use: str = ""):
        super().__init__(
            f"Array has been deleted with shape={array._aval}{use}: its buffer was deleted or donated to an earlier call "
            f"(donate_argnums), or freed by .delete(). Use what that call returned, or do not donate the argument.")


def _check_if_deleted(self) -> None:
    if self.is_deleted():
        raise DeletedArrayError(self)


def _seen_aval(self) -> Any:
    """The type, as transformations see it, with what follows from the sharding.

    >>> xnp.ones((2, 3)).aval
    ShapedArray(float32[2,3])
    """
    own = self._sharding
    return self._aval if type(own) is SingleDeviceSharding and own._memory_kind in (None, "device") else self._aval.on(own)


def _shape(self) -> tuple[int, ...]:
    """The sizes of the dimensions.

    >>> xnp.ones((2, 3)).shape
    (2, 3)
    """
    return self._aval.shape


def _dtype(self) -> np.dtype:
    """The dtype of the elements.

    >>> xnp.ones((2, 3)).dtype
    dtype('float32')
    """
    return self._aval.dtype


def _ndim(self) -> int:
    """The number of dimensions.

    >>> xnp.ones((2, 3)).ndim
    2
    """
    return self._aval.ndim


def _size(self) -> int:
    """The number of elements.

    >>> xnp.ones((2, 3)).size
    6
    """
    return self._aval.size


def _weak_type(self) -> bool:
    """Whether the dtype is that of Python's numbers, which takes that of arrays of its kind.

    >>> xnp.asarray(2.0).weak_type, (xnp.asarray(2.0) * xnp.ones(3, xnp.float16)).dtype
    (True, dtype('float16'))
    """
    return self._aval.weak_type


def _sharding(self) -> Any:
    """How the array lies on devices.

    >>> xnp.ones(3).sharding.num_devices
    1
    """
    return self._sharding


def _committed(self) -> bool:
    """Whether the array was put on its devices on purpose, so that computations with it run there.

    >>> xnp.ones(3).committed, xf.device_put(xnp.ones(3), xf.devices()[0]).committed
    (False, True)
    """
    return self._committed


def _devices(self) -> set:
    """The devices that hold the array or parts of it.

    >>> xnp.ones(3).devices() <= set(xf.devices())
    True
    """
    self._check_if_deleted()
    return self._sharding.device_set


def _attach() -> None:
    cls = ArrayImpl
    cls._check_and_rearrange = lambda self: None  # jaxlib 0.10 calls it on every array it is not told to trust
    cls._check_if_deleted = _check_if_deleted
    cls._value = property(host_value)
    cls._aval = cls.__dict__["aval"]  # as whoever made the array gave it
    cls.aval = property(_seen_aval)
    cls.shape, cls.dtype, cls.ndim, cls.size = property(_shape), property(_dtype), property(_ndim), property(_size)
    cls.weak_type, cls.sharding, cls.committed = property(_weak_type), property(_sharding), property(_committed)
    cls.devices = _devices


_attach()

__all__ = ["ArrayImpl", "DeletedArrayError", "host_value", "put_host", "single_device", "skip_checks"]
