"""From a traced function to an executable: what is read, devices and shardings, the module, the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront import lowering
from xlafront.core import backends, dtypes, keys, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, Jaxpr, dce_jaxpr
from xlafront.runtime import config
from xlafront.runtime.clients import clients
from xlafront.runtime.compile import CompileRequest, compile_module, explain_options, tell_of_equal
from xlafront.runtime.compile_options import (
    compile_options,
    for_few_kernels,
    for_products_of_bytes,
    for_small_programs,
    for_wide_loops,
)
from xlafront.runtime.disk_cache import cache_key
from xlafront.runtime.jaxlib_compat import HAS_TWO_EMITTERS, JaxRuntimeError
from xlafront.runtime.topologies import is_compile_only
from xlafront.staging import module_shardings, small_programs
from xlafront.staging.caches import executables_by_key, recent_executables
from xlafront.staging.compile_log import COMPILATION, CONVERSION, logged_step, note
from xlafront.staging.device_assignment import DeviceAssignment
from xlafront.staging.dumps import dump
from xlafront.staging.executable import Executable
from xlafront.staging.moves import put
from xlafront.staging.outlining import outline, without_inlined_calls


def run_executable(executable: Executable, leaves: Sequence[Any], out_avals: Sequence[Any]) -> list[Any]:
    """Call a compiled program; key arrays go in and come out as their words."""
    results = executable([keys.physical_array(x) for x in leaves])
    return [keys.wrap(x, aval) for x, aval in zip(results, out_avals)]


def constants_as_arguments(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program with its constants as leading arguments, so that equations carry no values."""
    if not closed.consts:
        return closed, []
    jaxpr = closed.jaxpr
    return jaxpr.memoised(("constants as arguments",), lambda: ClosedJaxpr(
        jaxpr.with_constants_as_inputs(), [])), closed.consts


def _warn_of_large(constants: Sequence[Any], name: str, closed: ClosedJaxpr) -> None:
    """Warn of a program that captured more than `captured_constants_warn_bytes`."""
    limit = config.captured_constants_warn_bytes.value
    if limit is None or limit < 0:
        return
    total = sum([getattr(c, "nbytes", 0) for c in constants])
    if total > limit:
        import warnings

        ordered = sorted(constants, key=lambda c: getattr(c, "nbytes", 0), reverse=True)
        largest, where = ordered[0], ""
        if config.captured_constants_report_frames.value:
            where = "".join([f"\n  {tracing.aval_of(c)}, {c.nbytes} bytes, first read {_first_reader(closed, c)}"
                             for c in ordered[:10] if hasattr(c, "nbytes")])
        warnings.warn(f"{name} captured a large amount of constants during lowering: {total} bytes of arrays that it closes "
                      f"over, of which {tracing.aval_of(largest)} is the largest. Pass them as arguments, or set "
                      f"captured_constants_warn_bytes (JAX_CAPTURED_CONSTANTS_WARN_BYTES) to -1.{where}", stacklevel=2)


def _first_reader(closed: ClosedJaxpr, constant: Any) -> str:
    """Which operation reads a constant first, and where it is written."""
    variables = [v for v, c in zip(closed.jaxpr.constvars, closed.consts) if c is constant]
    for eqn in closed.jaxpr.eqns:
        if any([v in variables for v in eqn.invars]):
            return f"by {eqn.primitive.shown_as} at {eqn.source_info}"
    return "by nothing: it is a result"


def place_constant(value: Any, assignment: DeviceAssignment) -> Any:
    if is_compile_only(assignment.devices[0].client):
        return None  # the program will not run
    return put(keys.physical_array(value), keys.physical(tracing.aval_of(value)), assignment.replicated(), True)


class LoweredModule:
    """A program on its way from IR to executable: the module and what the call will need."""

    def __init__(self, name, closed, assignment, donated, out_shardings, options, traced, layouts=None, elsewhere=None,
                 self_contained=False, own_rules=None):
        note("Compiling jit(%s) for %s.", name, traced.in_avals)
        self.self_contained = self_contained  # whether it is to leave the process: nothing is handed to it beside its arguments
        self.own_rules = own_rules
        with logged_step(CONVERSION, name, traced.in_avals):
            tracing.without_full_collections(
                self._lower, name, closed, assignment, donated, out_shardings, options, traced, layouts, elsewhere)

    def _lower(self, name, closed, assignment, donated, out_shardings, options, traced, layouts, elsewhere):
        closed, _ = discharge_program(closed)
        jaxpr = closed.jaxpr
        self.name, self.closed, self.assignment, self.options, self.traced = name, closed, assignment, options, traced
        computes_sizes = _has_symbolic(jaxpr.in_avals)  # from those of all arguments
        if not computes_sizes and _has_symbolic(jaxpr.out_avals):
            raise ValueError(f"{name} was given symbolic dimensions outside of a program that is exported, and its results "
                             f"would have the types {jaxpr.out_avals}: their sizes have no values. Call it in the function to "
                             f"export.")
        kept_jaxpr, self.kept = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars),
                                          options.keep_unused or bool(jaxpr.effects) or computes_sizes)
        kept_jaxpr = without_inlined_calls(kept_jaxpr)
        if elsewhere is None and not computes_sizes and _may_outline(assignment, kept_jaxpr):
            kept_jaxpr = outline(kept_jaxpr)
        inline = module_shardings.value_of_constant if self.self_contained else module_shardings.inline_constant
        self.const_values = [inline(c) for c in closed.consts]
        self.donated = donated
        self.client = assignment.devices[0].client
        self.elsewhere = elsewhere  # several platforms, or one that this process does not have
        hoisted = [c for c, value in zip(closed.consts, self.const_values) if value is None]
        _warn_of_large(hoisted, name, closed)
        self.const_args = [place_constant(c, assignment) for c in hoisted]
        self.shardings = module_shardings.ProgramShardings(assignment, out_shardings, self.kept, len(hoisted), jaxpr)
        arg_attributes = module_shardings.argument_attributes(
            kept_jaxpr, self.kept, donated, [tracing.aval_of(c) for c in hoisted], self.shardings, name, traced)
        self.layouts = layouts
        if layouts is not None:
            asked = [None] * len(hoisted) + [layout for layout, keep in zip(layouts[0], self.kept) if keep]
            arg_attributes = module_shardings.layout_attributes(arg_attributes, asked)
        self.module_context = self._write_module(kept_jaxpr, name, arg_attributes)
        self.shardings.declare_meshes(self.module_context)

    def _write_module(self, kept_jaxpr, name, arg_attributes):
        result_attributes = self.shardings.result_attributes()
        if self.layouts is not None:
            result_attributes = module_shardings.layout_attributes(result_attributes, self.layouts[1])
        return lowering.programs.lower_program(
            kept_jaxpr, f"jit_{name}", self.elsewhere or (backends.lowering_platform(self.client),),
            const_values=self.const_values, arg_attributes=arg_attributes,
            result_attributes=result_attributes, num_partitions=len(self.assignment.devices),
            sharding_context=self.shardings, scope=f"jit({name})", takes_tokens=self.self_contained, own_rules=self.own_rules,
            argument_names=[str(n) for n, keep in zip(self.traced.debug_info.arg_names, self.kept) if keep])

    def compile(self, compiler_options: dict | None = None, anew: bool = False) -> Executable:
        """The executable; `anew` without looking for an equal program, here or on disk."""
        self._check_compilable()
        overrides = dict(self.options.compiler_options) | (compiler_options or {})
        options = self._options(overrides)
        context, devices = self.module_context, self.assignment.devices
        dump(self.name, self.closed.jaxpr, context.module)
        key = None
        if context.cacheable and not context.host_callbacks:
            program = lowering.written.stripped_bytecode(context.module)
            key = cache_key(program, options.SerializeAsString(), self.client, devices)
        clients.refuse_forked()  # (an equal program of the parent's would be found, and wait for ever)
        equal = None if anew or key is None else _equal_program(key)
        try:
            with logged_step(COMPILATION, self.name, self.traced.in_avals):
                if equal is not None:
                    tell_of_equal(backends.disk_cache())
                loaded, from_disk = equal if equal is not None else compile_module(
                    CompileRequest(context.module, self.client, devices, options, context.host_callbacks, key),
                    None if anew else backends.disk_cache())
        except Exception as e:
            for partitioner in context.partitioners:
                if (failure := partitioner.take_failure()) is not None:
                    raise failure from None
            raise explain_options(self.name, overrides, e) from e
        for item in context.keepalives:
            if not isinstance(item, Jaxpr) and not is_compile_only(self.client):
                loaded.keep_alive(item)
        out_avals = [keys.physical(aval) for aval in self.closed.out_avals]
        results = self.shardings.results(loaded, out_avals)
        fitting = [module_shardings.evenly(s, aval) for s, aval in zip(results, out_avals)]
        if any([s is not fit for s, fit in zip(results, fitting)]):  # a constraint inside divides a result unevenly
            outs = [given if s is fit else fit for given, s, fit in zip(self.shardings.asked, results, fitting)]
            return LoweredModule(self.name, self.closed, self.assignment, self.donated, outs, self.options, self.traced,
                                 self.layouts).compile(compiler_options, anew)
        result = Executable(
            loaded, in_avals=[keys.physical(aval) for aval in self.traced.in_avals], in_shardings=self.assignment.shardings,
            out_avals=out_avals, out_shardings=results,
            out_committed=self.assignment.committed, kept=self.kept, const_args=self.const_args, effects=self.closed.effects,
            own_layouts=self.layouts is not None, portable=key is not None,
            from_disk=from_disk, callback_failures=context.callback_failures)
        if key is not None and not anew:
            executables_by_key[key] = result
            if key not in recent_executables and not result.const_args and len(self.closed.jaxpr.eqns) <= _OPERATIONS:
                recent_executables.keep(key, (loaded, from_disk))
        return result

    def _check_compilable(self) -> None:
        """Raise for a module that can only be read: one for another machine, of unknown sizes, of types without arrays."""
        if self.elsewhere is not None:
            if len(self.elsewhere) > 1:
                raise ValueError(f"{self.name} was lowered for the platforms {', '.join(self.elsewhere)} at once: its text can "
                                 f"be read. To compile it, lower it for one.")
            raise ValueError(f"{self.name} was lowered for {self.elsewhere[0]}, which this process does not have: its text can "
                             f"be read. To compile it, give types whose shardings are over the devices of a topology "
                             f"(experimental.topologies).")
        if names := self.module_context.dimension_variables:
            raise ValueError(f"{self.name} was lowered for symbolic dimensions ({', '.join(names)}): its text can be read. To "
                             f"run it, export it: export.export(jit(f))(...).call(x).")
        for aval in self.closed.out_avals:
            if isinstance(aval, ShapedArray) and aval.dtype in dtypes.within_programs:
                raise JaxRuntimeError(f"INVALID_ARGUMENT: {self.name} would return an array of {aval.dtype}, of which XLA "
                                      "makes none: numbers of this type live within programs. Convert it, as in "
                                      "x.astype('float8_e4m3fn').")

    def _options(self, overrides: dict):
        """XLA's options for this program, by what is in it; those of `overrides` are the user's."""
        if HAS_TWO_EMITTERS and _on_one_cpu(self.assignment):
            jaxpr = self.closed.jaxpr
            if small_programs.is_small(jaxpr, any(self.donated)):
                overrides = for_small_programs(overrides)
            elif small_programs.has_few_kernels(jaxpr):
                overrides = for_few_kernels(overrides)
        if self.module_context.draws:
            overrides = for_wide_loops(overrides)
        if self.module_context.multiplies_bytes:
            overrides = for_products_of_bytes(overrides)
        options = compile_options(len(self.assignment.devices), self.assignment.devices, overrides)
        self.shardings.adjust(options)
        return options


_OPERATIONS = 100  # of a program that is kept for equal ones


def _has_symbolic(types: Sequence[Any]) -> bool:
    return any([is_symbolic(aval.shape) for aval in types if isinstance(aval, ShapedArray)])


def _equal_program(key: str) -> tuple[Any, bool] | None:
    """What XLA made of an equal program, and whether it is from the disk."""
    known = executables_by_key.get(key)
    return recent_executables.get(key) if known is None else (known.loaded, known.from_disk)


def _on_one_cpu(assignment) -> bool:
    return len(assignment.devices) == 1 and assignment.devices[0].platform == "cpu"


def _may_outline(assignment, jaxpr: Jaxpr) -> bool:
    """Whether repeated layers may be kept: where that has been measured to be better, on one CPU device."""
    return _on_one_cpu(assignment) and len(jaxpr.eqns) >= 8
