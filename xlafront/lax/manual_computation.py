"""Lowering of `shard_map` bodies to `sdy.manual_computation`, and the mesh that collectives in them use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import allows_sums_in_bodies
from xlafront.base.specs import UnreducedKind
from xlafront.core import source
from xlafront.core.avals import ShapedArray
from xlafront.runtime import keys
from xlafront.runtime.sharding import Mesh, axes_of

if TYPE_CHECKING:
    from xlafront.base.meshes import AbstractMesh
    from xlafront.base.specs import PartitionSpec
    from xlafront.core.ir import Effect, Jaxpr
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


class ManualMesh:
    """The mesh of the bodies that are being lowered, with the information that the lowering of collectives needs."""

    def __init__(self, mesh: Mesh, symbol: str, positions: np.ndarray, manual: frozenset) -> None:
        self.axis_names, self.symbol, self.positions, self.manual = mesh.axis_names, symbol, positions, manual
        self.key = (self.axis_names, symbol, manual)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManualMesh) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def automatic(self) -> list:
        """Return the axes that are left to the compiler."""
        return [a for a in self.axis_names if a not in self.manual]


def lower_body(ctx: RuleContext, *operands: ir.Value, jaxpr: Jaxpr, mesh: AbstractMesh | Mesh,
               in_specs: Sequence[PartitionSpec], out_specs: Sequence[PartitionSpec], newly_manual_axes: frozenset,
               check_vma: bool) -> list[ir.Value]:
    module = ctx.module_context
    shardings = module.sharding_context
    mesh = _mesh_with_devices(mesh, shardings)
    positions = _partition_ids(mesh, shardings)
    outer = module.manual_mesh
    manual = newly_manual_axes | (outer.manual if outer is not None else frozenset())
    if not shardings.partitioned:
        module.manual_mesh = ManualMesh(mesh, "", positions, manual)
        try:
            return ctx.inline(jaxpr, operands)
        finally:
            module.manual_mesh = outer
    inner = ManualMesh(mesh, shardings.mesh_symbol(mesh), positions, manual)
    mlir = lowering.mlir

    operands, in_specs = list(operands), list(in_specs)
    sums_outside = {}
    if any([not spec.unreduced <= out.unreduced for spec in in_specs for out in out_specs]) and not allows_sums_in_bodies():
        for i, spec in enumerate(in_specs):
            if spec.unreduced:  # reduce outside; the first device's summand is the sum, each device's value the extreme
                if spec.unreduced_kind is UnreducedKind.sum:
                    sums_outside[i] = [a for a in mesh.axis_names if a in spec.unreduced]
                in_specs[i] = spec.update(unreduced=frozenset())
                sharding = sharding_text(inner, in_specs[i], ctx.avals_in[i].ndim)
                operands[i] = ctx.op("sdy.sharding_constraint", [operands[i]], [ctx.avals_in[i]],
                                     sharding=mlir.attribute(f"#sdy.sharding{sharding}"))

    def build(body: RuleContext, *arguments: ir.Value) -> list[ir.Value]:
        module.manual_mesh = inner
        arguments = list(arguments)
        for i, axes in sums_outside.items():
            arguments[i] = _select_on_first_device(body, arguments[i], jaxpr.in_avals[i], positions, [
                mesh.axis_names.index(a) for a in axes])
        try:
            return body.inline(jaxpr, arguments)
        finally:
            module.manual_mesh = outer

    def texts(specs: Sequence[PartitionSpec], types: Sequence[ShapedArray]) -> list[str]:
        return [sharding_text(inner, spec, keys.physical(aval).ndim) for spec, aval in zip(specs, types)]

    axes = [a for a in mesh.axis_names if a in newly_manual_axes]
    return manual_computation(ctx, operands, jaxpr.in_avals, build, ctx.avals_out, texts(in_specs, jaxpr.in_avals),
                              texts(out_specs, jaxpr.out_avals), axes, lowering.module.ordered_effects(jaxpr), inner.symbol)


def _select_on_first_device(body: RuleContext, x: ir.Value, aval: ShapedArray, positions: np.ndarray, axes: Sequence[int]
                            ) -> ir.Value:
    """Return the value on the first device along these axes, and zero on the others."""
    mlir = lowering.mlir
    zeros = body.broadcast(body.constant(np.zeros((), aval.dtype)), aval.shape, aval.dtype, ())
    for dim in axes:
        is_first = body.op("stablehlo.compare", [coordinate(body, positions, dim), body.constant(0, dtype=np.int32)],
                       [((), np.dtype(bool))], comparison_direction=mlir.attribute("#stablehlo<comparison_direction EQ>"))
        x = body.op("stablehlo.select", [is_first, x, zeros], [(aval.shape, aval.dtype)])
    return x


def shards_as_sums(ctx: RuleContext, x: ir.Value, mesh: AbstractMesh | Mesh, spec: PartitionSpec, axes: frozenset
                   ) -> ir.Value | None:
    """Convert a value sharded by `spec` to an unreduced one over `axes`.

    Where these axes shard a dimension, the summand of a device is its shard, padded with zeros. Along the others, the first
    device has the entire value. Return None if the summands' shards would not be contiguous.
    """
    module = ctx.module_context
    shardings, outer, [aval] = module.sharding_context, module.manual_mesh, ctx.avals_in
    dim_axes = [axes_of(p) for p in spec.padded(aval.ndim)]
    sum_axes = [[a for a in names if a in axes] for names in dim_axes]
    contiguous = all([names[len(names) - len(sum_names):] == tuple(sum_names) for names, sum_names in zip(dim_axes, sum_axes)])
    if outer is not None or not any(sum_axes) or not contiguous or spec.unreduced and not allows_sums_in_bodies():
        return None
    mesh = _mesh_with_devices(mesh, shardings)
    positions = _partition_ids(mesh, shardings)
    manual = ManualMesh(mesh, shardings.mesh_symbol(mesh), positions, frozenset(mesh.axis_names))
    other_axes = [tuple(names[:len(names) - len(sum_names)]) for names, sum_names in zip(dim_axes, sum_axes)]
    unreduced_spec = spec.update(partitions=[names or None for names in other_axes], unreduced=spec.unreduced | axes)

    def local(names_of_dims: Sequence[tuple]) -> tuple[int, ...]:
        return tuple([n // math.prod([mesh.shape[a] for a in names]) for n, names in zip(aval.shape, names_of_dims)])

    shard_shape, sum_aval, index_type = local(dim_axes), ShapedArray(local(other_axes), aval.dtype), [((), np.dtype(np.int32))]

    def build(body: RuleContext, shard: ir.Value) -> list[ir.Value]:
        starts = []
        for size, names in zip(shard_shape, sum_axes):
            start = body.constant(0, dtype=np.int32)
            for axis in names:
                dim = mesh.axis_names.index(axis)
                start = body.op("stablehlo.multiply", [start, body.constant(mesh.shape[axis], dtype=np.int32)], index_type)
                start = body.op("stablehlo.add", [start, coordinate(body, positions, dim)], index_type)
            starts.append(body.op("stablehlo.multiply", [start, body.constant(size, dtype=np.int32)], index_type))
        zeros = body.broadcast(body.constant(np.zeros((), aval.dtype)), sum_aval.shape, aval.dtype, ())
        result = body.op("stablehlo.dynamic_update_slice", [zeros, shard, *starts], [(sum_aval.shape, aval.dtype)])
        replicated = axes.difference(*sum_axes)
        dims = [i for i, a in enumerate(mesh.axis_names) if a in replicated]
        return [_select_on_first_device(body, result, sum_aval, positions, dims)]

    [result] = manual_computation(ctx, [x], [ShapedArray(shard_shape, aval.dtype)], build, [(aval.shape, aval.dtype)],
                                 [sharding_text(manual, spec, aval.ndim)], [sharding_text(manual, unreduced_spec, aval.ndim)],
                                 mesh.axis_names)
    return result


def _partition_ids(mesh: Mesh, shardings: Any) -> np.ndarray:
    """Return the ids of the partitions, in the shape of the mesh."""
    order = {d.id: i for i, d in enumerate(shardings.assignment.devices)}
    return np.array([order[d.id] for d in mesh.devices.flat]).reshape(mesh.devices.shape)


def coordinate(ctx: RuleContext, positions: np.ndarray, dim: int) -> ir.Value:
    """Return the index of this partition along one axis of the mesh."""
    u32, i32 = np.dtype(np.uint32), np.dtype(np.int32)
    partition_id = ctx.op("stablehlo.partition_id", [], [((), u32)])
    size, stride = positions.shape[dim], math.prod(positions.shape[dim + 1:])
    flat = positions.reshape(-1)
    if not np.array_equal(flat, np.arange(flat.size)):  # the mesh has another order than the executable's devices
        order = np.zeros(flat.size, np.uint32)
        order[flat] = np.arange(flat.size)
        entry = ctx.dynamic_slice(ctx.constant(order), [partition_id], ((1,), u32))
        partition_id = ctx.reshape(entry, (), u32)
    if stride > 1:
        partition_id = ctx.op("stablehlo.divide", [partition_id, ctx.constant(stride, dtype=u32)], [((), u32)])
    if stride * size != flat.size:
        partition_id = ctx.op("stablehlo.remainder", [partition_id, ctx.constant(size, dtype=u32)], [((), u32)])
    return ctx.convert(partition_id, (), i32)


def _mesh_with_devices(mesh: AbstractMesh | Mesh, shardings: Any) -> Mesh:
    """Return the mesh with devices for an abstract mesh: that of the executable's arguments."""
    if isinstance(mesh, Mesh):
        return mesh
    assigned = shardings.assignment.mesh
    if assigned is None or tuple(assigned.shape.items()) != tuple(mesh.shape.items()):
        raise ValueError(f"a shard_map over {mesh} has no devices to run on. Call it on arrays that are sharded over a mesh of "
                         f"this shape, or set one with `with set_mesh(mesh):`.")
    return assigned


def sharding_text(manual: ManualMesh, spec: PartitionSpec, rank: int) -> str:
    """Return a sharding over the manual axes as text. With automatic axes, the compiler may shard dimensions further."""
    open_dims = ["?"] if manual.automatic() else []
    dims = []
    for p in [*spec, *[None] * (rank - len(spec))]:
        dims.append("{" + ", ".join([lowering.mlir.axis(a) for a in axes_of(p)] + open_dims) + "}")
    unreduced = lowering.mlir.unreduced_axes(spec, [a for a in manual.axis_names if a in spec.unreduced])
    return f"<@{manual.symbol}, [{', '.join(dims)}]{unreduced}>"


def manual_computation(ctx: RuleContext, operands: Sequence[ir.Value], in_avals: Sequence[ShapedArray], build: Callable,
                       types: Sequence[Any], in_shardings: Sequence[str], out_shardings: Sequence[str], axes: Sequence[str],
                       effects: Sequence[Effect] = (), mesh: str = "") -> list:
    """Emit `sdy.manual_computation`, whose body is emitted by `build(ctx, *shards)`.

    The body has these ordered effects on each device of the mesh with this symbol.
    """
    mlir, count = lowering.mlir, len(effects)
    names = ", ".join([mlir.axis(a) for a in axes])
    replicated = [f"<@{mesh}, []>"] * count  # tokens have no dimensions

    def per_value(texts: Sequence[str]) -> ir.Attribute:
        return mlir.attribute(f"#sdy.sharding_per_value<[{', '.join([*replicated, *texts])}]>")

    tokens = [mlir.token_type()] * count
    operation = ctx.op("sdy.manual_computation", [*ctx.tokens(effects), *operands], [*tokens, *types], regions=1,
                       in_shardings=per_value(in_shardings), out_shardings=per_value(out_shardings),
                       manual_axes=mlir.attribute(f"#sdy<manual_axes{{{names}}}>"))
    block_types = [*tokens, *[mlir.type_of(aval) for aval in in_avals]]
    block = operation.regions[0].blocks.append(*block_types, arg_locs=[ctx.loc] * len(block_types))
    with mlir.ir.InsertionPoint(block):
        inner = type(ctx.body)(ctx.module_context, dict(zip(effects, block.arguments)))
        body = type(ctx)(inner, ctx._invars, ctx._outvars, ctx.loc, ctx.primitive, source.unnamed(ctx.site))
        results = build(body, *list(block.arguments)[count:])
        mlir.create("sdy.return", operands=[*body.tokens(effects), *results], loc=ctx.loc)
    results = list(operation.results)
    ctx.set_tokens(effects, results[:count])
    return results[count:]


def automatic_axes(ctx: RuleContext) -> list:
    """Return the axes of the surrounding `shard_map`s' mesh that are left to the compiler."""
    manual = ctx.module_context.manual_mesh
    return [] if manual is None or not manual.symbol else manual.automatic()


def in_fully_manual_body(ctx: RuleContext, operands: Sequence[ir.Value], build_body: Callable) -> None:
    """Emit `build_body(body, device_index, *operands)` in a body without results that is manual over all axes.

    `device_index` is the index of the device along the axes that are automatic outside of it. The operands are replicated.
    """
    manual = ctx.module_context.manual_mesh
    axes = manual.automatic()
    replicated = [f"<@{manual.symbol}, [{', '.join(['{}'] * keys.physical(aval).ndim)}]>" for aval in ctx.avals_in]

    def build(body: RuleContext, *arguments: ir.Value) -> tuple[()]:
        device_index = body.constant(0, dtype=np.int32)
        for axis in axes:
            dim = manual.axis_names.index(axis)
            size = body.constant(manual.positions.shape[dim], dtype=np.int32)
            index_type = [((), np.dtype(np.int32))]
            device_index = body.op("stablehlo.multiply", [device_index, size], index_type)
            device_index = body.op("stablehlo.add", [device_index, coordinate(body, manual.positions, dim)], index_type)
        build_body(body, device_index, *arguments)
        return ()

    manual_computation(ctx, operands, ctx.avals_in, build, [], replicated, [], axes)
