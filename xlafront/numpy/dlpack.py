"""Exchange of arrays with other libraries by DLPack, without a copy where memory can be shared."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import DTypeLike
from xlafront.lax.device_put import device_put
from xlafront.numpy.creation import array as make_array
from xlafront.runtime import backends, guards
from xlafront.runtime.arrays import ArrayImpl, skip_checks
from xlafront.runtime.dlpack import HOST, buffer_of, capsule_of, device_type
from xlafront.runtime.sharding import single_device

_SUPPORTED = frozenset((
    dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32,
    dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128,
    *[np.dtype(getattr(ml_dtypes, name)) for name in (
        "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")]))


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Return True if arrays of a dtype can be exchanged.

    Args:
        dtype: dtype to test.

    Returns:
        True or False.

    Example:
        >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
        (True, False)
    """
    return dtypes.dtype(dtype) in _SUPPORTED


def device_of(array) -> tuple[int, int]:
    """Return DLPack's device type and number of the device of an array."""
    device = _only_device(array)
    return device_type(device), 0 if device.platform == "cpu" else device.local_hardware_id


def _only_device(array):
    if len(array.devices()) != 1:
        raise BufferError(f"an array on {len(array.devices())} devices cannot be exchanged by DLPack: gather it first "
                          f"(device_put to one device), or exchange its addressable_shards.")
    [device] = array.devices()
    return device


def to_dlpack(array, *, stream: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
    """Export an array as a DLPack capsule.

    Args:
        array: Array on one device.
        stream: On a GPU, number of the stream that waits for the array; otherwise the call blocks until it is computed.
        dl_device: DLPack's device type and number of the target: the device of the array, or the host.
        copy: True copies; False raises an error if a copy is needed.

    Returns:
        DLPack capsule.

    Example:
        >>> "dltensor" in repr(to_dlpack(xnp.arange(3)))
        True
    """
    if isinstance(array, tracing.Tracer):
        raise BufferError("a traced array has no memory to exchange.")
    array._check_if_deleted()
    device = _only_device(array)
    if dl_device is not None and tuple(dl_device) != device_of(array):
        if copy is False:
            raise BufferError(f"the array is on {device}; it cannot be exported to another device with copy=False.")
        if dl_device[0] != HOST:
            raise BufferError(f"DLPack exchange to device {dl_device} is not supported from {device}.")
        return np.asarray(array).__dlpack__()
    if copy:
        array = make_array(array)
    return capsule_of(array.block_until_ready(), stream)


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> ArrayImpl:
    """Convert an array of another library, sharing its memory where possible.

    Args:
        external_array: Array with the methods `__dlpack__` and `__dlpack_device__`.
        device: Device or single-device sharding of the result.
        copy: True copies; False raises an error if a copy is needed.

    Returns:
        Array with the same elements.

    Example:
        >>> from_dlpack(np.arange(3, dtype=np.int32))
        Array([0, 1, 2], dtype=int32)
    """
    if not hasattr(external_array, "__dlpack__"):
        raise TypeError(f"from_dlpack needs an array with a __dlpack__ method, got {type(external_array).__name__}.")
    kind, index = external_array.__dlpack_device__()
    name = "cpu" if kind == HOST else "cuda"
    client = backends.client(name)
    source = client.local_devices()[0] if kind == HOST else next(
        d for d in client.local_devices() if d.local_hardware_id == index)
    target = None
    if device is not None:
        target = device if hasattr(device, "platform") else next(iter(device.device_set))
    needs_transfer = target is not None and target != source
    if needs_transfer and copy is False:
        raise ValueError(f"from_dlpack(copy=False) cannot move the array from {source} to {target}.")
    buffer, shape, dtype = buffer_of(external_array, source, copy is not False)
    result = ArrayImpl(ShapedArray(shape, dtype), single_device(source), [buffer], committed=True, **skip_checks)
    canonical = dtypes.canonicalize_dtype(dtype)
    if canonical != dtype:  # a 64-bit type while they are disabled
        if copy is False:
            raise ValueError(f"from_dlpack(copy=False) cannot convert an array of dtype {dtype} while 64-bit types are "
                             "disabled: set enable_x64.")
        with guards.from_host():
            result = make_array(np.asarray(result), dtype=canonical)
    elif copy:
        result = make_array(result)
    return device_put(result, target) if needs_transfer else result
