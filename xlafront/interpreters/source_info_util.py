"""Source locations of equations, and stacks of name scopes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from xlafront.core import source
from xlafront.core.source import SourceInfo as SourceInfo


class Scope(NamedTuple):
    """A component of a name stack."""

    name: str


class NameStack:
    """The names of the scopes of an equation, outermost first.

    Example:
        >>> str(NameStack().extend("encoder").extend("layer"))
        'encoder/layer'
    """

    __slots__ = ("stack",)

    def __init__(self, stack: tuple = ()):
        self.stack = tuple(stack)

    @classmethod
    def of(cls, text: str) -> NameStack:
        return cls(tuple(Scope(name) for name in text.split("/") if name))

    def extend(self, name: str) -> NameStack:
        """Return the stack of a nested scope."""
        return NameStack((*self.stack, Scope(name)))

    def transform(self, transform_name: str) -> NameStack:
        """Return the stack inside a transformation."""
        return NameStack((*self.stack, Scope(f"{transform_name}()")))

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack((*self.stack, *other.stack))

    def __radd__(self, other: NameStack) -> NameStack:
        return NameStack((*other.stack, *self.stack))

    def __getitem__(self, index) -> NameStack:
        item = self.stack[index]
        return NameStack(item if isinstance(index, slice) else (item,))

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
    """Return the source location of the caller.

    Returns:
        The location.

    Example:
        >>> current().function
        '<module>'
    """
    return source.describe(source.current_site())


def new_source_info() -> SourceInfo:
    """Return an unknown source location.

    Returns:
        The location.

    Example:
        >>> new_source_info().file
        '<unknown>'
    """
    return source.describe(None)


def current_name_stack() -> NameStack:
    """Return the name scopes of the caller.

    Returns:
        The name stack.

    Example:
        >>> with xf.named_scope("encoder"):
        ...     print(current_name_stack())
        encoder
    """
    return NameStack.of(source.current_scope.get())


def new_name_stack(name: str = "") -> NameStack:
    """Return a name stack with one scope, or an empty one.

    Args:
        name: Name of the scope.

    Returns:
        The name stack.

    Example:
        >>> str(new_name_stack("encoder"))
        'encoder'
    """
    return NameStack.of(name)


@contextlib.contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """Set the name stack of operations inside a `with` block.

    Args:
        name_stack: Name stack.

    Returns:
        A context manager.

    Example:
        >>> with set_name_stack(new_name_stack("encoder")):
        ...     y = xnp.sin(1.0)
    """
    saved = source.current_scope.set(str(name_stack))
    try:
        yield
    finally:
        source.current_scope.reset(saved)


def extend_name_stack(name: str) -> AbstractContextManager[None]:
    """Enter one more name scope inside a `with` block.

    Args:
        name: Name of the scope.

    Returns:
        A context manager.

    Example:
        >>> with extend_name_stack("encoder"):
        ...     y = xnp.sin(1.0)
    """
    return set_name_stack(current_name_stack().extend(name))


def transform_name_stack(name: str) -> AbstractContextManager[None]:
    """Enter a name scope for the operations of a transformation.

    Args:
        name: Name of the transformation.

    Returns:
        A context manager.

    Example:
        >>> with transform_name_stack("my_grad"):
        ...     y = xnp.sin(1.0)
    """
    return set_name_stack(current_name_stack().transform(name))


def reset_name_stack() -> AbstractContextManager[None]:
    """Leave all name scopes inside a `with` block.

    Returns:
        A context manager.

    Example:
        >>> with reset_name_stack():
        ...     y = xnp.sin(1.0)
    """
    return set_name_stack(NameStack())


@contextlib.contextmanager
def user_context(traceback: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """Attribute operations to the source location of an earlier equation.

    Args:
        traceback: Location: `equation.source_info`, or the result of `current`.
        name_stack: Name scopes of the operations. Default: those of the caller.

    Returns:
        A context manager.

    Example:
        >>> with user_context(current()):
        ...     y = xnp.sin(1.0)
    """
    site = getattr(traceback, "site", None)
    scopes = current_name_stack() if name_stack is None else name_stack
    with set_name_stack(scopes), source.using_site(site if site is not None else source.thread.site):
        yield


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """Return a source location as text.

    Args:
        source_info: Location.
        num_frames: Ignored; accepted for compatibility with JAX.

    Returns:
        The text.

    Example:
        >>> text = summarize(current())
    """
    return str(source_info)


def register_exclusion(path: str) -> None:
    """Treat the files under a path as a library: operations are attributed to the lines that call into it.

    Args:
        path: Prefix of the names of the files.

    Example:
        >>> register_exclusion("/opt/my_library/")
    """
    source.exclude(path)
