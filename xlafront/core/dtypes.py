"""Element types: the supported dtypes, their promotion and canonicalization.

Promotion is a lattice (`_LATTICE` below): the dtype of a result is the least upper bound of those of the operands. Python
scalars, and arrays made from them, are *weakly* typed: they are low in the lattice, at `i*`, `f*` and `c*`, and take the
dtype of the other operand.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlafront.base import config
from xlafront.core import source


class TypePromotionError(ValueError):
    """Raised where dtypes have no common dtype to which both promote implicitly."""


# Extended dtypes: elements that are not numbers, such as random keys.


class extended(np.generic):
    """Base class of the scalar types of extended dtypes."""

    __module__ = "xlafront.dtypes"


class prng_key(extended):
    """Scalar type of random keys: `issubdtype(key.dtype, prng_key)`."""

    __module__ = "xlafront.dtypes"


class ExtendedDType:
    """A dtype whose elements are small arrays of a physical dtype.

    Subclasses set `name` and `type`, and are hashable and equal by content. Those of extensions set `_rules`, functions of
    the dtype: `physical_element_aval` is the type of an element's array, `tangent_dtype` that of its tangents, `zero` and
    `add` create and accumulate tangents, `convert_from` and `convert_to` are True for the dtypes that it converts from and
    to.
    """

    name: str
    type: type
    _rules: Any
    # For messages.
    no_numbers = ("its elements are not numbers. Convert them with lax.convert_element_type, to a dtype that its rules allow.")

    @property
    def physical_element_shape(self) -> tuple[int, ...]:
        return tuple(self._rules.physical_element_aval(self).shape)

    @property
    def physical_dtype(self) -> np.dtype:
        return np.dtype(self._rules.physical_element_aval(self).dtype)

    @property
    def itemsize(self) -> int:
        return math.prod(self.physical_element_shape) * np.dtype(self.physical_dtype).itemsize

    kind = "V"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


class PRNGKeyDType(ExtendedDType):
    """The dtype of random keys of one implementation, printed as `key<fry>`."""

    __slots__ = ("impl",)

    type = prng_key
    no_numbers = "random keys are not numbers. Use random.key_data(keys) for their words."

    def __init__(self, impl: Any) -> None:
        self.impl = impl

    @property
    def name(self) -> str:
        return f"key<{self.impl.tag}>"

    @property
    def physical_element_shape(self) -> tuple[int, ...]:
        return self.impl.key_shape

    physical_dtype = np.dtype("uint32")

    def __reduce__(self) -> Any:
        return PRNGKeyDType, (self.impl,)

    def __setstate__(self, state: dict) -> None:
        """Restore from a pickle of JAX."""
        self.impl = state["_impl"]

    def __eq__(self, other: object) -> bool:
        return type(other) is PRNGKeyDType and self.impl == other.impl

    def __hash__(self) -> int:
        return hash((PRNGKeyDType, self.impl))


# Tangents of integers and booleans have no information; neither does their dtype.
float0 = np.dtype([("float0", np.void, 0)])

_SMALL_FLOATS = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
                 "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
_SMALL_INTS = ("int1", "int2", "int4", "uint1", "uint2", "uint4")

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
bfloat16 = np.dtype(ml_dtypes.bfloat16)

small_floats = tuple(np.dtype(getattr(ml_dtypes, name)) for name in _SMALL_FLOATS)
small_ints = tuple(np.dtype(getattr(ml_dtypes, name)) for name in _SMALL_INTS)
custom_floats = (bfloat16, *small_floats)
within_programs = frozenset(d for d in small_floats if d.name.startswith("float6"))  # the runtime has no buffers of these

python_scalar_dtypes: dict[type, np.dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}

STRINGS = np.dtypes.StringDType()  # arrays of them exist in the memory of CPUs; no operation takes them
supported = frozenset((bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64,
                       complex64, complex128, float0, *custom_floats, *small_ints))
numpy_scalar_types = frozenset([d.type for d in supported])

_TO_32 = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}
only_with_x64 = frozenset(_TO_32)  # arrays get these only while `enable_x64` is on, and keep them afterwards


def dtype(x: Any) -> Any:
    """Return the dtype that a dtype, a scalar type or a string names, or that of an array; not canonicalized."""
    if isinstance(x, (np.dtype, ExtendedDType)):
        return x
    if isinstance(x, str):
        return _BY_NAME[x] if x in _BY_NAME else np.dtype(x)
    if isinstance(x, type) and x in python_scalar_dtypes:
        return python_scalar_dtypes[x]
    found = getattr(x, "dtype", None)
    if isinstance(found, (np.dtype, ExtendedDType)):
        return found
    if (kind := type(plain_number(x))) in python_scalar_dtypes:
        return python_scalar_dtypes[kind]
    return np.dtype(x)


def plain_number(x: Any) -> Any:
    """Return an instance of a subclass of a Python scalar type as that scalar; other values unchanged.

    Members of an `IntEnum` are such instances.
    """
    if type(x) not in python_scalar_dtypes and isinstance(x, (int, float, complex)) and not hasattr(x, "dtype"):
        if isinstance(x, int):
            return int.__index__(x)
        return float.__float__(x) if isinstance(x, float) else complex.__complex__(x)
    return x


_BY_NAME = {d.name: d for d in (bfloat16, *small_floats, *small_ints)}


def requested_dtype(x: Any) -> Any:
    """Return the dtype that a `dtype` argument names.

    Python scalars raise: `3` in place of a dtype is a mistake, not the dtype of 3.
    """
    if isinstance(x, (np.dtype, ExtendedDType)):
        return x
    if isinstance(x, np.generic):
        return x.dtype
    if isinstance(x, (type, str)):
        return dtype(x)
    kind = type(plain_number(x))
    if kind in python_scalar_dtypes or isinstance(x, (np.ndarray, tuple)):
        hint = ""
        if kind is int:
            hint = f" Pass the sizes of a shape as one tuple, as in zeros((2, {x}))."
        elif kind not in python_scalar_dtypes and kind is not tuple:
            hint = " Pass its dtype, x.dtype."
        raise TypeError(f"a value cannot be interpreted as a data type, got {x!r:.60}.{hint}")
    if getattr(x, "aval", None) is not None:
        raise ValueError(f"an array was passed as a dtype: {x.aval}. Pass its dtype, x.dtype.")
    return dtype(x)


class UnsupportedDTypeError(TypeError, ValueError):
    """Raised for a dtype that no array can have. Also a ValueError, which callers of promotion functions expect."""


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """Return the dtype that arrays get: 64-bit dtypes become 32-bit ones unless `enable_x64` is on.

    Args:
        dtype: A dtype, a scalar type or a name.
        allow_extended_dtype: If True, return extended dtypes, such as that of random keys, unchanged. Default: they raise.

    Returns:
        The canonical dtype.

    Raises:
        TypeError: If no array can have the dtype.
        ValueError: If the dtype is an extended one and these are not allowed.

    Example:
        >>> xf.dtypes.canonicalize_dtype("float64")
        dtype('float32')
    """
    x64 = config.enable_x64.value
    try:
        return _canonical[x64][dtype]
    except (KeyError, TypeError):  # not cached, or not a dtype
        pass
    d = dtype if isinstance(dtype, np.dtype) else requested_dtype(dtype)
    if isinstance(d, ExtendedDType):
        if allow_extended_dtype:
            return d
        raise ValueError(f"{d} is an extended dtype, which cannot be used here")
    if not x64:
        d = _TO_32.get(d, d)
    if d not in supported and d != STRINGS:
        d = d if d.kind == "T" else d.newbyteorder("=")
        if d not in supported:
            raise UnsupportedDTypeError(
                f"only number, bool and string dtypes are supported (strings only in host memory): an array of dtype {d} is "
                f"not a valid JAX type. Use booleans or numbers, or encode the elements first.")
    if isinstance(dtype, (np.dtype, type, str)) and len(_canonical[x64]) < 256:
        _canonical[x64][dtype] = d
    return d


_canonical: dict[bool, dict[Any, np.dtype]] = {False: {}, True: {}}  # cached results for each value of enable_x64


def array_dtype(dtype: Any) -> Any:
    """Return the dtype of results of operations on arrays of a dtype.

    This is `canonicalize_dtype`, except that arrays keep 64-bit dtypes if explicitly requested ones are allowed.
    """
    return dtype if config.explicit_x64_dtypes.value == "allow" else canonicalize_dtype(dtype, allow_extended_dtype=True)


def default_dtype(kind: type) -> Any:
    """Return the canonical dtype of Python scalars of a type: `float -> float32`."""
    return canonicalize_dtype(python_scalar_dtypes[kind])


def check_user_dtype(x: Any, function: str) -> Any:
    """Canonicalize a dtype that a user requested; warn if this truncates it."""
    d = requested_dtype(x)
    canonical = canonicalize_dtype(d, allow_extended_dtype=True)
    if canonical != d and not (isinstance(x, type) and x in python_scalar_dtypes) and _TO_32.get(d) == canonical:
        if config.explicit_x64_dtypes.value == "allow":
            return d
        if config.explicit_x64_dtypes.value == "error":
            raise ValueError(f"{function} was explicitly requested to use dtype {d}, which is not available while 64-bit types "
                             f"are off. Switch them on with config.update('enable_x64', True), or request {canonical}.")
        source.warn(f"Explicitly requested dtype {d} is not available in {function} and truncated to {canonical}: 64-bit "
                    f"types are off. Switch them on with config.update('enable_x64', True) or XLAFRONT_ENABLE_X64=1.")
    return canonical


def check_int_fits(value: int, d: np.dtype) -> None:
    if d == int32 and not -2147483648 <= value <= 2147483647:
        raise OverflowError(f"the Python int {value} does not fit {d}. Switch 64-bit types on (enable_x64), or use "
                            f"a float or np.uint32.")
    if d == int64 and not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"the Python int {value} does not fit {d}: use a float.")


# Kinds of dtypes


def issubdtype(a: Any, b: Any) -> bool:
    """Return True if a dtype belongs to a kind of dtypes.

    Args:
        a: A dtype, a scalar type or the name of one.
        b: The kind, such as `np.floating` or `xf.dtypes.prng_key`, or another dtype.

    Returns:
        True if `a` is `b` or belongs to it.

    Note:
        Unlike `numpy.issubdtype`, it supports bfloat16, float8, int4 and random keys.

    Example:
        >>> xf.dtypes.issubdtype(xnp.bfloat16, np.floating)
        True
    """
    # Hot: libraries call it for each array.
    try:
        return _is_subdtype(a, b)
    except TypeError:  # also raised for unhashable arguments
        return _is_subdtype.__wrapped__(*[x.__numpy_dtype__ if hasattr(type(x), "__numpy_dtype__") else x for x in (a, b)])


@functools.lru_cache(1024, typed=True)
def _is_subdtype(a: Any, b: Any) -> bool:
    if isinstance(a, ExtendedDType):
        kind: Any = a.type
    elif isinstance(a, type) and issubclass(a, extended):
        kind = a
    else:
        kind = None
    if kind is not None:
        if isinstance(b, ExtendedDType):
            return a == b
        return isinstance(b, type) and issubclass(b, np.generic) and issubclass(kind, b)
    if isinstance(b, ExtendedDType) or (isinstance(b, type) and issubclass(b, extended)):
        return False
    if isinstance(a, type) and a in _ABSTRACT:
        return isinstance(b, type) and issubclass(a, b)
    a = requested_dtype(a)
    if isinstance(b, type) and b in _ABSTRACT:
        return b in _abstract_above(a) if a in custom_floats or a in small_ints else np.issubdtype(a, b)
    if a in custom_floats or a in small_ints:
        return _is_dtype(b) and dtype(b) == a
    return np.issubdtype(a, dtype(b) if _is_dtype(b) else b)


def _abstract_above(d: np.dtype) -> tuple[type, ...]:
    """Return NumPy's abstract types above a dtype of ml_dtypes, which NumPy itself takes for opaque bytes."""
    if d in custom_floats:
        return np.floating, np.inexact, np.number, np.generic
    return np.unsignedinteger if is_unsigned(d) else np.signedinteger, np.integer, np.number, np.generic


_ABSTRACT = (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating,
             np.complexfloating, np.character, np.flexible)


def _is_dtype(b: Any) -> bool:
    try:
        dtype(b)
    except TypeError:
        return False
    return True


def is_float(d: np.dtype | ExtendedDType) -> bool:
    return d.kind == "f" or d in custom_floats


def is_complex(d: np.dtype | ExtendedDType) -> bool:
    return d.kind == "c"


def is_inexact(d: np.dtype | ExtendedDType) -> bool:
    return d.kind in "fc" or d in custom_floats


def is_integer(d: np.dtype | ExtendedDType) -> bool:
    return d.kind in "iu" or d in small_ints


def is_unsigned(d: np.dtype | ExtendedDType) -> bool:
    return d.kind == "u" or (d in small_ints and d.name.startswith("u"))


def is_extended(d: Any) -> bool:
    return isinstance(d, ExtendedDType)


def scalar_type_of(x: Any) -> type:
    """Return the Python scalar type (`bool`, `int`, `float` or `complex`) of the kind of a dtype.

    Args:
        x: An array, a scalar, a dtype or the name of one.

    Returns:
        The Python type.

    Raises:
        TypeError: If no Python scalar type is of that kind.

    Example:
        >>> xf.dtypes.scalar_type_of(np.int8(1))
        <class 'int'>
    """
    if x is None:
        raise ValueError("scalar_type_of takes a value or a dtype, got None.")
    d = dtype(x)
    if d == bool_:
        return bool
    if is_integer(d):
        return int
    if is_float(d):
        return float
    if is_complex(d):
        return complex
    raise TypeError(f"{x!r} has no Python scalar type")


def warn_of_discarded_imaginary(caller: str, source_dtype: Any, target: Any) -> None:
    """Warn if a conversion turns complex numbers into real ones."""
    if is_complex(source_dtype) and isinstance(target, np.dtype) and not is_complex(target):
        source.warn(f"Casting complex values to real discards the imaginary part: {caller} converts {source_dtype} to "
                    f"{target}. Use x.real to do so explicitly.", np.exceptions.ComplexWarning)


def itemsize_bits(dtype: Any) -> int:
    """Return the number of bits of an element of a dtype.

    For dtypes of fewer than 8 bits this is less than 8 times the `itemsize`.

    Args:
        dtype: A numeric dtype, a scalar type or the name of one, or an array.

    Returns:
        The number of bits.

    Raises:
        ValueError: If it is not the dtype of arrays of numbers.

    Example:
        >>> xf.dtypes.itemsize_bits(xnp.int4)
        4
    """
    d = dtype.dtype if getattr(dtype, "aval", None) is not None else requested_dtype(dtype) if dtype is not None else None
    if d is None or isinstance(d, ExtendedDType) or d == float0 or d not in supported:
        raise ValueError(f"itemsize_bits takes the dtype of arrays of numbers, got {dtype!r}.")
    small = re.match(r"u?int([124])$|float([46])_", d.name)
    return int(small[1] or small[2]) if small else 8 * d.itemsize


# Limits of floating and integer dtypes, including those of ml_dtypes.
finfo, iinfo = ml_dtypes.finfo, ml_dtypes.iinfo


def to_inexact(d: Any) -> np.dtype:
    """Return the floating dtype in which an elementwise function of an integer array computes.

    It is as wide as the integer dtype, with at least 32 bits; also while 64-bit types are off, for arrays made before.
    """
    if d == float0:
        raise TypeError("arrays of dtype float0, the tangents of integers, support no operations by design. Use "
                        "xlafront.numpy.zeros_like(x, float) for zeros that operations accept.")
    return d if is_inexact(d) else float64 if d.itemsize == 8 else float32


def to_complex(d: Any) -> np.dtype:
    return {float64: complex128, int64: complex128, uint64: complex128}.get(d, d if is_complex(d) else complex64)


def to_real(d: Any) -> np.dtype:
    return {complex64: float32, complex128: float64}.get(d, d)


def tangent_dtype(d: Any) -> Any:
    """Return the dtype of tangents: float0 for dtypes that have none."""
    if is_extended(d):
        return float0 if issubdtype(d, prng_key) else d._rules.tangent_dtype(d)
    return d if is_inexact(d) else float0


def convertible(old: Any, new: Any) -> bool:
    """True if arrays of one dtype can be converted to the other. The rules of extended dtypes decide for these."""
    if old == new or not is_extended(old) and not is_extended(new):
        return True
    if any([is_extended(d) and issubdtype(d, prng_key) for d in (old, new)]):
        return False
    return new._rules.convert_from(new, old) if is_extended(new) else old._rules.convert_to(new, old)


# Promotion

_FLOATS_16 = ("bfloat16", "float16")
_LATTICE: dict[str, tuple[str, ...]] = {
    "bool": ("i*",),
    "i*": ("uint8", "int8", *_SMALL_INTS), "f*": ("c*", *_FLOATS_16, *_SMALL_FLOATS), "c*": ("complex64",),
    "uint8": ("int16", "uint16"), "uint16": ("int32", "uint32"), "uint32": ("int64", "uint64"), "uint64": ("f*",),
    "int8": ("int16",), "int16": ("int32",), "int32": ("int64",), "int64": ("f*",),
    "bfloat16": ("float32",), "float16": ("float32",), "float32": ("float64", "complex64"),
    "float64": ("complex128",), "complex64": ("complex128",), "complex128": (),
    **{name: () for name in (*_SMALL_INTS, *_SMALL_FLOATS)},
}
_STRICT: dict[str, tuple[str, ...]] = {
    # Only weak types promote: to any dtype that can hold their kind.
    **{name: () for name in _LATTICE},
    "i*": ("f*", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", *_SMALL_INTS),
    "f*": ("c*", *_FLOATS_16, "float32", "float64", *_SMALL_FLOATS), "c*": ("complex64", "complex128"),
}
_WEAK_TYPES = {"i*": int, "f*": float, "c*": complex}


def _upper_bounds(lattice: dict[str, tuple[str, ...]]) -> dict[str, set[str]]:
    bounds: dict[str, set[str]] = {}

    def above(node: str) -> set[str]:
        if node not in bounds:
            bounds[node] = {node}.union(*(above(n) for n in lattice[node]))
        return bounds[node]

    for node in lattice:
        above(node)
    return bounds


_bounds: dict[str, dict[str, set[str]]] = {}
_joins: dict[tuple, str] = {}


def _join(nodes: frozenset[str], mode: str) -> str:
    """Return the least upper bound of nodes of the lattice."""
    key = (nodes, mode)
    found = _joins.get(key)
    if found is not None:
        return found
    if mode not in _bounds:
        _bounds[mode] = _upper_bounds(_LATTICE if mode == "standard" else _STRICT)
    bounds = _bounds[mode]
    unknown = [n for n in nodes if n not in bounds]
    if "void" in unknown:
        raise TypeError("float0, the dtype of the tangents of integers, does not promote with others: by design these arrays "
                        "support no operations. Use xlafront.numpy.zeros_like(x, float) for zeros that operations accept.")
    if unknown:
        raise UnsupportedDTypeError(f"{unknown[0]} is not a dtype that promotes with others")
    common = set.intersection(*(bounds[n] for n in nodes))
    least = [n for n in common if common <= bounds[n]]
    if len(least) != 1:
        names = ", ".join(sorted(n if n not in _WEAK_TYPES else f"a Python {_WEAK_TYPES[n].__name__}" for n in nodes))
        reason = ("the setting numpy_dtype_promotion='strict' (jax_numpy_dtype_promotion) forbids it" if mode == "strict" else
                  "8-bit and 4-bit floats and 4-bit, 2-bit and 1-bit integers do not support implicit promotion")
        raise TypePromotionError(f"there is no implicit dtype promotion path between the input dtypes {names}: {reason}. Cast "
                                 "one of them explicitly, for example with x.astype('float32').")
    _joins[key] = least[0]
    return least[0]


def _node(d: Any, weak: bool) -> str:
    if not weak or d == bool_:
        return d.name
    return "i*" if is_integer(d) else "f*" if is_float(d) else "c*"


_pairs: dict[tuple, tuple[np.dtype, bool]] = {}


def promote_pair(d1: Any, weak1: bool, d2: Any, weak2: bool) -> tuple[Any, bool]:
    """Return the dtype and weak type of the result of a binary operation. Hot: every `x + y`."""
    key = (d1, weak1, d2, weak2, config.enable_x64.value, config.numpy_dtype_promotion.value,
           config.explicit_x64_dtypes.value)
    found = _pairs.get(key)
    if found is None:
        found = _pairs[key] = _promote([(d1, weak1), (d2, weak2)])
    return found


def _promote(operands: Sequence[tuple[Any, bool]]) -> tuple[Any, bool]:
    kinds = set(operands)
    if len(kinds) == 1:
        [(d, weak)] = kinds  # (arrays made while 64-bit types were on keep them in operations with each other)
        return array_dtype(d) if weak else d, bool(weak) and d != bool_
    for d, _ in kinds:
        if is_extended(d):
            raise TypePromotionError(f"arrays of dtypes {', '.join(str(k[0]) for k in operands)} have no common dtype, {d} "
                                     f"mixes with no other: {d.no_numbers}")
    if all([weak and d != bool_ for d, weak in kinds]):  # the join of their dtypes, which need not be the default ones
        node = _join(frozenset(_node(array_dtype(d), False) for d, _ in kinds), "standard")
        return array_dtype(_BY_NAME.get(node) or np.dtype(node)), True
    node = _join(frozenset(_node(d, weak) for d, weak in kinds), config.numpy_dtype_promotion.value)
    if node in _WEAK_TYPES:
        return default_dtype(_WEAK_TYPES[node]), True
    return array_dtype(_BY_NAME.get(node) or np.dtype(node)), False


def operand_type(x: Any) -> tuple[Any, bool]:
    """Return the dtype and weak type of an array, scalar or dtype, for promotion."""
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    kind = type(x)
    if kind in python_scalar_dtypes:
        return python_scalar_dtypes[kind], kind is not bool
    if isinstance(x, type) and x in python_scalar_dtypes:
        return python_scalar_dtypes[x], x is not bool
    if isinstance(x, (np.ndarray, np.generic)):  # NumPy values are truncated even where explicit 64-bit dtypes are not
        return _TO_32.get(x.dtype, x.dtype) if not config.enable_x64.value else x.dtype, False
    plain = plain_number(x)
    return operand_type(plain) if plain is not x else (array_dtype(dtype(x)), bool(getattr(x, "weak_type", False)))


def lattice_result_type(*args: Any) -> tuple[Any, bool]:
    """Return the dtype and weak type to which these arrays, scalars or dtypes promote."""
    if len(args) == 2:
        return promote_pair(*operand_type(args[0]), *operand_type(args[1]))
    return _promote([operand_type(x) for x in args])


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype of the result of an operation on the arguments.

    Args:
        args: Arrays, scalars and dtypes. Python scalars are weakly typed: they take the dtype of arrays of their kind.
        return_weak_type_flag: If True, return a pair of the dtype and a bool, True if the result is weakly typed.

    Returns:
        The dtype, canonicalized; or the pair.

    Raises:
        ValueError: If there are no arguments.
        TypePromotionError: If there is no implicit promotion path between the dtypes.

    Note:
        The promotion lattice is that of JAX: NumPy's `result_type(int32, float32)` is float64, here it is float32.

    Example:
        >>> xnp.result_type(xnp.ones(3, xnp.int8), 2.0)
        dtype('float32')
    """
    if not args:
        raise ValueError("result_type needs at least one array or dtype.")
    for x in args:
        if isinstance(x, (np.dtype, str)) or type(x) is type:  # `xnp.float64` needs no warning
            check_user_dtype(x, "result_type")
        elif isinstance(x, ExtendedDType):
            raise TypeError(f"result_type takes arrays, numbers and their dtypes, got {x}: {x.no_numbers}")
        elif isinstance(x, (list, tuple)):
            raise TypeError(f"result_type takes arrays, numbers and dtypes, got {x!r:.60}.")
    d, weak = lattice_result_type(*args)
    if weak:
        d = array_dtype(uint64) if issubdtype(d, np.unsignedinteger) else default_dtype(scalar_type_of(d))
    return (d, weak) if return_weak_type_flag else d


def promote_types(a: Any, b: Any) -> np.dtype:
    """Return the dtype to which two dtypes promote.

    If one of them has 64 bits, the result may have 64 bits too, even while `enable_x64` is off.

    Args:
        a, b: Dtypes, scalar types or names. Python's `int`, `float` and `complex` are weakly typed.

    Returns:
        The common dtype.

    Raises:
        TypePromotionError: If there is no implicit promotion path between the dtypes.

    Example:
        >>> xnp.promote_types(xnp.int8, xnp.uint8)
        dtype('int16')
    """
    a, b = [x.dtype if getattr(x, "weak_type", None) is not None else x for x in (a, b)]
    try:
        return _promoted(a, b, config.numpy_dtype_promotion.value, config.enable_x64.value)
    except TypeError:  # also raised for unhashable arguments
        return _promoted.__wrapped__(a, b, config.numpy_dtype_promotion.value, config.enable_x64.value)


@functools.lru_cache(1024, typed=True)
def _promoted(a: Any, b: Any, mode: str, x64: bool) -> Any:
    """Return `promote_types(a, b)` for values of two settings."""
    given = [requested_dtype(x) for x in (a, b)]
    for d, other in zip(given, given[::-1]):
        if is_extended(d) and d != other:
            raise TypeError(f"promote_types got {given[0]} and {given[1]}: {d} mixes with no other: {d.no_numbers}")
        if is_extended(d):
            return d
    nodes = [_node(d, isinstance(x, type) and x in python_scalar_dtypes) for d, x in zip(given, (a, b))]
    node = _join(frozenset(nodes), mode)
    found = python_scalar_dtypes[_WEAK_TYPES[node]] if node in _WEAK_TYPES else _BY_NAME.get(node) or np.dtype(node)
    return found if any(d in _TO_32 for d in given) else canonicalize_dtype(found)


def is_weakly_typed(x: Any) -> bool:
    return operand_type(x)[1]
