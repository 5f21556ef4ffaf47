"""Collectives that gather, scatter and exchange parts of arrays along named axes.

In their rules over an axis that `vmap` names, `before` and `after` are the axes that count slower and faster than that one.
Parts of different sizes are in `ragged_exchange`, sending without waiting is in `send_recv`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlafront import lowering
from xlafront.core import tracing
from xlafront.core.primitive import Primitive
from xlafront.lax import sharding_rules
from xlafront.lax.all_reductions import psum_p, pvary_p, reducer_region, same_type
from xlafront.lax.dynamic_slicing import dynamic_index_in_dim, dynamic_slice_in_dim
from xlafront.lax.elementwise import add, eq, ge, max_, mul, to_dtype, where
from xlafront.lax.indexing import take_rows
from xlafront.lax.named_axes import (
    axes_text,
    axis_index,
    axis_index_p,
    channel,
    collective,
    grouped,
    known_size,
    names_of,
    others,
    pairs_of_devices,
    places,
    replica_groups,
)
from xlafront.lax.shapes import broadcast_batch, broadcast_in_dim_p, counting, move_dim, permute, reshape_to, typed
from xlafront.lax.slicing import index_in_dim

# Gathering and scattering


def _gather_shape(x, *, axis_name, all_gather_dimension, axis_size, axis_index_groups, tiled):
    d = all_gather_dimension
    if tiled:
        return typed(x, (*x.shape[:d], x.shape[d] * axis_size, *x.shape[d + 1:]))
    return typed(x, (*x.shape[:d], axis_size, *x.shape[d:]))


def _gather_lower(ctx, x, *, axis_name, all_gather_dimension, axis_size, axis_index_groups, tiled):
    mlir = lowering.mlir
    [aval] = ctx.avals_in
    d = all_gather_dimension
    if not tiled:
        x = ctx.reshape(x, (*aval.shape[:d], 1, *aval.shape[d:]), aval.dtype)
    return ctx.op("stablehlo.all_gather", [x], all_gather_dim=mlir.i64(d), channel_handle=channel(),
                  replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)),
                  use_global_device_ids=mlir.attribute("unit"))


def _gather_transpose(ct, aval, *, all_gather_dimension, **params):
    return psum_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)


def _shifted(dim: int, batch_dim: int, inserts: bool) -> tuple[int, int]:
    """A dimension of the element as one of the batch, and where the batch dimension is after inserting one there."""
    if inserts:
        return (dim, batch_dim + 1) if dim <= batch_dim else (dim + 1, batch_dim)
    return (dim + 1 if dim >= batch_dim else dim), batch_dim


def _gather_batch(primitive_of):
    def batch(_, operands, dims, *, all_gather_dimension, tiled, **params):
        [x], [d] = operands, dims
        dimension, out = _shifted(all_gather_dimension, d, not tiled)
        return primitive_of().bind(x, all_gather_dimension=dimension, tiled=tiled, **params), out

    return batch


def _gather_over_mapped(primitive_of: Callable[[], Primitive]) -> Callable:
    def over_axis(trace, operands, dims, *, axis_name, all_gather_dimension, axis_size, axis_index_groups, tiled):
        [x], [d] = operands, dims
        before, after, slow, fast = places(axis_name, trace.axis_name)
        x = broadcast_batch(x, d, trace.size)
        at = all_gather_dimension
        x = move_dim(x, 0, at)  # before the dimension that is joined to, or as the new one
        if before or after:
            x = primitive_of().bind(x, axis_name=before + after, all_gather_dimension=at, axis_size=slow * fast,
                                    axis_index_groups=None, tiled=False)
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:at], slow, fast, *shape[at + 1:]))
            order = list(range(np.ndim(x)))
            order[at + 1], order[at + 2] = at + 2, at + 1
            x = permute(x, order)
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:at], slow * trace.size * fast, *shape[at + 3:]))
        if tiled:
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2:]))
        return x, None

    return over_axis


all_gather_p = collective(
    "all_gather", _gather_shape, _gather_lower, _gather_transpose, grouped(_gather_over_mapped(lambda: all_gather_p)),
    _gather_batch(lambda: all_gather_p), sharding_rule=sharding_rules.all_gather)


def _own_part(ct, aval, *, axis_name, all_gather_dimension, axis_size, tiled, axis_index_groups=None):
    """What belongs to this device of a cotangent that is the same on all of them."""
    index, d = axis_index(axis_name), all_gather_dimension
    ct = pvary_p.bind(ct, axes=axis_name)
    if tiled:
        n = aval.shape[d]
        return dynamic_slice_in_dim(ct, mul(index, np.int32(n)), n, d)
    return dynamic_index_in_dim(ct, index, d, keepdims=False)


all_gather_invariant_p = collective(
    "all_gather_invariant", _gather_shape, _gather_lower, _own_part, _gather_over_mapped(lambda: all_gather_invariant_p),
    _gather_batch(lambda: all_gather_invariant_p),
    vma=lambda varying, *, axis_name, **_: varying - set(axis_name), shown_as="all_gather",
    sharding_rule=sharding_rules.all_gather)


def _scatter_shape(x, *, axis_name, scatter_dimension, axis_size, axis_index_groups, tiled):
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


def _scatter_lower(ctx, x, *, axis_name, scatter_dimension, axis_size, axis_index_groups, tiled):
    mlir = lowering.mlir
    [aval] = ctx.avals_in
    d = scatter_dimension
    shape = (*aval.shape[:d], aval.shape[d] // axis_size, *aval.shape[d + 1:])
    [y] = ctx.with_regions(
        "stablehlo.reduce_scatter", [x], [reducer_region(ctx, "stablehlo.add")], [(shape, aval.dtype)],
        scatter_dimension=mlir.i64(d), channel_handle=channel(), use_global_device_ids=mlir.attribute("unit"),
        replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)))
    return y if tiled else ctx.reshape(y, ctx.aval_out.shape, aval.dtype)


def _scatter_transpose(ct, aval, *, scatter_dimension, **params):
    return all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)


def _scatter_batch(_, operands, dims, *, scatter_dimension, tiled, **params):
    [x], [d] = operands, dims
    dimension = scatter_dimension + (scatter_dimension >= d)
    out = d if tiled or dimension > d else d - 1
    return psum_scatter_p.bind(x, scatter_dimension=dimension, tiled=tiled, **params), out


@grouped
def _scatter_over_mapped(trace, operands, dims, *, axis_name, scatter_dimension, axis_size, axis_index_groups, tiled):
    before, after, slow, fast = places(axis_name, trace.axis_name)
    total, _ = psum_p.over_axis(trace, operands, dims, axes=(trace.axis_name,), axis_index_groups=None)
    shape, at = np.shape(total), scatter_dimension
    part = shape[at] // axis_size
    if not (before or after):
        if tiled:
            total = reshape_to(total, (*shape[:at], trace.size, part, *shape[at + 1:]))
        return total, at
    x = reshape_to(total, (*shape[:at], slow, trace.size, fast, part, *shape[at + 1:]))
    x = move_dim(x, at + 1, 0)
    x = reshape_to(x, (trace.size, *shape[:at], slow * fast * part, *shape[at + 1:]))
    x = psum_scatter_p.bind(x, axis_name=before + after, scatter_dimension=at + 1, axis_size=slow * fast,
                            axis_index_groups=None, tiled=tiled)
    return x, 0


psum_scatter_p = collective("reduce_scatter", _scatter_shape, _scatter_lower, _scatter_transpose, _scatter_over_mapped,
                            _scatter_batch, shown_as="psum_scatter", sharding_rule=sharding_rules.reduce_scatter)


# Exchanging


def _permute_lower(ctx, x, *, axis_name, perm):
    return ctx.op("stablehlo.collective_permute", [x], channel_handle=channel(),
                  source_target_pairs=lowering.mlir.dense_i64(pairs_of_devices(ctx, axis_name, perm)))


def _permute_over_mapped(trace, operands, dims, *, axis_name, perm):
    [x], [d] = operands, dims
    size = trace.size * math.prod([known_size(n) for n in others(axis_name, trace.axis_name)])
    source = np.full(size, -1, np.int32)
    for s, t in perm:
        source[t] = s
    zero = np.zeros((), tracing.aval_of(x).dtype)
    if len(names_of(axis_name)) > 1:
        # The places along the other axes are not known here: get all values, and take the one from the right place.
        gathered, _ = all_gather_p.over_axis(trace, operands, dims, axis_name=axis_name, all_gather_dimension=0,
                                             axis_size=size, axis_index_groups=None, tiled=False)
        origin = take_rows(source, _places_of_elements(trace, axis_name))
        taken = take_rows(gathered, max_(origin, np.int32(0)))
        return where(_of_rows(ge(origin, np.int32(0)), taken), taken, zero), 0
    if d is None and (source >= 0).all():
        return x, None
    taken = take_rows(broadcast_batch(x, d, trace.size), np.maximum(source, 0))
    if (source >= 0).all():
        return taken, 0
    return where(_of_rows(source >= 0, taken), taken, zero), 0


def _of_rows(values, like):
    """One value a row, at the shape of an array of these rows."""
    return broadcast_in_dim_p.bind(values, shape=np.shape(like), broadcast_dimensions=(0,), sharding=None)


def _places_of_elements(trace, axis_name):
    """The place of each element along several axes, one of which is mapped here."""
    index = None
    for name in names_of(axis_name):
        if name == trace.axis_name:
            size = trace.size
            step = counting(np.dtype(np.int32), (size,), 0)
        else:
            size, step = known_size(name), axis_index_p.bind(axis_name=name)
        index = step if index is None else add(mul(index, np.int32(size)), step)
    return index


ppermute_p = collective(
    "ppermute", same_type, _permute_lower,
    lambda ct, aval, *, axis_name, perm: ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((t, s) for s, t in perm)),
    _permute_over_mapped)


def _exchange_shape(x, *, axis_name, split_axis, concat_axis, axis_size, axis_index_groups):
    shape = list(x.shape)
    if shape[split_axis] % axis_size:
        raise ValueError(f"all_to_all over {axes_text(axis_name)} splits dimension {split_axis} of the operand into "
                         f"{axis_size} equal parts, but the operand has shape {x.shape}. Pad the dimension to a multiple "
                         f"of {axis_size}, or split another one.")
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return typed(x, shape).update(weak_type=False)  # as the reference has it, unlike that of the other exchanges


def _exchange_lower(ctx, x, *, axis_name, split_axis, concat_axis, axis_size, axis_index_groups):
    mlir = lowering.mlir
    return ctx.op("stablehlo.all_to_all", [x], split_dimension=mlir.i64(split_axis), concat_dimension=mlir.i64(concat_axis),
                  split_count=mlir.i64(axis_size), channel_handle=channel(),
                  replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)))


def _exchange_batch(_, operands, dims, *, split_axis, concat_axis, **params):
    [x], [d] = operands, dims
    return all_to_all_p.bind(x, split_axis=split_axis + (split_axis >= d), concat_axis=concat_axis + (concat_axis >= d),
                             **params), d


@grouped
def _exchange_over_mapped(trace, operands, dims, *, axis_name, split_axis, concat_axis, axis_size, axis_index_groups):
    before, after, slow, fast = places(axis_name, trace.axis_name)
    x = broadcast_batch(operands[0], dims[0], trace.size)
    n, shape = trace.size, np.shape(x)[1:]
    part = shape[split_axis] // axis_size
    # Dimensions: the sender, then those of the element with the split one as (slow, receiver, fast, part).
    x = reshape_to(x, (n, *shape[:split_axis], slow, n, fast, part, *shape[split_axis + 1:]))
    receiver = split_axis + 2
    rest = [i for i in range(1, np.ndim(x)) if i != receiver]
    # The sender counts slower than what it sends: it goes before the dimension that it is joined to.
    if concat_axis == split_axis:
        where = rest.index(split_axis + 4)
    else:
        where = rest.index(concat_axis + 1 if concat_axis < split_axis else concat_axis + 4)
    rest.insert(where, 0)
    x = permute(x, [receiver, *rest])
    full = list(shape)
    full[split_axis] = slow * fast * part
    full[concat_axis] *= n
    x = reshape_to(x, (n, *full))
    if not (before or after):
        return x, 0
    x = all_to_all_p.bind(x, axis_name=before + after, split_axis=split_axis + 1, concat_axis=concat_axis + 1,
                          axis_size=slow * fast, axis_index_groups=None)
    at = concat_axis + 1
    shape = np.shape(x)
    inner = shape[at] // (slow * fast * n)
    x = reshape_to(x, (*shape[:at], slow, fast, n, inner, *shape[at + 1:]))
    order = list(range(np.ndim(x)))
    order[at + 1], order[at + 2] = at + 2, at + 1
    return reshape_to(permute(x, order), shape), 0


# Always as with tiled=True; `collectives.all_to_all` makes the other form of it.
all_to_all_p = collective(
    "all_to_all", _exchange_shape, _exchange_lower,
    lambda ct, aval, *, split_axis, concat_axis, **params: all_to_all_p.bind(
        ct, split_axis=concat_axis, concat_axis=split_axis, **params),
    _exchange_over_mapped, _exchange_batch)


def _broadcast_lower(ctx, x, *, axis_name, source):
    mlir = lowering.mlir
    rows = replica_groups(ctx, axis_name)
    if ctx.platform != "cpu":
        ordered = np.concatenate([rows[:, source:source + 1], np.delete(rows, source, 1)], 1)
        return ctx.op("stablehlo.collective_broadcast", [x], replica_groups=mlir.dense_i64(ordered),
                      channel_handle=channel())
    [aval] = ctx.avals_in  # XLA's CPU backend has no broadcast: gather, and take the one
    gathered = ctx.op("stablehlo.all_gather", [ctx.reshape(x, (1, *aval.shape), aval.dtype)],
                      [((rows.shape[1], *aval.shape), aval.dtype)], all_gather_dim=mlir.i64(0), channel_handle=channel(),
                      replica_groups=mlir.dense_i64(rows), use_global_device_ids=mlir.attribute("unit"))
    one = ctx.slice(gathered, [source, *[0] * aval.ndim], [source + 1, *aval.shape], result=((1, *aval.shape), aval.dtype))
    return ctx.reshape(one, aval.shape, aval.dtype)


def _broadcast_transpose(ct, aval, *, axis_name, source):
    """The source gets the sum of what all of them sent back."""
    total = psum_p.bind(ct, axes=names_of(axis_name), axis_index_groups=None)
    here = to_dtype(eq(axis_index(axis_name), np.int32(source)), tracing.aval_of(ct).dtype)
    return mul(total, here)


def _broadcast_over_mapped(trace, operands, dims, *, axis_name, source):
    [x], [d] = operands, dims
    before, after, slow, fast = places(axis_name, trace.axis_name)
    own = source // fast % trace.size
    if d is not None:
        x = index_in_dim(x, own, d, keepdims=False)
    if before or after:
        x = pbroadcast_p.bind(x, axis_name=before + after, source=source // (fast * trace.size) * fast + source % fast)
    return x, None


pbroadcast_p = collective("pbroadcast", same_type, _broadcast_lower, _broadcast_transpose, _broadcast_over_mapped)


PRIMITIVES = {p.name: p for p in (
    all_gather_p, all_gather_invariant_p, psum_scatter_p, ppermute_p, all_to_all_p, pbroadcast_p)}
