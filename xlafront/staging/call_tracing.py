"""Traces of jitted functions: one `TracedCall` for each signature, in the `Caches` of the function."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from xlafront.base import config
from xlafront.core import composite_lowering, tracing
from xlafront.core.bounded_cache import WeakRegistry
from xlafront.core.dataflow import dce_jaxpr
from xlafront.core.discharge import takes_refs
from xlafront.core.ir import DebugInfo, Jaxpr
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.staging import signatures
from xlafront.staging.compile_log import TRACING, logged_step
from xlafront.staging.executable import Executable
from xlafront.staging.signatures import Call, Selection


class TracedCall:
    """A function traced for one signature, and the executables made from the program."""

    __slots__ = ("closed", "out_tree", "in_avals", "debug_info", "takes_refs", "executables", "is_high",
                 "function_of_components", "_without_composites", "equation")

    def __init__(self, closed: Jaxpr, out_tree: Any, in_avals: tuple, debug_info: DebugInfo):
        self.closed, self.out_tree, self.in_avals, self.debug_info = closed, out_tree, in_avals, debug_info
        self.takes_refs = takes_refs(closed)
        self.is_high = any([aval.is_high for aval in (*in_avals, *closed.out_avals)])
        self.function_of_components: Any = None  # jitted, of the components of composite arguments (`argument_adapters`)
        self._without_composites: TracedCall | None = None
        self.equation: tuple | None = None  # the jitted function that staged it last (weakly), and the equation of the call
        self.executables: dict[tuple, Executable] = {}  # by devices, shardings and donated arguments

    @property
    def without_composites(self) -> TracedCall:
        """This call with the composite values inside its jaxpr lowered to their components."""
        if self._without_composites is None:
            if not composite_lowering.is_high(self.closed):
                self._without_composites = self
            else:
                self._without_composites = TracedCall(
                    composite_lowering.program_on_components(self.closed), self.out_tree, self.in_avals, self.debug_info)
                self._without_composites.executables = self.executables
        return self._without_composites


def trace_call(fun: Callable, name: str, static: Selection, call: Call, in_avals: tuple) -> TracedCall:
    """Trace a function for the types of a call's leaves; its static arguments are values."""
    if config.no_tracing.value:
        raise RuntimeError(f"{name} would have to be traced while the setting no_tracing is on.")
    statics, in_tree = call.statics, call.in_tree
    out_tree: Any = None

    def flat(*tracers):
        nonlocal out_tree
        args, kwargs = signatures.join_call(statics, in_tree, tracers)
        results, out_tree = signatures.check_results(fun, fun(*args, **kwargs))
        return results

    debug_info = signatures.make_debug_info(
        "jit", fun, lambda parameters: signatures.leaf_names(parameters, static, in_tree), lambda: out_tree, name)
    is_nested = tracing.thread.trace is not tracing.eval_trace  # part of the outer trace, and not logged
    with nullcontext() if is_nested else logged_step(TRACING, name, in_avals):
        jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals, debug_info)
    closed = jaxpr.with_consts(consts)
    if any([type(value) is ShapeDtypeStruct for value in consts]):
        closed = _without_unused_constants(closed)
    return TracedCall(closed, out_tree, in_avals, debug_info)


def _without_unused_constants(closed: Jaxpr) -> Jaxpr:
    """Drop unused constants, as a `ShapeDtypeStruct` of which a function reads only the type."""
    jaxpr, count = closed.structure.with_constants_as_inputs(), len(closed.consts)
    pruned, live = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), [False] * count + [True] * len(closed.invars))
    consts = [value for value, is_live in zip(closed.consts, live) if is_live]
    return pruned.replace(constvars=pruned.invars[:len(consts)], invars=pruned.invars[len(consts):], consts=consts)


# Caches


class Caches:
    """The traces of one function, shared by all `jit`s of it with the same options."""

    __slots__ = ("traces", "functions_of_components", "once", "deletes_donated", "ignores_siblings", "__weakref__")

    def __init__(self) -> None:
        self.traces: dict[tuple, TracedCall] = {}
        self.functions_of_components: dict[tuple, Callable] = {}  # jitted, for mutable composites
        self.once = Once()
        self.deletes_donated = False  # calls delete donated arrays: see `delete_handle`
        self.ignores_siblings = False  # traces under other options are not reused, as this function's were cleared

    def clear(self) -> None:
        self.traces.clear()
        self.functions_of_components.clear()


# Weak keys, so that repeated calls of `jit(f)` trace once, and the traces are freed with `f`.
caches_of_functions: weakref.WeakKeyDictionary[Callable, dict[tuple, Caches]] = weakref.WeakKeyDictionary()
all_caches: WeakRegistry[Caches] = WeakRegistry()


def shared_caches(fun: Callable, key: tuple) -> Caches:
    """Return the caches of a function under some options; new ones if it has no hash or no weak references."""
    try:
        caches = caches_of_functions.setdefault(fun, {}).setdefault(key, Caches())
    except TypeError:
        return own_caches()
    all_caches.add(caches)
    return caches


def trace_under_other_options(fun: Callable, own: Caches, key: tuple) -> TracedCall | None:
    """Return the trace of a signature by a `jit` of the function with other options, which do not affect the program."""
    try:
        siblings = () if own.ignores_siblings else list(caches_of_functions.get(fun, {}).values())
    except TypeError:
        return None
    for caches in siblings:
        found = caches.traces.get(key) if caches is not own else None
        if found is not None:
            return TracedCall(found.closed, found.out_tree, found.in_avals, found.debug_info)
    return None


def own_caches() -> Caches:
    """Return the caches of a function that is jitted once.

    They are not registered by function: what they hold may refer to it, so that it would never be freed.
    """
    caches = Caches()
    all_caches.add(caches)
    return caches


# Threads


class Once:
    """Lets one thread do the work that several need at once (tracing, compiling) while the others wait for it.

    No lock is held during the work. Tracing runs user code, which may wait for other threads: a thread that is tracing does not
    wait for another one that traces, and waits end after `PATIENCE`. Tracing twice is better than a deadlock.
    """

    __slots__ = ("lock", "in_progress")
    PATIENCE = 10.0  # seconds

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.in_progress: dict[Any, threading.Lock] = {}  # locked until the result is available

    def get(self, key: Any, find: Callable[[], Any], make: Callable[[], Any], traces: bool) -> Any:
        """Return `find()` under a key, after this thread or another one has called `make` if needed.

        `traces`: `make` runs user code.
        """
        patience = self.PATIENCE if traces else -1
        while True:
            with self.lock:
                working = self.in_progress.get(key)
                is_mine = working is None
                if is_mine:
                    working = self.in_progress[key] = threading.Lock()
                    working.acquire()
            if is_mine or traces and _tracing.depth or not working.acquire(timeout=patience):
                break
            working.release()
            found = find()
            if found is not None:
                return found
        _tracing.depth += traces
        try:
            found = find()  # another thread may have finished just now
            return make() if found is None else found
        finally:
            _tracing.depth -= traces
            if is_mine:
                with self.lock:
                    del self.in_progress[key]
                working.release()


class _Tracing(threading.local):
    depth = 0  # the number of programs that this thread is tracing, nested


_tracing = _Tracing()
