"""Primitives that change the shapes of arrays without computing, and the sum that is their transpose.

All of them are linear, so a record needs the shape rule, the lowering, the transpose and the batching rule;
`structural` adds the derivative, and `reducer` makes the records of all reductions. The axes of these primitives are static and
non-negative. Parts of arrays are in `slicing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.dimensions import is_symbolic, is_symbolic_dim
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import Sums, has_open_sums, of_first
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding, specified
from xlafront.lax.combining import combine
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.specs import axes_of
from xlafront.staging.library import exact, lax_function, written_once


def linear_jvp(primitive: Primitive) -> Callable:
    """The derivative of an operation that is linear in its first operand and takes no derivative in others."""
    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, primitive.bind(tangents[0], *primals[1:], **params)

    return jvp


def structural(name: str, abstract: Callable, lower: Callable, transpose: Callable, batch: Callable,
               shown_as: str | None = None, sharding_rule: Callable | None = None, sums: Sums | None = None,
               cost: str | None = "cheap") -> Primitive:
    """A record for an operation linear in its first operand (and in all of them, if it has several of one kind)."""

    def transpose_rule(ct, x, *rest, **params):
        if type(ct) is Zero:
            return [Zero(x.aval)] + [None] * len(rest)
        return [transpose(ct, x.aval, *rest, **params)] + [None] * len(rest)

    primitive = Primitive(name, abstract=abstract, lower=lower, transpose=transpose_rule, batch=batch, shown_as=shown_as,
                          sharding_rule=sharding_rule, sums=sums, cost=cost)
    primitive.jvp = linear_jvp(primitive)
    return primitive


def typed(x: ShapedArray, shape) -> ShapedArray:
    return ShapedArray(tuple(shape), x.dtype, x.weak_type, vma=x.vma)


def physical_rank(ctx) -> int:
    """Trailing dimensions that the elements of an extended dtype have in the module."""
    d = ctx.aval_out.dtype
    return 0 if isinstance(d, np.dtype) else len(d.physical_element_shape)


def physical_tail(ctx) -> tuple:
    d = ctx.aval_out.dtype
    return () if isinstance(d, np.dtype) else tuple(d.physical_element_shape)


# broadcast_in_dim


def check_sizes(name: str, shape) -> None:
    """The sizes of an array that is made are not negative."""
    for n in shape:
        if isinstance(n, int) and n < 0:
            raise TypeError(f"{name} got the shape {tuple(shape)}: its sizes must be non-negative integers.")


def _broadcast_abstract(x, *, shape, broadcast_dimensions, sharding):
    check_sizes("broadcast_in_dim", shape)
    if len(broadcast_dimensions) != x.ndim:
        raise TypeError(f"broadcast_in_dim needs one target dimension for each of the {x.ndim} dimensions of its "
                        f"operand, got {broadcast_dimensions}.")
    for i, d in enumerate(broadcast_dimensions):
        if not 0 <= d < len(shape) or x.shape[i] not in (1, shape[d]):
            raise errors.incompatible_shapes(
                "broadcast_in_dim", [("operand", x.shape), ("target", shape)],
                f"Dimension {i} of the operand must be 1 or equal to dimension {d} of the target.", broadcast=True)
    if len(set(broadcast_dimensions)) != len(broadcast_dimensions):
        raise TypeError(f"the broadcast_dimensions must be distinct, got {broadcast_dimensions}.")
    return typed(x, shape)


def _broadcast_lower(ctx, x, *, shape, broadcast_dimensions, sharding):
    [aval], module = ctx.avals_in, ctx.module_context
    if module.constrain is not None and has_open_sums(aval):
        return module.sharding_context.broadcast_summands(x, aval, broadcast_dimensions, shape)
    return ctx.broadcast_in_dim(x, broadcast_dimensions)


def _broadcast_transpose(ct, aval, *, shape, broadcast_dimensions, sharding):
    new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    stretched = [d for i, d in enumerate(broadcast_dimensions) if aval.shape[i] == 1 and shape[d] != 1]
    axes = tuple(sorted(new + stretched))
    summed = reduce_sum_p.bind(ct, axes=axes, out_sharding=None) if axes else ct
    kept = [d for d in broadcast_dimensions if d not in stretched]
    if kept != sorted(kept):
        summed = permute(summed, inverse(inverse(kept)))
    return reshape_to(summed, aval.shape)


def _broadcast_batch(axis_size, operands, dims, *, shape, broadcast_dimensions, sharding):
    [x] = operands
    x = move_dim(x, dims[0], 0)
    return broadcast_in_dim_p.bind(
        x, shape=(np.shape(x)[0], *shape), sharding=with_entry(sharding, 0, entry_of(tracing.aval_of(x), 0)),
        broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions))), 0


broadcast_in_dim_p = structural("broadcast_in_dim", _broadcast_abstract, _broadcast_lower, _broadcast_transpose,
                                _broadcast_batch, "broadcast", sharding_rules.broadcast, of_first)
broadcast_in_dim_p.of_number = lambda number, params: None if params["shape"] else number


# Reductions


def reducer(name: str, operation: str, identity: Callable, accepts: str, error: type[Exception] = TypeError,
            **rules) -> Primitive:
    """A record for a reduction, by a StableHLO operation whose identity element is `identity(dtype)`; `rules` are its
    derivative and its transpose, `error` is that for other dtypes than it accepts."""
    def abstract(x, *, axes, **_):
        check_dtype(name, accepts, x.dtype, error)
        result = typed(x, [n for i, n in enumerate(x.shape) if i not in axes])
        return result.update(weak_type=False) if "bytes" in accepts else result

    def lower(ctx, x, *, axes, **_):
        d = ctx.avals_in[0].dtype
        if not config.allow_f16_reductions.value and name == "reduce_sum" and d in (dtypes.float16, dtypes.bfloat16) and any(
                [ctx.avals_in[0].shape[i] != 1 for i in axes]):
            raise ValueError(f"reduce_sum of {ctx.avals_in[0]} over the dimensions {axes} would add in 16 bits, which the "
                             "setting allow_f16_reductions=False (jax_allow_f16_reductions) forbids. Convert with "
                             "astype('float32').")
        actual = "stablehlo.or" if d == dtypes.bool_ and name == "reduce_sum" else operation
        init = ctx.constant(np.asarray(identity(d)).astype(d))
        scalar = ((), d)
        return ctx.with_region(
            "stablehlo.reduce", [x, init], [scalar, scalar], lambda inner, a, b: [combine(inner, actual, a, b, *scalar)],
            types=[ctx.aval_out], dimensions=lowering.mlir.i64s(axes))[0]

    def batch(axis_size, operands, dims, *, axes, **params):
        [x], [d] = operands, dims
        moved = tuple(a + (a >= d) for a in axes)
        out = d - sum(a < d for a in moved)
        if params:
            params = {"out_sharding": with_entry(params["out_sharding"], out, entry_of(tracing.aval_of(x), d))}
        return primitive.bind(x, axes=moved, **params), out

    primitive = Primitive(name, abstract=abstract, lower=lower, batch=batch, shown_as=name.removeprefix("reduce_"),
                          sharding_rule=sharding_rules.reduced, **rules)
    return primitive


def broadcast_back(y, shape, axes):
    """The result of a reduction over `axes` at the shape it was reduced from."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(y, shape=tuple(shape), broadcast_dimensions=kept, sharding=None)


reduce_sum_p = reducer(
    "reduce_sum", "stablehlo.add", lambda d: 0, "int float complex bool",
    transpose=lambda ct, x, *, axes, out_sharding: [
        Zero(x.aval) if type(ct) is Zero else broadcast_back(ct, x.aval.shape, axes)], sums=of_first)
reduce_sum_p.jvp = linear_jvp(reduce_sum_p)
reduce_sum_p.summed_axes = lambda avals, params: frozenset(
    [a for d in params["axes"] for a in axes_of(entry_of(avals[0], d))])


# reshape, squeeze, expand_dims


def _reshape_abstract(x, *, new_sizes, dimensions, sharding):
    if math.prod(new_sizes) != math.prod(x.shape) or any(n < 0 for n in new_sizes):
        raise errors.incompatible_shapes("reshape", [("operand", x.shape), ("new shape", new_sizes)],
                                         "The number of elements must stay the same.")
    return typed(x, new_sizes)


def _reshape_lower(ctx, x, **_):
    return ctx.reshape(x)


def _reshape_batch(axis_size, operands, dims, *, new_sizes, dimensions, sharding):
    [x] = operands
    x = move_dim(x, dims[0], 0)
    return reshape_to(x, (np.shape(x)[0], *new_sizes), with_entry(sharding, 0, entry_of(tracing.aval_of(x), 0))), 0


reshape_p = structural("reshape", _reshape_abstract, _reshape_lower,
                       lambda ct, aval, **_: reshape_to(ct, aval.shape, aval.to_ct_aval().explicit_sharding), _reshape_batch,
                       sharding_rule=sharding_rules.reshape, sums=of_first)


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
                       lambda ct, aval, **_: reshape_to(ct, aval.shape), _squeeze_batch,
                       sharding_rule=sharding_rules.squeeze, sums=of_first)
broadcast_in_dim_p.key_use = reshape_p.key_use = squeeze_p.key_use = "hands on"


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
    lambda ct, aval, *, permutation: transpose_p.bind(ct, permutation=inverse(permutation)),
    _transpose_batch, sharding_rule=sharding_rules.transpose, sums=of_first)


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
                   lambda ct, aval, *, dimensions: rev_p.bind(ct, dimensions=dimensions), _rev_batch, "flip",
                   sharding_rule=sharding_rules.same, sums=of_first)


# tile


def _tile_abstract(x, *, reps):
    if len(reps) != x.ndim:
        raise TypeError(f"tile needs a number of repetitions for each of the {x.ndim} dimensions of its operand, got {reps}.")
    if any(n < 0 for n in reps):
        raise TypeError(f"tile needs non-negative numbers of repetitions, got {reps}.")
    return typed(x, [n * m for n, m in zip(reps, x.shape)])


def _laid_out(reps, shape) -> list[int]:
    """The sizes of the tiles and those in them, in turn."""
    return [n for pair in zip(reps, shape) for n in pair]


def _tile_lower(ctx, x, *, reps):
    [aval] = ctx.avals_in
    laid_out = typed(ctx.aval_out, _laid_out(reps, aval.shape))
    spread = ctx.broadcast_in_dim(x, range(1, 2 * aval.ndim, 2), laid_out)
    if aval.explicit_sharding is not None:
        split = aval.explicit_sharding
        entries = [e for p in split.spec.padded(aval.ndim) for e in (None, p)]
        spread = ctx.typed(spread, laid_out.update(sharding=split.update(spec=split.spec.update(partitions=entries))))
    return ctx.reshape(spread)


def _tile_transpose(ct, aval, *, reps):
    tiles = reshape_to(ct, tuple(_laid_out(reps, aval.shape)))
    return reduce_sum_p.bind(tiles, axes=tuple(range(0, 2 * aval.ndim, 2)), out_sharding=None)


def _tile_batch(axis_size, operands, dims, *, reps):
    [x], [d] = operands, dims
    return tile_p.bind(x, reps=(*reps[:d], 1, *reps[d:])), d


tile_p = structural("tile", _tile_abstract, _tile_lower, _tile_transpose, _tile_batch, sharding_rule=sharding_rules.tile,
                    sums=of_first)


# Batches


def place_axis(x, dim: int | None, wanted: int, size: int):
    """A batch with its counting dimension moved; one is made where `dim` is None."""
    if dim is not None:
        return move_dim(x, dim, wanted)
    shape = np.shape(x)
    return broadcast_in_dim_p.bind(x, shape=(*shape[:wanted], size, *shape[wanted:]), broadcast_dimensions=tuple(
        i for i in range(len(shape) + 1) if i != wanted), sharding=None)


def broadcast_batch(x, dim: int | None, size: int):
    """A batch with its counting dimension in front."""
    return place_axis(x, dim, 0, size)


def inverse(order) -> tuple[int, ...]:
    """The order that undoes one: of positions, or of any numbers, by size."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def permute(x, order):
    """`transpose`, where it changes anything."""
    order = tuple(int(i) for i in order)
    return x if order == tuple(range(len(order))) else transpose_p.bind(x, permutation=order)


def zeros_of(aval):
    """Zeros of a type, as one scalar spread out; without the sums that the type leaves open."""
    d = aval.dtype
    zero = exact(np.zeros((), d)) if isinstance(d, np.dtype) else d._rules.zero(d)
    split = aval.explicit_sharding
    if split is not None and (split.spec.unreduced or split.spec.reduced):
        split = None
    return zero if not aval.shape else broadcast_in_dim_p.bind(
        zero, shape=aval.shape, broadcast_dimensions=(), sharding=split)


# iota and bit patterns

def _iota_abstract(*, dtype, shape, dimension, sharding):
    check_sizes("iota", shape)
    return ShapedArray(shape, dtype)


iota_p = Primitive(
    "iota", abstract=_iota_abstract,
    lower=lambda ctx, *, dtype, shape, dimension, sharding: ctx.iota(dimension), cost="cheap")


def counting(dtype, shape, dimension):
    """The index of each element along a dimension."""
    return iota_p.bind(dtype=np.dtype(dtype), shape=shape, dimension=dimension, sharding=None)


def _bitcast_abstract(x, *, new_dtype):
    for d in (x.dtype, new_dtype):
        if dtypes.is_extended(d):
            raise ValueError(f"bitcast_convert_type does not take {d}: {d.no_numbers}")
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if not old or not new:
        raise TypeError(f"bitcast_convert_type does not support {x.dtype} and {new_dtype}: float0 has no bits.")
    if old == new:
        shape = x.shape
    elif old > new:
        shape = (*x.shape, old // new)
    else:
        if not x.shape or x.shape[-1] * old != new:
            raise ValueError(f"bitcast from {x.dtype} to {new_dtype} needs a last dimension of size {new // old}, "
                             f"got shape {x.shape}.")
        shape = x.shape[:-1]
    if x.dtype != new_dtype and (dtypes.bool_ in (x.dtype, new_dtype) or dtypes.is_complex(x.dtype)
                                 or dtypes.is_complex(new_dtype)):
        raise TypeError(f"bitcast_convert_type does not support {x.dtype} to {new_dtype}: booleans and complex numbers have no "
                        f"bits in common with other types. Take real(x) and imag(x), or convert with x.astype(...).")
    return ShapedArray(shape, np.dtype(new_dtype))


def _bitcast_batch(axis_size, operands, dims, *, new_dtype):
    return bitcast_convert_type_p.bind(move_dim(operands[0], dims[0], 0), new_dtype=new_dtype), 0


def _bitcast_jvp(primals, tangents, *, new_dtype):
    answer = bitcast_convert_type_p.bind(*primals, new_dtype=new_dtype)
    return answer, Zero(tracing.aval_of(answer).to_tangent_aval())


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type", abstract=_bitcast_abstract, batch=_bitcast_batch, jvp=_bitcast_jvp,
    sharding_rule=sharding_rules.words,
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
        if is_symbolic_dim(shape):
            return (shape,)
        if hasattr(type(shape), "__index__") and not isinstance(shape, tracing.Tracer) and not np.ndim(shape):
            return (shape.__index__(),)
        if isinstance(shape, (tuple, list)) and is_symbolic(shape):
            return tuple([n if is_symbolic_dim(n) else n.__index__() for n in shape])
        for n in [shape] if isinstance(shape, tracing.Tracer) else shape if isinstance(shape, (tuple, list)) else ():
            if isinstance(n, tracing.Tracer):
                raise errors.TracerIntegerConversionError(n, f"{name}, which needs a shape of concrete integers,") from None
        raise TypeError(f"{name} needs a shape: a sequence of integers, concrete values, got {shape!r}.") from None


def canonical_axis(axis: int, rank: int, name: str = "this operation") -> int:
    try:
        axis = axis.__index__()
    except AttributeError:
        raise TypeError(f"{name} needs an integer axis, got {axis!r}.") from None
    if not -rank <= axis < rank:
        raise np.exceptions.AxisError(f"{name} got axis {axis}, which is out of bounds for an array with {rank} dimension(s)")
    return axis + rank if axis < 0 else axis


def sequence_of_sizes(name: str, sizes) -> tuple[int, ...]:
    """As `static_shape`, where one number is no shape."""
    if np.ndim(sizes) == 0:
        raise TypeError(f"{name} needs a sequence of sizes, got {sizes!r}: the shape of a vector is (n,).")
    return static_shape(name, sizes)


def plain_axis(axis: int, rank: int, name: str, error: type[Exception] = np.exceptions.AxisError) -> int:
    """A dimension for an operation of lax, where negative numbers do not count from the end."""
    try:
        axis = axis.__index__()
    except AttributeError:
        raise TypeError(f"{name} needs an integer axis, got {axis!r}.") from None
    if not 0 <= axis < rank:
        raise error(f"{name} got axis {axis}, which is out of bounds for an array of {rank} dimension(s): axes must lie "
                    f"between 0 and {rank - 1}, and not be negative.")
    return axis


def plain_axes(axes, rank: int, name: str, error: type[Exception] = np.exceptions.AxisError) -> tuple[int, ...]:
    """Distinct dimensions for an operation of lax, as `plain_axis` takes them."""
    if not isinstance(axes, (tuple, list, range)):
        raise TypeError(f"{name} needs a sequence of integers as axes, got {axes!r}.")
    found = tuple([plain_axis(a, rank, name, error) for a in axes])
    if len(set(found)) != len(found):
        raise error(f"{name} got a duplicate axis: {tuple(axes)} must be unique.")
    return found


def canonical_axes(axes, rank: int, name: str = "this operation", repeated: type[Exception] = ValueError) -> tuple[int, ...]:
    if type(axes) is int:  # Hot.
        return (canonical_axis(axes, rank, name),)
    if axes is None:
        return tuple(range(rank))
    listed = axes if isinstance(axes, (tuple, list, range)) or np.ndim(axes) else (axes,)
    found = tuple([canonical_axis(a, rank, name) for a in listed])
    if len(set(found)) != len(found):
        raise repeated(f"{name} got an axis twice, a duplicate value: {axes}")
    return found


def broadcast_shapes(name: str, *shapes, error: type[Exception] = ValueError) -> tuple:
    """The shape that arrays of these shapes broadcast to; `name` is who asks, for the `error` where there is none."""
    rank = max((len(s) for s in shapes), default=0)
    full = []
    for sizes in zip(*[(1,) * (rank - len(s)) + tuple(s) for s in shapes]):
        big = {n for n in sizes if n != 1}
        if len(big) > 1:
            rule = "Shapes broadcast when, counted from the last dimension, sizes are equal or 1."
            if error is TypeError:
                raise errors.incompatible_shapes(name, [("", s) for s in shapes], rule, broadcast=True)
            raise error(f"Incompatible shapes for broadcasting: {', '.join(str(tuple(s)) for s in shapes)}, in {name}. "
                        f"{rule}")
        full.append(big.pop() if big else 1)
    return tuple(full)


def broadcast_in_dim(operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int], *,
                     out_sharding: ShardingLike = None) -> Array:
    """An array spread over a larger shape.

    - `operand`: an array.
    - `shape`: that of the result.
    - `broadcast_dimensions`: for each dimension of `operand` the one of the result that it becomes.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.broadcast_in_dim(xnp.array([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    shape = sequence_of_sizes("broadcast_in_dim", shape)
    dims = static_shape("broadcast_in_dim", broadcast_dimensions)
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims, sharding=named_sharding(
        out_sharding, "broadcast_in_dim"))


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: ShardingLike = None) -> Array:
    """An array repeated along new leading dimensions.

    - `operand`: an array.
    - `sizes`: of the new dimensions.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.broadcast(xnp.array([1, 2]), (3,))
    Array([[1, 2],
           [1, 2],
           [1, 2]], dtype=int32)
    """
    sizes = sequence_of_sizes("broadcast", sizes)
    rank = np.ndim(operand)
    return broadcast_in_dim(operand, (*sizes, *np.shape(operand)),
                            tuple(range(len(sizes), len(sizes) + rank)), out_sharding=out_sharding)


def reshape(operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, *,
            out_sharding: ShardingLike = None) -> Array:
    """The same elements in another shape, in row-major order.

    - `operand`: an array.
    - `new_sizes`: the shape, with as many elements; there is no -1 as in NumPy.
    - `dimensions`: the order of dimensions in which the elements are read.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.reshape(xnp.arange(6), (3, 2))
    Array([[0, 1],
           [2, 3],
           [4, 5]], dtype=int32)
    """
    sizes = static_shape("reshape", new_sizes)
    check_sizes("reshape", sizes)
    if dimensions is not None and tuple(dimensions) != tuple(range(np.ndim(operand))):
        operand = transpose_p.bind(operand, permutation=static_shape("reshape", dimensions))
    if math.prod(sizes) != np.size(operand):
        raise ValueError(f"reshape of {np.shape(operand)} to {sizes}: the total size must be unchanged.")
    if out_sharding is not None:
        return reshape_p.bind(operand, new_sizes=sizes, dimensions=None, sharding=named_sharding(out_sharding, "reshape"))
    if not isinstance(operand, (np.ndarray, np.generic)) and hasattr(operand, "dtype"):
        return reshape_to(operand, sizes)
    return reshape_p.bind(operand, new_sizes=sizes, dimensions=None, sharding=None)  # the result is an array, whatever came


@written_once
def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """An array with its dimensions in another order.

    - `operand`: an array.
    - `permutation`: for each dimension of the result which one of `operand` it is.

    >>> lax.transpose(xnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return _transpose_kernel(operand, static_shape("transpose", permutation))


@lax_function(static="permutation", name="transpose")
def _transpose_kernel(operand, permutation):
    if permutation == tuple(range(np.ndim(operand))):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """An array without some dimensions of size 1.

    - `array`: an array.
    - `dimensions`: which ones; negative ones count from the end.

    >>> lax.squeeze(xnp.ones((1, 3, 1)), (0,)).shape
    (3, 1)
    """
    return _squeeze_kernel(array, canonical_axes(tuple(dimensions), np.ndim(array), "squeeze"))


@lax_function(static="dimensions", name="squeeze")
def _squeeze_kernel(array, dimensions):
    return squeeze_p.bind(array, dimensions=dimensions) if dimensions else array


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """An array with further dimensions of size 1.

    - `array`: an array.
    - `dimensions`: where they are in the result; negative ones count from its end.

    >>> lax.expand_dims(xnp.ones((3, 4)), (0, -1)).shape
    (1, 3, 4, 1)
    """
    rank = np.ndim(array) + len(tuple(dimensions))
    return _expand_kernel(array, canonical_axes(tuple(dimensions), rank, "expand_dims"))


@lax_function(static="dimensions", name="expand_dims")
def _expand_kernel(array, dimensions):
    rank = np.ndim(array) + len(dimensions)
    kept = tuple(i for i in range(rank) if i not in dimensions)
    sizes = iter(np.shape(array))
    shape = tuple(1 if i in dimensions else next(sizes) for i in range(rank))
    return broadcast_in_dim_p.bind(array, shape=shape, broadcast_dimensions=kept, sharding=None)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """An array with its elements in reverse order along some dimensions.

    - `operand`: an array.
    - `dimensions`: which ones.

    >>> lax.rev(xnp.array([[1, 2], [3, 4]]), (1,))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=plain_axes(dimensions, np.ndim(operand), "rev", TypeError))


@lax_function(static="new_dtype", name="bitcast_convert_type")
def _bitcast_kernel(operand, new_dtype):
    aval = tracing.aval_of(operand)
    if aval.dtype == new_dtype and not aval.weak_type and isinstance(new_dtype, np.dtype):
        return operand
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


@written_once
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The bits of an array read as another dtype.

    - `operand`: an array or a number.
    - `new_dtype`: a dtype. To a narrower one a last dimension is added, for a wider one it is taken away.

    >>> lax.bitcast_convert_type(xnp.float32(1.0), "int32") == 0x3F800000
    Array(True, dtype=bool)
    """
    return _bitcast_kernel(operand, dtypes.check_user_dtype(specified(new_dtype, "bitcast_convert_type"),
                                                            "bitcast_convert_type"))
