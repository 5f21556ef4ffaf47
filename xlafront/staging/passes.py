"""The passes over a program before it is lowered, in order (`PASSES`), and the job that they are part of.

Each is a function `(program, job) -> program`. Composite values within a program (`core/composite_lowering.py`) are lowered
before these, by `TracedCall.without_composites`: placement depends on the operations inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront import lowering
from xlafront.core.avals import ShapedArray
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import Jaxpr, dce_jaxpr
from xlafront.runtime import backends
from xlafront.staging.call_tracing import TracedCall
from xlafront.staging.device_assignment import DeviceAssignment
from xlafront.staging.outlining import outline, without_inlined_calls
from xlafront.staging.signatures import Options
from xlafront.symbolic.dimensions import is_symbolic


class CompileJob(NamedTuple):
    """A traced program, the devices it is compiled for, and what is requested of its arguments and results."""

    name: str
    traced: TracedCall
    assignment: DeviceAssignment
    donated: tuple[bool, ...]  # by argument
    out_shardings: tuple  # by result; UNSPECIFIED where the compiler chooses
    options: Options
    layouts: tuple[list, list] | None = None  # of arguments and results; None if all are the default one
    # Platforms of a module that is only read or exported: several, or one that this process does not have.
    lowering_platforms: tuple[str, ...] | None = None
    for_export: bool = False  # the module must hold all that it needs beside its arguments
    rule_overrides: dict[Any, Callable] | None = None  # lowering rules by primitive, in place of those of the records

    @property
    def client(self) -> Any:
        return self.assignment.devices[0].client

    @property
    def target(self) -> Any:
        """The `lowering.module.Target` of the module."""
        platforms = self.lowering_platforms or (backends.lowering_platform(self.client),)
        return lowering.module.Target(platforms, self.for_export)

    @property
    def is_on_one_cpu(self) -> bool:
        devices = self.assignment.devices
        return len(devices) == 1 and devices[0].platform == "cpu"


class Program(NamedTuple):
    """A program on its way through the passes."""

    jaxpr: Jaxpr  # with the constants of `complete`
    complete: Jaxpr  # before pruning: all arguments, all equations
    live: Sequence[bool]  # by argument of `complete`: `jaxpr` takes it


def discharge_references(program: Program, job: CompileJob) -> Program:
    """Replace references that the program makes by the arrays that they hold."""
    closed, _ = discharge_program(program.complete)
    return Program(closed.structure, closed, program.live)


def prune_unused(program: Program, job: CompileJob) -> Program:
    """Drop equations and arguments that no result depends on.

    Arguments stay with `keep_unused`, in programs with effects, and where sizes are computed from them.
    """
    jaxpr = program.jaxpr
    keeps_arguments = job.options.keep_unused or bool(jaxpr.effects) or has_symbolic_shapes(jaxpr.in_avals)
    pruned, live = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), keeps_arguments)
    return program._replace(jaxpr=pruned, live=live)


def inline_library_calls(program: Program, job: CompileJob) -> Program:
    """Replace calls of library functions (`inline=True`) by their equations."""
    return program._replace(jaxpr=without_inlined_calls(program.jaxpr))


def outline_repeats(program: Program, job: CompileJob) -> Program:
    """Replace repeated stretches of equations (layers) by calls of one function, which XLA compiles once."""
    return program._replace(jaxpr=outline(program.jaxpr)) if benefits_from_outlining(program, job) else program


def benefits_from_outlining(program: Program, job: CompileJob) -> bool:
    """True if repeats are worth outlining: measured for programs on one CPU device."""
    return (job.is_on_one_cpu and job.lowering_platforms is None and len(program.jaxpr.eqns) >= 8
            and not has_symbolic_shapes(program.complete.in_avals))


PASSES: tuple[Callable[[Program, CompileJob], Program], ...] = (
    discharge_references,
    prune_unused,
    inline_library_calls,
    outline_repeats,
)


def run_passes(job: CompileJob) -> Program:
    """Return the program of a job as it is lowered."""
    closed = job.traced.closed
    program = Program(closed.structure, closed, (True,) * len(closed.invars))
    for run_pass in PASSES:
        program = run_pass(program, job)
    return program


def has_symbolic_shapes(types: Sequence[Any]) -> bool:
    return any([is_symbolic(aval.shape) for aval in types if isinstance(aval, ShapedArray)])
