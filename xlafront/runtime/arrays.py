"""Arrays on devices: creation from host values, transfers, and reading values.

The array class is jaxlib's `ArrayImpl`. Here it gets what the runtime itself needs; `xlafront.numpy` attaches the NumPy-like
methods and operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.base.jax_names import answered, buffers_of, host_copy
from xlafront.base.jaxlib_compat import ArrayImpl, batched_device_put
from xlafront.runtime import guards
from xlafront.runtime.sharding import SingleDeviceSharding, single_device
from xlafront.runtime.transfers import shard_indices_and_devices, skip_checks


def put_host(value, aval, sharding, committed: bool) -> Any:
    """Put a host value on devices, with this type and sharding."""
    if not aval.dtype.itemsize:  # float0, for tangents of integers, exists in NumPy only
        return np.zeros(aval.shape, aval.dtype)
    host = np.asarray(value, dtype=aval.dtype)
    if aval.dtype.itemsize > 4 and not config.enable_x64.value:
        with config.enable_x64(True):  # otherwise jaxlib truncates to 32 bits, contrary to the type
            return _put_host(host, aval, sharding, committed)
    return _put_host(host, aval, sharding, committed)


def _put_host(host: np.ndarray, aval, sharding, committed: bool) -> ArrayImpl:
    if type(sharding) is SingleDeviceSharding:
        return batched_device_put(aval, sharding, [host], [sharding._device], committed)
    indices, devices = shard_indices_and_devices(sharding, host.shape)
    return batched_device_put(aval, sharding, [host[index] for index in indices], devices, committed)


def host_value(array: ArrayImpl) -> np.ndarray:
    """Return the value as a read-only NumPy array, after waiting for it. Cached, so that repeated reads are free."""
    array._check_if_deleted()
    cached = array._npy_value
    if cached is not None:
        return cached
    buffers = buffers_of(array)  # empty if other processes have all shards
    if buffers and (array.sharding.num_devices == 1 or array.sharding.is_fully_replicated):
        source = array if len(buffers) == 1 else answered(array._fully_replicated_shard)
        value, did_copy = host_copy(source)
        value = _retype(value, array._aval)
        value.flags.writeable = False
        if did_copy:
            array._npy_value = value
        return value
    if not array.sharding.is_fully_addressable:
        raise RuntimeError(
            f"the array of shape {array._aval.shape} over {array.sharding} has shards on devices of other processes, so that "
            "its value cannot be read here. Use experimental.multihost_utils.process_allgather(x, tiled=True) for the global "
            "array, in all processes, or x.addressable_shards for the shards of this process.")
    spec = getattr(array.sharding, "spec", None)
    if spec is not None and spec.unreduced:
        raise NotImplementedError(
            f"the array of shape {array._aval.shape} over {array.sharding} is unreduced: its value is the "
            f"{spec.unreduced_kind.name} of what the devices hold along {sorted(map(str, spec.unreduced))}. Reduce it "
            f"first with reshard(x, P(...)), or read the operands of the reduction in x.addressable_shards.")
    value = np.empty(array._aval.shape, array._aval.dtype)
    if not value.size:
        return value
    guards.check("device_to_host", f"An array of type {array._aval} is assembled from its shards")  # jaxlib ignores CPUs
    indices, _ = shard_indices_and_devices(array._sharding, array._aval.shape)
    array.block_until_ready()
    first_copies = {tuple([(s.start, s.stop) for s in index]): i for i, index in reversed(list(enumerate(indices)))}
    for i in first_copies.values():  # copy one of several replicas; the buffers have no dtype of ours
        value[indices[i]] = _retype(host_copy(buffers[i])[0], array._aval)
    value.flags.writeable = False
    array._npy_value = value
    return value


def _retype(value: np.ndarray, aval) -> np.ndarray:
    return value if value.dtype == aval.dtype else value.view(aval.dtype)


class DeletedArrayError(RuntimeError, ValueError):
    """The value of an array was deleted. Also a ValueError, as the runtime raises for arguments of compiled functions.

    Args:
        array: The array.
        use: Text on the attempted use.
    """

    def __init__(self, array: ArrayImpl, use: str = ""):
        super().__init__(
            f"Array has been deleted with shape={array._aval}{use}: its buffer was deleted or donated to an earlier call "
            f"(donate_argnums), or freed by .delete(). Use what that call returned, or do not donate the argument.")


def _check_if_deleted(self) -> None:
    if self.is_deleted():
        raise DeletedArrayError(self)


def _aval_with_sharding(self) -> Any:
    """The type of the array as transformations see it, including what follows from the sharding.

    Example:
        >>> xnp.ones((2, 3)).aval
        ShapedArray(float32[2,3])
    """
    sharding = self._sharding
    default = type(sharding) is SingleDeviceSharding and sharding._memory_kind in (None, "device")
    return self._aval if default else self._aval.on(sharding)


def _shape(self) -> tuple[int, ...]:
    """The sizes of the dimensions.

    Example:
        >>> xnp.ones((2, 3)).shape
        (2, 3)
    """
    return self._aval.shape


def _dtype(self) -> np.dtype:
    """The dtype of the elements.

    Example:
        >>> xnp.ones((2, 3)).dtype
        dtype('float32')
    """
    return self._aval.dtype


def _ndim(self) -> int:
    """The number of dimensions.

    Example:
        >>> xnp.ones((2, 3)).ndim
        2
    """
    return self._aval.ndim


def _size(self) -> int:
    """The number of elements.

    Example:
        >>> xnp.ones((2, 3)).size
        6
    """
    return self._aval.size


def _weak_type(self) -> bool:
    """True if the dtype is weak, as that of Python scalars: operations take the dtype of the other operand.

    Example:
        >>> xnp.asarray(2.0).weak_type, (xnp.asarray(2.0) * xnp.ones(3, xnp.float16)).dtype
        (True, dtype('float16'))
    """
    return self._aval.weak_type


def _sharding(self) -> Any:
    """The sharding of the array over devices.

    Example:
        >>> xnp.ones(3).sharding.num_devices
        1
    """
    return self._sharding


def _committed(self) -> bool:
    """True if the array is committed: it was placed explicitly, and computations with it run on its devices.

    Example:
        >>> xnp.ones(3).committed, xf.device_put(xnp.ones(3), xf.devices()[0]).committed
        (False, True)
    """
    return self._committed


def _devices(self) -> set:
    """Return the devices that hold the array or shards of it.

    Returns:
        A set of devices.

    Example:
        >>> xnp.ones(3).devices() <= set(xf.devices())
        True
    """
    self._check_if_deleted()
    return self._sharding.device_set


def _attach() -> None:
    cls = ArrayImpl
    cls._check_and_rearrange = lambda self: None  # jaxlib 0.10 calls it for every array with a sharding of ours
    cls._check_if_deleted = _check_if_deleted
    cls._value = property(host_value)
    cls._aval = cls.__dict__["aval"]  # the type given at creation
    cls.aval = property(_aval_with_sharding)
    cls.shape, cls.dtype, cls.ndim, cls.size = property(_shape), property(_dtype), property(_ndim), property(_size)
    cls.weak_type, cls.sharding, cls.committed = property(_weak_type), property(_sharding), property(_committed)
    cls.devices = _devices


_attach()

__all__ = ["ArrayImpl", "DeletedArrayError", "host_value", "put_host", "single_device", "skip_checks"]
