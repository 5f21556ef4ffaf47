"""Collectives that gather, scatter and exchange blocks of arrays along named axes.

In the rules over an axis that `vmap` names, `before` and `after` are the axes that vary slower and faster than that one.
Blocks of different sizes are in `ragged_exchange`; asynchronous sends are in `send_recv`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.base import config
from xlafront.core import tracing
from xlafront.core.basic_primitives import axis_index_p, broadcast_in_dim_p, move_dim, pvary_p, to_dtype
from xlafront.core.primitive import Primitive
from xlafront.lax import sharding_rules
from xlafront.lax.all_reductions import psum_p, reducer_region, same_aval
from xlafront.lax.dynamic_slicing import dynamic_index_in_dim, dynamic_slice_in_dim
from xlafront.lax.elementwise import add, eq, ge, max_, mul, where
from xlafront.lax.indexing import take_rows
from xlafront.lax.named_axes import (
    axes_around,
    axes_text,
    axis_index,
    bound_axis_size,
    channel,
    collective,
    manual_mesh,
    names_of,
    remaining_axes,
    replica_groups,
    source_target_pairs,
    with_axis_groups,
)
from xlafront.lax.shapes import broadcast_batch, counting, permute, reshape_to, typed
from xlafront.lax.slicing import index_in_dim

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.typing import Array, Dims
    from xlafront.lax.collectives import Groups
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir
    from xlafront.transforms.batching.vmap import BatchTrace

# Gathering and scattering


def _gather_aval(x: ShapedArray, *, axis_name: tuple, all_gather_dimension: int, axis_size: int, axis_index_groups: Groups,
                 tiled: bool) -> ShapedArray:
    d = all_gather_dimension
    if tiled:
        return typed(x, (*x.shape[:d], x.shape[d] * axis_size, *x.shape[d + 1:]))
    return typed(x, (*x.shape[:d], axis_size, *x.shape[d:]))


def _gather_lower(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, all_gather_dimension: int, axis_size: int,
                  axis_index_groups: Groups, tiled: bool) -> ir.Value:
    mlir = lowering.mlir
    [aval] = ctx.avals_in
    d = all_gather_dimension
    if not tiled:
        x = ctx.reshape(x, (*aval.shape[:d], 1, *aval.shape[d:]), aval.dtype)
    return ctx.op("stablehlo.all_gather", [x], all_gather_dim=mlir.i64(d), channel_handle=channel(),
                  replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)),
                  use_global_device_ids=mlir.attribute("unit"))


def _gather_transpose(ct: Array, aval: ShapedArray, *, all_gather_dimension: int, **params: Any) -> Array:
    return psum_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)


def _shift_dim(dim: int, batch_dim: int, inserts: bool) -> tuple[int, int]:
    """Return the dimension of the batch for one of the element, and the batch dimension after an insertion there."""
    if inserts:
        return (dim, batch_dim + 1) if dim <= batch_dim else (dim + 1, batch_dim)
    return (dim + 1 if dim >= batch_dim else dim), batch_dim


def _gather_batch(primitive_of: Callable[[], Primitive]) -> Callable:
    def batch(_: int, operands: Sequence[Any], dims: Dims, *, all_gather_dimension: int, tiled: bool, **params: Any
              ) -> tuple[Any, Any]:
        [x], [d] = operands, dims
        dimension, out_dim = _shift_dim(all_gather_dimension, d, not tiled)
        return primitive_of().bind(x, all_gather_dimension=dimension, tiled=tiled, **params), out_dim

    return batch


def _gather_mapped_axis(primitive_of: Callable[[], Primitive]) -> Callable:
    def over_axis(trace: Any, operands: Sequence[Any], dims: Dims, *, axis_name: tuple, all_gather_dimension: int,
                  axis_size: int, axis_index_groups: Groups, tiled: bool) -> tuple[Any, Any]:
        [x], [d] = operands, dims
        before, after, num_slow, num_fast = axes_around(axis_name, trace.axis_name)
        x = broadcast_batch(x, d, trace.size)
        dim = all_gather_dimension
        x = move_dim(x, 0, dim)  # before the dimension to concatenate along, or as the new one
        if before or after:
            x = primitive_of().bind(x, axis_name=before + after, all_gather_dimension=dim, axis_size=num_slow * num_fast,
                                    axis_index_groups=None, tiled=False)
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:dim], num_slow, num_fast, *shape[dim + 1:]))
            order = list(range(np.ndim(x)))
            order[dim + 1], order[dim + 2] = dim + 2, dim + 1
            x = permute(x, order)
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:dim], num_slow * trace.size * num_fast, *shape[dim + 3:]))
        if tiled:
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2:]))
        return x, None

    return over_axis


all_gather_p = collective(
    "all_gather", _gather_aval, _gather_lower, _gather_transpose, with_axis_groups(_gather_mapped_axis(lambda: all_gather_p)),
    _gather_batch(lambda: all_gather_p), sharding_rule=sharding_rules.all_gather)


def _slice_cotangent(ct: Array, aval: ShapedArray, *, axis_name: tuple, all_gather_dimension: int, axis_size: int, tiled: bool,
                     axis_index_groups: Groups = None) -> Array:
    """Return the slice of a cotangent, the same on all devices, that belongs to this device."""
    index, d = axis_index(axis_name), all_gather_dimension
    ct = pvary_p.bind(ct, axes=axis_name)
    if tiled:
        n = aval.shape[d]
        return dynamic_slice_in_dim(ct, mul(index, np.int32(n)), n, d)
    return dynamic_index_in_dim(ct, index, d, keepdims=False)


all_gather_invariant_p = collective(
    "all_gather_invariant", _gather_aval, _gather_lower, _slice_cotangent, _gather_mapped_axis(lambda: all_gather_invariant_p),
    _gather_batch(lambda: all_gather_invariant_p),
    vma=lambda varying, *, axis_name, **_: varying - set(axis_name), shown_as="all_gather",
    sharding_rule=sharding_rules.all_gather)


def _scatter_aval(x: ShapedArray, *, axis_name: tuple, scatter_dimension: int, axis_size: int, axis_index_groups: Groups,
                  tiled: bool) -> ShapedArray:
    d = scatter_dimension
    n = x.shape[d]
    if not tiled and n != axis_size:
        raise ValueError(f"psum_scatter over {axes_text(axis_name)} of size {axis_size} gives each one an index of dimension "
                         f"{d}, which must have that size; the operand has shape {x.shape}. With tiled=True each one gets an "
                         f"equal part of the dimension.")
    if tiled and n % axis_size:
        raise ValueError(f"psum_scatter over {axes_text(axis_name)} splits dimension {d} of the operand into {axis_size} "
                         f"equal parts, but the operand has shape {x.shape}. Pad the dimension to a multiple of {axis_size}.")
    part = (n // axis_size,) if tiled else ()
    return typed(x, (*x.shape[:d], *part, *x.shape[d + 1:]))


def _scatter_lower(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, scatter_dimension: int, axis_size: int,
                   axis_index_groups: Groups, tiled: bool) -> ir.Value:
    mlir = lowering.mlir
    [aval] = ctx.avals_in
    d = scatter_dimension
    shape = (*aval.shape[:d], aval.shape[d] // axis_size, *aval.shape[d + 1:])
    [y] = ctx.with_regions(
        "stablehlo.reduce_scatter", [x], [reducer_region(ctx, "stablehlo.add")], [(shape, aval.dtype)],
        scatter_dimension=mlir.i64(d), channel_handle=channel(), use_global_device_ids=mlir.attribute("unit"),
        replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)))
    return y if tiled else ctx.reshape(y, ctx.aval_out.shape, aval.dtype)


def _scatter_transpose(ct: Array, aval: ShapedArray, *, scatter_dimension: int, **params: Any) -> Array:
    return all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)


def _scatter_batch(_: int, operands: Sequence[Any], dims: Dims, *, scatter_dimension: int, tiled: bool, **params: Any
                   ) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    dimension = scatter_dimension + (scatter_dimension >= d)
    out_dim = d if tiled or dimension > d else d - 1
    return psum_scatter_p.bind(x, scatter_dimension=dimension, tiled=tiled, **params), out_dim


@with_axis_groups
def _scatter_mapped_axis(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, axis_name: tuple, scatter_dimension: int,
                         axis_size: int, axis_index_groups: Groups, tiled: bool) -> tuple[Any, Any]:
    before, after, num_slow, num_fast = axes_around(axis_name, trace.axis_name)
    total, _ = psum_p.mesh.over_axis(trace, operands, dims, axes=(trace.axis_name,), axis_index_groups=None)
    shape, dim = np.shape(total), scatter_dimension
    block = shape[dim] // axis_size
    if not (before or after):
        if tiled:
            total = reshape_to(total, (*shape[:dim], trace.size, block, *shape[dim + 1:]))
        return total, dim
    x = reshape_to(total, (*shape[:dim], num_slow, trace.size, num_fast, block, *shape[dim + 1:]))
    x = move_dim(x, dim + 1, 0)
    x = reshape_to(x, (trace.size, *shape[:dim], num_slow * num_fast * block, *shape[dim + 1:]))
    x = psum_scatter_p.bind(x, axis_name=before + after, scatter_dimension=dim + 1, axis_size=num_slow * num_fast,
                            axis_index_groups=None, tiled=tiled)
    return x, 0


psum_scatter_p = collective("reduce_scatter", _scatter_aval, _scatter_lower, _scatter_transpose, _scatter_mapped_axis,
                            _scatter_batch, shown_as="psum_scatter", sharding_rule=sharding_rules.reduce_scatter)


# Exchanging


def _permute_lower(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, perm: tuple[tuple[int, int], ...]) -> ir.Value:
    _check_mesh_order(ctx, axis_name)
    return ctx.op("stablehlo.collective_permute", [x], channel_handle=channel(),
                  source_target_pairs=lowering.mlir.dense_i64(source_target_pairs(ctx, axis_name, perm)))


def _check_mesh_order(ctx: RuleContext, names: tuple) -> None:
    """Raise an error if axes are not named in the order of the mesh, in which older versions of JAX counted the indices."""
    if not config.raise_on_ppermute_sort_diff.value:
        return
    _, dims = manual_mesh(ctx, names)
    if dims != sorted(dims):
        in_order = tuple([name for _, name in sorted(zip(dims, names), key=lambda pair: pair[0])])
        raise RuntimeError(
            f"ppermute over {axes_text(names)}: the mesh has these axes in the order {in_order}, and the order determines the "
            f"indices in perm. Name the axes in the order of the mesh, with the indices of axis_index({in_order}). To count "
            f"along {names} instead, turn the check off: config.update('raise_on_ppermute_sort_diff', False).")


def _permute_mapped_axis(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, axis_name: tuple,
                         perm: tuple[tuple[int, int], ...]) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    size = trace.size * math.prod([bound_axis_size(n) for n in remaining_axes(axis_name, trace.axis_name)])
    source = np.full(size, -1, np.int32)
    for s, t in perm:
        source[t] = s
    zero = np.zeros((), tracing.aval_of(x).dtype)
    if len(names_of(axis_name)) > 1:
        # The indices along the other axes are run-time values: gather all values, and select the one from the source.
        gathered, _ = all_gather_p.mesh.over_axis(trace, operands, dims, axis_name=axis_name, all_gather_dimension=0,
                                             axis_size=size, axis_index_groups=None, tiled=False)
        origin = take_rows(source, _joint_axis_index(trace, axis_name))
        received = take_rows(gathered, max_(origin, np.int32(0)))
        return where(_broadcast_rows(ge(origin, np.int32(0)), received), received, zero), 0
    if d is None and (source >= 0).all():
        return x, None
    received = take_rows(broadcast_batch(x, d, trace.size), np.maximum(source, 0))
    if (source >= 0).all():
        return received, 0
    return where(_broadcast_rows(source >= 0, received), received, zero), 0


def _broadcast_rows(values: Array, rows: Array) -> Array:
    """Broadcast one value per row to the shape of an array of these rows."""
    return broadcast_in_dim_p.bind(values, shape=np.shape(rows), broadcast_dimensions=(0,), sharding=None)


def _joint_axis_index(trace: BatchTrace, axis_name: tuple) -> Any:
    """Return the index of each element along several axes, one of which is mapped here."""
    index = None
    for name in names_of(axis_name):
        if name == trace.axis_name:
            size = trace.size
            index_along = counting(np.dtype(np.int32), (size,), 0)
        else:
            size, index_along = bound_axis_size(name), axis_index_p.bind(axis_name=name)
        index = index_along if index is None else add(mul(index, np.int32(size)), index_along)
    return index


ppermute_p = collective(
    "ppermute", same_aval, _permute_lower,
    lambda ct, aval, *, axis_name, perm: ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((t, s) for s, t in perm)),
    _permute_mapped_axis)


def _exchange_aval(x: ShapedArray, *, axis_name: tuple, split_axis: int, concat_axis: int, axis_size: int,
                   axis_index_groups: Groups) -> ShapedArray:
    shape = list(x.shape)
    if shape[split_axis] % axis_size:
        raise ValueError(f"all_to_all over {axes_text(axis_name)} splits dimension {split_axis} of the operand into "
                         f"{axis_size} equal parts, but the operand has shape {x.shape}. Pad the dimension to a multiple "
                         f"of {axis_size}, or split another one.")
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return typed(x, shape).update(weak_type=False)  # as in JAX; the other exchanges keep weak types


def _exchange_lower(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, split_axis: int, concat_axis: int, axis_size: int,
                    axis_index_groups: Groups) -> ir.Value:
    mlir = lowering.mlir
    return ctx.op("stablehlo.all_to_all", [x], split_dimension=mlir.i64(split_axis), concat_dimension=mlir.i64(concat_axis),
                  split_count=mlir.i64(axis_size), channel_handle=channel(),
                  replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)))


def _exchange_batch(_: int, operands: Sequence[Any], dims: Dims, *, split_axis: int, concat_axis: int, **params: Any
                    ) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    return all_to_all_p.bind(x, split_axis=split_axis + (split_axis >= d), concat_axis=concat_axis + (concat_axis >= d),
                             **params), d


@with_axis_groups
def _exchange_mapped_axis(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, axis_name: tuple, split_axis: int,
                          concat_axis: int, axis_size: int, axis_index_groups: Groups) -> tuple[Any, Any]:
    before, after, num_slow, num_fast = axes_around(axis_name, trace.axis_name)
    x = broadcast_batch(operands[0], dims[0], trace.size)
    n, shape = trace.size, np.shape(x)[1:]
    block = shape[split_axis] // axis_size
    # Dimensions: the sender, then those of the element with the split one as (slow, receiver, fast, part).
    x = reshape_to(x, (n, *shape[:split_axis], num_slow, n, num_fast, block, *shape[split_axis + 1:]))
    receiver = split_axis + 2
    others = [i for i in range(1, np.ndim(x)) if i != receiver]
    # The sender varies slower than the data it sends: insert it before the dimension to concatenate along.
    if concat_axis == split_axis:
        sender_dim = others.index(split_axis + 4)
    else:
        sender_dim = others.index(concat_axis + 1 if concat_axis < split_axis else concat_axis + 4)
    others.insert(sender_dim, 0)
    x = permute(x, [receiver, *others])
    merged = list(shape)
    merged[split_axis] = num_slow * num_fast * block
    merged[concat_axis] *= n
    x = reshape_to(x, (n, *merged))
    if not (before or after):
        return x, 0
    x = all_to_all_p.bind(x, axis_name=before + after, split_axis=split_axis + 1, concat_axis=concat_axis + 1,
                          axis_size=num_slow * num_fast, axis_index_groups=None)
    dim = concat_axis + 1
    shape = np.shape(x)
    inner = shape[dim] // (num_slow * num_fast * n)
    x = reshape_to(x, (*shape[:dim], num_slow, num_fast, n, inner, *shape[dim + 1:]))
    order = list(range(np.ndim(x)))
    order[dim + 1], order[dim + 2] = dim + 2, dim + 1
    return reshape_to(permute(x, order), shape), 0


# As with tiled=True. `collectives.all_to_all` builds the other form from it.
all_to_all_p = collective(
    "all_to_all", _exchange_aval, _exchange_lower,
    lambda ct, aval, *, split_axis, concat_axis, **params: all_to_all_p.bind(
        ct, split_axis=concat_axis, concat_axis=split_axis, **params),
    _exchange_mapped_axis, _exchange_batch)


def _broadcast_lower(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, source: int) -> ir.Value:
    mlir = lowering.mlir
    rows = replica_groups(ctx, axis_name)
    if ctx.platform != "cpu":
        ordered = np.concatenate([rows[:, source:source + 1], np.delete(rows, source, 1)], 1)
        return ctx.op("stablehlo.collective_broadcast", [x], replica_groups=mlir.dense_i64(ordered),
                      channel_handle=channel())
    [aval] = ctx.avals_in  # XLA's CPU backend has no collective broadcast: gather, and select the source
    gathered = ctx.op("stablehlo.all_gather", [ctx.reshape(x, (1, *aval.shape), aval.dtype)],
                      [((rows.shape[1], *aval.shape), aval.dtype)], all_gather_dim=mlir.i64(0), channel_handle=channel(),
                      replica_groups=mlir.dense_i64(rows), use_global_device_ids=mlir.attribute("unit"))
    selected = ctx.slice(gathered, [source, *[0] * aval.ndim], [source + 1, *aval.shape], result=((1, *aval.shape), aval.dtype))
    return ctx.reshape(selected, aval.shape, aval.dtype)


def _broadcast_transpose(ct: Array, aval: ShapedArray, *, axis_name: tuple, source: int) -> Array:
    """Return the sum of the cotangents on the source, and zero on other devices."""
    total = psum_p.bind(ct, axes=names_of(axis_name), axis_index_groups=None)
    is_source = to_dtype(eq(axis_index(axis_name), np.int32(source)), tracing.aval_of(ct).dtype)
    return mul(total, is_source)


def _broadcast_mapped_axis(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, axis_name: tuple, source: int
                           ) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    before, after, _, num_fast = axes_around(axis_name, trace.axis_name)
    mapped_index = source // num_fast % trace.size
    if d is not None:
        x = index_in_dim(x, mapped_index, d, keepdims=False)
    if before or after:
        x = pbroadcast_p.bind(x, axis_name=before + after,
                              source=source // (num_fast * trace.size) * num_fast + source % num_fast)
    return x, None


pbroadcast_p = collective("pbroadcast", same_aval, _broadcast_lower, _broadcast_transpose, _broadcast_mapped_axis)


PRIMITIVES = {p.name: p for p in (
    all_gather_p, all_gather_invariant_p, psum_scatter_p, ppermute_p, all_to_all_p, pbroadcast_p)}
