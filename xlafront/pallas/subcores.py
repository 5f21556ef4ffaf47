"""Interpretation of kernels whose vector subcores wait for each other, or change numbers in each other's memory.

An interpreted kernel runs on one subcore after the other. `in_phases` rewrites it to a kernel that runs once for all subcores
of a core: in each phase every subcore runs until it comes to a barrier. The memory that each subcore has for itself is saved in
an array of that of all subcores, and so are the values that later phases use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.cond import switch
from xlafront.control.scan import scan
from xlafront.control.while_loop import while_loop
from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dataflow import any_equation
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.refs import AbstractRef
from xlafront.lax import refs as ref_operations
from xlafront.pallas.basic_blocks import END, BasicBlocks, Block, Name, Thread
from xlafront.pallas.grid_mapping import GridMapping
from xlafront.pallas.kernel_evaluation import KernelEvaluator
from xlafront.pallas.primitives import num_programs_p, program_id_p
from xlafront.pallas.specs import MemorySpace
from xlafront.pallas.tpu import SMEM, VMEM

_SUBCORE_AXIS = 1  # of the grid that kernels on vector subcores see
_int32 = np.dtype(np.int32)


def in_phases(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    """Return the kernel that runs once for all subcores of a core, and its grid; other kernels are returned as they are."""
    if not any_equation(jaxpr, "of several subcores", _is_of_several):
        return jaxpr, mapping
    return jaxpr.memoised_with((), ("in phases", mapping), lambda: _rewritten(jaxpr, mapping))


def _rewritten(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    axis = mapping.kernel_axes[_SUBCORE_AXIS]
    subcores = _Subcores(jaxpr, mapping.num_scratch_operands, mapping.grid[axis])
    traced, consts = tracing.trace_to_jaxpr(
        subcores.run, [*[v.aval for v in jaxpr.invars], *subcores.scratch_avals], jaxpr.debug_info.with_unknown_names())
    grid = (*mapping.grid[:axis], 1, *mapping.grid[axis + 1:])
    return traced.with_consts(consts), dataclasses.replace(
        mapping, grid=grid, scratch_avals=(*mapping.scratch_avals, *subcores.scratch_avals), derived={})


def _is_of_several(eqn: JaxprEqn) -> bool:
    """True for operations by which subcores wait for each other or change each other's memory."""
    return eqn.primitive.name in ("subcore_barrier", "fetch_and_add") and eqn.params["num_subcores"] > 1


def _is_barrier(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "subcore_barrier"


def _is_of_core(eqn: JaxprEqn) -> bool:
    """True for the position of the core, which is read at the top level of a kernel."""
    return eqn.primitive in (program_id_p, num_programs_p) and eqn.params["axis"] != _SUBCORE_AXIS


def _is_zeroed(name: Name) -> bool:
    """True for semaphores, which are zero when the kernel starts."""
    return getattr(name.aval.memory_space, "zeroed", False)


class _Subcores(KernelEvaluator):
    """The rewriting of a kernel.

    Args:
        jaxpr: The kernel.
        num_scratch: Number of its references to scratch memory, which are the last.
        count: Number of subcores.
    """

    def __init__(self, jaxpr: Jaxpr, num_scratch: int, count: int) -> None:
        self.jaxpr, self.count = jaxpr, count
        self.graph = graph = BasicBlocks(jaxpr, _is_barrier, _is_of_several, "of several subcores", self.results, _is_of_core)
        scratch = graph.arguments[len(jaxpr.invars) - num_scratch:]
        self.own = [x for x in (*scratch, *graph.memory) if x.aval.memory_space in (SMEM, VMEM) or _is_zeroed(x)]
        saved = [AbstractRef(ShapedArray((count, *x.aval.shape), x.aval.dtype), MemorySpace.ANY) for x in self.own]
        self.scratch_avals = [*[x.aval for x in graph.memory], *saved, *graph.register_avals(count)]

    def run(self, *refs: Any) -> list[Any]:
        """Run the kernel on its references, followed by those to the memory and registers of all subcores."""
        graph = self.graph
        shared: dict[Any, Any] = {}
        self.evaluate_equations([eqn for eqn in self.jaxpr.eqns if _is_of_core(eqn)], shared)
        names = [*graph.arguments, *graph.memory]
        references, saved = dict(zip(names, refs)), refs[len(names):]
        self.memory = [(references[x], y) for x, y in zip(self.own, saved)]
        for name, (_, saved_ref) in zip(self.own, self.memory):
            if _is_zeroed(name):
                ref_operations.set(saved_ref, ..., xnp.zeros_like(saved_ref[...]))
        known = references | dict(zip(graph.shared, shared.values()))
        registers = dict(zip(graph.registers, saved[len(self.own):]))
        opened = [(b.number, b.targets[0]) for b in graph.blocks if b.stop is not None]

        def phase(numbers: Any) -> Any:
            for closed, after in opened:
                numbers = xnp.where(numbers == closed, np.int32(after), numbers)
            return scan(on_subcore, None, [xnp.arange(self.count, dtype=_int32), numbers])[1]

        def on_subcore(_: Any, row: list[Any]) -> tuple[Any, Any]:
            self.subcore, number = row
            thread = Thread(graph, known, registers, self.subcore)
            branches = [lambda b=b: self._step(thread, b) for b in graph.blocks]
            self._load(self.subcore)
            number, _ = while_loop(lambda state: ~state[1], lambda state: switch(state[0], branches), (number, number == END))
            self._save(self.subcore)
            return None, number

        while_loop(lambda numbers: (numbers != END).any(), phase, xnp.zeros(self.count, _int32))
        return []

    @staticmethod
    def _step(thread: Thread, block: Block) -> tuple[Any, Any]:
        """Run a block. Return the next one, and True if the subcore ends this phase."""
        if block.stop is not None:
            return np.int32(block.number), np.True_
        after = thread.run(block)
        return after, after == END

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
        return super().results(eqn, values)

    def _fetch_and_add(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        """Do the operation on the memory of another subcore."""
        other = values[-1]
        self._save(self.subcore)
        self._load(other)
        results = eqn.primitive.bind(*values, **(eqn.params | {"num_subcores": 1}))
        self._save(other)
        self._load(self.subcore)
        return [results]
