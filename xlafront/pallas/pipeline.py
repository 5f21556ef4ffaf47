"""`emit_pipeline`: a loop within a kernel over blocks of arrays in main memory, which are copied while others are computed.

Each array has two buffers. While the body works on one, the next block is copied into the other. A block that stays the same
from one step to the next is copied once, so that outputs can accumulate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.control.cond import cond
from xlafront.control.while_loop import fori_loop
from xlafront.core import errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.traceback_filter import boundary
from xlafront.lax.elementwise import add, and_, div, mul, ne, or_, rem_, select, sub
from xlafront.lax.ref_indexing import Slice
from xlafront.pallas.kernel_functions import run_scoped
from xlafront.pallas.kernel_operation import is_ref_or_view
from xlafront.pallas.primitives import index_aval, kernel_scope
from xlafront.pallas.semaphores import SemaphoreType, make_async_copy
from xlafront.pallas.specs import BlockSpec, MemoryRef, Squeezed, grid_of
from xlafront.pallas.tpu import VMEM

_int32 = index_aval.dtype


@boundary
def emit_pipeline(body: Callable[..., None], *, grid: Any, in_specs: Any = (), out_specs: Any = (), tiling: Any = None,
                  core_axis: Any = None, core_axis_name: Any = None, dimension_semantics: Any = None,
                  trace_scopes: bool = True, no_pipelining: bool = False, _explicit_indices: bool = False
                  ) -> Callable[..., None]:
    """Make a function for kernels that runs a body over a grid, and copies blocks of references in and out meanwhile.

    Args:
        body: Function of a reference to a block of each input and output, and of the scratch references.
        grid: Size of the grid along each axis; `pl.program_id` in the body returns the index.
        in_specs, out_specs: A `pl.BlockSpec` for each reference. Sizes of blocks divide those of the references.
        tiling: Tiling in memory. Ignored.
        core_axis, core_axis_name: Axes of the grid that cores share. Not supported.
        dimension_semantics: Semantics of the axes. Ignored: the steps run in order.
        trace_scopes: Ignored.
        no_pipelining: Ignored: results are the same.
        _explicit_indices: If True, the body takes the tuple of indices first.

    Returns:
        A function of the references, in main memory, and of `scratches`, further references for the body.

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
    if core_axis is not None or core_axis_name is not None:
        raise NotImplementedError("emit_pipeline cannot share the steps of a grid among cores. Leave core_axis out.")
    sizes = grid_of(grid)
    inputs, outputs = _specs("in_specs", in_specs), _specs("out_specs", out_specs)

    @boundary
    def pipeline(*refs: Any, scratches: Sequence[Any] = ()) -> None:
        specs = [*inputs, *outputs]
        if len(refs) != len(specs) or not all(map(is_ref_or_view, refs)):
            raise TypeError(f"the pipeline takes {len(specs)} references, one for each BlockSpec, got {len(refs)} arguments: "
                            f"{', '.join(map(errors.short, refs))}.")
        windows = [_Window(i, spec, ref, i >= len(inputs)) for i, (spec, ref) in enumerate(zip(specs, refs))]
        buffered = [w for w in windows if w.shape is not None]
        memory = [(MemoryRef(ShapedArray((2, *w.sizes), w.ref.dtype), w.memory_space), SemaphoreType.DMA((2,)))
                  for w in buffered]

        def run(*buffers: Any) -> None:
            for w, (buffer, semaphores) in zip(buffered, buffers):
                w.buffer, w.semaphores = buffer, semaphores
            _Pipeline(body, sizes, windows, scratches, _explicit_indices).run()

        run_scoped(run, *memory)

    return pipeline


def _specs(argument: str, specs: Any) -> list[BlockSpec]:
    leaves = tree.leaves(specs, is_leaf=lambda x: isinstance(x, BlockSpec))
    for s in leaves:
        if not isinstance(s, BlockSpec):
            raise TypeError(f"{argument} of emit_pipeline takes BlockSpecs, got {errors.short(s)}.")
    return leaves


class _Window:
    """A reference, its blocks, and their two buffers."""

    def __init__(self, number: int, spec: BlockSpec, ref: Any, is_output: bool) -> None:
        self.spec, self.ref, self.is_output = spec, ref, is_output
        self.shape = None if spec.block_shape is None else tuple([
            None if n is None or type(n) is Squeezed else getattr(n, "block_size", n) for n in spec.block_shape])
        self.memory_space = spec.memory_space or VMEM
        self.buffer = self.semaphores = None
        if self.shape is None:
            return
        if len(self.shape) != len(ref.shape) or any([m % (n or 1) for n, m in zip(self.shape, ref.shape)]):
            raise ValueError(f"emit_pipeline: the block shape of reference {number}, {self.shape}, must divide the shape of "
                             f"the reference, {ref.shape}. Pad the array, or choose other blocks.")
        self.sizes = tuple([n for n in self.shape if n is not None])

    def index(self, indices: Sequence[Any]) -> tuple:
        """Return the index of the block in each dimension."""
        shape: Any = self.shape
        found = self.spec.index_map(*indices) if self.spec.index_map else (0,) * len(shape)
        found = found if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(shape):
            raise ValueError(f"an index map of emit_pipeline must return {len(shape)} values for the block shape {shape}; it "
                             f"returned {len(found)}.")
        return tuple([_as_int32(i) for i in found])

    def block(self, index: tuple) -> Any:
        """Return the block of the reference."""
        key = [i if n is None else Slice(_times(i, n), n) for i, n in zip(index, self.shape or ())]
        return self.ref.at[tuple(key)]

    def copy(self, index: tuple, slot: Any) -> Any:
        """Return the copy of a block into a buffer, or from it for outputs."""
        ends = self.block(index), self.buffer.at[slot]  # type: ignore[attr-defined]
        return make_async_copy(*(ends[::-1] if self.is_output else ends), self.semaphores.at[slot])  # type: ignore[attr-defined]


def _as_int32(i: Any) -> Any:
    return to_dtype(i, _int32) if isinstance(i, tracing.Tracer) else np.int32(i)


def _times(i: Any, n: int) -> Any:
    return int(i) * n if isinstance(i, np.integer) else mul(i, np.int32(n))


class _Pipeline:
    """The loop. Its carry has, for each window, the number of blocks before the current one."""

    def __init__(self, body: Callable, sizes: tuple, windows: list[_Window], scratches: Sequence[Any], explicit: bool) -> None:
        self.body, self.windows, self.scratches, self.explicit = body, windows, scratches, explicit
        self.sizes = [n if isinstance(n, tracing.Tracer) else int(n) for n in sizes]
        self.buffered = [w for w in windows if w.shape is not None]
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
        for n in reversed(self.sizes):
            found.insert(0, rem_(step, _as_int32(n)))
            step = div(step, _as_int32(n))
        return found

    def run(self) -> None:
        if isinstance(self.steps, int):
            if self.steps:
                self.loop()
        else:
            cond(ne(self.steps, np.int32(0)), self.loop, lambda: None)

    def loop(self) -> None:
        first = self.indices(np.int32(0))
        for w in self.buffered:
            if not w.is_output:
                w.copy(w.index(first), np.int32(0)).start()
        counts = fori_loop(np.int32(0), _as_int32(self.steps), self.step, [np.int32(0)] * len(self.buffered))
        last = self.indices(sub(_as_int32(self.steps), np.int32(1)))
        for w, count in zip(self.buffered, counts):
            if w.is_output:  # one or two copies are on their way
                w.copy(w.index(last), rem_(count, np.int32(2))).wait()
                _when(ne(count, np.int32(0)), w.copy(w.index(last), rem_(add(count, np.int32(1)), np.int32(2))).wait)

    def step(self, i: Any, counts: list[Any]) -> list[Any]:
        here, after = self.indices(i), self.indices(add(i, np.int32(1)))
        before = self.indices(sub(i, np.int32(1)))
        is_first, is_last = _equal(i, np.int32(0)), _equal(i, sub(_as_int32(self.steps), np.int32(1)))
        slots, changes = [], []
        for w, count in zip(self.buffered, counts):
            index, slot = w.index(here), rem_(count, np.int32(2))
            changes_next = _differs(index, w.index(after))
            is_new = or_(is_first, _differs(index, w.index(before)))
            slots.append(slot)
            changes.append((index, changes_next))
            if w.is_output:
                _when(and_(is_new, _at_least(count, 2)), w.copy(index, slot).wait)
            else:
                following = w.copy(w.index(after), sub(np.int32(1), slot))
                _when(and_(changes_next, _not(is_last)), following.start)
                _when(is_new, w.copy(index, slot).wait)
        self.call_body(here, slots)
        new = []
        for w, count, slot, (index, changes_next) in zip(self.buffered, counts, slots, changes):
            if w.is_output:
                _when(or_(changes_next, is_last), w.copy(index, slot).start)
            new.append(select(and_(changes_next, _not(is_last)), count, add(count, np.int32(1))))
        return new

    def call_body(self, indices: list[Any], slots: list[Any]) -> None:
        buffers = iter([w.buffer.at[slot] for w, slot in zip(self.buffered, slots)])  # type: ignore[attr-defined]
        refs = [w.ref if w.shape is None else next(buffers) for w in self.windows]
        scope = kernel_scope.get()
        if scope is None:
            raise ValueError("emit_pipeline is only for kernels; there is none here.")
        inner = kernel_scope.set(scope._replace(indices=tuple(indices), grid=tuple(self.sizes)))
        try:
            self.body(*[tuple(indices)] * self.explicit, *refs, *self.scratches)
        finally:
            kernel_scope.reset(inner)


def _when(condition: Any, action: Callable[[], None]) -> None:
    cond(condition, action, lambda: None)


def _not(x: Any) -> Any:
    return ne(x, np.True_)


def _equal(x: Any, y: Any) -> Any:
    return _not(ne(x, y))


def _at_least(count: Any, n: int) -> Any:
    return ne(div(count, np.int32(n)), np.int32(0))


def _differs(x: tuple, y: tuple) -> Any:
    """True if two blocks differ. Dimensions whose index is a constant do not."""
    differing: Any = np.False_
    for i, j in zip(x, y):
        if not (isinstance(i, np.integer) and isinstance(j, np.integer)):
            differing = or_(differing, ne(i, j))
    return differing
