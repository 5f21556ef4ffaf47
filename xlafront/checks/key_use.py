"""Random keys in jaxprs: which are consumed, and whose keys the results hold (setting `debug_key_reuse`).

A key is consumed when it is split and when random numbers are sampled with it. The use of keys by an operation is one of
its traits (`core.traits.KeyUse`); here it is derived for jaxprs. `key_reuse` applies it to arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import source
from xlafront.core.errors import KeyReuseError
from xlafront.core.ir import Jaxpr, JaxprEqn, Literal, subprograms
from xlafront.core.traits import KeyUse

# The keys of a result that are not those of an operand.
NEW, SPENT = "new", "spent"


class KeyEffects(NamedTuple):
    """The use of random keys by an operation or a jaxpr."""

    spends: Sequence[tuple[int, Any]]  # indices of operands, and the part of their keys that is consumed
    results: Sequence[int | str]  # for each result the index of the operand whose keys it holds, or NEW, or SPENT


def use_of_program(jaxpr: Jaxpr) -> KeyEffects:
    """Return the use of keys by a jaxpr: those among its arguments, then those among its constants."""
    return jaxpr.memoised(("key use",), lambda: _find(jaxpr))


def _find(jaxpr: Jaxpr) -> KeyEffects:
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
    return KeyEffects([(inputs[v], part) for v, (part, _) in spent.items() if v in inputs],
                  [inputs[v] if v in inputs else SPENT if v in spent else NEW for v in owners])


def use_of_operation(eqn: JaxprEqn) -> KeyEffects:
    """Return the use of keys by an equation."""
    rule = eqn.primitive.traits.key_use
    if callable(rule):
        return rule(eqn, use_of_program)
    keys = [(i, True) for i, v in enumerate(eqn.invars) if _holds_keys(v)]
    count = len(eqn.outvars)
    if rule is KeyUse.READS or not keys:
        return KeyEffects((), [NEW] * count)
    if rule is KeyUse.FORWARDS:
        return KeyEffects([(i, part) for i, part in keys if i], [0] * count)
    if rule is KeyUse.PERMUTES:
        return KeyEffects(keys, [NEW] * count)
    for program in subprograms(eqn.params):
        if len(program.invars) == len(eqn.invars) and len(program.outvars) == count:
            return within(use_of_program(program), eqn.invars, program.invars)
    return KeyEffects(keys, [SPENT] * count)


def within(use: KeyEffects, operands: Sequence[Any], inputs: Sequence[Any]) -> KeyEffects:
    """Return the use of keys by a call of a jaxpr.

    A part of an input becomes all of the operand if their shapes differ.
    """
    count = len(operands)
    spends = [(i, part if operands[i].aval.shape == inputs[i].aval.shape else True) for i, part in use.spends if i < count]
    return KeyEffects(spends, [SPENT if isinstance(r, int) and r >= count else r for r in use.results])


def _holds_keys(v) -> bool:
    """True if a variable holds random keys."""
    return type(v) is not Literal and not isinstance(getattr(v.aval, "dtype", _number), np.dtype)


_number = np.dtype(np.float32)


def overlap(a, b) -> bool:
    """True if two parts of an array of keys overlap; also if the parts have different shapes, unless one of them is empty."""
    if np.shape(a) and np.shape(b) and np.shape(a) == np.shape(b):
        return bool(np.any(np.logical_and(a, b)))
    return bool(np.any(a)) and bool(np.any(b))


def together(a, b):
    """Return the union of two parts of an array of keys."""
    if np.shape(a) and np.shape(a) == np.shape(b):
        return np.logical_or(a, b)
    if np.shape(a) and np.shape(b):
        return True
    return (b if a is False else a if b is False else True)


def _spent_twice(jaxpr: Jaxpr, eqn: JaxprEqn, i: int, by: JaxprEqn | None) -> KeyReuseError:
    earlier = "" if by is None or by is eqn else f", and was by {_operation_name(by)} at {source.describe(by.site)}"
    return KeyReuseError(f"{jaxpr.debug_info.label} uses a random key twice: argument {i} of "
                         f"{_operation_name(eqn)} at {source.describe(eqn.site)} is already consumed{earlier}. "
                         f"{KeyReuseError.remedy}")


def _operation_name(eqn: JaxprEqn) -> str:
    """Return the name of an operation, for messages."""
    primitive = eqn.primitive
    if primitive.traits.calls_custom_rule:
        return str(primitive.name_of(eqn.params))
    return str(eqn.params.get("name") or primitive.shown_as)
