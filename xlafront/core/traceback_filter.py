"""Traceback filtering: hides internal frames in the tracebacks of errors that reach the user."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar

from xlafront.base import config
from xlafront.core import errors
from xlafront.core.source import is_internal

_F = TypeVar("_F", bound=Callable)
_T = TypeVar("_T")

# Paths of libraries whose frames are hidden too; they append to the list and remove from it.
hidden_paths: list[str] = []

_NOTE = ("(frames of xlafront are hidden; set XLAFRONT_TRACEBACK_FILTERING=off to see them)")


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback was filtered in mode "remove_frames"; its traceback has all frames."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error} (The traceback above includes the internal frames of xlafront; the "
                         f"error that follows is the same without them.)")
        self.rest: TracebackType | None = None  # the part of it that was not removed


def is_hidden(filename: str) -> bool:
    return is_internal[filename] or filename.startswith(tuple(hidden_paths))


def filter_traceback(error: BaseException) -> None:
    """Remove internal frames from the traceback of an error, according to the setting `traceback_filtering`.

    Called at every boundary that an error crosses; each filters what the inner ones left, so the work stays linear. A bare
    `raise` after it does not add the boundary's own frame again.
    """
    mode = config.traceback_filtering.value
    if mode == "off":
        return
    if mode == "tracebackhide":
        _mark(error.__traceback__)
        return
    _filter_quoted(error)
    filtered, has_hidden = without_hidden_frames(error.__traceback__)
    if not has_hidden:
        return
    if mode == "remove_frames":
        _attach_unfiltered(error, filtered)
    elif _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
    error.__traceback__ = filtered


def _filter_quoted(error: BaseException) -> None:
    """Remove internal frames from the traceback that an error of jaxlib quotes: that of a function which a program called."""
    text = str(error) if isinstance(error, errors.JaxRuntimeError) else ""
    if "Traceback (most recent call last)" in text:
        import re  # start-up: for errors

        frame = r'  File "([^"]*)", line \d+, in .*\n(?:    .*\n)*'
        text = re.sub(frame, lambda found: "" if is_hidden(found[1]) else found[0], text)
        text = re.sub(r"Traceback \(most recent call last\):\n(?! )", "", text)  # without frames
        type(error).__init__(error, text)
        error.args = (text,)


def without_hidden_frames(step: TracebackType | None) -> tuple[TracebackType | None, bool]:
    """Return a traceback without hidden frames, and True if it had any."""
    visible, has_hidden = [], False
    while step is not None:
        if is_hidden(step.tb_frame.f_code.co_filename):
            has_hidden = True
        else:
            visible.append(step)
        step = step.tb_next
    return _chained(visible, None), has_hidden


def _chained(steps: list[TracebackType], rest: TracebackType | None) -> TracebackType | None:
    for step in reversed(steps):
        rest = TracebackType(rest, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return rest


def _attach_unfiltered(error: BaseException, filtered: TracebackType | None) -> None:
    """Attach the complete traceback to the error's cause, of which an inner boundary may have set the inner part."""
    cause = error.__cause__
    if not isinstance(cause, UnfilteredStackTrace):
        cause = UnfilteredStackTrace(error)
        cause.__cause__, cause.__context__ = error.__cause__, error.__context__
        cause.__suppress_context__ = error.__suppress_context__
        cause.__traceback__, error.__cause__ = error.__traceback__, cause
    else:
        outer, step = [], error.__traceback__
        while step is not None and step is not cause.rest:
            outer.append(step)
            step = step.tb_next
        cause.__traceback__ = _chained(outer, cause.__traceback__)
    cause.rest = filtered


def install_hook() -> None:
    """Install hooks that print uncaught errors without the frames between the user's line and the nearest boundary."""
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if traceback is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            try:
                filter_traceback(error.with_traceback(traceback))
            except RecursionError:  # jaxlib has not released all of its recursion depth; show the error unfiltered
                pass
        previous(kind, error, error.__traceback__)

    sys.excepthook = hook
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None and not shell.custom_exceptions:  # IPython and notebooks print errors of cells themselves
        shell.set_custom_exc((Exception,), _show_in_ipython)


def _show_in_ipython(shell: Any, kind: type[BaseException], error: BaseException, traceback: Any, tb_offset: int | None = None
                     ) -> Any:
    filter_traceback(error.with_traceback(traceback))
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def _mark(step: TracebackType | None) -> None:
    while step is not None:
        if is_hidden(step.tb_frame.f_code.co_filename):
            step.tb_frame.f_locals["__tracebackhide__"] = True
        step = step.tb_next


def boundary(function: _F) -> _F:
    """Wrap a public function so that the tracebacks of its errors are filtered."""
    wrapped: Any = functools.wraps(function)(guarded(function))
    return wrapped


def exported(function: _F, module: str, name: str) -> _F:
    """Return the boundary of a function that a public module exports: the same one for each module that exports it."""
    if function.__code__ in _filtering or not is_internal[function.__code__.co_filename]:  # the latter: NumPy's
        return function
    found = _exported.get(function)
    if found is None:
        found = _exported[function] = boundary(function)
        found.__module__, found.__qualname__ = module, name  # where pickle finds it
    return found


def filters_itself(function: _F) -> _F:
    """Mark a function that calls `filter_traceback` for its errors, and so needs no boundary. Usable as a decorator."""
    _filtering.add(function.__code__)
    return function


def with_boundaries(cls: type[_T]) -> type[_T]:
    """Make the methods of a class that users call boundaries. Usable as a decorator."""
    for name, function in list(vars(cls).items()):
        if type(function) is FunctionType and (name in _SPECIAL or not name.startswith("_")):
            setattr(cls, name, boundary(function))
    return cls


_SPECIAL = ("__call__", "__getattr__", "__setattr__")


def guarded(function: Callable) -> Any:
    """Wrap as `boundary` does, without copying the metadata: for functions made at run time, which set their own."""
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SystemError as e:
            raise errors.pytree_without_end(e) from None
        except Exception as e:
            filter_traceback(e)
            raise

    return call


_filtering: set[CodeType] = {guarded(guarded).__code__}
_exported: dict[Callable, Any] = {}

with_boundaries(config.Settings)  # whose module is below this one
install_hook()
