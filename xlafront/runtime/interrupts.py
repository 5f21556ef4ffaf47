"""Interrupts (Ctrl-C) during long calls of the runtime, which Python sees only when the call has returned."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

_running: set[threading.Thread] = set()


def interruptible(call: Callable[[], Any]) -> Any:
    """Return the result of a call that runs in another thread, so that an interrupt ends the wait for it at once.

    The call itself continues until it is done; its result is dropped. Only the main thread is interrupted: others run the call
    themselves. A thread costs about 0.1 ms.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: list[Any] = []
    failure: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(call())
        except BaseException as e:
            failure.append(e)
        finally:
            _running.discard(thread)
            done.set()

    thread = threading.Thread(target=work, name="xlafront compiler", daemon=True)
    _running.add(thread)
    thread.start()
    while not done.wait(0.1):  # the signal may arrive in another thread, which does not end this wait
        pass
    if failure:
        raise failure.pop()
    return outcome.pop()


@atexit.register
def _end() -> None:
    """Wait for calls that continue, since the runtime must not end before them; end the process if it was interrupted."""
    if _running and getattr(sys, "last_type", None) is KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the status is that of an interrupted process
        os.kill(os.getpid(), signal.SIGINT)
    for thread in list(_running):
        thread.join()
