"""The interpreter's exit while daemon threads still compute: it aborts where one of them comes back from compiled code then.

So at exit nothing is begun any more, threads that ask for it end, and what is under way is waited for, for a moment.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time

from xlafront.core.source import is_internal
from xlafront.runtime import effects
from xlafront.runtime.clients import clients
from xlafront.staging.caches import forget_dispatch

PATIENCE = 2.0  # seconds, at most
_STEP = 0.005
_QUIET = 8  # looks in a row at which no thread was in the library


def end_thread() -> None:
    """Called where work begins, once `effects.leaving`: end the thread, silently, unless it is the one that exits, or runs
    what a program that is under way has called."""
    if threading.current_thread() is not threading.main_thread() and not effects.thread.callbacks:
        raise SystemExit


def _in_library(frame) -> bool:
    while frame is not None:
        if is_internal[frame.f_code.co_filename] and not frame.f_code.co_filename.startswith("<"):
            return True
        frame = frame.f_back
    return False


def _leave() -> None:
    ours = {t.ident for t in threading.enumerate() if t.name.startswith("xlafront")} | {threading.get_ident()}
    if not clients.started or all([t.ident in ours for t in threading.enumerate()]):
        return
    effects.leaving = True
    forget_dispatch()  # so that calls of known signatures come to Python, too
    end = time.monotonic() + PATIENCE
    quiet = 0
    while quiet < _QUIET and time.monotonic() < end:
        time.sleep(_STEP)
        at_work = effects.callbacks_running or any(
            [ident not in ours and _in_library(frame) for ident, frame in sys._current_frames().items()])
        quiet = 0 if at_work else quiet + 1
    effects.left = True


atexit.register(_leave)
