"""Tracers: the values of a function that is being traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlafront.core import avals, dtypes, errors
from xlafront.core.avals import AbstractValue, ShapedArray

if TYPE_CHECKING:
    from typing import NoReturn

    import numpy as np


class Tracer:
    """A value of a function that is being traced. `xlafront.numpy` attaches operators and array methods."""

    __slots__ = ("_trace", "aval", "__weakref__")

    __array_priority__ = 1000
    _trace: Any  # the `Trace` that it belongs to
    aval: AbstractValue

    def __init__(self, trace: Any, aval: AbstractValue) -> None:
        self._trace = trace
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.aval.size * self.aval.dtype.itemsize)

    @property
    def sharding(self) -> Any:
        raise AttributeError(f"a traced array, {self.aval}, is on no device and has no attribute 'sharding'. The sharding over "
                             f"explicit mesh axes is part of its type: typeof(x).sharding.")

    @property
    def vma(self) -> frozenset:
        return self.aval.vma

    mat = property(lambda self: self.aval.mat)
    memory_space = property(lambda self: self.aval.memory_space)
    layout = property(lambda self: self.aval.layout)

    def _concrete(self) -> Any:
        """Return the value if the trace has it, as in eager differentiation, else None."""
        return self.to_concrete_value()

    def to_concrete_value(self) -> Any:
        """Return the value or None. Tracers of extensions override this."""
        return None

    def full_lower(self) -> Any:
        """Return the value with as few tracers around it as possible. Tracers of extensions may override this."""
        return self

    def _origin(self) -> str | None:
        """Return where the value comes from, for messages."""
        return None

    def _known(self, error: Callable[[Any], Exception]) -> Any:
        """Return the value; raise `error(self)` without one."""
        value = self._concrete()
        if value is None:
            raise error(self)
        return value

    def __bool__(self) -> bool:
        if hasattr(self.aval, "inner_aval"):
            raise errors.reference_as_array("a condition", self.aval)
        if self.aval.shape and self.aval.size != 1:
            raise errors.ambiguous_truth(self.aval.shape)
        return bool(self._known(errors.TracerBoolConversionError))

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.is_integer(self.aval.dtype):
            raise errors.not_an_index(self.aval)
        return self._known(errors.TracerIntegerConversionError).__index__()

    def __int__(self) -> int:
        if self.aval.shape:
            raise errors.not_a_scalar("int", self.aval.shape)
        return int(self._known(lambda x: errors.python_number(x, "int(x)")))

    # Conversions to Python floats raise even if the value is known: a derivative would silently lose a term.

    def __float__(self) -> float:
        if self.aval.shape:
            raise errors.not_a_scalar("float", self.aval.shape)
        raise errors.python_number(self, "float(x), or a function of the math module,")

    def __complex__(self) -> complex:
        if self.aval.shape:
            raise errors.not_a_scalar("complex", self.aval.shape)
        raise errors.python_number(self, "complex(x)")

    def tolist(self) -> Any:
        raise errors.python_number(self, "x.tolist()")

    def tobytes(self, order: str = "C") -> Any:
        raise errors.python_number(self, "x.tobytes()")

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        if hasattr(self.aval, "inner_aval"):
            raise errors.reference_as_array("NumPy", self.aval)
        raise errors.TracerArrayConversionError(self)

    def __dlpack__(self, **options: Any) -> Any:
        raise errors.python_number(self, "x.__dlpack__()")

    __dlpack_device__ = __dlpack__

    def item(self, *args: Any) -> Any:
        return self._known(lambda x: errors.python_number(x, "x.item()")).item(*args)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of an unsized object: a traced array without dimensions (0-d)")
        return int(self.aval.shape[0])

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __copy__(self) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise errors.ConcretizationTypeError(self, "It was pickled (serialized, by __reduce__).")

    def __repr__(self) -> str:
        return f"Traced<{self.aval!r}>"

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(f"unsupported format string {spec!r} passed to {type(self).__name__}.__format__: "
                            f"{errors.no_number(self)}")
        return repr(self)


def _of_buffers(name: str, method: bool) -> Any:
    """Return a method or property that raises, for attributes of arrays that are in memory."""
    def missing(self: Tracer, *args: Any) -> NoReturn:
        raise errors.ConcretizationTypeError(self, f"The function uses x.{name}{'()' if method else ''}.")

    missing.__name__ = name
    return missing if method else property(missing)


for _name in ("addressable_data", "delete", "devices", "is_deleted", "on_device_size_in_bytes", "unsafe_buffer_pointer"):
    setattr(Tracer, _name, _of_buffers(_name, True))
for _name in ("addressable_shards", "committed", "global_shards", "is_fully_addressable", "is_fully_replicated", "traceback"):
    setattr(Tracer, _name, _of_buffers(_name, False))


def _attribute_of_type(tracer: Tracer, name: str) -> Any:
    """Return an attribute that the type of a tracer defines: the `__getattr__` of tracers."""
    if name != "aval" and not isinstance(tracer.aval, ShapedArray) and hasattr(tracer.aval, name):
        found = getattr(tracer.aval, name)
        return found.of_tracer(tracer) if hasattr(found, "of_tracer") else found
    return object.__getattribute__(tracer, name)  # raises the error that was raised before


def _forward_attributes(kind: type[AbstractValue]) -> None:
    """Give tracers the attributes of their types once a package defines a type: a `__getattr__` slows down all attributes."""
    if not kind.__module__.startswith("xlafront."):
        Tracer.__getattr__ = _attribute_of_type  # type: ignore[attr-defined]


avals.new_type_hooks.append(_forward_attributes)
