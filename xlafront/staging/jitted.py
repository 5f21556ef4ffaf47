"""`Jitted`, the Python half of a jitted function, and `jit_p`, the primitive of its calls within programs.

C++ calls `Jitted.cache_miss` for each signature that it has not seen. That call traces, places, compiles and runs, each step
behind a cache of its own, and returns what C++ needs to repeat the call alone (`staging/dispatch.py`). Under another trace the
call becomes one equation of the primitive `jit`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, delete_handle
from xlafront.base.logs import log
from xlafront.core import tracing
from xlafront.core.ir import JaxprEqn
from xlafront.core.primitive import MeshRules, Structured
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import StagedTracer, StagingTrace
from xlafront.runtime import distributed, effects as runtime_effects
from xlafront.runtime.sharding import active
from xlafront.staging import array_layouts, device_assignment, interpreter_shutdown, process_agreement, signatures
from xlafront.staging.argument_adapters import adapter_for_types, adapter_for_values, call_adapted
from xlafront.staging.array_transfers import put
from xlafront.staging.caches import forget_recent
from xlafront.staging.call_tracing import TracedCall, own_caches, shared_caches, trace_call, trace_under_other_options
from xlafront.staging.compiling import LoweredModule, compile_job, constants_as_arguments
from xlafront.staging.debug_nans import check_finite
from xlafront.staging.dispatch import (
    check_donated_once,
    deleted_argument_error,
    dispatcher_for,
    make_dispatcher,
    must_delete_donated,
    public_function,
)
from xlafront.staging.executable import Executable
from xlafront.staging.explain_retracing import explain_miss
from xlafront.staging.inlining import Inline
from xlafront.staging.jit_primitive import JitCall, call_params, changes_groups, check_no_options, lower_call
from xlafront.staging.passes import CompileJob
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Call, Options, Selection


class Jitted:
    """The Python half of a jitted function: its options, its caches and the steps of a call."""

    is_public = False  # users call it
    dispatcher: Callable = staticmethod(lambda: None)  # a weak reference to the C++ half: cycles through C++ are not collected

    def __init__(self, fun: Callable, options: Options, name: str | None = None, of_library: bool = False, once: bool = False):
        self.fun = fun
        self.of_library = of_library  # internal: users cannot make its arguments static
        self.options = options
        self.name = name or signatures.function_name(fun)
        try:
            self.key: tuple = (options,)
            hash(self.key)
        except TypeError:  # shardings in unhashable containers: other `jit`s of the function have caches of their own
            self.key = (object(),)
        self.caches = own_caches() if of_library or once else shared_caches(fun, self.key)

    def __reduce__(self):
        if type(self) is not Jitted:
            raise TypeError(f"{self.name} cannot be pickled or copied: only functions made by jit can.")
        return Jitted, (self.fun, self.options, self.name, self.of_library)

    # Calls

    @boundary
    def cache_miss(self, *args, **kwargs):
        """Answer C++ for a signature that it has not seen: return `(result, fast path or None, evict)`."""
        if config.disable_jit.value:
            return self.fun(*args, **kwargs), None, False
        if tracing.thread.trace is not tracing.eval_trace:
            return self.staged_call(args, kwargs), None, False
        return self.evaluate(*args, **kwargs)

    @boundary
    def evaluate(self, *args, **kwargs):
        """Trace, place, compile and run a call while nothing is traced; return as `cache_miss` does."""
        call = signatures.split_call(self.fun, self.name, self.options.static, args, kwargs)
        if (adapter := adapter_for_values(self, call)) is not None:
            return call_adapted(adapter, call.leaves), None, False
        outer = tracing.trace_of(call.leaves, self.name)
        if outer is not None:  # an argument is a tracer
            with tracing.current_trace(outer):
                return self.fun(*args, **kwargs) if self.of_library else self.staged_call(args, kwargs), None, False
        traced = self.trace(call)
        if (adapter := adapter_for_types(self, traced, call)) is not None:
            return call_adapted(adapter, call.leaves), None, False
        traced = traced.without_composites
        if distributed.state.num_processes > 1 and process_agreement.changes_groups(traced.closed):
            return self._evaluate_by_operation(traced, call.leaves), None, False
        donated = self.options.donated_flags(call)
        if config.debug_nans.value or config.debug_infs.value:  # the arguments are read again
            donated = (False,) * len(donated)
        executable = self.executable(traced, call, self.place(traced, call), donated)
        has_layouts = executable.reads_layouts_of(call.leaves)
        out = traced.out_tree.unflatten(self._run(executable, traced, call))
        is_final = executable.upgrade is None  # otherwise the next call comes to Python too
        return out, executable.fast_path(traced, out) if has_layouts and is_final else None, not is_final

    # The steps of a call

    def trace(self, call: Call) -> TracedCall:
        """Return the program for a signature. Threads that need the same one wait for the first that traces it."""
        if runtime_effects.shutting_down:
            interpreter_shutdown.end_thread()
        in_avals = signatures.abstract_arguments(self.fun, self.name, self.options.static, call, self.of_library)
        # The fields of `explain_retracing.Signature`.
        key = (call.statics, call.in_tree, in_avals, config.trace_context_key(), tracing.thread.axes,
               None if self.of_library else active.mesh)
        found = self.caches.traces.get(key)
        if found is None:
            found = self.caches.once.get(key, lambda: self.caches.traces.get(key),
                                         lambda: self._trace_uncached(call, in_avals, key), traces=True)
        return found

    def _trace_uncached(self, call: Call, in_avals: tuple, key: tuple) -> TracedCall:
        """Return the program of a `jit` of the function with other options, or trace the function."""
        traces = self.caches.traces
        found = None if self.of_library else trace_under_other_options(self.fun, self.caches, key)
        if found is not None:
            return traces.setdefault(key, found)
        found = trace_call(self.fun, self.name, self.options.static, call, in_avals)
        if config.explain_cache_misses.value and not self.of_library:
            log().warning("%s", explain_miss(self.name, key, traces, found.debug_info))
        if not any(isinstance(c, tracing.Tracer) for c in found.closed.consts):
            found = traces.setdefault(key, found)
        return found

    def place(self, traced: TracedCall, call: Call) -> device_assignment.DeviceAssignment:
        """Return the devices that the program runs on and the shardings of its arguments."""
        assignment = device_assignment.place_arguments(
            self.name, call.leaves, self.options.flat_in_shardings(self.name, call.in_tree), traced, self.options)
        array_layouts.check_argument_layouts(self.name, self.options, traced, call)
        return assignment

    def job(self, traced: TracedCall, call: Call, assignment: device_assignment.DeviceAssignment, donated: tuple) -> CompileJob:
        """Return all that lowering and compilation of a placed call depend on."""
        out_shardings = self.options.flat_out_shardings(traced.out_tree)
        device_assignment.check_results(self.name, out_shardings, traced)
        layouts = array_layouts.module_layouts(self.options, traced, call)
        return CompileJob(self.name, traced, assignment, donated, out_shardings, self.options, layouts)

    def executable(self, traced: TracedCall, call: Call, assignment: device_assignment.DeviceAssignment, donated: tuple,
                   lowered: LoweredModule | None = None) -> Executable:
        """Return the one executable for a placement, for calls and for `lower().compile()`, which passes its module."""
        key = (assignment, donated)
        found = traced.executables.get(key)
        if found is None:
            def make():
                job = self.job(traced, call, assignment, donated) if lowered is None else lowered.job
                made = traced.executables[key] = compile_job(job, lowered)
                return made

            found = self.caches.once.get((id(traced), key), lambda: traced.executables.get(key), make, traces=False)
        found.recently_used = True
        return found

    def _run(self, executable: Executable, traced: TracedCall, call: Call) -> list[ArrayImpl]:
        """Run an executable, with the checks that settings switch on; delete donated arguments where C++ does not."""
        leaves, program, checks_values = call.leaves, traced.closed, config.debug_nans.value or config.debug_infs.value
        deletes_donated = self.options.donate and not checks_values and must_delete_donated(executable)
        if deletes_donated:
            self.caches.deletes_donated = True
            check_donated_once(self, call)
        if config.no_execution.value:
            raise RuntimeError(f"{self.name} was called while the setting no_execution is on.")
        if config.debug_key_reuse.value:
            from xlafront.checks import key_reuse  # start-up: only with the setting

            key_reuse.check(self.name, program, leaves, traced.debug_info.arg_names)
        try:
            results = executable.run(leaves, program.out_avals)
        except RuntimeError as e:
            if self.options.donate:
                check_donated_once(self, call)
            raise deleted_argument_error(self.name, traced.debug_info, leaves, e) from None
        if checks_values:
            uncompiled = (lambda: self._run_uncompiled(call)) if self.is_public else None
            check_finite(self.name, results, program, leaves, uncompiled)
        if config.debug_key_reuse.value:
            key_reuse.note(program, leaves, results)
        if deletes_donated:
            delete_handle(leaves)
        return results

    def _run_uncompiled(self, call: Call) -> None:
        """Run the function operation by operation on the arguments of a call."""
        args, kwargs = signatures.join_call(call.statics, call.in_tree, call.leaves)
        self.fun(*args, **kwargs)

    def _evaluate_by_operation(self, traced: TracedCall, leaves: Sequence[Any]) -> Any:
        """Evaluate a program over devices of this process and of all, each operation compiled for its own devices."""
        results = traced.closed(*leaves)
        return traced.out_tree.unflatten([x if s is UNSPECIFIED else _resharded(x, s) for x, s in zip(
            results, self.options.flat_out_shardings(traced.out_tree))])

    # Calls under a trace

    def staged_call(self, args, kwargs):
        """Stage a call as one equation, whose program is traced once per signature."""
        call = signatures.split_call(self.fun, self.name, self.options.static, args, kwargs)
        if (adapter := adapter_for_values(self, call)) is not None:
            return call_adapted(adapter, call.leaves)
        return self.staged(call, self.trace(call))

    def staged(self, call: Call, traced: TracedCall) -> Any:
        """Stage a call whose program is known in the current trace; return its results."""
        closed = traced.closed
        if self.options.inline is Inline.JAX_EARLY and not self.options.has_shardings:
            results = closed(*call.leaves)
        else:
            known = traced.equation
            if known is None or known[0]() is not self:
                known = traced.equation = weakref.ref(self), self._equation(call, traced)
            equation, operands = known[1], [*closed.consts, *call.leaves]
            trace, mesh = tracing.thread.trace, self.options.context_mesh
            if type(trace) is StagingTrace and trace.becomes_program:
                check_no_options(self.name, self.options.compiler_options)
            if (type(trace) is StagingTrace and trace.evaluate is None and mesh is None and not equation.effects
                    and all([type(x) is StagedTracer and x._trace is trace and x.aval.plain for x in operands])):
                results = trace.append_equation_like(equation, operands)
            else:
                params = equation.params if mesh is None else equation.params | {"ctx_mesh": mesh}
                results = jit_p.bind(*operands, **params)
        return traced.out_tree.unflatten(results)

    def _equation(self, call: Call, traced: TracedCall) -> JaxprEqn:
        """Return the equation of such a call outside of any mesh context."""
        program, consts = constants_as_arguments(traced.closed)
        options, count = self.options, len(consts)
        layouts = array_layouts.requested_layouts(options, call.in_tree, traced.out_tree)
        return JaxprEqn(program.invars, program.outvars, jit_p, call_params(
            program, self.name, inline=options.inline, donated=(False,) * count + options.donated_flags(call),
            in_shardings=(UNSPECIFIED,) * count + options.flat_in_shardings(self.name, call.in_tree),
            out_shardings=options.flat_out_shardings(traced.out_tree),
            in_layouts=None if layouts is None else (*(None,) * count, *layouts[0]),
            out_layouts=None if layouts is None else layouts[1],
            compiler_options=options.compiler_options, keep_unused=options.keep_unused), program.effects)

    # Other jitted functions in place of this one, and its caches

    def adapted(self, fun: Callable, call: Call, in_shardings: Callable[[tuple], Any], out_shardings: Any,
                donated: Sequence[bool]) -> Callable:
        """Return the jitted function of arrays `fun` in place of this one, for calls like `call`.

        `in_shardings` converts the shardings requested for the leaves of the call to those of the arguments of `fun`.
        """
        options = self.options
        ins = UNSPECIFIED if options.in_shardings is UNSPECIFIED else in_shardings(
            options.flat_in_shardings(self.name, call.in_tree))
        return public_function(Jitted(fun, options._replace(
            static=Selection(), donate=Selection(tuple([i for i, flag in enumerate(donated) if flag])), in_shardings=ins,
            out_shardings=out_shardings), self.name))

    @staticmethod
    def own_copy(x: ArrayImpl) -> ArrayImpl:
        """Return a copy that shares no memory with other arrays."""
        return _copier()(x)

    def cache_size(self) -> int:
        """Return the number of signatures that C++ has cached."""
        return self.dispatcher()._cache_size()

    def clear_cache(self) -> None:
        """Forget all traces and executables of this function."""
        self.caches.clear()
        self.caches.ignores_siblings = True
        forget_recent()  # which may hold executables of this function
        dispatcher = self.dispatcher()
        if dispatcher is not None:
            dispatcher._clear_cache()


def _resharded(x, sharding):
    """Return a result with a requested sharding: transferred within this process, or by a program over all of them."""
    if sharding.is_fully_addressable and x.is_fully_addressable:
        return put(x, x.aval, sharding, True)
    return Jitted(_identity, Options(out_shardings=sharding)).evaluate(x)[0]


def _identity(x):
    return x


@functools.cache
def _copier() -> Callable:
    jitted = Jitted(_identity, Options(), "copy")
    return make_dispatcher(_identity, jitted, jitted.cache_miss)


# The primitive


def _evaluate_call(*args, jaxpr, name, in_shardings, out_shardings, **params):
    """Evaluate a call outside of any trace, over its mesh in context: its program is compiled once."""
    has_mesh = "ctx_mesh" in params and not params["ctx_mesh"].empty
    options = params.pop("compiler_options_kvs", ())
    donated = tuple([i for i, flag in enumerate(params["donated_invars"]) if flag])
    has_shardings = any([s is not UNSPECIFIED for s in (*in_shardings, *out_shardings)])

    def make():
        def run(*xs):
            if has_shardings:
                return jit_p.bind(
                    *xs, jaxpr=jaxpr, name=name, in_shardings=in_shardings, out_shardings=out_shardings, **params)
            return jaxpr(*xs)

        return dispatcher_for(Jitted(run, Options(donate=Selection(donated), compiler_options=options,
                                                  allow_mesh_context=has_mesh), name, once=True))

    # The ids are those of constants that `run` holds.
    shardings = (in_shardings, out_shardings) if has_shardings else ()
    key = ("compiled call", options, donated, has_mesh, shardings, *map(id, jaxpr.consts))
    return jaxpr.structure.memoised(key, make)(*args)


jit_p = JitCall("jit", lower=lower_call, impl=_evaluate_call, structured=Structured(only_calls_program=True),
                mesh=MeshRules(changes_groups=changes_groups))
