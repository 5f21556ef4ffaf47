"""With the setting `check_tracer_leaks`: who still refers to values of a function after it has been traced."""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

from xlafront.core.errors import UnexpectedTracerError, what_is

_LINKS = 6  # of a chain of references, at most


def check_leaks(ended: weakref.ref, tracer_type: type, name: str) -> None:
    """Raise if anything still refers to a tracer of a trace that has ended; `name` is the function that was traced."""
    if ended() is None:  # and no tracer of it: each refers to its trace
        return
    gc.collect()  # what refers to it in a circle alone
    trace = ended()
    held = [x for x in gc.get_referrers(trace) if isinstance(x, tracer_type)]
    if held:
        del held[3:]
        shown = "; ".join([_described(x, held) for x in held])
        raise UnexpectedTracerError(f"Leaked trace: {name} was traced, and its values outlive it. Leaked tracer(s): {shown}. "
                                    "Storing them is a side effect that is not repeated when the function runs: return them "
                                    "instead.")


def _described(x: Any, ours: list) -> str:
    """The value, what refers to it, what refers to that, and so on up to a variable of a module."""
    links, seen = [what_is(x)], {id(ours)}
    for _ in range(_LINKS):
        found = _referrer(x, seen)
        if found is None:
            break
        x, text = found
        del found  # which refers to x
        links.append(f"{text} refers to {'it' if len(links) == 1 else 'that'}")
        if isinstance(x, types.ModuleType):
            break
        seen.add(id(x))
    return ", ".join(links)


def _referrer(x: Any, seen: set[int]) -> tuple[Any, str] | None:
    """One of the objects that refer to `x`, and in words where in it. (Comprehensions over `x` would be such objects.)"""
    for holder in gc.get_referrers(x):
        if id(holder) in seen or isinstance(holder, types.FrameType):
            continue
        if isinstance(holder, tuple) and len(holder) == 1:  # the arguments of `get_referrers`
            continue
        if isinstance(holder, (list, tuple)):
            return holder, f"a {type(holder).__name__} at [{_position(enumerate(holder), x)}]"
        if isinstance(holder, dict):
            key = _position(holder.items(), x)
            return _owner_of(holder, key) or (holder, f"a dict at [{key!r}]")
        if isinstance(holder, types.CellType):
            found = _closure_of(holder)
            if found is not None:
                return found
        elif (attribute := _attribute(holder, x)) is not None:
            return holder, f"the attribute {attribute} of a {type(holder).__name__}"
    return None


def _position(pairs: Any, x: Any) -> Any:
    for key, value in pairs:
        if value is x:
            return key
    return None


def _closure_of(cell: types.CellType) -> tuple[Any, str] | None:
    """The function that closes over a variable."""
    for cells in gc.get_referrers(cell):
        for owner in gc.get_referrers(cells) if isinstance(cells, tuple) else ():
            if isinstance(owner, types.FunctionType) and owner.__closure__ is cells:
                name = owner.__code__.co_freevars[list(map(id, cells)).index(id(cell))]
                return owner, f"the closed-over variable {name} of the function {owner.__name__}"
    return None


def _owner_of(namespace: dict, key: Any) -> tuple[Any, str] | None:
    """The module or object whose attributes a dictionary holds."""
    for owner in gc.get_referrers(namespace):
        if getattr(owner, "__dict__", None) is namespace:
            if isinstance(owner, types.ModuleType):
                return owner, f"the variable {key} of the module {owner.__name__}"
            return owner, f"the attribute {key} of a {type(owner).__name__}"
    return None


def _attribute(holder: Any, x: Any) -> str | None:
    for name in [*getattr(holder, "__dict__", ()), *getattr(type(holder), "__slots__", ())]:
        if getattr(holder, name, None) is x:
            return name
    return None
