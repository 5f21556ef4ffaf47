"""Detection of reused random keys in arrays (setting `debug_key_reuse`).

An array stores which of its keys are consumed (`KeyArray._consumed`): all, none, or those of a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.checks.key_use import SPENT, overlap, together, use_of_program
from xlafront.core.errors import KeyReuseError
from xlafront.core.ir import Jaxpr
from xlafront.runtime.keys import KeyArray


def check(name: str, closed: Jaxpr, arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Raise if running a jaxpr would consume keys that are consumed already."""
    use = use_of_program(closed.structure)
    operands = (*arguments, *closed.consts)
    caller = name if [eqn.primitive.name for eqn in closed.eqns] == [name] else "jit-compiled function"
    spent: list[tuple[KeyArray, Any]] = []
    for i, part in use.spends:
        keys = operands[i]
        if isinstance(keys, KeyArray):
            argument = (f"argument {names[i]} of {name}" if i < len(names) else f"argument {i} of {name}"
                        if i < len(arguments) else f"an array that {name} closes over")
            refuse_spent(keys, part, caller, i, argument)
            if any([other is keys and overlap(before, part) for other, before in spent]):
                raise KeyReuseError(f"{caller} got a previously-consumed key at index {i}: {argument} ({keys.aval}) is "
                                    f"the same as another argument, and both are consumed. {KeyReuseError.remedy}")
            spent.append((keys, part))


def note(closed: Jaxpr, arguments: Sequence[Any], results: Sequence[Any]) -> None:
    """Mark the keys of arguments and results that a jaxpr has consumed."""
    use = use_of_program(closed.structure)
    operands = (*arguments, *closed.consts)
    for i, part in use.spends:
        if isinstance(operands[i], KeyArray):
            operands[i]._consumed = together(operands[i]._consumed, part)
    for x, result in zip(results, use.results):
        if isinstance(x, KeyArray):
            x._consumed = handed_on(operands[result], x) if isinstance(result, int) else result == SPENT


def handed_on(keys: KeyArray, result: KeyArray):
    """Return which keys of a result are consumed, if it holds those of another array."""
    consumed = keys._consumed
    return consumed if np.shape(consumed) == result.shape else bool(np.any(consumed))


def take(keys: KeyArray, index, result: KeyArray) -> None:
    """Consume the keys that a static index selects; the result holds them from now on."""
    part = np.zeros(keys.shape, bool)
    part[index] = True
    refuse_spent(keys, part, "indexing", 0, "the array")
    keys._consumed = together(keys._consumed, part)
    result._consumed = False


def refuse_spent(keys: KeyArray, part, caller: str, index: int, argument: str) -> None:
    if overlap(keys._consumed, part):
        raise KeyReuseError(f"{caller} got a previously-consumed key at index {index}: {argument} ({keys.aval}) is already "
                            f"consumed, by an earlier call that sampled with it or split it. {KeyReuseError.remedy}")
