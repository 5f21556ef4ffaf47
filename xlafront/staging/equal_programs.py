"""Equal programs of different functions, found before they are lowered.

Who writes a lambda anew in each turn of a loop traces it each time. What that gives is compared as a program, by its
operations, so that nothing else is done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from xlafront.core import source
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr, Jaxpr
from xlafront.core.memo import Memo
from xlafront.runtime.meshes import empty_mesh
from xlafront.staging.sharding_arguments import UNSPECIFIED

# The executables of the last small programs, by what `identity` says of them.
recent_programs: Memo = Memo(32)

_OPERATIONS = 100  # of a program that is compared; longer ones take long to compile anyway


def identity(jaxpr: Jaxpr, values: Sequence[np.ndarray | None] = ()) -> tuple | None:
    """What a program computes, as a key that holds nothing of the user's; None where that cannot be said, as of programs with
    effects, or of operations that have functions as parameters. Hot: once a tracing.

    `values` are those of its constants, None for each that is an argument of what is compiled.
    """
    entries: list[Any] = [None if value is None else value.tobytes() for value in values]
    return tuple(entries) if len(values) == len(jaxpr.constvars) and _describe(jaxpr, entries) else None


def _describe(jaxpr: Jaxpr, entries: list[Any]) -> bool:
    if jaxpr.effects or len(jaxpr.eqns) > _OPERATIONS or len(entries) > 50 * _OPERATIONS:
        return False
    places: dict[Any, int] = {}
    add = entries.append
    for v in (*jaxpr.constvars, *jaxpr.invars):
        if type(v.aval) is not ShapedArray or not v.aval.plain:
            return False
        places[v] = len(places)
        add(v.aval)
    for eqn in jaxpr.eqns:
        if eqn.site and source.scope_attributes[eqn.site[2]]:  # compilers are told something of it
            return False
        add(eqn.primitive)
        for atom in eqn.invars:
            if not _describe_atom(atom, places, entries):
                return False
        add(len(eqn.outvars))
        for v in eqn.outvars:
            if type(v.aval) is not ShapedArray or not v.aval.plain:
                return False
            places[v] = len(places)
            add(v.aval)
        for name, value in eqn.params.items():
            add(name)
            if not _describe_value(value, entries):
                return False
    add(None)
    return all([_describe_atom(atom, places, entries) for atom in jaxpr.outvars])


def _describe_atom(atom: Any, places: dict[Any, int], entries: list[Any]) -> bool:
    if not atom.is_literal:
        entries.append(places[atom])
        return True
    entries.append(atom.aval)
    return _describe_value(atom.val, entries)


_EXACT = frozenset([bool, int, str, type(None), type])  # equal ones of a type are the same
_NAMED = (UNSPECIFIED, empty_mesh)  # and so are these


def _describe_value(value: Any, entries: list[Any]) -> bool:
    """Append a parameter with its type: 0, 0.0, -0.0 and False are equal to Python."""
    kind = type(value)
    entries.append(kind)
    if kind in _EXACT or isinstance(value, (np.dtype, Enum)) or any([value is known for known in _NAMED]):
        entries.append(value)
    elif kind is float or kind is complex:
        entries.append(repr(value))
    elif isinstance(value, np.generic):
        entries.append(value.tobytes())
    elif isinstance(value, (tuple, list)):
        entries.append(len(value))
        return all([_describe_value(item, entries) for item in value])
    elif kind is ClosedJaxpr:
        return not value.consts and _describe(value.jaxpr, entries)
    elif kind is Jaxpr:
        return not value.constvars and _describe(value, entries)
    elif kind is ShapedArray and value.plain:
        entries.append(value)
    else:
        return False
    return True
