"""Operands: which Python values operations accept, and the types of these values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xlafront.base import config, typed_scalars
from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding, SingleDeviceSharding
from xlafront.base.layouts import MemorySpace
from xlafront.core import dtypes, errors, tree
from xlafront.core.avals import AbstractToken, AbstractValue, ShapedArray, Token, abstract_token
from xlafront.core.refs import AbstractRef, RefBox
from xlafront.core.tracer import Tracer


class _Abstractors(dict):
    """Maps a Python type to the function from its values to their avals.

    Subclasses are entered on first use. Subclasses of Python scalars are looked up each time, because a type that has no entry
    is converted to an operand first.
    """

    def __missing__(self, kind: type) -> Callable[[Any], AbstractValue]:
        if kind.__name__ == "MaskedArray" and issubclass(kind, np.ndarray):
            raise ValueError("NumPy's masked arrays are not supported: the mask would be lost. Use m.filled(value), or the "
                             "mask with numpy.where, or as `where` of a reduction.")
        for base in kind.__mro__[1:]:
            found = self.get(base)
            if found is not None:
                if base not in dtypes.python_scalar_dtypes:
                    self[kind] = found
                return found
        if hasattr(kind, "__jax_array__") or hasattr(kind, "__xlafront_array__"):
            return _refuse_convertible
        raise KeyError(kind)


def _refuse_convertible(x: Any) -> NoReturn:
    raise ValueError(f"an object of type {type(x).__name__} was given where an array is needed. Its __jax_array__ is called "
                     f"only for explicit conversions, and not during abstractification. Pass xlafront.numpy.asarray(x).")


aval_of_type: dict[type, Callable[[Any], AbstractValue]] = _Abstractors()
# Values that are computed when a program runs (`symbolic.dimensions`): `type -> function that returns the tracer`.
symbolic_constants: dict[type, Callable[[Any], Any]] = {}
# Composite values (`interpreters.hijax`), which have types but are no operands: `type -> function that returns the type`.
composites: dict[type, Callable[[Any], AbstractValue]] = {}
high_classes: set[type] = set()  # classes of all composite values


def aval_of(x: Any, operation: str = "this operation") -> AbstractValue:
    """Return the abstract value of an array, a NumPy value or a Python scalar. `operation` is named in the error."""
    try:
        abstractor = aval_of_type[type(x)]
    except KeyError:
        raise errors.not_an_array(x, operation, None) from None
    return abstractor(x)


def as_operand(x: Any) -> Any:
    """Convert an object with `__jax_array__`, as module parameters of libraries have, or a member of an `IntEnum`."""
    unwrap = getattr(x, "__xlafront_array__", None) or getattr(x, "__jax_array__", None)
    return dtypes.plain_number(x) if unwrap is None else unwrap()


def node_as_operand(x: Any) -> Any:
    """Convert a pytree node or composite value with `__jax_array__`; refuse other objects with it, as C++ dispatch does."""
    if not is_convertible(x):
        return x
    if type(x) not in tree.registered_nodes and not isinstance(x, Tracer):
        _refuse_convertible(x)
    return as_operand(x)


def is_arraylike(x: Any) -> bool:
    """True if `x` can be an operand; raise if it only converts to one."""
    try:
        abstractor = aval_of_type[type(x)]
    except KeyError:
        return False
    if abstractor is _refuse_convertible:
        abstractor(x)
    return True


def is_convertible(x: Any) -> bool:
    """True if `x` has a method that converts it to an array."""
    owner = x.aval if isinstance(x, Tracer) else type(x)
    return hasattr(owner, "__jax_array__") or hasattr(owner, "__xlafront_array__")


# Types of the most frequent operands. Hot callers look a type up here before they call `is_operand`.
plain_types = frozenset((ArrayImpl, np.ndarray, bool, int, float, complex))


def is_operand(x: Any) -> bool:
    """True if operations take `x` as it is. Composite values, also traced ones, are converted first."""
    kind = type(x)
    return kind in aval_of_type and kind not in high_classes and not (isinstance(x, Tracer) and x.aval.is_high)


def numpy_aval(x: Any) -> ShapedArray:
    if not x.dtype.isnative:  # C++ would misread the bytes
        raise TypeError(f"an array of NumPy has dtype {x.dtype.str}: the bytes of its numbers are in the other order than this "
                        f"machine's. Convert it with xlafront.numpy.asarray(x), or x.astype(x.dtype.newbyteorder('=')).")
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True))


def is_truncated(x: Any) -> bool:
    """True if `x` is a 64-bit NumPy scalar that is truncated to 32 bits, because 64-bit types are off.

    Beside an array with 64 bits, made while they were on, it is not truncated.
    """
    return (isinstance(x, (np.generic, np.ndarray)) and x.dtype.itemsize > 4 and not x.ndim
            and numpy_aval(x).dtype != x.dtype)


def _array_aval(x: Any) -> ShapedArray:
    """Return the type of an array, with the explicit axes and the memory of its sharding."""
    sharding = x._sharding
    kind = type(sharding)
    aval = x._aval
    if not aval.plain:
        aval = ShapedArray(aval.shape, aval.dtype, aval.weak_type)
    if kind is NamedSharding:
        if sharding.mesh.explicit:
            return aval.update(sharding=sharding, memory_space=_memory_of(sharding))
    elif kind is not SingleDeviceSharding:
        return aval
    if sharding._memory_kind not in _own_memory:
        return aval.update(memory_space=_memory_of(sharding))
    return aval


_own_memory = (None, "device")


def _memory_of(sharding: Any) -> MemorySpace | None:
    return None if sharding._memory_kind in _own_memory else MemorySpace.Host


aval_of_type[np.ndarray] = aval_of_type[np.generic] = numpy_aval
aval_of_type[Token] = lambda x: abstract_token
aval_of_type[AbstractToken] = lambda x: x
aval_of_type[ShapedArray] = lambda x: x.bare
aval_of_type[AbstractRef] = lambda x: x
aval_of_type[Tracer] = lambda x: x.aval
aval_of_type[ArrayImpl] = _array_aval
aval_of_type[RefBox] = lambda x: x.aval


def _scalar_aval(kind: type, x: Any) -> ShapedArray:
    aval = _scalar_type(kind, config.enable_x64.value)
    if kind is int:
        dtypes.check_int_fits(x, aval.dtype)
    return aval


@functools.cache
def _scalar_type(kind: type, x64: bool) -> ShapedArray:
    """Return the type of a kind of Python scalar for a value of `enable_x64`. Hot: once a scalar operand."""
    return ShapedArray((), dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kind]), kind is not bool)


for _scalar in (bool, int, float, complex):
    aval_of_type[_scalar] = functools.partial(_scalar_aval, _scalar)

literal_kinds = {bool, int, float, complex}  # types whose values become literals
for _, _typed in typed_scalars.KINDS.values():
    literal_kinds.add(_typed)
    aval_of_type[_typed] = lambda x: ShapedArray((), x.dtype, weak_type=True)

# Types of NumPy scalars that do not depend on settings.
fixed_scalars = {d.type: ShapedArray((), d) for d in dtypes.supported if d.itemsize in (1, 2, 4) and d.kind in "biufV"}
