"""From a `CompileJob` to an executable.

`compile_job` finds an equal program that is already compiled, or runs the passes (`staging/passes.py`), lowers the program to a
module and calls the compiler.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from xlafront import lowering, tuning
from xlafront.base import config
from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.base.layouts import use as layouts_in_use
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.jaxpr import Jaxpr, operation_count
from xlafront.core.program_key import append_values, program_key
from xlafront.runtime import backends, distributed, keys
from xlafront.runtime.clients import clients, is_compile_only
from xlafront.runtime.compile import CompiledModule, CompileRequest, compile_module, explain_options, report_equal_program
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.disk_cache import cache_key
from xlafront.staging import module_shardings, process_agreement
from xlafront.staging.array_transfers import put
from xlafront.staging.caches import executables_by_jaxpr, executables_by_key, live_executables, recent_executables
from xlafront.staging.compile_log import COMPILATION, CONVERSION, is_watched, logged_step, note
from xlafront.staging.compile_progress import compile_progress
from xlafront.staging.device_assignment import DeviceAssignment
from xlafront.staging.dumps import dump
from xlafront.staging.executable import Executable
from xlafront.staging.passes import CompileJob, has_symbolic_shapes, run_passes

_MOST_OPERATIONS = 100  # of a program whose executable stays in `recent_executables`
_FEWEST_OPERATIONS = 20  # of a program that is compiled in tiers: smaller ones are compiled in some milliseconds


def compile_job(job: CompileJob, lowered: LoweredModule | None = None) -> Executable:
    """Return the executable of a job, shared with an equal program if there is one; `lowered` is the job's module, if made."""
    if distributed.state.num_processes > 1 and lowered is None:
        process_agreement.check_same(job.name, job.traced, job.assignment)
    consts = job.traced.closed.consts
    inlined = [module_shardings.inline_constant(c) for c in consts]
    key = _equality_key(job, inlined)
    equal = None if key is None else executables_by_jaxpr.get(key)
    if equal is not None:
        executable = equal.with_constants([
            place_constant(c, job.assignment) for c, value in zip(consts, inlined) if value is None])
    else:
        executable = (lowered or LoweredModule(job, in_tiers=config.tiered_compilation.value)).compile()
        if key is not None and executable.portable:
            executables_by_jaxpr.put(key, executable.with_constants(()))
    live_executables.add(executable)
    return executable


def _equality_key(job: CompileJob, inlined: Sequence[Any]) -> tuple | None:
    """Return a key of what the executable depends on; None where programs are not shared, or each compilation is observed."""
    if (len(job.assignment.devices) > 1 or job.assignment.mesh is not None or any(job.donated) or job.options.has_shardings
            or layouts_in_use.others or is_watched() or config.dump_ir_to.value):
        return None
    clients.refuse_forked()
    program = program_key(job.traced.closed.structure)
    key = [job.name, job.assignment, job.options.keep_unused, job.options.compiler_options, config.trace_context_key(), program]
    return tuple(key) if program is not None and append_values(inlined, key) else None


class LoweredModule:
    """The StableHLO module of a job, and what a call of the executable needs beside it.

    With `in_tiers`, its executable may be one that was compiled quickly, which another will replace (`runtime/tiers.py`).
    """

    def __init__(self, job: CompileJob, in_tiers: bool = False):
        self.in_tiers = in_tiers
        note("Compiling jit(%s) for %s.", job.name, job.traced.in_avals)
        self.job, self.name, self.assignment = job, job.name, job.assignment
        with logged_step(CONVERSION, job.name, job.traced.in_avals):
            tracing.without_full_collections(self._lower)

    def _lower(self) -> None:
        job = self.job
        traced = job.traced.closed
        if not has_symbolic_shapes(traced.in_avals) and has_symbolic_shapes(traced.out_avals):
            raise ValueError(f"{job.name} was given symbolic dimensions outside of a program that is exported, and its results "
                             f"would have the types {traced.out_avals}: their sizes have no values. Call it in the function to "
                             f"export.")
        jaxpr, self.closed, self.live = run_passes(job)
        inline = module_shardings.value_of_constant if job.for_export else module_shardings.inline_constant
        const_values = [inline(c) for c in self.closed.consts]
        hoisted = [c for c, value in zip(self.closed.consts, const_values) if value is None]
        _warn_of_large(hoisted, job.name, self.closed)
        self.const_args = [place_constant(c, job.assignment) for c in hoisted]
        self.shardings = module_shardings.ProgramShardings(
            job.assignment, job.out_shardings, self.live, len(hoisted), self.closed.structure)
        arg_attributes = module_shardings.argument_attributes(
            jaxpr, self.live, job.donated, [tracing.aval_of(c) for c in hoisted], self.shardings, job.name)
        result_attributes = self.shardings.result_attributes()
        if job.layouts is not None:
            layouts = [None] * len(hoisted) + [layout for layout, live in zip(job.layouts[0], self.live) if live]
            arg_attributes = module_shardings.layout_attributes(arg_attributes, layouts)
            result_attributes = module_shardings.layout_attributes(result_attributes, job.layouts[1])
        options = lowering.programs.ModuleOptions(
            const_values, arg_attributes, result_attributes, num_partitions=len(job.assignment.devices),
            sharding_context=self.shardings, scope=f"jit({job.name})", rule_overrides=job.rule_overrides,
            argument_names=[str(n) for n, live in zip(job.traced.debug_info.arg_names, self.live) if live])
        self.module_context = lowering.programs.lower_program(jaxpr, f"jit_{job.name}", job.target, options)
        self.shardings.declare_meshes(self.module_context)

    def compile(self, compiler_options: dict | None = None, bypass_cache: bool = False) -> Executable:
        """Compile the module; with `bypass_cache`, without a look for an equal one in memory or on disk."""
        job, context = self.job, self.module_context
        self._check_compilable()
        overrides = dict(job.options.compiler_options) | (compiler_options or {})
        options = self._options(overrides)
        dump(job.name, self.closed.structure, context.module)
        key = None
        if context.cacheable and not context.host_callbacks:
            program = lowering.module_text.stripped_bytecode(context.module)
            key = cache_key(program, options.SerializeAsString(), job.client, job.assignment.devices)
        clients.refuse_forked()  # an equal program of the parent process would be found, and block forever
        try:
            found = self._load(options, key, bypass_cache)
        except Exception as e:
            for partitioner in context.partitioners:
                if (failure := partitioner.take_failure()) is not None:
                    raise failure from None
            if (explained := explain_options(job.name, overrides, e)) is e:
                raise
            raise explained from e
        if not is_compile_only(job.client):
            for item in self._keepalives():
                found.loaded.keep_alive(item)
        out_avals = [keys.physical(aval) for aval in self.closed.out_avals]
        results = self.shardings.results(found.loaded, out_avals)
        even = [module_shardings.evenly(s, aval) for s, aval in zip(results, out_avals)]
        if any([s is not fit for s, fit in zip(results, even)]):  # a constraint inside splits a result unevenly
            requested = [given if s is fit else fit for given, s, fit in zip(self.shardings.requested, results, even)]
            even_job = job._replace(out_shardings=tuple(requested))
            return LoweredModule(even_job, self.in_tiers).compile(compiler_options, bypass_cache)
        executable = Executable(
            found.loaded, in_avals=[keys.physical(aval) for aval in job.traced.in_avals], in_shardings=job.assignment.shardings,
            out_avals=out_avals, out_shardings=results, out_committed=job.assignment.committed, live=self.live,
            const_args=self.const_args, effects=self.closed.effects, own_layouts=job.layouts is not None,
            portable=key is not None, from_disk=found.from_disk, callback_failures=context.callback_failures,
            upgrade=found.upgrade)
        if key is not None and not bypass_cache:
            executables_by_key[key] = executable
            if key not in recent_executables and not executable.const_args and (
                    len(self.closed.eqns) <= _MOST_OPERATIONS):
                recent_executables.put(key, found)
        return executable

    def _load(self, options: Any, key: str | None, bypass_cache: bool) -> CompiledModule:
        """Return XLA's executable: that of an equal module, or a new one."""
        job, context = self.job, self.module_context
        equal = None if bypass_cache or key is None else _equal_executable(key)
        with logged_step(COMPILATION, job.name, job.traced.in_avals) as step:
            if equal is not None:
                report_equal_program(backends.disk_cache())
                step.from_cache = True
                return equal
            request = CompileRequest(context.module, job.client, job.assignment.devices, options, context.host_callbacks, key)
            cache = None if bypass_cache else backends.disk_cache()
            with compile_progress(job.name, self.closed.structure) as progress:
                request = request._replace(is_interruptible=progress.is_shown)
                found = self._compile_in_tiers(request, cache) if self.in_tiers else compile_module(request, cache)
                step.from_cache = progress.from_cache = found.from_disk
            return found

    def _compile_in_tiers(self, request: CompileRequest, cache: Any) -> CompiledModule:
        from xlafront.runtime import tiers  # start-up: with the setting tiered_compilation

        is_large = operation_count(self.closed.structure) >= _FEWEST_OPERATIONS
        if is_large and tiers.applies(request, self._keepalives()):
            return tiers.compile_in_tiers(self.name, request, cache)
        return compile_module(request, cache)

    def _keepalives(self) -> list[Any]:
        """Return what must live as long as the executable; jaxprs need to live as long as the module only."""
        return [item for item in self.module_context.keepalives if not isinstance(item, Jaxpr)]

    def _check_compilable(self) -> None:
        """Raise for a module that can only be read: for absent platforms, symbolic sizes, or results that are no arrays."""
        name, platforms = self.name, self.job.lowering_platforms
        if platforms is not None:
            if len(platforms) > 1:
                raise ValueError(f"{name} was lowered for the platforms {', '.join(platforms)} at once: its text can be read. "
                                 f"To compile it, lower it for one.")
            raise ValueError(f"{name} was lowered for {platforms[0]}, which this process does not have: its text can be read. "
                             f"To compile it, give types whose shardings are over the devices of a topology "
                             f"(experimental.topologies).")
        if names := self.module_context.dimension_variables:
            raise ValueError(f"{name} was lowered for symbolic dimensions ({', '.join(names)}): its text can be read. To run "
                             f"it, export it: export.export(jit(f))(...).call(x).")
        for aval in self.closed.out_avals:
            if isinstance(aval, ShapedArray) and aval.dtype in dtypes.within_programs:
                raise JaxRuntimeError(f"INVALID_ARGUMENT: {name} would return an array of {aval.dtype}, which XLA supports "
                                      "within programs only. Convert it, as in x.astype('float8_e4m3fn').")
        needed, reason = self.module_context.capability
        device = self.assignment.devices[0]
        available = getattr(device, "compute_capability", None)
        if available is not None and tuple(map(int, available.split("."))) < needed:
            raise NotImplementedError(f"{reason}: {device.device_kind} has {available}.")

    def _options(self, overrides: dict):
        """Return XLA's options for this program; `overrides`, the user's, take precedence."""
        job, devices = self.job, self.assignment.devices
        overrides = tuning.tuned_options(
            overrides, self.closed.structure, any(job.donated), job.is_on_one_cpu, self.module_context.tuning)
        options = tuning.without_unrolling(compile_options(len(devices), devices, overrides), overrides)
        self.shardings.adjust(options)
        return options


def _equal_executable(key: str) -> CompiledModule | None:
    """Return XLA's executable of an equal module; None if there is none."""
    known = executables_by_key.get(key)
    return recent_executables.get(key) if known is None else CompiledModule(known.loaded, known.from_disk, known.upgrade)


# Constants


def constants_as_arguments(closed: Jaxpr) -> tuple[Jaxpr, list[Any]]:
    """Return the program with its constants as leading arguments, so that equations hold no values, and the constants."""
    if not closed.consts:
        return closed, []
    jaxpr = closed.structure
    return jaxpr.memoised(("constants as arguments",), jaxpr.with_constants_as_inputs), closed.consts


def place_constant(value: Any, assignment: DeviceAssignment) -> Any:
    """Transfer a constant to the devices of a program; None if the program can only be compiled."""
    if is_compile_only(assignment.devices[0].client):
        return None
    return put(keys.physical_array(value), keys.physical(tracing.aval_of(value)), assignment.replicated(), True)


def _warn_of_large(constants: Sequence[Any], name: str, closed: Jaxpr) -> None:
    """Warn of a program that captures more than `captured_constants_warn_bytes`."""
    limit = config.captured_constants_warn_bytes.value
    if limit is None or limit < 0:
        return
    total = sum([getattr(c, "nbytes", 0) for c in constants])
    if total > limit:
        ordered = sorted(constants, key=lambda c: getattr(c, "nbytes", 0), reverse=True)
        largest, where = ordered[0], ""
        if config.captured_constants_report_frames.value:
            where = "".join([f"\n  {tracing.aval_of(c)}, {c.nbytes} bytes, first read {_first_reader(closed, c)}"
                             for c in ordered[:10] if hasattr(c, "nbytes")])
        warnings.warn(f"{name} captured a large amount of constants during lowering: {total} bytes of arrays that it closes "
                      f"over, of which {tracing.aval_of(largest)} is the largest. Pass them as arguments, or set "
                      f"captured_constants_warn_bytes (JAX_CAPTURED_CONSTANTS_WARN_BYTES) to -1.{where}", stacklevel=2)


def _first_reader(closed: Jaxpr, constant: Any) -> str:
    """Describe the first operation that reads a constant, with its source line."""
    variables = [v for v, c in zip(closed.constvars, closed.consts) if c is constant]
    for eqn in closed.eqns:
        if any([v in variables for v in eqn.invars]):
            return f"by {eqn.primitive.shown_as} at {eqn.source_info}"
    return "by nothing: it is a result"
