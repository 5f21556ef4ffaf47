"""Filtering of library frames in tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, TracebackType

from xlafront.core.traceback_filter import boundary, hidden_paths, is_hidden, without_hidden_frames

_exclude_paths = hidden_paths


def api_boundary(fun: Callable, *, repro_api_name: str | None = None, repro_user_func: bool = False) -> Callable:
    """Decorate a public function of a library: errors that leave it do not show hidden frames."""
    return boundary(fun)


def register_exclusion(path: str) -> None:
    """Hide the frames of the files under a path."""
    hidden_paths.append(path)


def filter_traceback(tb: TracebackType | None) -> TracebackType | None:
    """Return a traceback without hidden frames."""
    return without_hidden_frames(tb)[0]


def include_frame(f: FrameType) -> bool:
    return not is_hidden(f.f_code.co_filename)
