"""Log lines and monitoring events for the steps of a compilation.

Lines are logged to `xlafront`, at level WARNING with `log_compiles` and DEBUG without; events are those of
`xlafront.monitoring`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base import config
from xlafront.base.logs import log
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

    __slots__ = ("step", "name", "in_avals", "began", "started")

    def __init__(self, step: str, name: str, in_avals: Sequence[Any]):
        self.step, self.name, self.in_avals = step, name, in_avals

    def __enter__(self):
        self.began = None
        if monitoring.has_listeners():
            self.began = time.time()
            event, name_format = _EVENTS[self.step]
            monitoring.record_scalar(event, self.began, fun_name=name_format.format(self.name))
        self.started = time.perf_counter()

    def __exit__(self, kind, *exception):
        duration = time.perf_counter() - self.started
        event, name_format = _EVENTS[self.step]
        if kind is None:
            note(f"Finished {self.step} of %s for %s in %.6f sec.", name_format.format(self.name), self.in_avals, duration)
        if self.began is not None:
            monitoring.record_event_duration_secs(event, duration, fun_name=name_format.format(self.name))
            monitoring.record_event_time_span(event, self.began, self.began + duration, fun_name=name_format.format(self.name))
