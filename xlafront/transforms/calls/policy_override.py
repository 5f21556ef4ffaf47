"""A policy in place of those that a program has: `plan_remat` compares policies without a change of the program.

While an `Override` is set, checkpoints save what its policy says. A program without checkpoints is differentiated as if the
bodies of its scans, or else its losses, were checkpointed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from xlafront.base.config import UserContext


class Place(enum.Enum):
    """The functions that are checkpointed by the policy of an override."""

    CHECKPOINTS = "each function in xf.checkpoint"
    SCANS = "the body of each lax.scan"
    LOSSES = "the differentiated function"


class Override(NamedTuple):
    """A policy, and where it applies."""

    policy: Callable
    place: Place


_context: list[UserContext] = []  # made by the first override, since a new part of the key of traces retraces all functions


def override(value: Override | None) -> Any:
    """Return a context manager in which functions are traced with an override."""
    if not _context:
        _context.append(UserContext(None))
    return _context[0](value)


def _current() -> Override | None:
    return _context[0].value if _context else None


def policy_or(policy: Callable | None) -> Callable | None:
    """Return the policy of the override; without one, the given policy."""
    current = _current()
    return policy if current is None else current.policy


def policy_at(place: Place) -> Callable | None:
    """Return the policy of the override if it applies at this place, else None."""
    current = _current()
    return current.policy if current is not None and current.place is place else None


def within_checkpoint() -> Any:
    """Return a context manager in which no more functions are checkpointed, but for those that are in the program."""
    current = _current()
    return nullcontext() if current is None else override(current._replace(place=Place.CHECKPOINTS))
