"""What the logger `xlafront` is told of tracing and compiling: at level WARNING with the setting `log_compiles`, else DEBUG."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from xlafront.runtime import config


def log() -> Any:
    import logging  # start-up: not before something is logged

    return logging.getLogger("xlafront")


def note(text: str, *args: Any) -> None:
    """Log a step of a compilation. Nobody listens for what is logged at DEBUG where `logging` was never imported."""
    if config.log_compiles.value:
        log().warning(text, *args)
    elif "logging" in sys.modules and log().isEnabledFor(10):
        log().debug(text, *args)


class logged_step:
    """Logs how long the step inside took."""

    __slots__ = ("step", "name", "in_avals", "started")

    def __init__(self, step: str, name: str, in_avals: Sequence[Any]):
        self.step, self.name, self.in_avals = step, name, in_avals

    def __enter__(self):
        self.started = time.perf_counter()

    def __exit__(self, kind, *exception):
        if kind is None:
            note("Finished %s of %s for %s in %.6f sec.", self.step, self.name, signature_text(self.in_avals),
                 time.perf_counter() - self.started)


def signature_text(in_avals: Sequence[Any]) -> str:
    """The types of arguments, as in `(float32[3], ~int32[])`."""
    return f"({', '.join(map(str, in_avals))})"
