"""A clean exit of the interpreter while daemon threads still compute.

The interpreter aborts if such a thread returns from compiled code during the exit. So no new work is started then, threads
that try to are ended, and work in progress is waited for, up to `PATIENCE`.
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
_QUIET = 8  # consecutive checks at which no thread runs our code


def end_thread() -> None:
    """End the current thread silently, unless it is the exiting one or runs a callback of a program in progress.

    Called before new work once `effects.shutting_down` is set.
    """
    if threading.current_thread() is not threading.main_thread() and not effects.thread.callbacks:
        raise SystemExit


def _runs_our_code(frame) -> bool:
    while frame is not None:
        if is_internal[frame.f_code.co_filename] and not frame.f_code.co_filename.startswith("<"):
            return True
        frame = frame.f_back
    return False


def _wait_for_threads() -> None:
    ours = {t.ident for t in threading.enumerate() if t.name.startswith("xlafront")} | {threading.get_ident()}
    if not clients.started or all([t.ident in ours for t in threading.enumerate()]):
        return
    effects.shutting_down = True
    forget_dispatch()  # so that C++ passes calls of known signatures to Python, too
    end = time.monotonic() + PATIENCE
    quiet = 0
    while quiet < _QUIET and time.monotonic() < end:
        time.sleep(_STEP)
        is_busy = effects.callbacks_running or any(
            [ident not in ours and _runs_our_code(frame) for ident, frame in sys._current_frames().items()])
        quiet = 0 if is_busy else quiet + 1
    effects.shut_down = True


atexit.register(_wait_for_threads)
