"""Bodies of `shard_map` in modules: `sdy.manual_computation`, and the mesh that collectives in them work over."""

from __future__ import annotations

import math

import numpy as np

from xlafront import lowering
from xlafront.core import keys, source
from xlafront.core.avals import ShapedArray
from xlafront.runtime.jaxlib_compat import lets_bodies_sum
from xlafront.runtime.sharding import Mesh, axes_of


class ManualMesh:
    """The mesh of the bodies that are being lowered, as the lowering of collectives needs it."""

    def __init__(self, mesh, symbol: str, positions: np.ndarray, manual: frozenset):
        self.axis_names, self.symbol, self.positions, self.manual = mesh.axis_names, symbol, positions, manual
        self.key = (self.axis_names, symbol, manual)

    def __eq__(self, other):
        return isinstance(other, ManualMesh) and self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def automatic(self) -> list:
        """The axes that are left to the compiler."""
        return [a for a in self.axis_names if a not in self.manual]


def lower_body(ctx, *operands, jaxpr, mesh, in_specs, out_specs, newly_manual_axes, check_vma):
    module = ctx.module_context
    shardings = module.sharding_context
    mesh = _concrete(mesh, shardings)
    positions = _positions(mesh, shardings)
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
    summed = {}
    if any([not spec.unreduced <= out.unreduced for spec in in_specs for out in out_specs]) and not lets_bodies_sum():
        for i, spec in enumerate(in_specs):
            if spec.unreduced:  # the sum is made outside, and is what the first device has to sum up
                summed[i] = [a for a in mesh.axis_names if a in spec.unreduced]
                in_specs[i] = spec.update(unreduced=frozenset())
                text = sharding_text(inner, in_specs[i], ctx.avals_in[i].ndim)
                operands[i] = ctx.op("sdy.sharding_constraint", [operands[i]], [ctx.avals_in[i]],
                                     sharding=mlir.attribute(f"#sdy.sharding{text}"))

    def build(body, *arguments):
        module.manual_mesh = inner
        arguments = list(arguments)
        for i, axes in summed.items():
            arguments[i] = _on_the_first(body, arguments[i], jaxpr.in_avals[i], positions, [
                mesh.axis_names.index(a) for a in axes])
        try:
            return body.inline(jaxpr, arguments)
        finally:
            module.manual_mesh = outer

    def texts(specs, types):
        return [sharding_text(inner, spec, keys.physical(aval).ndim) for spec, aval in zip(specs, types)]

    axes = [a for a in mesh.axis_names if a in newly_manual_axes]
    return manual_computation(ctx, operands, jaxpr.in_avals, build, ctx.avals_out, texts(in_specs, jaxpr.in_avals),
                              texts(out_specs, jaxpr.out_avals), axes, lowering.module.ordered_effects(jaxpr), inner.symbol)


def _on_the_first(body, x, aval, positions, axes):
    """The value on the first device along these axes, zero on the others."""
    mlir = lowering.mlir
    zeros = body.broadcast(body.constant(np.zeros((), aval.dtype)), aval.shape, aval.dtype, ())
    for where in axes:
        here = body.op("stablehlo.compare", [coordinate(body, positions, where), body.constant(0, dtype=np.int32)],
                       [((), np.dtype(bool))], comparison_direction=mlir.attribute("#stablehlo<comparison_direction EQ>"))
        x = body.op("stablehlo.select", [here, x, zeros], [(aval.shape, aval.dtype)])
    return x


def parts_as_sums(ctx, x, mesh, spec, axes: frozenset):
    """A value that is split as `spec` says, as an open sum over `axes`.

    A device's summand is its own part where these axes split a dimension, beside zeros; along the others the first device has
    everything. None where parts of a device would not lie side by side.
    """
    module = ctx.module_context
    shardings, outer, [aval] = module.sharding_context, module.manual_mesh, ctx.avals_in
    splits = [axes_of(p) for p in spec.padded(aval.ndim)]
    placed = [[a for a in names if a in axes] for names in splits]
    side_by_side = all([names[len(names) - len(own):] == tuple(own) for names, own in zip(splits, placed)])
    if outer is not None or not any(placed) or not side_by_side or spec.unreduced and not lets_bodies_sum():
        return None
    mesh = _concrete(mesh, shardings)
    positions = _positions(mesh, shardings)
    manual = ManualMesh(mesh, shardings.mesh_symbol(mesh), positions, frozenset(mesh.axis_names))
    kept = [tuple(names[:len(names) - len(own)]) for names, own in zip(splits, placed)]
    open_spec = spec.update(partitions=[names or None for names in kept], unreduced=spec.unreduced | axes)

    def local(splits):
        return tuple([n // math.prod([mesh.shape[a] for a in names]) for n, names in zip(aval.shape, splits)])

    part, whole, scalar = local(splits), ShapedArray(local(kept), aval.dtype), [((), np.dtype(np.int32))]

    def build(body, own):
        starts = []
        for size, names in zip(part, placed):
            start = body.constant(0, dtype=np.int32)
            for axis in names:
                where = mesh.axis_names.index(axis)
                start = body.op("stablehlo.multiply", [start, body.constant(mesh.shape[axis], dtype=np.int32)], scalar)
                start = body.op("stablehlo.add", [start, coordinate(body, positions, where)], scalar)
            starts.append(body.op("stablehlo.multiply", [start, body.constant(size, dtype=np.int32)], scalar))
        zeros = body.broadcast(body.constant(np.zeros((), aval.dtype)), whole.shape, aval.dtype, ())
        found = body.op("stablehlo.dynamic_update_slice", [zeros, own, *starts], [(whole.shape, aval.dtype)])
        rest = axes.difference(*placed)
        return [_on_the_first(body, found, whole, positions, [i for i, a in enumerate(mesh.axis_names) if a in rest])]

    [found] = manual_computation(ctx, [x], [ShapedArray(part, aval.dtype)], build, [(aval.shape, aval.dtype)],
                                 [sharding_text(manual, spec, aval.ndim)], [sharding_text(manual, open_spec, aval.ndim)],
                                 mesh.axis_names)
    return found


def _positions(mesh, shardings) -> np.ndarray:
    """The numbers of the partitions, as the mesh has its devices."""
    order = {d.id: i for i, d in enumerate(shardings.assignment.devices)}
    return np.array([order[d.id] for d in mesh.devices.flat]).reshape(mesh.devices.shape)


def coordinate(ctx, positions, where: int):
    """The place of this partition along one axis of the mesh."""
    u32, i32 = np.dtype(np.uint32), np.dtype(np.int32)
    me = ctx.op("stablehlo.partition_id", [], [((), u32)])
    size, stride = positions.shape[where], math.prod(positions.shape[where + 1:])
    flat = positions.reshape(-1)
    if not np.array_equal(flat, np.arange(flat.size)):  # the mesh has another order than the program's devices
        order = np.zeros(flat.size, np.uint32)
        order[flat] = np.arange(flat.size)
        entry = ctx.dynamic_slice(ctx.constant(order), [me], ((1,), u32))
        me = ctx.reshape(entry, (), u32)
    if stride > 1:
        me = ctx.op("stablehlo.divide", [me, ctx.constant(stride, dtype=u32)], [((), u32)])
    if stride * size != flat.size:
        me = ctx.op("stablehlo.remainder", [me, ctx.constant(size, dtype=u32)], [((), u32)])
    return ctx.convert(me, (), i32)


def _concrete(mesh, shardings):
    """The devices behind a mesh that only has a shape: those of the program's arguments."""
    if isinstance(mesh, Mesh):
        return mesh
    found = shardings.assignment.mesh
    if found is None or tuple(found.shape.items()) != tuple(mesh.shape.items()):
        raise ValueError(f"a shard_map over {mesh} has no devices to run on: call it on arrays that are spread over a mesh of "
                         f"this shape, or set one with `with set_mesh(mesh):`.")
    return found


def sharding_text(manual: ManualMesh, spec, rank: int) -> str:
    """A sharding over the manual axes; where others remain, the compiler may split dimensions further."""
    free = ["?"] if manual.automatic() else []
    dims = []
    for p in [*spec, *[None] * (rank - len(spec))]:
        dims.append("{" + ", ".join([f'"{axis}"' for axis in axes_of(p)] + free) + "}")
    sums = ", ".join([f'"{axis}"' for axis in manual.axis_names if axis in spec.unreduced])
    return f"<@{manual.symbol}, [{', '.join(dims)}]{f', unreduced={{{sums}}}' if sums else ''}>"


def manual_computation(ctx, operands, in_avals, build, types, in_shardings, out_shardings, axes, effects=(), mesh="") -> list:
    """`sdy.manual_computation`; `build(ctx, *parts)` writes the body, which has these ordered effects on each device of
    the mesh with this symbol."""
    mlir, count = lowering.mlir, len(effects)
    names = ", ".join([f'"{a}"' for a in axes])
    everywhere = [f"<@{mesh}, []>"] * count  # tokens have no dimensions

    def per_value(texts):
        return mlir.attribute(f"#sdy.sharding_per_value<[{', '.join([*everywhere, *texts])}]>")

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


def automatic_axes(ctx) -> list:
    """The axes of the surrounding `shard_map`s' mesh that are left to the compiler."""
    manual = ctx.module_context.manual_mesh
    return [] if manual is None or not manual.symbol else manual.automatic()


def on_each_device(ctx, operands, write) -> None:
    """`write(body, here, *operands)` in a body without results that is manual over all axes: `here` is the number of the device
    along those that the compiler has outside of it, and operands are whole."""
    manual = ctx.module_context.manual_mesh
    axes = manual.automatic()
    whole = [f"<@{manual.symbol}, [{', '.join(['{}'] * keys.physical(aval).ndim)}]>" for aval in ctx.avals_in]

    def build(body, *parts):
        here = body.constant(0, dtype=np.int32)
        for axis in axes:
            where = manual.axis_names.index(axis)
            size = body.constant(manual.positions.shape[where], dtype=np.int32)
            scalar = [((), np.dtype(np.int32))]
            here = body.op("stablehlo.multiply", [here, size], scalar)
            here = body.op("stablehlo.add", [here, coordinate(body, manual.positions, where)], scalar)
        write(body, here, *parts)
        return ()

    manual_computation(ctx, operands, ctx.avals_in, build, [], whole, [], axes)
