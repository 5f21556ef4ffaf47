"""Scalar types such as `xnp.float32`, which are dtypes and constructors of arrays, NumPy's abstract types, and type
predicates.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.typing import Array, DTypeLike
from xlafront.numpy.creation import asarray
from xlafront.numpy.promotion import unwrap

_DOCSTRING = """The dtype {name}; a call creates an array of it.

Args:
    x: The values of the array: a number, a sequence or an array.

Example:
    >>> xnp.dtype(xnp.{name})
    {dtype!r}
"""


class ScalarType(type):
    """A dtype that is also a constructor: `xnp.int8(3)` is an array, `xnp.zeros(2, xnp.int8)` uses it as a dtype."""

    dtype: np.dtype

    @classmethod
    def of(cls, name: str, dtype: np.dtype) -> ScalarType:
        documentation = _DOCSTRING.format(name=name, dtype=dtype)
        return cls(name, (), {"dtype": dtype, "__module__": "xlafront.numpy", "__doc__": documentation})

    def __call__(cls, x: Any = 0) -> Array:
        return asarray(x, dtype=cls.dtype)

    def __eq__(cls, other):
        return cls is other or cls.dtype.type == other or isinstance(other, np.dtype) and cls.dtype == other

    def __ne__(cls, other):
        return not cls == other

    def __hash__(cls):
        return hash(cls.dtype.type)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.dtype.type)


_NAMES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", "complex128", *(d.name for d in (*dtypes.custom_floats, *dtypes.small_ints)))
PUBLIC: dict[str, Any] = {name: ScalarType.of(name, dtypes.dtype(name)) for name in _NAMES}
PUBLIC["bool"] = PUBLIC["bool_"] = ScalarType.of("bool", dtypes.bool_)
PUBLIC.update(single=PUBLIC["float32"], double=PUBLIC["float64"], csingle=PUBLIC["complex64"],
             cdouble=PUBLIC["complex128"], float_=PUBLIC["float64"], complex_=PUBLIC["complex128"], int_=PUBLIC["int64"],
             uint=PUBLIC["uint64"])
PUBLIC.update({name: getattr(np, name) for name in (
    "generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating",
    "character", "flexible", "object_", "dtype")}, finfo=dtypes.finfo, iinfo=dtypes.iinfo)


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Return True if a dtype is equal to another one or belongs to an abstract type.

    Args:
        arg1: A dtype.
        arg2: A dtype, or an abstract type such as `xnp.floating`.

    Returns:
        True if `arg1` is a subtype of `arg2`.

    Note:
        Unlike `numpy.issubdtype`, this covers dtypes that NumPy lacks, such as bfloat16.

    Example:
        >>> xnp.issubdtype(xnp.bfloat16, xnp.floating)
        True
    """
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Return True if a dtype is of a kind of the array API.

    Args:
        dtype: The dtype.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
            a dtype, or a tuple of these, of which one must match.

    Returns:
        True if the dtype matches.

    Example:
        >>> xnp.isdtype(xnp.int8, ("integral", "bool"))
        True
    """
    if isinstance(dtype, (int, float, complex, np.ndarray)) and not isinstance(dtype, np.generic):
        raise TypeError(f"isdtype takes a dtype, not {dtype!r}: pass the dtype of an array, x.dtype.")
    d = dtypes.dtype(dtype)
    if isinstance(kind, tuple):
        return any([isdtype(d, k) for k in kind])  # a list, so that all kinds are checked
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind](d)
    problem = f"isdtype supports the kinds {', '.join(sorted(_KINDS))} and dtypes, not {kind!r}."
    if isinstance(kind, (int, float, complex, np.ndarray)) and not isinstance(kind, np.generic):
        raise TypeError(problem)
    try:
        return d == dtypes.dtype(kind)
    except TypeError as e:
        raise (ValueError(problem) if isinstance(kind, str) else TypeError(problem)) from e


_KINDS = {
    "bool": lambda d: d == dtypes.bool_,
    "signed integer": lambda d: dtypes.is_integer(d) and not dtypes.is_unsigned(d),
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_float,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: dtypes.is_integer(d) or dtypes.is_inexact(d),
}


def can_cast(from_: DTypeLike, to: DTypeLike, casting: str = "safe") -> bool:
    """Return True if a dtype can be converted to another one under a casting rule.

    Args:
        from_, to: The dtypes.
        casting: The rule: "no", "equiv", "safe" (no loss of information), "same_kind" or "unsafe".

    Returns:
        True if the conversion is allowed.

    Example:
        >>> xnp.can_cast(xnp.int32, xnp.int16)
        False
    """
    try:
        return _can_cast(from_, to, casting)
    except TypeError:  # also raised for unhashable arguments
        return _can_cast.__wrapped__(from_, to, casting)


@functools.lru_cache(1024, typed=True)
def _can_cast(from_, to, casting) -> bool:
    if from_ is None or not isinstance(to, (str, type, np.dtype, dtypes.ExtendedDType)):
        raise TypeError(f"can_cast takes dtypes, got {from_!r:.60} and {to!r:.60}.")
    if type(from_) in dtypes.python_scalar_dtypes and type(from_) is not bool:
        raise TypeError(f"can_cast takes dtypes, not the number {from_!r}, whose conversion would depend on its value.")
    return np.can_cast(dtypes.dtype(from_), dtypes.dtype(to), casting)


def iscomplexobj(x: Any) -> bool:
    """Return True if the dtype of an array is complex, regardless of its values.

    Args:
        x: An array, a number or a list.

    Returns:
        True for a complex dtype.

    Example:
        >>> xnp.iscomplexobj(xnp.array([1 + 0j]))
        True
    """
    x = unwrap(x)
    own = getattr(x, "dtype", None)
    if isinstance(own, np.dtype):
        return own.kind == "c"
    if isinstance(x, (list, tuple)):
        x = asarray(x)
    return x is not None and not isinstance(x, str) and dtypes.operand_type(x)[0].kind == "c"


def isrealobj(x: Any) -> bool:
    """Return True if the dtype of an array is not complex, regardless of its values.

    Args:
        x: An array, a number or a list.

    Returns:
        True unless the dtype is complex.

    Example:
        >>> xnp.isrealobj(xnp.array([1 + 0j]))
        False
    """
    x = unwrap(x)
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Return True if a value is a number, a string or an array without dimensions.

    Args:
        element: The value.

    Returns:
        True for a scalar.

    Note:
        `numpy.isscalar` returns False for all arrays.

    Example:
        >>> xnp.isscalar(xnp.array(3.0))
        True
    """
    return np.isscalar(element) or hasattr(element, "dtype") and np.ndim(element) == 0


def iterable(y: Any) -> bool:
    """Return True if a value can be iterated over.

    Args:
        y: The value.

    Returns:
        True if `iter(y)` succeeds.

    Example:
        >>> xnp.iterable(xnp.arange(3))
        True
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True
