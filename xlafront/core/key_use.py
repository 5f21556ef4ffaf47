"""What programs do with random keys: which they spend, and whose keys their results hold (setting `debug_key_reuse`).

A key is spent when numbers are drawn from it and when it is split. What an operation does with keys is in its record
(`Primitive.key_use`); here is what follows from it for programs. `key_reuse` says it of the arrays that they are called with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import source
from xlafront.core.errors import KeyReuseError
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, subprograms

# Whose keys a result holds, where not those of an operand.
NEW, SPENT = "new", "spent"


class KeyUse(NamedTuple):
    """What an operation, or a program, does with random keys."""

    spends: Sequence[tuple[int, Any]]  # numbers of operands, and which of their keys
    results: Sequence[int | str]  # for each result the operand whose keys it holds, or NEW, or SPENT


def use_of_program(jaxpr: Jaxpr) -> KeyUse:
    """What a program does with the keys among its arguments, and after them its constants."""
    return jaxpr.memoised(("key use",), lambda: _find(jaxpr))


def _find(jaxpr: Jaxpr) -> KeyUse:
    inputs = {v: i for i, v in enumerate((*jaxpr.invars, *jaxpr.constvars))}
    origin: dict[Any, Any] = dict(zip(inputs, inputs))  # the variable whose keys this one holds
    spent: dict[Any, tuple[Any, JaxprEqn | None]] = {}
    for eqn in jaxpr.eqns:
        if not any([_holds_keys(v) for v in (*eqn.invars, *eqn.outvars)]):
            continue
        spends, results = use_of_operation(eqn)
        for i, part in spends:
            owner = origin[eqn.invars[i]]
            before, by = spent.get(owner, (False, None))
            if overlap(before, part):
                raise _spent_twice(jaxpr, eqn, i, by)
            spent[owner] = together(before, part), eqn
        for v, result in zip(eqn.outvars, results):
            if isinstance(result, int):
                owner = origin[eqn.invars[result]] if _holds_keys(eqn.invars[result]) else v
                origin[v] = owner
            else:
                origin[v] = v
                if result == SPENT and _holds_keys(v):
                    spent[v] = True, eqn
    owners = [None if type(v) is Literal else origin.get(v, v) for v in jaxpr.outvars]
    return KeyUse([(inputs[v], part) for v, (part, _) in spent.items() if v in inputs],
                  [inputs[v] if v in inputs else SPENT if v in spent else NEW for v in owners])


def use_of_operation(eqn: JaxprEqn) -> KeyUse:
    """What an operation of a program does with the keys among its operands."""
    rule = eqn.primitive.key_use
    if callable(rule):
        return rule(eqn, use_of_program)
    keys = [(i, True) for i, v in enumerate(eqn.invars) if _holds_keys(v)]
    count = len(eqn.outvars)
    if rule == "reads" or not keys:
        return KeyUse((), [NEW] * count)
    if rule == "hands on":
        return KeyUse([(i, part) for i, part in keys if i], [0] * count)
    if rule == "moves":
        return KeyUse(keys, [NEW] * count)
    for program in subprograms(eqn.params):
        if len(program.invars) == len(eqn.invars) and len(program.outvars) == count:
            return within(use_of_program(program), eqn.invars, program.invars)
    return KeyUse(keys, [SPENT] * count)


def within(use: KeyUse, operands: Sequence[Any], inputs: Sequence[Any]) -> KeyUse:
    """What calling a program does with the operands; a part of what it sees is all of an operand of another shape."""
    count = len(operands)
    spends = [(i, part if operands[i].aval.shape == inputs[i].aval.shape else True) for i, part in use.spends if i < count]
    return KeyUse(spends, [SPENT if isinstance(r, int) and r >= count else r for r in use.results])


def _holds_keys(v) -> bool:
    """Of a variable."""
    return type(v) is not Literal and not isinstance(getattr(v.aval, "dtype", _number), np.dtype)


_number = np.dtype(np.float32)


def overlap(a, b) -> bool:
    """Whether two parts of an array of keys have one in common; of those in different shapes that is taken for granted."""
    if np.shape(a) and np.shape(b) and np.shape(a) == np.shape(b):
        return bool(np.any(np.logical_and(a, b)))
    return bool(np.any(a)) and bool(np.any(b))


def together(a, b):
    """Two parts of an array of keys as one."""
    if np.shape(a) and np.shape(a) == np.shape(b):
        return np.logical_or(a, b)
    if np.shape(a) and np.shape(b):
        return True
    return (b if a is False else a if b is False else True)


def _spent_twice(jaxpr: Jaxpr, eqn: JaxprEqn, i: int, by: JaxprEqn | None) -> KeyReuseError:
    earlier = "" if by is None or by is eqn else f", and was by {_operation_name(by)} at {source.describe(by.site)}"
    return KeyReuseError(f"{jaxpr.debug_info.func_src_info} uses a random key twice: argument {i} of "
                         f"{_operation_name(eqn)} at {source.describe(eqn.site)} is already consumed{earlier}. "
                         f"{KeyReuseError.remedy}")


def _operation_name(eqn: JaxprEqn) -> str:
    """The user's word for an operation."""
    primitive = eqn.primitive
    return str(primitive.name_of(eqn.params) if primitive.custom_rule else eqn.params.get("name") or primitive.shown_as)
