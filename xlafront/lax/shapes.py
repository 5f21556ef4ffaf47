"""Primitives that move elements without computing: reshape, transpose, slices, padding, concatenation, iota.

All of them are linear, so a record needs the shape rule, the lowering, the transpose and the batching rule;
`structural` adds the derivative. The axes of these primitives are static and non-negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.elementwise import as_type
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging.jit import library


def structural(name: str, abstract: Callable, lower: Callable, transpose: Callable, batch: Callable,
               shown_as: str | None = None) -> Primitive:
    """A record for an operation linear in its first operand (and in all of them, if it has several of one kind)."""

    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, primitive.bind(tangents[0], *primals[1:], **params)

    def transpose_rule(ct, x, *rest, **params):
        if type(ct) is Zero:
            return [Zero(x.aval)] + [None] * len(rest)
        return [transpose(ct, x.aval, *rest, **params)] + [None] * len(rest)

    primitive = Primitive(name, abstract=abstract, lower=lower, jvp=jvp, transpose=transpose_rule, batch=batch,
                          shown_as=shown_as)
    return primitive


def typed(x: ShapedArray, shape) -> ShapedArray:
    return ShapedArray(tuple(shape), x.dtype, x.weak_type, vma=x.vma)


def physical_rank(ctx) -> int:
    """Trailing dimensions that the elements of an extended dtype have in the module."""
    d = ctx.aval_out.dtype
    return 0 if isinstance(d, np.dtype) else len(d._rules.physical_element_shape)


def physical_tail(ctx) -> tuple:
    d = ctx.aval_out.dtype
    return () if isinstance(d, np.dtype) else tuple(d._rules.physical_element_shape)


# broadcast_in_dim


def _broadcast_abstract(x, *, shape, broadcast_dimensions, sharding):
    if len(broadcast_dimensions) != x.ndim:
        raise TypeError(f"broadcast_in_dim needs one target dimension for each of the {x.ndim} dimensions of its "
                        f"operand, got {broadcast_dimensions}.")
    for i, d in enumerate(broadcast_dimensions):
        if not 0 <= d < len(shape) or x.shape[i] not in (1, shape[d]):
            raise errors.incompatible_shapes(
                "broadcast_in_dim", [("operand", x.shape), ("target", shape)],
                f"Dimension {i} of the operand must be 1 or equal to dimension {d} of the target.")
    if list(broadcast_dimensions) != sorted(set(broadcast_dimensions)):
        raise TypeError(f"the broadcast_dimensions must increase strictly, got {broadcast_dimensions}.")
    return typed(x, shape)


def _broadcast_lower(ctx, x, *, shape, broadcast_dimensions, sharding):
    extra = tuple(range(len(shape), len(shape) + physical_rank(ctx)))
    return ctx.op("stablehlo.broadcast_in_dim", [x],
                  broadcast_dimensions=lowering.mlir.i64s((*broadcast_dimensions, *extra)))


def _broadcast_transpose(ct, aval, *, shape, broadcast_dimensions, sharding):
    from xlafront.lax.reductions import reduce_sum_p

    new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    stretched = [d for i, d in enumerate(broadcast_dimensions) if aval.shape[i] == 1 and shape[d] != 1]
    axes = tuple(sorted(new + stretched))
    summed = reduce_sum_p.bind(ct, axes=axes, out_sharding=None) if axes else ct
    return reshape_to(summed, aval.shape)


def _broadcast_batch(axis_size, operands, dims, *, shape, broadcast_dimensions, sharding):
    [x] = operands
    x = move_dim(x, dims[0], 0)
    return broadcast_in_dim_p.bind(
        x, shape=(np.shape(x)[0], *shape), sharding=with_entry(sharding, 0, entry_of(tracing.aval_of(x), 0)),
        broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions))), 0


broadcast_in_dim_p = structural("broadcast_in_dim", _broadcast_abstract, _broadcast_lower, _broadcast_transpose,
                                _broadcast_batch, "broadcast")


# reshape, squeeze, expand_dims


def _reshape_abstract(x, *, new_sizes, dimensions, sharding):
    if math.prod(new_sizes) != math.prod(x.shape) or any(n < 0 for n in new_sizes):
        raise errors.incompatible_shapes("reshape", [("operand", x.shape), ("new shape", new_sizes)],
                                         "The number of elements must stay the same.")
    return typed(x, new_sizes)


def _reshape_lower(ctx, x, **_):
    return ctx.op("stablehlo.reshape", [x])


def _reshape_batch(axis_size, operands, dims, *, new_sizes, dimensions, sharding):
    [x] = operands
    x = move_dim(x, dims[0], 0)
    return reshape_to(x, (np.shape(x)[0], *new_sizes), with_entry(sharding, 0, entry_of(tracing.aval_of(x), 0))), 0


reshape_p = structural("reshape", _reshape_abstract, _reshape_lower,
                       lambda ct, aval, **_: reshape_to(ct, aval.shape, aval.to_ct_aval().explicit_sharding), _reshape_batch)


def reshape_to(x, shape, sharding=None):
    """Reshape, or nothing when the shape is already that."""
    shape = tuple(shape)
    if sharding is not None:
        return reshape_p.bind(x, new_sizes=shape, dimensions=None, sharding=sharding)
    return x if np.shape(x) == shape else reshape_p.bind(x, new_sizes=shape, dimensions=None, sharding=None)


def _squeeze_abstract(x, *, dimensions):
    for d in dimensions:
        if x.shape[d] != 1:
            raise ValueError(f"squeeze can only drop dimensions of size 1; dimension {d} of shape {x.shape} has size "
                             f"{x.shape[d]}.")
    return typed(x, [n for i, n in enumerate(x.shape) if i not in dimensions])


def _squeeze_batch(axis_size, operands, dims, *, dimensions):
    x = move_dim(operands[0], dims[0], 0)
    return squeeze_p.bind(x, dimensions=tuple(d + 1 for d in dimensions)), 0


squeeze_p = structural("squeeze", _squeeze_abstract, _reshape_lower,
                       lambda ct, aval, **_: reshape_to(ct, aval.shape), _squeeze_batch)


# transpose and reversal


def _transpose_abstract(x, *, permutation):
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(f"transpose needs a permutation of the {x.ndim} dimensions of shape {x.shape}, got {permutation}.")
    return typed(x, [x.shape[d] for d in permutation])


def _transpose_lower(ctx, x, *, permutation):
    extra = tuple(range(len(permutation), len(permutation) + physical_rank(ctx)))
    return ctx.op("stablehlo.transpose", [x], permutation=lowering.mlir.i64s((*permutation, *extra)))


def _transpose_batch(axis_size, operands, dims, *, permutation):
    [x], [d] = operands, dims
    return transpose_p.bind(x, permutation=(d, *(i + (i >= d) for i in permutation))), 0


transpose_p = structural(
    "transpose", _transpose_abstract, _transpose_lower,
    lambda ct, aval, *, permutation: transpose_p.bind(ct, permutation=tuple(np.argsort(permutation).tolist())),
    _transpose_batch)


def move_dim(x, source: int, target: int):
    if source == target:
        return x
    order = [i for i in range(np.ndim(x)) if i != source]
    order.insert(target, source)
    return transpose_p.bind(x, permutation=tuple(order))


def _rev_batch(axis_size, operands, dims, *, dimensions):
    [x], [d] = operands, dims
    return rev_p.bind(x, dimensions=tuple(i + (i >= d) for i in dimensions)), d


rev_p = structural("rev", lambda x, *, dimensions: typed(x, x.shape),
                   lambda ctx, x, *, dimensions: ctx.op("stablehlo.reverse", [x],
                                                        dimensions=lowering.mlir.i64s(dimensions)),
                   lambda ct, aval, *, dimensions: rev_p.bind(ct, dimensions=dimensions), _rev_batch, "flip")


# Slices


def _slice_abstract(x, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * x.ndim
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise TypeError(f"slice needs a start, a limit and a stride for each of the {x.ndim} dimensions of shape "
                        f"{x.shape}, got {start_indices}, {limit_indices}, {strides}.")
    for start, limit, step, n in zip(start_indices, limit_indices, steps, x.shape):
        if not 0 <= start <= limit <= n or step < 1:
            raise TypeError(f"slice [{start}:{limit}:{step}] does not lie within a dimension of size {n} "
                            f"(operand of shape {x.shape}).")
    return typed(x, [-(-(b - a) // s) for a, b, s in zip(start_indices, limit_indices, steps)])


def _slice_lower(ctx, x, *, start_indices, limit_indices, strides):
    tail = physical_tail(ctx)
    steps = strides or (1,) * len(start_indices)
    m = lowering.mlir
    return ctx.op("stablehlo.slice", [x], start_indices=m.i64s((*start_indices, *(0 for _ in tail))),
                  limit_indices=m.i64s((*limit_indices, *tail)), strides=m.i64s((*steps, *(1 for _ in tail))))


def _slice_transpose(ct, aval, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * aval.ndim
    config = tuple((a, n - (a + (1 + (m - 1) * s if m else 0)), s - 1) for a, n, m, s in zip(
        start_indices, aval.shape, np.shape(ct), steps))
    return pad_p.bind(ct, np.zeros((), tracing.aval_of(ct).dtype), padding_config=config)


def _slice_batch(axis_size, operands, dims, *, start_indices, limit_indices, strides):
    [x], [d] = operands, dims
    n = np.shape(x)[d]

    def insert(values, value):
        return (*values[:d], value, *values[d:])

    return slice_p.bind(x, start_indices=insert(start_indices, 0), limit_indices=insert(limit_indices, n),
                        strides=None if strides is None else insert(strides, 1)), d


slice_p = structural("slice", _slice_abstract, _slice_lower, _slice_transpose, _slice_batch)


# Padding


def _pad_abstract(x, value, *, padding_config):
    if value.shape:
        raise TypeError(f"pad needs a scalar padding value, got one of shape {value.shape}.")
    if x.dtype != value.dtype:
        raise errors.incompatible_dtypes("pad", [x.dtype, value.dtype], "The padding value must have the array's dtype.")
    if len(padding_config) != x.ndim:
        raise TypeError(f"pad needs a (low, high, interior) triple for each of the {x.ndim} dimensions of shape "
                        f"{x.shape}, got {len(padding_config)}.")
    shape = [lo + hi + n + max(n - 1, 0) * inner for n, (lo, hi, inner) in zip(x.shape, padding_config)]
    if any(n < 0 for n in shape) or any(inner < 0 for _, _, inner in padding_config):
        raise ValueError(f"padding {padding_config} of shape {x.shape} would give the impossible shape {tuple(shape)}.")
    return typed(x, shape)


def _pad_lower(ctx, x, value, *, padding_config):
    m = lowering.mlir
    low, high, interior = zip(*padding_config) if padding_config else ((), (), ())
    return ctx.op("stablehlo.pad", [x, value], edge_padding_low=m.i64s(low), edge_padding_high=m.i64s(high),
                  interior_padding=m.i64s(interior))


def _pad_jvp(primals, tangents, *, padding_config):
    answer = pad_p.bind(*primals, padding_config=padding_config)
    if all(type(t) is Zero for t in tangents):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    x, value = (zeros_of(t.aval) if type(t) is Zero else t for t in tangents)
    return answer, pad_p.bind(x, value, padding_config=padding_config)


def _pad_transpose(ct, x, value, *, padding_config):
    from xlafront.lax.elementwise import sub
    from xlafront.lax.reductions import reduce_sum_p

    if type(ct) is Zero:
        return [Zero(a.aval) if is_undefined(a) else None for a in (x, value)]
    back = tuple((-lo, -hi, 0) for lo, hi, _ in padding_config)
    trimmed = pad_p.bind(ct, np.zeros((), tracing.aval_of(ct).dtype), padding_config=back)
    shape = np.shape(trimmed)
    inner = slice_p.bind(trimmed, start_indices=(0,) * len(shape), limit_indices=shape,
                         strides=tuple(i + 1 for _, _, i in padding_config))
    every = tuple(range(len(shape)))
    of_value = None
    if is_undefined(value):
        of_value = sub(reduce_sum_p.bind(ct, axes=every, out_sharding=None),
                       reduce_sum_p.bind(inner, axes=every, out_sharding=None))
    return [inner if is_undefined(x) else None, of_value]


def _pad_batch(axis_size, operands, dims, *, padding_config):
    (x, value), (dx, dv) = operands, dims
    if dv is None:
        return pad_p.bind(x, value, padding_config=(*padding_config[:dx], (0, 0, 0), *padding_config[dx:])), dx
    from xlafront.lax.elementwise import select

    # Pad with a mark, then put each batch element's own value where the mark is.
    x = broadcast_batch(x, dx, axis_size)
    config = ((0, 0, 0), *padding_config)
    inside = pad_p.bind(np.ones(np.shape(x), bool), np.zeros((), bool), padding_config=config)
    padded = pad_p.bind(x, np.zeros((), tracing.aval_of(x).dtype), padding_config=config)
    values = broadcast_in_dim_p.bind(move_dim(value, dv, 0), shape=np.shape(padded), broadcast_dimensions=(0,),
                                     sharding=None)
    return select(inside, values, padded), 0


pad_p = Primitive("pad", abstract=_pad_abstract, lower=_pad_lower, jvp=_pad_jvp, transpose=_pad_transpose,
                  batch=_pad_batch)


def zeros_of(aval):
    """Zeros of a type, as one scalar spread out."""
    zero = np.zeros((), aval.dtype)
    return zero if not aval.shape else broadcast_in_dim_p.bind(
        zero, shape=aval.shape, broadcast_dimensions=(), sharding=None)


def permute(x, order):
    """`transpose`, where it changes anything."""
    order = tuple(int(i) for i in order)
    return x if order == tuple(range(len(order))) else transpose_p.bind(x, permutation=order)


def broadcast_batch(x, dim: int | None, axis_size: int):
    """The operand with a batch dimension in front, repeated when it has none."""
    if dim is not None:
        return move_dim(x, dim, 0)
    shape = np.shape(x)
    return broadcast_in_dim_p.bind(x, shape=(axis_size, *shape),
                                   broadcast_dimensions=tuple(range(1, len(shape) + 1)), sharding=None)


# Concatenation


def _concatenate_abstract(*xs, dimension):
    first = xs[0]
    for x in xs:
        if x.ndim != first.ndim or x.shape[:dimension] + x.shape[dimension + 1:] != (
                first.shape[:dimension] + first.shape[dimension + 1:]):
            raise errors.incompatible_shapes("concatenate", [("", a.shape) for a in xs],
                                             f"All dimensions but number {dimension} must be equal.")
        if x.dtype != first.dtype:
            raise errors.incompatible_dtypes("concatenate", [a.dtype for a in xs])
    if not 0 <= dimension < first.ndim:
        raise TypeError(f"concatenate along dimension {dimension} of arrays with {first.ndim} dimensions")
    shape = list(first.shape)
    shape[dimension] = sum(x.shape[dimension] for x in xs)
    return ShapedArray(tuple(shape), first.dtype, all(x.weak_type for x in xs))


def _concatenate_jvp(primals, tangents, *, dimension):
    answer = concatenate_p.bind(*primals, dimension=dimension)
    if all(type(t) is Zero for t in tangents):
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, concatenate_p.bind(*[zeros_of(t.aval) if type(t) is Zero else t for t in tangents],
                                      dimension=dimension)


def _concatenate_transpose(ct, *xs, dimension):
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined(x) else None for x in xs]
    results, start = [], 0
    shape = np.shape(ct)
    for x in xs:
        n = (x.aval.shape if is_undefined(x) else np.shape(x))[dimension]
        if is_undefined(x):
            begin, end = [0] * len(shape), list(shape)
            begin[dimension], end[dimension] = start, start + n
            results.append(slice_p.bind(ct, start_indices=tuple(begin), limit_indices=tuple(end), strides=None))
        else:
            results.append(None)
        start += n
    return results


def _concatenate_batch(axis_size, operands, dims, *, dimension):
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    return concatenate_p.bind(*xs, dimension=dimension + 1), 0


concatenate_p = Primitive(
    "concatenate", abstract=_concatenate_abstract, jvp=_concatenate_jvp, transpose=_concatenate_transpose,
    batch=_concatenate_batch,
    lower=lambda ctx, *xs, dimension: ctx.op("stablehlo.concatenate", xs, dimension=lowering.mlir.i64(dimension)))


# Slices at run-time positions. Out-of-range starts are clamped, as XLA does.


def _dynamic_slice_abstract(x, *starts, slice_sizes):
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim or any(not 0 <= m <= n for m, n in zip(slice_sizes, x.shape)):
        raise TypeError(f"dynamic_slice of sizes {tuple(slice_sizes)} does not fit an array of shape {x.shape}.")
    return typed(x, slice_sizes)


def _check_starts(name, x, starts):
    if len(starts) != x.ndim:
        raise TypeError(f"{name} needs one start index for each of the {x.ndim} dimensions of shape {x.shape}, got "
                        f"{len(starts)}.")
    for s in starts:
        if s.shape or not dtypes.is_integer(s.dtype):
            raise TypeError(f"{name} needs integer scalars as start indices, got {s}.")


def _dynamic_slice_lower(ctx, x, *starts, slice_sizes):
    tail = physical_tail(ctx)
    starts = _same_index_type(ctx, starts, 1) + [ctx.constant(np.int32(0)) for _ in tail]
    return ctx.op("stablehlo.dynamic_slice", [x, *starts], slice_sizes=lowering.mlir.i64s((*slice_sizes, *tail)))


def _same_index_type(ctx, starts, first):
    avals = ctx.avals_in[first:first + len(starts)]
    kinds = {a.dtype for a in avals}
    tail = physical_tail(ctx)
    if len(kinds) <= 1 and not (tail and kinds != {dtypes.int32}):
        return list(starts)
    wide = dtypes.int64 if any(k.itemsize == 8 for k in kinds) and not tail else dtypes.int32
    return [s if a.dtype == wide else ctx.convert(s, (), wide) for s, a in zip(starts, avals)]


def _dynamic_slice_transpose(ct, aval, *starts, slice_sizes):
    return dynamic_update_slice_p.bind(zeros_of(aval), ct, *starts)


def _dynamic_slice_batch(axis_size, operands, dims, *, slice_sizes):
    x, *starts = operands
    dx, *ds = dims
    if all(d is None for d in ds):
        zero = np.zeros((), np.int32) if not starts else np.zeros((), tracing.aval_of(starts[0]).dtype)
        return dynamic_slice_p.bind(x, *starts[:dx], zero, *starts[dx:], slice_sizes=(
            *slice_sizes[:dx], np.shape(x)[dx], *slice_sizes[dx:])), dx
    from xlafront.lax.indexing import batched_dynamic_slice

    return batched_dynamic_slice(axis_size, x, dx, starts, ds, slice_sizes), 0


dynamic_slice_p = structural("dynamic_slice", _dynamic_slice_abstract, _dynamic_slice_lower, _dynamic_slice_transpose,
                             _dynamic_slice_batch)


def _update_abstract(x, update, *starts):
    _check_starts("dynamic_update_slice", x, starts)
    if update.ndim != x.ndim or any(m > n for m, n in zip(update.shape, x.shape)):
        raise errors.incompatible_shapes("dynamic_update_slice", [("operand", x.shape), ("update", update.shape)],
                                         "The update must fit inside the operand.")
    if x.dtype != update.dtype:
        raise errors.incompatible_dtypes("dynamic_update_slice", [x.dtype, update.dtype])
    return typed(x, x.shape)


def _update_lower(ctx, x, update, *starts):
    starts = _same_index_type(ctx, starts, 2) + [ctx.constant(np.int32(0)) for _ in physical_tail(ctx)]
    return ctx.op("stablehlo.dynamic_update_slice", [x, update, *starts])


def _update_jvp(primals, tangents):
    answer = dynamic_update_slice_p.bind(*primals)
    if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    x, update = (zeros_of(t.aval) if type(t) is Zero else t for t in tangents[:2])
    return answer, dynamic_update_slice_p.bind(x, update, *primals[2:])


def _update_transpose(ct, x, update, *starts):
    none = [None] * len(starts)
    if type(ct) is Zero:
        return [Zero(a.aval) if is_undefined(a) else None for a in (x, update)] + none
    shape = update.aval.shape if is_undefined(update) else np.shape(update)
    of_x = of_update = None
    if is_undefined(x):
        zero = zeros_of(ShapedArray(tuple(shape), tracing.aval_of(ct).dtype))
        of_x = dynamic_update_slice_p.bind(ct, zero, *starts)
    if is_undefined(update):
        of_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=tuple(shape))
    return [of_x, of_update, *none]


def _update_batch(axis_size, operands, dims):
    from xlafront.lax.indexing import batched_dynamic_update_slice

    (x, update, *starts), (dx, du, *ds) = operands, dims
    x, update = broadcast_batch(x, dx, axis_size), broadcast_batch(update, du, axis_size)
    if all(d is None for d in ds):
        zero = np.zeros((), np.int32) if not starts else np.zeros((), tracing.aval_of(starts[0]).dtype)
        return dynamic_update_slice_p.bind(x, update, zero, *starts), 0
    return batched_dynamic_update_slice(axis_size, x, update, starts, ds), 0


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice", abstract=_update_abstract, lower=_update_lower, jvp=_update_jvp,
    transpose=_update_transpose, batch=_update_batch)


# iota and bit patterns

iota_p = Primitive(
    "iota", abstract=lambda *, dtype, shape, dimension, sharding: ShapedArray(shape, dtype),
    lower=lambda ctx, *, dtype, shape, dimension, sharding: ctx.op(
        "stablehlo.iota", [], iota_dimension=lowering.mlir.i64(dimension)))


def _bitcast_abstract(x, *, new_dtype):
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old == new:
        shape = x.shape
    elif old > new:
        shape = (*x.shape, old // new)
    else:
        if not x.shape or x.shape[-1] * old != new:
            raise TypeError(f"bitcast from {x.dtype} to {new_dtype} needs a last dimension of size {new // old}, "
                            f"got shape {x.shape}.")
        shape = x.shape[:-1]
    return ShapedArray(shape, np.dtype(new_dtype))


def _bitcast_batch(axis_size, operands, dims, *, new_dtype):
    return bitcast_convert_type_p.bind(move_dim(operands[0], dims[0], 0), new_dtype=new_dtype), 0


def _bitcast_jvp(primals, tangents, *, new_dtype):
    answer = bitcast_convert_type_p.bind(*primals, new_dtype=new_dtype)
    return answer, Zero(tracing.aval_of(answer).to_tangent_aval())


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type", abstract=_bitcast_abstract, batch=_bitcast_batch, jvp=_bitcast_jvp,
    lower=lambda ctx, x, *, new_dtype: ctx.op("stablehlo.bitcast_convert", [x]))


# Public functions


def static_shape(name: str, shape) -> tuple[int, ...]:
    """A shape given by the user, as a tuple of Python ints."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    if isinstance(shape, (np.ndarray, ArrayImpl)) and not shape.ndim:
        return (shape.__index__(),)
    try:
        return tuple(n if type(n) is int else n.__index__() for n in shape)
    except (TypeError, AttributeError):
        if isinstance(shape, tracing.Tracer):
            raise errors.TracerIntegerConversionError(shape) from None
        raise TypeError(f"{name} needs a shape of integers, got {shape!r}.") from None


def canonical_axis(axis: int, rank: int, name: str = "this operation") -> int:
    try:
        axis = axis.__index__()
    except AttributeError:
        raise TypeError(f"{name} needs an integer axis, got {axis!r}.") from None
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(f"{name} got axis {axis} for an array with {rank} dimension(s)")
    return axis + rank if axis < 0 else axis


def canonical_axes(axes, rank: int, name: str = "this operation") -> tuple[int, ...]:
    if axes is None:
        return tuple(range(rank))
    listed = axes if isinstance(axes, (tuple, list, range)) or np.ndim(axes) else (axes,)
    found = tuple(canonical_axis(a, rank, name) for a in listed)
    if len(set(found)) != len(found):
        raise ValueError(f"{name} got an axis twice: {axes}")
    return found


def broadcast_in_dim(operand, shape, broadcast_dimensions, *, out_sharding=None):
    """Spread an array over a larger shape; `broadcast_dimensions[i]` is where its dimension `i` goes."""
    shape = static_shape("broadcast_in_dim", shape)
    dims = tuple(int(d) for d in broadcast_dimensions)
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims, sharding=named_sharding(
        out_sharding, "broadcast_in_dim"))


def named_sharding(out_sharding, user: str):
    """What a user gave as `out_sharding`, over the mesh that it refers to; None for None."""
    if out_sharding is None:
        return None
    from xlafront.lax.resharding import named

    return named(out_sharding, user)


def broadcast(operand, sizes: Sequence[int], *, out_sharding=None):
    """Put dimensions of these sizes in front, repeating the array along them."""
    sizes = static_shape("broadcast", sizes)
    rank = np.ndim(operand)
    return broadcast_in_dim(operand, (*sizes, *np.shape(operand)),
                            tuple(range(len(sizes), len(sizes) + rank)), out_sharding=out_sharding)


def reshape(operand, new_sizes, dimensions=None, *, out_sharding=None):
    """The same elements in row-major order in another shape; `dimensions` reads them in another order."""
    sizes = static_shape("reshape", new_sizes)
    if dimensions is not None and tuple(dimensions) != tuple(range(np.ndim(operand))):
        operand = transpose_p.bind(operand, permutation=tuple(dimensions))
    if out_sharding is not None:
        return reshape_p.bind(operand, new_sizes=sizes, dimensions=None, sharding=named_sharding(out_sharding, "reshape"))
    return reshape_to(operand, sizes)


def transpose(operand, permutation):
    """Reorder the dimensions: the result's dimension `i` is the operand's `permutation[i]`."""
    return _transpose_kernel(operand, tuple(int(p) for p in permutation))


@library(static="permutation", name="transpose")
def _transpose_kernel(operand, permutation):
    if permutation == tuple(range(np.ndim(operand))):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def squeeze(array, dimensions):
    """Drop dimensions of size 1."""
    return _squeeze_kernel(array, canonical_axes(dimensions, np.ndim(array), "squeeze"))


@library(static="dimensions", name="squeeze")
def _squeeze_kernel(array, dimensions):
    return squeeze_p.bind(array, dimensions=dimensions) if dimensions else array


def expand_dims(array, dimensions):
    """Insert dimensions of size 1 at these positions of the result."""
    rank = np.ndim(array) + len(tuple(dimensions))
    return _expand_kernel(array, canonical_axes(tuple(dimensions), rank, "expand_dims"))


@library(static="dimensions", name="expand_dims")
def _expand_kernel(array, dimensions):
    rank = np.ndim(array) + len(dimensions)
    kept = tuple(i for i in range(rank) if i not in dimensions)
    sizes = iter(np.shape(array))
    shape = tuple(1 if i in dimensions else next(sizes) for i in range(rank))
    return broadcast_in_dim_p.bind(array, shape=shape, broadcast_dimensions=kept, sharding=None)


def rev(operand, dimensions):
    """Reverse the order of elements along some dimensions."""
    axes = canonical_axes(tuple(dimensions), np.ndim(operand), "rev")
    return rev_p.bind(operand, dimensions=axes)


def slice(operand, start_indices, limit_indices, strides=None):
    """The part between two static corners, with a stride for each dimension."""
    steps = None if strides is None else tuple(int(s) for s in strides)
    return slice_p.bind(operand, start_indices=tuple(int(i) for i in start_indices),
                        limit_indices=tuple(int(i) for i in limit_indices), strides=steps)


def slice_in_dim(operand, start_index, limit_index, stride: int = 1, axis: int = 0):
    """`operand[start:limit:stride]` along one axis."""
    shape = np.shape(operand)
    axis = canonical_axis(axis, len(shape), "slice_in_dim")
    start, limit, _ = _slice_bounds(start_index, limit_index, shape[axis])
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, int(stride)
    return slice(operand, tuple(starts), tuple(limits), tuple(strides))


def _slice_bounds(start, limit, n: int):
    import builtins

    start, limit = (None if v is None else v.__index__() for v in (start, limit))
    return builtins.slice(start, limit).indices(n)


@library(static="dimension")
def _concatenate_kernel(operands, dimension):
    return concatenate_p.bind(*operands, dimension=dimension) if len(operands) > 1 else operands[0]


def concatenate(operands, dimension: int):
    """Join arrays along a dimension."""
    operands = list(operands)
    if not operands:
        raise ValueError("concatenate needs at least one array.")
    return _concatenate_kernel(operands, canonical_axis(dimension, np.ndim(operands[0]), "concatenate"))


def pad(operand, padding_value, padding_config):
    """Add elements around and between those of an array: a (low, high, interior) triple for each dimension."""
    value = as_type(padding_value, tracing.aval_of(operand).dtype, False)
    return pad_p.bind(operand, value, padding_config=tuple(tuple(int(n) for n in c) for c in padding_config))


def start_index(i, n: int):
    """An index for XLA: negative ones count from the end."""
    from xlafront.lax.elementwise import add, lt, select

    if isinstance(i, (int, np.integer)):
        return np.asarray(i + n if i < 0 else i).astype(np.int32)[()]
    aval = tracing.aval_of(i)
    if dtypes.is_unsigned(aval.dtype):
        return i
    d = aval.dtype.type
    return select(lt(i, d(0)), i, add(i, d(n))) if n <= np.iinfo(aval.dtype).max else i


@library(static=("slice_sizes", "wrap"))
def _dynamic_slice_kernel(operand, start_indices, slice_sizes, wrap):
    starts = _starts(start_indices, np.shape(operand), wrap)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=slice_sizes)


def _index_list(indices) -> list:
    if isinstance(indices, (list, tuple)):
        return list(indices)
    from xlafront.lax.indexing import unstack

    return unstack(indices)


def _wraps(allow_negative_indices, rank: int) -> tuple[bool, ...]:
    """For each dimension whether negative starts count from the end."""
    if isinstance(allow_negative_indices, (tuple, list)):
        return tuple(map(bool, allow_negative_indices))
    return (bool(allow_negative_indices),) * rank


def _starts(indices, shape, wrap) -> list:
    return [start_index(i, n) if w else np.int32(i) if isinstance(i, int) else i
            for i, n, w in zip(_index_list(indices), shape, wrap)]


def dynamic_slice(operand, start_indices, slice_sizes, *, allow_negative_indices=True):
    """A part of static size at a run-time position, which is moved inside the array if it sticks out.

    Negative positions count from the end, unless `allow_negative_indices` (for all dimensions or each) is false.
    """
    sizes = static_shape("dynamic_slice", slice_sizes)
    if isinstance(start_indices, (list, tuple)) and len(start_indices) != np.ndim(operand):
        raise TypeError(f"dynamic_slice needs one start index for each of the {np.ndim(operand)} dimensions of shape "
                        f"{np.shape(operand)}, got {len(start_indices)}.")
    return _dynamic_slice_kernel(operand, start_indices, sizes, _wraps(allow_negative_indices, len(sizes)))


def dynamic_update_slice(operand, update, start_indices, *, allow_negative_indices=True):
    """The array with a part replaced, at a run-time position that is moved inside if it sticks out."""
    return _dynamic_update_kernel(operand, update, start_indices, _wraps(allow_negative_indices, np.ndim(operand)))


@library(static="wrap", name="dynamic_update_slice")
def _dynamic_update_kernel(operand, update, start_indices, wrap):
    indices = _index_list(start_indices)
    shape = np.shape(operand)
    if len(indices) != len(shape):
        raise TypeError(f"dynamic_update_slice needs one start index for each of the {len(shape)} dimensions of shape "
                        f"{shape}, got {len(indices)}.")
    starts = _starts(indices, shape, wrap)
    update = as_type(update, tracing.aval_of(operand).dtype, False) if not hasattr(update, "dtype") else update
    return dynamic_update_slice_p.bind(operand, update, *starts)


def dynamic_slice_in_dim(operand, start_index, slice_size: int, axis: int = 0, *, allow_negative_indices=True):
    """`dynamic_slice` along one axis."""
    shape = np.shape(operand)
    axis = canonical_axis(axis, len(shape), "dynamic_slice_in_dim")
    starts = [0] * len(shape)
    starts[axis] = start_index
    return dynamic_slice(operand, starts, (*shape[:axis], slice_size, *shape[axis + 1:]),
                         allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(operand, index, axis: int = 0, keepdims: bool = True, *, allow_negative_indices=True):
    """The element at a run-time index along one axis."""
    result = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return result if keepdims else squeeze(result, (axis,))


def dynamic_update_slice_in_dim(operand, update, start_index, axis: int, *, allow_negative_indices=True):
    """`dynamic_update_slice` along one axis."""
    axis = canonical_axis(axis, np.ndim(operand), "dynamic_update_slice_in_dim")
    starts = [0] * np.ndim(operand)
    starts[axis] = start_index
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(operand, update, index, axis: int, *, allow_negative_indices=True):
    """The array with the element at a run-time index along one axis replaced."""
    axis = canonical_axis(axis, np.ndim(operand), "dynamic_update_index_in_dim")
    if np.ndim(update) != np.ndim(operand):
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)


def index_in_dim(operand, index: int, axis: int = 0, keepdims: bool = True):
    """The element at a static index along one axis."""
    axis = canonical_axis(axis, np.ndim(operand), "index_in_dim")
    n = np.shape(operand)[axis]
    wrapped = index + n if index < 0 else index
    if not 0 <= wrapped < n:
        raise IndexError(f"index {index} is out of bounds for dimension {axis} of size {n}")
    result = slice_in_dim(operand, wrapped, wrapped + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


@library(static="new_dtype", name="bitcast_convert_type")
def _bitcast_kernel(operand, new_dtype):
    if tracing.aval_of(operand).dtype == new_dtype:
        return operand
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


def bitcast_convert_type(operand, new_dtype):
    """Read the bits of an array as another dtype; a wider or narrower one takes or adds a last dimension."""
    return _bitcast_kernel(operand, dtypes.check_user_dtype(new_dtype, "bitcast_convert_type"))
