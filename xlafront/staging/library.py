"""`library`: the library's own functions, eagerly one compiled kernel each, inlined in programs.

A function of more than a few operations is traced once for each signature; programs that call it get its operations copied
(`_Programs`), with the place of the call as theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import backends, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import python_scalar_dtypes
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn
from xlafront.core.memo import Memo
from xlafront.core.primitive import Primitive
from xlafront.core.tracing import StagedTracer, StagingTrace
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.meshes import active
from xlafront.runtime.sharding import single_device
from xlafront.staging.jitted import Jitted, Options, make_dispatcher
from xlafront.staging.signatures import Selection, split_call


def library(fun: Callable | None = None, *, static: str | Sequence[str] = (), name: str | None = None,
            lists: bool = False, converts: bool = False):
    """Decorator of the library's own functions: eagerly one compiled kernel, inlined under a trace.

    `static` names the parameters that are Python values; `lists` says that users give lists (or arrays) for them; `converts`
    that objects which only offer `__jax_array__` are taken too.
    Hot: no Python runs when a known signature is repeated.
    """
    if fun is None:
        return lambda f: library(f, static=static, name=name, lists=lists, converts=converts)
    names = (static,) if isinstance(static, str) else tuple(static)
    code = fun.__code__
    parameters = code.co_varnames[:code.co_argcount]
    nums = tuple(parameters.index(n) for n in names if n in parameters)
    shown = name or fun.__name__.removeprefix("_").removesuffix("_kernel")
    jitted = Jitted(fun, Options(Selection(tuple(sorted(nums)), names)), shown, True)
    thread, eval_trace, evaluate = tracing.thread, tracing.eval_trace, jitted.evaluate
    programs = _Programs(fun, shown, frozenset(nums), frozenset(names))

    def cache_miss(*args, **kwargs):
        if converts:
            args = tuple([_converted(x) for x in args])
            kwargs = {key: _converted(x) for key, x in kwargs.items()}
        trace = thread.trace
        if trace is eval_trace:
            return evaluate(*args, **kwargs)
        if type(trace) is StagingTrace and programs.seen != _LIGHT:
            return programs.call(trace, args, kwargs), None, False
        if trace.composes and programs.seen != _LIGHT:
            return programs.call_at_once(jitted, trace, args, kwargs), None, False
        return fun(*args, **kwargs), None, False

    dispatcher = make_dispatcher(fun, jitted, cache_miss)
    return _with_lists(dispatcher, fun, programs) if lists else dispatcher


def _converted(x):
    return tracing.as_operand(x) if tracing.is_convertible(x) else x


# Functions that wrote few operations when they were first called are called again each time.
_LIGHT = 3  # how often a function is looked at
_HEAVY = -1
_FEW_OPERATIONS = 4


class _Programs:
    """The programs of a library function, by what its arguments are, for traces that write operations down."""

    __slots__ = ("fun", "name", "nums", "names", "seen", "kept")

    def __init__(self, fun: Callable, name: str, nums: frozenset[int], names: frozenset[str]):
        self.fun, self.name, self.nums, self.names = fun, name, nums, names
        self.seen = 0  # calls that were looked at, or `_HEAVY`
        self.kept: Memo | None = None

    def call(self, trace: StagingTrace, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The function in a trace: from its program where there is one for such arguments."""
        if self.seen != _HEAVY:
            before = len(trace.eqns)
            results = self.fun(*args, **kwargs)
            if _weight(trace.eqns[before:]) > _FEW_OPERATIONS:
                self.kept = Memo(256)
                self.seen = _HEAVY
            else:
                self.seen += 1
            return results
        operands: list[StagedTracer] = []
        if trace.evaluate is None and not tracing.thread.axes and tracing.thread.make_whole is None and active.mesh is None:
            key = self._key(trace, args, kwargs, operands)
            if key is not None:
                try:
                    found = self.kept.get(key)
                except TypeError:  # a static argument that cannot be hashed
                    return self.fun(*args, **kwargs)
                if found is None:
                    found = self._trace(key, args, kwargs, operands)
                if found is not _UNFIT:
                    program, out_tree = found
                    return out_tree.unflatten(trace.write_down(program, operands))
        return self.fun(*args, **kwargs)

    def call_at_once(self, jitted: Jitted, trace: tracing.Trace, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The function of values that are differentiated or mapped: one call of its program, so that what transformations make
        of it is compiled as a whole."""
        thread = tracing.thread
        beneath = trace
        while beneath.composes:
            beneath = beneath.parent
        if (beneath is not tracing.eval_trace or thread.axes or thread.make_whole is not None or active.mesh is not None
                or config.disable_jit.value):
            return self.fun(*args, **kwargs)
        scope = source.current_scope.set("")  # the program is that of other calls too
        try:
            call = split_call(jitted.name, jitted.options.static, args, kwargs)
            traced = jitted.trace(call)
        except Exception:  # called as it is, the function says it of the user's arguments
            traced = None
        finally:
            source.current_scope.reset(scope)
        if traced is None:
            return self.fun(*args, **kwargs)
        if self.seen != _HEAVY:
            if _weight(traced.closed.jaxpr.eqns) <= _FEW_OPERATIONS:
                self.seen += 1
                return self.fun(*args, **kwargs)
            self.kept = Memo(256)
            self.seen = _HEAVY
        if traced.closed.jaxpr.effects or any([isinstance(c, tracing.Tracer) for c in traced.closed.consts]):
            return self.fun(*args, **kwargs)
        return jitted.staged(call, traced)

    def _key(self, trace: StagingTrace, args: tuple, kwargs: dict[str, Any], operands: list[StagedTracer]) -> tuple | None:
        """What the program depends on, and the operands, which are appended; None where there are others than the trace's own
        values and Python's numbers, which stand in programs as such."""
        entries: list[Any] = [config.trace_context_key()]
        for place, x in (*enumerate(args), *kwargs.items()):
            entries.append(place)
            kind = type(x)
            if place in self.nums or place in self.names or x is None:
                if isinstance(x, tracing.Tracer):
                    return None
                entries.append((kind, x))
            elif kind in python_scalar_dtypes:
                entries.append((kind, repr(x)))  # -0.0 is another number than 0.0, nan the same as nan
            else:
                items = (x,) if kind is StagedTracer else x
                if items is x:
                    if kind is not list and kind is not tuple:
                        return None
                    entries.append((kind, len(x)))
                for item in items:
                    if type(item) is not StagedTracer or item._trace is not trace or not item.aval.plain:
                        return None
                    operands.append(item)
                    entries.append(item.aval)
        return tuple(entries)

    def _trace(self, key: tuple, args: tuple, kwargs: dict[str, Any], operands: list[StagedTracer]) -> Any:
        """Trace the function by itself; `_UNFIT` where a copy of its program would not do."""
        out_tree, traced = None, True

        def flat(*tracers):
            nonlocal out_tree, traced
            source.thread.site = source.NOWHERE
            rest = iter(tracers)

            def inner(place, x):
                if x is None or place in self.nums or place in self.names or type(x) in python_scalar_dtypes:
                    return x
                return next(rest) if type(x) is StagedTracer else type(x)([next(rest) for _ in x])

            given = [inner(i, x) for i, x in enumerate(args)]
            results, out_tree = tree.flatten(self.fun(*given, **{name: inner(name, x) for name, x in kwargs.items()}))
            traced = all([type(x) is StagedTracer for x in results])
            return results

        try:
            jaxpr, consts = tracing.trace_to_jaxpr(flat, [x.aval for x in operands], DebugInfo("jit", self.name))
        except Exception:  # called as it is, the function says it of the user's arguments
            return _UNFIT
        if any([isinstance(c, tracing.Tracer) for c in consts]):
            return _UNFIT
        # (a result that is no value of the program is known where it is called)
        return self.kept.keep(key, _UNFIT if jaxpr.effects or not traced else (ClosedJaxpr(jaxpr, consts), out_tree))


_UNFIT = object()


def _weight(eqns: Sequence[JaxprEqn]) -> int:
    """How many operations these are, with those in their programs."""
    found = len(eqns)
    for eqn in eqns:
        for value in eqn.params.values():
            for program in value if isinstance(value, tuple) else (value,):
                if isinstance(program, (ClosedJaxpr, Jaxpr)):
                    found += len(program.eqns)
    return found


def _with_lists(dispatcher, fun, programs):
    """Takes static arguments that cannot be hashed as what can: lists as tuples, arrays as numbers."""
    def hashable(x):
        if isinstance(x, list) or isinstance(x, (np.ndarray, ArrayImpl)) and x.ndim:
            return tuple(hashable(v) for v in x)
        return x.__index__() if isinstance(x, (np.ndarray, ArrayImpl)) else x

    def is_traced(x):
        return isinstance(x, tracing.Tracer) or isinstance(x, tuple) and any(map(is_traced, x))

    @functools.wraps(fun)
    def call(*args, **kwargs):
        try:
            return dispatcher(*args, **kwargs)
        except ValueError as e:
            if "static arguments" not in str(e):
                raise
        args = tuple([hashable(x) if i in programs.nums else x for i, x in enumerate(args)])
        kwargs = {name: hashable(x) if name in programs.names else x for name, x in kwargs.items()}
        given = [args[i] for i in programs.nums if i < len(args)] + [kwargs[name] for name in programs.names if name in kwargs]
        if any(map(is_traced, given)):
            return fun(*args, **kwargs)  # which says what is wrong with it
        return dispatcher(*args, **kwargs)

    return call


def _apply_eagerly(primitive: Primitive, args: tuple, params: dict[str, Any]):
    """Run one primitive: a kernel compiled once for each set of parameters."""
    try:
        key = tuple(params.items())
        kernel = primitive.eager.get(key)
    except TypeError:
        key, kernel = None, None
    if kernel is None:
        def apply(*operands):
            for x in operands:
                tracing.aval_of(x)  # a node with traced arrays in it is no operand
            return primitive.bind(*operands, **params)

        apply.__name__ = apply.__qualname__ = primitive.name
        kernel = library(apply)
        if key is not None:
            primitive.eager.keep(key, kernel)
    try:
        return kernel(*args)
    except TypeError:
        if not any([tracing.is_cut(x) for x in args]):
            raise
        return kernel(*map(exact, args))


def exact(x):
    """A scalar of NumPy as what keeps its bits, where 64-bit types are off and an array of them is at hand all the same."""
    if not tracing.is_cut(x):
        return x
    return put_host(x, ShapedArray((), x.dtype), single_device(backends.default_device()), False)


tracing.EvalTrace.apply = staticmethod(_apply_eagerly)
