"""Interpretation of kernels whose vector subcores wait for each other, or change numbers in each other's memory.

An interpreted kernel runs on one subcore after the other. `in_phases` rewrites it to a kernel that runs once for all subcores
of a core: a loop over the subcores for each phase, which ends at a barrier. The memory that each subcore has for itself is
saved in an array of that of all subcores, and so are the values that later phases use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.scan import scan
from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.jaxpr import subprograms
from xlafront.core.refs import AbstractRef
from xlafront.lax import refs as ref_operations
from xlafront.pallas.findings import line_of
from xlafront.pallas.grid_mapping import GridMapping
from xlafront.pallas.kernel_evaluation import KernelEvaluator, values_in
from xlafront.pallas.primitives import num_programs_p, program_id_p
from xlafront.pallas.tpu import SMEM, VMEM

_SUBCORE_AXIS = 1  # of the grid that kernels on vector subcores see


def in_phases(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    """Return the kernel that runs once for all subcores of a core, and its grid; other kernels are returned as they are."""
    if not _communicates(jaxpr):
        return jaxpr, mapping
    return jaxpr.memoised_with((), ("in phases", mapping), lambda: _rewritten(jaxpr, mapping))


def _rewritten(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    axis = mapping.kernel_axes[_SUBCORE_AXIS]
    subcores = _Subcores(jaxpr, mapping.num_scratch_operands, mapping.grid[axis])
    traced, consts = tracing.trace_to_jaxpr(
        subcores.run, [*[v.aval for v in jaxpr.invars], *subcores.saved_avals], jaxpr.debug_info.with_unknown_names())
    grid = (*mapping.grid[:axis], 1, *mapping.grid[axis + 1:])
    return traced.with_consts(consts), dataclasses.replace(
        mapping, grid=grid, scratch_avals=(*mapping.scratch_avals, *subcores.saved_avals), derived={})


def _communicates(jaxpr: Jaxpr) -> bool:
    """True if subcores wait for each other or change each other's memory."""
    return any([eqn.params["num_subcores"] > 1 if eqn.primitive.name in ("subcore_barrier", "fetch_and_add")
                else any(map(_communicates, subprograms(eqn.params))) for eqn in jaxpr.eqns])


def _is_of_core(eqn: JaxprEqn) -> bool:
    """True for the position of the core, which is read at the top level of a kernel."""
    return eqn.primitive in (program_id_p, num_programs_p) and eqn.params["axis"] != _SUBCORE_AXIS


class _Subcores(KernelEvaluator):
    """The rewriting of a kernel.

    Args:
        jaxpr: The kernel.
        num_scratch: Number of its references to scratch memory, which are the last.
        count: Number of subcores.
    """

    def __init__(self, jaxpr: Jaxpr, num_scratch: int, count: int) -> None:
        self.jaxpr, self.count = jaxpr, count
        numbered = list(enumerate([v.aval for v in jaxpr.invars]))[len(jaxpr.invars) - num_scratch:]
        self.own = [i for i, a in numbered if a.memory_space in (SMEM, VMEM) or getattr(a.memory_space, "zeroed", False)]
        self.saved_avals = [AbstractRef(ShapedArray((count, *a.shape), a.dtype), a.memory_space)
                            for i, a in numbered if i in self.own]

    def run(self, *refs: Any) -> list[Any]:
        """Run the kernel on its references, followed by those to the memory of all subcores."""
        arguments, saved = refs[:len(self.jaxpr.invars)], refs[len(self.jaxpr.invars):]
        self.memory = [(arguments[i], x) for i, x in zip(self.own, saved)]
        shared = dict(zip(self.jaxpr.constvars, self.jaxpr.consts)) | dict(zip(self.jaxpr.invars, arguments))
        self.evaluate_equations([eqn for eqn in self.jaxpr.eqns if _is_of_core(eqn)], shared)
        of_subcores: dict[Any, Any] = {}  # values by variable, with a first dimension for the subcore
        phases = self._phases()
        for k, eqns in enumerate(phases):
            used = {v for eqn in eqns for v in eqn.invars if not v.is_literal}
            later = {v for after in phases[k + 1:] for eqn in after for v in eqn.invars if not v.is_literal}
            results = [v for eqn in eqns for v in eqn.outvars if v in later]
            self._check_values(eqns)
            given = [v for v in of_subcores if v in used]

            def on_subcore(_: Any, row: list[Any], eqns=eqns, results=results, given=given) -> tuple[Any, list[Any]]:
                self.subcore, *values = row
                env = shared | dict(zip(given, values))
                self._load(self.subcore)
                self.evaluate_equations(eqns, env)
                self._save(self.subcore)
                return None, values_in(env, results)

            _, stacked = scan(on_subcore, None, [xnp.arange(self.count, dtype=np.int32), *[of_subcores[v] for v in given]])
            of_subcores.update(zip(results, stacked))
        return []

    def _phases(self) -> list[list[JaxprEqn]]:
        """Return the equations between barriers."""
        phases: list[list[JaxprEqn]] = [[]]
        for eqn in self.jaxpr.eqns:
            if eqn.primitive.name == "subcore_barrier":
                phases.append([])
            elif not _is_of_core(eqn):
                phases[-1].append(eqn)
        return phases

    def _check_values(self, eqns: Sequence[JaxprEqn]) -> None:
        for eqn in eqns:
            if eqn.primitive.name == "empty_ref":
                raise NotImplementedError(f"the kernel allocates memory {line_of(eqn)}, and has a subcore_barrier or "
                                          f"fetch_and_add, which is not interpreted. Use scratch_types of pl.kernel.")

    def _load(self, subcore: Any) -> None:
        for ref, saved in self.memory:
            ref_operations.set(ref, ..., saved[subcore])

    def _save(self, subcore: Any) -> None:
        for ref, saved in self.memory:
            saved[subcore] = ref_operations.get(ref)

    def results(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        """Return the results of an equation on the current subcore."""
        if eqn.primitive is program_id_p and eqn.params["axis"] == _SUBCORE_AXIS:
            return [self.subcore]
        if eqn.primitive is num_programs_p and eqn.params["axis"] == _SUBCORE_AXIS:
            return [np.int32(self.count)]
        if eqn.primitive.name == "fetch_and_add":
            return self._fetch_and_add(eqn, values)
        if any(map(_communicates, subprograms(eqn.params))):
            nested = self.nested_results(eqn, values)
            if nested is None:
                raise NotImplementedError(f"{eqn.primitive.shown_as} {line_of(eqn)} is not interpreted with a fetch_and_add of "
                                          f"several subcores inside of it. Use scratch_types of pl.kernel.")
            return nested
        return super().results(eqn, values)

    def _fetch_and_add(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        """Do the operation on the memory of another subcore."""
        other = values[-1]
        if all([ref is not values[0] for ref, _ in self.memory]):
            raise NotImplementedError(f"fetch_and_add {line_of(eqn)} changes memory of run_scoped, which is not interpreted "
                                      f"for several subcores. Use scratch_types of pl.kernel.")
        self._save(self.subcore)
        self._load(other)
        results = eqn.primitive.bind(*values, **(eqn.params | {"num_subcores": 1}))
        self._save(other)
        self._load(self.subcore)
        return [results]
