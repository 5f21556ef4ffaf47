"""Arrays of random keys that are used twice: what the setting `debug_key_reuse` looks for.

An array remembers which of its keys are spent (`KeyArray._consumed`): all or none of them, or those that a mask says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core.errors import KeyReuseError
from xlafront.core.ir import ClosedJaxpr
from xlafront.core.key_use import SPENT, overlap, together, use_of_program
from xlafront.core.keys import KeyArray


def check(name: str, closed: ClosedJaxpr, arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Raise if a program that is about to run would spend keys that are spent already."""
    use = use_of_program(closed.jaxpr)
    operands = (*arguments, *closed.consts)
    user = name if [eqn.primitive.name for eqn in closed.jaxpr.eqns] == [name] else "jit-compiled function"
    spent: list[tuple[KeyArray, Any]] = []
    for i, part in use.spends:
        keys = operands[i]
        if isinstance(keys, KeyArray):
            what = f"argument {names[i]} of {name}" if i < len(names) else (
                f"argument {i} of {name}" if i < len(arguments) else f"an array that {name} closes over")
            refuse_spent(keys, part, user, i, what)
            if any([other is keys and overlap(before, part) for other, before in spent]):
                raise KeyReuseError(f"{user} got a previously-consumed key at index {i}: {what} ({keys.aval}) is another "
                                    f"of its arguments too, and both are consumed. {KeyReuseError.remedy}")
            spent.append((keys, part))


def note(closed: ClosedJaxpr, arguments: Sequence[Any], results: Sequence[Any]) -> None:
    """Remember of arguments and results what a program has done."""
    use = use_of_program(closed.jaxpr)
    operands = (*arguments, *closed.consts)
    for i, part in use.spends:
        if isinstance(operands[i], KeyArray):
            operands[i]._consumed = together(operands[i]._consumed, part)
    for x, result in zip(results, use.results):
        if isinstance(x, KeyArray):
            x._consumed = handed_on(operands[result], x) if isinstance(result, int) else result == SPENT


def handed_on(keys: KeyArray, result: KeyArray):
    """Which keys of a result are spent that holds those of another array."""
    consumed = keys._consumed
    return consumed if np.shape(consumed) == result.shape else bool(np.any(consumed))


def take(keys: KeyArray, index, result: KeyArray) -> None:
    """Spend what a static index picks out: it is in the result from now on."""
    part = np.zeros(keys.shape, bool)
    part[index] = True
    refuse_spent(keys, part, "indexing", 0, "the array")
    keys._consumed = together(keys._consumed, part)
    result._consumed = False


def refuse_spent(keys: KeyArray, part, user: str, index: int, what: str) -> None:
    if overlap(keys._consumed, part):
        raise KeyReuseError(f"{user} got a previously-consumed key at index {index}: {what} ({keys.aval}) is already "
                            f"consumed, by an earlier call that drew numbers from it or split it. {KeyReuseError.remedy}")
