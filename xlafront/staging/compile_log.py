"""What is told of tracing and compiling: to the logger `xlafront`, at level WARNING with `log_compiles` and else DEBUG, and to
those who listen for events (`xlafront.monitoring`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.runtime import config, monitoring
from xlafront.runtime.logs import log

# The steps of a compilation; what monitoring systems know events about them by, and what these are of.
TRACING, CONVERSION, COMPILATION = "tracing", "jaxpr to MLIR module conversion", "XLA compilation"
_EVENTS = {
    TRACING: ("/jax/core/compile/jaxpr_trace_duration", "{}"),
    CONVERSION: ("/jax/core/compile/jaxpr_to_mlir_module_duration", "jit({})"),
    COMPILATION: ("/jax/core/compile/backend_compile_duration", "jit({})"),
}


def _listener() -> Callable | None:
    """What takes a line; None where nobody listens, as for DEBUG where `logging` was never imported. Hot: once a tracing."""
    if config.log_compiles.value:
        return log().warning
    return log().debug if "logging" in sys.modules and log().isEnabledFor(10) else None


def is_watched() -> bool:
    """Whether anybody hears of each compilation."""
    return _listener() is not None or monitoring.is_heard()


def note(text: str, name: str, in_avals: Sequence[Any], *more: Any) -> None:
    """Log a step in the compilation of a function for arguments of these types."""
    if (tell := _listener()) is not None:
        tell(text, name, f"({', '.join(map(str, in_avals))})", *more)  # as in `(float32[3], ~int32[])`


class logged_step:
    """Says how long the step inside took. A tracing within another one is part of it, of which nothing is told."""

    __slots__ = ("step", "name", "in_avals", "began", "started")

    def __init__(self, step: str, name: str, in_avals: Sequence[Any]):
        self.step, self.name, self.in_avals = step, name, in_avals

    def __enter__(self):
        self.began = None
        if monitoring.is_heard():
            self.began = time.time()
            event, of = _EVENTS[self.step]
            monitoring.record_scalar(event, self.began, fun_name=of.format(self.name))
        self.started = time.perf_counter()

    def __exit__(self, kind, *exception):
        took = time.perf_counter() - self.started
        event, of = _EVENTS[self.step]
        if kind is None:
            note(f"Finished {self.step} of %s for %s in %.6f sec.", of.format(self.name), self.in_avals, took)
        if self.began is not None:
            monitoring.record_event_duration_secs(event, took, fun_name=of.format(self.name))
            monitoring.record_event_time_span(event, self.began, self.began + took, fun_name=of.format(self.name))
