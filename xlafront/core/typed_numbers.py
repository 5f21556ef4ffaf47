"""Python's numbers that know their dtype: what traces of extensions are given where a program has a number beside an array.

To a library that asks for their kinds they are a `float`, an `int` or a `complex`; operations take them at their dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.runtime.jaxlib_compat import know_typed_numbers


class Typed:
    """What the three kinds have in common."""

    dtype: np.dtype
    weak_type = True  # as numbers are
    shape: tuple = ()  # rules ask for these
    ndim, size = 0, 1

    def __new__(cls, value: Any, dtype: np.dtype):
        number = super().__new__(cls, value)  # type: ignore[call-arg]
        number.dtype = dtype
        return number

    @property
    def plain(self) -> Any:
        """The number without its dtype."""
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


know_typed_numbers(TypedInt, TypedFloat, TypedComplex)
KINDS = {"i": (int, TypedInt), "u": (int, TypedInt), "f": (float, TypedFloat), "c": (complex, TypedComplex)}


def typed(x: Any, dtype: np.dtype) -> Any:
    """A number of Python as one that knows its dtype."""
    return KINDS[dtype.kind][1](x, dtype)
