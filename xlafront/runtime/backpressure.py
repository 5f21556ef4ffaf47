"""Keeps loops that never wait from running far ahead of simulated devices.

Simulated devices share the threads of one CPU client. With many programs under way none of them may have a thread for each
of its devices; collectives, which wait for all devices, then wait for ever, and XLA ends the process. So every few calls of
programs over several devices of a CPU wait for their result. C++ dispatch calls the hook after each call; it is there only
from the first compilation of such a program on.
"""

from __future__ import annotations

import threading

from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import ArrayImpl, pytree

CALLS_AHEAD = 8  # seen to hang with 100, not with 32


class _Calls(threading.local):
    count = 0


_calls = _Calls()
_flatten = pytree.default_registry().flatten


def limit_calls_ahead(function, args, kwargs, results) -> None:
    """Hot on simulated devices: after every call."""
    _calls.count += 1
    if _calls.count < CALLS_AHEAD:
        return
    if type(results) is not ArrayImpl:
        results = next(iter(_flatten(results)[0]), None)
    if type(results) is ArrayImpl and len(results.sharding._internal_device_list) > 1:
        _calls.count = 0
        if not results.is_deleted():
            results.block_until_ready()


def install() -> None:
    """Start to look at calls. Called when a program over several devices of a CPU is compiled."""
    if config.post_hook.get_global() is None:
        config.post_hook.set_global(limit_calls_ahead)
