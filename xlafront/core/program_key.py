"""Keys of values, equations and jaxprs, by which caches and passes find equal ones.

Python's `==` is too coarse for keys (0, 0.0, -0.0 and False are equal) and too fine (NaN differs from itself). A key has the
type of each value beside it, so that `1`, `1.0`, `True` and `np.float32(1)` differ. Python's floats and complex numbers are
compared by `repr`, which shows the sign of a zero and is the same for all NaNs; NumPy's scalars and arrays by their bytes.
Tuples and lists are compared by their items, jaxprs by their equations, up to the names of variables and the lines of the
program. Weak types belong to types, not to values: the key of an equation has the type of each literal beside its value.

Any other object is an entry itself, compared by its own `==`. The functions that append keys return False if there is such an
object: the key then holds it as long as a cache holds the key, and is not hashable if the object is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from xlafront.base.meshes import empty_mesh
from xlafront.core import source
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import numpy_scalar_types, python_scalar_dtypes
from xlafront.core.jaxpr import Jaxpr, JaxprEqn, Literal, Var

exact_types = frozenset([bool, int, str, bytes, type(None), type])  # types whose equal values are interchangeable
_MOST_EQUATIONS = 100  # of a program that is compared; larger ones take long to compile anyway


def scalar_key(x: Any) -> tuple[type, Any] | None:
    """Return the key of a scalar of Python or NumPy, None for other objects. Hot."""
    kind = type(x)
    if kind in python_scalar_dtypes:
        return kind, repr(x)
    return (kind, x.tobytes()) if kind in numpy_scalar_types else None


def value_key(x: Any) -> tuple:
    """Return the key of a value: a parameter, a static argument or a constant."""
    if type(x) in exact_types:
        return type(x), x
    entries: list[Any] = []
    append_values((x,), entries)
    return tuple(entries)


def append_values(values: Iterable[Any], entries: list[Any]) -> bool:
    """Append the keys of values; return False if one holds an object that is compared by its own `==`. Hot."""
    complete = True
    for x in values:
        kind = type(x)
        if kind in exact_types:
            entries += kind, x
        elif kind is tuple or kind is list or isinstance(x, tuple) and kind.__eq__ is tuple.__eq__:
            kinds = tuple(map(type, x))
            entries += kind, kinds
            if exact_types.issuperset(kinds):
                entries += x
            else:
                complete = append_values(x, entries) and complete
        elif isinstance(x, (np.dtype, Enum)):
            entries += kind, x
        elif kind is float or kind is complex:
            entries += kind, repr(x)
        elif isinstance(x, np.generic):
            entries += kind, x.tobytes()
        elif kind is np.ndarray and not x.dtype.hasobject:
            entries += kind, x.dtype, x.shape, x.tobytes()
        elif (program := _program_of(x)) is not None:
            entries += kind, program
        else:
            entries += kind, x
            complete = complete and (x is empty_mesh or kind is ShapedArray and x.plain)
    return complete


def _program_of(x: Any) -> ProgramKey | None:
    return program_key(x) if type(x) is Jaxpr and not x.constvars else None


def append_equation(eqn: JaxprEqn, entry_of: Callable[[Any], Any], entries: list[Any]) -> bool:
    """Append the key of an equation, with `entry_of(v)` for each variable that it reads; return as `append_values` does."""
    values: list[Any] = []
    entries.append(eqn.primitive)
    for v in eqn.invars:
        if type(v) is Literal:
            entries += Literal, v.aval
            values.append(v.val)
        else:
            entries.append(entry_of(v))
    if eqn.site is not None and (attributes := source.scope_attributes[eqn.site[2]]):
        entries += attributes.items()
    if eqn.params:
        entries += eqn.params
        values += eqn.params.values()
    return not values or append_values(values, entries)


def append_program(jaxpr: Jaxpr, entries: list[Any]) -> bool:
    """Append the key of a jaxpr, without the values of its constants; return as `append_values` does."""
    numbers: dict[Any, int] = {}
    entries += len(jaxpr.constvars), len(jaxpr.invars)
    complete = _define((*jaxpr.constvars, *jaxpr.invars), numbers, entries)
    for eqn in jaxpr.eqns:
        complete = append_equation(eqn, numbers.__getitem__, entries) and complete
        complete = _define(eqn.outvars, numbers, entries) and complete
    entries += [Literal if type(v) is Literal else numbers[v] for v in jaxpr.outvars]
    entries += [v.aval for v in jaxpr.outvars]
    return append_values([v.val for v in jaxpr.outvars if type(v) is Literal], entries) and complete


def _define(variables: Sequence[Var], numbers: dict[Any, int], entries: list[Any]) -> bool:
    """Number variables and append their types; return False if a type is not plain."""
    for v in variables:
        numbers[v] = len(numbers)
    entries += [v.aval for v in variables]
    return all([type(v.aval) is ShapedArray and v.aval.plain for v in variables])


class ProgramKey:
    """The key of a jaxpr, equal for jaxprs that compute the same. It caches its hash."""

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries
        self._hash = hash(tuple(entries))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, ProgramKey) and self._entries == other._entries


def program_key(jaxpr: Jaxpr) -> ProgramKey | None:
    """Return the key of a jaxpr, without the values of its constants. It holds no objects of the program.

    None for programs that are not compared: with effects, types over meshes, or functions as parameters, and large ones.
    """
    def make() -> tuple[ProgramKey | None]:
        entries: list[Any] = []
        compared = not jaxpr.effects and len(jaxpr.eqns) <= _MOST_EQUATIONS and append_program(jaxpr, entries)
        return (ProgramKey(entries) if compared else None,)

    return jaxpr.memoised(("program key",), make)[0]


class Keyed:
    """A value in a cache key: compared by `value_key` if it is hashable, otherwise by identity."""

    __slots__ = ("value", "is_hashable", "_key", "_hash")

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            hash(value)
            self.is_hashable, self._key = True, value_key(value)
        except TypeError:
            self.is_hashable, self._key = False, (id(value),)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self._key == other._key

    def __repr__(self) -> str:
        return repr(self.value)
