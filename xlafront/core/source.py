"""Where in the user's program an operation was written.

An equation keeps a *site*: the tuple `(code, lasti, scope)` of the innermost frame outside this package and
the `named_scope` in force inside of the program that it is in: what calls or copies this program is in scopes of its
own, which come before (`inside`). Taking one costs a walk over a few frames; file names and line numbers are worked
out only when a message, a printout or an MLIR location asks for them.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
from contextvars import ContextVar
from types import CodeType
from typing import NamedTuple

from xlafront.runtime import config

PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Site = tuple[CodeType | None, int, str]
# Of operations in programs that are written once for many places in users' programs: they are where what calls them is.
NOWHERE: Site = (None, 0, "")


class _Thread(threading.local):
    site: Site | None = None  # set while a pass re-runs the rules of an equation traced earlier


thread = _Thread()
# Names of the enclosing `named_scope`s, joined by "/", in this thread and, where tasks take turns in it, in this task.
current_scope: ContextVar[str] = ContextVar("xlafront.scope", default="")
_get_scope, _set_scope = current_scope.get, current_scope.set


# A scope is text: the names of `named_scope`s and, ending in a parenthesis, of transformations, from the outside in and joined
# by "/". `scope_text` makes of `out/transpose(/jvp(/in` what people read, `out/transpose(jvp(in))`. A part that begins with
# `_ATTRIBUTES` is what compilers are told of the operations inside: in this way it is with them wherever they go.
_ATTRIBUTES = "\x01"


class transformed:
    """Operations inside are those of a transformation, "jvp" or "vmap", of what is in the scope. Hot: once a call."""

    __slots__ = ("mark", "saved")

    def __init__(self, transformation: str):
        self.mark = f"{transformation}("

    def __enter__(self):
        self.saved = saved = _get_scope()
        _set_scope(f"{saved}/{self.mark}" if saved else self.mark)

    def __exit__(self, *exception):
        _set_scope(self.saved)


class _Texts(dict):
    """`scope -> text`, of the scopes met."""

    def __missing__(self, scope: str) -> str:
        found, open_marks = [], ""
        for part in scope.split("/"):
            if part.startswith(_ATTRIBUTES):
                continue
            if part.endswith("("):
                open_marks += part
            else:
                found.append(f"{open_marks}{part}{')' * open_marks.count('(')}")
                open_marks = ""
        if open_marks:
            found.append(f"{open_marks}{')' * open_marks.count('(')}")
        text = "/".join(found)
        if len(self) < 1 << 16:
            self[scope] = text
        return text


scope_texts = _Texts()


class _Attributes(dict):
    """`scope -> {name: value}`, what compilers are told of operations in it; None when it is nothing."""

    def __missing__(self, scope: str) -> dict[str, str] | None:
        merged: dict[str, str] = {}
        for part in scope.split("/"):
            if part.startswith(_ATTRIBUTES):
                import json  # start-up: for those who tell compilers something

                for name, value in json.loads(part[len(_ATTRIBUTES):]):
                    merged.pop(name, None)
                    if value is not None:
                        merged[name] = value
        if len(self) < 1 << 16:
            self[scope] = merged or None
        return merged or None


scope_attributes = _Attributes()


class annotated:
    """Compilers are told these attributes of the operations traced inside; None takes one back. Also a decorator.

    Programs that were traced elsewhere are traced again: they are others.
    """

    __slots__ = ("attributes", "part", "saved")

    def __init__(self, attributes: dict[str, str | None]):
        import json  # start-up: for those who tell compilers something

        self.attributes = attributes
        text = json.dumps([*attributes.items()])
        self.part = _ATTRIBUTES + text.replace("/", "\\u002f").replace("(", "\\u0028")  # which separate and end parts
        self.saved: list[tuple[str, object]] = []

    def __enter__(self):
        outer = _get_scope()
        scope = f"{outer}/{self.part}" if outer else self.part
        found = scope_attributes[scope]
        self.saved.append((outer, config.annotations.swap_local(None if found is None else (*found.items(),))))
        _set_scope(scope)

    def __exit__(self, *exception):
        outer, annotations = self.saved.pop()
        config.annotations.set_local(annotations)
        _set_scope(outer)

    def __call__(self, function):
        import functools  # start-up: for those who decorate

        def within(call):
            @functools.wraps(call)
            def inside(*args, **kwargs):
                with annotated(self.attributes):
                    return call(*args, **kwargs)

            return inside

        decorated = within(function)
        for name in ("trace", "lower", "eval_shape", "clear_cache"):  # what jitted functions are asked besides
            if hasattr(function, name):
                setattr(decorated, name, within(getattr(function, name)))
        return decorated


def scope_of_bodies() -> str:
    """The scope in which programs inside of others begin, whose operations are in that of what calls them too: in none, but
    for what compilers are told."""
    scope = _get_scope()
    if not scope or config.annotations.value is None:
        return ""
    return "/".join([part for part in scope.split("/") if part.startswith(_ATTRIBUTES)])


def inside(outer: str, site: Site | None) -> Site | None:
    """The site of an operation of a program whose operations are copied into a scope."""
    if site is None:
        return None
    code, lasti, scope = site
    return (code, lasti, f"{outer}/{scope}" if scope else outer)


def outside(outer: str, site: Site | None) -> Site | None:
    """The site of an operation in a scope, in a program that other places copy."""
    if site is None or not site[2].startswith(outer):
        return site
    return (site[0], site[1], site[2][len(outer):].removeprefix("/"))


def unnamed(site: Site | None) -> Site | None:
    """The site in no scope, of operations whose names begin with those of the scope."""
    return site if site is None or not site[2] else (site[0], site[1], "")


class _Transposed(dict):
    """`scope -> the scope of the transpose`: it comes before the transformation that made the operations linear."""

    def __missing__(self, scope: str) -> str:
        outer, mark, inner = scope.partition("jvp(")
        found = f"{outer}transpose(/{mark}{inner}" if mark else scope  # else they are those of a program with names of its own
        if len(self) < 1 << 16:
            self[scope] = found
        return found


transposed_scopes = _Transposed()


class _InternalFiles(dict):
    """`filename -> is it one of ours`, filled on first sight."""

    paths: tuple[str, ...] = (PACKAGE_DIRECTORY, "<frozen")

    def __missing__(self, filename: str) -> bool:
        internal = filename.startswith(self.paths)
        self[filename] = internal
        return internal


is_internal = _InternalFiles()
_not_the_users = _InternalFiles()  # with the libraries that asked not to be named as the place of an operation


def exclude(path: str) -> None:
    """Count the files under a path as a library, whose lines are not the user's."""
    _not_the_users.paths += (path,)
    _not_the_users.clear()


def current_site() -> Site:
    """The user's call site. Hot: 0.3 us, once a traced equation."""
    if thread.site is not None:
        return thread.site
    frame = sys._getframe(2)
    internal = _not_the_users
    while internal[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    return (frame.f_code, frame.f_lasti, _get_scope())


class SharedProgramWarns(Exception):
    """Ends the tracing of a program for many places, in each of which the user is to be warned."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the user's line, in functions whose programs are copied."""
    if thread.site is NOWHERE:
        raise SharedProgramWarns(message)
    frame, level = sys._getframe(1), 2
    while is_internal[frame.f_code.co_filename] and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def canonical_file(name: str) -> str:
    """The name of a file as programs and maps give it."""
    pattern = config.hlo_source_file_canonicalization_regex.value
    if not pattern:
        return name
    import re  # start-up: for those who set it

    return re.sub(pattern, "", name)


class SourceInfo(NamedTuple):
    """A site in words."""

    file: str
    line: int
    function: str
    name_stack: str
    site: Site | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


def describe(site: Site | None) -> SourceInfo:
    """File, line, function and scope of a site."""
    if site is None or site[0] is None:
        return SourceInfo("<unknown>", 0, "<unknown>", scope_texts[site[2]] if site else "", site)
    code, lasti, scope = site
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end:
            line = number or line
            break
    return SourceInfo(code.co_filename, line, code.co_qualname, scope_texts[scope], site)


def with_column(site: Site | None) -> str:
    """As `str(describe(site))`, with the column, counted from 0, where the interpreter keeps them."""
    found = describe(site)
    if site is None or site[0] is None:
        return str(found)
    column = next(itertools.islice(site[0].co_positions(), site[1] // 2, None), (None,) * 4)[2]
    return str(found) if column is None else f"{found.file}:{found.line}:{column} ({found.function})"


class using_site:
    """Attribute everything bound inside to an equation traced earlier."""

    __slots__ = ("site", "saved")

    def __init__(self, site: Site | None):
        self.site = site

    def __enter__(self):
        self.saved, thread.site = thread.site, self.site

    def __exit__(self, *exception):
        thread.site = self.saved


class named_scope:
    """Name the operations traced inside, for profiles and compiler messages. Also a decorator.

    - `name`: the name of the scope; scopes inside of others are joined by `/`.

    >>> with xf.named_scope("encoder"):
    ...     y = xnp.sin(1.0)
    """

    __slots__ = ("name", "saved")

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"named_scope takes a string, got {type(name).__name__}: {name!r}")
        self.name = name

    def __enter__(self):
        self.saved = saved = _get_scope()
        _set_scope(f"{saved}/{self.name}" if saved else self.name)

    def __exit__(self, *exception):
        _set_scope(self.saved)

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def scoped(*args, **kwargs):
            with named_scope(self.name):
                return function(*args, **kwargs)

        return scoped
