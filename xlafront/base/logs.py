"""The logger `xlafront`. Its parent is the logger `jax`, so that logging set up for JAX applies to it."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def log() -> Any:
    import logging  # start-up: 2.6 ms, only when something is logged

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
    """Write log records from this level on to stderr; NOTSET restores the default, without a handler."""
    parent = log().parent
    for logger in (log(), parent):
        logger.setLevel(level)
    if level == "NOTSET":
        parent.removeHandler(_to_stderr())
    else:
        parent.addHandler(_to_stderr())
