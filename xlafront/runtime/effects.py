"""Programs that do something besides computing: in which order they start, and waiting for them to end.

Operations within a program are ordered by tokens (`lowering.module`). Here is what orders programs among each other: one
with an ordered effect starts when the one before it with the same effect has ended.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

MOST_RUNNING = 64  # programs with effects that may be under way before the next waits for the oldest


class _Thread(threading.local):
    callbacks = 0  # how many callbacks are running on this thread, one inside the other


thread = _Thread()
callbacks_running: set[int] = set()  # the threads
leaving = False  # whether the interpreter exits: nothing is begun any more
left = False  # whether nothing is waited for any more


class host_callback:
    """Marks that this thread runs a callback: waiting for a program might be waiting for itself."""

    __slots__ = ()

    def __enter__(self):
        if left:
            raise RuntimeError("a callback was to run after the end of the program")
        callbacks_running.add(threading.get_ident())
        thread.callbacks += 1

    def __exit__(self, *exception):
        thread.callbacks -= 1
        if not thread.callbacks:
            callbacks_running.discard(threading.get_ident())


_running: deque[Any] = deque()
_last: dict[Any, Any] = {}  # of each ordered effect, the token of the program that had it last
failures: list[Exception] = []  # what `effects_barrier` is to raise


def execute(executable, buffers, effects: Iterable[Any]):
    """Start a program with effects, in its turn."""
    ordered = [effect for effect in effects if effect.ordered]
    nested = thread.callbacks > 0
    if not nested:
        for effect in ordered:
            _wait(_last.pop(effect, None), keep_failure=False)
        while len(_running) >= MOST_RUNNING:
            _wait(_oldest())
    results = executable.execute_sharded(buffers, with_tokens=True)
    token = results.consume_token()
    _running.append(token)
    if not nested:  # one that a callback started ends before the one that it belongs to
        _last.update(dict.fromkeys(ordered, token))
    return results


def _oldest():
    """The token of the program that has been running longest; None where another thread has just taken the last."""
    try:
        return _running.popleft()
    except IndexError:
        return None


def _wait(token, keep_failure: bool = True) -> None:
    if token is None:
        return
    try:
        token.block_until_ready()
    except Exception as e:  # told by effects_barrier: it is not the fault of the program that comes next
        if keep_failure:
            failures.append(e)


def effects_barrier() -> None:
    """Wait until all callbacks of the programs that have been started have run; raises what one of them raised.

    >>> xf.jit(lambda x: xf.debug.print("x = {}", x))(1.0); xf.effects_barrier()
    x = 1.0
    """
    if thread.callbacks:
        raise RuntimeError("effects_barrier was called inside of a callback, whose own end it would wait for. Call it "
                           "where the function with the callback is called.")
    while _running:
        _wait(_oldest())
    _last.clear()
    if failures:
        failure, failures[:] = failures[0], []
        raise failure


_prepared: list[bool] = []


def prepare() -> None:
    """Before the first program with callbacks: their end is waited for at exit."""
    if not _prepared:
        _prepared.append(True)
        atexit.register(effects_barrier)
