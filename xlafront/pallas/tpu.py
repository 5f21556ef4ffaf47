"""Functions for TPU kernels: memories, scalars for index maps, and operations on vectors."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import errors, tracing
from xlafront.core.traceback_filter import boundary
from xlafront.pallas import masked
from xlafront.pallas.specs import GridSpec, Memory, no_block_spec
from xlafront.runtime import backends


class MemorySpace(Memory):
    """A memory of a TPU. Call a member to describe an array in it: `pltpu.VMEM((8, 128), xnp.float32)`.

    Args:
        value: Name of the memory.

    Example:
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

    zeroed = property(lambda self: self is MemorySpace.SEMAPHORE, doc="True if the memory is zero-initialized.")


VMEM, VMEM_SHARED, SMEM, CMEM = MemorySpace.VMEM, MemorySpace.VMEM_SHARED, MemorySpace.SMEM, MemorySpace.CMEM
SEMAPHORE, HBM = MemorySpace.SEMAPHORE, MemorySpace.HBM


class GridDimensionSemantics(enum.Enum):
    """The permitted order of points along an axis of the grid, and the cores that can compute them.

    Args:
        value: "parallel", "core_parallel", "subcore_parallel" or "arbitrary".

    Example:
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

    Args:
        value: Number of the kind.

    Example:
        >>> pl.tpu.CoreType.TC
        TC
    """

    TC = 0
    SC_SCALAR_SUBCORE = 1
    SC_VECTOR_SUBCORE = 2

    def __repr__(self) -> str:
        return self.name


class SideEffectType(enum.Enum):
    """The side effects of a kernel.

    Args:
        value: "pure", "dataflow_side_effecting" or "side_effecting".

    Example:
        >>> pl.tpu.SideEffectType.PURE.value
        'pure'
    """

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


class Tiling(enum.Enum):
    """The tiling of arrays in memory: that of vector units, or that of SparseCores.

    Args:
        value: 1 or 2.

    Example:
        >>> pl.tpu.Tiling.COMPACT.value
        1
    """

    COMPACT = 1
    SPARSE_CORE = 2


@dataclasses.dataclass(frozen=True)
class CompilerParams:
    """Options for the compiler of TPU kernels.

    Args:
        dimension_semantics: For each axis of the grid, a `GridDimensionSemantics` or its value.
        allow_input_fusion: For each argument, True if its producer can be fused into the kernel.
        vmem_limit_bytes: Limit of vector memory.
        collective_id: Id of the barrier shared by kernels that communicate with each other.
        has_side_effects: If True, the kernel runs even if its results are unused.
        flags: Further options of the compiler, by name.
        internal_scratch_in_bytes: Size of the compiler's internal scratch memory.
        serialization_format: Version of the kernel's serialization format.
        disable_bounds_checks, disable_semaphore_checks: If True, leave out these runtime checks.
        skip_device_barrier: If True, do not wait for other devices before the kernel.
        allow_collective_id_without_custom_barrier: If True, allow `collective_id` for kernels without a barrier.
        shape_invariant_numerics: If True, the order of summation does not depend on sizes.
        use_tc_tiling_on_sc: For kernels of SparseCores, False if arrays have rows as they are.
        needs_layout_passes: For kernels of SparseCores, False to leave out the passes that choose layouts.
        fuse_transposed_lhs_in_matmul: If True, products take a transposed left operand as it is.
        opt_level: For kernels of SparseCores, the level of optimization, "O0" to "O3".

    Example:
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
    opt_level: str | None = None

    def __post_init__(self):
        for name in ("dimension_semantics", "allow_input_fusion"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if isinstance(self.flags, Mapping):
            object.__setattr__(self, "flags", tuple(sorted(self.flags.items())))

    replace = dataclasses.replace


class PrefetchScalarGridSpec(GridSpec):
    """A grid whose index maps can read scalars: the first arguments, which are in scalar memory before the kernel starts.

    Index maps get references to them after the grid's indices; the kernel gets these references before all others.

    Args:
        num_scalar_prefetch: Number of these arguments.
        grid, out_specs, scratch_shapes: As for `pl.GridSpec`.
        in_specs: Specs of the other arguments.

    Example:
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
    """Read a reference, or a slice of one.

    Args:
        ref: Reference, or `ref.at[...]`.
        mask: Boolean array of the elements to read. Other elements have arbitrary values.

    Returns:
        The value.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     o_ref[...] = pl.tpu.load(x_ref)
    """
    return masked.load(ref, mask)


@boundary
def store(ref: Any, val: Any, *, mask: Any = None) -> None:
    """Write to a reference, or to a slice of one.

    Args:
        ref: Reference, or `ref.at[...]`.
        val: Value to write.
        mask: Boolean array of the elements to write.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu.store(o_ref, x_ref[...], mask=x_ref[...] > 0)
    """
    masked.store(ref, val, mask)


@boundary
def einshape(equation: str, x: Any, assert_is_tile_preserving: bool = False, **sizes: int) -> Any:
    """Split, merge and transpose dimensions, as described by an equation such as `"(ab)c->a(bc)"`.

    Args:
        equation: Dimensions before and after, one letter each; letters in parentheses are one dimension.
        x: The array.
        assert_is_tile_preserving: Promise to the compiler that no element moves within a tile.
        sizes: Sizes of letters in parentheses; one of each group can be omitted.

    Returns:
        The array with the new dimensions.

    Example:
        >>> pl.tpu.einshape("(ab)c->a(bc)", xnp.ones((6, 4)), a=2).shape
        (2, 12)
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    if not arrow:
        raise ValueError(f"einshape takes an equation as 'ab->ba', got {equation!r}.")
    left_groups, right_groups = _groups(equation, left), _groups(equation, right)
    if len(left_groups) != np.ndim(x):
        raise ValueError(f"einshape: the left side of {equation!r} has {len(left_groups)} dimensions, the array {np.ndim(x)}: "
                         f"its shape is {np.shape(x)}.")
    left_letters, right_letters = [a for g in left_groups for a in g], [a for g in right_groups for a in g]
    if sorted(left_letters) != sorted(right_letters) or len(set(left_letters)) < len(left_letters):
        raise ValueError(f"einshape: each letter of {equation!r} must be once on each side.")
    letter_sizes = dict(sizes)
    for group, n in zip(left_groups, np.shape(x)):
        unknown = [a for a in group if a not in letter_sizes]
        known_size = math.prod([letter_sizes[a] for a in group if a in letter_sizes])
        if len(unknown) > 1:
            raise ValueError(f"einshape: how is a dimension of size {n} split into {', '.join(group)}? Give all sizes but one.")
        if unknown and known_size and n % known_size == 0:
            letter_sizes[unknown[0]] = n // known_size
        elif unknown or known_size != n:
            raise ValueError(f"einshape: a dimension of size {n} cannot be split into {', '.join(group)} of sizes {sizes}.")
    split = xnp.reshape(x, [letter_sizes[a] for a in left_letters])
    transposed = xnp.transpose(split, [left_letters.index(a) for a in right_letters])
    return xnp.reshape(transposed, [math.prod([letter_sizes[a] for a in group]) for group in right_groups])


def _groups(equation: str, side: str) -> list[str]:
    """Return the letters of each dimension on one side."""
    if not re.fullmatch(r"([a-zA-Z]|\([a-zA-Z]+\))*", side):
        raise ValueError(f"einshape takes an equation of letters and brackets, as '(ab)c->a(bc)', got {equation!r}.")
    return [g.strip("()") for g in re.findall(r"[a-zA-Z]|\([a-zA-Z]+\)", side)]


@boundary
def is_tpu_device() -> bool:
    """Return True if the default device is a TPU.

    Returns:
        True or False.

    Example:
        >>> pl.tpu.is_tpu_device()
        False
    """
    return getattr(backends.default_device(), "platform", None) == "tpu"


@boundary
def trace_value(label: str, value: Any) -> None:
    """Record a scalar in the profile. No effect in interpreted kernels.

    Args:
        label: Name of the scalar in the profile.
        value: The scalar.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.tpu.trace_value("the first", x_ref[0])
    """
    if not tracing.is_arraylike(value):
        raise errors.not_an_array(value, "trace_value", "value")
