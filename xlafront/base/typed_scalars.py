"""Python scalars with a dtype, which traces of extensions get for scalar literals of a jaxpr.

They are instances of `float`, `int` or `complex`; operations use their dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import register_typed_scalars


class Typed:
    """Base class of the three types."""

    dtype: np.dtype
    weak_type = True  # as that of Python scalars
    shape: tuple = ()  # rules read these attributes
    ndim, size = 0, 1

    def __new__(cls, value: Any, dtype: np.dtype):
        number = super().__new__(cls, value)  # type: ignore[call-arg]
        number.dtype = dtype
        return number

    @property
    def plain(self) -> Any:
        """The Python scalar without its dtype."""
        kind: Any = next(kind for kind in (int, float, complex) if isinstance(self, kind))
        return kind(self)

    def __getnewargs__(self):
        return self.plain, self.dtype

    def __repr__(self):
        return f"{type(self).__name__}({self}, dtype={self.dtype.name})"

    def __str__(self):
        return str(self.plain)


class TypedInt(Typed, int):
    pass


class TypedFloat(Typed, float):
    pass


class TypedComplex(Typed, complex):
    pass


register_typed_scalars(TypedInt, TypedFloat, TypedComplex)
KINDS = {"i": (int, TypedInt), "u": (int, TypedInt), "f": (float, TypedFloat), "c": (complex, TypedComplex)}


def typed(x: Any, dtype: np.dtype) -> Any:
    """Return a Python scalar with a dtype."""
    return KINDS[dtype.kind][1](x, dtype)
