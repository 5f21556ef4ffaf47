"""`library`: the library's own functions, eagerly one compiled kernel each, inlined in programs.

Under a trace a function is traced by itself, once for each kind of arguments; programs that call it get its operations copied,
or what transformations made of them, with the place of the call as theirs; a program of many operations is called (`Programs`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from xlafront.core import backends, dtypes, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.dtypes import is_integer, python_scalar_dtypes
from xlafront.core.errors import NotAnArrayError, not_an_array
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, jaxpr_as_fun
from xlafront.core.memo import Memo
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.tracing import StagedTracer, StagingTrace, Trace, Tracer
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl, put_host
from xlafront.runtime.meshes import active, empty_mesh
from xlafront.runtime.sharding import single_device
from xlafront.staging.compiling import constants_as_arguments
from xlafront.staging.jitted import Jitted, Options, jit_p, make_dispatcher
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Selection, split_call


def library(fun: Callable | None = None, *, static: str | Sequence[str] = (), name: str | None = None,
            lists: bool | str | tuple[str, ...] = False, converts: bool | str = False, light: bool = False, nodes: bool = True):
    """Decorator of the library's own functions: eagerly one compiled kernel, inlined under a trace.

    `static` names the parameters that are Python values; `lists` says that users give lists (or arrays) for them, or for which
    of them; `converts` that objects which only offer `__jax_array__` are taken too, or for which one; `light`, that it
    does less than looking for its program would; `nodes`, whether nodes of pytrees that offer `__jax_array__` are arrays.
    Hot: no Python runs when a known signature is repeated.
    """
    if fun is None:
        return lambda f: library(f, static=static, name=name, lists=lists, converts=converts, light=light, nodes=nodes)
    names = (static,) if isinstance(static, str) else tuple(static)
    code = getattr(fun, "__wrapped__", fun).__code__
    parameters = code.co_varnames[:code.co_argcount]
    nums = tuple(parameters.index(n) for n in names if n in parameters)
    shown = name or fun.__name__.removeprefix("_").removesuffix("_kernel")
    static_places = frozenset((*nums, *names))
    kernel = _of_arrays(fun, static_places) if nodes and not light else fun
    jitted = Jitted(kernel, Options(Selection(tuple(sorted(nums)), names)), shown, True)
    thread, eval_trace, evaluate = tracing.thread, tracing.eval_trace, jitted.evaluate
    programs = None if light else Programs(kernel, shown, static_places)

    def cache_miss(*args, **kwargs):
        if converts:
            args = tuple([_converted(x) if converts is True or parameters[i] == converts else x for i, x in enumerate(args)])
            kwargs = {key: _converted(x) if converts in (True, key) else x for key, x in kwargs.items()}
        trace = thread.trace
        try:
            if trace is eval_trace:
                return evaluate(*args, **kwargs)
            if trace.composes and _is_of_values(trace, args, kwargs):
                with tracing.current_trace(eval_trace):
                    return dispatcher(*args, **kwargs), None, False
            if programs is not None and (type(trace) is StagingTrace or trace.composes):
                result = programs.call(trace, args, kwargs, jitted)
            else:
                result = kernel(*args, **kwargs)
        except NotAnArrayError as e:
            _name_argument(e, shown, parameters, args, kwargs)
            raise
        return result if isinstance(result, Tracer) else _as_values(trace, result), None, False

    dispatcher = make_dispatcher(fun, jitted, cache_miss)
    if not lists:
        return dispatcher
    named = names if lists is True else (lists,) if isinstance(lists, str) else lists
    return _with_lists(dispatcher, fun, frozenset((*named, *[parameters.index(n) for n in named if n in parameters])))


lax_function = functools.partial(library, nodes=False)  # those of `lax` refuse such nodes, as its primitives do


def _name_argument(error: NotAnArrayError, name: str, parameters: tuple, args: tuple, kwargs: dict[str, Any]) -> None:
    """Say of a list in place of an array what the caller gave: inside of the function its elements are traced."""
    value = error.value
    if isinstance(value, (list, tuple, dict)):
        names = (*parameters, *[f"number {i}" for i in range(len(parameters), len(args))])
        for argument, x in (*zip(names, args), *kwargs.items()):
            if type(x) is type(value) and tree.structure(x) == tree.structure(value):
                error.args, error.value = not_an_array(x, name, argument).args, x
                return


def _is_of_values(trace: Trace, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a call while something is differentiated or mapped has nothing of it: then it is what it would be outside, one
    kernel, whose numbers may differ from those of its operations one by one. Hot."""
    for x in args:
        if not _is_value(x):
            return False
    if kwargs and not all(map(_is_value, kwargs.values())):
        return False
    while trace.composes:
        trace = trace.parent
    return trace is tracing.eval_trace and not tracing.thread.axes and tracing.thread.make_whole is None


def _is_value(x: Any) -> bool:
    kind = type(x)
    return kind is ArrayImpl or x is None or kind in _host_types or isinstance(x, _WORDS) or (
        kind is tuple or kind is list) and all(map(_is_value, x))


def _as_values(trace: Trace, result: Any) -> Any:
    """Results as values of the trace, where the function handed numbers or arrays of NumPy through."""
    if type(result) in (list, tuple) and all([isinstance(x, Tracer) for x in result]):
        return result
    return tree.map(functools.partial(as_value, trace), result)


def as_value(trace: Trace, x: Any) -> Any:
    """A number or an array of NumPy as a value of the trace, other things as they are."""
    while trace.composes:
        trace = trace.parent
    if type(x) not in _host_types or getattr(x, "dtype", None) == dtypes.float0:
        return x
    if type(trace) is StagingTrace:
        atom = trace.lift(x)
        return StagedTracer(trace, atom.aval, atom)
    aval = tracing.aval_of(x)
    return put_host(x, aval, single_device(backends.default_device()), False)


def _of_arrays(fun: Callable, static: frozenset) -> Callable:
    """The function with its arguments that offer `__jax_array__` as arrays, and members of an `IntEnum` as numbers where they
    are not `static`. Nodes of pytrees are converted within the program: C++ takes them apart, and repeats the program for their
    leaves. Others are refused, as calls by C++ refuse them."""
    def operand(place, x):
        if type(x) in tracing.abstractors:
            return x
        x = tracing.node_as_operand(x)
        return x if place in static else dtypes.plain_number(x)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        return fun(*[operand(i, x) for i, x in enumerate(args)], **{name: operand(name, x) for name, x in kwargs.items()})

    return call


def _converted(x):
    """What is no node as an array, before the call: C++ knows no type of it, and asks each time."""
    return tracing.as_operand(x) if tracing.is_convertible(x) and type(x) not in tree.registered_nodes else x


_FEW_OPERATIONS = 4
_LIGHT = 3  # how often a function of few operations is looked at
_MANY_OPERATIONS = 14  # transforming so many each time costs more than a call of what was made of them
_WRITTEN_DOWN = 4  # operations that cost no more to write down than a call that has them inside


class Programs:
    """The programs of a library function, by what its arguments are, for traces that write operations down."""

    __slots__ = ("fun", "name", "static", "kept", "light")

    def __init__(self, fun: Callable, name: str, static: frozenset = frozenset()):
        self.fun, self.name = fun, name
        self.static = static  # positions and names of the parameters that are Python values
        self.kept = Memo(128)
        self.light = 0  # calls on values at hand with few operations; `None` after one with more

    def call(self, trace: Trace, args: tuple, kwargs: dict[str, Any], jitted: Jitted | None = None) -> Any:
        """The function in a trace: from its program where there is one for such arguments. Hot."""
        thread = tracing.thread
        if not thread.axes and thread.make_whole is None and active.mesh is None:
            base = trace
            while base.composes:
                base = base.parent
            if type(base) is StagingTrace:
                operands: list[Tracer] = []
                key = None if base.evaluate is not None else self._key(trace if trace is base else None, args, kwargs, operands)
                try:
                    found: Any = None if key is None else self.kept.get(key, self)
                except TypeError:  # a static argument that cannot be hashed
                    found = None
                if found is self:
                    closes = trace is base and any([x._trace is not base for x in operands])
                    found = self.kept.keep(key, self._trace(args, kwargs, operands, closes))
                if found:
                    program, alone, operation, params, out_tree = found
                    if trace is base:
                        results = trace.write_down(program, operands) if alone is None else trace.write_like(
                            alone, [*program.consts, *operands])
                        return results[0] if out_tree is None else out_tree.unflatten(results)
                    if operation is not None:
                        results = trace.process(operation, tuple(operands), params)
                        if not operation.multiple_results:
                            results = [results]
                        return results[0] if out_tree is None else out_tree.unflatten(results)
            elif base is tracing.eval_trace and jitted is not None and self.light != _LIGHT and not config.disable_jit.value:
                return self._call_at_once(jitted, args, kwargs)
        return self.fun(*args, **kwargs)

    def _call_at_once(self, jitted: Jitted, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The function of values that are differentiated or mapped: one call of its program, so that what transformations make
        of it is compiled as a whole."""
        try:
            call = split_call(jitted.name, jitted.options.static, args, kwargs)
            traced = jitted.trace(call)
        except Exception:  # called as it is, the function says it of the user's arguments
            traced = None
        if traced is None:
            return self.fun(*args, **kwargs)
        if self.light is not None:
            if _weight(traced.closed.jaxpr.eqns) <= _FEW_OPERATIONS:
                self.light += 1
                return self.fun(*args, **kwargs)
            self.light = None
        if traced.closed.jaxpr.effects or any([isinstance(c, Tracer) for c in traced.closed.consts]):
            return self.fun(*args, **kwargs)
        return jitted.staged(call, traced)

    def _key(self, trace: StagingTrace | None, args: tuple, kwargs: dict[str, Any], operands: list[Tracer]) -> tuple | None:
        """What the program depends on, and the operands, which are appended; None where there are others than traced values and
        numbers, which stand in programs as such. Where a trace is given they are values of it, or of those around it that
        its function closes over."""
        static = self.static
        entries: list[Any] = [_settings()]
        for place, x in (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args):
            kind = type(x)
            if kwargs and type(place) is str:
                entries.append(place)
            if kind is StagedTracer and trace is not None:
                aval = x.aval
                if not aval.plain or place in static or not _is_in(trace, x, entries):
                    return None
                operands.append(x)
                entries.append(aval)
            elif place in static or x is None:
                if isinstance(x, Tracer):
                    return None
                entries += kind, x
            elif not _describe(x, trace, entries, operands):
                return None
        return tuple(entries)

    def _trace(self, args: tuple, kwargs: dict[str, Any], operands: Sequence[Tracer], closes: bool) -> Any:
        """Trace the function by itself: its program; its equation, where it has one that takes and gives what the program does;
        an operation that does what it does, its parameters; and the tree of the results, None for one array. Or nothing, where
        a copy would not do. `closes`: some operands are of traces around the one that it is written in."""
        out_tree, whole = None, True

        def flat(*tracers):
            nonlocal out_tree, whole
            source.thread.site = source.NOWHERE
            rest = iter(tracers)

            def inner(x):
                if isinstance(x, Tracer):
                    return next(rest)
                return type(x)(map(inner, x)) if type(x) is list or type(x) is tuple else x

            given = [x if i in self.static else inner(x) for i, x in enumerate(args)]
            named = {name: x if name in self.static else inner(x) for name, x in kwargs.items()}
            results, out_tree = tree.flatten(self.fun(*given, **named))
            whole = all([type(x) is StagedTracer for x in results])
            return results

        try:
            jaxpr, consts = tracing.trace_to_jaxpr(flat, [x.aval for x in operands], DebugInfo("jit", self.name))
        except Exception:  # called as it is, the function says it of the user's arguments
            return ()
        # (a result that is no value of the program is known where it is called)
        if jaxpr.effects or not whole or any([isinstance(c, Tracer) for c in consts]):
            return ()
        if closes and not _reads_all(jaxpr):  # what a program closes over, it needs
            return ()
        program = ClosedJaxpr(jaxpr, consts)
        tree_of_results = None if out_tree.num_nodes == out_tree.num_leaves == 1 else out_tree
        if len(jaxpr.eqns) == 1:
            only = jaxpr.eqns[0]
            if only.invars == jaxpr.invars and only.outvars == jaxpr.outvars:
                return program, only, only.primitive, only.params, tree_of_results
            return program, None, None, None, tree_of_results
        params = {"jaxpr": program, "name": self.name}
        if len(jaxpr.eqns) <= _WRITTEN_DOWN:
            return program, None, inlined_p, params, tree_of_results
        whole_call = _whole_call(self.name, constants_as_arguments(program)[0])
        if len(jaxpr.eqns) <= _MANY_OPERATIONS or consts:
            return program, whole_call, inlined_p, params, tree_of_results
        return program, whole_call, jit_p, whole_call.params, tree_of_results


def _reads_all(jaxpr: Jaxpr) -> bool:
    read = {v for atoms in (jaxpr.outvars, *[eqn.invars for eqn in jaxpr.eqns]) for v in atoms if not v.is_literal}
    return read.issuperset(jaxpr.invars)


def _whole_call(name: str, program: ClosedJaxpr) -> JaxprEqn:
    """A call of a program of the library, which modules have the operations of in its place."""
    jaxpr = program.jaxpr
    ins, outs = len(jaxpr.invars), len(jaxpr.outvars)
    return JaxprEqn(jaxpr.invars, jaxpr.outvars, jit_p, {
        "jaxpr": program, "name": name, "donated_invars": (False,) * ins, "in_shardings": (UNSPECIFIED,) * ins,
        "out_shardings": (UNSPECIFIED,) * outs, "in_layouts": (None,) * ins, "out_layouts": (None,) * outs,
        "ctx_mesh": empty_mesh, "compiler_options_kvs": (), "keep_unused": False, "inline": True})


_contexts = Memo(64)
_last_context: tuple[tuple, object] = ((), object())


def _settings() -> object:
    """What stands in keys for the settings that programs depend on: they are many, and seldom others than a moment ago."""
    global _last_context
    key, last = config.trace_context_key(), _last_context
    if key != last[0]:
        _last_context = last = key, _contexts.get(key) or _contexts.keep(key, object())
    return last[1]


def _describe(x: Any, trace: StagingTrace | None, entries: list[Any], operands: list[Tracer]) -> bool:
    """Append what a program depends on of an argument, as `Programs._key` does; whether that can be said."""
    kind = type(x)
    if kind in python_scalar_dtypes:
        entries += kind, repr(x)  # -0.0 is another number than 0.0, nan the same as nan
    elif kind in _numbers:
        entries += kind, x.tobytes()
    elif kind is list or kind is tuple:
        entries += kind, len(x)
        for item in x:
            if not _describe(item, trace, entries, operands):
                return False
    elif isinstance(x, Tracer):
        if not x.aval.plain or trace is not None and (kind is not StagedTracer or not _is_in(trace, x, entries)):
            return False
        operands.append(x)
        entries.append(x.aval)
    elif x is None or isinstance(x, _WORDS) or getattr(getattr(x, "_jitted", None), "of_library", False):
        entries += kind, x
    else:
        return False
    return True


def _is_in(trace: StagingTrace, x: StagedTracer, entries: list[Any]) -> bool:
    """Whether a value is of the trace, or of one around it, which the key then says: all such are read by the program."""
    of = x._trace
    if of is trace:
        return True
    entries.append(_OUTER)
    return type(of) is StagingTrace and of.alive and of.evaluate is None


_OUTER = "of a trace around"
_WORDS = (str, type, np.dtype, Enum)  # what functions are told besides numbers
_numbers = frozenset([d.type for d in dtypes.supported if d.kind in "biufcV"])  # NumPy's scalars
_host_types = frozenset([*_numbers, *python_scalar_dtypes, np.ndarray])


def _write_down(trace: StagingTrace, args: tuple, params: dict[str, Any]) -> list[Any] | None:
    return trace.write_down(params["jaxpr"], args) if type(trace) is StagingTrace else None


def _run(*args, jaxpr, name):
    return jaxpr.jaxpr.memoised(("compiled",), lambda: library(jaxpr_as_fun(jaxpr), name=name))(*args)


# A call of a program whose operations programs have in place of the call; transformations make such calls of such calls.
inlined_p = ProgramCall("inlined", lower=lambda ctx, *operands, jaxpr, name: ctx.inline(jaxpr, operands), impl=_run)
inlined_p.stage, inlined_p.calls_program = _write_down, True


def written_once(fun: Callable | None = None, name: str | None = None, *, static: Sequence[str] = ()):
    """Decorator of functions of the library that look at their arguments before kernels do the work: in programs they are
    copied as those of `library`, and do not look again at arguments of the same kinds. With `static`, the parameters that are
    Python values, the whole is one compiled kernel eagerly; calls that say where results go are made as they are. Hot.
    """
    if fun is None:
        return lambda f: written_once(f, name, static=static)
    programs, thread, eval_trace = Programs(fun, name or fun.__name__), tracing.thread, tracing.eval_trace
    compiled: Any = None

    @functools.wraps(fun)
    def call(*args, **kwargs):
        nonlocal compiled
        trace = thread.trace
        if trace is not eval_trace:
            if type(trace) is StagingTrace or trace.composes:
                return programs.call(trace, args, kwargs)
        elif static and "out_sharding" not in kwargs:
            if compiled is None:
                compiled = library(fun, static=static, name=name, light=True)
            try:
                return compiled(*args, **kwargs)
            except Exception:  # called as it is, the function takes static values that cannot be hashed, and says what is wrong
                pass
        return fun(*args, **kwargs)

    return call


def _weight(eqns: Sequence[JaxprEqn]) -> int:
    """How many operations these are, with those in their programs."""
    found = len(eqns)
    for eqn in eqns:
        for value in eqn.params.values():
            for program in value if isinstance(value, tuple) else (value,):
                if isinstance(program, (ClosedJaxpr, Jaxpr)):
                    found += len(program.eqns)
    return found


def _with_lists(dispatcher, fun, static):
    """Takes static arguments that cannot be hashed as what can: lists as tuples, arrays as numbers, also in tuples."""
    def hashable(x):
        if isinstance(x, (list, tuple)) or isinstance(x, (np.ndarray, ArrayImpl)) and x.ndim:
            return tuple(hashable(v) for v in x)
        if not isinstance(x, (np.ndarray, ArrayImpl)):
            return x
        return x.__index__() if is_integer(x.dtype) else x.item()  # what it is no good for, the function says

    def is_traced(x):
        return isinstance(x, Tracer) or isinstance(x, tuple) and any(map(is_traced, x))

    @functools.wraps(fun)
    def call(*args, **kwargs):
        try:
            return dispatcher(*args, **kwargs)
        except ValueError as e:
            if "static arguments" not in str(e):
                raise
        args = tuple([hashable(x) if i in static else x for i, x in enumerate(args)])
        kwargs = {name: hashable(x) if name in static else x for name, x in kwargs.items()}
        if any([place in static and is_traced(x) for place, x in (*enumerate(args), *kwargs.items())]):
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
                tracing.aval_of(x, primitive.name)  # a node with traced arrays in it is no operand
            return primitive.bind(*operands, **params)

        apply.__name__ = apply.__qualname__ = primitive.name
        kernel = library(apply, light=True)
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
