"""Log lines, a table and monitoring events for the steps of a compilation.

Lines are logged to `xlafront`, at level WARNING with `log_compiles` and DEBUG without; events are those of
`xlafront.monitoring`. With `log_compiles` the process logs a table when it ends: what was compiled, at which lines of the
program, and how long each step took.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base import config
from xlafront.base.logs import log
from xlafront.core import source
from xlafront.runtime import monitoring

# The steps of a compilation; the names of their events for monitoring systems, and the form of function names in these.
TRACING, CONVERSION, COMPILATION = "tracing", "jaxpr to MLIR module conversion", "XLA compilation"
_EVENTS = {
    TRACING: ("/jax/core/compile/jaxpr_trace_duration", "{}"),
    CONVERSION: ("/jax/core/compile/jaxpr_to_mlir_module_duration", "jit({})"),
    COMPILATION: ("/jax/core/compile/backend_compile_duration", "jit({})"),
}


def _logger() -> Callable | None:
    """Return the function that logs a line; None if it would be dropped, or `logging` is not imported. Hot: once per trace."""
    if config.log_compiles.value:
        return log().warning
    return log().debug if "logging" in sys.modules and log().isEnabledFor(10) else None


def is_watched() -> bool:
    """True if compilations are logged or listened to."""
    return _logger() is not None or monitoring.has_listeners()


def note(text: str, name: str, in_avals: Sequence[Any], *more: Any) -> None:
    """Log a step in the compilation of a function for arguments of these types."""
    if (write := _logger()) is not None:
        write(text, name, f"({', '.join(map(str, in_avals))})", *more)  # as in `(float32[3], ~int32[])`


class logged_step:
    """A context that logs the duration of a step. Nested traces count toward the outer one and are not logged."""

    __slots__ = ("step", "name", "in_avals", "began", "started", "from_cache")

    def __init__(self, step: str, name: str, in_avals: Sequence[Any]):
        self.step, self.name, self.in_avals = step, name, in_avals
        self.from_cache = False  # set in the context of a compilation

    def __enter__(self) -> logged_step:
        self.began: float | None = None
        if monitoring.has_listeners():
            self.began = time.time()
            event, name_format = _EVENTS[self.step]
            monitoring.record_scalar(event, self.began, fun_name=name_format.format(self.name))
        self.started = time.perf_counter()
        return self

    def __exit__(self, kind, *exception):
        duration = time.perf_counter() - self.started
        event, name_format = _EVENTS[self.step]
        if kind is None:
            if config.log_compiles.value:
                _row(self.name).add(self, duration)
            note(f"Finished {self.step} of %s for %s in %.6f sec.", name_format.format(self.name), self.in_avals, duration)
        if self.began is not None:
            monitoring.record_event_duration_secs(event, duration, fun_name=name_format.format(self.name))
            monitoring.record_event_time_span(event, self.began, self.began + duration, fun_name=name_format.format(self.name))


class _Row:
    """A row of the table: the programs of one function that is called at one line."""

    __slots__ = ("name", "line", "programs", "from_cache", "seconds")

    def __init__(self, name: str, line: str):
        self.name, self.line = name, line
        self.programs = self.from_cache = 0
        self.seconds = dict.fromkeys(_EVENTS, 0.0)

    def add(self, step: logged_step, duration: float) -> None:
        self.seconds[step.step] += duration
        if step.step == COMPILATION:
            self.programs += 1
            self.from_cache += step.from_cache


_rows: dict[tuple[str, str], _Row] = {}
_MOST_ROWS = 20


def _row(name: str) -> _Row:
    if not _rows:
        atexit.register(lambda: log().warning("%s", compile_table()))
    found = source.describe(source.current_site())
    line = source.position(found.file, found.line)
    return _rows.setdefault((name, line), _Row(name, line))


def compile_table() -> str:
    """Return the table of what was compiled while `log_compiles` was on, the longest first."""
    rows = sorted(_rows.values(), key=lambda row: -sum(row.seconds.values()))
    cells = [("program", "called at", "programs", "from the cache", "trace", "lower", "compile")]
    cells += [(row.name, row.line, str(row.programs), str(row.from_cache), *[f"{s:.3f} s" for s in row.seconds.values()])
              for row in rows[:_MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ["  ".join([text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths))]).rstrip()
             for row in cells]
    total = sum([sum(row.seconds.values()) for row in rows])
    rest = [f"and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else []
    count = sum([row.programs for row in rows])
    return "\n".join([f"Compiled {count} program{'s' * (count != 1)} in {total:.2f} s:", *lines, *rest])
