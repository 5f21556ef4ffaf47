"""Python's numbers that know their dtype: what traces of extensions are given where a program has a number beside an array.

To a library that asks for their kinds they are a `float`, an `int` or a `complex`; operations take them at their dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.runtime.jaxlib_compat import know_typed_numbers


class _Typed:
    """What the three kinds have in common."""

    dtype: np.dtype

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


class TypedInt(_Typed, int):
    pass


class TypedFloat(_Typed, float):
    pass


class TypedComplex(_Typed, complex):
    pass


for _kind in (TypedInt, TypedFloat, TypedComplex):
    tracing.abstractors[_kind] = lambda x: ShapedArray((), x.dtype, weak_type=True)
    tracing.literal_kinds.add(_kind)
know_typed_numbers(TypedInt, TypedFloat, TypedComplex)
_KINDS = {"i": (int, TypedInt), "u": (int, TypedInt), "f": (float, TypedFloat), "c": (complex, TypedComplex)}


def as_number(x: Any) -> Any:
    """A scalar of NumPy as a number of Python that knows its dtype, other operands as they are."""
    if not isinstance(x, np.generic) or tracing.is_cut(x):
        return x
    aval = tracing.aval_of(x)
    found = _KINDS.get("f" if dtypes.issubdtype(aval.dtype, np.floating) else aval.dtype.kind)
    return x if found is None else found[1](found[0](x), aval.dtype)
