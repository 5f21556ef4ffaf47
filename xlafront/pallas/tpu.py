"""What kernels for TPUs are written with: their memories, scalars that index maps read, and operations on vectors."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import backends, errors, tracing
from xlafront.core.traceback_filter import boundary
from xlafront.numpy import creation
from xlafront.pallas import masked
from xlafront.pallas.specs import GridSpec, Memory, no_block_spec


class MemorySpace(Memory):
    """A memory of a TPU; calling one describes an array there: `pltpu.VMEM((8, 128), xnp.float32)`.

    - `value`: its name.

    >>> pl.tpu.MemorySpace("vmem")
    VMEM
    """

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    SEMAPHORE = "semaphore_mem"
    HBM = "hbm"

    def __repr__(self) -> str:
        return self.name

    zeroed = property(lambda self: self is MemorySpace.SEMAPHORE, doc="Whether what is in it is zero at first.")


VMEM, VMEM_SHARED, SMEM, CMEM = MemorySpace.VMEM, MemorySpace.VMEM_SHARED, MemorySpace.SMEM, MemorySpace.CMEM
SEMAPHORE, HBM = MemorySpace.SEMAPHORE, MemorySpace.HBM


class GridDimensionSemantics(enum.Enum):
    """Whether points along an axis of the grid may be computed in any order, and by which cores.

    - `value`: "parallel", "core_parallel", "subcore_parallel" or "arbitrary".

    >>> pl.tpu.PARALLEL.value
    'parallel'
    """

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, CORE_PARALLEL = GridDimensionSemantics.PARALLEL, GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL, ARBITRARY = GridDimensionSemantics.SUBCORE_PARALLEL, GridDimensionSemantics.ARBITRARY


class CoreType(enum.Enum):
    """A kind of core of a TPU.

    - `value`: its number.

    >>> pl.tpu.CoreType.TC
    TC
    """

    TC = 0
    SC_SCALAR_SUBCORE = 1
    SC_VECTOR_SUBCORE = 2

    def __repr__(self) -> str:
        return self.name


class SideEffectType(enum.Enum):
    """What a kernel does beside computing its results.

    - `value`: "pure", "dataflow_side_effecting" or "side_effecting".

    >>> pl.tpu.SideEffectType.PURE.value
    'pure'
    """

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


class Tiling(enum.Enum):
    """How arrays lie in memory: as for the vector units, or as for SparseCores.

    - `value`: 1 or 2.

    >>> pl.tpu.Tiling.COMPACT.value
    1
    """

    COMPACT = 1
    SPARSE_CORE = 2


@dataclasses.dataclass(frozen=True)
class CompilerParams:
    """Options for the compiler of TPU kernels.

    - `dimension_semantics`: of each axis of the grid, a `GridDimensionSemantics` or its value.
    - `allow_input_fusion`: of each argument, whether what computes it may become part of the kernel.
    - `vmem_limit_bytes`: how much of the vector memory it may take.
    - `collective_id`: which barrier kernels share that talk to each other.
    - `has_side_effects`: whether it runs though nobody reads its results.
    - `flags`: further options of the compiler.
    - `internal_scratch_in_bytes`: how much memory the compiler has for itself.
    - `serialization_format`: the version of the format that the kernel is passed in.
    - `disable_bounds_checks`, `disable_semaphore_checks`: leave out checks while it runs.
    - `skip_device_barrier`, `allow_collective_id_without_custom_barrier`: how kernels wait for other devices.
    - `shape_invariant_numerics`: whether sums are made in an order that does not depend on sizes.
    - `use_tc_tiling_on_sc`, `needs_layout_passes`, `fuse_transposed_lhs_in_matmul`: how arrays lie in memory.

    >>> pl.tpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")).dimension_semantics
    ('parallel', 'arbitrary')
    """

    BACKEND = "mosaic_tpu"
    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: bool | SideEffectType = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False

    def __post_init__(self):
        for name in ("dimension_semantics", "allow_input_fusion"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if isinstance(self.flags, Mapping):
            object.__setattr__(self, "flags", tuple(sorted(self.flags.items())))

    replace = dataclasses.replace


class PrefetchScalarGridSpec(GridSpec):
    """A grid whose index maps may read arrays of scalars: the first arguments, which they get references to behind the indices,
    and the kernel before all others.

    - `num_scalar_prefetch`: how many arguments these are.
    - `grid`, `in_specs`, `out_specs`, `scratch_shapes`: as of `pl.GridSpec`; `in_specs` are for the other arguments.

    >>> spec = pl.tpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(2,), in_specs=[
    ...     pl.BlockSpec((4,), lambda i, order_ref: order_ref[i])], out_specs=pl.BlockSpec((4,), lambda i, order_ref: i))
    """

    scalar_memory_space = SMEM

    def __init__(self, num_scalar_prefetch: int, grid: Any = (), in_specs: Any = no_block_spec,
                 out_specs: Any = no_block_spec, scratch_shapes: Any = ()):
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch

    def __repr__(self):
        return f"{super().__repr__()[:-1]}, num_scalar_prefetch={self.num_scalar_prefetch})"


# Operations


@boundary
def load(ref: Any, *, mask: Any = None) -> Any:
    """Read a reference, or a part of one.

    - `ref`: a reference, or `ref.at[...]`.
    - `mask`: which elements count.

    >>> def kernel(x_ref, o_ref):
    ...     o_ref[...] = pl.tpu.load(x_ref)
    """
    return masked.load(ref, mask)


@boundary
def store(ref: Any, val: Any, *, mask: Any = None) -> None:
    """Write to a reference, or to a part of one.

    - `ref`: a reference, or `ref.at[...]`.
    - `val`: what is written.
    - `mask`: which elements are.

    >>> def kernel(x_ref, o_ref):
    ...     pl.tpu.store(o_ref, x_ref[...], mask=x_ref[...] > 0)
    """
    masked.store(ref, val, mask)


@boundary
def roll(x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None) -> Any:
    """The elements moved along a dimension; those that leave at its end come in at its beginning.

    - `x`: an array.
    - `shift`: how far, not negative.
    - `axis`: the dimension.
    - `stride`: how much further each row along `stride_axis` is moved than the one before it.
    - `stride_axis`: see there.

    >>> pl.tpu.roll(xnp.arange(4), 1, 0)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if isinstance(shift, (int, np.integer)) and shift < 0:
        raise ValueError(f"roll takes a shift that is not negative, got {shift}: add the size of the dimension.")
    if (stride is None) != (stride_axis is None):
        raise ValueError("roll takes stride and stride_axis together.")
    if stride is None:
        return xnp.roll(x, shift, axis)
    rank = np.ndim(x)
    axis, stride_axis = axis % rank, stride_axis % rank
    if axis == stride_axis:
        raise ValueError(f"roll takes an axis and a stride_axis that differ, got {axis} twice.")
    n, rows = np.shape(x)[axis], np.shape(x)[stride_axis]
    along = creation.arange(n, dtype=np.int32).reshape([n if d == axis else 1 for d in range(rank)])
    moved = creation.arange(rows, dtype=np.int32).reshape([rows if d == stride_axis else 1 for d in range(rank)])
    from_where = (along - shift - stride * moved) % n
    return xnp.take_along_axis(x, xnp.broadcast_to(from_where, np.shape(x)), axis=axis)


@boundary
def einshape(equation: str, x: Any, assert_is_tile_preserving: bool = False, **sizes: int) -> Any:
    """The dimensions of an array split, joined and put into another order: `"(ab)c->a(bc)"`.

    - `equation`: the dimensions before and after, a letter each; those in brackets are one.
    - `x`: an array.
    - `assert_is_tile_preserving`: that no element moves within a tile, for the compiler.
    - `sizes`: of the letters of dimensions that are split; one of each may be left out.

    >>> pl.tpu.einshape("(ab)c->a(bc)", xnp.ones((6, 4)), a=2).shape
    (2, 12)
    """
    before, arrow, after = equation.replace(" ", "").partition("->")
    if not arrow:
        raise ValueError(f"einshape takes an equation as 'ab->ba', got {equation!r}.")
    groups, wanted = _groups(equation, before), _groups(equation, after)
    if len(groups) != np.ndim(x):
        raise ValueError(f"einshape: the left side of {equation!r} has {len(groups)} dimensions, the array {np.ndim(x)}: its "
                         f"shape is {np.shape(x)}.")
    letters, asked = [a for g in groups for a in g], [a for g in wanted for a in g]
    if sorted(letters) != sorted(asked) or len(set(letters)) < len(letters):
        raise ValueError(f"einshape: each letter of {equation!r} must be once on each side.")
    known = dict(sizes)
    for group, n in zip(groups, np.shape(x)):
        unknown, given = [a for a in group if a not in known], math.prod([known[a] for a in group if a in known])
        if len(unknown) > 1:
            raise ValueError(f"einshape: how is a dimension of size {n} split into {', '.join(group)}? Give all sizes but one.")
        if unknown and given and n % given == 0:
            known[unknown[0]] = n // given
        elif unknown or given != n:
            raise ValueError(f"einshape: a dimension of size {n} cannot be split into {', '.join(group)} of sizes {sizes}.")
    split = xnp.reshape(x, [known[a] for a in letters])
    moved = xnp.transpose(split, [letters.index(a) for a in asked])
    return xnp.reshape(moved, [math.prod([known[a] for a in group]) for group in wanted])


def _groups(equation: str, side: str) -> list[str]:
    """The dimensions of one side, each with its letters."""
    if not re.fullmatch(r"([a-zA-Z]|\([a-zA-Z]+\))*", side):
        raise ValueError(f"einshape takes an equation of letters and brackets, as '(ab)c->a(bc)', got {equation!r}.")
    return [g.strip("()") for g in re.findall(r"[a-zA-Z]|\([a-zA-Z]+\)", side)]


@boundary
def is_tpu_device() -> bool:
    """Whether the default device is a TPU.

    >>> pl.tpu.is_tpu_device()
    False
    """
    return getattr(backends.default_device(), "platform", None) == "tpu"


@boundary
def trace_value(label: str, value: Any) -> None:
    """Inside of a kernel: write a number into the profile. Where kernels are interpreted there is none.

    - `label`: its name there.
    - `value`: a scalar.

    >>> def kernel(x_ref, o_ref):
    ...     pl.tpu.trace_value("the first", x_ref[0])
    """
    if not tracing.is_arraylike(value):
        raise errors.not_an_array(value, "trace_value", "value")
