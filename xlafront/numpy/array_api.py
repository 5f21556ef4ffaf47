"""Functions that the array API standard requires of a namespace: version, information on devices and dtypes, `from_dlpack`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.typing import Array
from xlafront.numpy import dlpack
from xlafront.runtime import backends

__array_api_version__ = "2025.12"

_KINDS = {
    "bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"), "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = (*_KINDS["signed integer"], *_KINDS["unsigned integer"])
_KINDS["numeric"] = (*_KINDS["integral"], *_KINDS["real floating"], *_KINDS["complex floating"])


class ArrayNamespaceInfo:
    """Result of `__array_namespace_info__()`, with the methods of the standard."""

    def capabilities(self) -> dict[str, Any]:
        """Return the optional features: operations with data-dependent shapes do not work in compiled functions."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """Return None: new arrays use the `default_device` setting."""
        return None

    def devices(self) -> list:
        """Return all devices, and None for the default device."""
        return [None, *backends.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the default dtypes by kind.

        Args:
            device: Not used; all devices have the same dtypes.
        """
        kinds = {"real floating": float, "complex floating": complex, "integral": int, "indexing": int}
        return {name: dtypes.default_dtype(kind) for name, kind in kinds.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """Return the dtypes by name; 64-bit types only if they are enabled.

        Args:
            device: Not used; all devices have the same dtypes.
            kind: Kind or kinds of dtypes, such as "real floating" or ("bool", "integral"). Default: all.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        names = [name for k in kinds for name in _KINDS[k]]
        return {name: np.dtype(name) for name in names if dtypes.canonicalize_dtype(np.dtype(name)) == np.dtype(name)}


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Convert an array of another library by the DLPack protocol.

    It shares the memory unless `copy` is set or another device is requested.

    Args:
        x: Array with the methods of the DLPack protocol.
        device: Device or sharding of the result.
        copy: True copies; False raises an error if a copy is needed.

    Returns:
        Array with the same elements.

    Example:
        >>> xnp.from_dlpack(np.arange(3, dtype=np.int32))
        Array([0, 1, 2], dtype=int32)
    """
    return dlpack.from_dlpack(x, device, copy)


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807  (the standard's name)
    """Return information on this namespace, for libraries written for the array API standard.

    Returns:
        Object with the methods of the standard.

    Example:
        >>> xnp.__array_namespace_info__().default_dtypes()["integral"]
        dtype('int32')
    """
    return ArrayNamespaceInfo()
