"""Executables with side effects: the order in which they start, and waiting for them to end.

Tokens order the operations within an executable (`lowering/builder.py`). This module orders executables: one with an ordered
effect starts when the previous one with the same effect has ended.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

MAX_RUNNING = 64  # executables with effects in flight, before the next waits for the oldest


class _Thread(threading.local):
    callbacks = 0  # depth of nested callbacks on this thread


thread = _Thread()
callbacks_running: set[int] = set()  # ids of the threads that run callbacks
shutting_down = False  # True once the interpreter exits: no new work starts
shut_down = False  # True once the interpreter no longer waits for running work


class host_callback:
    """Marks this thread as running a callback, in which waiting for an executable could deadlock."""

    __slots__ = ()

    def __enter__(self):
        if shut_down:
            raise RuntimeError("a callback was about to run after the end of the Python process")
        callbacks_running.add(threading.get_ident())
        thread.callbacks += 1

    def __exit__(self, *exception):
        thread.callbacks -= 1
        if not thread.callbacks:
            callbacks_running.discard(threading.get_ident())


_running: deque[Any] = deque()
_last_tokens: dict[Any, Any] = {}  # by ordered effect: the token of the last executable with it
failures: list[Exception] = []  # to be raised by `effects_barrier`


def execute(executable, buffers, effects: Iterable[Any]):
    """Start an executable with effects, after the previous ones with the same ordered effects."""
    ordered = [effect for effect in effects if effect.ordered]
    nested = thread.callbacks > 0
    if not nested:
        for effect in ordered:
            _wait(_last_tokens.pop(effect, None), record_failure=False)
        while len(_running) >= MAX_RUNNING:
            _wait(_oldest())
    results = executable.execute_sharded(buffers, with_tokens=True)
    token = results.consume_token()
    _running.append(token)
    if not nested:  # an executable started by a callback ends before the one that the callback belongs to
        _last_tokens.update(dict.fromkeys(ordered, token))
    return results


def _oldest():
    """Return the token of the executable that has been running longest; None if another thread has just taken the last one."""
    try:
        return _running.popleft()
    except IndexError:
        return None


def _wait(token, record_failure: bool = True) -> None:
    if token is None:
        return
    try:
        token.block_until_ready()
    except Exception as e:  # effects_barrier raises it, since the next executable is not at fault
        if record_failure:
            failures.append(e)


def effects_barrier() -> None:
    """Wait for all callbacks of executables that have been started.

    Raises:
        Exception: An error that one of the callbacks raised.

    Example:
        >>> xf.jit(lambda x: xf.debug.print("x = {}", x))(1.0); xf.effects_barrier()
        x = 1.0
    """
    if thread.callbacks:
        raise RuntimeError("effects_barrier was called inside of a callback, where it would wait for that callback to end. "
                           "Call it after the call of the function with the callback.")
    while _running:
        _wait(_oldest())
    _last_tokens.clear()
    if failures:
        failure, failures[:] = failures[0], []
        raise failure


_prepared: list[bool] = []


def prepare() -> None:
    """Register the wait at exit, before the first program with callbacks."""
    if not _prepared:
        _prepared.append(True)
        atexit.register(effects_barrier)
