"""`Jitted`, the Python half of a jitted function, and `jit_p`, its call inside of another program.

A jitted function is a C++ `PjitFunction`. Its first call with a new signature comes to `Jitted.cache_miss`,
which traces, compiles and runs, and hands C++ what it needs to answer the next such call alone. Under another
trace the call becomes one equation of the primitive `jit`.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import errors, keys, parts, tracing, tree
from xlafront.core.avals import abstract_token
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, eval_jaxpr, subprograms
from xlafront.core.program_call import ProgramCall
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import filter_traceback
from xlafront.core.tracing import StagedTracer, StagingTrace
from xlafront.runtime import config, distributed, effects as runtime_effects
from xlafront.runtime.arrays import ArrayImpl, DeletedArrayError
from xlafront.runtime.clients import clients
from xlafront.runtime.jaxlib_compat import DONATED_ARRAYS_CRASH, JaxRuntimeError, let_go, pjit
from xlafront.runtime.layouts import Layout, use as layouts_in_use
from xlafront.runtime.logs import log
from xlafront.runtime.meshes import empty_mesh
from xlafront.runtime.sharding import active
from xlafront.staging import (
    composites,
    device_assignment,
    leaving,
    module_shardings,
    process_agreement,
    sharding_arguments,
    signatures,
)
from xlafront.staging.caches import (
    TracedCall,
    dispatch_cache,
    live_executables,
    own_caches,
    shared_caches,
    traced_elsewhere,
)
from xlafront.staging.compile_log import TRACING, is_watched, logged_step
from xlafront.staging.compiling import LoweredModule, constants_as_arguments, place_constant, run_executable
from xlafront.staging.debug_nans import check_finite
from xlafront.staging.equal_programs import identity, recent_programs
from xlafront.staging.executable import Executable
from xlafront.staging.explain_retracing import explain_miss
from xlafront.staging.moves import put
from xlafront.staging.ref_boundary import RefBoundary, boundary_of
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Call, Selection


class Options(NamedTuple):
    """What `jit` was asked for, beyond the function."""

    static: Selection = Selection()
    donate: Selection = Selection()
    in_shardings: Any = UNSPECIFIED
    out_shardings: Any = UNSPECIFIED
    keep_unused: bool = False
    device: Any = None
    backend: str | None = None
    inline: bool = False
    compiler_options: tuple = ()
    entered: bool = False  # whether specs may be over the mesh of `with mesh:`


def _lays_out(jaxpr: Jaxpr) -> bool:
    """Whether a program says of a value how it lies in memory."""
    return jaxpr.memoised(("lays_out",), lambda: any(
        [eqn.primitive.lays_out or any(map(_lays_out, subprograms(eqn.params))) for eqn in jaxpr.eqns]))


class Jitted:
    """The Python half of a jitted function."""

    of_user = False  # whether users call it
    dispatcher: Callable = staticmethod(lambda: None)  # a weak reference to the C++ half: cycles through it are not collected

    def __init__(self, fun: Callable, options: Options, name: str | None = None, of_library: bool = False, once: bool = False):
        self.fun = fun
        self.of_library = of_library  # users cannot make its arguments static
        self.options = options
        self.name = name or signatures.function_name(fun)
        try:
            self.key: tuple = (options,)
            hash(self.key)
        except TypeError:  # shardings in unhashable containers: no sharing with other `jit`s of the function
            self.key = (object(),)
        self.caches = own_caches() if of_library or once else shared_caches(fun, self.key)

    def __reduce__(self):
        if type(self) is not Jitted:
            raise TypeError(f"{self.name} cannot be pickled or copied: only what jit has made can.")
        return Jitted, (self.fun, self.options, self.name, self.of_library)

    def cache_size(self) -> int:
        """How many signatures C++ knows."""
        return self.dispatcher()._cache_size()

    def clear_cache(self) -> None:
        """Forget what was traced and compiled of this function."""
        self.caches.clear()
        self.caches.alone = True
        dispatcher = self.dispatcher()
        if dispatcher is not None:
            dispatcher._clear_cache()

    # Calls

    def cache_miss(self, *args, **kwargs):
        """Called from C++ for a signature that it has not seen. Returns `(result, fast path or None, evict)`."""
        try:
            if config.disable_jit.value:
                return self.fun(*args, **kwargs), None, False
            if tracing.thread.trace is not tracing.eval_trace:
                return self.staged_call(args, kwargs), None, False
            return self.evaluate(*args, **kwargs)
        except SystemError as e:
            raise errors.pytree_without_end(e) from None
        except Exception as e:
            filter_traceback(e)
            raise

    def evaluate(self, *args, **kwargs):
        """As `cache_miss`, when nothing is being traced."""
        try:
            call = signatures.split_call(self.name, self.options.static, args, kwargs)
            if tracing.composites and composites.among(call.leaves):
                return self.call_on_contents(call), None, False
            outer = tracing.trace_of(call.leaves, self.name)
            if outer is not None:
                with tracing.current_trace(outer):
                    return self.fun(*args, **kwargs) if self.of_library else self.staged_call(args, kwargs), None, False
            traced = self.trace(call)
            if traced.takes_refs:
                return self.evaluate_on_refs(traced, call), None, False
            if traced.is_high:
                return self.evaluate_on_parts(traced, call), None, False
            traced = traced.on_arrays
            if distributed.state.num_processes > 1:
                if process_agreement.changes_groups(traced.closed.jaxpr):
                    return self.evaluate_by_operation(traced, call.leaves), None, False
            executable = self.executable_for(traced, call)
            in_order = self.in_order(executable, call)
            lets_go = self.options.donate and leaves_handles(executable) and not (
                config.debug_nans.value or config.debug_infs.value)
            if lets_go:
                self.caches.lets_go = True
                self.check_donated_once(call)
            results = self.run(executable, traced, call)
            if lets_go:
                let_go(call.leaves)
            out = traced.out_tree.unflatten(results)
            return out, self.fast_path(executable, traced, out) if in_order else None, False
        except SystemError as e:  # left by C++, which could not flatten the arguments
            raise errors.pytree_without_end(e) from None
        except Exception as e:
            filter_traceback(e)
            raise

    def evaluate_by_operation(self, traced: TracedCall, leaves: Sequence[Any]) -> Any:
        """A program over devices of this process and of all, each operation compiled for its own."""
        results = eval_jaxpr(traced.closed.jaxpr, traced.closed.consts, *leaves)
        return traced.out_tree.unflatten([
            x if s is UNSPECIFIED else _moved(x, s) for x, s in zip(results, self.flat_out_shardings(traced.out_tree))])

    def evaluate_on_refs(self, traced: TracedCall, call: Call) -> Any:
        boundary = boundary_of(traced, self.name)
        inputs = boundary.inputs(call.leaves)
        _, run = self.on_values(boundary, call, inputs)
        return boundary.finish(inputs, run(*boundary.values(inputs, own_copy)))

    def on_values(self, boundary: RefBoundary, call: Call, inputs: Sequence[Any]) -> tuple[Jitted, Callable]:
        """The function of what references hold in place of the one that takes them, and the dispatcher in front of it."""
        layout = boundary.layout(inputs)
        found = boundary.on_values.get((self.key, layout))
        if found is None:
            options, count = self.options, len(boundary.outer)
            ins: Any = UNSPECIFIED
            outs: Any = UNSPECIFIED
            if options.in_shardings is not UNSPECIFIED:
                ins = (None,) * count + self.flat_in_shardings(call.in_tree)
            if options.out_shardings is not UNSPECIFIED or any([s is not None for s in layout]):
                outs = [*self.flat_out_shardings(boundary.traced.out_tree), *layout]
            donated = [count + i for i, flag in enumerate(self.donated_flags(call)) if flag and not boundary.refs[count + i]]
            run = boundary.run
            jitted = Jitted(run, options._replace(
                static=Selection(), donate=Selection(tuple(sorted({*donated, *boundary.written}))), in_shardings=ins,
                out_shardings=outs, inline=False), self.name)
            found = boundary.on_values[self.key, layout] = jitted, function_of(jitted)
        return found

    def evaluate_on_parts(self, traced: TracedCall, call: Call) -> Any:
        """A call with arguments or results that consist of others: of what they consist of."""
        results = self.on_parts(traced, call)(*parts.parts_of(traced.in_avals, call.leaves))
        return traced.out_tree.unflatten(parts.put_together(traced.closed.out_avals, results))

    def on_parts(self, traced: TracedCall, call: Call) -> Callable:
        """The function of what arguments consist of in place of the one that takes them, compiled as that is."""
        closed = traced.closed
        if traced.on_parts is None:
            on_parts = parts.program_on_parts(closed)
            ins, outs = self.options.in_shardings, self.options.out_shardings
            if ins is not UNSPECIFIED:
                ins = tuple(parts.for_parts(traced.in_avals, self.flat_in_shardings(call.in_tree)))
            if outs is not UNSPECIFIED:
                outs = parts.for_parts(closed.out_avals, self.flat_out_shardings(traced.out_tree))
            donated = parts.for_parts(traced.in_avals, self.donated_flags(call))
            traced.on_parts = function_of(Jitted(
                lambda *xs: eval_jaxpr(on_parts.jaxpr, on_parts.consts, *xs), self.options._replace(
                    static=Selection(), donate=Selection(tuple([i for i, flag in enumerate(donated) if flag])),
                    in_shardings=ins, out_shardings=outs), self.name))
        return traced.on_parts

    def call_on_contents(self, call: Call) -> Any:
        contents = composites.Contents.of(call.leaves)
        result, held = self.on_contents(call, contents)(contents.arrays(), *contents.others)
        contents.finish(held)
        return result

    def on_contents(self, call: Call, contents: composites.Contents) -> Callable:
        """The function of what arguments consist of in place of the one that takes them, compiled as that is."""
        key = call.statics, call.in_tree, contents.places, contents.kinds, contents.states
        found = self.caches.on_arrays.get(key)
        if found is None:
            options, ins, outs = self.options, self.options.in_shardings, self.options.out_shardings
            kept = [i for i, place in enumerate(contents.places) if place is None]
            if ins is not UNSPECIFIED:
                flat = self.flat_in_shardings(call.in_tree)
                ins = (None, *[flat[i] for i in kept])
            if outs is not UNSPECIFIED:
                outs = (outs, None)
            flags = self.donated_flags(call)
            donated = tuple([1 + j for j, i in enumerate(kept) if flags[i]])
            found = self.caches.on_arrays[key] = function_of(Jitted(
                composites.on_arrays(self.fun, call, contents), options._replace(
                    static=Selection(), donate=Selection(donated), in_shardings=ins, out_shardings=outs), self.name))
        return found

    @staticmethod
    def in_order(executable: Executable, call: Call) -> bool:
        """Whether the elements of all arguments lie as the program reads them; asked before the call may delete them."""
        return not layouts_in_use.others or not (
            executable.own_layouts or executable.misfits([keys.physical_array(x) for x in call.leaves]))

    @staticmethod
    def fast_path(executable: Executable, traced: TracedCall, out: Any):
        """C++ may repeat the call unless Python has something to do each time."""
        if (executable.effects or executable.callback_failures is not None or config.debug_nans.value or config.debug_infs.value
                or config.debug_key_reuse.value or config.no_execution.value):
            return None
        out_avals = traced.closed.out_avals
        if any([aval is abstract_token or isinstance(aval.dtype, np.dtype) and not aval.dtype.itemsize
                for aval in (*traced.closed.in_avals, *out_avals)]):
            return None
        out_tree = traced.out_tree
        if not all([isinstance(aval.dtype, np.dtype) for aval in out_avals]):
            out_tree = tree.dispatch_registry.flatten(out)[1]
            if out_tree.num_leaves != len(out_avals):  # nodes that were registered past us
                return None
        return executable.fast_path(out_tree)

    def run(self, executable: Executable, traced: TracedCall, call: Call) -> list[ArrayImpl]:
        leaves = call.leaves
        if config.no_execution.value:
            raise RuntimeError(f"{self.name} was called while the setting no_execution is on.")
        if config.debug_key_reuse.value:
            from xlafront.core import key_reuse  # start-up: only with the setting

            key_reuse.check(self.name, traced.closed, leaves, traced.debug_info.arg_names)
        try:
            results = run_executable(executable, leaves, traced.closed.out_avals)
        except RuntimeError as e:
            if self.options.donate:
                self.check_donated_once(call)
            raise self.explain_deleted(traced, leaves, e) from None
        if config.debug_nans.value or config.debug_infs.value:
            check_finite(self.name, results, traced.closed, leaves, (lambda: self.uncompiled(call)) if self.of_user else None)
        if config.debug_key_reuse.value:
            key_reuse.note(traced.closed, leaves, results)
        return results

    def uncompiled(self, call: Call) -> None:
        """Run the function operation by operation, on what the user gave."""
        args, kwargs = signatures.join_call(call.statics, call.in_tree, call.leaves)
        self.fun(*args, **kwargs)

    def explain_deleted(self, traced: TracedCall, leaves, error: RuntimeError) -> Exception:
        for i, x in enumerate(leaves):
            if isinstance(x, ArrayImpl) and x.is_deleted():
                return DeletedArrayError(x, f", which {self.name} got as argument {traced.debug_info.arg_names[i]}")
        return error

    def check_donated_once(self, call: Call) -> None:
        """Raise for a donated array that is another argument too."""
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
        if tracing.composites and composites.among(call.leaves):
            return self.call_on_contents(call)
        return self.staged(call, self.trace(call))

    def staged(self, call: Call, traced: TracedCall) -> Any:
        """The results of a call whose program is known, as an operation for the current trace."""
        closed = traced.closed
        if self.options.inline and self.options.in_shardings is self.options.out_shardings is UNSPECIFIED:
            results = eval_jaxpr(closed.jaxpr, closed.consts, *call.leaves)
        else:
            known = traced.as_operation
            if known is None or known[0]() is not self:
                known = traced.as_operation = weakref.ref(self), self._as_operation(call, traced)
            operation, operands = known[1], [*closed.consts, *call.leaves]
            trace, mesh = tracing.thread.trace, active.concrete()
            if (type(trace) is StagingTrace and trace.evaluate is None and mesh is None and not operation.effects
                    and not self.options.compiler_options
                    and all([type(x) is StagedTracer and x._trace is trace and x.aval.plain for x in operands])):
                results = trace.write_like(operation, operands)
            else:
                params = operation.params if mesh is None else operation.params | {"ctx_mesh": mesh}
                results = jit_p.bind(*operands, **params)
        return traced.out_tree.unflatten(results)

    def _as_operation(self, call: Call, traced: TracedCall) -> JaxprEqn:
        """The operation that such a call is where no mesh is in force."""
        program, consts = constants_as_arguments(traced.closed)
        count, none = len(call.leaves), (None,) * len(consts)
        in_layouts, out_layouts = self.flat_layouts(call.in_tree, traced.out_tree) or (
            (None,) * count, (None,) * traced.out_tree.num_leaves)
        return JaxprEqn(program.jaxpr.invars, program.jaxpr.outvars, jit_p, {
            "jaxpr": program, "name": self.name, "donated_invars": (False,) * len(consts) + self.donated_flags(call),
            "in_shardings": (UNSPECIFIED,) * len(consts) + self.flat_in_shardings(call.in_tree),
            "out_shardings": self.flat_out_shardings(traced.out_tree), "in_layouts": (*none, *in_layouts),
            "out_layouts": tuple(out_layouts), "ctx_mesh": empty_mesh, "keep_unused": self.options.keep_unused,
            "inline": self.options.inline, "compiler_options_kvs": self.options.compiler_options}, program.effects)

    # Tracing

    def trace(self, call: Call) -> TracedCall:
        """The program for this signature. Threads that ask at once wait for the one that traces."""
        if runtime_effects.leaving:
            leaving.end_thread()
        in_avals = signatures.abstract_arguments(self.fun, self.name, self.options.static, call, self.of_library)
        # As `Signature`.
        key = (call.statics, call.in_tree, in_avals, config.trace_context_key(), tracing.thread.axes,
               None if self.of_library else active.mesh)
        found = self.caches.traces.get(key)
        if found is None:
            found = self.caches.once.get(key, lambda: self.caches.traces.get(key), lambda: self._traced(call, in_avals, key),
                                         traces=True)
        return found

    def _traced(self, call: Call, in_avals: tuple, key: tuple) -> TracedCall:
        traces = self.caches.traces
        found = None if self.of_library else traced_elsewhere(self.fun, self.caches, key)
        if found is not None:
            return traces.setdefault(key, found)
        found = self._trace(call, in_avals)
        if config.explain_cache_misses.value and not self.of_library:
            log().warning("%s", explain_miss(self.name, key, traces, found.debug_info))
        if not any(isinstance(c, tracing.Tracer) for c in found.closed.consts):
            found = traces.setdefault(key, found)
        return found

    def _trace(self, call: Call, in_avals: tuple) -> TracedCall:
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

        written_as = signatures.written_as(fun)  # the caches must not keep alive the function that they are keyed on
        debug_info = DebugInfo(
            "jit", self.name, written_as[0],
            lambda: signatures.leaf_names(signatures.Parameters.of_code(*written_as), static, in_tree),
            lambda: tree.result_paths(out_tree))
        if tracing.thread.trace is not tracing.eval_trace:
            jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals, debug_info)
        else:
            with logged_step(TRACING, self.name, in_avals):
                jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals, debug_info)
        return TracedCall(ClosedJaxpr(jaxpr, consts), out_tree, in_avals, debug_info)

    # Arguments

    def donated_flags(self, call: Call) -> tuple[bool, ...]:
        donate = self.options.donate
        count = call.in_tree.num_leaves
        if not donate:
            return (False,) * count
        args_tree, kwargs_tree = call.in_tree.children()
        # Positions count the static arguments too, which are not in the tree.
        static = {key for key, _ in call.statics}
        count = len(args_tree.children()) + sum(isinstance(key, int) for key in static)
        dynamic = [i for i in range(count) if i not in static]
        flags: list[bool] = []
        for position, child in zip(dynamic, args_tree.children()):
            flags += [position in donate.nums] * child.num_leaves
        keywords = kwargs_tree.node_data()[1] if kwargs_tree.node_data() else ()
        for name, child in zip(keywords, kwargs_tree.children()):
            flags += [name in donate.names] * child.num_leaves
        return tuple(flags)

    def flat_in_shardings(self, in_tree) -> tuple:
        given = self.options.in_shardings
        if given is UNSPECIFIED:
            return (given,) * in_tree.num_leaves
        args, kwargs = tree.numbered(in_tree)
        if kwargs:
            raise ValueError(f"{self.name} has in_shardings, which belong to positions, and was called with the keyword "
                             f"argument(s) {', '.join(kwargs)}. Pass them by position.")
        given = tuple(given) if type(given) is list else given
        if type(given) is tuple and len(given) != len(args):
            static = f" that are not static (static_argnums={self.options.static.nums})" if self.options.static else ""
            raise ValueError(f"in_shardings of {self.name} is a tuple of {len(given)}, but the call has {len(args)} positional "
                             f"argument(s){static}. Give one sharding (or None) for each, or one sharding for all.")
        return sharding_arguments.flatten_shardings("in_shardings", given, args, entered=self.options.entered)

    def flat_out_shardings(self, out_tree) -> tuple:
        given = self.options.out_shardings
        if given is UNSPECIFIED:
            return (given,) * out_tree.num_leaves
        return sharding_arguments.flatten_shardings(
            "out_shardings", given, tree.numbered(out_tree), entered=self.options.entered)

    # Compiling

    def executable_for(self, traced: TracedCall, call: Call) -> Executable:
        donated = self.donated_flags(call)
        if config.debug_nans.value or config.debug_infs.value:  # which look at the arguments once more
            donated = (False,) * len(donated)
        return self.compiled(traced, call, self.place(traced, call), donated)

    def compiled(self, traced: TracedCall, call: Call, assignment: device_assignment.DeviceAssignment, donated: tuple,
                 lowered: LoweredModule | None = None) -> Executable:
        """The executable for these devices, of which there is one, whether a call asks first or `lower().compile()`, which has
        lowered already."""
        key = (assignment, donated)
        found = traced.executables.get(key)
        if found is None:
            def make():
                if distributed.state.num_processes > 1 and lowered is None:
                    process_agreement.check_same(self.name, traced, assignment)
                consts = traced.closed.consts
                values = [module_shardings.inline_constant(c) for c in consts]
                program = self.program_key(traced, values, assignment, donated)
                equal = None if program is None else recent_programs.get(program)
                if equal is None:
                    compiled = (lowered or self.lower(traced, call, assignment, donated)).compile()
                    if program is not None and compiled.portable:
                        recent_programs.keep(program, compiled.twin(()))
                else:
                    compiled = equal.twin([place_constant(c, assignment) for c, value in zip(consts, values) if value is None])
                live_executables.add(compiled)
                traced.executables[key] = compiled
                return compiled

            found = self.caches.once.get((id(traced), key), lambda: traced.executables.get(key), make, traces=False)
        found.asked_for = True
        return found

    def program_key(self, traced: TracedCall, values: Sequence[Any], assignment: device_assignment.DeviceAssignment,
                    donated: tuple) -> tuple | None:
        """What its executable depends on, where equal programs may share one and nobody wants to hear of each."""
        options = self.options
        if (len(assignment.devices) > 1 or assignment.mesh is not None or any(donated)
                or options.in_shardings is not UNSPECIFIED or options.out_shardings is not UNSPECIFIED
                or layouts_in_use.others or is_watched() or config.dump_ir_to.value):
            return None
        clients.refuse_forked()
        program = identity(traced.closed.jaxpr, values)
        return None if program is None else (
            self.name, assignment, options.keep_unused, options.compiler_options, config.trace_context_key(), program)

    def place(self, traced: TracedCall, call: Call) -> device_assignment.DeviceAssignment:
        """Where the program runs and its arguments go."""
        assignment = device_assignment.place_arguments(
            self.name, call.leaves, self.flat_in_shardings(call.in_tree), traced, self.options)
        self.check_layouts(traced, call)
        return assignment

    def check_layouts(self, traced: TracedCall, call: Call) -> None:
        """Arrays that were put somewhere lie as they were asked to there: they are not laid out anew behind the user's back."""
        if self.options.in_shardings is UNSPECIFIED or not sharding_arguments.asks_for_layouts(self.options.in_shardings):
            return
        asked = self.flat_layouts(call.in_tree, traced.out_tree)
        for x, wanted, name in zip(call.leaves, asked[0] if asked else (), traced.debug_info.arg_names):
            if wanted is not None and type(x) is ArrayImpl and x._committed and not x.is_deleted():
                own = Layout.from_pjrt_layout(x._pjrt_layout)
                if wanted is Layout.AUTO or not wanted.fits(own):
                    raise ValueError(f"in_shardings of {self.name} has the layout {wanted} for its argument {name}, which does "
                                     f"not match the layout that the array lies in, {own}. Bring it there with "
                                     f"device_put(x, Format(layout, sharding)), or ask for what it has, x.format.")

    def lower(self, traced: TracedCall, call: Call, assignment, donated,
              elsewhere: tuple[str, ...] | None = None, self_contained: bool = False, own_rules=None) -> LoweredModule:
        """For the devices of `assignment`; or, to be read alone, for a platform that is not here or for several."""
        out_shardings = self.flat_out_shardings(traced.out_tree)
        device_assignment.check_results(self.name, out_shardings, traced)
        layouts = self.flat_layouts(call.in_tree, traced.out_tree)
        described = [x._layout if type(x) is ShapeDtypeStruct else None for x in call.leaves]
        if any(described):  # arrays that will come lie so
            asked, results = layouts or ([None] * len(described), [None] * len(traced.closed.out_avals))
            layouts = [own if wanted is None else wanted for wanted, own in zip(asked, described)], results
            layouts_in_use.others = True
        if layouts is None and layouts_in_use.others and _lays_out(traced.closed.jaxpr):
            layouts = [None] * len(traced.in_avals), [Layout.AUTO] * len(traced.closed.out_avals)
        elif layouts is not None:
            layouts = [[_of_words(layout, aval) for layout, aval in zip(*pair)] for pair in zip(
                layouts, (traced.in_avals, traced.closed.out_avals))]
        return LoweredModule(self.name, traced.closed, assignment, donated, out_shardings, self.options, traced, layouts,
                             elsewhere, self_contained, own_rules)

    def flat_layouts(self, in_tree, out_tree) -> tuple[list, list] | None:
        """The orders in memory that arguments and results were asked to have, where any were."""
        given = self.options.in_shardings, self.options.out_shardings
        if not any([sharding_arguments.asks_for_layouts(g) for g in given]):
            return None
        args, kwargs = tree.numbered(in_tree)
        found = []
        for g, full in zip(given, (args, tree.numbered(out_tree))):
            count = tree.structure(full).num_leaves
            found.append([None] * count if g is UNSPECIFIED else sharding_arguments.flatten_layouts(g, full))
        layouts_in_use.others = True
        return found[0] + [None] * tree.structure(kwargs).num_leaves, found[1]


def _moved(x, sharding):
    """A result where it was asked to be: among the devices of this process as it is, else by a program over all of them."""
    if sharding.is_fully_addressable and x.is_fully_addressable:
        return put(x, x.aval, sharding, True)
    return Jitted(_same, Options(out_shardings=sharding)).evaluate(x)[0]


def _of_words(layout, aval):
    """The order that was asked for, in memory: keys are rows of words there."""
    if not isinstance(layout, Layout):
        return layout
    layout.check_compatible_aval(aval.shape)
    return layout if isinstance(aval.dtype, np.dtype) else layout.of_rank(keys.physical(aval).ndim)


def _same(x):
    return x


@functools.cache
def _copier() -> Callable:
    jitted = Jitted(_same, Options(), "copy")
    return make_dispatcher(_same, jitted, jitted.cache_miss)


def own_copy(x: ArrayImpl) -> ArrayImpl:
    """An array that nobody else holds."""
    return _copier()(x)


# In front of it


def shard_arg_fallback(x, sharding, *rest):
    return put(keys.physical_array(x), keys.physical(tracing.aval_of(x)), sharding, True)


def make_dispatcher(fun: Callable, jitted: Jitted, cache_miss: Callable):
    """The C++ function object in front of `cache_miss`."""
    static = jitted.options.static
    # C++ finds functions by weak references, and ends the process where there can be none (named tuples, `__slots__`).
    referable = fun if type(fun).__weakrefoffset__ else functools.partial(fun)
    dispatcher = pjit(jitted.name, referable, cache_miss, list(static.nums), list(static.names), jitted.key,
                      tree.dispatch_registry, shard_arg_fallback, dispatch_cache)
    signatures.dress(dispatcher, fun)
    dispatcher._jitted, jitted.dispatcher = jitted, weakref.ref(dispatcher)
    return dispatcher


class Explaining:
    """What is in front of the dispatcher, for errors that C++ raises itself: unhashable and donated arguments. Hot."""

    __slots__ = ("_jitted", "_dispatcher", "_caches", "__dict__", "__weakref__")

    def __init__(self, dispatcher: Callable, jitted: Jitted):
        self._jitted, self._dispatcher, self._caches = jitted, dispatcher, jitted.caches
        signatures.dress(self, jitted.fun)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self):
        return repr(self._dispatcher)

    @property
    def __signature__(self):
        return signatures.signature_of(self._jitted.fun)

    def _cache_size(self) -> int:
        return self._dispatcher._cache_size()

    def __call__(self, *args, **kwargs):
        try:
            if self._caches.lets_go:
                return self._call_and_delete(args, kwargs)
            return self._dispatcher(*args, **kwargs)
        except ValueError as e:
            self._explain(e, args, kwargs)
            filter_traceback(e)
            raise
        except Exception as e:
            if "donated in the same call" in str(e):
                self._jitted.check_donated_once(self._split(args, kwargs))
            filter_traceback(e)
            raise

    def _call_and_delete(self, args, kwargs):
        leaves = tree.leaves((args, kwargs))
        if len(set(map(id, leaves))) < len(leaves):
            self._jitted.check_donated_once(self._split(args, kwargs))
        results = self._dispatcher(*args, **kwargs)
        let_go(leaves)
        return results

    def _split(self, args, kwargs) -> Call:
        return signatures.split_call(self._jitted.name, self._jitted.options.static, args, kwargs)

    def _explain(self, error: ValueError, args, kwargs) -> None:
        """Raise one with the argument's name for what C++ says of a static or a deleted argument."""
        jitted, text = self._jitted, str(error)
        if "static arguments" in text:
            signatures.check_statics(jitted.fun, jitted.name, jitted.options.static, args, kwargs)
        if "deleted or donated" in text and not isinstance(error, DeletedArrayError):
            call = self._split(args, kwargs)
            jitted.check_donated_once(call)  # some of its buffers may be gone by now
            raise jitted.explain_deleted(jitted.trace(call), call.leaves, error) from None


def leaves_handles(executable: Executable) -> bool:
    """Whether arrays that are donated to it must be deleted after the call."""
    return DONATED_ARRAYS_CRASH and any([sharding.num_devices > 1 for sharding in executable.in_shardings])


def function_of(jitted: Jitted) -> Callable:
    """What users call."""
    jitted.of_user = True
    return in_front_of(jitted)


def in_front_of(jitted: Jitted) -> Callable:
    """The C++ function object, behind what explains errors of its own where it can make some."""
    dispatcher = make_dispatcher(jitted.fun, jitted, jitted.cache_miss)
    return Explaining(dispatcher, jitted) if jitted.options.static or jitted.options.donate else dispatcher


# The primitive


_SMALL = 32  # operations


def _gives_few_places(jaxpr: Jaxpr) -> bool:
    """Whether a small program returns zeros with something added at a few places, as the gradient of what reads an array does:
    written out, it is added to others there alone."""
    def find():
        made = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}

        def places(v) -> bool:
            eqn = made.get(v)
            if eqn is None:
                return False
            if eqn.primitive.calls_program:
                return _gives_few_places(eqn.params["jaxpr"].jaxpr)
            zeros = made.get(eqn.invars[0]) if eqn.primitive.name in ("dynamic_update_slice", "scatter_add") else None
            return (zeros is not None and zeros.primitive.name == "broadcast_in_dim" and zeros.invars[0].is_literal
                    and not np.any(zeros.invars[0].val))

        return len(jaxpr.eqns) <= _SMALL and any([not v.is_literal and places(v) for v in jaxpr.outvars])

    return jaxpr.memoised(("few places",), find)


def _jit_lower(ctx, *operands, jaxpr, name, inline, in_shardings, out_shardings, **_):
    operands = module_shardings.constrain(ctx, operands, jaxpr.in_avals, in_shardings)
    inline = inline or _gives_few_places(jaxpr.jaxpr)
    results = ctx.inline(jaxpr, operands) if inline else ctx.called(f"jit({name})").call(jaxpr, operands, name)
    return module_shardings.constrain(ctx, results, jaxpr.out_avals, out_shardings)


def _jit_impl(*args, jaxpr, name, in_shardings, out_shardings, **params):
    """Evaluating a program that contains calls: each is compiled once, as when it was first called."""
    options = params.pop("compiler_options_kvs", ())
    donated = tuple([i for i, flag in enumerate(params["donated_invars"]) if flag])
    free = all([s is UNSPECIFIED for s in (*in_shardings, *out_shardings)])

    def make():
        def run(*xs):
            if free:
                return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *xs)
            return jit_p.bind(*xs, jaxpr=jaxpr, name=name, in_shardings=in_shardings, out_shardings=out_shardings, **params)

        return in_front_of(Jitted(run, Options(donate=Selection(donated), compiler_options=options), name, once=True))

    # `run` holds the constants.
    key = ("compiled call", options, donated, () if free else (in_shardings, out_shardings), *map(id, jaxpr.consts))
    return jaxpr.jaxpr.memoised(key, make)(*args)


class _JitCall(ProgramCall):
    """A call of a jitted function: operands and results have shardings, and operands may be donated."""

    __slots__ = ()
    calls_program = True

    def result_types(self, avals, params):
        if params.get("compiler_options_kvs"):
            options = dict(params["compiler_options_kvs"])
            raise ValueError(f"{params['name']} was jitted with compiler_options {options}, and called inside of another "
                             f"program, which is compiled as one: options are for a top-level jit. Give them to that.")
        return super().result_types(avals, params)

    def derived(self, params, program, ins, outs):
        """Nothing is donated: what is made of a call may need its operands again."""
        shardings, unspecified = (*params["in_shardings"], *params["out_shardings"]), UNSPECIFIED
        return params | {
            "jaxpr": program, "donated_invars": (False,) * len(ins), "in_layouts": (None,) * len(ins),
            "out_layouts": (None,) * len(outs),
            "in_shardings": tuple([unspecified if p is None else shardings[p] for p in ins]),
            "out_shardings": tuple([unspecified if p is None else shardings[p] for p in outs])}

    def of_values(self, params, program, ins, outs, read_later=()):
        """Arguments are given up as in the call itself, but for those that are read again."""
        donated = params["donated_invars"]
        return self.derived(params, program, ins, outs) | {
            "donated_invars": tuple([donated[i] and i not in read_later for i in ins])}

    def pruned(self, params, program, ins, outs):
        donated = params["donated_invars"]
        return self.derived(params, program, ins, outs) | {"donated_invars": tuple([donated[i] for i in ins])}

    def batched(self, params, program, dims, out_dims, spread_over):
        def on_batches(shardings, where):
            return tuple([s if d is None else sharding_arguments.of_batches(s, d, spread_over)
                          for s, d in zip(shardings, where)])

        return params | {"jaxpr": program, "in_shardings": on_batches(params["in_shardings"], dims),
                         "out_shardings": on_batches(params["out_shardings"], out_dims)}

    @staticmethod
    def changes_groups(*, jaxpr, in_shardings, out_shardings, **_):
        """With shardings of its own it has devices of its own."""
        return all([s is UNSPECIFIED for s in (*in_shardings, *out_shardings)]) and process_agreement.changes_groups(
            jaxpr.jaxpr)


jit_p = _JitCall("jit", lower=_jit_lower, impl=_jit_impl)
