"""Values that consist of others as arguments of compiled functions: the program takes what they hold and returns what they hold
at its end, which is then written to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import tracing, tree
from xlafront.staging.signatures import Call, join_call


class _Inside(threading.local):
    """The values that stand for arguments of the functions that are being traced."""

    values: tuple = ()


inside = _Inside()


def among(leaves: Sequence[Any]) -> bool:
    return any([type(x) in tracing.composites for x in leaves])


class _Held:
    """What a value holds, which is a pytree whose structure says how."""

    def __init__(self, arrays: Sequence[Any], kind: Any, state: Any, changed: bool):
        self.arrays, self.kind, self.state, self.changed = arrays, kind, state, changed


tree.register_pytree_node(_Held, lambda x: (tuple(x.arrays), (x.kind, x.state, x.changed)), lambda aux, x: _Held(x, *aux))


class Contents(NamedTuple):
    """The arguments of one call: the values, each once, which of the flat arguments they are, and the others."""

    values: list[Any]
    kinds: tuple
    states: tuple
    places: tuple[int | None, ...]
    others: list[Any]

    @classmethod
    def of(cls, leaves: Sequence[Any]) -> Contents:
        numbers: dict[int, int] = {}
        values: list[Any] = []
        places: list[int | None] = []
        for x in leaves:
            inside = type(x) in tracing.composites
            if inside and id(x) not in numbers:
                numbers[id(x)] = len(values)
                values.append(x)
            places.append(numbers[id(x)] if inside else None)
        return cls(values, tuple([tracing.composites[type(x)](x) for x in values]), tuple([x.cur_qdd() for x in values]),
                   tuple(places), [x for x, place in zip(leaves, places) if place is None])

    def arrays(self) -> list[list[Any]]:
        return [kind.read_loval(state, x) for kind, state, x in zip(self.kinds, self.states, self.values)]

    def finish(self, held: Sequence[_Held]) -> None:
        """Write to the values what they hold now."""
        for x, now in zip(self.values, held):
            if now.changed:
                now.kind.update_from_loval(now.state, x, *now.arrays)


def on_arrays(fun: Callable, call: Call, contents: Contents) -> Callable:
    """The function of what the values hold in place of the one that takes them."""
    statics, in_tree, kinds, states, places = call.statics, call.in_tree, contents.kinds, contents.states, contents.places

    def run(arrays, *others):
        values = [kind.new_from_loval(state, *own) for kind, state, own in zip(kinds, states, arrays)]
        rest = iter(others)
        args, kwargs = join_call(statics, in_tree, [next(rest) if i is None else values[i] for i in places])
        outer, inside.values = inside.values, (*inside.values, *values)
        try:
            result = fun(*args, **kwargs)
        finally:
            inside.values = outer
        held = []
        for kind, own, x in zip(kinds, arrays, values):
            state = x.cur_qdd()
            now = kind.read_loval(state, x)
            changed = len(now) != len(own) or any([a is not b for a, b in zip(now, own)])
            held.append(_Held(now if changed else (), kind, state, changed))
        return result, held

    return run
