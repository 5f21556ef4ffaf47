"""Mutable composite values as arguments of jitted functions.

The program takes the component arrays of each value and returns those that it changed, which are written back after the call.
A value that a jitted function uses without being given it is held by references from then on (`Moved`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import tracing, tree
from xlafront.core.tracing import StagingTrace, Trace, Tracer
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Call, join_call


class Moved:
    """References to the components of a value that a jitted function uses without being given it.

    They hold the components from then on. The value holds its previous ones, the first of which identifies it.
    """

    def __init__(self, kind: Any, contents: Sequence[Any], references: list[Any]):
        self.kind, self.references = kind, references
        self.mark = weakref.ref(contents[0], lambda _, key=id(contents[0]): outside.pop(key, None))

    def read(self) -> list[Any]:
        return [reference[...] for reference in self.references]

    def write(self, arrays: Sequence[Any], before: Sequence[Any]) -> None:
        new_types, types = [[(aval.shape, aval.dtype) for aval in map(tracing.aval_of, side)]
                            for side in (arrays, self.references)]
        if new_types != types:
            raise TypeError(f"a value of type {self.kind}, which a compiled function uses but does not take as an argument, "
                            f"can hold only arrays of the shapes and dtypes that it held: {types}, got {new_types}.")
        for reference, old, new in zip(self.references, before, arrays):
            if old is not new:
                reference[...] = new


# Transferred values: those made outside of every traced function, by the id of their first component, which nothing else
# holds; others by trace and by their own id.
outside: dict[int, Moved] = {}
_by_trace: weakref.WeakKeyDictionary[Trace, dict[int, Moved]] = weakref.WeakKeyDictionary()


def moved(x: Any, contents: Sequence[Any]) -> Moved | None:
    """Return the references that hold the components of a value; None if it holds them itself."""
    if outside and contents:
        entry = outside.get(id(contents[0]))
        if entry is not None and entry.mark() is contents[0]:
            return entry
    staging = staging_around(tracing.thread.trace) if _by_trace else None
    while staging is not None:
        entry = _by_trace.get(staging, {}).get(id(x))
        if entry is not None:
            return entry
        staging = staging_around(staging.parent)
    return None


def note_transferred(x: Any, owner: Trace | None, contents: Sequence[Any], references: list[Any]) -> Moved:
    """Record that references hold the components of a value, which belongs to the trace `owner` or to none."""
    entry = Moved(tracing.composites[type(x)](x), contents, references)
    if owner is None:
        outside[id(contents[0])] = entry
    else:
        _by_trace.setdefault(owner, {})[id(x)] = entry
    return entry


# The values that the functions under a trace made or got as arguments, by id; holding them keeps their ids in use.
_made: weakref.WeakKeyDictionary[Trace, dict[int, Any]] = weakref.WeakKeyDictionary()


def staging_around(trace: Trace | None) -> StagingTrace | None:
    """Return the nearest trace that stages equations, among those that a trace passes operations on to."""
    while trace is not None and type(trace) is not StagingTrace:
        trace = getattr(trace, "parent", None)
    return trace


def note_made(x: Any) -> None:
    """Record that a value belongs to the function that is being traced."""
    staging = staging_around(tracing.thread.trace)
    if staging is not None:
        _made.setdefault(staging, {})[id(x)] = x


def owner_of(x: Any, contents: Sequence[Any]) -> StagingTrace | None:
    """Return the trace of the function that a value belongs to; None outside of all."""
    staging = staging_around(tracing.thread.trace)
    while staging is not None:
        if id(x) in _made.get(staging, ()):
            return staging
        staging = staging_around(staging.parent)
    return next((staging_around(leaf._trace) for leaf in contents if isinstance(leaf, Tracer)), None)


def among(leaves: Sequence[Any]) -> bool:
    """True if a leaf is a mutable composite."""
    return any([type(x) in tracing.composites for x in leaves])


class _Components:
    """The components of a value at the end of a program: a pytree whose structure says whether they changed."""

    def __init__(self, arrays: Sequence[Any], kind: Any, state: Any, changed: bool):
        self.arrays, self.kind, self.state, self.changed = arrays, kind, state, changed


tree.register_pytree_node(
    _Components, lambda x: (tuple(x.arrays), (x.kind, x.state, x.changed)), lambda aux, x: _Components(x, *aux))


def _components(kind: Any, state: Any, x: Any) -> tuple[Moved | None, list[Any]]:
    """Return the references that hold the components of a value, if any, and the components."""
    contents = kind.read_loval(state, x)
    entry = moved(x, contents)
    return entry, contents if entry is None else entry.read()


class Contents(NamedTuple):
    """The arguments of one call: the distinct composites, which of them each leaf is, and the other leaves."""

    values: list[Any]
    kinds: tuple
    states: tuple
    positions: tuple[int | None, ...]  # by leaf: the index among `values`, None for another leaf
    others: list[Any]

    @classmethod
    def of(cls, leaves: Sequence[Any]) -> Contents:
        indices: dict[int, int] = {}
        values: list[Any] = []
        positions: list[int | None] = []
        for x in leaves:
            is_composite = type(x) in tracing.composites
            if is_composite and id(x) not in indices:
                indices[id(x)] = len(values)
                values.append(x)
            positions.append(indices[id(x)] if is_composite else None)
        return cls(values, tuple([tracing.composites[type(x)](x) for x in values]), tuple([x.cur_qdd() for x in values]),
                   tuple(positions), [x for x, i in zip(leaves, positions) if i is None])

    def arrays(self) -> list[list[Any]]:
        """Return the components of each value."""
        return [_components(kind, state, x)[1] for kind, state, x in zip(self.kinds, self.states, self.values)]

    def finish(self, final: Sequence[_Components]) -> None:
        """Write the components that the program changed back to the values."""
        for x, now in zip(self.values, final):
            entry, before = _components(now.kind, x.cur_qdd(), x) if now.changed else (None, ())
            if entry is not None:
                entry.write(now.arrays, before)
            elif now.changed:
                now.kind.update_from_loval(now.state, x, *now.arrays)


def function_of_components(fun: Callable, call: Call, contents: Contents) -> Callable:
    """Return the function of components and other leaves, which also returns the final components."""
    statics, in_tree, kinds, states, positions = call.statics, call.in_tree, contents.kinds, contents.states, contents.positions

    def run(arrays, *others):
        values = [kind.new_from_loval(state, *own) for kind, state, own in zip(kinds, states, arrays)]
        rest = iter(others)
        args, kwargs = join_call(statics, in_tree, [next(rest) if i is None else values[i] for i in positions])
        for x in values:
            note_made(x)
        result = fun(*args, **kwargs)
        final = []
        for kind, own, x in zip(kinds, arrays, values):
            state = x.cur_qdd()
            _, now = _components(kind, state, x)
            changed = len(now) != len(own) or any([a is not b for a, b in zip(now, own)])
            final.append(_Components(now if changed else (), kind, state, changed))
        return result, final

    return run


class MutableCompositeAdapter:
    """Mutable composites as their component arrays, for one call (see `staging/argument_adapters.py`)."""

    def __init__(self, jitted: Any, call: Call):
        self.jitted, self.call, self.contents = jitted, call, Contents.of(call.leaves)

    def encode(self, leaves: Sequence[Any]) -> list[Any]:
        return [self.contents.arrays(), *self.contents.others]

    def function_of_arrays(self, leaves: Sequence[Any]) -> Callable:
        jitted, call, contents = self.jitted, self.call, self.contents
        key = call.statics, call.in_tree, contents.positions, contents.kinds, contents.states
        found = jitted.caches.functions_of_components.get(key)
        if found is None:
            outs, flags = jitted.options.out_shardings, jitted.options.donated_flags(call)
            others = [i for i, position in enumerate(contents.positions) if position is None]
            found = jitted.caches.functions_of_components[key] = jitted.adapted(
                function_of_components(jitted.fun, call, contents), call, donated=[False, *[flags[i] for i in others]],
                in_shardings=lambda given: (None, *[given[i] for i in others]),
                out_shardings=outs if outs is UNSPECIFIED else (outs, None))
        return found

    def decode(self, leaves: Sequence[Any], results: Any) -> Any:
        result, final = results
        self.contents.finish(final)
        return result
