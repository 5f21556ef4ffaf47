"""Operations on SparseCores beside those on vectors: packing to narrow elements, and memory that subcores share."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, errors, tracing
from xlafront.core.traceback_filter import boundary
from xlafront.lax import refs as ref_operations
from xlafront.lax.ref_indexing import ds, selected_shape
from xlafront.pallas.kernel_mlir import bit_width
from xlafront.pallas.kernel_operation import flatten_views, is_ref_or_view, kernel_operation, view_effects, views_of
from xlafront.pallas.primitives import index_aval, kernel_scope, program_id
from xlafront.pallas.tpu import SMEM, VMEM_SHARED


class SparseCorePushStreamWarning(UserWarning):
    """A warning that a copy's semaphore is ignored. xlafront does not issue it.

    Example:
        >>> issubclass(pl.tpu_sc.SparseCorePushStreamWarning, UserWarning)
        True
    """


class PackFormat(enum.Enum):
    """The arrangement of two vectors by `pack`: elements in turn, or pairs along a second dimension.

    Example:
        >>> pl.tpu_sc.PackFormat("interleaved")
        <PackFormat.INTERLEAVED: 'interleaved'>
    """

    COMPRESSED = "compressed"
    INTERLEAVED = "interleaved"


def _packed_shape(n: int, format: PackFormat) -> tuple[int, ...]:
    return (n, 2) if format is PackFormat.COMPRESSED else (2 * n,)


def _pack(a, b, *, format, dtype):
    return xnp.stack([a.astype(dtype), b.astype(dtype)], 1).reshape(_packed_shape(a.shape[0], format))


def _unpack(x, *, format, dtype):
    pairs = x.reshape(-1, 2)
    return [pairs[:, i].astype(dtype) for i in range(2)]


def _fetch_and_add(*operands, views, num_subcores):
    [view], (value, _) = views_of(operands, views)
    before = ref_operations.get(view)
    ref_operations.set(view, ..., before + value)
    return before


lane_pack_p = kernel_operation("lane_pack", _pack, abstract=lambda a, b, *, format, dtype: a.update(
    shape=_packed_shape(a.shape[0], format), dtype=dtype, weak_type=False))
lane_unpack_p = kernel_operation(
    "lane_unpack", _unpack, multiple_results=True, abstract=lambda x, *, format, dtype: [x.update(
        shape=(x.size // 2,), dtype=dtype, weak_type=False)] * 2)
fetch_and_add_p = kernel_operation("fetch_and_add", _fetch_and_add, effects=view_effects("w"),
                                   abstract=lambda *_, views, num_subcores: index_aval)


def _format(caller: str, format: Any) -> PackFormat:
    if not isinstance(format, PackFormat):
        raise TypeError(f"{caller} takes format=PackFormat.INTERLEAVED or PackFormat.COMPRESSED, got {errors.short(format)}.")
    return format


def _other_dtype(caller: str, dtype: Any, bits: int, preferred: Any, defaults: dict[str, Any]) -> np.dtype:
    """Return the dtype of a result: the preferred one, of `bits` bits, or that of the same kind."""
    if preferred is not None:
        found = dtypes.canonicalize_dtype(preferred)
        if bit_width(found) != bits:
            raise ValueError(f"{caller} of {dtype} takes a preferred_element_type of {bits} bits, got {found}.")
        return found
    if dtype.name not in defaults:
        raise NotImplementedError(f"{caller} takes vectors of {' and '.join(defaults)} without a preferred_element_type, got "
                                  f"{dtype}. Give preferred_element_type.")
    return np.dtype(defaults[dtype.name])


@boundary
def pack(a: Any, b: Any, /, *, format: PackFormat, preferred_element_type: Any = None) -> Any:
    """Pack two vectors into one with elements of half the width. For use in kernels on vector subcores.

    Args:
        a, b: Vectors of one size and dtype, whose values the narrow dtype has.
        format: INTERLEAVED for a vector `a[0], b[0], a[1], ...`, or COMPRESSED for an array of shape `(n, 2)`.
        preferred_element_type: The narrow dtype. Default: bfloat16 for float32, int16 for int32.

    Returns:
        The packed vector.

    Example:
        >>> pl.tpu_sc.pack(xnp.arange(2), 10 + xnp.arange(2), format=pl.tpu_sc.PackFormat.INTERLEAVED)
        Array([ 0, 10,  1, 11], dtype=int16)
    """
    for name, x in (("a", a), ("b", b)):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, "pack", name)
    left, right = tracing.aval_of(a), tracing.aval_of(b)
    if left.ndim != 1 or left.shape != right.shape:
        raise ValueError(f"pack takes two vectors of one size, got shapes {left.shape} and {right.shape}.")
    if left.dtype != right.dtype:
        raise TypeError(f"pack takes two vectors of one dtype, got {left.dtype} and {right.dtype}. Convert one with astype.")
    dtype = _other_dtype("pack", left.dtype, bit_width(left.dtype) // 2, preferred_element_type,
                         {"float32": dtypes.bfloat16, "int32": np.int16})
    return lane_pack_p.bind(a, b, format=_format("pack", format), dtype=dtype)


@boundary
def unpack(ab: Any, /, *, format: PackFormat, preferred_element_type: Any = None) -> tuple[Any, Any]:
    """Return the two vectors that `pack` has packed, with elements of twice the width. For use in kernels on vector subcores.

    Args:
        ab: The packed vector.
        format: The format of `pack`.
        preferred_element_type: The wide dtype. Default: float32 for bfloat16, int32 for int16.

    Returns:
        The vectors.

    Example:
        >>> pl.tpu_sc.unpack(xnp.arange(4, dtype="int16"), format=pl.tpu_sc.PackFormat.INTERLEAVED)
        (Array([0, 2], dtype=int32), Array([1, 3], dtype=int32))
    """
    if not tracing.is_arraylike(ab):
        raise errors.not_an_array(ab, "unpack", "ab")
    aval = tracing.aval_of(ab)
    is_compressed = _format("unpack", format) is PackFormat.COMPRESSED
    if (aval.ndim != 2 or aval.shape[1] != 2) if is_compressed else (aval.ndim != 1 or aval.shape[0] % 2):
        raise ValueError(f"unpack with {format} takes an array of shape {'(n, 2)' if is_compressed else '(2 n,)'}, got shape "
                         f"{aval.shape}.")
    dtype = _other_dtype("unpack", aval.dtype, 2 * bit_width(aval.dtype), preferred_element_type,
                         {"bfloat16": np.float32, "int16": np.int32})
    found = lane_unpack_p.bind(ab, format=format, dtype=dtype)
    return tuple(found)


def _vector_scope(caller: str) -> Any:
    scope = kernel_scope.get()
    if scope is None or len(scope.grid) != 2:
        raise ValueError(f"{caller} is only for kernels of pl.kernel on a pltpu_sc.VectorSubcoreMesh.")
    return scope


def _reference_in(caller: str, space: Any, ref: Any) -> tuple[list[Any], Any, Any]:
    """Return the operands and views of a reference in a memory, and its type."""
    if not is_ref_or_view(ref):
        raise TypeError(f"{caller} takes a reference in {space.name}, got {errors.short(ref)}.")
    operands, views = flatten_views([ref])
    aval = tracing.aval_of(operands[0])
    if aval.memory_space is not space:
        raise ValueError(f"{caller} takes a reference in {space.name}, got {aval}.")
    return operands, views, aval


@boundary
def fetch_and_add(x_ref: Any, value: Any, *, subcore_id: Any) -> Any:
    """Add to a number in the scalar memory of a subcore, without others in between, and return what it was before.

    Args:
        x_ref: Reference to one int32 number in SMEM, such as `ref.at[0]`.
        value: The number to add.
        subcore_id: Index of the subcore whose memory it is.

    Returns:
        The number before.

    Example:
        >>> def kernel(x_ref, count_ref):
        ...     row = pl.tpu_sc.fetch_and_add(count_ref.at[0], 1, subcore_id=0)
    """
    operands, views, aval = _reference_in("fetch_and_add", SMEM, x_ref)
    if selected_shape(aval.shape, views[0].indexers, [np.shape(x) for x in operands[1:]]):
        raise ValueError(f"fetch_and_add takes a reference to one number, got one of shape {x_ref.shape}. Index it: ref.at[0].")
    if aval.dtype != np.int32:
        raise NotImplementedError(f"fetch_and_add takes numbers of int32, got {aval.dtype}.")
    num_subcores = _vector_scope("fetch_and_add").grid[1]
    numbers = [xnp.asarray(n, np.int32) if isinstance(n, (int, np.integer)) else n for n in (value, subcore_id)]
    return fetch_and_add_p.bind(*operands, *numbers, views=views, num_subcores=num_subcores)


@boundary
def slice_subcore_vmem_from_shared(ref: Any) -> Any:
    """Return the part of a reference in shared vector memory that belongs to this subcore: its share of the last dimension.

    Args:
        ref: Reference in `pltpu.VMEM_SHARED`.

    Returns:
        A view, whose last dimension is divided by the number of subcores.

    Example:
        >>> def kernel(x_ref, shared_ref):
        ...     pl.tpu.sync_copy(x_ref, pl.tpu_sc.slice_subcore_vmem_from_shared(shared_ref))
    """
    _reference_in("slice_subcore_vmem_from_shared", VMEM_SHARED, ref)
    count = _vector_scope("slice_subcore_vmem_from_shared").grid[1]
    if not ref.shape or ref.shape[-1] % count:
        raise ValueError(f"slice_subcore_vmem_from_shared: the last dimension of the reference, of shape {ref.shape}, must be "
                         f"a multiple of the {count} subcores.")
    size = ref.shape[-1] // count
    return ref.at[..., ds(program_id(1) * size, size)]
