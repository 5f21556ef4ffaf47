"""`xnp.float32` and its kin: dtypes that can be called to make an array, and NumPy's abstract types."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import unwrap


class ScalarType(type):
    """A dtype that is also a constructor: `xnp.int8(3)` is an array, `xnp.zeros(2, xnp.int8)` takes it as a dtype."""

    dtype: np.dtype

    def __new__(cls, name: str, dtype: np.dtype):
        return super().__new__(cls, name, (), {"dtype": dtype, "__module__": "xlafront.numpy",
                                               "__doc__": f"The dtype {name}; called, it makes an array of it."})

    def __init__(cls, name, dtype):
        super().__init__(name, (), {})

    def __call__(cls, x: Any = 0):
        return asarray(x, dtype=cls.dtype)

    def __eq__(cls, other):
        return cls is other or cls.dtype.type == other or isinstance(other, np.dtype) and cls.dtype == other

    def __ne__(cls, other):
        return not cls == other

    def __hash__(cls):
        return hash(cls.dtype.type)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls):
        return f"<dtype {cls.__name__}>"


_NAMES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", "complex128", *(d.name for d in (*dtypes.custom_floats, *dtypes.small_ints)))
PUBLIC: dict[str, Any] = {name: ScalarType(name, dtypes.dtype(name)) for name in _NAMES}
PUBLIC["bool"] = PUBLIC["bool_"] = ScalarType("bool", dtypes.bool_)
PUBLIC.update(single=PUBLIC["float32"], double=PUBLIC["float64"], csingle=PUBLIC["complex64"],
             cdouble=PUBLIC["complex128"], float_=PUBLIC["float64"], complex_=PUBLIC["complex128"], int_=PUBLIC["int64"],
             uint=PUBLIC["uint64"])
PUBLIC.update({name: getattr(np, name) for name in (
    "generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating",
    "character", "flexible", "object_", "dtype")}, finfo=dtypes.finfo, iinfo=dtypes.iinfo)


def issubdtype(arg1, arg2) -> bool:
    """`numpy.issubdtype` that knows the dtypes of ml_dtypes and the extended ones."""
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype, kind) -> bool:
    """Whether a dtype is of a kind of the array API: "bool", "integral", "real floating", ..., a dtype, or several."""
    d = dtypes.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(d, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind](d)
    if isinstance(kind, str) and not hasattr(np, kind) and kind not in PUBLIC:
        raise ValueError(f"isdtype knows the kinds {', '.join(sorted(_KINDS))} and dtypes, not {kind!r}.")
    return d == dtypes.dtype(kind)


_KINDS = {
    "bool": lambda d: d == dtypes.bool_,
    "signed integer": lambda d: dtypes.is_integer(d) and not dtypes.is_unsigned(d),
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_float,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: dtypes.is_integer(d) or dtypes.is_inexact(d),
}


def can_cast(from_, to, casting="safe") -> bool:
    """Whether a cast between dtypes follows a NumPy casting rule."""
    return np.can_cast(dtypes.dtype(from_), dtypes.dtype(to), casting=casting)


def iscomplexobj(x) -> bool:
    """Whether the dtype of an array is complex."""
    x = unwrap(x)
    if isinstance(x, (list, tuple)):
        x = asarray(x)
    return x is not None and not isinstance(x, str) and dtypes.operand_type(x)[0].kind == "c"


def isrealobj(x) -> bool:
    """Whether the dtype of an array is not complex."""
    x = unwrap(x)
    return not iscomplexobj(x)


def isscalar(element) -> bool:
    """Whether a value is a number or an array without dimensions."""
    return np.isscalar(element) or hasattr(element, "dtype") and np.ndim(element) == 0


def iterable(y) -> bool:
    """Whether a value can be iterated over."""
    try:
        iter(y)
    except TypeError:
        return False
    return True
