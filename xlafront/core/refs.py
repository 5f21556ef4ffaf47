"""References: mutable arrays. Their types, and the holder of their values outside of jaxprs.

References are read and written by operations (`lax.refs`), which are staged with their effects; jaxprs that take references
are discharged (`core.discharge`) before they are lowered.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from xlafront.core.avals import AbstractValue, str_short

if TYPE_CHECKING:
    from xlafront.core.typing import Aval


class AbstractRef(AbstractValue):
    """The type of references to arrays of a type.

    Args:
        inner_aval: The type of the array.
        memory_space: The memory of the array, None for the device's default memory.
        kind: "no_grad_no_remat" for references that differentiation ignores, else None.

    Example:
        >>> AbstractRef(ShapedArray((3,), "float32"))
        Ref{float32[3]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind", "__weakref__")

    plain = False
    inner_aval: Any
    memory_space: Any
    kind: str | None

    def __new__(cls, inner_aval: Aval, memory_space: Any = None, kind: Any = None) -> AbstractRef:
        key = (inner_aval, memory_space, kind)
        found = _interned.get(key)
        if found is None:
            found = object.__new__(cls)
            found.inner_aval, found.memory_space, found.kind = key
            found = _interned.setdefault(key, found)
        return found

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: len(self.inner_aval.shape))
    size = property(lambda self: math.prod(self.inner_aval.shape))
    weak_type = property(lambda self: self.inner_aval.weak_type)
    sharding = property(lambda self: self.inner_aval.sharding)
    vma = property(lambda self: self.inner_aval.vma)
    explicit_sharding = property(lambda self: self.inner_aval.explicit_sharding)
    differentiable = property(lambda self: self.kind is None)

    def update(self, **changes: Any) -> AbstractRef:
        """Return the type with some fields replaced, its own or those of the array's type.

        The weak type does not change: all holders share the one reference.
        """
        changes.pop("weak_type", None)
        fields = {name: changes.pop(name, getattr(self, name)) for name in ("inner_aval", "memory_space", "kind")}
        if changes:
            fields["inner_aval"] = fields["inner_aval"].update(**changes)
        return AbstractRef(**fields)

    def strip_weak_type(self) -> AbstractRef:
        return self.update(inner_aval=self.inner_aval.strip_weak_type())

    def at_least_vspace(self) -> AbstractValue:
        """Return the type of tangents, which are values: see `RefTangent`."""
        return self.inner_aval.at_least_vspace()

    to_tangent_aval = at_least_vspace

    def to_ct_aval(self) -> AbstractValue:
        return self.inner_aval.to_ct_aval()

    def __reduce__(self) -> Any:
        return AbstractRef, (self.inner_aval, self.memory_space, self.kind)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        space = "" if self.memory_space is None else f"<{self.memory_space}>"
        held = self.inner_aval.strip_weak_type()
        return f"Ref{space}{{{str_short(held) if short_dtypes else held.str_short()}}}"

    def __str__(self) -> str:
        return self.str_short()

    __repr__ = __str__


_interned: dict[tuple, AbstractRef] = {}


def is_ref(x: Any) -> bool:
    """True if a value is a reference, traced or not."""
    return type(getattr(x, "aval", None)) is AbstractRef


class RefBox:
    """A reference outside of jaxprs: a box whose array can be replaced. Its public class is `lax.refs.Ref`.

    Reading returns the array itself, without a copy; from then on it is `shared`, so that the next write creates a new
    array. The memory of an array that is not shared is updated in place.
    """

    __slots__ = ("aval", "array", "shared", "end", "__weakref__")

    def __init__(self, aval: AbstractRef, array: Any, shared: bool = True) -> None:
        self.aval, self.array, self.shared = aval, array, shared
        self.end: str | None = None  # the operation that ended it, or None

    def value(self, attempt: str) -> Any:
        """Return the array, which the caller neither stores nor changes. `attempt` names the use in the error."""
        if self.end is not None:
            raise RuntimeError(f"a reference of type {self.aval} was {attempt} after {self.end}, which ends it. Use what "
                               f"freeze returned, or, while the reference is still needed, read its value with ref[...].")
        return self.array

    def replace(self, array: Any, shared: bool) -> None:
        self.array, self.shared = array, shared

    def finish(self, end: str) -> None:
        self.array, self.end = None, end


class RefTangent:
    """The tangent of the value of a reference during differentiation; it is updated as the reference is.

    This leaves the operations on references the only stateful ones: linear jaxprs have no state.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
