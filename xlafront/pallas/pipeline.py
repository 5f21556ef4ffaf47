"""`emit_pipeline`: a loop within a kernel over blocks of arrays in main memory, which are copied while others are computed.

Each array has two buffers, or as many as its `pipeline_mode` says. While the body works on one, the next blocks are copied into
the others. A block that stays the same from one step to the next is copied once, so that outputs can accumulate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xlafront.control.cond import cond
from xlafront.control.while_loop import fori_loop
from xlafront.core import errors, tracing, tree
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.traceback_filter import boundary
from xlafront.lax.elementwise import add, and_, div, ge, lt, max_, min_, mul, ne, or_, rem_, sub
from xlafront.lax.named_axes import axis_index, resolve_axes
from xlafront.lax.ref_indexing import Slice
from xlafront.pallas.bounded_copies import BoundedCopy
from xlafront.pallas.buffered_ref import (
    BufferedRef,
    block_sizes,
    flat_specs,
    make_pipeline_allocations,
)
from xlafront.pallas.kernel_functions import run_scoped
from xlafront.pallas.kernel_mlir import bit_width
from xlafront.pallas.kernel_operation import is_ref_or_view
from xlafront.pallas.primitives import index_aval, kernel_scope, multiple_of, num_programs, program_id
from xlafront.pallas.semaphores import make_async_copy
from xlafront.pallas.specs import Blocked, BlockSpec, BoundedSlice, Buffered, Element, Indirect, grid_of
from xlafront.pallas.tpu import SMEM, GridDimensionSemantics

_int32 = index_aval.dtype


@dataclasses.dataclass(frozen=True)
class PipelineStep:
    """The position of a step of a pipeline.

    Args:
        index: Indices along the axes of the grid.
        local_index: Number of the step, of those of this core.

    Example:
        >>> pl.tpu.PipelineStep((1, 2), 5).index
        (1, 2)
    """

    index: tuple[Any, ...]
    local_index: Any


@boundary
def emit_pipeline(body: Callable[..., None], *, grid: Any, in_specs: Any = (), out_specs: Any = (), tiling: Any = None,
                  core_axis: int | None = None, core_axis_name: Hashable | None = None, dimension_semantics: Any = None,
                  trace_scopes: bool = True, no_pipelining: bool = False, output_wait_read_only: bool = False,
                  _explicit_indices: bool = False) -> Callable[..., None]:
    """Make a function for kernels that runs a body over a grid, and copies blocks of references in and out meanwhile.

    Args:
        body: Function of a reference to a block of each input and output, and of the scratch references.
        grid: Size of the grid along each axis; `pl.program_id` in the body returns the index.
        in_specs, out_specs: A `pl.BlockSpec` for each reference. Of blocks that end beyond the reference, the part within is
            copied. For a dimension `pl.BoundedSlice(n)` the index map returns `pl.ds(start, size)`, a slice of `n` positions at
            most. The padding of `pl.Element` is ignored, as in JAX: index maps return positions in the reference. The
            `pipeline_mode`, a `pl.Buffered`, is the number of buffers; the default is 2. Blocks whose
            `memory_space` is `pltpu.HBM` are not copied: the body gets references to parts of the array.
        tiling: Tiling in memory. Ignored.
        core_axis: Axis of the kernel's grid whose programs share the steps, each a part of one parallel axis.
        core_axis_name: Axis of the mesh of cores, or of a `shard_map`, that shares the steps, in place of `core_axis`.
        dimension_semantics: Semantics of the axes, `pltpu.PARALLEL` or `pltpu.ARBITRARY`. Steps run in order; cores share
            the first parallel axis.
        trace_scopes: Ignored.
        no_pipelining: If True, there is one buffer for each array.
        output_wait_read_only: Ignored: copies of outputs are waited for until they are complete.
        _explicit_indices: If True, the body takes the `pltpu.PipelineStep` first.

    Returns:
        A function of the references, in main memory. Its argument `scratches` has further references for the body,
        `allocations` the buffers, as `pltpu.make_pipeline_allocations` describes them; by default it allocates them.

    Example:
        >>> def double(x_ref, o_ref):
        ...     o_ref[...] = 2 * x_ref[...]
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu.emit_pipeline(double, grid=4, in_specs=[rows], out_specs=[rows])(x_ref, o_ref)
        >>> main = pl.BlockSpec(memory_space=pl.ANY)
        >>> pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((32, 128), "float32"), in_specs=[main], out_specs=main,
        ...                interpret=True)(xnp.ones((32, 128))).sum()
        Array(8192., dtype=float32)
    """
    if not callable(body):
        raise errors.not_callable("emit_pipeline", body)
    sizes = grid_of(grid)
    inputs, outputs = flat_specs("in_specs", in_specs), flat_specs("out_specs", out_specs)
    if no_pipelining:
        inputs, outputs = ([s.replace(pipeline_mode=Buffered(1)) for s in specs] for specs in (inputs, outputs))
    specs = [*inputs, *outputs]
    shared_axis = _shared_axis(sizes, core_axis, core_axis_name, dimension_semantics)

    @boundary
    def pipeline(*refs: Any, scratches: Sequence[Any] = (), allocations: Any = None) -> None:
        if len(refs) != len(specs) or not all(map(is_ref_or_view, refs)):
            raise TypeError(f"the pipeline takes {len(specs)} references, one for each BlockSpec, got {len(refs)} arguments: "
                            f"{', '.join(map(errors.short, refs))}.")
        for i, (spec, ref) in enumerate(zip(specs, refs)):
            _check_blocks(i, spec, ref)

        def run(*buffers: BufferedRef) -> None:
            windows = [_Window(b, spec, ref) for b, spec, ref in zip(buffers, specs, refs)]
            bounded = [w for w in windows if w.is_output and w.bounded]
            run_scoped(lambda *memory: run_windows(windows, bounded, memory), *[
                SMEM((w.count, len(w.bounded)), _int32) for w in bounded])

        def run_windows(windows: list[_Window], bounded: list[_Window], memory: Sequence[Any]) -> None:
            for w, ref in zip(bounded, memory):
                w.sizes_ref = ref
            portion = _portion_of_core(sizes, shared_axis, core_axis, core_axis_name)
            _Pipeline(body, sizes, *portion, windows, scratches, _explicit_indices).run()

        if allocations is None:
            run_scoped(run, *make_pipeline_allocations(*refs, in_specs=inputs, out_specs=outputs))
        else:
            given = tree.leaves(allocations, is_leaf=lambda x: isinstance(x, BufferedRef))
            if outputs and len(given) == len(inputs):  # those of the outputs are allocated here
                run_scoped(lambda *buffers: run(*_checked_allocations([*given, *buffers], specs)),
                           *make_pipeline_allocations(*refs[len(inputs):], out_specs=outputs))
            else:
                run(*_checked_allocations(given, specs))

    return pipeline


@boundary
def emit_pipeline_with_allocations(body: Callable[..., None], *, grid: Any, in_specs: Any = (), out_specs: Any = ()
                                   ) -> tuple[Callable[..., None], Callable[..., tuple[BufferedRef, ...]]]:
    """Make a pipeline, and a function that describes its buffers, so that several runs can share them.

    Args:
        body, grid, in_specs, out_specs: As for `emit_pipeline`.

    Returns:
        The pipeline, which takes the buffers as `allocations`, and a function of the references that describes the buffers.

    Example:
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        >>> def kernel(x_ref, o_ref):
        ...     run, allocations_of = pl.tpu.emit_pipeline_with_allocations(
        ...         lambda x_ref, o_ref: pl.tpu.sync_copy(x_ref, o_ref), grid=4, in_specs=[rows], out_specs=[rows])
        ...     pl.run_scoped(lambda buffers: run(x_ref, o_ref, allocations=buffers), allocations_of(x_ref, o_ref))
    """
    def allocations_of(*refs: Any) -> tuple[BufferedRef, ...]:
        return make_pipeline_allocations(*refs, in_specs=in_specs, out_specs=out_specs, grid=grid)

    return emit_pipeline(body, grid=grid, in_specs=in_specs, out_specs=out_specs), allocations_of


def _check_blocks(number: int, spec: BlockSpec, ref: Any) -> None:
    shape = block_sizes(spec)
    name = f"emit_pipeline: the block shape of reference {number}, {shape},"
    if shape is not None and (len(shape) != len(ref.shape) or any([(n or 1) > m for n, m in zip(shape, ref.shape)])):
        raise ValueError(f"{name} has more dimensions or larger ones than the reference, {ref.shape}. Choose smaller blocks.")
    for b in spec.block_shape or ():
        if isinstance(b, Indirect):
            raise NotImplementedError(f"{name} has the dimension {b}, which pipelines cannot have. Use sizes, pl.Element "
                                      f"or pl.BoundedSlice.")
    mode = spec.pipeline_mode
    if mode is not None and not isinstance(mode, Buffered) or getattr(mode, "prefetched_count", 0):
        raise NotImplementedError(f"emit_pipeline: the pipeline_mode of reference {number} is {errors.short(mode)}; it takes "
                                  f"pl.Buffered(count) without blocks that are prefetched outside of it.")


def prefetch(buffers: Sequence[BufferedRef], specs: Sequence[BlockSpec], refs: Sequence[Any], sizes: tuple, *, core_axis: Any,
             core_axis_name: Any, dimension_semantics: Any) -> None:
    """Start to copy the first blocks of inputs of a pipeline, `prefetched_count` of each."""
    for i, (spec, ref) in enumerate(zip(specs, refs)):
        _check_blocks(i, spec, ref)
    windows = [_Window(b, spec, ref) for b, spec, ref in zip(buffers, specs, refs)]
    shared_axis = _shared_axis(sizes, core_axis, core_axis_name, dimension_semantics)
    portion = _portion_of_core(sizes, shared_axis, core_axis, core_axis_name)
    _Pipeline(_no_body, sizes, *portion, windows, (), False).prefetch()


def _no_body(*refs: Any) -> None:
    """Stand in for the body of a pipeline that only copies."""


def _checked_allocations(buffers: list[Any], specs: Sequence[BlockSpec]) -> list[BufferedRef]:
    if len(buffers) != len(specs) or not all([isinstance(b, BufferedRef) for b in buffers]):
        raise TypeError(f"allocations of the pipeline takes {len(specs)} BufferedRefs, one for each BlockSpec, got "
                        f"{errors.short(buffers)}. pltpu.make_pipeline_allocations describes them.")
    for i, (b, spec) in enumerate(zip(buffers, specs)):
        if block_sizes(b.spec) != block_sizes(spec) or b.is_buffered and not is_ref_or_view(b.window_ref):
            raise ValueError(f"allocations[{i}] of the pipeline has buffers of blocks of shape {block_sizes(b.spec)} in "
                             f"{errors.short(b.window_ref)}, reference {i} has blocks of shape {block_sizes(spec)}. Pass "
                             f"the BufferedRef that pl.run_scoped has allocated for it.")
    return buffers


# Cores that share the steps


def _shared_axis(sizes: tuple, core_axis: Any, core_axis_name: Any, semantics: Any) -> int | None:
    """Return the axis of the grid whose steps are shared: the first that is parallel."""
    if core_axis is None and core_axis_name is None:
        return None
    names = [getattr(x, "value", x) for x in semantics or ()]
    if semantics is not None and len(names) != len(sizes):
        raise ValueError(f"emit_pipeline: dimension_semantics has {len(names)} entries for a grid of {len(sizes)} axes.")
    parallel = [i for i, name in enumerate(names) if name == GridDimensionSemantics.PARALLEL.value]
    if not parallel:
        raise ValueError(f"emit_pipeline: cores share the steps of a parallel axis, and dimension_semantics={semantics} has "
                         f"none. Give pltpu.PARALLEL for an axis whose steps can run in any order.")
    return parallel[0]


def _portion_of_core(sizes: tuple, shared: int | None, core_axis: Any, core_axis_name: Any) -> tuple[list[Any], list[Any]]:
    """Return the sizes of the grid that this core runs, and the first index along each axis."""
    starts: list[Any] = [0] * len(sizes)
    grid = [n if isinstance(n, tracing.Tracer) else int(n) for n in sizes]
    if shared is None:
        return grid, starts
    if core_axis_name is not None:
        core, (_, count) = axis_index(core_axis_name), resolve_axes(core_axis_name, "emit_pipeline")
    else:
        core, count = program_id(core_axis), num_programs(core_axis)
    n = grid[shared]
    if isinstance(n, int) and isinstance(count, int) and n % count == 0:
        grid[shared] = n // count
        starts[shared] = mul(core, np.int32(n // count))
    else:  # the first cores run one step more
        each, more = div(_as_int32(n), _as_int32(count)), rem_(_as_int32(n), _as_int32(count))
        grid[shared] = add(each, to_dtype(lt(core, more), _int32))
        starts[shared] = add(mul(core, each), min_(core, more))
    return grid, starts


class _Window:
    """A reference, its blocks, and their buffers.

    Attributes:
        bounded: Dimensions of blocks whose size is known at run time: slices, and blocks that can end beyond the edge.
        sizes_ref: Their sizes for each buffer of an output, until the copy is waited for.
    """

    sizes_ref: Any = None

    def __init__(self, buffers: BufferedRef, spec: BlockSpec, ref: Any) -> None:
        self.buffers, self.spec, self.ref = buffers, spec, ref
        self.shape: Any = block_sizes(spec)
        self.count = buffers.buffer_count if buffers.is_buffered else 0
        self.is_input = buffers.is_input and buffers.is_buffered
        self.is_output = buffers.is_output and buffers.is_buffered
        dims = [d for d, n in enumerate(self.shape or ()) if n is not None]
        self.bounded = [i for i, d in enumerate(dims) if self._is_bounded(d)]
        self.dims = dims
        if self.bounded and not buffers.is_buffered:
            raise ValueError(f"emit_pipeline: blocks of {spec} are in main memory, where their sizes must be static and divide "
                             f"the shape of the reference, {ref.shape}. Leave memory_space out, so that they are copied.")

    def dim(self, d: int) -> Any:
        """Return the kind of a dimension of blocks: a size, `Element` or `BoundedSlice`."""
        b = (self.spec.block_shape or ())[d]
        return b.block_size if isinstance(b, Blocked) else b

    def _is_bounded(self, d: int) -> bool:
        n, full = self.dim(d), self.ref.shape[d]
        if isinstance(n, Element):
            return self.buffers.is_buffered and n.block_size != full
        return isinstance(n, BoundedSlice) or full % n != 0

    def index(self, indices: Sequence[Any]) -> tuple:
        """Return the index of the block in each dimension; for slices, the start and the size."""
        shape: Any = self.shape
        found = self.spec.index_map(*indices) if self.spec.index_map else (0,) * len(shape)
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(shape):
            raise ValueError(f"an index map of emit_pipeline must return {len(shape)} values for the block shape {shape}; it "
                             f"returned {len(found)}.")
        return tuple([self._slice(d, i) if isinstance(self.dim(d), BoundedSlice) else _as_int32(i)
                      for d, i in enumerate(found)])

    def _slice(self, d: int, i: Any) -> tuple[Any, Any]:
        if isinstance(i, slice) and isinstance(i.stop, int) and i.step in (None, 1):
            i = Slice(i.start or 0, i.stop - (i.start or 0))
        if not isinstance(i, Slice) or i.stride != 1:
            raise TypeError(f"an index map of emit_pipeline must return pl.ds(start, size) for the dimension {self.dim(d)}; it "
                            f"returned {errors.short(i)}.")
        return _as_int32(i.start), _as_int32(i.size)

    def starts(self, index: tuple) -> list[Any]:
        """Return the start of the block in each dimension, or its index where blocks have no dimension."""
        kinds = map(self.dim, range(len(index)))
        return [i[0] if isinstance(b, BoundedSlice) else _times(i, b) if isinstance(b, int) else i
                for i, b in zip(index, kinds)]

    def sizes(self, index: tuple) -> list[Any]:
        """Return the sizes of the block in the dimensions that are bounded."""
        found = []
        for d in [self.dims[i] for i in self.bounded]:
            n, full = self.dim(d), self.ref.shape[d]
            if isinstance(n, BoundedSlice):
                found.append(index[d][1])
                continue
            tile, start = self._tile(d), index[d] if isinstance(n, Element) else mul(index[d], np.int32(n))
            rest = sub(np.int32(-(-full // tile) * tile), start)  # (arrays in main memory have full tiles)
            found.append(multiple_of(min_(rest, np.int32(self.shape[d])), self._unit(d)))
        return found

    def _unit(self, d: int) -> int:
        """Return a divisor of the sizes of blocks in a bounded dimension."""
        return 1 if isinstance(self.dim(d), BoundedSlice) else math.gcd(self._tile(d), self.shape[d])

    def _tile(self, d: int) -> int:
        """Return the unit of positions that copies of a dimension have."""
        from_last = len(self.ref.shape) - d
        bits = max(bit_width(np.dtype(self.ref.dtype)), 8)
        return {1: 128, 2: 8 * 32 // bits}.get(from_last, 1) if len(self.ref.shape) > 1 else 128 * 32 // bits

    def block(self, starts: Sequence[Any]) -> Any:
        """Return the part of the reference that is a block."""
        sizes: Any = self.shape
        return self.ref.at[tuple([i if n is None else Slice(int(i) if isinstance(i, np.integer) else i, n)
                                  for i, n in zip(starts, sizes)])]

    def current(self, indices: Sequence[Any], number: Any) -> Any:
        """Return the reference for the body of a step: to a buffer, or to the block where it is."""
        if self.buffers.is_buffered:
            return self.buffers.window_ref.at[self.slot(number)]
        return self.ref if self.shape is None else self.block(self.starts(self.index(indices)))

    def _copy(self, starts: Sequence[Any], number: Any, sizes: Sequence[Any], is_out: bool) -> Any:
        slot, block = self.slot(number), self.block(starts)
        semaphore = (self.buffers.sem_sends if is_out else self.buffers.sem_recvs).at[slot]
        if not self.bounded:
            buffer = self.buffers.window_ref.at[slot]
            return make_async_copy(*((buffer, block) if is_out else (block, buffer)), semaphore)
        buffer = self.buffers.window_ref.at[(slot, *[slice(None)] * len(self.dims))]
        return BoundedCopy(*((buffer, block) if is_out else (block, buffer)), semaphore, dict(zip(self.bounded, sizes)))

    def copy_in(self, index: tuple, number: Any) -> Any:
        """Return the copy of a block into the buffer for block number `number`."""
        return self._copy(self.starts(index), number, self.sizes(index), False)

    def start_out(self, index: tuple, number: Any) -> None:
        """Start the copy of a block from its buffer."""
        sizes = self.sizes(index)
        for k, size in enumerate(sizes):
            self.sizes_ref[self.slot(number), k] = size
        self._copy(self.starts(index), number, sizes, True).start()

    def wait_out(self, number: Any) -> None:
        """Wait for the copy of a block from its buffer. The size is what counts: the block named is the first one."""
        sizes = [multiple_of(self.sizes_ref[self.slot(number), k], self._unit(self.dims[i]))
                 for k, i in enumerate(self.bounded)]
        self._copy([np.int32(0)] * len(self.shape or ()), number, sizes, True).wait()

    def slot(self, number: Any) -> Any:
        return np.int32(0) if self.count == 1 else rem_(number, np.int32(self.count))


def _as_int32(i: Any) -> Any:
    return to_dtype(i, _int32) if isinstance(i, tracing.Tracer) else np.int32(i)


def _times(i: Any, n: int) -> Any:
    return int(i) * n if isinstance(i, np.integer) else mul(i, np.int32(n))


class _Pipeline:
    """The loop. Its carry has, for each window, the number of the current block and the number of blocks copied in.

    The block of step `i + count - 1` is copied in at step `i`, if it differs from the one before: its buffer is that of a block
    which an earlier step was the last to use.
    """

    def __init__(self, body: Callable, grid: tuple, sizes: list[Any], starts: list[Any], windows: list[_Window],
                 scratches: Sequence[Any], explicit: bool) -> None:
        self.body, self.windows, self.scratches, self.explicit = body, windows, scratches, explicit
        self.grid, self.sizes, self.starts = grid, sizes, starts
        self.buffered = [w for w in windows if w.buffers.is_buffered]
        is_static = all([isinstance(n, int) for n in self.sizes])
        self.steps: Any = math.prod(self.sizes) if is_static else self._product()

    def _product(self) -> Any:
        steps: Any = np.int32(1)
        for n in self.sizes:
            steps = mul(steps, _as_int32(n))
        return steps

    def indices(self, step: Any) -> list[Any]:
        """Return the indices along the axes of the grid; the last axis varies fastest."""
        found: list[Any] = []
        for n, start in zip(reversed(self.sizes), reversed(self.starts)):
            i = rem_(step, _as_int32(n))
            found.insert(0, i if isinstance(start, int) else add(start, i))
            step = div(step, _as_int32(n))
        return found

    def changes(self, w: _Window, step: Any) -> Any:
        """True if the block of a step differs from the one before."""
        before = max_(sub(step, np.int32(1)), np.int32(0))  # (index maps can read memory at their arguments)
        return _differs(w.index(self.indices(step)), w.index(self.indices(before)))

    def run(self) -> None:
        if isinstance(self.steps, int):
            if self.steps:
                self.loop()
        else:
            cond(ne(self.steps, np.int32(0)), self.loop, lambda: None)

    def loop(self) -> None:
        zero = np.int32(0)
        copied = []
        for w in self.buffered:
            count = zero
            for step in range(w.count - 1 if w.is_input else 0):
                count = self.copy_in_ahead(w, np.int32(step), count, step < w.buffers.prefetched_count)
            copied.append(count)
        numbers = [zero] * len(self.buffered)
        numbers, _ = fori_loop(zero, _as_int32(self.steps), self.step, (numbers, copied))
        for w, number in zip(self.buffered, numbers):
            for back in range(w.count if w.is_output else 0):  # copies of the last blocks are on their way
                before = sub(number, np.int32(back))
                _when(ge(before, zero), lambda w=w, before=before: w.wait_out(before))

    def prefetch(self) -> None:
        """Start to copy the blocks of the first steps, of each window as many as its buffers say."""
        for w in self.buffered:
            count: Any = np.int32(0)
            for step in range(w.buffers.prefetched_count):
                count = self.copy_in_ahead(w, np.int32(step), count)

    def copy_in_ahead(self, w: _Window, step: Any, copied: Any, is_started: bool = False) -> Any:
        """Start to copy the block of a step, if it is a new one; return the number of blocks copied."""
        is_new = or_(_equal(step, np.int32(0)), self.changes(w, step))
        is_new = and_(is_new, lt(step, _as_int32(self.steps)))

        def start() -> None:
            if w.is_output:  # the block that was in this buffer
                old = sub(copied, np.int32(w.count))
                _when(ge(old, np.int32(0)), lambda: w.wait_out(old))
            w.copy_in(w.index(self.indices(step)), copied).start()

        if not is_started:
            _when(is_new, start)
        return add(copied, to_dtype(is_new, _int32))

    def step(self, i: Any, carry: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
        here, after = self.indices(i), add(i, np.int32(1))
        is_first, is_last = _equal(i, np.int32(0)), _equal(i, sub(_as_int32(self.steps), np.int32(1)))
        numbers, copied = carry
        new_copied = []
        for w, number, count in zip(self.buffered, numbers, copied):
            is_new = or_(is_first, self.changes(w, i))
            if w.is_input:
                count = self.copy_in_ahead(w, add(i, np.int32(w.count - 1)), count)
                _when(is_new, w.copy_in(w.index(here), number).wait)
            elif w.is_output:
                old = sub(number, np.int32(w.count))
                _when(and_(is_new, ge(old, np.int32(0))), lambda w=w, old=old: w.wait_out(old))
            new_copied.append(count)
        self.call_body(PipelineStep(tuple(here), i), numbers)
        new_numbers = []
        for w, number in zip(self.buffered, numbers):
            changes = self.changes(w, after)
            if w.is_output:
                _when(or_(changes, is_last), lambda w=w, number=number: w.start_out(w.index(here), number))
            new_numbers.append(add(number, to_dtype(and_(changes, _not(is_last)), _int32)))
        return new_numbers, new_copied

    def call_body(self, step: PipelineStep, numbers: list[Any]) -> None:
        number_of = iter(numbers)
        refs = [w.current(step.index, next(number_of) if w.buffers.is_buffered else None) for w in self.windows]
        scope = kernel_scope.get()
        if scope is None:
            raise ValueError("emit_pipeline is only for kernels; there is none here.")
        inner = kernel_scope.set(scope._replace(indices=step.index, grid=self.grid))
        try:
            self.body(*[step] * self.explicit, *refs, *self.scratches)
        finally:
            kernel_scope.reset(inner)


def _when(condition: Any, action: Callable[[], None]) -> None:
    cond(condition, action, lambda: None)


def _not(x: Any) -> Any:
    return ne(x, np.True_)


def _equal(x: Any, y: Any) -> Any:
    return _not(ne(x, y))


def _differs(x: tuple, y: tuple) -> Any:
    """True if two blocks differ. Dimensions whose index is a constant do not."""
    differing: Any = np.False_
    for i, j in zip(tree.leaves(x), tree.leaves(y)):
        if not (isinstance(i, np.integer) and isinstance(j, np.integer)):
            differing = or_(differing, ne(i, j))
    return differing
