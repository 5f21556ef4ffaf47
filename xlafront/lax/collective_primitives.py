"""The records of the collectives: types, lowering, derivatives, and batching over axes that they do not work over.

What they do over an axis that `vmap` names is in `collective_batching`; what users call is in `collectives`. The exchange of
parts of different sizes is in `ragged_exchange`, sending without waiting in `sending`.
"""

from __future__ import annotations

import math

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.shapes import typed


def collective(name: str, abstract, lower, transpose, batch=None, vma=None, shown_as: str | None = None) -> Primitive:
    """A record for a collective that is linear in its first operand.

    `vma(varying, **params)` says over which axes the result differs, when the operand does over `varying`. Without `batch`
    it treats each element alike.
    """
    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, primitive.bind(tangents[0], *primals[1:], **params)

    def transpose_rule(ct, x, *rest, **params):
        if type(ct) is Zero or not is_undefined(x):
            return [Zero(x.aval) if is_undefined(x) else None] + [None] * len(rest)
        return [transpose(ct, x.aval, *rest, **params)] + [None] * len(rest)

    def typed_abstract(*xs, **params):
        aval = abstract(*xs, **params)
        joint = frozenset().union(*(x.vma for x in xs))
        return aval.update(vma=joint if vma is None else vma(joint, **params), sharding=None)

    primitive = Primitive(name, abstract=typed_abstract, lower=lower, jvp=jvp, transpose=transpose_rule, shown_as=shown_as)
    primitive.batch = batch or _each_alike(primitive)
    primitive.own_vma = vma is not None
    return primitive


def _each_alike(primitive: Primitive):
    def batch(_, operands, dims, **params):
        return primitive.bind(*operands, **params), dims[0]

    return batch


def names_of(axes) -> tuple:
    """The names in an axis argument, which is one name or a tuple of them."""
    return axes if isinstance(axes, tuple) else (axes,)


# Lowering: which devices work together, from the mesh of the surrounding `shard_map`


def manual_mesh(ctx, names):
    """The mesh of the surrounding `shard_map` as numbers of partitions, and the positions of the named axes in it."""
    manual = ctx.module_context.manual_mesh
    known = () if manual is None else manual.axis_names
    for name in names:
        if name not in known:
            raise unbound_axis(name, ctx.primitive.shown_as, known)
    return manual.positions, [known.index(name) for name in names]


def unbound_axis(name, user: str, known) -> NameError:
    scope = ", ".join(map(repr, known)) or "none"
    return NameError(f"{user} works over the axis {name!r}, which is unbound here (axes in scope: {scope}). Call it inside of "
                     f"shard_map over a mesh with an axis of that name, or of vmap or pmap with axis_name={name!r}.")


def replica_groups(ctx, names, groups=None) -> np.ndarray:
    """A row for each group of partitions that exchange data; in each the order is that of the axis index."""
    positions, where = manual_mesh(ctx, names)
    rest = [i for i in range(positions.ndim) if i not in where]
    size = math.prod(positions.shape[i] for i in where)
    rows = positions.transpose(*rest, *where).reshape(-1, size)
    if groups is None:
        return rows
    # XLA takes groups of different sizes as rows filled up with -1.
    longest = max(map(len, groups))
    padded = [[*group, *[-1] * (longest - len(group))] for group in groups]
    return np.array([[row[i] if i >= 0 else -1 for i in group] for row in rows for group in padded])


def channel(ctx):
    ctx.module_context.channels += 1
    return lowering.mlir.attribute(f"#stablehlo.channel_handle<handle = {ctx.module_context.channels}, type = 1>")


def _reducer_region(ctx, operation: str):
    aval = ctx.aval_out
    scalar = ((), aval.dtype)
    return ([scalar, scalar], lambda inner, x, y: [inner.op(operation, [x, y], [scalar])])


def _lower_all_reduce(operation: str):
    def lower(ctx, x, *, axes, axis_index_groups=None):
        if not axes:
            return x
        mlir = lowering.mlir
        return ctx.with_regions(
            "stablehlo.all_reduce", [x], [_reducer_region(ctx, operation)], [ctx.aval_out],
            replica_groups=mlir.dense_i64(replica_groups(ctx, axes, axis_index_groups)), channel_handle=channel(ctx),
            use_global_device_ids=mlir.attribute("unit"))[0]

    return lower


# All-reductions


def _same_type(x, **_):
    return x


def _over(varying, *, axes, axis_index_groups=None):
    """With groups the result is that of one's own group: different along the axis."""
    return varying if axis_index_groups is not None else varying - set(axes)


psum_p = collective(
    "psum", lambda x, **_: x.strip_weak_type(), _lower_all_reduce("stablehlo.add"),
    lambda ct, aval, **params: psum_p.bind(ct, **params))
psum_invariant_p = collective(
    "psum_invariant", _same_type, _lower_all_reduce("stablehlo.add"),
    lambda ct, aval, *, axes: pvary_p.bind(ct, axes=axes), vma=_over, shown_as="psum")
pvary_p = collective(
    "pvary", _same_type, lambda ctx, x, *, axes: x,
    lambda ct, aval, *, axes: psum_invariant_p.bind(ct, axes=axes),
    vma=lambda varying, *, axes: varying | set(axes), shown_as="pcast")


def _extreme(name: str, operation: str) -> Primitive:
    def jvp(primals, tangents, *, axes, axis_index_groups=None):
        """The tangents of those that attain the extreme, on average."""
        from xlafront.lax.elementwise import convert_element_type, div, eq, mul

        [x], [t] = primals, tangents
        y = primitive.bind(x, axes=axes, axis_index_groups=axis_index_groups)
        if type(t) is Zero:
            return y, Zero(tracing.aval_of(y).to_tangent_aval())
        attained = convert_element_type(eq(x, y), tracing.aval_of(t).dtype)

        def total(x):
            if axis_index_groups is None and tracing.aval_of(x).vma:
                return psum_invariant_p.bind(x, axes=axes)
            return psum_p.bind(x, axes=axes, axis_index_groups=axis_index_groups)

        return y, div(total(mul(t, attained)), total(attained))

    def abstract(x, *, axes, axis_index_groups=None):
        if dtypes.is_complex(x.dtype):
            raise TypeError(f"{name} does not take arrays of dtype {x.dtype}, which have no order.")
        aval = x if x.vma.issuperset(axes) else x.strip_weak_type()
        return aval.update(vma=_over(x.vma, axes=axes, axis_index_groups=axis_index_groups))

    primitive = Primitive(name, abstract=abstract, lower=_lower_all_reduce(operation), jvp=jvp)
    primitive.batch, primitive.own_vma = _each_alike(primitive), True
    return primitive


pmax_p = _extreme("pmax", "stablehlo.maximum")
pmin_p = _extreme("pmin", "stablehlo.minimum")


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
    return ctx.op("stablehlo.all_gather", [x], all_gather_dim=mlir.i64(d), channel_handle=channel(ctx),
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


all_gather_p = collective("all_gather", _gather_shape, _gather_lower, _gather_transpose,
                          _gather_batch(lambda: all_gather_p))


def _own_part(ct, aval, *, axis_name, all_gather_dimension, axis_size, tiled, axis_index_groups=None):
    """What belongs to this device of a cotangent that is the same on all of them."""
    from xlafront.lax.collectives import axis_index
    from xlafront.lax.shapes import dynamic_index_in_dim, dynamic_slice_in_dim

    index, d = axis_index(axis_name), all_gather_dimension
    ct = pvary_p.bind(ct, axes=axis_name)
    if tiled:
        n = aval.shape[d]
        return dynamic_slice_in_dim(ct, index * n, n, d)
    return dynamic_index_in_dim(ct, index, d, keepdims=False)


all_gather_invariant_p = collective(
    "all_gather_invariant", _gather_shape, _gather_lower, _own_part, _gather_batch(lambda: all_gather_invariant_p),
    vma=lambda varying, *, axis_name, **_: varying - set(axis_name), shown_as="all_gather")


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


def axes_text(names) -> str:
    names = names_of(names)
    return f"the axis {names[0]!r}" if len(names) == 1 else f"the axes {names}"


def _scatter_lower(ctx, x, *, axis_name, scatter_dimension, axis_size, axis_index_groups, tiled):
    mlir = lowering.mlir
    [aval] = ctx.avals_in
    d = scatter_dimension
    shape = (*aval.shape[:d], aval.shape[d] // axis_size, *aval.shape[d + 1:])
    [y] = ctx.with_regions(
        "stablehlo.reduce_scatter", [x], [_reducer_region(ctx, "stablehlo.add")], [(shape, aval.dtype)],
        scatter_dimension=mlir.i64(d), channel_handle=channel(ctx), use_global_device_ids=mlir.attribute("unit"),
        replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)))
    return y if tiled else ctx.reshape(y, ctx.aval_out.shape, aval.dtype)


def _scatter_transpose(ct, aval, *, scatter_dimension, **params):
    return all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)


def _scatter_batch(_, operands, dims, *, scatter_dimension, tiled, **params):
    [x], [d] = operands, dims
    dimension = scatter_dimension + (scatter_dimension >= d)
    out = d if tiled or dimension > d else d - 1
    return psum_scatter_p.bind(x, scatter_dimension=dimension, tiled=tiled, **params), out


psum_scatter_p = collective("reduce_scatter", _scatter_shape, _scatter_lower, _scatter_transpose, _scatter_batch,
                            shown_as="psum_scatter")


# Exchanging


def pairs_of_devices(ctx, names, perm) -> np.ndarray:
    """What each pair of indices along the axes is between partitions."""
    rows = replica_groups(ctx, names)
    return np.array([[row[source], row[target]] for row in rows for source, target in perm], dtype=np.int64).reshape(-1, 2)


def _permute_lower(ctx, x, *, axis_name, perm):
    return ctx.op("stablehlo.collective_permute", [x], channel_handle=channel(ctx),
                  source_target_pairs=lowering.mlir.dense_i64(pairs_of_devices(ctx, axis_name, perm)))


ppermute_p = collective(
    "ppermute", _same_type, _permute_lower,
    lambda ct, aval, *, axis_name, perm: ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((t, s) for s, t in perm)))


def _exchange_shape(x, *, axis_name, split_axis, concat_axis, axis_size, axis_index_groups):
    shape = list(x.shape)
    if shape[split_axis] % axis_size:
        raise ValueError(f"all_to_all over {axes_text(axis_name)} splits dimension {split_axis} of the operand into "
                         f"{axis_size} equal parts, but the operand has shape {x.shape}. Pad the dimension to a multiple "
                         f"of {axis_size}, or split another one.")
    shape[split_axis] //= axis_size
    shape[concat_axis] *= axis_size
    return typed(x, shape)


def _exchange_lower(ctx, x, *, axis_name, split_axis, concat_axis, axis_size, axis_index_groups):
    mlir = lowering.mlir
    return ctx.op("stablehlo.all_to_all", [x], split_dimension=mlir.i64(split_axis), concat_dimension=mlir.i64(concat_axis),
                  split_count=mlir.i64(axis_size), channel_handle=channel(ctx),
                  replica_groups=mlir.dense_i64(replica_groups(ctx, axis_name, axis_index_groups)))


def _exchange_batch(_, operands, dims, *, split_axis, concat_axis, **params):
    [x], [d] = operands, dims
    return all_to_all_p.bind(x, split_axis=split_axis + (split_axis >= d), concat_axis=concat_axis + (concat_axis >= d),
                             **params), d


# Always as with tiled=True; `collectives.all_to_all` makes the other form of it.
all_to_all_p = collective(
    "all_to_all", _exchange_shape, _exchange_lower,
    lambda ct, aval, *, split_axis, concat_axis, **params: all_to_all_p.bind(
        ct, split_axis=concat_axis, concat_axis=split_axis, **params),
    _exchange_batch)


def _broadcast_lower(ctx, x, *, axis_name, source):
    mlir = lowering.mlir
    rows = replica_groups(ctx, axis_name)
    if ctx.platform != "cpu":
        ordered = np.concatenate([rows[:, source:source + 1], np.delete(rows, source, 1)], 1)
        return ctx.op("stablehlo.collective_broadcast", [x], replica_groups=mlir.dense_i64(ordered),
                      channel_handle=channel(ctx))
    [aval] = ctx.avals_in  # XLA's CPU backend has no broadcast: gather, and take the one
    gathered = ctx.op("stablehlo.all_gather", [ctx.reshape(x, (1, *aval.shape), aval.dtype)],
                      [((rows.shape[1], *aval.shape), aval.dtype)], all_gather_dim=mlir.i64(0), channel_handle=channel(ctx),
                      replica_groups=mlir.dense_i64(rows), use_global_device_ids=mlir.attribute("unit"))
    zeros = [0] * aval.ndim
    one = ctx.op("stablehlo.slice", [gathered], [((1, *aval.shape), aval.dtype)], start_indices=mlir.i64s([source, *zeros]),
                 limit_indices=mlir.i64s([source + 1, *aval.shape]), strides=mlir.i64s([1] * (aval.ndim + 1)))
    return ctx.reshape(one, aval.shape, aval.dtype)


def _broadcast_transpose(ct, aval, *, axis_name, source):
    """The source gets the sum of what all of them sent back."""
    from xlafront.lax.collectives import axis_index
    from xlafront.lax.elementwise import convert_element_type, eq, mul

    total = psum_p.bind(ct, axes=names_of(axis_name), axis_index_groups=None)
    here = convert_element_type(eq(axis_index(axis_name), np.int32(source)), tracing.aval_of(ct).dtype)
    return mul(total, here)


pbroadcast_p = collective("pbroadcast", _same_type, _broadcast_lower, _broadcast_transpose)


# One's own place


def _index_lower(ctx, *, axis_name):
    positions, [where] = manual_mesh(ctx, (axis_name,))
    manual = ctx.module_context.manual_mesh
    if positions.shape[where] == 1:
        return ctx.constant(0, dtype=np.int32)
    if not manual.automatic():
        return coordinate(ctx, positions, where)
    # The number of the partition has a meaning only where no axis is left to the compiler.
    from xlafront.lax.manual_computation import manual_computation

    mlir = lowering.mlir
    [index] = manual_computation(
        ctx, [], [], lambda body: [coordinate(body, positions, where)], [ctx.aval_out],
        mlir.attribute("#sdy.sharding_per_value<[]>"), mlir.attribute(f"#sdy.sharding_per_value<[<@{manual.symbol}, []>]>"),
        manual.automatic())
    return index


def coordinate(ctx, positions, where: int):
    """The place of this partition along one axis of the mesh."""
    mlir = lowering.mlir
    u32, i32 = np.dtype(np.uint32), np.dtype(np.int32)
    me = ctx.op("stablehlo.partition_id", [], [((), u32)])
    size, stride = positions.shape[where], math.prod(positions.shape[where + 1:])
    flat = positions.reshape(-1)
    if not np.array_equal(flat, np.arange(flat.size)):  # the mesh has another order than the program's devices
        order = np.zeros(flat.size, np.uint32)
        order[flat] = np.arange(flat.size)
        entry = ctx.op("stablehlo.dynamic_slice", [ctx.constant(order), me], [((1,), u32)], slice_sizes=mlir.i64s([1]))
        me = ctx.reshape(entry, (), u32)
    if stride > 1:
        me = ctx.op("stablehlo.divide", [me, ctx.constant(stride, dtype=u32)], [((), u32)])
    if stride * size != flat.size:
        me = ctx.op("stablehlo.remainder", [me, ctx.constant(size, dtype=u32)], [((), u32)])
    return ctx.convert(me, (), i32)


axis_index_p = Primitive(
    "axis_index", lower=_index_lower, memoise=False,
    abstract=lambda *, axis_name: ShapedArray((), np.dtype(np.int32), vma=tracing.checked_axes() & {axis_name}))
axis_index_p.jvp = lambda primals, tangents, *, axis_name: (
    axis_index_p.bind(axis_name=axis_name), Zero(ShapedArray((), dtypes.float0)))


tracing.StagingTrace.cast_varying = pvary_p
PRIMITIVES = {p.name: p for p in (
    psum_p, psum_invariant_p, pvary_p, pmax_p, pmin_p, all_gather_p, all_gather_invariant_p, psum_scatter_p, ppermute_p,
    all_to_all_p, pbroadcast_p, axis_index_p)}
