"""DLPack capsules: their headers, and jaxlib's conversions."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np

from xlafront.base.jax_names import answered
from xlafront.base.jaxlib_compat import _jax

HOST = 1  # DLPack's code for CPU memory
_DEVICE_TYPES = {"cpu": HOST, "gpu": 2, "cuda": 2}


def device_type(device) -> int:
    try:
        return _DEVICE_TYPES[device.platform]
    except KeyError:
        raise BufferError(f"arrays on {device.platform} cannot be exchanged by DLPack: copy to the host first.") from None


def capsule_of(array, stream=None):
    return _jax.buffer_to_dlpack_managed_tensor(array, stream=stream)


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64))]


_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def type_of_capsule(capsule) -> tuple[tuple[int, ...], np.dtype]:
    """Read shape and dtype from the C structure in the capsule."""
    tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
    return tuple(tensor.shape[:tensor.ndim]), _dtype(tensor.code, tensor.bits)


_KINDS = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_SMALL = {7: "float8_e3m4", 8: "float8_e4m3", 9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz",
          12: "float8_e5m2", 13: "float8_e5m2fnuz", 14: "float8_e8m0fnu"}


def _dtype(code: int, bits: int) -> np.dtype:
    if code == 4:
        return np.dtype(ml_dtypes.bfloat16)
    if code == 6:
        return np.dtype(np.bool_)
    if code in _SMALL:
        return np.dtype(getattr(ml_dtypes, _SMALL[code]))
    if code not in _KINDS:
        raise BufferError(f"DLPack elements of type code {code} are not supported.")
    return np.dtype(f"{_KINDS[code]}{bits}")


def buffer_of(external, device, may_copy: bool):
    """Import another library's array, without a copy if possible; return an array without a type, its shape and its dtype."""
    stream = None
    if device.platform != "cpu":
        stream = device.get_stream_for_external_ready_events()
    capsule = external.__dlpack__(stream=stream) if stream is not None else external.__dlpack__()
    shape, dtype = type_of_capsule(capsule)
    try:
        array = answered(_jax.dlpack_managed_tensor_to_buffer, capsule, device, stream, None if may_copy else False)
    except _jax.JaxRuntimeError as e:
        raise ValueError(f"the memory of this array cannot be shared without a copy: {e}") from None
    return array, shape, dtype
