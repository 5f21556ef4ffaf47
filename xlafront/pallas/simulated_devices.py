"""The order of operations on several devices in the simulation of a kernel, by vector clocks.

Simulated devices run the same operation at the same time, so a copy always arrives when the receiver comes to the place where
it sends its own. On hardware the sender can be ahead: what the receiver did before may happen later. Each device has a clock,
and for each other device the latest time that signals and waits have carried to it. A copy from another device is a race with
each access of the receiver that is later than the time that the sender has for the receiver.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.control.cond import cond
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr
from xlafront.core.jaxpr import subprograms
from xlafront.core.refs import AbstractRef
from xlafront.numpy.searching import where
from xlafront.pallas.device_ids import Axes, gather_from_devices, own_id
from xlafront.pallas.simulated_memory import Memory, overlaps
from xlafront.pallas.specs import MemorySpace

ACCESSES = 128  # of a device that are remembered
_MEMORY, _TIME, _SITE, _BOUNDS = range(4)  # columns of accesses


def remote_axes(jaxpr: Jaxpr) -> Axes | None:
    """Return the axes of the mesh whose devices a kernel signals or copies to; None if it does not."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("dma_start", "semaphore_signal") and eqn.params["axes"] is not None:
            return eqn.params["axes"]
        for inner in subprograms(eqn.params):
            found = remote_axes(inner)
            if found is not None:
                return found
    return None


class DeviceClocks:
    """The clocks of a device, of its semaphores, and its accesses to memory that other devices write.

    Args:
        axes: Names and sizes of the axes of the mesh.
        num_semaphores: Number of semaphores; one more is the barrier.
        rank: Number of dimensions of the memories.
    """

    def __init__(self, axes: Axes, num_semaphores: int, rank: int) -> None:
        self.axes, self.barrier, self.rank = axes, num_semaphores, rank
        self.count = math.prod([n for _, n in axes])
        self.targets: set[int] = set()  # numbers of the memories that other devices write

    def state_avals(self) -> list[AbstractRef]:
        """Return the types of the memory for the state."""
        shapes = [(self.count,), (self.barrier + 1, self.count), (ACCESSES, _BOUNDS + 3 * self.rank), (1,)]
        return [AbstractRef(ShapedArray(s, np.dtype(np.int32)), MemorySpace.ANY) for s in shapes]

    def enter(self, refs: Sequence[Any]) -> None:
        """Use references to the state."""
        self.time, self.semaphores, self.accesses, self.next_access = refs
        self.refs = refs

    def reset(self) -> None:
        """Start the clock of the device. The references are zero."""
        self.time[own_id(self.axes)] = np.int32(1)

    def note(self, memory: Memory, numbers: Sequence[Any], site: int, row: Any) -> None:
        """Remember an access to a part of a memory, if other devices write to it. `row` makes an array of integers."""
        if memory.number not in self.targets:
            return
        slot = self.next_access[0]
        self.accesses[slot, :] = row([memory.number, self.time[own_id(self.axes)], site, *numbers])
        self.next_access[0] = where(slot == ACCESSES - 1, np.int32(0), slot + np.int32(1))

    def conflicts(self, memory: Memory, numbers: Sequence[Any], known: Any) -> tuple[Any, Any]:
        """Return True if a device with the clock `known` writes what was accessed later, and the site of an access."""
        log = self.accesses[...]
        found = (log[:, _MEMORY] == memory.number) & (log[:, _TIME] > known[own_id(self.axes)])
        found = found & overlaps([log[:, _BOUNDS + i] for i in range(3 * self.rank)], numbers)
        return found.any(), log[found.argmax(), _SITE]

    def exchange(self, device: Any, values: Sequence[Any]) -> list[tuple[Any, Any, list[Any]]]:
        """Send values and the clock to a device. Return for each sender if this device gets its values, the clock, and them."""
        found = []
        for receiver, clock, *sent in gather_from_devices([device, self.time[...], *values], self.axes):
            found.append((receiver == own_id(self.axes), clock, sent))
        return found

    def signal(self, device: Any, number: Any) -> None:
        """Signal a semaphore of another device."""
        for is_here, clock, [number_there] in self.exchange(device, [number]):
            self.receive(is_here, clock, number_there)
        self.tick()

    def receive(self, is_here: Any, clock: Any, number: Any) -> None:
        """Join the clock of a sender with that of a semaphore, if the signal is for this device."""
        known = self.semaphores[number, :]
        self.semaphores[number, :] = where(is_here & (clock > known), clock, known)

    def tick(self) -> None:
        """Let time pass: what the device does from now on, receivers of its signals do not know."""
        me = own_id(self.axes)
        self.time[me] = self.time[me] + np.int32(1)

    def wait(self, number: Any) -> None:
        """Join the clock of a semaphore with that of the device."""
        known, signaled = self.time[...], self.semaphores[number, :]
        self.time[...] = where(signaled > known, signaled, known)


def when(condition: Any, function: Any) -> None:
    """Call a function if a condition holds."""
    cond(condition, function, lambda: None)
