"""Buffers of the arrays of a pipeline: scratch memory and semaphores, which `run_scoped` or `scratch_shapes` allocate."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from xlafront.core import dtypes, errors, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import boundary
from xlafront.pallas.kernel_operation import is_ref_or_view
from xlafront.pallas.semaphores import SemaphoreType
from xlafront.pallas.specs import BlockSpec, Buffered, MemoryRef, Squeezed
from xlafront.pallas.tpu import VMEM


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
        window_ref: The buffers: the first dimension is their number. None for an array without blocks.
        sem_recvs, sem_sends: A semaphore for each buffer, of copies in and out.
        prefetched_count: Number of steps of the pipeline whose blocks have been copied ahead.

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

    is_input = property(lambda self: self.buffer_type.is_input, doc="True if blocks are copied in.")
    is_output = property(lambda self: self.buffer_type.is_output, doc="True if blocks are copied out.")
    is_input_output = property(lambda self: self.buffer_type is BufferType.INPUT_OUTPUT, doc="True if both are.")
    is_manual = property(lambda self: self.buffer_type is BufferType.MANUAL, doc="True if the user copies blocks.")
    is_buffered = property(lambda self: self.window_ref is not None, doc="True if there are buffers.")
    buffer_count = property(lambda self: self.window_ref.shape[0] if self.is_buffered else 0, doc="Number of buffers.")
    block_shape = property(lambda self: block_shape_of(self.spec), doc="Sizes of a block; None if dropped.")

    @staticmethod
    def create(spec: BlockSpec, dtype_or_type: Any, buffer_type: BufferType, buffer_count: int = 2,
               grid_rank: int | None = None, use_lookahead: bool = False, source_memory_space: Any = None, tiling: Any = None
               ) -> BufferedRef:
        """Describe the buffers of an array.

        Args:
            spec: Block of the array. A `pl.Buffered` as its `pipeline_mode` has the number of buffers instead.
            dtype_or_type: dtype of the array, or something with a dtype.
            buffer_type: Use of the array.
            buffer_count: Number of buffers.
            grid_rank, use_lookahead, source_memory_space, tiling: Ignored.

        Example:
            >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
            >>> pl.tpu.BufferedRef.create(rows, "float32", pl.tpu.BufferType.OUTPUT, 2).is_output
            True
        """
        if not isinstance(spec, BlockSpec) or not isinstance(buffer_type, BufferType):
            raise TypeError(f"BufferedRef takes a pl.BlockSpec and a pltpu.BufferType, got {errors.short(spec)} and "
                            f"{errors.short(buffer_type)}.")
        shape = block_shape_of(spec)
        if shape is None:
            return BufferedRef(spec, buffer_type)
        count = spec.pipeline_mode.buffer_count if isinstance(spec.pipeline_mode, Buffered) else buffer_count
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"BufferedRef takes a number of buffers of 1 at least, got {errors.short(count)}.")
        dtype = dtypes.canonicalize_dtype(getattr(dtype_or_type, "dtype", dtype_or_type))
        sizes = (count, *[n for n in shape if n is not None])
        semaphores = SemaphoreType.DMA((count,))
        return BufferedRef(spec, buffer_type, MemoryRef(ShapedArray(sizes, dtype), spec.memory_space or VMEM),
                           semaphores if buffer_type.is_input else None, semaphores if buffer_type.is_output else None)

    @staticmethod
    def input(spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **options: Any) -> BufferedRef:
        """Describe the buffers of an input. See `create`."""
        return BufferedRef.create(spec, dtype_or_type, BufferType.INPUT, buffer_count, **options)

    @staticmethod
    def output(spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **options: Any) -> BufferedRef:
        """Describe the buffers of an output. See `create`."""
        return BufferedRef.create(spec, dtype_or_type, BufferType.OUTPUT, buffer_count, **options)

    @staticmethod
    def input_output(spec: BlockSpec, dtype_or_type: Any, buffer_count: int = 2, **options: Any) -> BufferedRef:
        """Describe the buffers of an output whose blocks are copied in first. See `create`."""
        return BufferedRef.create(spec, dtype_or_type, BufferType.INPUT_OUTPUT, buffer_count, **options)

    def with_spec(self, spec: BlockSpec) -> BufferedRef:
        """Return the buffers with another index map."""
        return dataclasses.replace(self, spec=spec)

    def unbind_refs(self) -> BufferedRef:
        """Return the description without references."""
        return dataclasses.replace(self, window_ref=None, sem_recvs=None, sem_sends=None)


tree.register_pytree_node(
    BufferedRef, lambda b: ((b.window_ref, b.sem_recvs, b.sem_sends), b),
    lambda b, children: BufferedRef(b.spec, b.buffer_type, *children, prefetched_count=b.prefetched_count))


def block_shape_of(spec: BlockSpec) -> tuple | None:
    """Return the sizes of a block, None for dimensions that are dropped; None for an array without blocks."""
    if spec.block_shape is None:
        return None
    return tuple([None if n is None or type(n) is Squeezed else getattr(n, "block_size", n) for n in spec.block_shape])


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
    return tuple([BufferedRef.create(s, x, BufferType.INPUT if i < len(inputs) else BufferType.OUTPUT)
                  for i, (s, x) in enumerate(zip([*inputs, *outputs], refs))])
