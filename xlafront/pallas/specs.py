"""Specs of a kernel's grid, of the blocks of its arrays, and of their memories."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xlafront.core import errors
from xlafront.core.avals import ShapedArray
from xlafront.core.refs import AbstractRef

# Memories


@dataclasses.dataclass(frozen=True)
class MemoryRef:
    """A description of an array in some memory, for scratch memory of a kernel. `pl.ANY((8, 128), xnp.float32)` makes one.

    Args:
        inner_aval: Type of the array.
        memory_space: The memory.

    Example:
        >>> pl.ANY((8,), "float32").shape
        (8,)
    """

    inner_aval: Any
    memory_space: Any

    shape = property(lambda self: self.inner_aval.shape, doc="The size of each dimension.")
    dtype = property(lambda self: self.inner_aval.dtype, doc="The dtype of the elements.")

    def get_array_aval(self) -> Any:
        """Return the type of the array."""
        return self.inner_aval

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of references to the array."""
        return AbstractRef(self.inner_aval, self.memory_space)


class Memory(enum.Enum):
    """A memory in which references can be."""

    def __str__(self) -> str:
        return self.value

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        kind = getattr(dtype, "kind", None)
        if isinstance(kind, Memory):  # `pl.semaphore` or `pltpu.dma_semaphore`
            return kind(shape)  # type: ignore[call-arg]
        return MemoryRef(ShapedArray(tuple(shape), dtype), self)


def ref_type(caller: str, description: Any) -> AbstractRef:
    """Return the type of references to the described memory."""
    if not hasattr(description, "get_ref_aval"):
        raise TypeError(f"{caller} takes descriptions of memory, as pl.ANY((8,), numpy.float32), got "
                        f"{errors.short(description)}.")
    return description.get_ref_aval()


class MemorySpace(Memory):
    """The memory of a reference. Call a member to describe an array in it: `pl.ANY((8,), xnp.float32)`.

    Args:
        value: Name of the memory.

    Example:
        >>> pl.MemorySpace("any")
        <MemorySpace.ANY: 'any'>
    """

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST


class DeviceIdType(enum.Enum):
    """The form of a device id: coordinates in a mesh, or a logical number.

    Args:
        value: "mesh" or "logical".

    Example:
        >>> pl.DeviceIdType.MESH.value
        'mesh'
    """

    MESH = "mesh"
    LOGICAL = "logical"


# Blocks


@dataclasses.dataclass(frozen=True)
class Blocked:
    """A dimension in blocks, for which the index map returns the index of a block. An integer in a block shape means this.

    Args:
        block_size: Size of the blocks.

    Example:
        >>> pl.BlockSpec((pl.Blocked(8),), lambda i: (i,))  # doctest: +ELLIPSIS
        BlockSpec(block_shape=(Blocked(block_size=8),), ...
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Element:
    """A dimension for which the index map returns the index of the first element, in place of that of a block.

    Args:
        block_size: Size of the slice.
        padding: Numbers of elements to pad before and after the array; indices count them.

    Example:
        >>> pl.Element(2, (1, 1))
        Element(block_size=2, padding=(1, 1))
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class BoundedSlice:
    """A dimension for which the index map returns a slice, `pl.ds(start, size)`, of a bounded size.

    Args:
        block_size: Maximum size of the slice in `pltpu.emit_pipeline`; its size in `pallas_call`.

    Example:
        >>> pl.BoundedSlice(8)
        BoundedSlice(block_size=8)
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Indirect:
    """A dimension for which the index map returns the index of each element of the block.

    Args:
        block_size: Size of the block.

    Example:
        >>> pl.Indirect(8)
        Indirect(block_size=8)
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Squeezed:
    """A dimension of block size 1 that the kernel's reference does not have. None in a block shape means this.

    Example:
        >>> pl.squeezed
        Squeezed()
    """


squeezed = Squeezed()
BlockDim = Element | Squeezed | Blocked | BoundedSlice | Indirect


def is_squeezed(dim: Any) -> bool:
    """True if the kernel does not see a dimension of a block."""
    return dim is None or isinstance(dim, Squeezed)


class RevisitMode(enum.Enum):
    """The condition for fetching a block again when the grid comes back to it.

    Args:
        value: "immediate" or "any".

    Example:
        >>> pl.RevisitMode.ANY.value
        'any'
    """

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclasses.dataclass(frozen=True)
class Buffered:
    """The number of buffers of a block, so that one block is fetched while another is used.

    Args:
        buffer_count: Number of buffers.
        use_lookahead: If True, look ahead for the next different block.
        revisit: When to fetch a block again that the grid comes back to.
        prefetched_count: Number of blocks that are fetched before the pipeline starts.

    Example:
        >>> pl.Buffered(2).buffer_count
        2
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None
    prefetched_count: int = 0


@dataclasses.dataclass
class BlockSpec:
    """The block of an array that a kernel sees at each point of the grid.

    Args:
        block_shape: Size in each dimension; None among the sizes drops a dimension of block size 1. None in place of the shape:
            the kernel sees the unblocked array.
        index_map: Function of the grid's indices that returns the index of the block in each dimension. Default: the first
            block.
        pipeline_mode: Number of buffers, as `pl.Buffered`.
        memory_space: Memory of the block.

    Example:
        >>> pl.BlockSpec((8, 128), lambda i, j: (i, j)).block_shape
        (8, 128)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = dataclasses.field(default=None)
    _: dataclasses.KW_ONLY
    memory_space: Any = None

    def __post_init__(self) -> None:
        if callable(self.block_shape) or self.index_map is not None and not callable(self.index_map):
            raise TypeError(f"BlockSpec takes a block_shape and then an index_map, a function, got "
                            f"{errors.short(self.block_shape)} and {errors.short(self.index_map)}.")

    def __repr__(self):
        return (f"BlockSpec(block_shape={self.block_shape}, index_map={self.index_map}, memory_space={self.memory_space}, "
                f"pipeline_mode={self.pipeline_mode})")

    def replace(self, **changes: Any) -> BlockSpec:
        """Return the spec with some of its fields replaced."""
        return dataclasses.replace(self, **changes)


class NoBlockSpec:
    """The default in place of a `BlockSpec`: the kernel sees the unblocked array."""

    def __repr__(self):
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


class GridSpec:
    """A grid, and the specs of all arrays and of scratch memory, in one argument of `pallas_call`.

    Args:
        grid: Size of the grid along each axis: integers, or scalars for dynamic sizes.
        in_specs, out_specs: A `BlockSpec` for each array, in the structure of the arguments and of `out_shape`.
        scratch_shapes: Scratch memory of the kernel, described by `MemoryRef`s.

    Example:
        >>> pl.GridSpec(grid=(4,)).grid
        (4,)
    """

    num_scalar_prefetch = 0
    scalar_memory_space: Any = None

    def __init__(self, grid: Any = (), in_specs: Any = no_block_spec, out_specs: Any = no_block_spec,
                 scratch_shapes: Any = ()):
        self.grid = grid_of(grid)
        self.in_specs, self.out_specs, self.scratch_shapes = in_specs, out_specs, scratch_shapes

    def __repr__(self):
        return (f"{type(self).__name__}(grid={self.grid}, grid_names=None, in_specs={self.in_specs}, "
                f"out_specs={self.out_specs}, scratch_shapes={self.scratch_shapes})")


def grid_of(grid: Any) -> tuple:
    """Convert a grid to a tuple; a number becomes a grid of one axis."""
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    for size in axes:
        if isinstance(size, (str, float, complex, type(None))) or isinstance(size, tuple):
            raise ValueError(f"a grid must be a tuple of integers, or of scalars of an integer dtype; got "
                             f"{errors.short(size)} in {errors.short(grid)}.")
    return axes


# Hints for compilers and planners


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """The cost of one call of a kernel, for compilers that schedule it along with other operations.

    Args:
        flops: Number of floating-point operations.
        transcendentals: Number of evaluations of functions such as `exp`.
        bytes_accessed: Bytes read and written.
        remote_bytes_transferred: Bytes transferred to other devices.

    Example:
        >>> pl.CostEstimate(10, 0, 80).flops
        10
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def to_json(self) -> bytes:
        """Return the fields as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode("ascii")


class CompilerParams(Protocol):
    """The protocol of compiler options. Each platform has its own class."""

    __dataclass_fields__: Any
