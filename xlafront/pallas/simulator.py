"""The simulation of a kernel: a kernel that also keeps track of copies, semaphores and mistakes, in memory of its own.

`simulated` rewrites the kernel's jaxpr. Each operation on references is followed by its checks, copies go through a queue, and
semaphores are counts. The state is scratch memory that the rewritten kernel has in addition: integers, so that everything runs
in the loop that XLA compiles. What is found (`pallas.findings`) is one more output.

A copy is in the queue from its start until it is certain to have arrived. It has arrived for certain once the waits for its
semaphore exceed what the other copies of that semaphore can have signaled. Until then every access to what it writes, and every
write to what it reads, is a race.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.control.cond import cond, switch
from xlafront.control.while_loop import while_loop
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, to_dtype
from xlafront.core.ir import Jaxpr, JaxprEqn, internal_refs
from xlafront.core.jaxpr import subprograms
from xlafront.core.refs import AbstractRef
from xlafront.lax import refs as ref_operations
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.ref_indexing import Operand, Window
from xlafront.lax.shapes import reshape_to
from xlafront.lax.slicing import concatenate_p
from xlafront.numpy.searching import where
from xlafront.pallas.copies import copy_views
from xlafront.pallas.device_ids import NO_DEVICE
from xlafront.pallas.findings import CAPACITY, FIELDS, Kind, Report, line_of
from xlafront.pallas.grid_mapping import GridMapping
from xlafront.pallas.interpret_params import InterpretParams
from xlafront.pallas.kernel_evaluation import KernelEvaluator
from xlafront.pallas.kernel_operation import View, kernel_effect, split_views
from xlafront.pallas.masked import masked_load_p, masked_swap_p
from xlafront.pallas.primitives import num_programs_p, program_id_p
from xlafront.pallas.simulated_devices import DeviceClocks, remote_axes, when
from xlafront.pallas.simulated_grid import Order
from xlafront.pallas.simulated_memory import Memory, bounds, overlaps, part_of
from xlafront.pallas.specs import Blocked, Element, Memory as MemoryKind, MemorySpace, Squeezed
from xlafront.pallas.uninitialized import uninitialized, uninitialized_scalar

_int32 = np.dtype(np.int32)
IN_FLIGHT = 64  # copies; one more is made at once
_SITE, _SEMAPHORE, _BYTES, _ORDER, _FLAGS, _SOURCE, _TARGET, _BOUNDS = range(8)  # columns of the queue
_PENDING, _UNSETTLED = 1, 2  # flags: the copy is to be made; it is not certain to have arrived
_LATEST = np.int32(2**31 - 1)
_MAX_BLOCKS = 1 << 20  # of an output, to note which were visited


class Copy(NamedTuple):
    """A place in a kernel that starts copies.

    Args:
        eqn: The equation.
        views: Descriptions of the source, the destination and the semaphore.
        memories: Their memories.
        operands: Types of the operands of the indexers of source and destination.
        add: True if it adds to the destination.
        bytes: Size of a copy.
    """

    eqn: JaxprEqn
    views: tuple[View, ...]
    memories: tuple[Memory, ...]
    operands: tuple[ShapedArray, ...]
    add: bool
    bytes: int


def scoped_memory(jaxpr: Jaxpr) -> dict[int, JaxprEqn]:
    """Return the equations of a kernel that allocate scratch memory, by identity."""
    found = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "run_scoped" or _is_allocation(eqn):
            found[id(eqn)] = eqn
        for inner in subprograms(eqn.params):
            found |= scoped_memory(inner)
    return found


def _is_allocation(eqn: JaxprEqn) -> bool:
    """True if an equation allocates memory of the core until the kernel ends."""
    return eqn.primitive.name == "empty_ref" and isinstance(eqn.outvars[0].aval.memory_space, MemoryKind)


def has_concurrency(jaxpr: Jaxpr) -> bool:
    """True if a kernel has copies or semaphores."""
    return any([eqn.primitive.name.startswith(("dma_", "semaphore_")) or any(map(has_concurrency, subprograms(eqn.params)))
                for eqn in jaxpr.eqns])


def vector(numbers: Sequence[Any]) -> Any:
    """Return integers as one array, without a constant of the kernel."""
    return concatenate_p.bind(*[broadcast_in_dim_p.bind(
        np.int32(x) if isinstance(x, int) else to_dtype(x, _int32), shape=(1,), broadcast_dimensions=(), sharding=None)
        for x in numbers], dimension=0)


def _is_semaphore(aval: AbstractRef) -> bool:
    return isinstance(aval.memory_space, MemoryKind) and getattr(aval.memory_space, "zeroed", False)


class Simulator(KernelEvaluator):
    """The rewriting of one kernel. It runs twice: first to find the places that start copies, then with all of them.

    Args:
        jaxpr: The kernel.
        mapping: Its grid.
        params: The user's choices.
        report: Gets the names of sites.
        order: The order of the steps.
        aliases: Outputs by the inputs whose memory they share.
    """

    def __init__(self, jaxpr: Jaxpr, mapping: GridMapping, params: InterpretParams, report: Report, order: Order,
                 aliases: dict[int, int]) -> None:
        self.jaxpr, self.mapping, self.params, self.report, self.aliases = jaxpr, mapping, params, report, aliases
        self.order = order
        self.scopes = list(scoped_memory(jaxpr).values())
        self.scoped_avals = [a for eqn in self.scopes for a in _scoped_avals(eqn)]
        semaphores = [a for a in (*mapping.scratch_avals, *self.scoped_avals) if _is_semaphore(a)]
        self.num_semaphores = sum([a.size for a in semaphores])
        self.copies: list[Copy] = []
        self.all_memories: list[Memory] = []  # of both runs
        self.is_collecting = False
        self.barriers: list[Memory] = []  # references to the semaphore that kernels share, whose count is the last
        self.rank = max([a.ndim for a in self._all_avals()], default=0)
        axes = remote_axes(jaxpr) if params.detect_races else None
        self.clocks = None if axes is None else DeviceClocks(axes, self.num_semaphores, self.rank)

    def _all_avals(self) -> list[Any]:
        return [*[v.aval for v in self.jaxpr.invars], *self.scoped_avals]

    # The state. `columns` is the width of the queue.

    num_columns = property(lambda self: _BOUNDS + 6 * self.rank + self.num_arguments)
    num_arguments = property(lambda self: max([sum([a.size for a in c.operands]) for c in self.copies], default=0))
    has_queue = property(lambda self: bool(self.copies) and (
        self.params.detect_races or self.params.dma_execution_mode == "on_wait"))

    def visit_counts(self) -> list[int]:
        """Return for each output the number of its blocks, 0 if they are not tracked."""
        counts = []
        for b in self.mapping.block_mappings[self.mapping.num_inputs:]:
            is_plain = all([type(d) in (Blocked, Squeezed) for d in b.block_shape])
            count = math.prod([-(-n // m) for n, m in zip(b.array_aval.shape, b.sizes)]) if is_plain and all(b.sizes) else 0
            is_shared = self.order.num_cores > 1 and str(b.block_aval.memory_space) not in ("any", "hbm")
            counts.append(count if count <= _MAX_BLOCKS and (is_shared or not b.covers_array) else 0)
        return counts

    def state_avals(self) -> list[AbstractRef]:
        """Return the types of the memory for the state: counts, waited bytes, queue, and visits of each output."""
        shapes = [(self.num_semaphores + 1,), (self.num_semaphores + 1,),
                  (IN_FLIGHT if self.has_queue else 1, self.num_columns if self.has_queue else 1), (1,)]
        shapes += [(n + 1,) for n in self.visit_counts() if n]
        avals = [AbstractRef(ShapedArray(s, _int32), MemorySpace.ANY) for s in shapes]
        return avals + (self.clocks.state_avals() if self.clocks else [])

    def run(self, *refs: Any) -> list[Any]:
        """Run the kernel on references: its own, the output for findings before its scratch memory, and the state after it."""
        mapping = self.mapping
        first = mapping.num_index_operands + mapping.num_inputs + mapping.num_outputs
        self.findings, refs = refs[first], (*refs[:first], *refs[first + 1:])
        count = len(self.jaxpr.invars)
        own, scoped, state = refs[:count], refs[count:count + len(self.scoped_avals)], refs[count + len(self.scoped_avals):]
        if self.clocks:
            self.clocks.enter(state[-4:])
            state = state[:-4]
        self.counts, self.awaited, self.queue, self.started, *self.visits = state
        self.next_semaphore, self.next_memory, self.barriers = 0, 0, []
        self._enter_grid()
        self.memories = self._memories(own)
        it = iter([self._memory(r, a, f"memory of run_scoped {line_of(eqn)}")
                   for r, (a, eqn) in zip(scoped, [(a, e) for e in self.scopes for a in _scoped_avals(e)])])
        self.scoped = {id(e): [next(it) for _ in _scoped_avals(e)] for e in self.scopes}
        if not self.is_collecting:
            cond(self.is_start, self._reset_findings, lambda: None)
            cond(self.is_first, self._reset_core, lambda: None)
            self._check_blocks()
        self.evaluate(self.jaxpr, self.memories)
        if not self.is_collecting:
            self._end_step()
        return []

    def _memory(self, ref: Any, aval: AbstractRef, name: str, has_blocks: bool = False) -> Memory:
        first = None
        if _is_semaphore(aval):
            first, self.next_semaphore = self.next_semaphore, self.next_semaphore + aval.size
        if self.next_memory == len(self.all_memories):
            self.all_memories.append(Memory(self.next_memory + 1, ref, aval, name, has_blocks, first))
        memory = self.all_memories[self.next_memory]
        memory.ref = ref
        self.next_memory += 1
        return memory

    def _memories(self, refs: Sequence[Any]) -> list[Memory]:
        mapping = self.mapping
        blocks, scalars = mapping.block_mappings, mapping.num_index_operands
        names = [*[f"scalar argument {i}" for i in range(scalars)], *[b.origin for b in blocks],
                 *[f"scratch_shapes[{i}]" for i in range(mapping.num_scratch_operands)]]
        has_blocks = [scalars <= i < scalars + len(blocks) and not blocks[i - scalars].covers_array for i in range(len(names))]
        found = [self._memory(r, v.aval, n, b) for r, v, n, b in zip(refs, self.jaxpr.invars, names, has_blocks)]
        for i, o in self.aliases.items():
            source_memory, target = found[i - mapping.num_dynamic_grid_bounds], found[scalars + mapping.num_inputs + o]
            if not source_memory.has_blocks and not target.has_blocks:
                target.number = source_memory.number
        return found

    def _enter_grid(self) -> None:
        """Compute the position in the grid, at the top level of the kernel."""
        grid, axes = self.mapping.grid, self.mapping.kernel_axes
        indices = [program_id_p.bind(axis=i) for i in range(len(axes))]
        self.sizes = [num_programs_p.bind(axis=i) if grid[d] is None else np.int32(grid[d]) for i, d in enumerate(axes)]
        self.ids, self.core = self.order.point(indices), self.order.core(indices)
        self.step: Any = np.int32(0)
        for i, n in zip(self.ids, self.sizes):
            self.step = self.step * n + i
        self.is_start: Any = np.True_  # of the kernel
        self.is_first: Any = np.True_  # of the core
        self.is_last: Any = np.True_
        for axis, (i, n) in enumerate(zip(indices, self.sizes)):
            self.is_start = self.is_start & (i == 0)
            self.is_first = self.is_first & ((i == 0) if axis else self.order.begins_core(indices))
            self.is_last = self.is_last & ((i == n - 1) if axis else self.order.ends_core(indices, n))

    def _reset_findings(self) -> None:
        for ref in (self.findings, *self.visits):
            _fill(ref, 0)

    def _reset_core(self) -> None:
        """Reset the memory of a core."""
        for ref in (self.counts, self.awaited, self.queue, self.started, *(self.clocks.refs if self.clocks else ())):
            _fill(ref, 0)
        if self.clocks:
            self.clocks.reset()
        if self.order.num_cores > 1:
            for m in self.memories[len(self.memories) - self.mapping.num_scratch_operands:]:
                ref_operations.set(m.ref, ..., uninitialized(m.aval.inner_aval, m.aval.memory_space, self.params))

    # Findings

    def record(self, kind: Kind, is_found: Any, site: Any, other: Any = 0, a: Any = 0, b: Any = 0) -> None:
        """Add a finding if a condition holds."""
        if self.is_collecting or is_found is False:
            return
        row = [int(kind), site, other, self.step, a, b]

        def add() -> None:
            known = self.findings[...]
            count = known[0, 0]
            same = (known[1:, 0] == int(kind)) & (known[1:, 1] == site) & (known[1:, 2] == other)
            rows = broadcasted_iota(_int32, (CAPACITY,), 0)
            is_new = ~(same & (rows < count)).any() & (count < CAPACITY)
            where_to = where(is_new, count + 1, 0)
            first = where(is_new, count + 1, count)
            self.findings[where_to, :] = vector(row)
            self.findings[0, 0] = first

        cond(is_found, add, lambda: None)

    def _check_blocks(self) -> None:
        """Check the positions of the blocks of this step, and whether the grid comes back to one."""
        mapping = self.mapping
        scalars = [m.ref for m in self.memories[:mapping.num_index_operands]]
        ids = iter(self.ids)
        indices = [np.int32(0) if d in mapping.vmapped_dims else next(ids) for d in range(len(mapping.grid))]
        visits = iter(self.visits)
        tracked = [0] * mapping.num_inputs + self.visit_counts()
        for block, count in zip(mapping.block_mappings, tracked):
            if block.covers_array and not count:
                continue
            found = block.index_map_jaxpr(*indices, *scalars)[:len(block.block_shape)]
            site = self.report.site(block.origin)
            for d, (x, b, n) in enumerate(zip(found, block.block_shape, block.array_aval.shape)):
                low, high = b.padding if type(b) is Element else (0, 0)
                end = -(-n // b.block_size) if type(b) is Blocked else n + low + high
                if not isinstance(x, (int, np.integer)):
                    self.record(Kind.BLOCK_OUTSIDE, (x < 0) | (x >= end), site, 0, d, x)
            if count:
                self._visit(next(visits), block, found, count)

    def _visit(self, visited: Any, block: Any, indices: Sequence[Any], count: int) -> None:
        """Note that a step works on a block of an output. The last entry of `visited` is the block of the step before."""
        number: Any = np.int32(0)
        for x, n, m in zip(indices, block.array_aval.shape, block.sizes):
            number = number * np.int32(-(-n // m)) + x
        site = self.report.site(f"a block of {block.origin}")
        core = self.core + np.int32(1)
        known = visited[number]
        is_other = (known != 0) & (known != core)
        if self.params.detect_races and self.order.num_cores > 1:
            self.record(Kind.CORES, is_other, site, 0, known - 1, core - 1)
        self.record(Kind.REVISITED, (known == core) & (visited[count] != number + 1), site)
        visited[number] = core
        visited[count] = number + 1

    def _end_step(self) -> None:
        """Check what must hold at the end of a step, and of the kernel."""
        blocks = sorted({m.number for m in self.memories if m.has_blocks})
        if self.has_queue:
            self._check_unsettled(blocks, Kind.BLOCK_LEAVES, ~self.is_last)
            self._check_unsettled(None, Kind.NEVER_WAITED, self.is_last)
        for m in (*self.memories, *self.barriers[:1]):
            if m.first is not None:
                self._check_zero(m, self.is_last)

    def _check_zero(self, memory: Memory, is_end: Any) -> None:
        if not memory.aval.size:
            return
        counts = self.counts[memory.first:memory.first + memory.aval.size]
        site = self.report.site(f"the semaphore {memory.name}")
        self.record(Kind.COUNT_LEFT, is_end & (counts != 0).any(), site, 0, counts.sum())

    def _check_unsettled(self, numbers: Sequence[int] | None, kind: Kind, is_end: Any) -> None:
        """Find a copy in the queue that uses one of some memories, or any memory."""
        queue = self.queue[...]
        is_found = queue[:, _FLAGS] != 0
        if numbers is not None:
            used = np.False_
            for n in numbers:
                used = used | (queue[:, _SOURCE] == n) | (queue[:, _TARGET] == n)
            if not numbers:
                return
            is_found = is_found & used
        self.record(kind, is_end & is_found.any(), queue[is_found.argmax(), _SITE])

    # Equations

    def results(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        """Return the results of an equation, with its checks. References are given as `Memory`."""
        name = eqn.primitive.name
        if name == "program_id":
            return [self.ids[eqn.params["axis"]]]
        if name == "num_programs":
            return [self.sizes[eqn.params["axis"]]]
        if not self._has_state(eqn):
            return self._bind(eqn, values)
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, eqn, values)
        nested = self.nested_results(eqn, values)
        return self.as_interpreted(eqn, values) if nested is None else nested

    def as_interpreted(self, eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        """Do what interpreted kernels do, such as operations on other devices. They count in the semaphores' own memory."""
        semaphores = {m.number: m for m in values if type(m) is Memory and m.first is not None}.values()
        for m in semaphores:
            ref_operations.set(m.ref, ..., _full(m.aval.inner_aval, 0))
        results = self._bind(eqn, [x.ref if type(x) is Memory else x for x in values])
        is_copy = eqn.primitive.name == "dma_start"
        bits = dtypes.itemsize_bits(split_views(values, eqn.params["views"])[0][1][0].aval.dtype) if is_copy else 8
        for m in semaphores:
            counts = reshape_to(ref_operations.get(m.ref), (m.aval.size,)) * np.int32(bits) // np.int32(8)
            for ref in (self.counts, self.awaited):
                ref[m.first:m.first + m.aval.size] += counts
        return [Memory(0, x, v.aval, "a reference") if type(v.aval) is AbstractRef else x for x, v in zip(results, eqn.outvars)]

    @staticmethod
    def _copy_size(views: Sequence[tuple]) -> int:
        """Return the bytes of a copy."""
        memory, indexers, operands = views[1]
        size = math.prod(ref_operations.RefView(memory.ref, indexers, tuple(operands)).shape)
        return size * dtypes.itemsize_bits(memory.aval.dtype) // 8

    @staticmethod
    def _has_state(eqn: JaxprEqn) -> bool:
        return any([type(v.aval) is AbstractRef for v in eqn.invars]) or internal_refs in eqn.effects or (
            kernel_effect in eqn.effects)

    def _bind(self, eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
        primitive, avals = eqn.primitive, [v.aval for v in eqn.outvars]
        if self.params.skip_floating_point_ops and not self._has_state(eqn) and avals and all(
                [isinstance(a.dtype, np.dtype) and dtypes.is_float(a.dtype) for a in avals]):
            return [_full(a, np.inf) for a in avals]
        results = primitive.bind(*values, **eqn.params)
        return results if primitive.multiple_results else [results]

    # Access to memory

    def access(self, eqn: JaxprEqn, memory: Memory, indexers: Sequence[Any], operands: Sequence[Any], writes: bool,
               is_used: Any = None) -> list[Any]:
        """Check an access of the core. Return the conditions under which it is out of bounds.

        Args:
            is_used: A mask of the elements that are used. Default: all.
        """
        if self.is_collecting:
            return []
        verb = "the write to" if writes else "the read of"
        name = f"{verb} {memory.name} {line_of(eqn)}"
        part = part_of(memory.aval.shape, indexers, operands, self._limits(memory))
        kind = Kind.WRITE_OUTSIDE if writes else Kind.READ_OUTSIDE
        for d, start, is_outside in part.checks if writes or self.params.out_of_bounds_reads == "raise" else ():
            if is_used is not None:
                is_outside = (is_used & ~_inside(memory.aval.shape, indexers, operands, np.shape(is_used))).any()
            self.record(kind, is_outside, self.report.site(name), 0, d, start)
        self.check_race(memory, part, writes, name)
        return [is_outside for _, _, is_outside in part.checks]

    def _limits(self, memory: Memory) -> tuple[int, ...]:
        """Return the bounds of a memory: its shape, or with `buffer_bounds="padded"` that of its tiles in VMEM."""
        shape = memory.aval.shape
        if self.params.buffer_bounds == "logical" or str(memory.aval.memory_space) not in ("vmem", "default", "None"):
            return shape
        tiles = (8 * max(4 // memory.aval.dtype.itemsize, 1), 128)[-len(shape):] if shape else ()
        return (*shape[:len(shape) - len(tiles)], *[-(-n // t) * t for n, t in zip(shape[len(shape) - len(tiles):], tiles)])

    def check_race(self, memory: Memory, part: Any, writes: bool, name: str) -> None:
        """Record a race of an access with a copy that is not certain to have arrived."""
        if not self.params.detect_races or self.is_collecting:
            return
        roles = [(column, first) for column, first, position in ((_SOURCE, 0, 0), (_TARGET, 1, 1)) if (
            writes or position) and any([c.memories[position].number == memory.number for c in self.copies])]
        numbers = bounds(part, self.rank)
        if self.clocks:
            self.clocks.note(memory, numbers, self.report.site(name), vector)
        if not roles:
            return
        self._find_race(memory, numbers, roles, Kind.RACE, self.report.site(name))

    def _find_race(self, memory: Memory, numbers: Sequence[Any], roles: Sequence[tuple[int, int]], kind: Kind, site: Any,
                   condition: Any = True, detail: Any = 0) -> None:
        """Record a race with a copy in the queue: with its source or destination, by the roles."""
        queue, found = self.queue[...], np.False_
        for column, first in roles:
            start = _BOUNDS + first * 3 * self.rank
            columns = [queue[:, start + i] for i in range(3 * self.rank)]
            found = found | (queue[:, column] == memory.number) & overlaps(columns, numbers)
        found = found & ((queue[:, _FLAGS] & _UNSETTLED) != 0)
        self.record(kind, condition & found.any(), site, queue[found.argmax(), _SITE], detail)

    # Semaphores and copies

    def semaphore(self, memory: Memory, indexers: Sequence[Any], operands: Sequence[Any]) -> Any:
        """Return the number of a semaphore."""
        part = part_of(memory.aval.shape, indexers, operands)
        number: Any = np.int32(0)
        for start, n in zip(part.starts, memory.aval.shape):
            number = number * np.int32(n) + start
        return number + np.int32(memory.first or 0)

    def _copy_of(self, eqn: JaxprEqn, views: Sequence[tuple], add: bool) -> Copy:
        """Return the place of a copy, which is noted in the first run."""
        memories = tuple([m for m, _, _ in views])
        found = [c for c in self.copies if c.eqn is eqn and c.memories == memories]
        if not found:
            arguments = [x for _, _, operands in views[:2] for x in operands]
            avals = tuple([ShapedArray(np.shape(x), tracing.aval_of(x).dtype) for x in arguments])
            found = [Copy(eqn, tuple(eqn.params["views"]), memories, avals, add, self._copy_size(views))]
            self.copies += found
        return found[0]

    def _put(self, copy: Copy, number: Any, flags: int, numbers: Sequence[Any], regions: Sequence[Any], arguments: Sequence[Any]
             ) -> None:
        """Put a copy into the queue: the number of its semaphore, those of source and destination, and their bounds."""
        slot = (self.queue[:, _FLAGS] == 0).argmax()
        flat = [reshape_to(to_dtype(x, _int32), (math.prod(np.shape(x)),)) for x in arguments]
        row = [vector([self.copies.index(copy), number, copy.bytes, self.started[0], flags, *numbers, *regions]), *flat]
        rest = self.num_columns - _BOUNDS - 6 * self.rank - sum([math.prod(np.shape(x)) for x in flat])
        if rest:
            row.append(broadcast_in_dim_p.bind(np.int32(0), shape=(rest,), broadcast_dimensions=(), sharding=None))
        self.queue[slot, :] = concatenate_p.bind(*row, dimension=0)
        self.started[0] += np.int32(1)

    def _is_free(self) -> Any:
        return (self.queue[:, _FLAGS] == 0).any()

    def start(self, eqn: JaxprEqn, views: Sequence[tuple], add: bool) -> None:
        """Start a copy: make it, or put it into the queue."""
        copy, memories = self._copy_of(eqn, views, add), [m for m, _, _ in views]
        arguments = [x for _, _, operands in views[:2] for x in operands]
        if self.is_collecting:
            return
        for (memory, indexers, operands), writes in zip(views, (False, True)):
            self.access(eqn, memory, indexers, operands, writes)
        number = self.semaphore(*views[2])
        regions = [x for memory, *part in views[:2] for x in bounds(part_of(memory.aval.shape, *part), self.rank)]

        def make() -> None:
            self.move(copy, arguments)
            self.counts[number] += np.int32(copy.bytes)

        def put(flags: int) -> None:
            self._put(copy, number, flags, [m.number for m in memories[:2]], regions, arguments)

        self.awaited[number] += np.int32(copy.bytes)
        if not self.has_queue:
            make()
        elif self.params.dma_execution_mode == "eager":
            make()
            when(self._is_free(), lambda: put(_UNSETTLED))
        else:
            cond(self._is_free(), lambda: put(_PENDING | _UNSETTLED), make)

    def check_device(self, eqn: JaxprEqn, name: str, device: Any) -> None:
        """Check that the mesh has the device to which something is sent."""
        count = math.prod([n for _, n in eqn.params["axes"]])
        is_missing = ((device < 0) | (device >= count)) & (device != NO_DEVICE)
        self.record(Kind.NO_DEVICE, is_missing, self.report.site(f"{name} {line_of(eqn)}"), 0, device, count)

    def send(self, eqn: JaxprEqn, views: Sequence[tuple], device: Any) -> None:
        """Record a finished copy to another device, and the copies from other devices that arrive at the same time."""
        clocks = self.clocks
        if clocks is None:
            return
        (origin, *origin_part), (target, *target_part), *semaphores = views
        received, *sent = [self._copy_of(eqn, [*views[:2], semaphore], False) for semaphore in semaphores]
        clocks.targets.add(target.number)
        if self.is_collecting:
            return
        is_sender = device != NO_DEVICE

        def read_origin() -> None:
            self.access(eqn, origin, origin_part[0], origin_part[1], False)

        when(is_sender, read_origin)
        read = bounds(part_of(origin.aval.shape, *origin_part), self.rank)
        written, none = bounds(part_of(target.aval.shape, *target_part), self.rank), [0] * (3 * self.rank)
        for copy, semaphore in zip(sent, semaphores[1:]):
            when(is_sender & self._is_free(), lambda copy=copy, semaphore=semaphore: self._put(
                copy, self.semaphore(*semaphore), _UNSETTLED, [origin.number, 0], [*read, *none], ()))
        number, site = self.semaphore(*semaphores[0]), self.copies.index(received)
        for d, (is_here, clock, [number_there, region]) in enumerate(clocks.exchange(device, [number, vector(written)])):
            region = [region[i] for i in range(2 * self.rank)] + list(written[2 * self.rank:])  # (steps are static)
            is_late, other = clocks.conflicts(target, region, clock)
            self.record(Kind.DEVICES, is_here & is_late, other, site, d)
            self._find_race(target, region, [(_SOURCE, 0), (_TARGET, 1)], Kind.DEVICES, site, is_here, d)
            when(is_here & self._is_free(), lambda number=number_there, region=region: self._put(
                received, number, _UNSETTLED, [0, target.number], [*none, *region], ()))
            clocks.receive(is_here, clock, number_there)
        clocks.tick()

    def move(self, copy: Copy, arguments: Sequence[Any]) -> None:
        """Copy from the source to the destination."""
        given = iter(arguments)
        source_view, target_view = [ref_operations.RefView(m.ref, v.indexers, tuple([next(given) for _ in range(v.count)]))
                                    for m, v in zip(copy.memories, copy.views[:2])]
        copy_views(source_view, target_view, copy.add)

    def arrive(self, memory: Memory, number: Any, needed: Any) -> None:
        """Make the copies in the queue that signal a semaphore, in their order, until its count is what is needed."""
        own = [i for i, c in enumerate(self.copies) if c.memories[2] is memory]
        if not own or not self.has_queue or self.params.dma_execution_mode != "on_wait":
            return

        def pending() -> Any:
            return ((self.queue[:, _FLAGS] & _PENDING) != 0) & (self.queue[:, _SEMAPHORE] == number)

        def make_next(_: Any) -> Any:
            slot = where(pending(), self.queue[:, _ORDER], _LATEST).argmin()
            row = self.queue[slot, :]
            switch(row[_SITE] - np.int32(own[0]), [lambda i=i: self.move(self.copies[i], self._arguments(i, row)) for i in own])
            self.counts[number] += row[_BYTES]
            self.queue[slot, _FLAGS] = (row[_FLAGS] & np.int32(_UNSETTLED)) if self.params.detect_races else np.int32(0)
            return is_short()

        def is_short() -> Any:
            return (self.counts[number] < needed) & pending().any()

        while_loop(lambda more: more, make_next, is_short())

    def _arguments(self, i: int, row: Any) -> list[Any]:
        """Return the operands of a copy from its row in the queue."""
        start, found = _BOUNDS + 6 * self.rank, []
        for aval in self.copies[i].operands:
            found.append(to_dtype(reshape_to(row[start:start + aval.size], aval.shape), aval.dtype))
            start += aval.size
        return found

    def wait(self, eqn: JaxprEqn, views: Sequence[tuple], needed: Any, decrement: bool = True) -> None:
        """Wait until the count of a semaphore is what is needed."""
        if self.is_collecting:
            return
        memory = views[-1][0]
        number = self.semaphore(*views[-1])
        self.arrive(memory, number, needed)
        count = self.counts[number]
        is_short = count < needed
        self.record(Kind.ENDLESS_WAIT, is_short, self.report.site(f"the wait for {memory.name} {line_of(eqn)}"), 0, count,
                    needed)
        if self.clocks:
            self.clocks.wait(number)
        if not decrement:
            return
        self.counts[number] = where(is_short, np.int32(0), count - needed)
        if self.has_queue and any([c.memories[2] is memory for c in self.copies]):
            left = where(is_short, np.int32(0), self.awaited[number] - needed)
            self.awaited[number] = left
            queue = self.queue[...]
            arrived = (queue[:, _SEMAPHORE] == number) & (queue[:, _BYTES] > left) & (queue[:, _FLAGS] & _PENDING == 0)
            self.queue[:, _FLAGS] = where(arrived, np.int32(0), queue[:, _FLAGS])

    def run_scoped(self, eqn: JaxprEqn, values: list[Any]) -> list[Any]:
        """Run a function with scratch memory, which is uninitialized when it begins."""
        memories = self.allocate(eqn)
        results = self.evaluate(eqn.params["jaxpr"], [*values, *memories])
        if not self.is_collecting:
            arrays = [m.number for m in memories if m.first is None]
            if self.has_queue and arrays:
                self._check_unsettled(arrays, Kind.NEVER_WAITED, np.True_)
            for m in memories:
                if m.first is not None:
                    self._check_zero(m, np.True_)
        return results

    def allocate(self, eqn: JaxprEqn) -> list[Memory]:
        """Return the memory of an equation that allocates some. It is uninitialized."""
        memories = self.scoped[id(eqn)]
        for m in memories:
            if getattr(m.aval.memory_space, "value", None) == "hbm" and not self.params.allow_hbm_allocation_in_run_scoped:
                raise ValueError(f"run_scoped {line_of(eqn)} has memory in HBM, {m.aval}, which JAX cannot allocate. "
                                 f"Use pltpu.VMEM, or set allow_hbm_allocation_in_run_scoped of pltpu.InterpretParams.")
            if m.first is not None:
                for ref in (self.counts, self.awaited):
                    _fill_part(ref, m.first, m.aval.size)
            else:
                ref_operations.set(m.ref, ..., uninitialized(m.aval.inner_aval, m.aval.memory_space, self.params))
        return memories


# Rules of equations with references


def _new_ref(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
    [made] = s.as_interpreted(eqn, values)
    if not _is_semaphore(made.aval):
        return [made]
    s.barriers.append(Memory(0, made.ref, made.aval, "get_barrier_semaphore()", first=s.num_semaphores))
    return s.barriers[-1:]


def _get(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
    memory, *operands = values
    if memory.first is not None:  # the counts of all
        return [reshape_to(s.counts[memory.first:memory.first + memory.aval.size], memory.aval.shape)]
    outside = s.access(eqn, memory, eqn.params["tree"], operands, False)
    if not outside or s.params.out_of_bounds_reads == "raise" and s._limits(memory) == memory.aval.shape:
        return [ref_operations.get_p.bind(memory.ref, *operands, **eqn.params)]
    aval = eqn.outvars[0].aval
    inside = _inside(memory.aval.shape, eqn.params["tree"], operands, aval.shape)
    other = _full(aval, uninitialized_scalar(aval.dtype) if s.params.uninitialized_memory == "nan" else 0)
    return [masked_load_p.bind(memory.ref, inside, other, *operands, tree=eqn.params["tree"], has_other=True,
                               cache_modifier=None, eviction_policy=None, is_volatile=False)]


def _inside(shape: Sequence[int], indexers: Sequence[Any], operands: Sequence[Any], result: tuple[int, ...]) -> Any:
    """Return a mask of the elements of a read that are within the bounds."""
    arrays = [e for indexer in indexers for e in indexer if type(e) is Operand and np.shape(operands[e.number])]
    others = [e for indexer in indexers for e in indexer if type(e) is not Window]
    if len(indexers) != 1 or arrays and len(others) > 1:
        part = part_of(shape, indexers, operands)
        is_outside: Any = np.False_
        for _, _, outside in part.checks:
            is_outside = is_outside | outside
        return broadcast_in_dim_p.bind(~is_outside, shape=result, broadcast_dimensions=(), sharding=None)
    inside: Any = broadcast_in_dim_p.bind(np.True_, shape=result, broadcast_dimensions=(), sharding=None)
    dim = 0
    for e, n in zip(indexers[0], shape):
        if type(e) is Operand:
            index = operands[e.number]
            dims = tuple(range(dim, dim + np.ndim(index)))
            inside = inside & broadcast_in_dim_p.bind(
                (index >= 0) & (index < n), shape=result, broadcast_dimensions=dims, sharding=None)
            dim += len(dims)
        elif type(e) is Window:
            if type(e.start) is Operand:
                positions = operands[e.start.number] + np.int32(e.stride) * broadcasted_iota(_int32, result, dim)
                inside = inside & (positions >= 0) & (positions < n)
            dim += 1
    return inside


def _swap(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
    memory, new, *operands = values
    if memory.first is not None:
        s.counts[memory.first:memory.first + memory.aval.size] = reshape_to(new, (memory.aval.size,))
        return [new]
    outside = s.access(eqn, memory, eqn.params["tree"], operands, True)
    if outside and eqn.primitive.name == "swap" and s._limits(memory) != memory.aval.shape:
        mask = _inside(memory.aval.shape, eqn.params["tree"], operands, np.shape(new))
        return [masked_swap_p.bind(memory.ref, new, mask, *operands, tree=eqn.params["tree"], eviction_policy=None)]
    results = eqn.primitive.bind(memory.ref, new, *operands, **eqn.params)
    return results if eqn.primitive.multiple_results else [results]


def _masked(writes: bool) -> Callable:
    def rule(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        memory, *rest = values
        count = 2 if writes else 1 + eqn.params["has_other"]
        s.access(eqn, memory, eqn.params["tree"], rest[count:], writes, rest[writes])
        return [eqn.primitive.bind(memory.ref, *rest, **eqn.params)]

    return rule


def _dma_start(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
    views, _ = split_views(values, eqn.params["views"])
    if len(views) > 3 or _is_remote(eqn):  # with a semaphore of the source, or to another device: made at once
        results = s.as_interpreted(eqn, values)
        if _is_remote(eqn):
            s.check_device(eqn, f"the copy from {views[0][0].name} to {views[1][0].name}", values[-1])
            s.send(eqn, views, values[-1])
        return results
    s.start(eqn, views, eqn.params["add"])
    return []


def _dma_wait(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
    views, _ = split_views(values, eqn.params["views"])
    s.wait(eqn, views, np.int32(s._copy_size(views)))
    if s.clocks and not s.is_collecting:
        ends = views[:2] if not _is_remote(eqn) else views[:1] if eqn.params["is_send"] else views[1:2]
        site = s.report.site(f"the copy that is waited for {line_of(eqn)}")
        for memory, *part in ends:
            s.clocks.note(memory, bounds(part_of(memory.aval.shape, *part), s.rank), site, vector)
    return []


def _is_remote(eqn: JaxprEqn) -> bool:
    return eqn.params.get("axes") is not None


def _on_semaphore(rule: Callable) -> Callable:
    """Return the rule of an operation on a semaphore of this device. Others are done as in interpreted kernels."""
    def apply(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        [view], rest = split_views(values, eqn.params["views"])
        if not _is_remote(eqn):
            return rule(s, eqn, view, *rest)
        results = s.as_interpreted(eqn, values)
        s.check_device(eqn, f"the signal of {view[0].name}", rest[1])
        if s.clocks and not s.is_collecting:
            s.clocks.signal(rest[1], s.semaphore(*view))
        return results

    return apply


def _semaphore_signal(s: Simulator, eqn: JaxprEqn, view: tuple, increment: Any, *core: Any) -> Sequence[Any]:
    s.counts[s.semaphore(*view)] += to_dtype(increment, _int32)
    return []


def _semaphore_wait(s: Simulator, eqn: JaxprEqn, view: tuple, needed: Any) -> Sequence[Any]:
    s.wait(eqn, [view], to_dtype(needed, _int32), eqn.params["decrement"])
    return []


def _is_ready(s: Simulator, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
    views, rest = split_views(values, eqn.params["views"])
    needed = np.int32(s._copy_size(views)) if len(views) > 1 else to_dtype(rest[0], _int32)
    number = s.semaphore(*views[-1])
    if not s.is_collecting:
        s.arrive(views[-1][0], number, needed)
    return [s.counts[number] >= needed]


def _semaphore_read(s: Simulator, eqn: JaxprEqn, view: tuple) -> Sequence[Any]:
    return [s.counts[s.semaphore(*view)]]


_RULES: dict[str, Callable[[Simulator, JaxprEqn, list[Any]], Sequence[Any]]] = {
    "new_ref": _new_ref, "get": _get, "swap": _swap, "addupdate": _swap,
    "masked_load": _masked(False), "masked_swap": _masked(True), "dma_start": _dma_start, "dma_wait": _dma_wait,
    "semaphore_signal": _on_semaphore(_semaphore_signal), "semaphore_wait": _on_semaphore(_semaphore_wait),
    "semaphore_read": _on_semaphore(_semaphore_read), "semaphore_is_ready": _is_ready,
    "run_scoped": lambda s, eqn, values: s.run_scoped(eqn, values),
    "empty_ref": lambda s, eqn, values: s.allocate(eqn) if _is_allocation(eqn) else s.as_interpreted(eqn, values)}


def _scoped_avals(eqn: JaxprEqn) -> list[AbstractRef]:
    if _is_allocation(eqn):
        return [v.aval for v in eqn.outvars]
    jaxpr = eqn.params["jaxpr"]
    return [v.aval for v in jaxpr.invars[len(jaxpr.invars) - eqn.params["count"]:]]


def _full(aval: Any, value: Any) -> Any:
    return broadcast_in_dim_p.bind(np.asarray(value).astype(aval.dtype)[()], shape=aval.shape, broadcast_dimensions=(),
                                   sharding=None)


def _fill(ref: Any, value: int) -> None:
    aval = tracing.aval_of(ref)
    ref_operations.set(ref, ..., _full(aval, value))


def _fill_part(ref: Any, start: int, size: int) -> None:
    if size:
        ref[start:start + size] = _full(ShapedArray((size,), _int32), 0)


# The kernel


def simulated(jaxpr: Jaxpr, mapping: GridMapping, params: InterpretParams, semantics: Sequence[Any] | None,
              aliases: Sequence[tuple[int, int]]) -> tuple[Jaxpr, list[Any], GridMapping, Report]:
    """Rewrite a kernel to one that checks itself, with one output more: what is found.

    Returns:
        The kernel, its constants, its grid and blocks, and what turns the findings to messages.
    """
    label, grid = jaxpr.debug_info.label, [mapping.grid[d] for d in mapping.kernel_axes]
    order = Order(grid, params, semantics, label)
    report = Report(label, grid, params.on_race, params.grid_point_recorder, order.points)
    simulator = Simulator(jaxpr, mapping, params, report, order, dict(aliases))
    own = [v.aval for v in jaxpr.invars]
    found = AbstractRef(ShapedArray((CAPACITY + 1, FIELDS), _int32), MemorySpace.ANY)
    first = len(own) - mapping.num_scratch_operands
    origin = jaxpr.debug_info.with_unknown_names()

    def trace() -> tuple[Jaxpr, list[Any], list[AbstractRef]]:
        scratch = [*simulator.scoped_avals, *simulator.state_avals()]
        traced, consts = tracing.trace_to_jaxpr(simulator.run, [*own[:first], found, *own[first:], *scratch], origin)
        return traced, list(consts), scratch

    if has_concurrency(jaxpr):
        simulator.is_collecting = True
        trace()
        simulator.is_collecting = False
        simulator.copies.sort(key=lambda c: c.memories[2].first or 0)
        report.sites = [f"the copy from {c.memories[0].name} to {c.memories[1].name} that starts {line_of(c.eqn)}"
                        for c in simulator.copies]
    traced, consts, scratch = trace()
    return traced, consts, order.reordered(mapping).with_state(found.inner_aval, scratch), report
