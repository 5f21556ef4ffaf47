"""Slices of arrays at run-time positions. Start indices that are out of range are clamped, as in XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim, to_dtype
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import of_all, of_first
from xlafront.core.tangents import zeros_of
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xlafront.lax.elementwise import add, as_type, lt, select, size_scalar
from xlafront.lax.indexing import bind_gather, bind_scatter, scatter_p
from xlafront.lax.shapes import (
    broadcast_batch,
    canonical_axis,
    expand_dims,
    physical_tail,
    reshape_to,
    squeeze,
    static_shape,
    structural,
    typed,
)
from xlafront.lax.slicing import concatenate_p, rows_of
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim

if TYPE_CHECKING:
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

# A batched dynamic slice is a gather or scatter of one window for each batch element.


def _stack_starts(axis_size: int, starts: Sequence[Any], ds: Dims) -> Array:
    columns = [reshape_to(broadcast_batch(s, d, axis_size), (axis_size, 1)) for s, d in zip(starts, ds)]
    sharding = next((explicit for c in columns if (explicit := tracing.aval_of(c).explicit_sharding) is not None), None)
    if sharding is not None:  # shard the unbatched starts like the batched ones
        from xlafront.core.basic_primitives import reshard_p  # start-up: only for arrays over explicit axes

        columns = [c if tracing.aval_of(c).explicit_sharding == sharding else reshard_p.bind(c, dst_sharding=sharding)
                   for c in columns]
    kinds = {tracing.aval_of(c).dtype for c in columns}
    if len(kinds) > 1:
        columns = [to_dtype(c, np.int32) for c in columns]
    return concatenate_p.bind(*columns, dimension=1)


def _batched_dynamic_slice(axis_size: int, x: Array, dx: int | None, starts: Sequence[Any], ds: Dims, slice_sizes: Sequence[int]
                           ) -> Array:
    indices = _stack_starts(axis_size, starts, ds)
    rank = len(slice_sizes)
    if dx is None:
        numbers = GatherDimensionNumbers(tuple(range(1, rank + 1)), (), tuple(range(rank)))
        sizes = tuple(slice_sizes)
    else:
        x = move_dim(x, dx, 0)
        numbers = GatherDimensionNumbers(tuple(range(1, rank + 1)), (), tuple(range(1, rank + 1)), (0,), (0,))
        sizes = (1, *slice_sizes)
    return bind_gather(x, indices, dimension_numbers=numbers, slice_sizes=sizes, mode=GatherScatterMode.CLIP)


def _batched_dynamic_update_slice(axis_size: int, x: Array, update: Array, starts: Sequence[Any], ds: Dims) -> Array:
    indices = _stack_starts(axis_size, starts, ds)
    rank = len(starts)
    numbers = ScatterDimensionNumbers(tuple(range(1, rank + 1)), (), tuple(range(1, rank + 1)), (0,), (0,))
    return bind_scatter(scatter_p, x, indices, update, dimension_numbers=numbers, indices_are_sorted=True,
                        unique_indices=True, mode=GatherScatterMode.CLIP)


# The primitives


def _dynamic_slice_abstract(x: ShapedArray, *starts: ShapedArray, slice_sizes: Sequence[int]) -> ShapedArray:
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim:
        raise ValueError(f"dynamic_slice needs one size for each of the {x.ndim} dimensions of shape {x.shape}, got the sizes "
                         f"{tuple(slice_sizes)}.")
    if any(not 0 <= m <= n for m, n in zip(slice_sizes, x.shape)):
        raise TypeError(f"dynamic_slice of sizes {tuple(slice_sizes)} does not fit an array of shape {x.shape}.")
    return typed(x, slice_sizes)


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim:
        raise TypeError(f"{name} needs one start index for each of the {x.ndim} dimensions of shape {x.shape}, got "
                        f"{len(starts)}.")
    for s in starts:
        _check_start(name, s)


def _check_start(name: str, aval: ShapedArray) -> None:
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise TypeError(f"{name} needs integer scalars as start indices, got one of type {aval}.")


def _dynamic_slice_lower(ctx: RuleContext, x: ir.Value, *starts: ir.Value, slice_sizes: Sequence[int]) -> ir.Value:
    return ctx.dynamic_slice(x, _same_index_type(ctx, starts, 1))


def _same_index_type(ctx: RuleContext, starts: Sequence[ir.Value], first: int) -> list[ir.Value]:
    """Convert start indices to one type that has room for the sizes of the array, which XLA clamps them to."""
    avals = ctx.avals_in[first:first + len(starts)]
    kinds = {a.dtype for a in avals}
    tail = physical_tail(ctx)
    if len(kinds) <= 1 and all([k.itemsize >= 4 for k in kinds]) and not (tail and kinds != {dtypes.int32}):
        return list(starts)
    wide = dtypes.int64 if any(k.itemsize == 8 for k in kinds) and not tail else dtypes.int32
    return [s if a.dtype == wide else ctx.convert(s, (), wide) for s, a in zip(starts, avals)]


def _dynamic_slice_transpose(ct: Array, aval: ShapedArray, *starts: Any, slice_sizes: Sequence[int]) -> Array:
    return dynamic_update_slice_p.bind(zeros_of(aval.update(dtype=tracing.aval_of(ct).dtype)), ct, *starts)


def _dynamic_slice_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, slice_sizes: Sequence[int]) -> tuple[Any, Any]:
    x, *starts = operands
    dx, *ds = dims
    if all(d is None for d in ds):
        zero = np.zeros((), np.int32) if not starts else np.zeros((), tracing.aval_of(starts[0]).dtype)
        return dynamic_slice_p.bind(x, *starts[:dx], zero, *starts[dx:], slice_sizes=(
            *slice_sizes[:dx], np.shape(x)[dx], *slice_sizes[dx:])), dx
    return _batched_dynamic_slice(axis_size, x, dx, starts, ds, slice_sizes), 0


dynamic_slice_p = structural(
    "dynamic_slice", _dynamic_slice_abstract, _dynamic_slice_lower, _dynamic_slice_transpose, _dynamic_slice_batch,
    sharding_rule=sharding_rules.resized, sums=of_first, traits=Traits(key_use=KeyUse.FORWARDS))


def _update_abstract(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    _check_starts("dynamic_update_slice", x, starts)
    if update.ndim != x.ndim or any(m > n for m, n in zip(update.shape, x.shape)):
        raise errors.incompatible_shapes("dynamic_update_slice", [("operand", x.shape), ("update", update.shape)],
                                         "The update must fit inside the operand.")
    if x.dtype != update.dtype:
        raise errors.incompatible_dtypes("dynamic_update_slice", [x.dtype, update.dtype])
    return ShapedArray(x.shape, x.dtype, vma=x.vma)


def _update_lower(ctx: RuleContext, x: ir.Value, update: ir.Value, *starts: ir.Value) -> ir.Value:
    starts, (operand_aval, update_aval, *_) = _same_index_type(ctx, starts, 2), ctx.avals_in
    result = ctx.dynamic_update_slice(x, update, starts)
    if operand_aval.plain and ctx.body.sizes is None and lowering.mlir.is_zero(x, operand_aval.dtype):
        def add_to(total: ir.Value) -> ir.Value:
            current = ctx.dynamic_slice(total, starts, update_aval)
            return ctx.dynamic_update_slice(total, ctx.op("stablehlo.add", [current, update], [update_aval]), starts)

        ctx.body.sparse[result] = [add_to]
    return result


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    answer = dynamic_update_slice_p.bind(*primals)
    if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    x, update = (zeros_of(t.aval) if type(t) is Zero else t for t in tangents[:2])
    return answer, dynamic_update_slice_p.bind(x, update, *primals[2:])


def _update_transpose(ct: Tangent, x: Any, update: Any, *starts: Any) -> list[Any]:
    none = [None] * len(starts)
    if type(ct) is Zero:
        return [Zero(a.aval) if is_undefined(a) else None for a in (x, update)] + none
    shape = update.aval.shape if is_undefined(update) else np.shape(update)
    x_ct = update_ct = None
    if is_undefined(x):
        zero = broadcast_in_dim_p.bind(np.zeros((), tracing.aval_of(ct).dtype), shape=tuple(shape), broadcast_dimensions=(),
                                       sharding=tracing.aval_of(ct).explicit_sharding)
        x_ct = dynamic_update_slice_p.bind(ct, zero, *starts)
    if is_undefined(update):
        update_ct = dynamic_slice_p.bind(ct, *starts, slice_sizes=tuple(shape))
    return [x_ct, update_ct, *none]


def _update_batch(axis_size: int, operands: Sequence[Any], dims: Dims) -> tuple[Any, Any]:
    (x, update, *starts), (dx, du, *ds) = operands, dims
    x, update = broadcast_batch(x, dx, axis_size), broadcast_batch(update, du, axis_size)
    if all(d is None for d in ds):
        zero = np.zeros((), np.int32) if not starts else np.zeros((), tracing.aval_of(starts[0]).dtype)
        return dynamic_update_slice_p.bind(x, update, zero, *starts), 0
    return _batched_dynamic_update_slice(axis_size, x, update, starts, ds), 0


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice", abstract=_update_abstract, lower=_update_lower, jvp=_update_jvp, transpose=_update_transpose,
    batch=_update_batch, mesh=MeshRules(sharding_rule=sharding_rules.update, sums=of_all(*range(2, 64))),
    traits=Traits(key_use=KeyUse.FORWARDS, updates_in_place=True))


# Public functions


def start_index(i: ArrayLike, n: int) -> Any:
    """Return a start index for XLA: negative indices count from the end."""
    if isinstance(i, (int, np.integer)):
        index = i + n if i < 0 else i
        return size_scalar(index, np.int32) if is_symbolic_dim(index) else np.asarray(index).astype(np.int32)[()]
    aval = tracing.aval_of(i)
    if dtypes.is_unsigned(aval.dtype):
        return i
    d = aval.dtype.type
    if is_symbolic_dim(n) or n <= np.iinfo(aval.dtype).max:
        return select(lt(i, d(0)), i, add(i, size_scalar(n, aval.dtype)))
    return i


@library(static=("slice_sizes", "wrap"))
def _dynamic_slice_kernel(operand: Array, start_indices: Sequence[Array], slice_sizes: Sequence[int], wrap: tuple[bool, ...]
                          ) -> Array:
    starts = _starts("dynamic_slice", start_indices, np.shape(operand), wrap, require_one_type=True)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=slice_sizes)


def _wraps(name: str, allow_negative_indices: Any, starts: Any, shape: Sequence[int]) -> tuple[bool, ...]:
    """Return, for each dimension, True if negative starts count from the end; raise ValueError for static negative starts if
    not."""
    wraps = tuple(map(bool, allow_negative_indices)) if isinstance(allow_negative_indices, (tuple, list)) else (
        bool(allow_negative_indices),) * len(shape)
    if not all(wraps) and (type(starts) in (list, tuple) or isinstance(starts, np.ndarray)):
        for start, n, wrap in zip(starts, shape, wraps):
            if not wrap and isinstance(start, (int, np.integer)) and start < 0:
                raise ValueError(f"{name} got the negative start {start} in a dimension of size {n}, but "
                                 f"allow_negative_indices is {allow_negative_indices}.")
    return wraps


def _starts(name: str, indices: Any, shape: Sequence[int], wrap: Sequence[bool], require_one_type: bool = False) -> list:
    if not isinstance(indices, (list, tuple)):
        if np.ndim(indices) != 1:
            kind = ValueError if np.ndim(indices) else TypeError
            raise kind(f"{name} needs a sequence of start indices, or a vector of them, got {errors.short(indices)}.")
        indices = rows_of(indices)
    if len(indices) != len(shape):
        raise ValueError(f"{name} needs one start index for each of the {len(shape)} dimensions of shape {tuple(shape)}, got "
                         f"{len(indices)}: the lengths must match.")
    avals = [tracing.aval_of(i, name) for i in indices]
    for aval in avals:
        _check_start(name, aval)
    if require_one_type and len({aval.dtype for aval in avals}) > 1:
        raise TypeError(f"{name} needs start indices of one integer type, got {', '.join(str(aval.dtype) for aval in avals)}. "
                        f"Convert them, or pass a vector.")
    return [start_index(i, n) if w else np.int32(i) if isinstance(i, int) else i for i, n, w in zip(indices, shape, wrap)]


def dynamic_slice(operand: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike], slice_sizes: Sequence[int], *,
                  allow_negative_indices: bool | Sequence[bool] = True) -> Array:
    """Extract a slice at a run-time position.

    A slice that exceeds the array is shifted so that it fits.

    Args:
        operand: An array.
        start_indices: The first index in each dimension: a sequence of integer scalars, or a vector.
        slice_sizes: Shape of the slice, static.
        allow_negative_indices: If True, negative start indices count from the end. A bool, or one for each dimension.

    Returns:
        An array of shape `slice_sizes`.

    Example:
        >>> lax.dynamic_slice(xnp.arange(5), [3], (3,))
        Array([2, 3, 4], dtype=int32)
    """
    sizes = static_shape("dynamic_slice", slice_sizes)
    if len(sizes) != np.ndim(operand):
        raise ValueError(f"dynamic_slice needs a size for each of the {np.ndim(operand)} dimensions, got {sizes}.")
    wraps = _wraps("dynamic_slice", allow_negative_indices, start_indices, np.shape(operand))
    return _dynamic_slice_kernel(operand, start_indices, sizes, wraps)


def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike], *,
                         allow_negative_indices: bool | Sequence[bool] = True) -> Array:
    """Replace a slice of an array at a run-time position.

    A slice that exceeds the array is shifted so that it fits.

    Args:
        operand: An array.
        update: The new contents of the slice, of the rank and dtype of `operand`.
        start_indices: The first index in each dimension: a sequence of integer scalars, or a vector.
        allow_negative_indices: If True, negative start indices count from the end. A bool, or one for each dimension.

    Returns:
        A copy of `operand` with the slice replaced.

    Example:
        >>> lax.dynamic_update_slice(xnp.zeros(5, int), xnp.array([7, 8]), [4])
        Array([0, 0, 0, 7, 8], dtype=int32)
    """
    wraps = _wraps("dynamic_update_slice", allow_negative_indices, start_indices, np.shape(operand))
    return _dynamic_update_kernel(operand, update, start_indices, wraps)


@library(static="wrap", name="dynamic_update_slice")
def _dynamic_update_kernel(operand: Array, update: Array, start_indices: Sequence[Array], wrap: tuple[bool, ...]) -> Array:
    starts = _starts("dynamic_update_slice", start_indices, np.shape(operand), wrap, require_one_type=True)
    return _bind_update(operand, update, starts)


def _bind_update(operand: Array, update: ArrayLike, starts: Sequence[Any]) -> Array:
    update = as_type(update, tracing.aval_of(operand).dtype, False) if not hasattr(update, "dtype") else update
    return dynamic_update_slice_p.bind(operand, update, *starts)


@library(static=("slice_size", "axis", "allow_negative_indices"))
@accepts(lists=("slice_size", "axis", "allow_negative_indices"))
def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0, *,
                         allow_negative_indices: bool = True) -> Array:
    """Apply `dynamic_slice` along one dimension, with all elements of the others.

    Args:
        operand: An array.
        start_index: The first index, an integer scalar.
        slice_size: Size of the slice along the dimension, static.
        axis: The dimension.
        allow_negative_indices: If True, a negative start index counts from the end.

    Returns:
        The slice.

    Example:
        >>> lax.dynamic_slice_in_dim(xnp.arange(5), xnp.array(1), 2)
        Array([1, 2], dtype=int32)
    """
    axis = canonical_axis(axis, np.ndim(operand), "dynamic_slice_in_dim")
    [size] = static_shape("dynamic_slice_in_dim", (slice_size,))
    return _slice_in_dim(operand, start_index, size, axis, bool(allow_negative_indices))


def _slice_in_dim(operand: Array, start: ArrayLike, size: int, axis: int, wrap: bool) -> Array:
    shape = np.shape(operand)
    starts = _starts("dynamic_slice", _start_along_axis(start, axis, len(shape)), shape, (wrap,) * len(shape))
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=(*shape[:axis], size, *shape[axis + 1:]))


def _start_along_axis(index: ArrayLike, axis: int, rank: int) -> list:
    """Return start indices that are `index` along `axis` and 0 along all other dimensions."""
    starts: list = [0] * rank
    starts[axis] = index
    return starts


@library(static=("axis", "keepdims", "allow_negative_indices"))
def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *,
                         allow_negative_indices: bool = True) -> Array:
    """Return the slice of an array at a run-time index. An index out of bounds is clamped.

    Args:
        operand: An array.
        index: An integer scalar.
        axis: The dimension to index.
        keepdims: If True, keep the dimension with size 1.
        allow_negative_indices: If True, a negative index counts from the end.

    Returns:
        The slice.

    Example:
        >>> lax.dynamic_index_in_dim(xnp.array([[1, 2], [3, 4]]), xnp.array(1), keepdims=False)
        Array([3, 4], dtype=int32)
    """
    axis = canonical_axis(axis, np.ndim(operand), "dynamic_index_in_dim")
    row = _slice_in_dim(operand, index, 1, axis, bool(allow_negative_indices))
    return row if keepdims else squeeze(row, (axis,))


@library(static=("axis", "allow_negative_indices"))
@accepts(lists=("axis", "allow_negative_indices"))
def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *,
                                allow_negative_indices: bool = True) -> Array:
    """Apply `dynamic_update_slice` along one dimension.

    Args:
        operand: An array.
        update: The new contents of the slice, of the rank and dtype of `operand`.
        start_index: The first index, an integer scalar.
        axis: The dimension.
        allow_negative_indices: If True, a negative start index counts from the end.

    Returns:
        A copy of `operand` with the slice replaced.

    Example:
        >>> lax.dynamic_update_slice_in_dim(xnp.zeros(4, int), xnp.array([7, 8]), xnp.array(1), 0)
        Array([0, 7, 8, 0], dtype=int32)
    """
    axis = canonical_axis(axis, np.ndim(operand), "dynamic_update_slice_in_dim")
    return _update_in_dim(operand, update, start_index, axis, bool(allow_negative_indices))


def _update_in_dim(operand: Array, update: ArrayLike, start: ArrayLike, axis: int, wrap: bool) -> Array:
    shape = np.shape(operand)
    starts = _starts("dynamic_update_slice", _start_along_axis(start, axis, len(shape)), shape, (wrap,) * len(shape))
    return _bind_update(operand, update, starts)


@library(static=("axis", "allow_negative_indices"))
def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *,
                                allow_negative_indices: bool = True) -> Array:
    """Replace the slice of an array at a run-time index. An index out of bounds is clamped.

    Args:
        operand: An array.
        update: The new contents, with the dimension `axis` of size 1 or without it.
        index: An integer scalar.
        axis: The dimension to index.
        allow_negative_indices: If True, a negative index counts from the end.

    Returns:
        A copy of `operand` with the slice replaced.

    Example:
        >>> lax.dynamic_update_index_in_dim(xnp.array([[1, 2], [3, 4]]), xnp.array([7, 8]), xnp.array(0), 0)
        Array([[7, 8],
               [3, 4]], dtype=int32)
    """
    axis = canonical_axis(axis, np.ndim(operand), "dynamic_update_index_in_dim")
    if np.ndim(update) != np.ndim(operand):
        update = expand_dims(update, (axis,))
    return _update_in_dim(operand, update, index, axis, bool(allow_negative_indices))
