"""Where operations were written: sites of equations and the names of the scopes that they are in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from xlafront.core import source
from xlafront.core.source import SourceInfo as SourceInfo


class Scope(NamedTuple):
    """A part of a name stack."""

    name: str


class NameStack:
    """The names of the scopes that an operation is in, outermost first.

    >>> str(NameStack().extend("encoder").extend("layer"))
    'encoder/layer'
    """

    __slots__ = ("stack",)

    def __init__(self, stack: tuple = ()):
        self.stack = tuple(stack)

    @classmethod
    def of(cls, text: str) -> NameStack:
        return cls(tuple(Scope(part) for part in text.split("/") if part))

    def extend(self, name: str) -> NameStack:
        """The stack of a scope inside."""
        return NameStack((*self.stack, Scope(name)))

    def transform(self, transform_name: str) -> NameStack:
        """The stack inside of a transformation."""
        return NameStack((*self.stack, Scope(f"{transform_name}()")))

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack((*self.stack, *other.stack))

    def __radd__(self, other: NameStack) -> NameStack:
        return NameStack((*other.stack, *self.stack))

    def __getitem__(self, where) -> NameStack:
        part = self.stack[where]
        return NameStack(part if isinstance(where, slice) else (part,))

    def __len__(self):
        return len(self.stack)

    def __eq__(self, other):
        return isinstance(other, NameStack) and self.stack == other.stack

    def __hash__(self):
        return hash(self.stack)

    def __str__(self):
        return "/".join(scope.name for scope in self.stack)

    def __repr__(self):
        return f"NameStack({str(self)!r})"


def current() -> SourceInfo:
    """The caller's line.

    >>> current().function
    '<module>'
    """
    return source.describe(source.current_site())


def new_source_info() -> SourceInfo:
    """A source of which nothing is known.

    >>> new_source_info().file
    '<unknown>'
    """
    return source.describe(None)


def current_name_stack() -> NameStack:
    """The scopes that the caller is in.

    >>> with xf.named_scope("encoder"):
    ...     print(current_name_stack())
    encoder
    """
    return NameStack.of(source.current_scope.get())


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one scope, or of none.

    - `name`: that of the scope.

    >>> str(new_name_stack("encoder"))
    'encoder'
    """
    return NameStack.of(name)


@contextlib.contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Set the scopes that operations are in.

    - `name_stack`: the scopes.

    >>> with set_name_stack(new_name_stack("encoder")):
    ...     y = xnp.sin(1.0)
    """
    saved = source.current_scope.set(str(name_stack))
    try:
        yield
    finally:
        source.current_scope.reset(saved)


def extend_name_stack(name: str) -> AbstractContextManager[None]:
    """One scope more.

    - `name`: its name.

    >>> with extend_name_stack("encoder"):
    ...     y = xnp.sin(1.0)
    """
    return set_name_stack(current_name_stack().extend(name))


def transform_name_stack(name: str) -> AbstractContextManager[None]:
    """A scope for what a transformation makes.

    - `name`: that of the transformation.

    >>> with transform_name_stack("my_grad"):
    ...     y = xnp.sin(1.0)
    """
    return set_name_stack(current_name_stack().transform(name))


def reset_name_stack() -> AbstractContextManager[None]:
    """Outside of all scopes.

    >>> with reset_name_stack():
    ...     y = xnp.sin(1.0)
    """
    return set_name_stack(NameStack())


@contextlib.contextmanager
def user_context(traceback: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Attribute operations to the place where an earlier equation was written.

    - `traceback`: the place: `equation.source_info`, or what `current` gives.
    - `name_stack`: the scopes that they are in; those of this place without.

    >>> with user_context(current()):
    ...     y = xnp.sin(1.0)
    """
    site = getattr(traceback, "site", None)
    scopes = current_name_stack() if name_stack is None else name_stack
    with set_name_stack(scopes), source.using_site(site if site is not None else source.thread.site):
        yield


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """A line of the user's program in words.

    - `source_info`: the line. `num_frames`: is there for the reference's signature.

    >>> text = summarize(current())
    """
    return str(source_info)


def register_exclusion(path: str) -> None:
    """Count the files under a path as a library: operations are attributed to the lines that call into it.

    - `path`: how the names of these files begin.

    >>> register_exclusion("/opt/my_library/")
    """
    source.exclude(path)
