"""What the array API standard asks of a namespace: its version, what it has of devices and dtypes, and `from_dlpack`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import backends, dtypes
from xlafront.core.typing import Array
from xlafront.numpy import dlpack

__array_api_version__ = "2024.12"

_KINDS = {
    "bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"), "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = (*_KINDS["signed integer"], *_KINDS["unsigned integer"])
_KINDS["numeric"] = (*_KINDS["integral"], *_KINDS["real floating"], *_KINDS["complex floating"])


class ArrayNamespaceInfo:
    """What `__array_namespace_info__()` returns; the methods are those of the standard."""

    def capabilities(self) -> dict[str, Any]:
        """What depends on values is not available inside of compiled functions."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: arrays go where the setting says that is in force."""
        return None

    def devices(self) -> list:
        """None, which is the default device, and all devices."""
        return [None, *backends.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of results for which none is given.

        - `device`: not used; they are the same on all.
        """
        found = {"real floating": float, "complex floating": complex, "integral": int, "indexing": int}
        return {name: dtypes.default_dtype(kind) for name, kind in found.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """The dtypes by name, without those of 64 bits where these are off.

        - `device`: not used; they are the same on all.
        - `kind`: of which kinds, such as "real floating" or ("bool", "integral"); all without.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        names = [name for k in kinds for name in _KINDS[k]]
        return {name: np.dtype(name) for name in names if dtypes.canonicalize_dtype(np.dtype(name)) == np.dtype(name)}


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array from one of another library; it shares the memory unless `copy` or another device asks otherwise.

    - `x`: the array, with the methods of the DLPack protocol.
    - `device`: a device or a sharding, where the result is put.
    - `copy`: True copies; False refuses where it would have to be copied.

    >>> xnp.from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    return dlpack.from_dlpack(x, device, copy)


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807  (the standard's name)
    """What this namespace has, for libraries that are written for the array API standard.

    >>> xnp.__array_namespace_info__().default_dtypes()["integral"]
    dtype('int32')
    """
    return ArrayNamespaceInfo()
