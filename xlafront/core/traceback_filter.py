"""Hides the library's own frames in the tracebacks of errors that reach the user."""

from __future__ import annotations

import functools
import sys
from types import TracebackType

from xlafront.core import errors
from xlafront.core.source import is_internal
from xlafront.runtime import config

# Files of libraries that asked for their frames to be hidden too; they append to it and remove from it.
hidden_paths: list[str] = []

_NOTE = ("(frames of xlafront are hidden; set XLAFRONT_TRACEBACK_FILTERING=off to see them)")


class UnfilteredStackTrace(Exception):
    """The cause of an error whose traceback was filtered by "remove_frames": its traceback has all frames."""

    def __init__(self, error: BaseException):
        super().__init__(f"{type(error).__name__}: {error} (The traceback above this has the frames of xlafront too; the error "
                         f"that follows is the same without them.)")
        self.rest: TracebackType | None = None  # what was kept of it


def is_hidden(filename: str) -> bool:
    return is_internal[filename] or filename.startswith(tuple(hidden_paths))


def filter_traceback(error: BaseException) -> None:
    """Leave only the user's frames on the traceback of an error, as the setting `traceback_filtering` says.

    Called at every boundary that an error crosses; each sees what the inner ones left, so the work stays linear. A bare `raise`
    after it does not bring the boundary's own frame back.
    """
    mode = config.traceback_filtering.value
    if mode == "off":
        return
    if mode == "tracebackhide":
        _mark(error.__traceback__)
        return
    frames = []
    hidden = False
    step = error.__traceback__
    while step is not None:
        if is_hidden(step.tb_frame.f_code.co_filename):
            hidden = True
        else:
            frames.append(step)
        step = step.tb_next
    if not hidden:
        return
    kept = _chained(frames, None)
    if mode == "remove_frames":
        _keep_unfiltered(error, kept)
    elif _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
    error.__traceback__ = kept


def _chained(steps: list[TracebackType], rest: TracebackType | None) -> TracebackType | None:
    for step in reversed(steps):
        rest = TracebackType(rest, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return rest


def _keep_unfiltered(error: BaseException, kept: TracebackType | None) -> None:
    """Have the whole traceback be that of the error's cause; an inner boundary may have put its part there."""
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
    cause.rest = kept


def install_hook() -> None:
    """Have uncaught errors printed without the frames that lie between the user's line and the nearest boundary."""
    previous = sys.excepthook

    def hook(kind, error, traceback):
        if traceback is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            try:
                filter_traceback(error.with_traceback(traceback))
            except RecursionError:  # jaxlib did not give back all of the depth that it used; the error is shown as it is
                pass
        previous(kind, error, error.__traceback__)

    sys.excepthook = hook
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None and not shell.custom_exceptions:  # IPython and notebooks print errors of cells themselves
        shell.set_custom_exc((Exception,), _show_in_ipython)


def _show_in_ipython(shell, kind, error, traceback, tb_offset=None):
    filter_traceback(error.with_traceback(traceback))
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def _mark(step: TracebackType | None) -> None:
    while step is not None:
        if is_hidden(step.tb_frame.f_code.co_filename):
            step.tb_frame.f_locals["__tracebackhide__"] = True
        step = step.tb_next


def boundary(function):
    """Filter the errors that leave a public function."""
    return functools.wraps(function)(guarded(function))


def guarded(function):
    """As `boundary`, for functions made while a program runs, which get a name and a text of their own."""
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except SystemError as e:
            raise errors.pytree_without_end(e) from None
        except Exception as e:
            filter_traceback(e)
            raise

    return call


install_hook()
