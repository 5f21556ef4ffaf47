"""What users say of a kernel's grid, of the blocks that it sees of each array, and of the memories that these are in."""

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
    """An array in some memory, as scratch space of a kernel asks for it: `pl.ANY((8, 128), xnp.float32)` makes one.

    - `inner_aval`: the type of the array.
    - `memory_space`: the memory.

    >>> pl.ANY((8,), "float32").shape
    (8,)
    """

    inner_aval: Any
    memory_space: Any

    shape = property(lambda self: self.inner_aval.shape, doc="The size of each dimension.")
    dtype = property(lambda self: self.inner_aval.dtype, doc="The dtype of the elements.")

    def get_array_aval(self) -> Any:
        """The type of the array."""
        return self.inner_aval

    def get_ref_aval(self) -> AbstractRef:
        """The type of references to it."""
        return AbstractRef(self.inner_aval, self.memory_space)


class Memory(enum.Enum):
    """A memory that references are to."""

    def __str__(self) -> str:
        return self.value

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), dtype), self)


def ref_type(what: str, description: Any) -> AbstractRef:
    """The type of references to memory as it is described."""
    if not hasattr(description, "get_ref_aval"):
        raise TypeError(f"{what} takes descriptions of memory, as pl.ANY((8,), xnp.float32), got {errors.short(description)}.")
    return description.get_ref_aval()


class MemorySpace(Memory):
    """Where a reference's array is; calling one describes an array there: `pl.ANY((8,), xnp.float32)`.

    - `value`: its name.

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
    """How another device is named: by its coordinates in a mesh, or by its number among all.

    - `value`: "mesh" or "logical".

    >>> pl.DeviceIdType.MESH.value
    'mesh'
    """

    MESH = "mesh"
    LOGICAL = "logical"


# Blocks


@dataclasses.dataclass(frozen=True)
class Blocked:
    """A dimension in blocks of this size: the index map says which one. An integer in a block shape means this.

    - `block_size`: the size.

    >>> pl.BlockSpec((pl.Blocked(8),), lambda i: (i,))  # doctest: +ELLIPSIS
    BlockSpec(block_shape=(Blocked(block_size=8),), ...
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Element:
    """A dimension of which the index map says the first element, in place of the number of a block.

    - `block_size`: the size of the part.
    - `padding`: how many elements are put before the array and behind it; positions are counted with them.

    >>> pl.Element(2, (1, 1))
    Element(block_size=2, padding=(1, 1))
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class BoundedSlice:
    """A dimension of which the index map gives a slice, `pl.ds(start, size)`, of at most this size.

    - `block_size`: the largest size.

    >>> pl.BoundedSlice(8)
    BoundedSlice(block_size=8)
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Indirect:
    """A dimension of which the index map gives as many indices as the block is large.

    - `block_size`: the size.

    >>> pl.Indirect(8)
    Indirect(block_size=8)
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Squeezed:
    """A dimension of which the kernel sees one element, and which its reference does not have. None means this too.

    >>> pl.squeezed
    Squeezed()
    """


squeezed = Squeezed()
BlockDim = Element | Squeezed | Blocked | BoundedSlice | Indirect


class RevisitMode(enum.Enum):
    """When a block that comes again is brought in again.

    - `value`: "immediate" or "any".

    >>> pl.RevisitMode.ANY.value
    'any'
    """

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclasses.dataclass(frozen=True)
class Buffered:
    """How many copies of a block there are, so that one is brought in while another is used.

    - `buffer_count`: how many.
    - `use_lookahead`: whether the next different block is looked for.
    - `revisit`: when a block that comes again is brought in again.

    >>> pl.Buffered(2).buffer_count
    2
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


@dataclasses.dataclass
class BlockSpec:
    """The part of an array that a kernel sees at a point of the grid.

    - `block_shape`: its size in each dimension; None in it drops a dimension of size 1. None in its place: the whole array.
    - `index_map`: a function of the grid's indices to the number of the block in each dimension; None: the first one.
    - `memory_space`: the memory that it is in.
    - `pipeline_mode`: how often it is buffered, `pl.Buffered`.

    >>> pl.BlockSpec((8, 128), lambda i, j: (i, j)).block_shape
    (8, 128)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = dataclasses.field(default=None)
    _: dataclasses.KW_ONLY
    memory_space: Any = None

    def __repr__(self):
        return (f"BlockSpec(block_shape={self.block_shape}, index_map={self.index_map}, memory_space={self.memory_space}, "
                f"pipeline_mode={self.pipeline_mode})")

    def replace(self, **changes: Any) -> BlockSpec:
        """The same with other fields."""
        return dataclasses.replace(self, **changes)


class NoBlockSpec:
    """In place of a `BlockSpec`: nothing is said, and the kernel sees the whole array."""

    def __repr__(self):
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


class GridSpec:
    """A grid, and the blocks of all arrays: what `pallas_call` otherwise takes one by one.

    - `grid`: how many times the kernel runs along each axis: integers, or scalars known only when the program runs.
    - `in_specs`, `out_specs`: a `BlockSpec` for each array, in the structure of the arguments and of `out_shape`.
    - `scratch_shapes`: what else the kernel gets references to, described by `MemoryRef`s.

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
    """A grid as a tuple, of one axis where a number is given."""
    axes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    for n in axes:
        if isinstance(n, (str, float, complex, type(None))) or isinstance(n, tuple):
            raise ValueError(f"a grid must be a tuple of integers, or of scalars of an integer dtype; got {errors.short(n)} in "
                             f"{errors.short(grid)}.")
    return axes


# What compilers and planners are told


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """What one call of a kernel costs, for compilers that schedule it beside other operations.

    - `flops`: operations on floats.
    - `transcendentals`: evaluations of functions such as `exp`.
    - `bytes_accessed`: bytes read and written.
    - `remote_bytes_transferred`: bytes that go to other devices.

    >>> pl.CostEstimate(10, 0, 80).flops
    10
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def to_json(self) -> bytes:
        """The fields as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode("ascii")


class CompilerParams(Protocol):
    """What options for a compiler are instances of: those of each platform have a class of their own."""

    __dataclass_fields__: Any
