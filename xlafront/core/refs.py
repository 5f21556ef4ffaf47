"""References: mutable arrays. Their types, and what holds the value of one outside of programs.

A reference is read and written by operations (`lax.refs`) that programs record with their effects; programs that take
references become programs of values (`core.discharge`) before they are lowered.
"""

from __future__ import annotations

import math
from typing import Any

from xlafront.core.avals import AbstractValue, str_short


class AbstractRef(AbstractValue):
    """The type of references to arrays of a type.

    - `memory_space`: where the array is kept, None for the device's own memory.
    - `kind`: "no_grad_no_remat" for references that derivatives do not see, None for others.

    >>> AbstractRef(ShapedArray((3,), "float32"))
    Ref{float32[3]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind", "__weakref__")

    plain = False

    def __new__(cls, inner_aval, memory_space=None, kind=None):
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

    def update(self, **changes) -> AbstractRef:
        """The type with some of its fields, or of those of the array's type, changed. Whether it is weakly typed does not
        change: it is the same reference for all that hold it."""
        changes.pop("weak_type", None)
        fields = {name: changes.pop(name, getattr(self, name)) for name in ("inner_aval", "memory_space", "kind")}
        if changes:
            fields["inner_aval"] = fields["inner_aval"].update(**changes)
        return AbstractRef(**fields)

    def strip_weak_type(self) -> AbstractRef:
        return self.update(inner_aval=self.inner_aval.strip_weak_type())

    def at_least_vspace(self) -> AbstractValue:
        """Tangents of references are values: see `RefTangent`."""
        return self.inner_aval.at_least_vspace()

    to_tangent_aval = at_least_vspace

    def to_ct_aval(self) -> AbstractValue:
        return self.inner_aval.to_ct_aval()

    def __reduce__(self):
        return AbstractRef, (self.inner_aval, self.memory_space, self.kind)

    def str_short(self, short_dtypes=False, mesh_axis_types=False) -> str:
        space = "" if self.memory_space is None else f"<{self.memory_space}>"
        held = self.inner_aval.strip_weak_type()
        return f"Ref{space}{{{str_short(held) if short_dtypes else held.str_short()}}}"

    __repr__ = __str__ = lambda self: self.str_short()


_interned: dict[tuple, AbstractRef] = {}


def is_ref(x: Any) -> bool:
    """Whether a value is a reference, traced or not."""
    return type(getattr(x, "aval", None)) is AbstractRef


class RefBox:
    """A reference outside of programs: an array that can be replaced. Its class for users is `lax.refs.Ref`.

    Reading gives the array itself, without a copy; from then on it is `shared`, so that the next write to it makes a new
    array. The memory of one that is not shared is written in place.
    """

    __slots__ = ("aval", "array", "shared", "end", "__weakref__")

    def __init__(self, aval: AbstractRef, array: Any, shared: bool = True):
        self.aval, self.array, self.shared = aval, array, shared
        self.end: str | None = None  # once it has no array: what ended it

    def value(self, attempt: str) -> Any:
        """The array, which the caller neither keeps nor changes; `attempt` says what for, for the error."""
        if self.end is not None:
            raise RuntimeError(f"a reference of type {self.aval} was {attempt} after {self.end}, which ends it. Use what "
                               f"freeze returned, or, while the reference is still needed, read its value with ref[...].")
        return self.array

    def replace(self, array: Any, shared: bool) -> None:
        self.array, self.shared = array, shared

    def finish(self, end: str) -> None:
        self.array, self.end = None, end


class RefTangent:
    """In differentiation, the tangent of what a reference holds: it changes as the reference does.

    The operations on references are then the only ones with a state, and linear programs have none.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value
