"""Limits how far loops without waits can run ahead of simulated devices.

Simulated devices share the threads of one CPU client. With many executions in flight, none of them may have a thread for each
of its devices; collectives, which wait for all devices, would then deadlock, and XLA aborts the process. So every few calls of
executables over several CPU devices, the caller waits for the result. C++ dispatch calls the hook after each call; it is
installed when the first such executable is compiled.
"""

from __future__ import annotations

import threading

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, pytree

CALLS_AHEAD = 8  # 100 were seen to hang, 32 were not


class _Calls(threading.local):
    count = 0


_calls = _Calls()
_flatten = pytree.default_registry().flatten


def limit_calls_ahead(function, args, kwargs, results) -> None:
    """Wait for the results of every eighth call. Hot on simulated devices: called after every call."""
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
    """Install the hook. Called when a program for several CPU devices is compiled."""
    if config.post_hook.get_global() is None:
        config.post_hook.set_global(limit_calls_ahead)
