"""Buffers of the arrays of a pipeline: scratch memory and semaphores, which `run_scoped` or `scratch_shapes` allocate."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import boundary
from xlafront.pallas.kernel_operation import is_ref_or_view
from xlafront.pallas.semaphores import SemaphoreType
from xlafront.pallas.specs import ANY, BlockSpec, Buffered, Indirect, MemoryRef, is_squeezed
from xlafront.pallas.tpu import HBM, VMEM


class BufferType(enum.Enum):
    """The use of an array by a pipeline: it is read, written or both, or its blocks are copied by the user.

    Args:
        value: Number of the use.

    Example:
        >>> pl.tpu.BufferType.INPUT.is_input
        True
    """

    INPUT = 1
    OUTPUT = 2
    INPUT_OUTPUT = 3
    MANUAL = 4

    is_input = property(lambda self: self in (BufferType.INPUT, BufferType.INPUT_OUTPUT), doc="True if blocks are copied in.")
    is_output = property(lambda self: self in (BufferType.OUTPUT, BufferType.INPUT_OUTPUT),
                         doc="True if blocks are copied out.")


@dataclasses.dataclass(frozen=True, eq=False)
class BufferedRef:
    """The buffers of an array of a pipeline. `input`, `output` and `input_output` describe them, as scratch memory of a kernel.

    It is a pytree of descriptions of memory: pass it to `pl.run_scoped` or as one of `scratch_shapes`, and the buffers that the
    kernel gets as `allocations` of `pltpu.emit_pipeline`.

    Args:
        spec: Block of the array.
        buffer_type: Use of the array.
        window_ref: The buffers: the first dimension is their number. None for an array without buffers.
        sem_recvs, sem_sends: A semaphore for each buffer, of copies in and out.
        prefetched_count: Number of steps of the pipeline whose blocks have been copied ahead.
        in_buffer_count, out_buffer_count: Numbers of buffers for copies in and out.
        use_lookahead: True if blocks are copied ahead until they differ.
        tiling: Tiling in memory. Ignored.

    Example:
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        >>> pl.tpu.BufferedRef.input(rows, "float32", 3).window_ref.shape
        (3, 8, 128)
    """

    spec: BlockSpec
    buffer_type: BufferType
    window_ref: Any = None
    sem_recvs: Any = None
    sem_sends: Any = None
    prefetched_count: int = 0
    in_buffer_count: int = 0
    out_buffer_count: int = 0
    use_lookahead: bool = False
    tiling: Any = None

    is_input = property(lambda self: self.buffer_type.is_input, doc="True if blocks are copied in.")
    is_output = property(lambda self: self.buffer_type.is_output, doc="True if blocks are copied out.")
    is_input_output = property(lambda self: self.buffer_type is BufferType.INPUT_OUTPUT, doc="True if both are.")
    is_manual = property(lambda self: self.buffer_type is BufferType.MANUAL, doc="True if the user copies blocks.")
    is_buffered = property(lambda self: self.in_buffer_count + self.out_buffer_count > 0, doc="True if there are buffers.")
    has_allocated_buffer = property(lambda self: self.is_buffered, doc="True if there are buffers.")
    has_indirect = property(lambda self: any([isinstance(n, Indirect) for n in self.spec.block_shape or ()]),
                            doc="True if a dimension of the blocks is `pl.Indirect`.")
    is_trivial_windowing = property(lambda self: False, doc="False: blocks are copied also if there is one only.")
    block_shape = property(lambda self: None if self.spec.block_shape is None else tuple(self.spec.block_shape),
                           doc="The block shape of the spec.")
    compute_index = property(lambda self: self.spec.index_map, doc="The index map of the spec.")

    @property
    def buffer_count(self) -> int:
        """Number of buffers."""
        if not self.is_buffered:
            raise ValueError(f"buffer_count: there are no buffers for {self.spec}, whose blocks are used where they are.")
        return _total(self.in_buffer_count, self.out_buffer_count)

    @staticmethod
    def create(spec: BlockSpec, dtype_or_type: Any, buffer_type: BufferType, buffer_count: Any = 2,
               grid_rank: int | None = None, use_lookahead: bool = False, source_memory_space: Any = ANY, tiling: Any = None
               ) -> BufferedRef:
        """Describe the buffers of an array.

        Args:
            spec: Block of the array. Its `pipeline_mode` is ignored.
            dtype_or_type: dtype of the array, or something with a dtype.
            buffer_type: Use of the array.
            buffer_count: Number of buffers that are copied in, one of them also copied out; or a pair of the numbers.
            grid_rank: Number of axes of the grid. Needed for `use_lookahead`.
            use_lookahead: True if blocks are copied ahead until they differ.
            source_memory_space: Memory of the array. Blocks in the same memory, or in main memory, need no buffers.
            tiling: Tiling in memory. Ignored.

        Example:
            >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
            >>> pl.tpu.BufferedRef.create(rows, "float32", pl.tpu.BufferType.OUTPUT, 2).is_output
            True
        """
        if not isinstance(spec, BlockSpec) or not isinstance(buffer_type, BufferType):
            raise TypeError(f"BufferedRef takes a pl.BlockSpec and a pltpu.BufferType, got {errors.short(spec)} and "
                            f"{errors.short(buffer_type)}.")
        if buffer_type is BufferType.MANUAL:
            raise ValueError("BufferedRef: the number of buffers of BufferType.MANUAL is not known. Allocate them as "
                             "pltpu.VMEM.")
        if use_lookahead and grid_rank is None:
            raise ValueError("BufferedRef needs grid_rank, the number of axes of the grid, for use_lookahead=True.")
        counts = _buffer_counts(buffer_type, buffer_count)
        shape, memory = block_sizes(spec), spec.memory_space or VMEM
        if shape is None or memory in (HBM, ANY) or memory is source_memory_space:
            return BufferedRef(spec, buffer_type, use_lookahead=use_lookahead, tiling=tiling)
        given = dtype_or_type if isinstance(dtype_or_type, type) else getattr(dtype_or_type, "dtype", dtype_or_type)
        sizes = (_total(*counts), *[n for n in shape if n is not None])
        semaphores = SemaphoreType.DMA((sizes[0],))
        return BufferedRef(spec, buffer_type, MemoryRef(ShapedArray(sizes, dtypes.canonicalize_dtype(given)), memory),
                           semaphores if buffer_type.is_input else None, semaphores if buffer_type.is_output else None, 0,
                           *counts, use_lookahead, tiling)

    @staticmethod
    def input(spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **options: Any) -> BufferedRef:
        """Describe the buffers of an input. See `create`."""
        return BufferedRef.create(spec, dtype_or_type, BufferType.INPUT, buffer_count, **options)

    @staticmethod
    def output(spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **options: Any) -> BufferedRef:
        """Describe the buffers of an output. See `create`."""
        return BufferedRef.create(spec, dtype_or_type, BufferType.OUTPUT, buffer_count, **options)

    @staticmethod
    def input_output(spec: BlockSpec, dtype_or_type: Any, buffer_count: Any = (2, 1), **options: Any) -> BufferedRef:
        """Describe the buffers of an output whose blocks are copied in first. See `create`."""
        return BufferedRef.create(spec, dtype_or_type, BufferType.INPUT_OUTPUT, buffer_count, **options)

    def with_spec(self, spec: BlockSpec) -> BufferedRef:
        """Return the buffers with another index map."""
        return dataclasses.replace(self, spec=spec)

    def with_window_ref(self, window_ref: Any) -> BufferedRef:
        """Return the buffers with other memory."""
        return dataclasses.replace(self, window_ref=window_ref)

    def unbind_refs(self) -> BufferedRef:
        """Return the buffers without what a pipeline adds to them, which is nothing."""
        return self


tree.register_pytree_node(
    BufferedRef, lambda b: ((b.window_ref, b.sem_recvs, b.sem_sends), b),
    lambda b, memory: dataclasses.replace(b, **dict(zip(("window_ref", "sem_recvs", "sem_sends"), memory))))


def block_sizes(spec: BlockSpec) -> tuple | None:
    """Return the sizes of a block, None for dimensions that are dropped; None for an array without blocks."""
    if spec.block_shape is None:
        return None
    return tuple([None if is_squeezed(n) else getattr(n, "block_size", n) for n in spec.block_shape])


def _total(in_count: int, out_count: int) -> int:
    """Return the number of buffers. One is copied out while the others are copied in."""
    return in_count + out_count - 1 if in_count and out_count else in_count + out_count


def _buffer_counts(buffer_type: BufferType, count: Any) -> tuple[int, int]:
    """Return the numbers of buffers for copies in and out."""
    both = buffer_type is BufferType.INPUT_OUTPUT
    given = count if both and isinstance(count, tuple) and len(count) == 2 else (count,)
    if not all([isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 1 for n in given]):
        raise ValueError(f"BufferedRef takes a number of buffers of 1 at least{', or a pair of them' * both}, got "
                         f"{errors.short(count)}.")
    counts = [int(n) for n in given]
    if both:
        return counts[0], counts[-1] if len(counts) == 2 else 1
    return (counts[0], 0) if buffer_type.is_input else (0, counts[0])


def flat_specs(argument: str, specs: Any) -> list[BlockSpec]:
    """Return the BlockSpecs of an argument of `emit_pipeline`."""
    leaves = tree.leaves(specs, is_leaf=lambda x: isinstance(x, BlockSpec))
    for s in leaves:
        if not isinstance(s, BlockSpec):
            raise TypeError(f"{argument} of emit_pipeline takes BlockSpecs, got {errors.short(s)}.")
    return leaves


@boundary
def make_pipeline_allocations(*refs: Any, in_specs: Any = (), out_specs: Any = (), grid: Any = (), tiling: Any = None
                              ) -> tuple[BufferedRef, ...]:
    """Describe the buffers of a pipeline, so that they can be allocated once for several runs of it.

    Args:
        refs: References of the inputs and outputs, or objects with a dtype.
        in_specs, out_specs, grid: Those of the pipeline.
        tiling: Ignored.

    Returns:
        A `BufferedRef` for each reference.

    Example:
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        >>> out = xf.ShapeDtypeStruct((32, 128), "float32")
        >>> [buffers] = pl.tpu.make_pipeline_allocations(out, out_specs=[rows], grid=4)
        >>> buffers.buffer_count
        2
    """
    inputs, outputs = flat_specs("in_specs", in_specs), flat_specs("out_specs", out_specs)
    if len(refs) != len(inputs) + len(outputs):
        raise TypeError(f"make_pipeline_allocations takes {len(inputs) + len(outputs)} references, one for each BlockSpec, got "
                        f"{len(refs)}.")
    for x in refs:
        if not is_ref_or_view(x) and not hasattr(x, "dtype"):
            raise TypeError(f"make_pipeline_allocations takes references, or objects with a dtype, got {errors.short(x)}.")
    return tuple([BufferedRef.create(s, x, BufferType.INPUT if i < len(inputs) else BufferType.OUTPUT,
                                     s.pipeline_mode.buffer_count if isinstance(s.pipeline_mode, Buffered) else 2)
                  for i, (s, x) in enumerate(zip([*inputs, *outputs], refs))])
