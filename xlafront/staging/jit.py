"""`jit`: trace once per signature, lower, compile, and let C++ repeat the call.

A jitted function is a C++ `PjitFunction`. Its first call with a new signature comes to `Jitted.cache_miss`,
which traces, compiles and runs, and hands C++ what it needs to answer the next such call alone. Under another
trace the call becomes one equation of the primitive `jit`.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront import lowering
from xlafront.core import avals, backends, keys, tracing, tree
from xlafront.core.discharge import discharge_call, discharge_program, takes_refs
from xlafront.core.ir import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    dce_closed,
    dce_jaxpr,
    effects_by_operand,
    eval_jaxpr,
    keeps_alive,
)
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import filtered
from xlafront.runtime import config, distributed
from xlafront.runtime.arrays import ArrayImpl, put
from xlafront.runtime.execute import CompileRequest, Program, compile_module, compile_options, explain_options
from xlafront.runtime.jaxlib_compat import DONATED_ARRAYS_CRASH, JaxRuntimeError, PjitFunctionCache, let_go, pjit
from xlafront.runtime.layouts import Layout, use as layouts_in_use
from xlafront.runtime.sharding import active
from xlafront.runtime.topologies import is_compile_only
from xlafront.staging import (
    device_assignment,
    module_shardings,
    ref_boundary,
    sharding_arguments,
    signatures,
)
from xlafront.staging.signatures import Call, Selection


class Traced(NamedTuple):
    """What tracing a function with one signature gave."""

    closed: ClosedJaxpr
    out_tree: Any
    in_avals: tuple
    debug_info: DebugInfo
    takes_refs: bool = False


class Options(NamedTuple):
    """What `jit` was asked for, beyond the function."""

    static: Selection = Selection()
    donate: Selection = Selection()
    in_shardings: Any = sharding_arguments.UNSPECIFIED
    out_shardings: Any = sharding_arguments.UNSPECIFIED
    keep_unused: bool = False
    device: Any = None
    backend: str | None = None
    inline: bool = False
    compiler_options: tuple = ()


class Caches:
    """What has been traced and compiled of one function; shared by all `jit`s of it with the same options."""

    __slots__ = ("traces", "programs", "lock", "signatures", "__weakref__")

    def __init__(self) -> None:
        self.traces: dict[tuple, Traced] = {}
        self.programs: dict[tuple, Program] = {}
        self.lock = threading.RLock()
        self.signatures: list[tuple] = []  # of past tracings, kept only to explain a new one

    def clear(self) -> None:
        self.traces.clear()
        self.programs.clear()
        self.signatures.clear()


# Keyed weakly by function, so that `jit(f)` written again and again traces once, and dies with `f`.
_caches_of: weakref.WeakKeyDictionary[Callable, dict[tuple, Caches]] = weakref.WeakKeyDictionary()
_all_caches: weakref.WeakSet[Caches] = weakref.WeakSet()
_dispatch_cache = PjitFunctionCache()


def shared_caches(fun: Callable, key: tuple) -> Caches:
    try:
        per_function = _caches_of.setdefault(fun, {})
        caches = per_function.setdefault(key, Caches())
    except TypeError:  # not hashable, or no weak references to it
        caches = Caches()
    _all_caches.add(caches)
    return caches


class Jitted:
    """The Python half of a jitted function."""

    def __init__(self, fun: Callable, options: Options, name: str | None = None, of_library: bool = False):
        self.fun = fun
        self.of_library = of_library  # users cannot make its arguments static
        self.options = options
        self.name = name or signatures.function_name(fun)
        try:
            self.key: tuple = (options,)
            hash(self.key)
        except TypeError:  # shardings in unhashable containers: no sharing with other `jit`s of the function
            self.key = (id(self),)
        self.caches = shared_caches(fun, self.key)

    # Calls

    def cache_miss(self, *args, **kwargs):
        """Called from C++ for a signature that it has not seen. Returns `(result, fast path or None, evict)`."""
        try:
            if config.disable_jit.value:
                return self.fun(*args, **kwargs), None, False
            if tracing.thread.trace is not tracing.eval_trace:
                return self.staged_call(args, kwargs), None, False
            return self.evaluate(*args, **kwargs)
        except Exception as e:
            raise filtered(e) from e.__cause__

    def evaluate(self, *args, **kwargs):
        """As `cache_miss`, when nothing is being traced."""
        try:
            call = signatures.split_call(self.name, self.options.static, args, kwargs)
            outer = tracing.trace_of(call.leaves, self.name)
            if outer is not None:
                with tracing.current_trace(outer):
                    return self.fun(*args, **kwargs) if self.of_library else self.staged_call(args, kwargs), None, False
            traced = self.trace(call)
            if traced.takes_refs:
                boundary = ref_boundary.boundary_of(traced, self.name)
                inputs = boundary.inputs(call.leaves)
                results = boundary.runner(self, call, inputs, jit)(*boundary.values(inputs, jit))
                return boundary.finish(inputs, results), None, False
            if distributed.state.num_processes > 1:
                from xlafront.staging import process_agreement

                if process_agreement.changes_groups(traced.closed.jaxpr):
                    return process_agreement.evaluate(self, traced, call.leaves), None, False
            program, donated = self.program_for(traced, call)
            in_order = self.in_order(program, call)
            results = self.run(program, traced, call.leaves)
            out = traced.out_tree.unflatten(results)
            return out, self.fast_path(program, traced, call) if in_order else None, False
        except Exception as e:
            raise filtered(e) from e.__cause__

    @staticmethod
    def in_order(program: Program, call: Call) -> bool:
        """Whether the elements of all arguments lie as the program reads them; asked before the call may delete them."""
        return not layouts_in_use.others or not (
            program.own_layouts or program.misfits([keys.physical_array(x) for x in call.leaves]))

    def fast_path(self, program: Program, traced: Traced, call: Call):
        """C++ may repeat the call unless Python has something to do each time."""
        if (program.effects or config.debug_nans.value or config.debug_infs.value
                or config.no_execution.value):
            return None
        for x in call.leaves:
            if type(x) is not ArrayImpl and (type(x) is keys.KeyArray or hasattr(type(x), "__jax_array__")):
                return None
        if any([not isinstance(aval.dtype, np.dtype) for aval in traced.closed.out_avals]):
            return None
        return program.fast_path(traced.out_tree)

    def run(self, program: Program, traced: Traced, leaves: Sequence[Any]) -> list[ArrayImpl]:
        if config.no_execution.value:
            raise RuntimeError(f"{self.name} was called while the setting no_execution is on.")
        try:
            results = run_program(program, [tracing.as_operand(x) for x in leaves], traced.closed.out_avals)
        except RuntimeError as e:
            raise self.explain_deleted(traced, leaves, e) from None
        if config.debug_nans.value or config.debug_infs.value:
            from xlafront.staging.debug_nans import check_finite

            check_finite(self.name, results, traced, leaves)
        return results

    def explain_deleted(self, traced: Traced, leaves, error: RuntimeError) -> Exception:
        for i, x in enumerate(leaves):
            if isinstance(x, ArrayImpl) and x.is_deleted():
                return RuntimeError(
                    f"{self.name} got an array that has been deleted as argument {traced.debug_info.arg_names[i]} "
                    f"({x.aval}): its buffer was donated to an earlier call (donate_argnums) or freed. Use what that "
                    f"call returned, or do not donate the argument.")
        return error

    def check_donated_once(self, args, kwargs) -> None:
        """Raise for a donated array that is another argument too."""
        call = signatures.split_call(self.name, self.options.static, args, kwargs)
        first: dict[int, int] = {}
        flags = self.donated_flags(call)
        for i, x in enumerate(call.leaves):
            k = first.setdefault(id(x), i)
            if k != i and (flags[i] or flags[k]) and isinstance(x, (ArrayImpl, keys.KeyArray)):
                names = signatures.argument_names(self.fun, self.options.static, call.in_tree)
                raise JaxRuntimeError(
                    f"{self.name} got one array ({x.aval}) as its arguments {names[k]} and {names[i]}, and donates "
                    f"{names[k] if flags[k] else names[i]}, whose memory the results may take. Pass a copy (x.copy()), or do "
                    f"not donate it.")

    def staged_call(self, args, kwargs):
        """A call under a trace: one equation, whose program is traced once per signature."""
        call = signatures.split_call(self.name, self.options.static, args, kwargs)
        traced = self.trace(call)
        closed = traced.closed
        leaves = [tracing.as_operand(x) for x in call.leaves]
        if self.options.inline and self.options.in_shardings is self.options.out_shardings is sharding_arguments.UNSPECIFIED:
            results = eval_jaxpr(closed.jaxpr, closed.consts, *leaves)
        else:
            program, consts = constants_as_arguments(closed)
            donated = (False,) * len(consts) + self.donated_flags(call)
            none = (sharding_arguments.UNSPECIFIED,) * len(consts)
            results = jit_p.bind(
                *consts, *leaves, jaxpr=program, name=self.name, donated_invars=donated,
                in_shardings=none + self.flat_in_shardings(call.in_tree),
                out_shardings=self.flat_out_shardings(traced.out_tree),
                keep_unused=self.options.keep_unused, inline=self.options.inline)
        return traced.out_tree.unflatten(results)

    # Tracing

    def trace(self, call: Call) -> Traced:
        """The program for this signature. Threads that ask at once wait for the one that traces."""
        in_avals = signatures.abstract_arguments(self.fun, self.name, self.options.static, call, self.of_library)
        if self.options.in_shardings is not sharding_arguments.UNSPECIFIED:
            in_avals = device_assignment.split_types(in_avals, self.flat_in_shardings(call.in_tree))
        key = (call.statics, call.in_tree, in_avals, config.trace_context_key(), tracing.thread.axes,
               None if self.of_library else active.mesh)
        caches = self.caches
        found = caches.traces.get(key)
        if found is None:
            with caches.lock:
                found = caches.traces.get(key)
                if found is None:
                    found = self._trace(call, in_avals)
                    if not any(isinstance(c, tracing.Tracer) for c in found.closed.consts):
                        caches.traces[key] = found
                        if config.explain_cache_misses.value:
                            self._explain(call, in_avals, found)
        return found

    def _trace(self, call: Call, in_avals: tuple) -> Traced:
        if config.no_tracing.value:
            raise RuntimeError(f"{self.name} would have to be traced while the setting no_tracing is on.")
        fun, statics, in_tree = self.fun, call.statics, call.in_tree
        static = self.options.static
        out_tree = None

        def flat(*tracers):
            nonlocal out_tree
            args, kwargs = signatures.join_call(statics, in_tree, tracers)
            results, out_tree = signatures.check_results(fun, fun(*args, **kwargs))
            return results

        known = signatures.weak_reference(fun)  # the caches must not keep alive the function that they are keyed on
        debug_info = DebugInfo("jit", self.name, signatures.function_location(fun),
                               lambda: signatures.argument_names(known(), static, in_tree))
        if config.log_compiles.value:
            _log().warning("Tracing %s for %s.", self.name, _signature_text(in_avals))
        jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals, debug_info)
        return Traced(ClosedJaxpr(jaxpr, consts), out_tree, in_avals, debug_info, takes_refs(jaxpr))

    def _explain(self, call: Call, in_avals: tuple, traced: Traced) -> None:
        from xlafront.staging.explain_retracing import explain_miss

        signature = (call.statics, call.in_tree, in_avals, config.trace_context_key())
        _log().warning("%s", explain_miss(self.name, signature, self.caches.signatures, traced.debug_info))
        self.caches.signatures.append(signature)

    # Arguments

    def donated_flags(self, call: Call) -> tuple[bool, ...]:
        donate = self.options.donate
        count = call.in_tree.num_leaves
        if not donate:
            return (False,) * count
        args_tree, kwargs_tree = call.in_tree.children()
        # Positions count the static arguments too, which are not in the tree.
        dynamic = [i for i in range(len(args_tree.children()) + len(self.options.static.nums))
                   if i not in self.options.static.nums]
        flags: list[bool] = []
        for position, child in zip(dynamic, args_tree.children()):
            flags += [position in donate.nums] * child.num_leaves
        keywords = kwargs_tree.node_data()[1] if kwargs_tree.node_data() else ()
        for name, child in zip(keywords, kwargs_tree.children()):
            flags += [name in donate.names] * child.num_leaves
        return tuple(flags)

    def flat_in_shardings(self, in_tree) -> tuple:
        given = self.options.in_shardings
        if given is sharding_arguments.UNSPECIFIED:
            return (given,) * in_tree.num_leaves
        args, kwargs = tree.unflatten(in_tree, range(in_tree.num_leaves))
        given = tuple(given) if type(given) is list else given
        if type(given) is tuple and len(given) != len(args):
            static = f" that are not static (static_argnums={self.options.static.nums})" if self.options.static else ""
            raise ValueError(f"in_shardings of {self.name} is a tuple of {len(given)}, but the call has {len(args)} positional "
                             f"argument(s){static}. Give one sharding (or None) for each, or one sharding for all.")
        return sharding_arguments.flatten_shardings("in_shardings", given, args) + (
            sharding_arguments.UNSPECIFIED,) * tree.structure(kwargs).num_leaves

    def flat_out_shardings(self, out_tree) -> tuple:
        given = self.options.out_shardings
        if given is sharding_arguments.UNSPECIFIED:
            return (given,) * out_tree.num_leaves
        return sharding_arguments.flatten_shardings(
            "out_shardings", given, tree.unflatten(out_tree, range(out_tree.num_leaves)))

    # Compiling

    def program_for(self, traced: Traced, call: Call) -> tuple[Program, tuple[bool, ...]]:
        donated = self.donated_flags(call)
        assignment = self.place(traced, call)
        key = (id(traced.closed), assignment, donated)
        programs = self.caches.programs
        found = programs.get(key)
        if found is None:
            with self.caches.lock:
                found = programs.get(key)
                if found is None:
                    if distributed.state.num_processes > 1:
                        from xlafront.staging import process_agreement

                        process_agreement.check_same(self.name, traced, assignment)
                    lowered = self.lower(traced, call, assignment, donated)
                    found = programs[key] = lowered.compile_program()
        return found, donated

    def place(self, traced: Traced, call: Call) -> device_assignment.DeviceAssignment:
        """Where the program runs and its arguments go."""
        return device_assignment.place_arguments(
            self.name, call.leaves, self.flat_in_shardings(call.in_tree), traced, self.options)

    def lower(self, traced: Traced, call: Call, assignment, donated, platform: str | None = None) -> LoweredProgram:
        """For the devices of `assignment`; or, to be read alone, for a platform that is not here."""
        out_shardings = self.flat_out_shardings(traced.out_tree)
        device_assignment.check_results(self.name, out_shardings, traced)
        layouts = self.flat_layouts(call.in_tree, traced.out_tree)
        if layouts is not None:
            for layout, aval in zip((*layouts[0], *layouts[1]), (*traced.in_avals, *traced.closed.out_avals)):
                if isinstance(layout, Layout):
                    layout.check_compatible_aval(aval.shape)
        return LoweredProgram(self.name, traced.closed, assignment, donated, out_shardings, self.options, traced, layouts,
                              platform)

    def flat_layouts(self, in_tree, out_tree) -> tuple[list, list] | None:
        """The orders in memory that arguments and results were asked to have, where any were."""
        given = self.options.in_shardings, self.options.out_shardings
        if not any([sharding_arguments.asks_for_layouts(g) for g in given]):
            return None
        args, kwargs = tree.unflatten(in_tree, range(in_tree.num_leaves))
        found = []
        for g, full in zip(given, (args, tree.unflatten(out_tree, range(out_tree.num_leaves)))):
            count = tree.structure(full).num_leaves
            found.append([None] * count if g is sharding_arguments.UNSPECIFIED else sharding_arguments.flatten_layouts(g, full))
        layouts_in_use.others = True
        return found[0] + [None] * tree.structure(kwargs).num_leaves, found[1]


def run_program(program: Program, leaves: Sequence[Any], out_avals: Sequence[Any]) -> list[Any]:
    """Call a compiled program; key arrays go in and come out as their words."""
    results = program([keys.physical_array(x) for x in leaves])
    return [keys.wrap(x, aval) for x, aval in zip(results, out_avals)]


def constants_as_arguments(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program with its constants as leading arguments, so that equations carry no values."""
    if not closed.consts:
        return closed, []
    jaxpr = closed.jaxpr
    found = _hoisted.get(jaxpr)
    if found is None:
        found = _hoisted[jaxpr] = ClosedJaxpr(
            jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars], debug_info=jaxpr.debug_info), [])
    return found, closed.consts


_hoisted: weakref.WeakKeyDictionary[Jaxpr, ClosedJaxpr] = weakref.WeakKeyDictionary()


class LoweredProgram:
    """A program on its way from IR to executable: the module and what the call will need."""

    def __init__(self, name, closed, assignment, donated, out_shardings, options, traced, layouts=None, elsewhere=None):
        closed, _ = discharge_program(closed)
        jaxpr = closed.jaxpr
        self.name, self.closed, self.assignment, self.options, self.traced = name, closed, assignment, options, traced
        kept_jaxpr, self.kept = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), options.keep_unused or bool(jaxpr.effects))
        if elsewhere is None and _may_outline(assignment, kept_jaxpr):
            from xlafront.staging.outlining import outline

            kept_jaxpr = outline(kept_jaxpr)
        self.const_values = [module_shardings.inline_constant(c) for c in closed.consts]
        self.donated = donated
        self.client = assignment.devices[0].client
        self.elsewhere = elsewhere  # a platform that this process does not have
        hoisted = [c for c, value in zip(closed.consts, self.const_values) if value is None]
        self.const_args = [self._place_constant(c) for c in hoisted]
        self.shardings = module_shardings.ProgramShardings(assignment, out_shardings, self.kept, len(hoisted), jaxpr)
        arg_attributes = module_shardings.argument_attributes(
            kept_jaxpr, self.kept, donated, [tracing.aval_of(c) for c in hoisted], self.shardings, name, traced)
        self.layouts = layouts
        if layouts is not None:
            asked = [None] * len(hoisted) + [layout for layout, keep in zip(layouts[0], self.kept) if keep]
            arg_attributes = module_shardings.layout_attributes(arg_attributes, asked)
        with tracing.paused_collector:
            self.module_context = self._write_module(kept_jaxpr, name, arg_attributes)
        self.shardings.declare_meshes(self.module_context)

    def _write_module(self, kept_jaxpr, name, arg_attributes):
        result_attributes = self.shardings.result_attributes()
        if self.layouts is not None:
            result_attributes = module_shardings.layout_attributes(result_attributes, self.layouts[1])
        return lowering.module.lower_program(
            kept_jaxpr, f"jit_{name}", self.elsewhere or backends.lowering_platform(self.client),
            const_values=self.const_values, arg_attributes=arg_attributes,
            result_attributes=result_attributes, num_partitions=len(self.assignment.devices),
            sharding_context=self.shardings)

    def _place_constant(self, value):
        if is_compile_only(self.client):
            return None  # the program will not run
        aval = keys.physical(tracing.aval_of(value))
        return put(keys.physical_array(value), aval, self.assignment.replicated(), True)

    def compile_program(self, compiler_options: dict | None = None) -> Program:
        if self.elsewhere is not None:
            raise ValueError(f"{self.name} was lowered for {self.elsewhere}, which this process does not have: its text can be "
                             f"read. To compile it, give types whose shardings are over the devices of a topology "
                             f"(experimental.topologies).")
        overrides = dict(self.options.compiler_options) | (compiler_options or {})
        options = compile_options(len(self.assignment.devices), self.assignment.devices, overrides)
        self.shardings.adjust(options)
        if config.log_compiles.value:
            _log().warning("Compiling %s for %s.", self.name, _signature_text(self.traced.in_avals))
        context = self.module_context
        identity = functools.partial(lowering.module.stripped_bytecode, context.module) if context.cacheable else None
        request = CompileRequest(context.module, self.client, self.assignment.devices, options, context.host_callbacks,
                                 identity)
        try:
            executable = compile_module(request, backends.disk_cache())
        except Exception as e:
            for partitioner in self.module_context.partitioners:
                if (failure := partitioner.take_failure()) is not None:
                    raise failure from None
            raise explain_options(self.name, overrides, e) from e
        for item in self.module_context.keepalives:
            if not isinstance(item, Jaxpr) and not is_compile_only(self.client):
                executable.keep_alive(item)
        out_avals = [keys.physical(aval) for aval in self.closed.out_avals]
        return Program(
            executable, in_avals=[keys.physical(aval) for aval in self.traced.in_avals], in_shardings=self.assignment.shardings,
            out_avals=out_avals, out_shardings=self.shardings.results(executable, out_avals),
            out_committed=self.assignment.committed, kept=self.kept, const_args=self.const_args, effects=self.closed.effects,
            own_layouts=self.layouts is not None)


def _may_outline(assignment, jaxpr: Jaxpr) -> bool:
    """Whether repeated layers may be kept: where that has been measured to be better, on one CPU device."""
    return len(assignment.devices) == 1 and assignment.devices[0].platform == "cpu" and len(jaxpr.eqns) >= 8


def _log():
    import logging

    return logging.getLogger("xlafront")


def _signature_text(in_avals) -> str:
    return f"({', '.join(avals.str_short(a) for a in in_avals)})"


# The primitive


def _jit_dce(used: list[bool], eqn):
    closed, used_inputs = dce_closed(eqn.params["jaxpr"], used)
    if closed.jaxpr is eqn.params["jaxpr"].jaxpr:
        return eqn
    if not any(used) and not keeps_alive(closed.effects):
        return None

    def pick(items):
        return tuple(x for x, keep in zip(items, used_inputs) if keep)

    params = eqn.params | {
        "jaxpr": closed, "donated_invars": pick(eqn.params["donated_invars"]),
        "in_shardings": pick(eqn.params["in_shardings"]),
        "out_shardings": tuple(s for s, keep in zip(eqn.params["out_shardings"], used) if keep)}
    return eqn.replace(invars=list(pick(eqn.invars)), outvars=[v for v, keep in zip(eqn.outvars, used) if keep],
                       params=params, effects=closed.effects)


def _jit_lower(ctx, *operands, jaxpr, name, inline, in_shardings, out_shardings, **_):
    operands = module_shardings.constrain(ctx, operands, jaxpr.in_avals, in_shardings)
    results = ctx.inline(jaxpr, operands) if inline else ctx.call(jaxpr, operands, name)
    return module_shardings.constrain(ctx, results, jaxpr.out_avals, out_shardings)


def _jit_impl(*args, jaxpr, name, in_shardings, out_shardings, **params):
    """Evaluating a program that contains calls: each is compiled once, as when it was first called."""
    closed = jaxpr
    unspecified = sharding_arguments.UNSPECIFIED
    free = in_shardings.count(unspecified) == len(in_shardings) and out_shardings.count(unspecified) == len(out_shardings)
    key = None if free else (in_shardings, out_shardings)
    runners = _runners.get(closed.jaxpr)
    if runners is None:
        runners = _runners[closed.jaxpr] = {}
    runner = runners.get(key)
    if runner is None:
        def run(*xs):
            if free:
                return eval_jaxpr(closed.jaxpr, closed.consts, *xs)
            return jit_p.bind(*xs, jaxpr=closed, name=name, in_shardings=in_shardings, out_shardings=out_shardings, **params)

        run.__name__ = run.__qualname__ = name
        runner = runners[key] = jit(run)
    return runner(*args)


_runners: weakref.WeakKeyDictionary[Jaxpr, dict[Any, Callable]] = weakref.WeakKeyDictionary()



def _jit_discharge(primitive, refs, operands, params, keep_rules):
    return discharge_call(primitive, refs, operands, params, keep_rules, out_shardings=lambda written: (
        *params["out_shardings"], *(sharding_arguments.UNSPECIFIED,) * len(written)))


jit_p = Primitive("jit", multiple_results=True, memoise=False,
                  abstract=lambda *_, jaxpr, **params: jaxpr.out_avals,
                  effects=lambda *_, jaxpr, **params: effects_by_operand(jaxpr),
                  lower=_jit_lower, dce=_jit_dce, impl=_jit_impl, discharge=_jit_discharge)


# Public


def shard_arg_fallback(x, sharding, *rest):
    return put(keys.physical_array(x), keys.physical(tracing.aval_of(x)), sharding, True)


def make_dispatcher(fun: Callable, jitted: Jitted, cache_miss: Callable):
    """The C++ function object in front of `cache_miss`."""
    static = jitted.options.static
    dispatcher = pjit(jitted.name, fun, cache_miss, list(static.nums), list(static.names), jitted.key,
                      tree.default_registry, shard_arg_fallback, _dispatch_cache)
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__", "__type_params__"):
        value = getattr(fun, attribute, None)
        if value is not None:
            try:
                setattr(dispatcher, attribute, value)
            except (AttributeError, TypeError):
                pass
    dispatcher.__wrapped__ = fun
    return dispatcher


def jit(fun: Callable | None = None, *, in_shardings=sharding_arguments.UNSPECIFIED,
        out_shardings=sharding_arguments.UNSPECIFIED,
        static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None,
        keep_unused: bool = False, device=None, backend: str | None = None, inline: bool = False,
        compiler_options: dict[str, Any] | None = None):
    """Compile a function with XLA; it is traced once for each new combination of shapes, dtypes and static values.

    - `static_argnums`, `static_argnames`: arguments that are Python values, not arrays; hashable, part of the key.
    - `donate_argnums`, `donate_argnames`: arguments whose memory the results may take; they cannot be used after.
    - `in_shardings`, `out_shardings`: pytree prefixes of shardings for arguments and results.
    - `keep_unused`: keep arguments that the function does not read. `inline`: no call when used inside another.
    - `device`, `backend`: where it runs. `compiler_options`: XLA flags by name.

    >>> @jit
    ... def selu(x, alpha=1.67, lmbda=1.05):
    ...     return lmbda * xnp.where(x > 0, x, alpha * xnp.exp(x) - alpha)
    """
    if fun is None:
        return functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
            static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options)
    if not callable(fun):
        raise TypeError(f"jit takes a function, got {type(fun).__name__}: {fun!r}")
    if hasattr(fun, "_is_generator_function") or _is_generator(fun):
        raise TypeError(f"jit cannot compile the generator function {signatures.function_name(fun)}: return a list instead")
    static = signatures.select_arguments(fun, "static", static_argnums, static_argnames)
    donate = signatures.select_arguments(fun, "donate", donate_argnums, donate_argnames)
    both = sorted(set(static.nums) & set(donate.nums)) or sorted(set(static.names) & set(donate.names))
    if both:
        raise ValueError(f"the argument {both[0]!r} of {signatures.function_name(fun)} cannot be both static and donated.")
    if device is not None and backend is not None:
        raise ValueError("jit takes device or backend, not both: a device says its backend.")
    for which, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        if given is not sharding_arguments.UNSPECIFIED and (device is not None or backend is not None):
            raise ValueError(f"jit takes {which} or a device or backend, not both: shardings say the devices. Leave device and "
                             f"backend out.")
    options = Options(static, donate, in_shardings, out_shardings, keep_unused, device, backend, inline,
                      tuple(sorted((compiler_options or {}).items())))
    jitted = Jitted(fun, options)
    dispatcher = make_dispatcher(fun, jitted, jitted.cache_miss)
    function = explaining(dispatcher, jitted) if static or donate else dispatcher
    attach_stages(function, dispatcher, jitted)
    return function


def explaining(dispatcher, jitted: Jitted):
    """A function in front of the dispatcher, for errors that C++ raises itself: unhashable and donated arguments."""
    detach = DONATED_ARRAYS_CRASH and bool(jitted.options.donate)

    @functools.wraps(dispatcher)
    def call(*args, **kwargs):
        try:
            if not detach:
                return dispatcher(*args, **kwargs)
            leaves = tree.leaves((args, kwargs))
            if len(set(map(id, leaves))) < len(leaves):
                jitted.check_donated_once(args, kwargs)
            results = dispatcher(*args, **kwargs)
            let_go(leaves)
            return results
        except JaxRuntimeError as e:
            if "donated in the same call" in str(e):
                jitted.check_donated_once(args, kwargs)
            raise filtered(e) from e.__cause__
        except ValueError as e:
            text = str(e)
            if "static arguments" in text:
                signatures.check_statics(jitted.fun, jitted.name, jitted.options.static, args, kwargs)
            if "deleted or donated" in text:
                call = signatures.split_call(jitted.name, jitted.options.static, args, kwargs)
                raise jitted.explain_deleted(jitted.trace(call), call.leaves, e) from None
            raise filtered(e) from e.__cause__
        except Exception as e:
            raise filtered(e) from e.__cause__

    return call


def _is_generator(fun) -> bool:
    code = getattr(fun, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


def attach_stages(function, dispatcher, jitted: Jitted, whole=lambda args, kwargs: (args, kwargs)) -> None:
    """`whole` makes of the arguments of a call what is compiled for."""
    from xlafront.staging import stages

    function.trace = lambda *args, **kwargs: stages.trace(jitted, *whole(args, kwargs))
    function.lower = lambda *args, lowering_platforms=None, **kwargs: stages.trace(jitted, *whole(args, kwargs)).lower(
        lowering_platforms=lowering_platforms)
    function.eval_shape = lambda *args, **kwargs: stages.trace(jitted, args, kwargs).out_info
    if function is not dispatcher:
        function._cache_size = dispatcher._cache_size
    known = weakref.ref(dispatcher)  # a cycle through the C++ object would never be collected

    def clear_cache():
        jitted.caches.clear()
        known()._clear_cache()

    function.clear_cache = clear_cache


def library(fun: Callable | None = None, *, static: str | Sequence[str] = (), name: str | None = None,
            lists: bool = False):
    """Decorator of the library's own functions: eagerly one compiled kernel, inlined under a trace.

    `static` names the parameters that are Python values; `lists` says that users give lists (or arrays) for them.
    Hot: no Python runs when a known signature is repeated.
    """
    if fun is None:
        return lambda f: library(f, static=static, name=name, lists=lists)
    names = (static,) if isinstance(static, str) else tuple(static)
    code = fun.__code__
    parameters = code.co_varnames[:code.co_argcount]
    nums = tuple(parameters.index(n) for n in names if n in parameters)
    shown = name or fun.__name__.removeprefix("_").removesuffix("_kernel")
    jitted = Jitted(fun, Options(Selection(tuple(sorted(nums)), names)), shown, True)
    thread, eval_trace, evaluate = tracing.thread, tracing.eval_trace, jitted.evaluate

    def cache_miss(*args, **kwargs):
        if thread.trace is not eval_trace:
            return fun(*args, **kwargs), None, False
        return evaluate(*args, **kwargs)

    dispatcher = make_dispatcher(fun, jitted, cache_miss)
    return _with_lists(dispatcher, fun) if lists else dispatcher


def _with_lists(dispatcher, fun):
    """Takes static arguments that cannot be hashed as what can: lists as tuples, arrays as numbers."""
    def hashable(x):
        if isinstance(x, list):
            return tuple(hashable(v) for v in x)
        return x.__index__() if isinstance(x, (np.ndarray, ArrayImpl)) and not x.ndim else x

    @functools.wraps(fun)
    def call(*args, **kwargs):
        try:
            return dispatcher(*args, **kwargs)
        except ValueError as e:
            if "static arguments" not in str(e):
                raise
        return dispatcher(args[0], *map(hashable, args[1:]), **{name: hashable(x) for name, x in kwargs.items()})

    return call


def clear_programs() -> None:
    """Forget every compiled program; what was traced stays."""
    for caches in list(_all_caches):
        caches.programs.clear()
    PjitFunctionCache.clear_all()


def clear_caches() -> None:
    """Forget every traced and compiled function of this process."""
    for caches in list(_all_caches):
        caches.clear()
    _caches_of.clear()
    _hoisted.clear()
    _runners.clear()
    PjitFunctionCache.clear_all()


def _apply_eagerly(primitive: Primitive, args: tuple, params: dict[str, Any]):
    """Run one primitive: a kernel compiled once for each set of parameters."""
    try:
        key = tuple(params.items())
        kernel = primitive.eager.get(key)
    except TypeError:
        key, kernel = None, None
    if kernel is None:
        def apply(*operands):
            return primitive.bind(*operands, **params)

        apply.__name__ = apply.__qualname__ = primitive.name
        kernel = library(apply)
        if key is not None:
            primitive.eager[key] = kernel
    return kernel(*args)


tracing.EvalTrace.apply = staticmethod(_apply_eagerly)

__all__ = ["Jitted", "Traced", "clear_caches", "jit", "jit_p", "library"]

