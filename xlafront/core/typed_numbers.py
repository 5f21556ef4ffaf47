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

    def __new__(cls, value: Any, dtype: np.dtype):
        number = super().__new__(cls, value)  # type: ignore[call-arg]
        number.dtype = dtype
        return number

    def __getnewargs__(self):
        return next(kind for kind in (int, float, complex) if isinstance(self, kind))(self), self.dtype

    def __repr__(self):
        return f"{type(self).__name__}({self}, dtype={self.dtype.name})"

    def __str__(self):
        return str(self.__getnewargs__()[0])


class TypedInt(Typed, int):
    pass


class TypedFloat(Typed, float):
    pass


class TypedComplex(Typed, complex):
    pass


know_typed_numbers(TypedInt, TypedFloat, TypedComplex)
KINDS = {"i": (int, TypedInt), "u": (int, TypedInt), "f": (float, TypedFloat), "c": (complex, TypedComplex)}
