"""What has been traced and compiled, by function: kept with it, forgotten with it or by `clear_caches`."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from xlafront.core import parts
from xlafront.core.avals import forget_unused_types
from xlafront.core.discharge import takes_refs
from xlafront.core.ir import ClosedJaxpr, DebugInfo
from xlafront.core.memo import Alive, Memo, clear_memos
from xlafront.runtime.jaxlib_compat import PjitFunctionCache
from xlafront.staging.equal_programs import recent_programs
from xlafront.staging.executable import Executable

# Of all signatures that C++ knows, those of the library's own functions too. When it is full the one used longest ago goes,
# and its next call asks Python for the executable, which costs some 50 us. An entry takes about 1 kB and goes with its
# function: the number is that of what a long session has in use at once.
DISPATCH_CAPACITY = 1 << 17
dispatch_cache = PjitFunctionCache(DISPATCH_CAPACITY)


def forget_dispatch() -> None:
    """Make C++ ask again for every signature: of functions that are there, and of those that a later `jit` would find."""
    dispatch_cache.clear()  # what `clear_all` leaves, as no jitted function is there that it belongs to
    PjitFunctionCache.clear_all()


class TracedCall:
    """What tracing a function with one signature gave, and the executables that were made of it."""

    __slots__ = ("closed", "out_tree", "in_avals", "debug_info", "takes_refs", "executables", "is_high", "on_parts",
                 "_on_arrays", "as_operation")

    def __init__(self, closed: ClosedJaxpr, out_tree: Any, in_avals: tuple, debug_info: DebugInfo):
        self.closed, self.out_tree, self.in_avals, self.debug_info = closed, out_tree, in_avals, debug_info
        self.takes_refs = takes_refs(closed.jaxpr)
        self.is_high = any([aval.is_high for aval in (*in_avals, *closed.out_avals)])
        self.on_parts: Any = None  # the compiled function of what arguments consist of
        self._on_arrays: TracedCall | None = None
        self.as_operation: tuple | None = None  # who called it last in another program, and the parameters of that operation
        self.executables: dict[tuple, Executable] = {}  # by devices, shardings and donated arguments

    @property
    def on_arrays(self) -> TracedCall:
        """What is run: a program without values inside that consist of others."""
        if self._on_arrays is None:
            self._on_arrays = self if not parts.is_high(self.closed.jaxpr) else TracedCall(
                parts.program_on_parts(self.closed), self.out_tree, self.in_avals, self.debug_info)
        return self._on_arrays


class Once:
    """Has one thread do what several ask for at once, tracing and compiling, and the others wait for it.

    No lock is held while a thread works. Tracing runs a user's code, which may wait for other threads: a thread that is tracing
    does not wait for one that traces, and nobody waits for longer than `PATIENCE`. To trace twice is better than a deadlock.
    """

    __slots__ = ("lock", "at_work")
    PATIENCE = 10.0  # seconds

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at_work: dict[Any, threading.Lock] = {}  # locked until what is made is there

    def get(self, key: Any, find: Callable[[], Any], make: Callable[[], Any], traces: bool) -> Any:
        """What `find` finds under a key, after `make` was called for it if need be, by this thread or another one.

        `traces`: whether `make` runs a user's code.
        """
        patience = self.PATIENCE if traces else -1
        while True:
            with self.lock:
                working = self.at_work.get(key)
                mine = working is None
                if mine:
                    working = self.at_work[key] = threading.Lock()
                    working.acquire()
            if mine or traces and _tracing.depth or not working.acquire(timeout=patience):
                break
            working.release()
            found = find()
            if found is not None:
                return found
        _tracing.depth += traces
        try:
            found = find()  # another thread may have been done just now
            return make() if found is None else found
        finally:
            _tracing.depth -= traces
            if mine:
                with self.lock:
                    del self.at_work[key]
                working.release()


class _Tracing(threading.local):
    depth = 0  # how many programs this thread is tracing, one for the sake of another


_tracing = _Tracing()


class Caches:
    """What has been traced of one function; shared by all `jit`s of it with the same options."""

    __slots__ = ("traces", "on_arrays", "once", "lets_go", "alone", "__weakref__")

    def __init__(self) -> None:
        self.traces: dict[tuple, TracedCall] = {}
        self.on_arrays: dict[tuple, Callable] = {}  # of arguments that consist of others
        self.once = Once()
        self.lets_go = False  # whether its calls delete what they donate: see `let_go`
        self.alone = False  # whether nothing is taken from those with other options: what was traced is to be forgotten

    def clear(self) -> None:
        self.traces.clear()
        self.on_arrays.clear()


# Keyed weakly by function, so that `jit(f)` written again and again traces once, and dies with `f`.
_of_functions: weakref.WeakKeyDictionary[Callable, dict[tuple, Caches]] = weakref.WeakKeyDictionary()
_all: Alive[Caches] = Alive()


def shared_caches(fun: Callable, key: tuple) -> Caches:
    """Those of a function, for one use of it; of its own where it cannot be hashed or referred to weakly."""
    try:
        caches = _of_functions.setdefault(fun, {}).setdefault(key, Caches())
    except TypeError:
        return own_caches()
    _all.add(caches)
    return caches


def traced_elsewhere(fun: Callable, own: Caches, key: tuple) -> TracedCall | None:
    """What a `jit` of a function with other options, which say nothing of its program, traced for a signature."""
    try:
        siblings = () if own.alone else list(_of_functions.get(fun, {}).values())
    except TypeError:
        return None
    for caches in siblings:
        found = caches.traces.get(key) if caches is not own else None
        if found is not None:
            return TracedCall(found.closed, found.out_tree, found.in_avals, found.debug_info)
    return None


def own_caches() -> Caches:
    """Those of a function that is jitted once. What they hold may lead back to the function, which would not go with them if
    they were kept by it."""
    caches = Caches()
    _all.add(caches)
    return caches


# What XLA made of the last small programs, by what they are: when the next turn of a loop that writes a lambda anew asks for
# its equal, nothing else may hold those of the turns before.
recent_executables: Memo = Memo(32)

# Equal programs of different functions share what XLA made, as of a lambda that is written anew in each turn of a loop.
executables_by_key: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()


class LiveExecutables:
    """Keeps the number of compiled programs below what the system gives a process room for.

    Linux limits the mappings of a process, of which a program on a CPU takes six; XLA ends a process that has no more. Long
    before that, those that nobody asked for in a while go: C++ forgets what it knows, so that programs in use ask again.
    """

    STEP = 256  # programs after which the room is looked at again

    def __init__(self) -> None:
        self.executables: weakref.WeakSet[Executable] = weakref.WeakSet()
        self.look_at = 4 * self.STEP

    def add(self, executable: Executable) -> None:
        self.executables.add(executable)
        if len(self.executables) >= self.look_at:
            if share_of_mappings() > 0.5:
                self.sweep()
            self.look_at = len(self.executables) + self.STEP

    def sweep(self) -> None:
        """Drop what nobody has asked for since the last time; everything, where that is too little."""
        recent_executables.clear()
        recent_programs.clear()
        for caches in _all:
            for traced in list(caches.traces.values()):
                for key, executable in list(traced.executables.items()):
                    if not executable.asked_for:
                        traced.executables.pop(key, None)
                    executable.asked_for = False
        forget_dispatch()
        if share_of_mappings() > 0.75:
            clear_executables()


def share_of_mappings() -> float:
    """How much of the mappings that a process may have this one has; 0 on systems without that limit."""
    try:
        with open("/proc/sys/vm/max_map_count") as limit, open("/proc/self/maps", "rb") as mappings:
            return mappings.read().count(b"\n") / int(limit.read())
    except (OSError, ValueError):
        return 0.0


live_executables = LiveExecutables()


_of_parent: list[Executable] = []


def _after_fork() -> None:
    """In a forked process programs are asked for again, and then refused, as they would wait for threads that are not here.
    They are kept all the same: to free them may wait as well."""
    for caches in _all:
        for traced in list(caches.traces.values()):
            _of_parent.extend(traced.executables.values())
    _of_parent.extend(recent_programs.values())
    clear_executables()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_after_fork)


def clear_executables() -> None:
    """Forget every compiled program; what was traced stays."""
    for caches in _all:
        for traced in list(caches.traces.values()):
            traced.executables.clear()
    recent_programs.clear()
    forget_dispatch()


def clear_caches() -> None:
    """Forget every traced and compiled function of this process: the next calls trace and compile again.

    >>> xf.clear_caches()
    """
    for caches in _all:
        caches.clear()
    _of_functions.clear()
    executables_by_key.clear()
    forget_dispatch()
    clear_memos()
    forget_unused_types()
