"""Explanations of why a function is retraced: the setting `explain_cache_misses`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from xlafront.base import config
from xlafront.core import source, tree
from xlafront.core.avals import str_short


class Signature(NamedTuple):
    """The key of a trace: all that the program of a function depends on."""

    statics: tuple
    in_tree: Any
    in_avals: tuple
    settings: tuple
    axes: tuple
    mesh: Any


_seen_locations: set[str] = set()  # source locations of the functions traced while the setting was on


def explain_miss(name: str, signature: tuple, past: Collection[tuple], debug_info) -> str:
    """Describe the closest signature that was traced before, and how this one differs; both have the fields of `Signature`."""
    location = debug_info.location
    function = f"{name} ({source.position(debug_info.func_filename, debug_info.func_lineno)})" if location else name
    text = f"TRACING CACHE MISS at {source.describe(source.current_site())}: "
    if not past:
        text += f"{function} is traced for the first time, it was never seen."
        if location in _seen_locations:
            text += (" But another function on the same line was: is it a new function on each iteration, like a lambda in a "
                     "loop? Define it once outside, so that its trace is found.")
        _seen_locations.add(location)
        return text
    _seen_locations.add(location)
    now = Signature(*signature)
    known = [Signature(*old) for old in reversed(list(past))]
    same = [old for old in known if old.in_tree == now.in_tree]  # only these can be compared argument by argument
    changes = min((_differences(now, old, debug_info) for old in same or known), key=len)
    return f"{text}{function} is traced again, as all keys seen before differ. From the closest: {'; '.join(changes)}."


def _differences(new: Signature, old: Signature, debug_info) -> list[str]:
    found = []
    now, before = dict(new.statics), dict(old.statics)
    for key, value in new.statics:
        if key not in before:
            found.append(f"different input pytree: static argument {key} is given now ({value.value!r})")
        elif before[key] != value:
            found.append(f"static argument {key} is {value.value!r} now, and was {before[key].value!r}")
    found += [f"different input pytree: static argument {key} is left out now" for key in before if key not in now]
    if new.in_tree != old.in_tree:
        was, given = (tree.leaf_indices(t) for t in (old.in_tree, new.in_tree))
        return [*found, f"different input pytree: {tree.first_difference(was, given)}"]
    for i, (a, b) in enumerate(zip(old.in_avals, new.in_avals)):
        if a is not b:
            found.append(f"different input types: argument {debug_info.arg_names[i]} is {_type(b)} now, and was {_type(a)}")
    names = [setting.name for setting in config.settings.values() if setting.traced]
    changed = [f"{name} is {b!r} now, and was {a!r}" for name, a, b in zip(names, old.settings, new.settings) if a != b]
    if changed:
        found.append(f"the tracing context differs, as a config setting or its context manager makes it: {', '.join(changed)}")
    if new.axes != old.axes or new.mesh != old.mesh or new.settings[len(names):] != old.settings[len(names):]:
        found.append("the tracing context differs: other named axes or another mesh are in scope")
    return found


def _type(aval) -> str:
    if getattr(aval, "weak_type", False):
        return f"{str_short(aval)} with a weak type, as Python scalars have"
    return str_short(aval)
