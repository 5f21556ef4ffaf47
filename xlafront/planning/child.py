"""The command `plan` in a process of its own: XLA compiles for minutes, and Python sees no signal meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

VARIABLE = "XLAFRONT_PLANS_HERE"  # set in the environment of the process that plans


def environment() -> dict[str, str]:
    """Return the environment of a process that plans and shows no progress of its own."""
    return os.environ | {VARIABLE: "1", "XLAFRONT_COMPILE_PROGRESS": "0"}


def run(arguments: list[str], variables: Mapping[str, str] = {}) -> int:  # noqa: B006
    """Run `python -m xlafront` with these arguments in another process, and return its exit status.

    An interrupt ends it at once. A terminal shows the time that it takes. `variables` are added to its environment.
    """
    child = subprocess.Popen([sys.executable, "-m", "xlafront", *arguments], env=environment() | dict(variables))
    started, shows_time = time.monotonic(), sys.stderr.isatty()
    try:
        while True:
            try:
                status = child.wait(1)
                break
            except subprocess.TimeoutExpired:
                if shows_time:
                    print(f"\rplanning, {time.monotonic() - started:.0f} s (Ctrl-C ends it)", end="", file=sys.stderr,
                          flush=True)
    except KeyboardInterrupt:
        child.kill()
        child.wait()
        status = 130
    if shows_time:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return 128 - status if status < 0 else status
