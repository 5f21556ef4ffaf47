"""The logger `xlafront`. It is below the logger `jax`, so that what programs for JAX set up for that one holds for it, too."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def log() -> Any:
    import logging  # start-up: 2.6 ms, not before something is logged

    logger = logging.getLogger("xlafront")
    logger.parent = logging.getLogger("jax")
    return logger


@functools.cache
def _to_stderr() -> Any:
    import logging  # start-up: 2.6 ms, for programs that log

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s:%(asctime)s:%(name)s:%(lineno)d: %(message)s"))
    return handler


def show(level: str) -> None:
    """Have what is logged from this level on written to stderr; from NOTSET on: leave that to whoever set logging up."""
    above = log().parent
    for logger in (log(), above):
        logger.setLevel(level)
    if level == "NOTSET":
        above.removeHandler(_to_stderr())
    else:
        above.addHandler(_to_stderr())
