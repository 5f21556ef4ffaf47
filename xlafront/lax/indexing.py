"""`gather` and `scatter`: reading and writing at run-time positions."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic
from xlafront.core.keys import physical
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import has_open_sums, of_all, of_first
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import keys, sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.combining import combine
from xlafront.lax.dimension_numbers import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    as_numbers,
    check_scatter,
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
    size_as,
    to_dtype,
    where,
)
from xlafront.lax.families import add_tangents
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS
from xlafront.lax.shapes import (
    bitcast_convert_type_p,
    broadcast_batch,
    broadcast_in_dim_p,
    counting,
    move_dim,
    physical_tail,
    reshape_to,
    static_shape,
    typed,
    zeros_of,
)
from xlafront.lax.slicing import concatenate_p
from xlafront.runtime.specs import PartitionSpec
from xlafront.staging.library import lax_function


class GatherScatterMode(enum.Enum):
    """What an index outside of the array does: is clamped, reads a fill value or writes nothing, or cannot occur."""

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    __hash__ = object.__hash__  # in C: modes are in the keys of types and programs

    @staticmethod
    def from_any(s):
        if isinstance(s, GatherScatterMode):
            return s
        found = _MODES.get(s)
        if found is None:
            raise ValueError(f"there is no indexing mode {s!r}; it can be one of {', '.join(m for m in _MODES if m)}.")
        return found


_MODES = {"clip": GatherScatterMode.CLIP, "fill": GatherScatterMode.FILL_OR_DROP,
          "drop": GatherScatterMode.FILL_OR_DROP, "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
          "one_hot": GatherScatterMode.ONE_HOT, None: GatherScatterMode.FILL_OR_DROP}


def _text(values) -> str:
    return f"[{', '.join(map(str, values))}]"


def check_indices(name: str, indices) -> None:
    """What says where to read or write must be integers."""
    d = tracing.aval_of(indices).dtype
    if not dtypes.is_integer(d):
        raise ValueError(f"{name} needs indices of an integer type, got {d}.")


# gather


def _gather_abstract(x, indices, *, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode,
                     fill_value):
    check_indices("gather", indices)
    return typed(x, gathered_shape(x.shape, indices.shape, dimension_numbers, slice_sizes))


def _gather_lower(ctx, x, indices, **params):
    return (_filled_lower if params["mode"] is GatherScatterMode.FILL_OR_DROP else _clamped_lower)(ctx, x, indices, **params)


def _clamped_lower(ctx, x, indices, *, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode, fill_value):
    m = lowering.mlir
    dn = dimension_numbers
    tail = physical_tail(ctx)
    if ctx.aval_out.size == 0:
        words = physical(ctx.aval_out)
        return ctx.broadcast(ctx.constant(np.zeros((), words.dtype)), words.shape, words.dtype, ())
    out_rank = ctx.aval_out.ndim
    offset = (*dn.offset_dims, *range(out_rank, out_rank + len(tail)))
    text = (f"#stablehlo.gather<offset_dims = {_text(offset)}, collapsed_slice_dims = {_text(dn.collapsed_slice_dims)}, "
            f"operand_batching_dims = {_text(dn.operand_batching_dims)}, "
            f"start_indices_batching_dims = {_text(dn.start_indices_batching_dims)}, "
            f"start_index_map = {_text(dn.start_index_map)}, index_vector_dim = {ctx.avals_in[1].ndim - 1}>")
    if ctx.computes(slice_sizes):
        return ctx.op("stablehlo.dynamic_gather", [x, indices, ctx.vector((*slice_sizes, *tail), np.int32)],
                      dimension_numbers=m.attribute(text), indices_are_sorted=m.boolean(indices_are_sorted))
    return ctx.op("stablehlo.gather", [x, indices], dimension_numbers=m.attribute(text),
                  slice_sizes=m.i64s((*slice_sizes, *tail)), indices_are_sorted=m.boolean(indices_are_sorted))


def _last_index(shape, dimensions, sizes, dtype):
    """The largest start index that keeps a window inside, for each indexed dimension."""
    if is_symbolic(shape) or is_symbolic(sizes):
        places = [broadcast_in_dim_p.bind(size_as(shape[d] - sizes[d], dtype), shape=(1,), broadcast_dimensions=(),
                                          sharding=None) for d in dimensions]
        return concatenate_p.bind(*places, dimension=0)
    last = np.array([shape[d] - sizes[d] for d in dimensions], dtype=np.int64)
    return np.minimum(last, np.iinfo(dtype).max).astype(dtype) if dtypes.is_integer(dtype) else last


def in_bounds(indices, shape, dimensions, sizes):
    """For each index vector, whether its whole window lies inside an array of this shape."""
    aval = tracing.aval_of(indices)
    narrow = dtypes.canonicalize_dtype(aval.dtype)
    if narrow != aval.dtype:  # 64-bit indices that were made in x64 mode, outside of which their bounds are not of their dtype
        indices, aval = to_dtype(indices, narrow), aval.update(dtype=narrow)
    last = _last_index(shape, dimensions, sizes, aval.dtype)
    signed = not dtypes.is_unsigned(aval.dtype)
    if signed and isinstance(last, np.ndarray) and np.all(last >= 0):  # one comparison: negative ones are large there
        aval = aval.update(dtype=np.dtype(f"uint{aval.dtype.itemsize * 8}"))
        indices, last, signed = bitcast_convert_type_p.bind(indices, new_dtype=aval.dtype), last.astype(aval.dtype), False
    last = broadcast_in_dim_p.bind(last, shape=aval.shape, broadcast_dimensions=(aval.ndim - 1,), sharding=None)
    inside = le(indices, last)
    if signed:
        inside = and_(inside, ge(indices, aval.dtype.type(0)))
    return REDUCTIONS["reduce_and"].bind(inside, axes=(aval.ndim - 1,))


def fill_for(dtype, fill_value):
    """What a read outside of the array gives: NaN, the largest unsigned or smallest signed integer, a key of all ones."""
    if not isinstance(dtype, np.dtype):
        return keys.filled(np.uint32(0xFFFFFFFF) if fill_value is None else fill_value, (), dtype)
    if fill_value is not None:
        return np.asarray(fill_value).astype(dtype)[()]
    if dtypes.is_inexact(dtype):
        return np.asarray(np.nan).astype(dtype)[()]
    if dtype == dtypes.bool_:
        return np.bool_(True)
    info = dtypes.iinfo(dtype)
    return np.asarray(info.max if dtypes.is_unsigned(dtype) else info.min).astype(dtype)[()]


def bind_gather(x, indices, *, dimension_numbers, slice_sizes, unique_indices=False, indices_are_sorted=False,
                mode=GatherScatterMode.CLIP, fill_value=None):
    """`gather` with its mode, and the value that reads outside give."""
    params = {"dimension_numbers": dimension_numbers, "slice_sizes": tuple(slice_sizes), "unique_indices": unique_indices,
              "indices_are_sorted": indices_are_sorted, "mode": mode}
    if mode is GatherScatterMode.ONE_HOT:
        raise ValueError("the indexing mode 'one_hot' is for updates and take_along_axis; reading can have clip, fill and "
                         "promise_in_bounds.")
    if mode is not GatherScatterMode.FILL_OR_DROP:
        return gather_p.bind(x, indices, fill_value=None, **params)
    d = tracing.aval_of(x).dtype
    if not isinstance(d, np.dtype):
        return _filled(x, indices, fill_value=fill_value, **params)
    if fill_value is not None:
        fill_value = fill_for(d, fill_value)
        if np.array_equal(fill_value, fill_for(d, None), equal_nan=dtypes.is_inexact(d)):
            fill_value = None  # NaN is not equal to itself: programs with it would not be found again
    return gather_p.bind(x, indices, fill_value=fill_value, **params)


def _filled(x, indices, *, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode, fill_value):
    """A selection around a gather that clamps."""
    dn = dimension_numbers
    result = gather_p.bind(x, indices, dimension_numbers=dn, slice_sizes=slice_sizes, unique_indices=unique_indices,
                           indices_are_sorted=indices_are_sorted, mode=GatherScatterMode.CLIP, fill_value=None)
    inside = in_bounds(indices, np.shape(x), dn.start_index_map, slice_sizes)
    shape = np.shape(result)
    batch = tuple(i for i in range(len(shape)) if i not in dn.offset_dims)
    mask = broadcast_in_dim_p.bind(inside, shape=shape, broadcast_dimensions=batch, sharding=None)
    fill = fill_for(tracing.aval_of(x).dtype, fill_value)
    if isinstance(fill, tracing.Tracer):  # a key is no scalar that spreads by itself
        return _filled_keys(mask, result, fill)
    summands = has_open_sums(tracing.aval_of(result))
    if summands and np.any(fill + fill != fill) and not np.any(np.isnan(fill)):  # each device would add its own
        raise errors.ShardingTypeError(
            f"gather of {tracing.aval_of(x)} with the fill value {fill}: of summands only 0, NaN and infinities can be filled "
            f"in. Make the sum first, with reshard(x, P(...)).")
    if summands or tracing.aval_of(x).weak_type:
        fill = constant_like(x, fill)
    if summands:
        from xlafront.lax.device_put import reshard_p  # start-up: who takes elements moves no arrays
        sums = tracing.aval_of(result).explicit_sharding
        fill = reshard_p.bind(fill, dst_sharding=sums.update(spec=PartitionSpec(unreduced=sums.spec.unreduced)))
    return where(mask, result, fill)


_filled_lower = lower_fun(_filled)


def take_along(x, indices, axis: int) -> Array:
    """`x[..., indices, ...]` element by element along an axis; the shapes agree elsewhere."""
    rank = np.ndim(x)
    x, indices = move_dim(x, axis, rank - 1), move_dim(indices, axis, rank - 1)
    shape = np.shape(indices)
    batch = tuple(range(rank - 1))
    numbers = GatherDimensionNumbers((), (rank - 1,), (rank - 1,), batch, batch)
    result = bind_gather(x, reshape_to(indices, (*shape, 1)), dimension_numbers=numbers, slice_sizes=(1,) * rank,
                         mode=GatherScatterMode.PROMISE_IN_BOUNDS)
    return move_dim(result, rank - 1, axis)


def _filled_keys(mask, found, fill):
    """Keys, and another one where the mask is false: chosen as words, so that none of them counts as used."""
    impl = fill.aval.dtype.impl
    words, shape, rank = keys.unwrap_p.bind(found), np.shape(mask), np.ndim(mask)
    mask = broadcast_in_dim_p.bind(mask, shape=np.shape(words), broadcast_dimensions=tuple(range(rank)), sharding=None)
    fill = broadcast_in_dim_p.bind(fill, shape=shape, broadcast_dimensions=(), sharding=None)
    return keys.wrap_p.bind(where(mask, words, keys.unwrap_p.bind(fill)), impl=impl)


def _gather_jvp(primals, tangents, **params):
    x, indices = primals
    answer = gather_p.bind(x, indices, **params)
    if type(tangents[0]) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    if params["mode"] is GatherScatterMode.FILL_OR_DROP:
        params["fill_value"] = fill_for(tracing.aval_of(tangents[0]).dtype, 0)
    return answer, gather_p.bind(tangents[0], indices, **params)


def _gather_transpose(ct, x, indices, *, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode,
                      fill_value):
    if type(ct) is Zero:
        return [Zero(x.aval), None]
    dn = dimension_numbers
    numbers = ScatterDimensionNumbers(dn.offset_dims, dn.collapsed_slice_dims, dn.start_index_map,
                                      dn.operand_batching_dims, dn.start_indices_batching_dims)
    zeros = zeros_of(x.aval.update(dtype=tracing.aval_of(ct).dtype))  # cotangents of a user's rule may be of another
    result = bind_scatter(scatter_add_p, zeros, indices, ct, dimension_numbers=numbers,
                          indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode)
    return [result, None]


def _shift(dims, by=1):
    return tuple(d + by for d in dims)


def _gather_batch(axis_size, operands, dims, *, dimension_numbers, slice_sizes, **params):
    (x, indices), (dx, di) = operands, dims
    dn = dimension_numbers
    if dx is not None and di is None:
        x = move_dim(x, dx, 0)
        numbers = GatherDimensionNumbers(
            (0, *_shift(dn.offset_dims)), _shift(dn.collapsed_slice_dims), _shift(dn.start_index_map),
            _shift(dn.operand_batching_dims), dn.start_indices_batching_dims)
        return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=(np.shape(x)[0], *slice_sizes),
                             **params), 0
    indices = move_dim(indices, di, 0)
    if dx is None:
        numbers = dn._replace(offset_dims=_shift(dn.offset_dims),
                              start_indices_batching_dims=_shift(dn.start_indices_batching_dims))
        return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params), 0
    x = move_dim(x, dx, 0)
    numbers = GatherDimensionNumbers(
        _shift(dn.offset_dims), _shift(dn.collapsed_slice_dims), _shift(dn.start_index_map),
        (0, *_shift(dn.operand_batching_dims)), (0, *_shift(dn.start_indices_batching_dims)))
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=(1, *slice_sizes), **params), 0


gather_p = Primitive("gather", abstract=_gather_abstract, lower=_gather_lower, jvp=_gather_jvp,
                     transpose=_gather_transpose, batch=_gather_batch, sharding_rule=sharding_rules.gather, sums=of_first)
gather_p.key_use = "hands on"


def take_rows(x, indices):
    """The rows of an array at these places, which are in bounds."""
    rest, where = tuple(np.shape(x)[1:]), np.ndim(indices)
    numbers = GatherDimensionNumbers(tuple(range(where, where + len(rest))), (0,), (0,))
    indices = indices[..., None] if isinstance(indices, np.ndarray) else reshape_to(indices, (*np.shape(indices), 1))
    return bind_gather(x, indices, dimension_numbers=numbers, slice_sizes=(1, *rest), mode=GatherScatterMode.PROMISE_IN_BOUNDS)


# scatter


def _scatter_abstract(x, indices, updates, *, dimension_numbers, indices_are_sorted, unique_indices, mode):
    check_indices("scatter", indices)
    if x.dtype != updates.dtype:
        raise errors.incompatible_dtypes("scatter", [x.dtype, updates.dtype], "The updates must have the array's dtype.")
    check_scatter("scatter", x.shape, indices.shape, updates.shape, dimension_numbers)
    return typed(x, x.shape)


# name -> the operation that combines the old element with the update (None: the update replaces it)
SCATTERS = {"scatter": None, "scatter_add": "stablehlo.add", "scatter_sub": "stablehlo.subtract",
            "scatter_mul": "stablehlo.multiply", "scatter_min": "stablehlo.minimum", "scatter_max": "stablehlo.maximum"}


def _write_scatter(ctx, x, indices, updates, combine, dn, indices_are_sorted, unique_indices):
    """The StableHLO operation; `combine(inner, old, new)` gives what an element becomes."""
    m = lowering.mlir
    tail = physical_tail(ctx)
    update_rank = ctx.avals_in[2].ndim
    window = (*dn.update_window_dims, *range(update_rank, update_rank + len(tail)))
    text = (f"#stablehlo.scatter<update_window_dims = {_text(window)}, "
            f"inserted_window_dims = {_text(dn.inserted_window_dims)}, "
            f"input_batching_dims = {_text(dn.operand_batching_dims)}, "
            f"scatter_indices_batching_dims = {_text(dn.scatter_indices_batching_dims)}, "
            f"scatter_dims_to_operand_dims = {_text(dn.scatter_dims_to_operand_dims)}, "
            f"index_vector_dim = {ctx.avals_in[1].ndim - 1}>")
    d = ctx.aval_out.dtype
    scalar = ((), d if isinstance(d, np.dtype) else np.dtype(d.physical_dtype))
    return ctx.with_region("stablehlo.scatter", [x, indices, updates], [scalar, scalar],
                           lambda inner, old, new: combine(inner, old, new, scalar),
                           types=[ctx.aval_out], scatter_dimension_numbers=m.attribute(text),
                           indices_are_sorted=m.boolean(indices_are_sorted),
                           unique_indices=m.boolean(unique_indices))[0]


_LINEAR = ("stablehlo.add", "stablehlo.subtract")
_LARGE = 4096  # elements, from which on a copy counts
_PART = 8  # windows of this part of the array or less are computed apart


def _is_one_window(avals, dn, mode) -> bool:
    """Whether a scatter updates one window that lies inside of the array."""
    x, indices, updates = avals
    return (mode is GatherScatterMode.PROMISE_IN_BOUNDS and indices.ndim == 1 and updates.ndim == x.ndim > 0 and x.plain
            and len(dn.update_window_dims) == x.ndim and not is_symbolic((*x.shape, *updates.shape)))


def _update_window(ctx, x, indices, updates, dn, operation):
    """What is written is computed in a function that stays one: XLA's compiler for CPUs makes one kernel of reading, adding and
    writing, and copies the whole array for that."""
    whole, places, window = ctx.avals_in
    module, known = ctx.body.module, lowering.mlir.constant_vector(indices)
    starts = [ctx.constant(np.zeros((), places.dtype))] * whole.ndim
    for i, d in enumerate(dn.scatter_dims_to_operand_dims):
        starts[d] = (ctx.constant(places.dtype.type(known[i])) if known is not None else
                     ctx.reshape(ctx.slice(indices, [i], [i + 1], result=((1,), places.dtype)), (), places.dtype))

    def updated(inner, x, updates, *starts):
        old = inner.op("stablehlo.dynamic_slice", [x, *starts], [window], slice_sizes=lowering.mlir.i64s(window.shape))
        return [combine(inner, operation, old, updates, window.shape, window.dtype)]

    if whole.size >= _LARGE and 1 < window.size <= whole.size // _PART and module.num_partitions == 1:
        symbol = ctx.function("updated", [whole, window, *[((), places.dtype)] * whole.ndim], [window], updated)
        [new] = ctx.call_symbol(symbol, [x, updates, *starts], [window])
    else:
        [new] = updated(ctx, x, updates, *starts)
    return ctx.op("stablehlo.dynamic_update_slice", [x, new, *starts], [whole])


def _scatter_lowering(operation):
    def of_two(inner, old, new, scalar):
        return [new if operation is None else combine(inner, operation, old, new, *scalar)]

    def lower(ctx, x, indices, updates, *, dimension_numbers, indices_are_sorted, unique_indices, mode, **_):
        if operation in _LINEAR and ctx.platform == "cpu" and _is_one_window(ctx.avals_in, dimension_numbers, mode):
            return _update_window(ctx, x, indices, updates, dimension_numbers, operation)

        def into(x):
            return _write_scatter(ctx, x, indices, updates, of_two, dimension_numbers, indices_are_sorted, unique_indices)

        result = into(x)
        whole = ctx.aval_out
        if operation == "stablehlo.add" and whole.plain and ctx.body.sizes is None and lowering.mlir.is_zero(x, whole.dtype):
            ctx.body.sparse[result] = [into]
        return result

    return lower


def bind_scatter(primitive, x, indices, updates, *, dimension_numbers, indices_are_sorted=False, unique_indices=False,
                 mode=GatherScatterMode.FILL_OR_DROP, **params):
    """A scatter with its mode: XLA drops writes outside; "clip" moves them inside first."""
    if mode is GatherScatterMode.CLIP:
        indices = _clip_indices(x, indices, updates, dimension_numbers)
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    return primitive.bind(x, indices, updates, dimension_numbers=dimension_numbers,
                          indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode, **params)


def window_sizes(operand_shape, updates_shape, dn: ScatterDimensionNumbers) -> tuple[int, ...]:
    sizes = iter([updates_shape[i] for i in dn.update_window_dims])
    return tuple(1 if i in dn.inserted_window_dims or i in dn.operand_batching_dims else next(sizes)
                 for i in range(len(operand_shape)))


def _clip_indices(x, indices, updates, dn):
    shape = np.shape(x)
    sizes = window_sizes(shape, np.shape(updates), dn)
    aval = tracing.aval_of(indices)
    last = _last_index(shape, dn.scatter_dims_to_operand_dims, sizes, aval.dtype)
    limit = broadcast_in_dim_p.bind(last, shape=aval.shape, broadcast_dimensions=(aval.ndim - 1,), sharding=None)
    return clamp_(aval.dtype.type(0), indices, limit)


def _gather_numbers(dn: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    return GatherDimensionNumbers(dn.update_window_dims, dn.inserted_window_dims, dn.scatter_dims_to_operand_dims,
                                  dn.operand_batching_dims, dn.scatter_indices_batching_dims)


def _read_back(values, indices, operand_shape, updates_shape, dn, mode):
    """What the scatter's updates would read at their places; nothing (zero) for those that were dropped."""
    how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is GatherScatterMode.PROMISE_IN_BOUNDS else (
        GatherScatterMode.FILL_OR_DROP)
    return bind_gather(values, indices, dimension_numbers=_gather_numbers(dn),
                       slice_sizes=window_sizes(operand_shape, updates_shape, dn), mode=how, fill_value=0)


def _additive_jvp(name):
    def jvp(primals, tangents, **params):
        primitive = PRIMITIVES[name]
        x, indices, updates = primals
        tx, _, tu = tangents
        answer = primitive.bind(x, indices, updates, **params)
        if type(tx) is Zero and type(tu) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        tx = zeros_of(tx.aval) if type(tx) is Zero else tx
        tu = zeros_of(tu.aval) if type(tu) is Zero else tu
        return answer, primitive.bind(tx, indices, tu, **params)

    return jvp


def _additive_transpose(sign):
    def transpose(ct, x, indices, updates, *, dimension_numbers, mode, **params):
        if type(ct) is Zero:
            return [Zero(x.aval) if is_undefined(x) else None, None,
                    Zero(updates.aval) if is_undefined(updates) else None]
        of_updates = None
        if is_undefined(updates):
            of_updates = _read_back(ct, indices, np.shape(ct), updates.aval.shape, dimension_numbers, mode)
            if sign < 0:
                of_updates = neg(of_updates)
        return [ct if is_undefined(x) else None, None, of_updates]

    return transpose


def _winner_mask(primals, params):
    """For each update, whether it is the one that a plain scatter left in the array (the last to write there)."""
    x, indices, updates = primals
    count = np.shape(updates)
    total = int(np.prod(count))
    ids = reshape_to(add(counting(dtypes.int32, (total,), 0), np.int32(1)),
                     count)
    written = scatter_p.bind(zeros_of(ShapedArray(np.shape(x), np.dtype(np.int32))), indices, ids, **params)
    read = _read_back(written, indices, np.shape(x), count, params["dimension_numbers"], params["mode"])
    return written, eq(read, ids)


def _scatter_jvp(primals, tangents, **params):
    x, indices, updates = primals
    tx, _, tu = tangents
    answer = scatter_p.bind(x, indices, updates, **params)
    if type(tx) is Zero and type(tu) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    tx = zeros_of(tx.aval) if type(tx) is Zero else tx
    tu = zeros_of(tu.aval) if type(tu) is Zero else tu
    return answer, scatter_tangents(tx, indices, tu, **params)


def _hits_once(indices, params) -> bool:
    """Whether no two updates write to one element: there is only one, or the user said so."""
    batches = params["dimension_numbers"].scatter_indices_batching_dims
    return params["unique_indices"] or all([n == 1 for i, n in enumerate(np.shape(indices)[:-1]) if i not in batches])


def _scatter_transpose(ct, x, indices, updates, **params):
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None, None, Zero(updates.aval) if is_undefined(updates) else None]
    dn, mode = params["dimension_numbers"], params["mode"]
    shape, once = updates.aval.shape if is_undefined(updates) else np.shape(updates), _hits_once(indices, params)
    zeros = zeros_of(tracing.aval_of(ct).update(shape=shape))
    of_x = of_updates = None
    if is_undefined(x):
        of_x = scatter_p.bind(ct, indices, zeros, **params)
    if is_undefined(updates):
        of_updates = _read_back(ct, indices, np.shape(ct), shape, dn, mode)
        if not once:
            _, winner = _winner_mask((ct, indices, zeros), params)
            of_updates = where(winner, of_updates, zeros)
    return [of_x, None, of_updates]


def scatter_tangents(x, indices, updates, **params):
    """What a plain scatter does to tangents, in operations that are linear in them."""
    if _hits_once(indices, params):
        return scatter_p.bind(x, indices, updates, **params)
    # Where several updates hit one element only the surviving one has an influence.
    written, winner = _winner_mask((x, indices, updates), params)
    zero = tracing.aval_of(updates).dtype.type(0)
    kept = where(eq(written, np.int32(0)), x, zero)
    return scatter_add_p.bind(kept, indices, where(winner, updates, zero), **params)


def _multiplicative_jvp(primals, tangents, **params):
    x, indices, updates = primals
    tx, _, tu = tangents
    answer = PRIMITIVES["scatter_mul"].bind(x, indices, updates, **params)
    terms = []
    if type(tx) is not Zero:
        ones = broadcast_in_dim_p.bind(tracing.aval_of(x).dtype.type(1), shape=np.shape(x), broadcast_dimensions=(),
                                       sharding=None)
        terms.append(mul(tx, PRIMITIVES["scatter_mul"].bind(ones, indices, updates, **params)))
    if type(tu) is not Zero:
        if not params["unique_indices"]:
            raise NotImplementedError(
                "the derivative of x.at[i].multiply(y) in y needs unique indices: pass unique_indices=True.")
        zero = zeros_of(ShapedArray(np.shape(x), tracing.aval_of(tu).dtype))
        terms.append(mul(x, scatter_add_p.bind(zero, indices, tu, **params)))
    if not terms:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, terms[0] if len(terms) == 1 else add_tangents(*terms)


def _extreme_scatter_jvp(name):
    def jvp(primals, tangents, **params):
        """The elements that attain the result share its tangent, as in a reduction."""
        x, indices, updates = primals
        tx, _, tu = tangents
        answer = PRIMITIVES[name].bind(x, indices, updates, **params)
        if type(tx) is Zero and type(tu) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        tx = zeros_of(tx.aval) if type(tx) is Zero else tx
        tu = zeros_of(tu.aval) if type(tu) is Zero else tu
        d = tracing.aval_of(tx).dtype
        result_at = _read_back(answer, indices, np.shape(x), np.shape(updates), params["dimension_numbers"],
                               params["mode"])
        from_x = to_dtype(eq(x, answer), d)
        from_updates = to_dtype(eq(updates, result_at), d)
        count = scatter_add_p.bind(from_x, indices, from_updates, **params)
        tangent = scatter_add_p.bind(mul(tx, from_x), indices, mul(tu, from_updates), **params)
        return answer, div(tangent, count)

    return jvp


def _scatter_batch(name):
    def batch(axis_size, operands, dims, *, dimension_numbers, **params):
        (x, indices, updates), (dx, di, du) = operands, dims
        x, updates = broadcast_batch(x, dx, axis_size), broadcast_batch(updates, du, axis_size)
        dn = dimension_numbers
        if di is None:
            numbers = ScatterDimensionNumbers(
                (0, *_shift(dn.update_window_dims)), _shift(dn.inserted_window_dims),
                _shift(dn.scatter_dims_to_operand_dims), _shift(dn.operand_batching_dims),
                dn.scatter_indices_batching_dims)
        else:
            indices = move_dim(indices, di, 0)
            numbers = ScatterDimensionNumbers(
                _shift(dn.update_window_dims), _shift(dn.inserted_window_dims),
                _shift(dn.scatter_dims_to_operand_dims), (0, *_shift(dn.operand_batching_dims)),
                (0, *_shift(dn.scatter_indices_batching_dims)))
        return PRIMITIVES[name].bind(x, indices, updates, dimension_numbers=numbers, **params), 0

    return batch


# Combining by a function: its program is a parameter, the updates only say how many elements there are.


def _apply_lower(ctx, x, indices, updates, *, function, dimension_numbers, indices_are_sorted, unique_indices, mode):
    return _write_scatter(ctx, x, indices, updates, lambda inner, old, new, _: inner.inline(function, [old]),
                          dimension_numbers, indices_are_sorted, unique_indices)


def _apply_jvp(primals, tangents, **params):
    raise NotImplementedError("x.at[i].apply(f) has no derivative when positions may repeat: pass "
                              "unique_indices=True, or write x.at[i].set(f(x[i])).")


# What they combine: a plain scatter takes any elements, random keys too.
_COMBINES = {"scatter": "any", "scatter_min": "int float complex bool", "scatter_max": "int float complex bool"}


def _combining_abstract(name: str):
    accepts = _COMBINES.get(name, "int float complex")

    def abstract(x, indices, updates, *, update_jaxpr=None, update_consts=(), **params):
        check_dtype(name, accepts, x.dtype)
        return _scatter_abstract(x, indices, updates, **params)

    return abstract


class _Scatter(Primitive):
    """A scatter by an operation, which equations name as the program of an element and its update: libraries read it there."""

    __slots__ = ("programs",)

    def __init__(self, name: str, **fields):
        super().__init__(name.replace("_", "-"), shown_as=name, **fields)
        self.programs: dict[Any, dict[str, Any]] = {}  # the parameters that say it, by the dtype of the elements

    def bind(self, *args, **params):
        return tracing.thread.trace.process(self, args, params | self.program_of(tracing.aval_of(args[0]).dtype))

    def program_of(self, dtype) -> dict[str, Any]:
        found = self.programs.get(dtype)
        if found is None:
            element = ShapedArray((), dtype)
            combining = ELEMENTWISE.get(self.shown_as.removeprefix("scatter_"))
            jaxpr = None if combining is None else tracing.trace_to_jaxpr(
                lambda old, update: [combining.bind(old, update)], [element, element])[0]
            found = self.programs[dtype] = {"update_jaxpr": jaxpr, "update_consts": ()}
        return found

    def types_of(self, avals, params):  # those of meshes are asked for where operations contain no programs
        return super().types_of(avals, {name: value for name, value in params.items() if not name.startswith("update_")})


PRIMITIVES = {name: _Scatter(name, abstract=_combining_abstract(name), lower=_scatter_lowering(operation),
                             batch=_scatter_batch(name), sharding_rule=sharding_rules.scatter,
                             sums=of_all(1) if name == "scatter_add" else None)
              for name, operation in SCATTERS.items()}
PRIMITIVES["scatter_apply"] = Primitive(
    "scatter_apply", abstract=lambda *avals, function, **params: _scatter_abstract(*avals, **params),
    lower=_apply_lower, jvp=_apply_jvp, batch=_scatter_batch("scatter_apply"), shown_as="x.at[...].apply",
    sharding_rule=sharding_rules.scatter)
for _primitive in PRIMITIVES.values():
    _primitive.writes = True
    _primitive.key_use = "hands on"
scatter_p, scatter_add_p = PRIMITIVES["scatter"], PRIMITIVES["scatter_add"]
scatter_p.jvp, scatter_p.transpose = _scatter_jvp, _scatter_transpose
scatter_add_p.jvp, scatter_add_p.transpose = _additive_jvp("scatter_add"), _additive_transpose(1)
PRIMITIVES["scatter_sub"].jvp = _additive_jvp("scatter_sub")
PRIMITIVES["scatter_sub"].transpose = _additive_transpose(-1)
PRIMITIVES["scatter_mul"].jvp = _multiplicative_jvp
PRIMITIVES["scatter_min"].jvp = _extreme_scatter_jvp("scatter_min")
PRIMITIVES["scatter_max"].jvp = _extreme_scatter_jvp("scatter_max")


# Public functions


@lax_function(static=("dimension_numbers", "slice_sizes", "unique_indices", "indices_are_sorted", "mode", "fill_value"))
def _gather_kernel(operand, start_indices, dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, mode,
                   fill_value):
    check_indices("gather", start_indices)
    gathered_shape(np.shape(operand), np.shape(start_indices), dimension_numbers, slice_sizes)
    return bind_gather(operand, start_indices, dimension_numbers=dimension_numbers, slice_sizes=slice_sizes,
                       unique_indices=unique_indices, indices_are_sorted=indices_are_sorted, mode=mode,
                       fill_value=fill_value)


def gather(operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int],
           *, unique_indices: bool = False, indices_are_sorted: bool = False, mode: str | GatherScatterMode | None = None,
           fill_value: ArrayLike | None = None) -> Array:
    """Windows of an array at positions that are known when it runs: StableHLO's `gather`. `x.at[...]` and indexing are easier.

    - `operand`: an array.
    - `start_indices`: integers, whose last dimension is the position of a window in the dimensions of `start_index_map`.
    - `dimension_numbers`: `GatherDimensionNumbers`, which say what the dimensions of the arrays are.
    - `slice_sizes`: the shape of a window, known when tracing.
    - `unique_indices`, `indices_are_sorted`: promises about the positions, for speed.
    - `mode`: what windows outside give: "clip" moves them inside, as does None; "fill" gives `fill_value` (NaN, or for integers
      their smallest or largest when left out); "promise_in_bounds" says that there are none.

    >>> numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(xnp.array([10, 20, 30]), xnp.array([[2], [0]]), numbers, slice_sizes=(1,))
    Array([30, 10], dtype=int32)
    """
    how = GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode)
    numbers = as_numbers("gather", GatherDimensionNumbers, dimension_numbers)
    return _gather_kernel(operand, start_indices, numbers, static_shape("gather", slice_sizes),
                          bool(unique_indices), bool(indices_are_sorted), how, fill_value)


# What the documentation of the functions says: of all of them, and of each.
_SCATTER = """An array {words} at positions that are known when it runs: StableHLO's `scatter`.

`{method}` is easier.

- `operand`: an array.
- `scatter_indices`: integers, whose last dimension is the position of a window in `scatter_dims_to_operand_dims`.
- `updates`: the windows, of the dtype of the array.
- `dimension_numbers`: `ScatterDimensionNumbers`, which say what the dimensions of the arrays are.
- `indices_are_sorted`, `unique_indices`: promises about the positions, for speed.
- `mode`: what becomes of windows that stick out: "drop" leaves them out, as does None; "clip" moves them inside;
  "promise_in_bounds" says that there are none.

>>> numbers = lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
>>> lax.{name}(xnp.array([2, 5]), xnp.array([[1]]), xnp.array([3]), numbers)
Array({gives}, dtype=int32)"""
_DOCUMENTED = {
    "scatter": ("with windows replaced", "x.at[...].set", "[2, 3]"),
    "scatter_add": ("with windows added to it", "x.at[...].add", "[2, 8]"),
    "scatter_sub": ("with windows subtracted from it", "x.at[...].subtract", "[2, 2]"),
    "scatter_mul": ("with windows multiplied to it", "x.at[...].multiply", "[ 2, 15]"),
    "scatter_min": ("with the minimum of its elements and windows", "x.at[...].min", "[2, 3]"),
    "scatter_max": ("with the maximum of its elements and windows", "x.at[...].max", "[2, 5]")}


def _public_scatter(name: str):
    primitive = PRIMITIVES[name]

    def kernel(operand, scatter_indices, updates, dimension_numbers, indices_are_sorted, unique_indices, mode):
        check_indices(name, scatter_indices)
        check_scatter(name, np.shape(operand), np.shape(scatter_indices), np.shape(updates), dimension_numbers)
        return bind_scatter(primitive, operand, scatter_indices, updates, dimension_numbers=dimension_numbers,
                            indices_are_sorted=indices_are_sorted, unique_indices=unique_indices, mode=mode)

    kernel.__name__ = name
    compiled = lax_function(kernel, static=("dimension_numbers", "indices_are_sorted", "unique_indices", "mode"))

    def function(operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike, dimension_numbers: ScatterDimensionNumbers,
                 *, indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: str | GatherScatterMode | None = None) -> Array:
        numbers = as_numbers(name, ScatterDimensionNumbers, dimension_numbers)
        return compiled(operand, scatter_indices, updates, numbers, bool(indices_are_sorted),
                        bool(unique_indices), GatherScatterMode.from_any(mode))

    function.__name__ = function.__qualname__ = name
    words, method, gives = _DOCUMENTED[name]
    function.__doc__ = _SCATTER.format(name=name, words=words, method=method, gives=gives)
    return function


PUBLIC = {name: _public_scatter(name) for name in SCATTERS}


def scatter_apply(operand: ArrayLike, scatter_indices: ArrayLike, func: Callable, dimension_numbers: ScatterDimensionNumbers, *,
                  update_shape: Sequence[int] = (), indices_are_sorted: bool = False, unique_indices: bool = False,
                  mode: str | GatherScatterMode | None = None) -> Array:
    """An array with the elements at some positions replaced by a function of them. `x.at[...].apply` is easier.

    - `operand`, `scatter_indices`, `dimension_numbers`: as of `scatter`.
    - `func`: the function of an element. Where a position repeats, it is applied again.
    - `update_shape`: what would be the shape of the updates of `scatter`.
    - `indices_are_sorted`, `unique_indices`, `mode`: as of `scatter`.

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
