"""Source locations of operations.

An equation stores a *site*: the tuple `(code, lasti, scope)` of the innermost frame outside of this package and the active
`named_scope` within the jaxpr that contains the equation; the scopes of calls of this jaxpr are prepended (`inside`).
Taking a site walks a few frames; file names and line numbers are computed only for messages, printed jaxprs and MLIR
locations.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
from contextvars import ContextVar
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from xlafront.base import config

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Site = tuple[CodeType | None, int, str]
# The site of operations in jaxprs that many call sites share: their location is that of the call.
NOWHERE: Site = (None, 0, "")


class _Thread(threading.local):
    site: Site | None = None  # set while a transformation runs the rules of an equation traced earlier


thread = _Thread()
# Names of the enclosing `named_scope`s, joined by "/", per thread and asyncio task.
current_scope: ContextVar[str] = ContextVar("xlafront.scope", default="")
_get_scope, _set_scope = current_scope.get, current_scope.set


# A scope is a string: the names of `named_scope`s and, ending in a parenthesis, of transformations, outermost first, joined by
# "/". `scope_texts` turns `out/transpose(/jvp(/in` into `out/transpose(jvp(in))`. A component that begins with `_ATTRIBUTES`
# holds compiler attributes of the operations inside: as part of the scope they are copied with the operations.
_ATTRIBUTES = "\x01"


class transformed:
    """Context that marks the operations inside with a transformation of the current scope.

    The transformation is "jvp", "vmap", and so on. Hot: entered once a call.
    """

    __slots__ = ("mark", "saved")

    def __init__(self, transformation: str) -> None:
        self.mark = f"{transformation}("

    def __enter__(self) -> None:
        self.saved = saved = _get_scope()
        _set_scope(f"{saved}/{self.mark}" if saved else self.mark)

    def __exit__(self, *exception: Any) -> None:
        _set_scope(self.saved)


class _Texts(dict):
    """Cache `scope -> text`."""

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
    """Cache `scope -> {name: value}` of the compiler attributes of operations in a scope; None if there are none."""

    def __missing__(self, scope: str) -> dict[str, str] | None:
        merged: dict[str, str] = {}
        for part in scope.split("/"):
            if part.startswith(_ATTRIBUTES):
                import json  # start-up: rarely used

                for name, value in json.loads(part[len(_ATTRIBUTES):]):
                    merged.pop(name, None)
                    if value is not None:
                        merged[name] = value
        if len(self) < 1 << 16:
            self[scope] = merged or None
        return merged or None


scope_attributes = _Attributes()


class annotated:
    """Context that gives compiler attributes to the operations traced inside. Also a decorator.

    A value of None removes an attribute. Jaxprs are retraced under other attributes: caches do not mix them up.
    """

    __slots__ = ("attributes", "part", "saved")

    def __init__(self, attributes: dict[str, str | None]) -> None:
        import json  # start-up: rarely used

        self.attributes = attributes
        text = json.dumps([*attributes.items()])
        self.part = _ATTRIBUTES + text.replace("/", "\\u002f").replace("(", "\\u0028")  # separators of scopes
        self.saved: list[tuple[str, object]] = []

    def __enter__(self) -> None:
        outer = _get_scope()
        scope = f"{outer}/{self.part}" if outer else self.part
        found = scope_attributes[scope]
        attributes = None if found is None else (*found.items(),)
        self.saved.append((outer, config.annotations.swap_local(attributes)))  # type: ignore[attr-defined]
        _set_scope(scope)

    def __exit__(self, *exception: Any) -> None:
        outer, annotations = self.saved.pop()
        config.annotations.set_local(annotations)  # type: ignore[attr-defined]
        _set_scope(outer)

    def __call__(self, function: Any) -> Any:
        import functools  # start-up: rarely used

        def within(call: Callable) -> Callable:
            @functools.wraps(call)
            def inside(*args: Any, **kwargs: Any) -> Any:
                with annotated(self.attributes):
                    return call(*args, **kwargs)

            return inside

        decorated = within(function)
        for name in ("trace", "lower", "eval_shape", "clear_cache"):  # other methods of jitted functions
            if hasattr(function, name):
                setattr(decorated, name, within(getattr(function, name)))
        return decorated


def scope_of_bodies() -> str:
    """Return the scope in which the tracing of an inner jaxpr starts: empty, except for compiler attributes.

    The scope of the call is prepended when the jaxpr is lowered or inlined.
    """
    scope = _get_scope()
    if not scope or config.annotations.value is None:  # type: ignore[attr-defined]  # a setting, not the `__future__` import
        return ""
    return "/".join([part for part in scope.split("/") if part.startswith(_ATTRIBUTES)])


def inside(outer: str, site: Site | None) -> Site | None:
    """Return the site of an operation of a jaxpr that is inlined into a scope."""
    if site is None:
        return None
    code, lasti, scope = site
    return (code, lasti, f"{outer}/{scope}" if scope else outer)


def outside(outer: str, site: Site | None) -> Site | None:
    """Return the site relative to a scope, for an operation of a jaxpr that is inlined in other places."""
    if site is None or not site[2].startswith(outer):
        return site
    return (site[0], site[1], site[2][len(outer):].removeprefix("/"))


def unnamed(site: Site | None) -> Site | None:
    """Return the site without its scope, for operations whose names begin with it already."""
    return site if site is None or not site[2] else (site[0], site[1], "")


class _Transposed(dict):
    """Cache `scope -> scope of the transpose`, which comes before the transformation that linearized the operations."""

    def __missing__(self, scope: str) -> str:
        outer, mark, inner = scope.partition("jvp(")
        found = f"{outer}transpose(/{mark}{inner}" if mark else scope  # no mark: a jaxpr with its own scopes
        if len(self) < 1 << 16:
            self[scope] = found
        return found


transposed_scopes = _Transposed()


class _InternalFiles(dict):
    """Cache `filename -> True if the file is internal`."""

    paths: tuple[str, ...] = (PACKAGE_DIRECTORY, "<frozen")

    def __missing__(self, filename: str) -> bool:
        internal = filename.startswith(self.paths)
        self[filename] = internal
        return internal


is_internal = _InternalFiles()
_skipped_files = _InternalFiles()  # internal files, and those of libraries that `exclude` registers


def exclude(path: str) -> None:
    """Treat the files under a path as a library: their lines are not reported as the user's."""
    _skipped_files.paths += (path,)
    _skipped_files.clear()


def current_site() -> Site:
    """Return the user's call site. Hot: 0.3 us, once a traced equation."""
    if thread.site is not None:
        return thread.site
    frame = sys._getframe(2)
    skipped = _skipped_files
    while skipped[frame.f_code.co_filename]:
        outer = frame.f_back
        if outer is None:
            break
        frame = outer
    return (frame.f_code, frame.f_lasti, _get_scope())


class SharedProgramWarns(Exception):
    """Raised to abort the tracing of a shared jaxpr, so that the warning is given at each of its call sites."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the user's line, also from functions whose jaxprs are inlined."""
    if thread.site is NOWHERE:
        raise SharedProgramWarns(message)
    frame, level = sys._getframe(1), 2
    while is_internal[frame.f_code.co_filename] and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def canonical_file(name: str) -> str:
    """Return a file name as it appears in modules and location maps."""
    pattern = config.hlo_source_file_canonicalization_regex.value
    if not pattern:
        return name
    import re  # start-up: rarely used

    return re.sub(pattern, "", name)


class SourceInfo(NamedTuple):
    """File, line, function and scope of a site."""

    file: str
    line: int
    function: str
    name_stack: str
    site: Site | None = None

    def __str__(self) -> str:
        return f"{position(self.file, self.line)} ({self.function})"


def position(file: str, line: int) -> str:
    """Return `file:line`, or `In[n], line k` for a cell of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)
    cell = name_of(file)
    return f"{file}:{line}" if cell is None else f"{cell[1]}, line {line}"


def at_position(file: str, line: int) -> str:
    """Return " at " and the position, or nothing for code of this package."""
    return "" if file.startswith(PACKAGE_DIRECTORY) else f" at {position(file, line)}"


def describe(site: Site | None) -> SourceInfo:
    """Return the file, line, function and scope of a site."""
    if site is None or site[0] is None:
        return SourceInfo("<unknown>", 0, "<unknown>", scope_texts[site[2]] if site else "", site)
    code, lasti, scope = site[0], site[1], site[2]
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= lasti < end:
            line = number or line
            break
    return SourceInfo(code.co_filename, line, code.co_qualname, scope_texts[scope], site)


def with_column(site: Site | None) -> str:
    """Return `str(describe(site))` with the column, counted from 0, if the interpreter has it."""
    found = describe(site)
    if site is None or site[0] is None:
        return str(found)
    column = next(itertools.islice(site[0].co_positions(), site[1] // 2, None), (None,) * 4)[2]
    return str(found) if column is None else f"{position(found.file, found.line)}:{column} ({found.function})"


class using_site:
    """Context that gives the operations inside the site of an equation traced earlier."""

    __slots__ = ("site", "saved")

    def __init__(self, site: Site | None) -> None:
        self.site = site

    def __enter__(self) -> None:
        self.saved, thread.site = thread.site, self.site

    def __exit__(self, *exception: Any) -> None:
        thread.site = self.saved


class named_scope:
    """Add a name to the operations traced inside, for profiles and compiler messages. Also a decorator.

    Args:
        name: The name. Names of nested scopes are joined by `/`.

    Example:
        >>> with xf.named_scope("encoder"):
        ...     y = xnp.sin(1.0)
    """

    __slots__ = ("name", "saved")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"named_scope takes a string, got {type(name).__name__}: {name!r}")
        self.name = name

    def __enter__(self) -> None:
        self.saved = saved = _get_scope()
        _set_scope(f"{saved}/{self.name}" if saved else self.name)

    def __exit__(self, *exception: Any) -> None:
        _set_scope(self.saved)

    def __call__(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def scoped(*args: Any, **kwargs: Any) -> Any:
            with named_scope(self.name):
                return function(*args, **kwargs)

        return scoped
