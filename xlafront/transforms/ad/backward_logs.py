"""Logs of backward passes: named values that backward rules return in addition to cotangents.

The pass that `vjp` starts opens a collector. A jaxpr that is transposed on the way returns the logs of its rules as additional
results, so that no tracer leaves its trace; its caller records them again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlafront.core import errors

if TYPE_CHECKING:
    from xlafront.core.tree import PyTreeDef


class _State(threading.local):
    """The logs of the innermost backward pass of a thread (None outside of one), and True if their values are requested."""

    collector: tuple[dict[Any, Any] | None, bool] = None, False


_state = _State()


class collect:
    """Collect the logs of a backward pass in the dictionary that `with` returns: names, and values if `has_values`.

    With None the backward rule of a user runs: passes inside of it have logs of their own. Hot: once an eager gradient.
    """

    __slots__ = ("collector", "saved")

    def __init__(self, has_values: bool | None) -> None:
        self.collector: tuple[dict[Any, Any] | None, bool] = (None, False) if has_values is None else ({}, has_values)

    def __enter__(self) -> Any:
        self.saved = _state.collector
        _state.collector = self.collector
        return self.collector[0]

    def __exit__(self, *_: object) -> None:
        _state.collector = self.saved


def collects_values() -> bool:
    """True if the backward pass returns the values of logs."""
    return _state.collector[1]


def record(logs: dict[Any, Any], source: str) -> None:
    """Add logs to the current pass; raise if a name occurs twice."""
    collected, has_values = _state.collector
    if collected is None:
        return
    for name, value in logs.items():
        if name in collected:
            raise ValueError(f"Duplicate backward-pass log key {name!r} from {source}: each name must be unique within a "
                             f"backward pass. Name the log after the call that makes it.")
        collected[name] = value if has_values else None


def record_results(structure: PyTreeDef, values: Sequence[Any]) -> None:
    """Record logs that are results of a call."""
    if structure.num_nodes > 1:
        record(structure.unflatten(values), "a call")


def logs_of_rule(logs: Any, title: str) -> dict[Any, Any]:
    """Return the logs that a rule returned, None for none, as a dictionary."""
    if logs is None:
        return {}
    if not isinstance(logs, dict):
        raise TypeError(f"{title} must return logs as a dict of named values, or None, got {errors.short(logs)} of type "
                        f"{type(logs).__name__}.")
    return logs
