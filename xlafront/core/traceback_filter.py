"""Hides the library's own frames in the tracebacks of errors that reach the user."""

from __future__ import annotations

import functools
import sys
from types import TracebackType

from xlafront.core.source import is_internal
from xlafront.runtime import config

_NOTE = ("(frames of xlafront are hidden; set XLAFRONT_TRACEBACK_FILTERING=off to see them)")


def filtered(error: BaseException) -> BaseException:
    """The same exception with only the user's frames on its traceback, as the setting `traceback_filtering` says.

    Called at every boundary that an error crosses; each sees what the inner ones left, so the work stays linear.
    """
    mode = config.traceback_filtering.value
    if mode == "off":
        return error
    if mode == "tracebackhide":
        _mark(error.__traceback__)
        return error
    frames = []
    hidden = False
    step = error.__traceback__
    while step is not None:
        if is_internal[step.tb_frame.f_code.co_filename]:
            hidden = True
        else:
            frames.append(step)
        step = step.tb_next
    if not hidden:
        return error
    kept: TracebackType | None = None
    if not frames:
        return error
    for step in reversed(frames):
        kept = TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    if mode != "quiet_remove_frames" and _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
    return error.with_traceback(kept)


def install_hook() -> None:
    """Have uncaught errors printed without the frames that lie between the user's line and the nearest boundary."""
    previous = sys.excepthook

    def hook(kind, error, traceback):
        if traceback is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            filtered(error.with_traceback(traceback))
        previous(kind, error, error.__traceback__)

    sys.excepthook = hook
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None and not shell.custom_exceptions:  # IPython and notebooks print errors of cells themselves
        shell.set_custom_exc((Exception,), _show_in_ipython)


def _show_in_ipython(shell, kind, error, traceback, tb_offset=None):
    error = filtered(error.with_traceback(traceback))
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def _mark(step: TracebackType | None) -> None:
    while step is not None:
        if is_internal[step.tb_frame.f_code.co_filename]:
            step.tb_frame.f_locals["__tracebackhide__"] = True
        step = step.tb_next


def boundary(function):
    """Filter the errors that leave a public function."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as e:
            raise filtered(e) from e.__cause__

    return guarded


install_hook()
