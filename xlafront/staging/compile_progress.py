"""The line by which a terminal or a notebook shows that a compilation is at work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from xlafront.base import config
from xlafront.core.jaxpr import Jaxpr, operation_count

_DELAY, _INTERVAL = 2.0, 0.5  # seconds before the line appears, and between its updates


class compile_progress:
    """A context that shows what is compiled, and for how long, once it takes more than two seconds.

    The compiler runs without Python's lock, so a thread of the context can write meanwhile.
    """

    __slots__ = ("name", "jaxpr", "from_cache", "done", "thread")
    programs = programs_from_cache = 0  # in this process, before the one that is compiled

    def __init__(self, name: str, jaxpr: Jaxpr):
        self.name, self.jaxpr = name, jaxpr
        self.from_cache = False  # set in the context

    def __enter__(self) -> compile_progress:
        self.thread: threading.Thread | None = None
        if config.compile_progress.value and (write := _writer()) is not None:
            self.done = threading.Event()
            self.thread = threading.Thread(target=self._show, args=(write,), name="xlafront progress", daemon=True)
            self.thread.start()
        return self

    @property
    def is_shown(self) -> bool:
        """True if the line is shown when the compilation takes long: someone may interrupt it."""
        return self.thread is not None

    def __exit__(self, *exception: Any) -> None:
        compile_progress.programs += 1
        compile_progress.programs_from_cache += self.from_cache
        if self.thread is not None:
            self.done.set()
            self.thread.join()

    def _show(self, write: Callable[[str, bool], None]) -> None:
        started = time.monotonic()
        if self.done.wait(_DELAY):
            return
        count = operation_count(self.jaxpr)
        work = f"{self.name}: {count:,} operation{'s' * (count != 1)}"
        counts = f"; of {self.programs:,} programs before, {self.programs_from_cache:,} came from the cache"
        before = counts if self.programs else ""
        while not self.done.wait(_INTERVAL):
            write(f"compiling {work}, {time.monotonic() - started:.0f} s{before} (Ctrl-C ends the wait)", False)
        write(f"compiled {work}, {time.monotonic() - started:.0f} s", True)


def _writer() -> Callable[[str, bool], None] | None:
    """Return the function of a line and whether it is the last that shows it; None without a terminal or notebook."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return _in_notebook()
    return _in_terminal if sys.stderr is not None and sys.stderr.isatty() else None


def _in_terminal(text: str, is_last: bool) -> None:
    """Write over the line; erase it at the end."""
    print("\r\x1b[K" if is_last else f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> Callable[[str, bool], None]:
    """Return a function that replaces the text of one output of the cell."""
    output: Any = None

    def write(text: str, is_last: bool) -> None:
        nonlocal output
        from IPython.display import display

        data = {"text/plain": text}
        if output is None:
            output = display(data, raw=True, display_id=True)
        else:
            output.update(data, raw=True)

    return write
