"""`gather` and `scatter`: reads and writes at run-time positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlafront import lowering
from xlafront.base.specs import PartitionSpec
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim, to_dtype, with_weakness
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import has_open_sums, of_all, of_first
from xlafront.core.tangents import add_tangents, weakly_typed_as, zeros_of
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import key_arrays, sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    as_numbers,
    check_scatter,
    dims_text,
    gathered_shape,
)
from xlafront.lax.elementwise import (
    PRIMITIVES as ELEMENTWISE,
    add,
    and_,
    clamp_,
    constant_like,
    div,
    eq,
    ge,
    le,
    mul,
    neg,
    size_scalar,
    where,
)
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS
from xlafront.lax.scatter_lowering import emit_scatter, scatter_lowering
from xlafront.lax.shapes import (
    bitcast_convert_type_p,
    broadcast_batch,
    counting,
    physical_tail,
    reshape_to,
    static_shape,
    typed,
)
from xlafront.lax.slicing import concatenate_p
from xlafront.runtime.keys import physical
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic

if TYPE_CHECKING:
    from xlafront.core.ir import Jaxpr
    from xlafront.core.typing import Dims, Params, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def check_indices(name: str, indices: Any) -> None:
    """Raise an error if indices are not integers."""
    d = tracing.aval_of(indices).dtype
    if not dtypes.is_integer(d):
        raise ValueError(f"{name} needs indices of an integer type, got {d}.")


# gather


def _gather_abstract(x: ShapedArray, indices: ShapedArray, *, dimension_numbers: GatherDimensionNumbers,
                     slice_sizes: Sequence[int], unique_indices: bool, indices_are_sorted: bool, mode: GatherScatterMode,
                     fill_value: Any) -> ShapedArray:
    check_indices("gather", indices)
    return typed(x, gathered_shape(x.shape, indices.shape, dimension_numbers, slice_sizes))


def _gather_lower(ctx: RuleContext, x: ir.Value, indices: ir.Value, **params: Any) -> ir.Value:
    return (_lower_filled if params["mode"] is GatherScatterMode.FILL_OR_DROP else _lower_clamped)(ctx, x, indices, **params)


def _lower_clamped(ctx: RuleContext, x: ir.Value, indices: ir.Value, *, dimension_numbers: GatherDimensionNumbers,
                   slice_sizes: Sequence[int], unique_indices: bool, indices_are_sorted: bool, mode: GatherScatterMode,
                   fill_value: Any) -> ir.Value:
    m = lowering.mlir
    dn = dimension_numbers
    key_dims = physical_tail(ctx)
    if ctx.aval_out.size == 0:
        key_words = physical(ctx.aval_out)
        return ctx.broadcast(ctx.constant(np.zeros((), key_words.dtype)), key_words.shape, key_words.dtype, ())
    out_rank = ctx.aval_out.ndim
    offset_dims = (*dn.offset_dims, *range(out_rank, out_rank + len(key_dims)))
    numbers = (f"#stablehlo.gather<offset_dims = {dims_text(offset_dims)}, "
            f"collapsed_slice_dims = {dims_text(dn.collapsed_slice_dims)}, "
            f"operand_batching_dims = {dims_text(dn.operand_batching_dims)}, "
            f"start_indices_batching_dims = {dims_text(dn.start_indices_batching_dims)}, "
            f"start_index_map = {dims_text(dn.start_index_map)}, index_vector_dim = {ctx.avals_in[1].ndim - 1}>")
    if ctx.has_computed_sizes(slice_sizes):
        return ctx.op("stablehlo.dynamic_gather", [x, indices, ctx.vector((*slice_sizes, *key_dims), np.int32)],
                      dimension_numbers=m.attribute(numbers), indices_are_sorted=m.boolean(indices_are_sorted))
    return ctx.op("stablehlo.gather", [x, indices], dimension_numbers=m.attribute(numbers),
                  slice_sizes=m.i64s((*slice_sizes, *key_dims)), indices_are_sorted=m.boolean(indices_are_sorted))


def _last_index(shape: Sequence[int], dimensions: Sequence[int], sizes: Sequence[int], dtype: np.dtype) -> Any:
    """Return the largest start index at which a window is in bounds, for each indexed dimension."""
    if is_symbolic(shape) or is_symbolic(sizes):
        limits = [broadcast_in_dim_p.bind(size_scalar(shape[d] - sizes[d], dtype), shape=(1,), broadcast_dimensions=(),
                                          sharding=None) for d in dimensions]
        return concatenate_p.bind(*limits, dimension=0)
    last = np.array([shape[d] - sizes[d] for d in dimensions], dtype=np.int64)
    return np.minimum(last, np.iinfo(dtype).max).astype(dtype) if dtypes.is_integer(dtype) else last


def in_bounds(indices: Array, shape: Sequence[int], dimensions: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return a mask of the index vectors whose entire window is inside an array of this shape."""
    aval = tracing.aval_of(indices)
    canonical_dtype = dtypes.canonicalize_dtype(aval.dtype)
    if canonical_dtype != aval.dtype:  # 64-bit indices made in x64 mode; outside of it, the bounds have 32 bits
        indices, aval = to_dtype(indices, canonical_dtype), aval.update(dtype=canonical_dtype)
    last_start = _last_index(shape, dimensions, sizes, aval.dtype)
    signed = not dtypes.is_unsigned(aval.dtype)
    if signed and isinstance(last_start, np.ndarray) and np.all(last_start >= 0):  # unsigned negative indices are large
        aval = aval.update(dtype=np.dtype(f"uint{aval.dtype.itemsize * 8}"))
        indices, last_start = bitcast_convert_type_p.bind(indices, new_dtype=aval.dtype), last_start.astype(aval.dtype)
        signed = False
    last_start = broadcast_in_dim_p.bind(last_start, shape=aval.shape, broadcast_dimensions=(aval.ndim - 1,), sharding=None)
    inside = le(indices, last_start)
    if signed:
        inside = and_(inside, ge(indices, aval.dtype.type(0)))
    return REDUCTIONS["reduce_and"].bind(inside, axes=(aval.ndim - 1,))


def fill_for(dtype: Any, fill_value: Any) -> Any:
    """Return the value of reads out of bounds: NaN, the largest unsigned or smallest signed integer, a key of all ones."""
    if not isinstance(dtype, np.dtype):
        return key_arrays.filled(np.uint32(0xFFFFFFFF) if fill_value is None else fill_value, (), dtype)
    if fill_value is not None:
        return np.asarray(fill_value).astype(dtype)[()]
    if dtypes.is_inexact(dtype):
        return np.asarray(np.nan).astype(dtype)[()]
    if dtype == dtypes.bool_:
        return np.bool_(True)
    info = dtypes.iinfo(dtype)
    return np.asarray(info.max if dtypes.is_unsigned(dtype) else info.min).astype(dtype)[()]


def bind_gather(x: Array, indices: Array, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
                unique_indices: bool = False, indices_are_sorted: bool = False,
                mode: GatherScatterMode = GatherScatterMode.CLIP, fill_value: Any = None) -> Array:
    """Bind `gather` with a mode and the fill value of reads out of bounds."""
    params = {"dimension_numbers": dimension_numbers, "slice_sizes": tuple(slice_sizes), "unique_indices": unique_indices,
              "indices_are_sorted": indices_are_sorted, "mode": mode}
    if mode is GatherScatterMode.ONE_HOT:
        raise ValueError("the indexing mode 'one_hot' is for updates and take_along_axis. For reads use clip, fill or "
                         "promise_in_bounds.")
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return gather_p.bind(x, indices, fill_value=None, **params)
    d = tracing.aval_of(x).dtype
    if not isinstance(d, np.dtype):
        return _fill_gather(x, indices, fill_value=fill_value, **params)
    if fill_value is not None:
        fill_value = fill_for(d, fill_value)
        if np.array_equal(fill_value, fill_for(d, None), equal_nan=dtypes.is_inexact(d)):
            fill_value = None  # NaN is not equal to itself, so a jaxpr with it would never be found in a cache
    return gather_p.bind(x, indices, fill_value=fill_value, **params)


def _fill_gather(x: Array, indices: Array, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
                 unique_indices: bool, indices_are_sorted: bool, mode: GatherScatterMode, fill_value: Any) -> Array:
    """Gather with clamped indices, and select the fill value where they were out of bounds."""
    dn = dimension_numbers
    result = gather_p.bind(x, indices, dimension_numbers=dn, slice_sizes=slice_sizes, unique_indices=unique_indices,
                           indices_are_sorted=indices_are_sorted, mode=GatherScatterMode.CLIP, fill_value=None)
    inside = in_bounds(indices, np.shape(x), dn.start_index_map, slice_sizes)
    shape = np.shape(result)
    batch = tuple(i for i in range(len(shape)) if i not in dn.offset_dims)
    mask = broadcast_in_dim_p.bind(inside, shape=shape, broadcast_dimensions=batch, sharding=None)
    fill = fill_for(tracing.aval_of(x).dtype, fill_value)
    if isinstance(fill, tracing.Tracer):  # keys are not broadcast implicitly
        return _select_keys(mask, result, fill)
    summands = has_open_sums(tracing.aval_of(result))
    if summands and np.any(fill + fill != fill) and not np.any(np.isnan(fill)):  # each device would add the fill value
        raise errors.ShardingTypeError(
            f"gather of {tracing.aval_of(x)} with the fill value {fill}: unreduced arrays can be filled only with 0, NaN and "
            f"infinities. Reduce the array first, with reshard(x, P(...)).")
    if summands or tracing.aval_of(x).weak_type:
        fill = constant_like(x, fill)
    if summands:
        from xlafront.core.basic_primitives import reshard_p  # start-up: needed only for unreduced arrays
        sums = tracing.aval_of(result).explicit_sharding
        fill = reshard_p.bind(fill, dst_sharding=sums.update(spec=PartitionSpec(unreduced=sums.spec.unreduced)))
    return where(mask, result, fill)


_lower_filled = lower_fun(_fill_gather)


def take_along(x: Array, indices: Array, axis: int) -> Array:
    """Return `x[..., indices, ...]` element by element along an axis. The shapes agree in the other dimensions."""
    rank = np.ndim(x)
    x, indices = move_dim(x, axis, rank - 1), move_dim(indices, axis, rank - 1)
    shape = np.shape(indices)
    batch = tuple(range(rank - 1))
    numbers = GatherDimensionNumbers((), (rank - 1,), (rank - 1,), batch, batch)
    result = bind_gather(x, reshape_to(indices, (*shape, 1)), dimension_numbers=numbers, slice_sizes=(1,) * rank,
                         mode=GatherScatterMode.PROMISE_IN_BOUNDS)
    return move_dim(result, rank - 1, axis)


def _select_keys(mask: Array, keys: Array, fill: Any) -> Array:
    """Select keys by a mask. The selection is one of words, so that no key counts as used."""
    impl = fill.aval.dtype.impl
    words, shape, rank = key_arrays.unwrap_p.bind(keys), np.shape(mask), np.ndim(mask)
    mask = broadcast_in_dim_p.bind(mask, shape=np.shape(words), broadcast_dimensions=tuple(range(rank)), sharding=None)
    fill = broadcast_in_dim_p.bind(fill, shape=shape, broadcast_dimensions=(), sharding=None)
    return key_arrays.wrap_p.bind(where(mask, words, key_arrays.unwrap_p.bind(fill)), impl=impl)


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, indices = primals
    result = gather_p.bind(x, indices, **params)
    if type(tangents[0]) is Zero:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        params["fill_value"] = fill_for(tracing.aval_of(tangents[0]).dtype, 0)
    return result, gather_p.bind(tangents[0], indices, **params)


def _gather_transpose(ct: Tangent, x: Any, indices: Any, *, dimension_numbers: GatherDimensionNumbers,
                      slice_sizes: Sequence[int], unique_indices: bool, indices_are_sorted: bool, mode: GatherScatterMode,
                      fill_value: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval), None]
    dn = dimension_numbers
    numbers = ScatterDimensionNumbers(dn.offset_dims, dn.collapsed_slice_dims, dn.start_index_map,
                                      dn.operand_batching_dims, dn.start_indices_batching_dims)
    if tracing.aval_of(ct).dtype != x.aval.dtype:  # from a custom rule
        ct = to_dtype(ct, x.aval.dtype)
    result = bind_scatter(scatter_add_p, zeros_of(x.aval.update(weak_type=False)), indices, ct, dimension_numbers=numbers,
                          indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode)
    return [result, None]


def _shift_dims(dims: Sequence[int], by: int = 1) -> tuple[int, ...]:
    return tuple(d + by for d in dims)


def _gather_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension_numbers: GatherDimensionNumbers,
                  slice_sizes: Sequence[int], **params: Any) -> tuple[Any, Any]:
    (x, indices), (dx, di) = operands, dims
    dn = dimension_numbers
    if dx is not None and di is None:
        x = move_dim(x, dx, 0)
        numbers = GatherDimensionNumbers(
            (0, *_shift_dims(dn.offset_dims)), _shift_dims(dn.collapsed_slice_dims), _shift_dims(dn.start_index_map),
            _shift_dims(dn.operand_batching_dims), dn.start_indices_batching_dims)
        return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=(np.shape(x)[0], *slice_sizes),
                             **params), 0
    indices = move_dim(indices, di, 0)
    if dx is None:
        numbers = dn._replace(offset_dims=_shift_dims(dn.offset_dims),
                              start_indices_batching_dims=_shift_dims(dn.start_indices_batching_dims))
        return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params), 0
    x = move_dim(x, dx, 0)
    numbers = GatherDimensionNumbers(
        _shift_dims(dn.offset_dims), _shift_dims(dn.collapsed_slice_dims), _shift_dims(dn.start_index_map),
        (0, *_shift_dims(dn.operand_batching_dims)), (0, *_shift_dims(dn.start_indices_batching_dims)))
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=(1, *slice_sizes), **params), 0


gather_p = Primitive(
    "gather", abstract=_gather_abstract, lower=_gather_lower, jvp=_gather_jvp, transpose=_gather_transpose, batch=_gather_batch,
    mesh=MeshRules(sharding_rule=sharding_rules.gather, sums=of_first), traits=Traits(key_use=KeyUse.FORWARDS))


def take_rows(x: ArrayLike, indices: ArrayLike) -> Array:
    """Return the rows of an array at indices that are in bounds."""
    row_shape, index_rank = tuple(np.shape(x)[1:]), np.ndim(indices)
    numbers = GatherDimensionNumbers(tuple(range(index_rank, index_rank + len(row_shape))), (0,), (0,))
    indices = indices[..., None] if isinstance(indices, np.ndarray) else reshape_to(indices, (*np.shape(indices), 1))
    return bind_gather(x, indices, dimension_numbers=numbers, slice_sizes=(1, *row_shape),
                       mode=GatherScatterMode.PROMISE_IN_BOUNDS)


# scatter


def _scatter_abstract(x: ShapedArray, indices: ShapedArray, updates: ShapedArray, *, dimension_numbers: ScatterDimensionNumbers,
                      indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode) -> ShapedArray:
    check_indices("scatter", indices)
    if x.dtype != updates.dtype:
        raise errors.incompatible_dtypes("scatter", [x.dtype, updates.dtype], "The updates must have the array's dtype.")
    check_scatter("scatter", x.shape, indices.shape, updates.shape, dimension_numbers)
    return typed(x, x.shape)


# Primitive -> operation that combines an element with its update (None: the update replaces the element).
SCATTERS = {"scatter": None, "scatter_add": "stablehlo.add", "scatter_sub": "stablehlo.subtract",
            "scatter_mul": "stablehlo.multiply", "scatter_min": "stablehlo.minimum", "scatter_max": "stablehlo.maximum"}


def bind_scatter(primitive: Primitive, x: Array, indices: Array, updates: Array, *, dimension_numbers: ScatterDimensionNumbers,
                 indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: GatherScatterMode = GatherScatterMode.FILL_OR_DROP, **params: Any) -> Array:
    """Bind a scatter with a mode. XLA drops updates that are out of bounds; mode "clip" clamps the indices first."""
    if mode is GatherScatterMode.CLIP:
        indices = _clamp_indices(x, indices, updates, dimension_numbers)
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    return primitive.bind(x, indices, updates, dimension_numbers=dimension_numbers,
                          indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode, **params)


def window_sizes(operand_shape: Sequence[int], updates_shape: Sequence[int], dn: ScatterDimensionNumbers) -> tuple[int, ...]:
    sizes = iter([updates_shape[i] for i in dn.update_window_dims])
    return tuple(1 if i in dn.inserted_window_dims or i in dn.operand_batching_dims else next(sizes)
                 for i in range(len(operand_shape)))


def _clamp_indices(x: Array, indices: Array, updates: Array, dn: ScatterDimensionNumbers) -> Array:
    shape = np.shape(x)
    sizes = window_sizes(shape, np.shape(updates), dn)
    aval = tracing.aval_of(indices)
    last = _last_index(shape, dn.scatter_dims_to_operand_dims, sizes, aval.dtype)
    limit = broadcast_in_dim_p.bind(last, shape=aval.shape, broadcast_dimensions=(aval.ndim - 1,), sharding=None)
    return clamp_(aval.dtype.type(0), indices, limit)


def _gather_numbers(dn: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    return GatherDimensionNumbers(dn.update_window_dims, dn.inserted_window_dims, dn.scatter_dims_to_operand_dims,
                                  dn.operand_batching_dims, dn.scatter_indices_batching_dims)


def _gather_at_updates(values: Array, indices: Array, operand_shape: Sequence[int], updates_shape: Sequence[int],
                       dn: ScatterDimensionNumbers, mode: GatherScatterMode) -> Array:
    """Return the elements of `values` at the positions of the updates; zero for dropped updates."""
    gather_mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is GatherScatterMode.PROMISE_IN_BOUNDS else (
        GatherScatterMode.FILL_OR_DROP)
    return bind_gather(values, indices, dimension_numbers=_gather_numbers(dn),
                       slice_sizes=window_sizes(operand_shape, updates_shape, dn), mode=gather_mode, fill_value=0)


def _additive_jvp(name: str) -> Callable:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        primitive = PRIMITIVES[name]
        x, indices, updates = primals
        tx, _, tu = tangents
        result = primitive.bind(x, indices, updates, **params)
        if type(tx) is Zero and type(tu) is Zero:
            return result, Zero(tracing.aval_of(result).to_tangent_aval())
        tx = zeros_of(tx.aval) if type(tx) is Zero else tx
        tu = zeros_of(tu.aval) if type(tu) is Zero else tu
        return result, primitive.bind(tx, indices, tu, **params)

    return jvp


def _additive_transpose(sign: int) -> Callable:
    def transpose(ct: Tangent, x: Any, indices: Any, updates: Any, *, dimension_numbers: ScatterDimensionNumbers,
                  mode: GatherScatterMode, **params: Any) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(x.aval) if is_undefined(x) else None, None,
                    Zero(updates.aval) if is_undefined(updates) else None]
        updates_ct = None
        if is_undefined(updates):
            updates_ct = _gather_at_updates(ct, indices, np.shape(ct), updates.aval.shape, dimension_numbers, mode)
            if sign < 0:
                updates_ct = neg(updates_ct)
        return [ct if is_undefined(x) else None, None, updates_ct]

    return transpose


def _last_write_mask(primals: Sequence[Any], params: Params) -> tuple[Array, Array]:
    """Return the number (from 1) of the update that each element got, and a mask of the updates that remain in the array."""
    x, indices, updates = primals
    updates_shape = np.shape(updates)
    ids = reshape_to(add(counting(dtypes.int32, (math.prod(updates_shape),), 0), np.int32(1)), updates_shape)
    winners = scatter_p.bind(zeros_of(ShapedArray(np.shape(x), np.dtype(np.int32))), indices, ids, **params)
    read = _gather_at_updates(winners, indices, np.shape(x), updates_shape, params["dimension_numbers"], params["mode"])
    return winners, eq(read, ids)


def _scatter_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    tx, _, tu = tangents
    result = scatter_p.bind(x, indices, updates, **params)
    if type(tx) is Zero and type(tu) is Zero:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    tx = zeros_of(tx.aval) if type(tx) is Zero else tx
    tu = zeros_of(tu.aval) if type(tu) is Zero else tu
    return result, scatter_tangents(tx, indices, tu, **params)


def _writes_once(indices: Array, params: Params) -> bool:
    """True if no two updates write to one element: there is one update, or the indices are promised to be unique."""
    batches = params["dimension_numbers"].scatter_indices_batching_dims
    return params["unique_indices"] or all([n == 1 for i, n in enumerate(np.shape(indices)[:-1]) if i not in batches])


def _scatter_transpose(ct: Tangent, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None, None, Zero(updates.aval) if is_undefined(updates) else None]
    dn, mode = params["dimension_numbers"], params["mode"]
    shape, writes_once = updates.aval.shape if is_undefined(updates) else np.shape(updates), _writes_once(indices, params)
    zeros = zeros_of(tracing.aval_of(ct).update(shape=shape))
    x_ct = updates_ct = None
    if is_undefined(x):
        x_ct = scatter_p.bind(ct, indices, zeros, **params)
    if is_undefined(updates):
        updates_ct = _gather_at_updates(ct, indices, np.shape(ct), shape, dn, mode)
        if not writes_once:
            _, is_winner = _last_write_mask((ct, indices, zeros), params)
            updates_ct = where(is_winner, updates_ct, zeros)
    return [x_ct, None, updates_ct]


def scatter_tangents(x: Array, indices: Array, updates: Array, **params: Any) -> Array:
    """Apply a plain scatter to tangents, with operations that are linear in them."""
    if _writes_once(indices, params):
        return scatter_p.bind(x, indices, updates, **params)
    # If several updates write to one element, only the one that remains has a tangent.
    winners, is_winner = _last_write_mask((x, indices, updates), params)
    aval = tracing.aval_of(x)
    zero = aval.dtype.type(0)
    unwritten = where(eq(winners, np.int32(0)), x, with_weakness(zero, aval.weak_type))
    return scatter_add_p.bind(unwritten, indices, where(is_winner, updates, zero), **params)


def _factors(aval: ShapedArray, indices: Any, updates: Any, params: Params) -> Array:
    """Return the factor by which each element of an array of this type is multiplied."""
    ones = broadcast_in_dim_p.bind(aval.dtype.type(1), shape=aval.shape, broadcast_dimensions=(), sharding=None)
    return PRIMITIVES["scatter_mul"].bind(with_weakness(ones, aval.weak_type), indices, updates, **params)


def _multiplicative_transpose(ct: Tangent, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if is_undefined(updates):
        if is_undefined(x) or not _writes_once(indices, params):
            raise NotImplementedError("x.at[i].multiply(y) cannot be transposed in y: it is linear in y only if x is constant "
                                      "and no element is multiplied twice. Pass unique_indices=True.")
        if type(ct) is Zero:
            return [None, None, Zero(updates.aval)]
        dn, mode = params["dimension_numbers"], params["mode"]
        return [None, None, _gather_at_updates(mul(ct, x), indices, np.shape(x), updates.aval.shape, dn, mode)]
    return [Zero(x.aval) if type(ct) is Zero else mul(ct, _factors(x.aval, indices, updates, params)), None, None]


def _multiplicative_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    tx, _, tu = tangents
    result = PRIMITIVES["scatter_mul"].bind(x, indices, updates, **params)
    terms = []
    if type(tx) is not Zero:
        terms.append(mul(tx, _factors(tracing.aval_of(x), indices, updates, params)))
    if type(tu) is not Zero:
        if not _writes_once(indices, params):
            raise NotImplementedError(
                "the derivative of x.at[i].multiply(y) in y needs unique indices. Pass unique_indices=True.")
        zero = zeros_of(ShapedArray(np.shape(x), tracing.aval_of(tu).dtype, tracing.aval_of(x).weak_type))
        terms.append(mul(x, scatter_add_p.bind(zero, indices, tu, **params)))
    if not terms:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    return result, terms[0] if len(terms) == 1 else add_tangents(*terms)


def _minmax_scatter_jvp(name: str) -> Callable:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        """Share the tangent of an extremum among the elements that attain it, as in a reduction."""
        x, indices, updates = primals
        tx, _, tu = tangents
        result = PRIMITIVES[name].bind(x, indices, updates, **params)
        if type(tx) is Zero and type(tu) is Zero:
            return result, Zero(tracing.aval_of(result).to_tangent_aval())
        tx = zeros_of(tx.aval) if type(tx) is Zero else tx
        tu = zeros_of(tu.aval) if type(tu) is Zero else tu
        dtype = tracing.aval_of(tx).dtype
        result_at_updates = _gather_at_updates(result, indices, np.shape(x), np.shape(updates), params["dimension_numbers"],
                               params["mode"])
        x_attains = to_dtype(eq(x, result), dtype)
        updates_attain = to_dtype(eq(updates, result_at_updates), dtype)
        count = scatter_add_p.bind(x_attains, indices, updates_attain, **params)
        tangent = scatter_add_p.bind(mul(tx, x_attains), indices, mul(tu, updates_attain), **params)
        return result, weakly_typed_as(div(tangent, count), tracing.aval_of(result))

    return jvp


def _scatter_batch(name: str) -> Callable:
    def batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimension_numbers: ScatterDimensionNumbers,
              **params: Any) -> tuple[Any, Any]:
        (x, indices, updates), (dx, di, du) = operands, dims
        x, updates = broadcast_batch(x, dx, axis_size), broadcast_batch(updates, du, axis_size)
        dn = dimension_numbers
        if di is None:
            numbers = ScatterDimensionNumbers(
                (0, *_shift_dims(dn.update_window_dims)), _shift_dims(dn.inserted_window_dims),
                _shift_dims(dn.scatter_dims_to_operand_dims), _shift_dims(dn.operand_batching_dims),
                dn.scatter_indices_batching_dims)
        else:
            indices = move_dim(indices, di, 0)
            numbers = ScatterDimensionNumbers(
                _shift_dims(dn.update_window_dims), _shift_dims(dn.inserted_window_dims),
                _shift_dims(dn.scatter_dims_to_operand_dims), (0, *_shift_dims(dn.operand_batching_dims)),
                (0, *_shift_dims(dn.scatter_indices_batching_dims)))
        return PRIMITIVES[name].bind(x, indices, updates, dimension_numbers=numbers, **params), 0

    return batch


# `scatter_apply`: the jaxpr of the function is a parameter; of the updates only the shape matters.


def _apply_lower(ctx: RuleContext, x: ir.Value, indices: ir.Value, updates: ir.Value, *, function: Jaxpr,
                 dimension_numbers: ScatterDimensionNumbers, indices_are_sorted: bool, unique_indices: bool,
                 mode: GatherScatterMode) -> ir.Value:
    return emit_scatter(ctx, x, indices, updates, lambda inner, old, new, _: inner.inline(function, [old]),
                        dimension_numbers, indices_are_sorted, unique_indices)


def _apply_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> NoReturn:
    raise NotImplementedError("x.at[i].apply(f) has no derivative when positions may repeat: pass "
                              "unique_indices=True, or write x.at[i].set(f(x[i])).")


# Accepted dtypes. A plain scatter takes any elements, including random keys.
_ACCEPTED_DTYPES = {"scatter": "any", "scatter_min": "int float complex bool", "scatter_max": "int float complex bool"}


def _scatter_abstract_of(name: str) -> Callable:
    accepts = _ACCEPTED_DTYPES.get(name, "int float complex")

    def abstract(x: ShapedArray, indices: ShapedArray, updates: ShapedArray, *, update_jaxpr: Jaxpr | None = None,
                 update_consts: tuple = (), **params: Any) -> ShapedArray:
        check_dtype(name, accepts, x.dtype)
        return _scatter_abstract(x, indices, updates, **params)

    return abstract


class _Scatter(Primitive):
    """A scatter primitive. Its equations have the jaxpr that combines an element with an update (`update_jaxpr`), as in JAX."""

    __slots__ = ("cached_params",)

    def __init__(self, name: str, **fields: Any) -> None:
        super().__init__(name.replace("_", "-"), shown_as=name, **fields)
        self.cached_params: dict[Any, dict[str, Any]] = {}  # parameters of equations, by dtype of the elements

    def bind(self, *args: Any, **params: Any) -> Any:
        return tracing.thread.trace.process(self, args, params | self.combiner_params(tracing.aval_of(args[0]).dtype))

    def combiner_params(self, dtype: np.dtype) -> dict[str, Any]:
        params = self.cached_params.get(dtype)
        if params is None:
            element_aval = ShapedArray((), dtype)
            primitive = ELEMENTWISE.get(self.shown_as.removeprefix("scatter_"))
            jaxpr = None if primitive is None else tracing.trace_to_jaxpr(
                lambda old, update: [primitive.bind(old, update)], [element_aval, element_aval])[0]
            params = self.cached_params[dtype] = {"update_jaxpr": jaxpr, "update_consts": ()}
        return params

    def types_of(self, avals: tuple, params: Params) -> ShapedArray:
        # Without the jaxpr: primitives with jaxprs have no types for meshes.
        return super().types_of(avals, {name: value for name, value in params.items() if not name.startswith("update_")})


_WRITES = Traits(updates_in_place=True, key_use=KeyUse.FORWARDS)
# name: (jvp, transpose)
_DERIVATIVES = {
    "scatter": (_scatter_jvp, _scatter_transpose),
    "scatter_add": (_additive_jvp("scatter_add"), _additive_transpose(1)),
    "scatter_sub": (_additive_jvp("scatter_sub"), _additive_transpose(-1)),
    "scatter_mul": (_multiplicative_jvp, _multiplicative_transpose),
    "scatter_min": (_minmax_scatter_jvp("scatter_min"), None),
    "scatter_max": (_minmax_scatter_jvp("scatter_max"), None),
}


def _make_scatter(name: str, operation: str | None) -> Primitive:
    jvp, transpose = _DERIVATIVES.get(name, (None, None))
    return _Scatter(name, abstract=_scatter_abstract_of(name), lower=scatter_lowering(operation), jvp=jvp, transpose=transpose,
                    batch=_scatter_batch(name), traits=_WRITES,
                    mesh=MeshRules(sharding_rules.scatter, sums=of_all(1) if name == "scatter_add" else None))


PRIMITIVES = {name: _make_scatter(name, operation) for name, operation in SCATTERS.items()}
PRIMITIVES["scatter_apply"] = Primitive(
    "scatter_apply", abstract=lambda *avals, function, **params: _scatter_abstract(*avals, **params),
    lower=_apply_lower, jvp=_apply_jvp, batch=_scatter_batch("scatter_apply"), shown_as="x.at[...].apply",
    mesh=MeshRules(sharding_rules.scatter), traits=_WRITES)
scatter_p, scatter_add_p = PRIMITIVES["scatter"], PRIMITIVES["scatter_add"]


# Public functions


@library(static=("dimension_numbers", "slice_sizes", "unique_indices", "indices_are_sorted", "mode", "fill_value"))
def _gather_kernel(operand: Array, start_indices: Array, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
                   unique_indices: bool, indices_are_sorted: bool, mode: GatherScatterMode, fill_value: Any) -> Array:
    check_indices("gather", start_indices)
    gathered_shape(np.shape(operand), np.shape(start_indices), dimension_numbers, slice_sizes)
    return bind_gather(operand, start_indices, dimension_numbers=dimension_numbers, slice_sizes=slice_sizes,
                       unique_indices=unique_indices, indices_are_sorted=indices_are_sorted, mode=mode,
                       fill_value=fill_value)


def gather(operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
           *, unique_indices: bool = False, indices_are_sorted: bool = False, mode: str | GatherScatterMode | None = None,
           fill_value: ArrayLike | None = None) -> Array:
    """Read windows of an array at run-time positions: StableHLO's `gather`.

    `x.at[...].get` and indexing are easier to use.

    Args:
        operand: Array to read from.
        start_indices: Integer array. Its last dimension has the start of a window in the dimensions `start_index_map`.
        dimension_numbers: A `GatherDimensionNumbers`, which describes the dimensions of operand, indices and result.
        slice_sizes: Static shape of a window.
        unique_indices, indices_are_sorted: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "clip" (default) clamps the indices, "fill" returns `fill_value`,
            "promise_in_bounds" promises that there are none.
        fill_value: Value of windows out of bounds in mode "fill". Default: NaN, or the smallest signed or largest unsigned
            integer.

    Returns:
        The windows, as an array of the dtype of `operand`.

    Example:
        >>> numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
        >>> lax.gather(xnp.array([10, 20, 30]), xnp.array([[2], [0]]), numbers, slice_sizes=(1,))
        Array([30, 10], dtype=int32)
    """
    resolved_mode = GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode)
    numbers = as_numbers("gather", GatherDimensionNumbers, dimension_numbers)
    return _gather_kernel(operand, start_indices, numbers, static_shape("gather", slice_sizes),
                          bool(unique_indices), bool(indices_are_sorted), resolved_mode, fill_value)


# Docstrings of the scatter functions: a common text; per function the summary, the method of `x.at` and the example's result.
_SCATTER_DOCSTRING = """{summary} at run-time positions: StableHLO's `scatter`.

`{method}` is easier to use.

Args:
    operand: Array to update.
    scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
    updates: Windows of updates, with the dtype of `operand`.
    dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
    indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
    mode: Treatment of windows out of bounds: "drop" (default) skips them, "clip" clamps the indices,
        "promise_in_bounds" promises that there are none.

Returns:
    The updated array.

Example:
    >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.{name}(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
    Array({result}, dtype=int32)
"""
_SCATTER_DOCS = {
    "scatter": ("Replace windows of an array", "x.at[...].set", "[2, 3]"),
    "scatter_add": ("Add updates to windows of an array", "x.at[...].add", "[2, 8]"),
    "scatter_sub": ("Subtract updates from windows of an array", "x.at[...].subtract", "[2, 2]"),
    "scatter_mul": ("Multiply windows of an array by updates", "x.at[...].multiply", "[ 2, 15]"),
    "scatter_min": ("Take the minimum of updates and windows of an array", "x.at[...].min", "[2, 3]"),
    "scatter_max": ("Take the maximum of updates and windows of an array", "x.at[...].max", "[2, 5]")}


def _public_scatter(name: str) -> Callable:
    primitive = PRIMITIVES[name]

    def kernel(operand: Array, scatter_indices: Array, updates: Array, dimension_numbers: ScatterDimensionNumbers,
               indices_are_sorted: bool, unique_indices: bool, mode: GatherScatterMode) -> Array:
        check_indices(name, scatter_indices)
        check_scatter(name, np.shape(operand), np.shape(scatter_indices), np.shape(updates), dimension_numbers)
        return bind_scatter(primitive, operand, scatter_indices, updates, dimension_numbers=dimension_numbers,
                            indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode)

    kernel.__name__ = name
    compiled = library(kernel, static=("dimension_numbers", "indices_are_sorted", "unique_indices", "mode"))

    def function(operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike, dimension_numbers: ScatterDimensionNumbers,
                 *, indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: str | GatherScatterMode | None = None) -> Array:
        numbers = as_numbers(name, ScatterDimensionNumbers, dimension_numbers)
        return compiled(operand, scatter_indices, updates, numbers, bool(indices_are_sorted),
                        bool(unique_indices), GatherScatterMode.from_any(mode))

    function.__name__ = function.__qualname__ = name
    summary, method, result = _SCATTER_DOCS[name]
    function.__doc__ = _SCATTER_DOCSTRING.format(name=name, summary=summary, method=method, result=result)
    return function


PUBLIC = {name: _public_scatter(name) for name in SCATTERS}


def scatter_apply(operand: ArrayLike, scatter_indices: ArrayLike, func: Callable, dimension_numbers: ScatterDimensionNumbers, *,
                  update_shape: Sequence[int] = (), indices_are_sorted: bool = False, unique_indices: bool = False,
                  mode: str | GatherScatterMode | None = None) -> Array:
    """Replace the elements of an array at some positions by a function of them.

    `x.at[...].apply` is easier to use.

    Args:
        operand: Array to update.
        scatter_indices: Integer array. Its last dimension has the start of a window in `scatter_dims_to_operand_dims`.
        func: Function of an element. At repeated positions it is applied repeatedly.
        dimension_numbers: A `ScatterDimensionNumbers`, which describes the dimensions of operand, indices and updates.
        update_shape: Shape that the updates of `scatter` would have.
        indices_are_sorted, unique_indices: Promises about the indices, which can make the operation faster.
        mode: Treatment of windows out of bounds: "drop" (default), "clip" or "promise_in_bounds".

    Returns:
        The updated array.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter_apply(xnp.array([1, 2, 3]), xnp.array([[2], [0]]), lambda x: -x, numbers, update_shape=(2,))
        Array([-1,  2, -3], dtype=int32)
    """
    aval = tracing.aval_of(operand)
    function = tracing.trace_to_closed_jaxpr(lambda v: [to_dtype(func(v), aval.dtype)], [ShapedArray((), aval.dtype)])
    updates = zeros_of(ShapedArray(tuple(update_shape), aval.dtype))
    return bind_scatter(PRIMITIVES["scatter_apply"], operand, scatter_indices, updates, function=function,
                        dimension_numbers=as_numbers("scatter_apply", ScatterDimensionNumbers, dimension_numbers),
                        indices_are_sorted=bool(indices_are_sorted), unique_indices=bool(unique_indices),
                        mode=GatherScatterMode.from_any(mode))


PUBLIC["scatter_apply"] = scatter_apply

PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()})
