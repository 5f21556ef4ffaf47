"""`library`, the decorator of internal functions: one compiled kernel each when called eagerly, inlined in jaxprs.

Under a trace, a function is traced by itself, once for each signature (`TraceCache`). Jaxprs that call it get a copy of its
equations, or of what transformations made of them, with the site of the call; a large program is called instead.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from xlafront import checks as _checks  # noqa: F401  (adds its checks of finished traces)
from xlafront.base import config
from xlafront.base.meshes import active
from xlafront.core import dtypes, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import inline_call_p
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.dtypes import numpy_scalar_types, python_scalar_dtypes
from xlafront.core.errors import NotAnArrayError, not_an_array
from xlafront.core.ir import DebugInfo, Jaxpr, JaxprEqn, jaxpr_as_fun, last_reads
from xlafront.core.primitive import Primitive, Structured
from xlafront.core.program_key import append_values, exact_types, scalar_key
from xlafront.core.traceback_filter import filter_traceback, filters_itself
from xlafront.core.tracing import StagedTracer, StagingTrace, Trace, Tracer
from xlafront.runtime import backends
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.sharding import single_device
from xlafront.staging.accepted_arguments import Conversions, parameter_names
from xlafront.staging.compiling import constants_as_arguments
from xlafront.staging.dispatch import make_dispatcher
from xlafront.staging.jit_primitive import call_params
from xlafront.staging.jitted import Jitted, jit_p
from xlafront.staging.signatures import Options, Selection, split_call

_F = TypeVar("_F", bound=Callable)

if TYPE_CHECKING:  # a decorated function keeps its signature
    @overload
    def library(fun: _F, *, static: str | Sequence[str] | None = (), name: str | None = None) -> _F: ...
    @overload
    def library(*, static: str | Sequence[str] | None = (), name: str | None = None) -> Callable[[_F], _F]: ...


def library(fun: Callable | None = None, *, static: str | Sequence[str] | None = (), name: str | None = None) -> Any:
    """Make an internal function one compiled kernel when called eagerly, and inline it under a trace.

    `static`: parameters that are Python values. None if any may be one, because the function checks and converts its arguments
    in Python before kernels compute: an eager call then just runs it, and only traces have its programs. `accepts` below this
    decorator converts arguments. Hot: no Python runs when a known signature is repeated.
    """
    if fun is None:
        return lambda f: library(f, static=static, name=name)
    fun = _as_body(fun)
    if static is None:
        return _cached_in_traces(fun, name or fun.__name__)
    return eager_kernel(fun, static=static, name=name, caches_programs=True)


def _as_body(fun: Callable) -> Callable:
    """Mark the thread while the function runs, so that the functions that it calls promote operands freely."""
    thread = tracing.thread

    @functools.wraps(fun)
    def body(*args, **kwargs):
        if thread.in_library:
            return fun(*args, **kwargs)
        thread.in_library = True
        try:
            return fun(*args, **kwargs)
        finally:
            thread.in_library = False

    return body


def is_promotion_restricted() -> bool:
    """True if settings forbid promotions that are allowed by default. They concern operands of public calls only."""
    return config.numpy_rank_promotion.value != "allow" or config.numpy_dtype_promotion.value != "standard"


@contextlib.contextmanager
def free_promotion() -> Iterator[None]:
    """Promote dtypes and ranks as by default within this context."""
    with config.numpy_rank_promotion("allow"), config.numpy_dtype_promotion("standard"):
        yield


def _cached_in_traces(fun: Callable, name: str) -> Callable:
    traces, thread, eval_trace = TraceCache(fun, name), tracing.thread, tracing.eval_trace

    @filters_itself
    @functools.wraps(fun)
    def call(*args, **kwargs):
        if thread.in_library and is_promotion_restricted():
            with free_promotion():
                return call(*args, **kwargs)
        trace = thread.trace
        try:
            if trace is not eval_trace and (type(trace) is StagingTrace or trace.is_transformation):
                return traces.call(trace, args, kwargs)
            return fun(*args, **kwargs)
        except Exception as e:
            filter_traceback(e)
            raise

    return call


def eager_kernel(fun: Callable, *, static: str | Sequence[str] = (), name: str | None = None,
                 caches_programs: bool = False) -> Any:
    """Make a function one compiled kernel when called eagerly; under a trace it runs, or is inlined if it `caches_programs`.

    For functions that only bind a primitive, which costs less than the lookup of a program.
    """
    names = (static,) if isinstance(static, str) else tuple(static)
    parameters = parameter_names(fun)
    nums = tuple(parameters.index(n) for n in names if n in parameters)
    shown = name or fun.__name__.removeprefix("_").removesuffix("_kernel")
    jitted = Jitted(fun, Options(Selection(tuple(sorted(nums)), names)), shown, True)
    thread, eval_trace, evaluate = tracing.thread, tracing.eval_trace, jitted.evaluate
    traces = TraceCache(fun, shown, frozenset((*nums, *names))) if caches_programs else None
    conversions: Conversions | None = getattr(fun, "conversions", None)
    takes_objects = conversions is not None and bool(conversions.objects)

    def cache_miss(*args, **kwargs):
        if takes_objects:
            args, kwargs = conversions.flattened(args, kwargs)
        if thread.in_library and is_promotion_restricted():
            with free_promotion():
                return cache_miss(*args, **kwargs)
        trace = thread.trace
        try:
            if trace is eval_trace:
                return evaluate(*args, **kwargs)
            if trace.is_transformation and _is_untraced(trace, args, kwargs):
                with tracing.current_trace(eval_trace):
                    return dispatcher(*args, **kwargs), None, False
            if traces is not None and (type(trace) is StagingTrace or trace.is_transformation):
                result = traces.call(trace, args, kwargs, jitted)
            else:
                result = fun(*args, **kwargs)
        except Exception as e:
            if type(e) is NotAnArrayError:
                _name_argument(e, shown, parameters, args, kwargs)
            filter_traceback(e)
            raise
        return result if isinstance(result, Tracer) else _results_in_trace(trace, result), None, False

    dispatcher = make_dispatcher(fun, jitted, cache_miss)
    if conversions is not None and conversions.anything:
        return _or_uncompiled(dispatcher, fun)
    return dispatcher if conversions is None or not conversions.lists else _with_hashable(dispatcher, fun, conversions)


def _or_uncompiled(dispatcher: Callable, fun: Callable) -> Callable:
    """Return the dispatcher with calls of the function itself for arguments that it cannot take, and for `out_sharding`."""
    @filters_itself
    @functools.wraps(fun)
    def call(*args, **kwargs):
        if kwargs.get("out_sharding") is None:
            try:
                return dispatcher(*args, **kwargs)
            except Exception:  # the function itself accepts static values without a hash, and reports errors
                pass
        try:
            return fun(*args, **kwargs)
        except Exception as e:
            filter_traceback(e)
            raise

    return call


def _with_hashable(dispatcher: Callable, fun: Callable, conversions: Conversions) -> Callable:
    """Return the dispatcher with conversions of static arguments that C++ cannot hash."""
    @filters_itself
    @functools.wraps(fun)
    def call(*args, **kwargs):
        try:
            try:
                return dispatcher(*args, **kwargs)
            except ValueError as e:
                if "static arguments" not in str(e):
                    raise
            args, kwargs = conversions.hashable(args, kwargs)
            if conversions.is_traced(args, kwargs):
                return fun(*args, **kwargs)  # reports the error
            return dispatcher(*args, **kwargs)
        except Exception as e:
            filter_traceback(e)
            raise

    return call


def _name_argument(error: NotAnArrayError, name: str, parameters: tuple, args: tuple, kwargs: dict[str, Any]) -> None:
    """Name the caller's argument in the error for a list in place of an array, whose elements are traced in the function."""
    value = error.value
    if isinstance(value, (list, tuple, dict)):
        names = (*parameters, *[f"number {i}" for i in range(len(parameters), len(args))])
        for argument, x in (*zip(names, args), *kwargs.items()):
            if type(x) is type(value) and tree.structure(x) == tree.structure(value):
                error.args, error.value = not_an_array(x, name, argument).args, x
                return


def _is_untraced(trace: Trace, args: tuple, kwargs: dict[str, Any]) -> bool:
    """True if no argument is traced although a transformation is active; the call then runs as one kernel, as outside.

    Its results may differ in rounding from those of single operations. Hot.
    """
    for x in args:
        if not _is_concrete(x):
            return False
    if kwargs and not all(map(_is_concrete, kwargs.values())):
        return False
    while trace.is_transformation:
        trace = trace.parent
    return trace is tracing.eval_trace and not tracing.thread.axes and tracing.thread.unshard_operands is None


def _is_concrete(x: Any) -> bool:
    kind = type(x)
    return kind is ArrayImpl or x is None or kind in _host_types or isinstance(x, _NAMES) or (
        kind is tuple or kind is list) and all(map(_is_concrete, x))


def _results_in_trace(trace: Trace, result: Any) -> Any:
    """Return results as values of the trace, if the function returned scalars or NumPy arrays."""
    if type(result) in (list, tuple) and all([isinstance(x, Tracer) for x in result]):
        return result
    return tree.map(functools.partial(as_value, trace), result)


def as_value(trace: Trace, x: Any) -> Any:
    """Return a scalar or NumPy array as a value of the trace; other objects as they are."""
    while trace.is_transformation:
        trace = trace.parent
    if type(x) not in _host_types or getattr(x, "dtype", None) == dtypes.float0:
        return x
    if type(trace) is StagingTrace:
        atom = trace.lift(x)
        return StagedTracer(trace, atom.aval, atom)
    aval = tracing.aval_of(x)
    return put_host(x, aval, single_device(backends.default_device()), False)


_FEW_OPERATIONS = 4
_MOST_LOOKUPS = 3  # eager calls under transformations after which a function of few operations is not traced any more
_MANY_OPERATIONS = 14  # from here on, transforming the equations costs more than a call of their transformed program
_INLINED_OPERATIONS = 4  # staging so many equations costs no more than staging a call


class TraceCache:
    """The programs of an internal function by signature, for traces that stage equations."""

    __slots__ = ("fun", "name", "static", "programs", "lookups")

    def __init__(self, fun: Callable, name: str, static: frozenset = frozenset()):
        self.fun, self.name = fun, name
        self.static = static  # positions and names of static parameters
        self.programs = BoundedCache(128)
        self.lookups: int | None = 0  # eager calls that had few operations; None after one with more

    def call(self, trace: Trace, args: tuple, kwargs: dict[str, Any], jitted: Jitted | None = None) -> Any:
        """Call the function in a trace: copy or call its program if there is one for the signature. Hot."""
        thread = tracing.thread
        if not thread.axes and thread.unshard_operands is None and active.mesh is None:
            base = trace
            while base.is_transformation:
                base = base.parent
            if type(base) is StagingTrace:
                operands: list[Tracer] = []
                key = None if base.evaluate is not None else self._key(trace if trace is base else None, args, kwargs, operands)
                try:
                    found: Any = None if key is None else self.programs.get(key, self)
                except TypeError:  # a static argument without a hash
                    found = None
                if found is self:
                    captures = trace is base and any([x._trace is not base for x in operands])
                    found = self.programs.put(key, self._trace(args, kwargs, operands, captures))
                if found:
                    program, equation, primitive, params, out_tree = found
                    if trace is base:
                        results = trace.inline_jaxpr(program, operands) if equation is None else trace.append_equation_like(
                            equation, [*program.consts, *operands])
                        return results[0] if out_tree is None else out_tree.unflatten(results)
                    if primitive is not None:
                        results = trace.process(primitive, tuple(operands), params)
                        if not primitive.multiple_results:
                            results = [results]
                        return results[0] if out_tree is None else out_tree.unflatten(results)
            elif (base is tracing.eval_trace and jitted is not None and self.lookups != _MOST_LOOKUPS
                    and not config.disable_jit.value):
                return self._call_as_one(jitted, args, kwargs)
        return self.fun(*args, **kwargs)

    def _call_as_one(self, jitted: Jitted, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the program under an eager transformation, so that what this makes of it is compiled as one kernel."""
        try:
            call = split_call(jitted.fun, jitted.name, jitted.options.static, args, kwargs)
            traced = jitted.trace(call)
        except Exception:  # raised again by the call of the function itself, for the user's arguments
            traced = None
        if traced is None:
            return self.fun(*args, **kwargs)
        if self.lookups is not None:
            if _weight(traced.closed.eqns) <= _FEW_OPERATIONS:
                self.lookups += 1
                return self.fun(*args, **kwargs)
            self.lookups = None
        if traced.closed.effects or any([isinstance(c, Tracer) for c in traced.closed.consts]):
            return self.fun(*args, **kwargs)
        return jitted.staged(call, traced)

    def _key(self, trace: StagingTrace | None, args: tuple, kwargs: dict[str, Any], operands: list[Tracer]) -> tuple | None:
        """Return the key of a program and append the operands; None if an argument is neither traced, a scalar nor static.

        With a `trace`, operands must be values of it, or of enclosing traces that its function closes over.
        """
        static = self.static
        entries: list[Any] = [_settings()]
        for position, x in (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args):
            kind = type(x)
            if kwargs and type(position) is str:
                entries.append(position)
            if isinstance(x, Tracer):
                aval = x.aval
                if not aval.plain or position in static or trace is not None and (
                        kind is not StagedTracer or x._trace is not trace and not _is_available(x, entries)):
                    return None
                operands.append(x)
                entries.append(aval)
            elif position in static or x is None:
                if kind in exact_types:
                    entries += kind, x
                else:
                    append_values((x,), entries)
            elif not _describe(x, trace, entries, operands):
                return None
        return tuple(entries)

    def _trace(self, args: tuple, kwargs: dict[str, Any], operands: Sequence[Tracer], captures: bool) -> Any:
        """Trace the function by itself, to be copied; return () if a copy would not be equivalent.

        The result is the program; an equation that does the same, if any; a primitive that does, and its parameters; and the
        tree of the results, None for one array. `captures`: some operands are values of enclosing traces.
        """
        out_tree, returns_traced = None, True

        def flat(*tracers):
            nonlocal out_tree, returns_traced
            source.thread.site = source.NOWHERE
            rest = iter(tracers)

            def inner(x):
                if isinstance(x, Tracer):
                    return next(rest)
                return type(x)(map(inner, x)) if type(x) is list or type(x) is tuple else x

            given = [x if i in self.static else inner(x) for i, x in enumerate(args)]
            named = {name: x if name in self.static else inner(x) for name, x in kwargs.items()}
            results, out_tree = tree.flatten(self.fun(*given, **named))
            returns_traced = all([type(x) is StagedTracer for x in results])
            return results

        try:
            jaxpr, consts = tracing.trace_to_jaxpr(flat, [x.aval for x in operands], DebugInfo("jit", self.name))
        except Exception:  # raised again by the call of the function itself, for the user's arguments
            return ()
        # A result that is not traced is a constant where the function is called.
        if jaxpr.effects or not returns_traced or any([isinstance(c, Tracer) for c in consts]):
            return ()
        if captures and not _reads_all(jaxpr):  # the caller must not capture values that it does not read
            return ()
        program = jaxpr.with_consts(consts)
        result_tree = None if out_tree.num_nodes == out_tree.num_leaves == 1 else out_tree
        if len(jaxpr.eqns) == 1:
            only = jaxpr.eqns[0]
            if only.invars == jaxpr.invars and only.outvars == jaxpr.outvars:
                return program, only, only.primitive, only.params, result_tree
            return program, None, None, None, result_tree
        params = {"jaxpr": program, "name": self.name}
        if len(jaxpr.eqns) <= _INLINED_OPERATIONS:
            return program, None, inline_call_p, params, result_tree
        call = _cached_call(self.name, constants_as_arguments(program)[0])
        if len(jaxpr.eqns) <= _MANY_OPERATIONS or consts:
            return program, call, inline_call_p, params, result_tree
        return program, call, jit_p, call.params, result_tree


def _reads_all(jaxpr: Jaxpr) -> bool:
    return last_reads(jaxpr).keys() >= set(jaxpr.invars)


def _cached_call(name: str, program: Jaxpr) -> JaxprEqn:
    """Return the equation of a call that is inlined in modules."""
    return JaxprEqn(program.invars, program.outvars, jit_p, call_params(program, name, inline=True))


_contexts = BoundedCache(64)
_last_context: tuple[tuple, object] = ((), object())


def _settings() -> object:
    """Return one object for the settings that programs depend on: they are many, and rarely change between two calls."""
    global _last_context
    key, last = config.trace_context_key(), _last_context
    if key != last[0]:
        _last_context = last = key, _contexts.get(key) or _contexts.put(key, object())
    return last[1]


def _describe(x: Any, trace: StagingTrace | None, entries: list[Any], operands: list[Tracer]) -> bool:
    """Append the part of an argument that programs depend on (see `TraceCache._key`); False if it has no key."""
    kind = type(x)
    if isinstance(x, Tracer):
        if not x.aval.plain or trace is not None and (kind is not StagedTracer or x._trace is not trace and not _is_available(
                x, entries)):
            return False
        operands.append(x)
        entries.append(x.aval)
    elif kind is list or kind is tuple:
        entries += kind, len(x)
        for item in x:
            if not _describe(item, trace, entries, operands):
                return False
    elif (scalar := scalar_key(x)) is not None:
        entries += scalar
    elif x is None or isinstance(x, _NAMES) or getattr(getattr(x, "_jitted", None), "of_library", False):
        entries += kind, x
    else:
        return False
    return True


def _is_available(x: StagedTracer, entries: list[Any]) -> bool:
    """True if a value of another trace is one of an enclosing trace, which the key then records."""
    owner = x._trace
    entries.append(_OUTER)
    return type(owner) is StagingTrace and owner.alive and owner.evaluate is None


_OUTER = "enclosing trace"
_NAMES = (str, type, np.dtype, Enum)  # options of functions beside scalars
_host_types = frozenset([*numpy_scalar_types, *python_scalar_dtypes, np.ndarray])


def _stage_inlined(trace: StagingTrace, args: tuple, params: dict[str, Any]) -> list[Any] | None:
    return trace.inline_jaxpr(params["jaxpr"], args) if type(trace) is StagingTrace else None


def _evaluate_inlined(*args, jaxpr, name):
    return jaxpr.memoised(("compiled",), lambda: library(jaxpr_as_fun(jaxpr), name=name))(*args)


inline_call_p.define(
    lower=lambda ctx, *operands, jaxpr, name: ctx.inline(jaxpr, operands), impl=_evaluate_inlined,
    stage=_stage_inlined, structured=Structured(only_calls_program=True))


def _weight(eqns: Sequence[JaxprEqn]) -> int:
    """Return the number of equations, with those of their programs."""
    found = len(eqns)
    for eqn in eqns:
        for value in eqn.params.values():
            for program in value if isinstance(value, tuple) else (value,):
                if isinstance(program, Jaxpr):
                    found += len(program.eqns)
    return found


def _apply_eagerly(primitive: Primitive, args: tuple, params: dict[str, Any]):
    """Evaluate one primitive: a kernel compiled once for each set of parameters."""
    try:
        key = tuple(params.items())
        kernel = primitive.eager.get(key)
    except TypeError:
        key, kernel = None, None
    if kernel is None:
        def apply(*operands):
            for x in operands:
                tracing.aval_of(x, primitive.name)  # raises for a pytree node with traced arrays
            return primitive.bind(*operands, **params)

        apply.__name__ = apply.__qualname__ = primitive.name
        kernel = eager_kernel(apply)
        if key is not None:
            primitive.eager.put(key, kernel)
    try:
        return kernel(*args)
    except TypeError:
        if not any([tracing.is_truncated(x) for x in args]):
            raise
        return kernel(*map(exact, args))


def exact(x):
    """Return a NumPy scalar as an array with all its bits, for a call with 64-bit arrays although 64-bit types are off."""
    if not tracing.is_truncated(x):
        return x
    return put_host(x, ShapedArray((), x.dtype), single_device(backends.default_device()), False)


tracing.EvalTrace.apply = staticmethod(_apply_eagerly)
