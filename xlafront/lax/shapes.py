"""Primitives that change the shapes of arrays without arithmetic, and the sum, which is the transpose of broadcasting.

All of them are linear: a record needs a shape rule, a lowering, a transpose rule and a batching rule. `structural` adds the JVP
rule; `reducer` makes the records of all reductions. Axes of these primitives are static and non-negative. Slices are in
`slicing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering, tuning
from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.specs import axes_of
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.basic_primitives import broadcast_in_dim_p, move_dim, place_axis, transpose_p
from xlafront.core.primitive import Cost, KeyUse, MeshRules, OwnRule, Primitive, Traits
from xlafront.core.sharding_types import Sums, has_open_sums, of_first, of_first_any_kind
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding, specified
from xlafront.lax.monoids import combine
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim, may_equal

if TYPE_CHECKING:
    from xlafront.base.jaxlib_compat import NamedSharding
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

CHEAP = Traits(cost=Cost.CHEAP)


@OwnRule
def linear_jvp(primitive: Primitive) -> Callable:
    """Return the JVP rule of an operation that is linear in its first operand and not differentiated in the others."""
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        answer = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, primitive.bind(tangents[0], *primals[1:], **params)

    return jvp


def record(name: str | Primitive, kind: type[Primitive] = Primitive, **fields: Any) -> Primitive:
    """Make a primitive of this name, or define one that the core declares."""
    return kind(name, **fields) if isinstance(name, str) else name.define(**fields)


def structural(name: str | Primitive, abstract: Callable, lower: Callable, transpose: Callable, batch: Callable,
               shown_as: str | None = None, sharding_rule: Callable | None = None, sums: Sums | None = None,
               traits: Traits = CHEAP, **rules: Any) -> Primitive:
    """Make the record of an operation linear in its first operand (and in all of them, if it has several of one kind)."""

    def transpose_rule(ct: Tangent, x: Any, *rest: Any, **params: Any) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(x.aval)] + [None] * len(rest)
        return [transpose(ct, x.aval, *rest, **params)] + [None] * len(rest)

    return record(
        name, abstract=abstract, lower=lower, transpose=transpose_rule, batch=batch, shown_as=shown_as,
        mesh=MeshRules(sharding_rule, sums=sums), traits=traits, jvp=linear_jvp, **rules)


def typed(x: ShapedArray, shape: Sequence[int]) -> ShapedArray:
    return ShapedArray(tuple(shape), x.dtype, x.weak_type, vma=x.vma)


def physical_rank(ctx: RuleContext) -> int:
    """Return the number of trailing dimensions that elements of an extended dtype have in the module."""
    d = ctx.aval_out.dtype
    return 0 if isinstance(d, np.dtype) else len(d.physical_element_shape)


def physical_tail(ctx: RuleContext) -> tuple:
    d = ctx.aval_out.dtype
    return () if isinstance(d, np.dtype) else tuple(d.physical_element_shape)


# broadcast_in_dim


def check_sizes(name: str, shape: Sequence[int]) -> None:
    """Raise TypeError if a size in the shape of a new array is negative."""
    for n in shape:
        if isinstance(n, int) and n < 0:
            raise TypeError(f"{name} got the shape {tuple(shape)}: sizes must be non-negative integers.")


def _broadcast_abstract(x: ShapedArray, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                        sharding: NamedSharding | None) -> ShapedArray:
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


def _broadcast_lower(ctx: RuleContext, x: ir.Value, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                     sharding: NamedSharding | None) -> ir.Value:
    [aval], module = ctx.avals_in, ctx.module_context
    if module.constrain is not None and has_open_sums(aval):
        return module.sharding_context.broadcast_summands(x, aval, broadcast_dimensions, shape)
    return ctx.broadcast_in_dim(x, broadcast_dimensions)


def _broadcast_transpose(ct: Array, aval: ShapedArray, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                         sharding: NamedSharding | None) -> Array:
    new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    stretched = [d for i, d in enumerate(broadcast_dimensions) if aval.shape[i] == 1 and shape[d] != 1]
    axes = tuple(sorted(new + stretched))
    summed = reduce_sum_p.bind(ct, axes=axes, out_sharding=None) if axes else ct
    preserved = [d for d in broadcast_dimensions if d not in stretched]
    if preserved != sorted(preserved):
        summed = permute(summed, inverse(inverse(preserved)))
    return reshape_to(summed, aval.shape)


def _broadcast_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, shape: Sequence[int],
                     broadcast_dimensions: Sequence[int], sharding: NamedSharding | None) -> tuple[Any, Any]:
    [x] = operands
    x = move_dim(x, dims[0], 0)
    return broadcast_in_dim_p.bind(
        x, shape=(np.shape(x)[0], *shape), sharding=with_entry(sharding, 0, entry_of(tracing.aval_of(x), 0)),
        broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions))), 0


structural(
    broadcast_in_dim_p, _broadcast_abstract, _broadcast_lower, _broadcast_transpose, _broadcast_batch, "broadcast",
    sharding_rules.broadcast, of_first_any_kind, fold_literal=lambda number, params: None if params["shape"] else number,
    traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.FORWARDS))


# Reductions


def reducer(name: str, operation: str, identity: Callable, accepts: str, error: type[Exception] = TypeError,
            sums: Sums | None = None, summed_axes: Callable | None = None, **rules: Any) -> Primitive:
    """A record for a reduction, by a StableHLO operation whose identity element is `identity(dtype)`; `rules` are its
    derivative and its transpose, `error` is that for other dtypes than it accepts."""
    def abstract(x: ShapedArray, *, axes: tuple[int, ...], **_: Any) -> ShapedArray:
        check_dtype(name, accepts, x.dtype, error)
        result = typed(x, [n for i, n in enumerate(x.shape) if i not in axes])
        return result.update(weak_type=False) if "bytes" in accepts else result

    def lower(ctx: RuleContext, x: ir.Value, *, axes: tuple[int, ...], **_: Any) -> ir.Value:
        d = ctx.avals_in[0].dtype
        if not config.allow_f16_reductions.value and name == "reduce_sum" and d in (dtypes.float16, dtypes.bfloat16) and any(
                [ctx.avals_in[0].shape[i] != 1 for i in axes]):
            raise ValueError(f"reduce_sum of {ctx.avals_in[0]} over the dimensions {axes} would accumulate in 16 bits, which "
                             "the setting allow_f16_reductions=False (jax_allow_f16_reductions) forbids. Convert with "
                             "astype('float32').")
        actual = "stablehlo.or" if d == dtypes.bool_ and name == "reduce_sum" else operation
        if tuning.reduces_flags(ctx, actual):
            return tuning.lower_reduced_flags(ctx, x, ctx.avals_in[0].shape, actual, axes)
        init = ctx.constant(np.asarray(identity(d)).astype(d))
        scalar = ((), d)
        return ctx.with_region(
            "stablehlo.reduce", [x, init], [scalar, scalar], lambda inner, a, b: [combine(inner, actual, a, b, *scalar)],
            types=[ctx.aval_out], dimensions=lowering.mlir.i64s(axes))[0]

    def batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, axes: tuple[int, ...], **params: Any) -> tuple[Any, Any]:
        [x], [d] = operands, dims
        batched_axes = tuple(a + (a >= d) for a in axes)
        out = d - sum(a < d for a in batched_axes)
        if params:
            params = {"out_sharding": with_entry(params["out_sharding"], out, entry_of(tracing.aval_of(x), d))}
        return primitive.bind(x, axes=batched_axes, **params), out

    primitive = Primitive(
        name, abstract=abstract, lower=lower, batch=batch, shown_as=name.removeprefix("reduce_"),
        mesh=MeshRules(sharding_rules.reduced, sums=sums, summed_axes=summed_axes), **rules)
    return primitive


def broadcast_back(y: Array, shape: Sequence[int], axes: tuple[int, ...]) -> Array:
    """Broadcast the result of a reduction over `axes` to the shape of its operand."""
    remaining = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(y, shape=tuple(shape), broadcast_dimensions=remaining, sharding=None)


def reduced_mesh_axes(avals: Sequence[Any], params: dict[str, Any]) -> frozenset:
    """Return the mesh axes that shard the dimensions over which `params` reduces."""
    return frozenset([a for d in params["axes"] for a in axes_of(entry_of(avals[0], d))])


reduce_sum_p = reducer(
    "reduce_sum", "stablehlo.add", lambda d: 0, "int float complex bool", transpose=lambda ct, x, *, axes, out_sharding: [
        Zero(x.aval) if type(ct) is Zero else broadcast_back(ct, x.aval.shape, axes)], sums=of_first, jvp=linear_jvp,
    summed_axes=reduced_mesh_axes)


# reshape, squeeze, expand_dims


def _reshape_abstract(x: ShapedArray, *, new_sizes: Sequence[int], dimensions: None, sharding: NamedSharding | None
                      ) -> ShapedArray:
    if not may_equal(math.prod(new_sizes), math.prod(x.shape)) or any(n < 0 for n in new_sizes):
        raise errors.incompatible_shapes("reshape", [("operand", x.shape), ("new shape", new_sizes)],
                                         "The number of elements must stay the same.")
    return typed(x, new_sizes)


def _reshape_lower(ctx: RuleContext, x: ir.Value, **_: Any) -> ir.Value:
    return ctx.reshape(x)


def _reshape_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, new_sizes: Sequence[int], dimensions: None,
                   sharding: NamedSharding | None) -> tuple[Any, Any]:
    [x] = operands
    x = move_dim(x, dims[0], 0)
    return reshape_to(x, (np.shape(x)[0], *new_sizes), with_entry(sharding, 0, entry_of(tracing.aval_of(x), 0))), 0


reshape_p = structural(
    "reshape", _reshape_abstract, _reshape_lower,
    lambda ct, aval, **_: reshape_to(ct, aval.shape, aval.to_ct_aval().explicit_sharding), _reshape_batch,
    sharding_rule=sharding_rules.reshape, sums=of_first_any_kind, traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.FORWARDS))


def reshape_to(x: ArrayLike, shape: Sequence[int], sharding: NamedSharding | None = None) -> Any:
    """Reshape `x`, or return it if it has the shape already."""
    shape = tuple(shape)
    if sharding is not None:
        return reshape_p.bind(x, new_sizes=shape, dimensions=None, sharding=sharding)
    return x if np.shape(x) == shape else reshape_p.bind(x, new_sizes=shape, dimensions=None, sharding=None)


def _squeeze_abstract(x: ShapedArray, *, dimensions: Sequence[int]) -> ShapedArray:
    for d in dimensions:
        if x.shape[d] != 1:
            raise ValueError(f"squeeze can only drop dimensions of size 1; dimension {d} of shape {x.shape} has size "
                             f"{x.shape[d]}.")
    return typed(x, [n for i, n in enumerate(x.shape) if i not in dimensions])


def _squeeze_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimensions: Sequence[int]) -> tuple[Any, Any]:
    x = move_dim(operands[0], dims[0], 0)
    return squeeze_p.bind(x, dimensions=tuple(d + 1 for d in dimensions)), 0


squeeze_p = structural(
    "squeeze", _squeeze_abstract, _reshape_lower, lambda ct, aval, **_: reshape_to(ct, aval.shape), _squeeze_batch,
    sharding_rule=sharding_rules.squeeze, sums=of_first_any_kind, traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.FORWARDS))


# transpose and reversal


def _transpose_abstract(x: ShapedArray, *, permutation: Sequence[int]) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(f"transpose needs a permutation of the {x.ndim} dimensions of shape {x.shape}, got {permutation}.")
    return typed(x, [x.shape[d] for d in permutation])


def _transpose_lower(ctx: RuleContext, x: ir.Value, *, permutation: Sequence[int]) -> ir.Value:
    extra = tuple(range(len(permutation), len(permutation) + physical_rank(ctx)))
    return ctx.op("stablehlo.transpose", [x], permutation=lowering.mlir.i64s((*permutation, *extra)))


def _transpose_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, permutation: Sequence[int]) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    return transpose_p.bind(x, permutation=(d, *(i + (i >= d) for i in permutation))), 0


structural(
    transpose_p, _transpose_abstract, _transpose_lower,
    lambda ct, aval, *, permutation: transpose_p.bind(ct, permutation=inverse(permutation)),
    _transpose_batch, sharding_rule=sharding_rules.transpose, sums=of_first_any_kind)


def _rev_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, dimensions: Sequence[int]) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    return rev_p.bind(x, dimensions=tuple(i + (i >= d) for i in dimensions)), d


rev_p = structural("rev", lambda x, *, dimensions: typed(x, x.shape),
                   lambda ctx, x, *, dimensions: ctx.op("stablehlo.reverse", [x],
                                                        dimensions=lowering.mlir.i64s(dimensions)),
                   lambda ct, aval, *, dimensions: rev_p.bind(ct, dimensions=dimensions), _rev_batch, "flip",
                   sharding_rule=sharding_rules.same, sums=of_first_any_kind)


# tile


def _tile_abstract(x: ShapedArray, *, reps: tuple[int, ...]) -> ShapedArray:
    if len(reps) != x.ndim:
        raise TypeError(f"tile needs a number of repetitions for each of the {x.ndim} dimensions of its operand, got {reps}.")
    if any(n < 0 for n in reps):
        raise TypeError(f"tile needs non-negative numbers of repetitions, got {reps}.")
    return typed(x, [n * m for n, m in zip(reps, x.shape)])


def _tiled_sizes(reps: tuple[int, ...], shape: Sequence[int]) -> list[int]:
    """Return the number of tiles and the size of a tile, alternately for each dimension."""
    return [n for pair in zip(reps, shape) for n in pair]


def _tile_lower(ctx: RuleContext, x: ir.Value, *, reps: tuple[int, ...]) -> ir.Value:
    [aval] = ctx.avals_in
    tiled = typed(ctx.aval_out, _tiled_sizes(reps, aval.shape))
    result = ctx.broadcast_in_dim(x, range(1, 2 * aval.ndim, 2), tiled)
    if aval.explicit_sharding is not None:
        sharding = aval.explicit_sharding
        entries = [e for p in sharding.spec.padded(aval.ndim) for e in (None, p)]
        spec = sharding.spec.update(partitions=entries)
        result = ctx.constrain_to_type(result, tiled.update(sharding=sharding.update(spec=spec)))
    return ctx.reshape(result)


def _tile_transpose(ct: Array, aval: ShapedArray, *, reps: tuple[int, ...]) -> Array:
    tiles = reshape_to(ct, tuple(_tiled_sizes(reps, aval.shape)))
    return reduce_sum_p.bind(tiles, axes=tuple(range(0, 2 * aval.ndim, 2)), out_sharding=None)


def _tile_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, reps: tuple[int, ...]) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    return tile_p.bind(x, reps=(*reps[:d], 1, *reps[d:])), d


tile_p = structural("tile", _tile_abstract, _tile_lower, _tile_transpose, _tile_batch, sharding_rule=sharding_rules.tile,
                    sums=of_first)


# Batch dimensions


def broadcast_batch(x: Array, dim: int | None, size: int) -> Array:
    """Return `x` with its batch dimension in front, broadcast if it has none."""
    return place_axis(x, dim, 0, size)


def inverse(order: Sequence[Any]) -> tuple[int, ...]:
    """Return the inverse permutation; for arbitrary numbers, the order that sorts them."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def permute(x: Array, order: Sequence[int]) -> Array:
    """Transpose `x`, or return it if `order` is the identity permutation."""
    order = tuple(int(i) for i in order)
    return x if order == tuple(range(len(order))) else transpose_p.bind(x, permutation=order)


# iota and bit patterns


def _iota_abstract(*, dtype: np.dtype, shape: Sequence[int], dimension: int, sharding: NamedSharding | None) -> ShapedArray:
    check_sizes("iota", shape)
    if not (isinstance(dtype, np.dtype) and (dtypes.is_inexact(dtype) or dtypes.is_integer(dtype))):
        raise TypeError(f"iota needs a numeric dtype, got {dtype}.")
    return ShapedArray(shape, dtype)


iota_p = Primitive(
    "iota", abstract=_iota_abstract, lower=lambda ctx, *, dtype, shape, dimension, sharding: ctx.iota(dimension),
    traits=Traits(cost=Cost.CHEAP))


def counting(dtype: DTypeLike, shape: Sequence[int], dimension: int) -> Array:
    """Return the index of each element along a dimension."""
    return iota_p.bind(dtype=np.dtype(dtype), shape=shape, dimension=dimension, sharding=None)


def _bitcast_abstract(x: ShapedArray, *, new_dtype: Any) -> ShapedArray:
    for d in (x.dtype, new_dtype):
        if dtypes.is_extended(d):
            raise ValueError(f"bitcast_convert_type does not accept {d}: {d.no_numbers}")
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
        raise TypeError(f"bitcast_convert_type does not support {x.dtype} to {new_dtype}: booleans and complex numbers share "
                        f"no bit pattern with other types. Use real(x) and imag(x), or convert with x.astype(...).")
    return ShapedArray(shape, np.dtype(new_dtype))


def _bitcast_batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, new_dtype: np.dtype) -> tuple[Any, Any]:
    return bitcast_convert_type_p.bind(move_dim(operands[0], dims[0], 0), new_dtype=new_dtype), 0


def _bitcast_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, new_dtype: np.dtype) -> tuple[Any, Any]:
    answer = bitcast_convert_type_p.bind(*primals, new_dtype=new_dtype)
    return answer, Zero(tracing.aval_of(answer).to_tangent_aval())


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type", abstract=_bitcast_abstract, batch=_bitcast_batch, jvp=_bitcast_jvp,
    lower=lambda ctx, x, *, new_dtype: ctx.op("stablehlo.bitcast_convert", [x]), mesh=MeshRules(sharding_rules.bitcast))


# Public functions


def static_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return a shape argument as a tuple of Python ints and symbolic dimensions."""
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


def sequence_of_sizes(name: str, sizes: Any) -> tuple[int, ...]:
    """Return a shape argument like `static_shape`, but reject a single number."""
    if np.ndim(sizes) == 0:
        raise TypeError(f"{name} needs a sequence of sizes, got {sizes!r}. Write the shape of a vector as (n,).")
    return static_shape(name, sizes)


def plain_axis(axis: int, rank: int, name: str, error: type[Exception] = np.exceptions.AxisError) -> int:
    """Check an axis argument of lax, where axes are non-negative."""
    try:
        axis = axis.__index__()
    except AttributeError:
        raise TypeError(f"{name} needs an integer axis, got {axis!r}.") from None
    if not 0 <= axis < rank:
        raise error(f"{name} got axis {axis}, which is out of bounds for an array of {rank} dimension(s): axes must be "
                    f"between 0 and {rank - 1}, and not be negative.")
    return axis


def plain_axes(axes: Any, rank: int, name: str, error: type[Exception] = np.exceptions.AxisError) -> tuple[int, ...]:
    """Check a sequence of axes of lax, which are distinct and non-negative."""
    if not isinstance(axes, (tuple, list, range)):
        raise TypeError(f"{name} needs a sequence of integers as axes, got {axes!r}.")
    checked = tuple([plain_axis(a, rank, name, error) for a in axes])
    if len(set(checked)) != len(checked):
        raise error(f"{name} got a duplicate axis: {tuple(axes)} must be unique.")
    return checked


def canonical_axes(axes: Any, rank: int, name: str = "this operation", repeated: type[Exception] = ValueError
                   ) -> tuple[int, ...]:
    if type(axes) is int:  # Hot path
        return (canonical_axis(axes, rank, name),)
    if axes is None:
        return tuple(range(rank))
    listed = axes if isinstance(axes, (tuple, list, range)) or np.ndim(axes) else (axes,)
    checked = tuple([canonical_axis(a, rank, name) for a in listed])
    if len(set(checked)) != len(checked):
        raise repeated(f"{name} got an axis twice, a duplicate value: {axes}")
    return checked


def broadcast_shapes(name: str, *shapes: Sequence[int], error: type[Exception] = ValueError) -> tuple:
    """Return the shape that `shapes` broadcast to; `name` is the function named in the `error` for incompatible shapes."""
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
    """Broadcast an array to a larger shape, with an explicit map of dimensions.

    Args:
        operand: An array.
        shape: Shape of the result.
        broadcast_dimensions: For each dimension of `operand`, the corresponding dimension of the result.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array of the given shape.

    Example:
        >>> lax.broadcast_in_dim(xnp.array([1, 2]), (2, 3), (0,))
        Array([[1, 1, 1],
               [2, 2, 2]], dtype=int32)
    """
    shape = sequence_of_sizes("broadcast_in_dim", shape)
    dims = static_shape("broadcast_in_dim", broadcast_dimensions)
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims, sharding=named_sharding(
        out_sharding, "broadcast_in_dim"))


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: ShardingLike = None) -> Array:
    """Broadcast an array along new leading dimensions.

    Args:
        operand: An array.
        sizes: Sizes of the new dimensions.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array of shape `(*sizes, *operand.shape)`.

    Example:
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
    """Reshape an array, in row-major order.

    Args:
        operand: An array.
        new_sizes: Shape of the result, with the same number of elements.
        dimensions: The order in which the dimensions of `operand` are read. Default: from first to last.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        An array of shape `new_sizes`.

    Note:
        Unlike in NumPy, no size may be -1.

    Example:
        >>> lax.reshape(xnp.arange(6), (3, 2))
        Array([[0, 1],
               [2, 3],
               [4, 5]], dtype=int32)
    """
    sizes = static_shape("reshape", new_sizes)
    check_sizes("reshape", sizes)
    if dimensions is not None and tuple(dimensions) != tuple(range(np.ndim(operand))):
        operand = transpose_p.bind(operand, permutation=static_shape("reshape", dimensions))
    if not may_equal(math.prod(sizes), np.size(operand)):
        raise ValueError(f"reshape of {np.shape(operand)} to {sizes}: the total size must be unchanged.")
    if out_sharding is not None:
        return reshape_p.bind(operand, new_sizes=sizes, dimensions=None, sharding=named_sharding(out_sharding, "reshape"))
    if not isinstance(operand, (np.ndarray, np.generic)) and hasattr(operand, "dtype"):
        return reshape_to(operand, sizes)
    return reshape_p.bind(operand, new_sizes=sizes, dimensions=None, sharding=None)  # makes an Array of any operand


@library(static=None)
def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permute the dimensions of an array.

    Args:
        operand: An array.
        permutation: For each dimension of the result, the dimension of `operand`.

    Returns:
        The transposed array.

    Example:
        >>> lax.transpose(xnp.ones((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    return _transpose_kernel(operand, static_shape("transpose", permutation))


@library(static="permutation", name="transpose")
def _transpose_kernel(operand: Array, permutation: Sequence[int]) -> Array:
    if permutation == tuple(range(np.ndim(operand))):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Remove dimensions of size 1.

    Args:
        array: An array.
        dimensions: The dimensions to remove. Negative ones count from the end.

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.squeeze(xnp.ones((1, 3, 1)), (0,)).shape
        (3, 1)
    """
    return _squeeze_kernel(array, canonical_axes(tuple(dimensions), np.ndim(array), "squeeze"))


@library(static="dimensions", name="squeeze")
def _squeeze_kernel(array: Array, dimensions: tuple[int, ...]) -> Array:
    return squeeze_p.bind(array, dimensions=dimensions) if dimensions else array


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert dimensions of size 1.

    Args:
        array: An array.
        dimensions: Positions of the new dimensions in the result. Negative ones count from its end.

    Returns:
        An array with the new dimensions.

    Example:
        >>> lax.expand_dims(xnp.ones((3, 4)), (0, -1)).shape
        (1, 3, 4, 1)
    """
    rank = np.ndim(array) + len(tuple(dimensions))
    return _expand_kernel(array, canonical_axes(tuple(dimensions), rank, "expand_dims"))


@library(static="dimensions", name="expand_dims")
def _expand_kernel(array: Array, dimensions: Sequence[int]) -> Array:
    rank = np.ndim(array) + len(dimensions)
    operand_dims = tuple(i for i in range(rank) if i not in dimensions)
    sizes = iter(np.shape(array))
    shape = tuple(1 if i in dimensions else next(sizes) for i in range(rank))
    return broadcast_in_dim_p.bind(array, shape=shape, broadcast_dimensions=operand_dims, sharding=None)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along some dimensions.

    Args:
        operand: An array.
        dimensions: The dimensions to reverse.

    Returns:
        An array of the shape of `operand`.

    Example:
        >>> lax.rev(xnp.array([[1, 2], [3, 4]]), (1,))
        Array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return rev_p.bind(operand, dimensions=plain_axes(dimensions, np.ndim(operand), "rev", TypeError))


@library(static="new_dtype", name="bitcast_convert_type")
def _bitcast_kernel(operand: Array, new_dtype: np.dtype) -> Array:
    aval = tracing.aval_of(operand)
    if aval.dtype == new_dtype and not aval.weak_type and isinstance(new_dtype, np.dtype):
        return operand
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


@library(static=None)
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Reinterpret the bits of an array as another dtype.

    Args:
        operand: An array or a scalar.
        new_dtype: dtype of the result. A narrower dtype adds a last dimension, a wider one removes the last dimension.

    Returns:
        An array of `new_dtype`.

    Example:
        >>> lax.bitcast_convert_type(xnp.float32(1.0), "int32") == 0x3F800000
        Array(True, dtype=bool)
    """
    return _bitcast_kernel(operand, dtypes.check_user_dtype(specified(new_dtype, "bitcast_convert_type"),
                                                            "bitcast_convert_type"))
