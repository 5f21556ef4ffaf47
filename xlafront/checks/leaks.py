"""Detection of leaked tracers: references to values of a function after its trace has ended (setting `check_tracer_leaks`).
"""

from __future__ import annotations

import gc
import types
import weakref
from typing import Any

from xlafront.core.errors import UnexpectedTracerError, described

_LINKS = 6  # maximal length of a chain of references


def check_leaks(ended: weakref.ref, tracer_type: type, name: str) -> None:
    """Raise if a tracer of a trace that has ended is still referenced; `name` is the function that was traced."""
    if ended() is None:  # then its tracers are freed too: each refers to its trace
        return
    gc.collect()  # free reference cycles
    trace = ended()
    held = [x for x in gc.get_referrers(trace) if isinstance(x, tracer_type)]
    if held:
        del held[3:]
        shown = "; ".join([_described(x, held) for x in held])
        raise UnexpectedTracerError(f"Leaked trace: {name} was traced, and its values outlive it. Leaked tracer(s): {shown}. "
                                    "Storing them is a side effect that is not repeated when the function runs. Return them "
                                    "instead.")


def _described(x: Any, ours: list) -> str:
    """Return the chain of referrers of a value, up to a variable of a module."""
    links, seen = [described(x)], {id(ours)}
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
    """Return an object that refers to `x`, and a description of the reference.

    (Comprehensions over `x` would be such objects.)
    """
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
    """Return the function that closes over a variable."""
    for cells in gc.get_referrers(cell):
        for owner in gc.get_referrers(cells) if isinstance(cells, tuple) else ():
            if isinstance(owner, types.FunctionType) and owner.__closure__ is cells:
                name = owner.__code__.co_freevars[list(map(id, owner.__closure__ or ())).index(id(cell))]
                return owner, f"the closed-over variable {name} of the function {owner.__name__}"
    return None


def _owner_of(namespace: dict, key: Any) -> tuple[Any, str] | None:
    """Return the module or object whose attributes a dictionary holds."""
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
