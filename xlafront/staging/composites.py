"""Values that consist of others as arguments of compiled functions: the program takes what they hold and returns what they hold
at its end, which is then written to them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import tracing, tree
from xlafront.core.tracing import StagingTrace, Trace, Tracer
from xlafront.staging.signatures import Call, join_call


class Moved:
    """References to what a value holds that a compiled function uses without being given it. They hold it from then on, and the
    value what it held before, by which it is known: `contents`."""

    def __init__(self, kind: Any, contents: Sequence[Any], references: list[Any]):
        self.kind, self.references = kind, references
        self.mark = weakref.ref(contents[0], lambda _, key=id(contents[0]): outside.pop(key, None))

    def read(self) -> list[Any]:
        return [reference[...] for reference in self.references]

    def write(self, arrays: Sequence[Any], before: Sequence[Any]) -> None:
        types = [[(aval.shape, aval.dtype) for aval in map(tracing.aval_of, side)] for side in (arrays, self.references)]
        if types[0] != types[1]:
            raise TypeError(f"a value of type {self.kind}, which a compiled function uses that it is no argument of, can hold "
                            f"only arrays of the shapes and dtypes that it held: {types[1]}, got {types[0]}.")
        for reference, old, new in zip(self.references, before, arrays):
            if old is not new:
                reference[...] = new


outside: dict[int, Moved] = {}  # of values that no traced function made: by the first array, which nothing else holds
_of_traces: weakref.WeakKeyDictionary[Trace, dict[int, Moved]] = weakref.WeakKeyDictionary()  # of others: by their id


def moved(x: Any, contents: Sequence[Any]) -> Moved | None:
    """The references that stand for what a value holds, if there are any."""
    if outside and contents:
        entry = outside.get(id(contents[0]))
        if entry is not None and entry.mark() is contents[0]:
            return entry
    staging = staging_around(tracing.thread.trace) if _of_traces else None
    while staging is not None:
        entry = _of_traces.get(staging, {}).get(id(x))
        if entry is not None:
            return entry
        staging = staging_around(staging.parent)
    return None


def note_moved(x: Any, owner: Trace | None, contents: Sequence[Any], references: list[Any]) -> Moved:
    entry = Moved(tracing.composites[type(x)](x), contents, references)
    if owner is None:
        outside[id(contents[0])] = entry
    else:
        _of_traces.setdefault(owner, {})[id(x)] = entry
    return entry


# The values that the functions under a trace have made or got as arguments, by id. It keeps them, so that their ids stay taken.
_made: weakref.WeakKeyDictionary[Trace, dict[int, Any]] = weakref.WeakKeyDictionary()


def staging_around(trace: Trace | None) -> StagingTrace | None:
    """The nearest trace that writes a program down, of those that a trace passes operations on to."""
    while trace is not None and type(trace) is not StagingTrace:
        trace = getattr(trace, "parent", None)
    return trace


def note_made(x: Any) -> None:
    """A value that belongs to the function that is being traced."""
    staging = staging_around(tracing.thread.trace)
    if staging is not None:
        _made.setdefault(staging, {})[id(x)] = x


def owner_of(x: Any, contents: Sequence[Any]) -> StagingTrace | None:
    """The trace of the function that a value belongs to, None outside of all."""
    staging = staging_around(tracing.thread.trace)
    while staging is not None:
        if id(x) in _made.get(staging, ()):
            return staging
        staging = staging_around(staging.parent)
    return next((staging_around(leaf._trace) for leaf in contents if isinstance(leaf, Tracer)), None)


def among(leaves: Sequence[Any]) -> bool:
    return any([type(x) in tracing.composites for x in leaves])


class _Held:
    """What a value holds, which is a pytree whose structure says how."""

    def __init__(self, arrays: Sequence[Any], kind: Any, state: Any, changed: bool):
        self.arrays, self.kind, self.state, self.changed = arrays, kind, state, changed


tree.register_pytree_node(_Held, lambda x: (tuple(x.arrays), (x.kind, x.state, x.changed)), lambda aux, x: _Held(x, *aux))


def _held(kind: Any, state: Any, x: Any) -> tuple[Moved | None, list[Any]]:
    """The arrays that a value holds, and the references that hold them, if there are any."""
    contents = kind.read_loval(state, x)
    entry = moved(x, contents)
    return entry, contents if entry is None else entry.read()


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
        return [_held(kind, state, x)[1] for kind, state, x in zip(self.kinds, self.states, self.values)]

    def finish(self, held: Sequence[_Held]) -> None:
        """Write to the values what they hold now."""
        for x, now in zip(self.values, held):
            entry, before = _held(now.kind, x.cur_qdd(), x) if now.changed else (None, ())
            if entry is not None:
                entry.write(now.arrays, before)
            elif now.changed:
                now.kind.update_from_loval(now.state, x, *now.arrays)


def on_arrays(fun: Callable, call: Call, contents: Contents) -> Callable:
    """The function of what the values hold in place of the one that takes them."""
    statics, in_tree, kinds, states, places = call.statics, call.in_tree, contents.kinds, contents.states, contents.places

    def run(arrays, *others):
        values = [kind.new_from_loval(state, *own) for kind, state, own in zip(kinds, states, arrays)]
        rest = iter(others)
        args, kwargs = join_call(statics, in_tree, [next(rest) if i is None else values[i] for i in places])
        for x in values:
            note_made(x)
        result = fun(*args, **kwargs)
        held = []
        for kind, own, x in zip(kinds, arrays, values):
            state = x.cur_qdd()
            _, now = _held(kind, state, x)
            changed = len(now) != len(own) or any([a is not b for a, b in zip(now, own)])
            held.append(_Held(now if changed else (), kind, state, changed))
        return result, held

    return run
