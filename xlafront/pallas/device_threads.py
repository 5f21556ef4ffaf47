"""Interpretation of kernels whose devices signal, copy and wait in different branches, or a different number of times.

An exchange between interpreted devices waits for all of them. `in_rounds` rewrites such a kernel to a loop of rounds. In each,
every device runs its basic blocks until it would signal or copy to another device, or wait for something that has not happened
yet. Then the signals and copies are made together, each with the devices that have come to it. If all devices wait, one wait of
each ends, so that the loop ends; a simulation reports these waits.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from xlafront.control.cond import cond, switch
from xlafront.control.while_loop import while_loop
from xlafront.core import tracing
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.source import using_site
from xlafront.numpy.searching import where
from xlafront.pallas.basic_blocks import END, BasicBlocks, Block, Thread
from xlafront.pallas.device_ids import NO_DEVICE, gather_from_devices
from xlafront.pallas.divergence import diverges, is_sending, is_synchronizing
from xlafront.pallas.grid_mapping import GridMapping
from xlafront.pallas.kernel_evaluation import KernelEvaluator
from xlafront.pallas.primitives import num_programs_p, program_id_p
from xlafront.pallas.semaphores import semaphore_is_ready_p
from xlafront.pallas.simulated_devices import remote_axes


def in_rounds(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    """Return the kernel as a loop of rounds, and its grid; kernels whose devices do not diverge are returned as they are."""
    if not diverges(jaxpr):
        return jaxpr, mapping
    return jaxpr.memoised_with((), ("in rounds", mapping), lambda: _rewritten(jaxpr, mapping))


def _rewritten(jaxpr: Jaxpr, mapping: GridMapping) -> tuple[Jaxpr, GridMapping]:
    devices = _Devices(jaxpr)
    traced, consts = tracing.trace_to_jaxpr(
        devices.run, [*[v.aval for v in jaxpr.invars], *devices.scratch_avals], jaxpr.debug_info.with_unknown_names())
    return traced.with_consts(consts), dataclasses.replace(
        mapping, scratch_avals=(*mapping.scratch_avals, *devices.scratch_avals), derived={})


def _is_position(eqn: JaxprEqn) -> bool:
    return eqn.primitive in (program_id_p, num_programs_p)


class _Devices(KernelEvaluator):
    """The rewriting of a kernel.

    Args:
        jaxpr: The kernel.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr, self.axes = jaxpr, remote_axes(jaxpr)
        self.graph = BasicBlocks(jaxpr, is_synchronizing, is_synchronizing, "synchronizes", self.results, _is_position)
        self.scratch_avals = [*[v.aval for v in self.graph.memory], *self.graph.register_avals()]

    def run(self, *refs: Any) -> list[Any]:
        """Run the kernel on its references, followed by those to memory and registers."""
        graph, count = self.graph, len(self.jaxpr.invars)
        shared: dict[Any, Any] = {}
        self.evaluate_equations([eqn for eqn in self.jaxpr.eqns if _is_position(eqn)], shared)
        known = dict(zip((*graph.arguments, *graph.memory), refs)) | dict(zip(graph.shared, shared.values()))
        registers = dict(zip(graph.registers, refs[count + len(graph.memory):]))
        self.thread = Thread(graph, known, registers)
        while_loop(lambda state: ~state[1], lambda state: self._round(state[0], state[2]),
                   (np.int32(0), np.False_, np.False_))
        return []

    def _round(self, number: Any, is_stuck: Any) -> tuple[Any, Any, Any]:
        """Run blocks until each device waits, and make what they send.

        Args:
            number: Number of the block of the device.
            is_stuck: True if all devices wait for each other.

        Returns:
            The number of the block, True if all devices have ended, and True if they wait for each other.
        """
        branches = [lambda forced, b=b: self._step(b, forced) for b in self.graph.blocks]

        def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            at, _, forced = state
            return switch(at, branches, forced)

        number, _, _ = while_loop(lambda state: ~state[1], step, (number, number == END, is_stuck))
        numbers = [x for [x] in gather_from_devices([number], self.axes or ())]
        all_ended: Any = np.True_
        for x in numbers:
            all_ended = all_ended & (x == END)
        is_stuck = ~all_ended
        for block in self.graph.blocks:
            if block.stop is not None and is_sending(block.stop):
                is_here: Any = np.False_
                for x in numbers:
                    is_here = is_here | (x == block.number)
                mine = number == block.number
                cond(is_here, lambda block=block, mine=mine: self._send(block, mine), lambda: None)
                number = where(mine, np.int32(block.targets[0]), number)
                is_stuck = is_stuck & ~is_here
        return number, all_ended, is_stuck

    def _step(self, block: Block, forced: Any) -> tuple[Any, Any, Any]:
        """Run a block of this device. Return the next block, True if the device stays there, and True if its next wait ends."""
        if block.stop is None:
            after = self.thread.run(block)
            return after, after == END, forced
        here = np.int32(block.number)
        if is_sending(block.stop):
            return here, np.True_, forced
        after = np.int32(block.targets[0])

        def wait() -> tuple[Any, Any, Any]:
            self.thread.run(block)
            return after, np.False_, np.False_

        return cond(self._is_ready(block) | forced, wait, lambda: (here, np.True_, forced))

    def _is_ready(self, block: Block) -> Any:
        """Return whether a wait ends at once."""
        eqn, values = block.stop, self.thread.inputs(block.instructions[0])
        assert eqn is not None
        return semaphore_is_ready_p.bind(*values, views=eqn.params["views"])

    def _send(self, block: Block, is_sender: Any) -> None:
        """Make the copy or signal of a block, from the devices that are there."""
        eqn, values = block.stop, self.thread.inputs(block.instructions[0])
        assert eqn is not None
        at = sum([1 + view.count for view in eqn.params["views"]]) + (eqn.primitive.name == "semaphore_signal")
        values[at] = where(is_sender, values[at], NO_DEVICE)
        with using_site(eqn.site):
            self.results(eqn, values)
