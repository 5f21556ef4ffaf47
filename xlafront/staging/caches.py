"""The caches of executables: C++'s cache of signatures, those by cache key, their bound, and `clear_caches`."""

from __future__ import annotations

import os
import weakref

from xlafront.base.jaxlib_compat import PjitFunctionCache
from xlafront.core.avals import forget_unused_types
from xlafront.core.bounded_cache import BoundedCache, clear_memos
from xlafront.staging.call_tracing import all_caches, caches_of_functions
from xlafront.staging.executable import Executable

# The capacity of C++'s cache of signatures, internal functions included. When it is full, the least recently used entry is
# dropped; its next call gets the executable from Python, which costs some 50 us. An entry takes about 1 kB and is freed with
# its function: the number is for what a long session uses at once.
DISPATCH_CAPACITY = 1 << 17
dispatch_cache = PjitFunctionCache(DISPATCH_CAPACITY)


def forget_dispatch() -> None:
    """Clear C++'s cache of signatures, for existing functions and for those that a later `jit` would find."""
    dispatch_cache.clear()  # `clear_all` skips entries whose jitted function does not exist any more
    PjitFunctionCache.clear_all()


# XLA's executables of the last small programs, by cache key. A loop that makes a new lambda on each iteration needs the one of
# the iteration before, which nothing else may hold by then.
recent_executables: BoundedCache = BoundedCache(32)

# The executables of the last small jaxprs, by the keys of `compiling.compile_job`. A lambda that a loop creates is retraced
# on each iteration, but its jaxpr is lowered and compiled once.
executables_by_jaxpr: BoundedCache = BoundedCache(32)



def forget_recent() -> None:
    """Forget the executables that are held for functions which may come back."""
    recent_executables.clear()
    executables_by_jaxpr.clear()


# Executables by cache key: equal programs of different functions share them.
executables_by_key: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()


class LiveExecutables:
    """Bounds the number of compiled programs by the memory mappings that the system allows.

    Linux limits the mappings of a process, of which a program on a CPU takes six; XLA ends a process that has no more. Long
    before that, executables that were not used recently are dropped: C++ forgets its signatures, so that programs in use are
    requested from Python once more.
    """

    STEP = 256  # programs between two checks

    def __init__(self) -> None:
        self.executables: weakref.WeakSet[Executable] = weakref.WeakSet()
        self.next_check = 4 * self.STEP

    def add(self, executable: Executable) -> None:
        self.executables.add(executable)
        if len(self.executables) >= self.next_check:
            if share_of_mappings() > 0.5:
                self.sweep()
            self.next_check = len(self.executables) + self.STEP

    def sweep(self) -> None:
        """Drop executables that were not used since the last sweep; all of them if that frees too little."""
        forget_recent()
        for caches in all_caches:
            for traced in list(caches.traces.values()):
                for key, executable in list(traced.executables.items()):
                    if not executable.recently_used:
                        traced.executables.pop(key, None)
                    executable.recently_used = False
        forget_dispatch()
        if share_of_mappings() > 0.75:
            clear_executables()


def share_of_mappings() -> float:
    """Return the share of the allowed mappings that this process has; 0 on systems without a limit."""
    try:
        with open("/proc/sys/vm/max_map_count") as limit, open("/proc/self/maps", "rb") as mappings:
            return mappings.read().count(b"\n") / int(limit.read())
    except (OSError, ValueError):
        return 0.0


live_executables = LiveExecutables()


_of_parent: list[Executable] = []


def _after_fork() -> None:
    """Forget executables in a forked process, where running them would wait for threads that do not exist.

    They stay referenced, as freeing them may wait too.
    """
    for caches in all_caches:
        for traced in list(caches.traces.values()):
            _of_parent.extend(traced.executables.values())
    _of_parent.extend(executables_by_jaxpr.values())
    clear_executables()


if hasattr(os, "register_at_fork"):  # not on all systems
    os.register_at_fork(after_in_child=_after_fork)


def clear_executables() -> None:
    """Forget every compiled program; traces stay."""
    for caches in all_caches:
        for traced in list(caches.traces.values()):
            traced.executables.clear()
    executables_by_jaxpr.clear()
    forget_dispatch()


def clear_caches() -> None:
    """Forget every traced and compiled function of this process: the next calls trace and compile again.

    Example:
        >>> xf.clear_caches()
    """
    for caches in all_caches:
        caches.clear()
    caches_of_functions.clear()
    executables_by_key.clear()
    forget_dispatch()
    clear_memos()
    forget_unused_types()
