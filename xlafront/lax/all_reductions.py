"""All-reductions over named axes, and the type casts that are their transposes.

Along a mesh axis of a `shard_map` that checks replication, a value varies, is the same on all devices ("invarying"), is a
pending sum of the values on the devices ("unreduced"), or is the same with cotangents that are such sums ("reduced"). Casts
between these compute nothing; their derivatives may sum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import PartitionSpec, UnreducedKind
from xlafront.core import tracing
from xlafront.core.avals import str_short
from xlafront.core.basic_primitives import psum_invariant_p, pvary_p, recast, recast_p, to_dtype
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Traits
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.elementwise import div, eq, mul
from xlafront.lax.indexing import take_rows
from xlafront.lax.named_axes import (
    batch_rule_keeping_dims,
    channel,
    check_grouped,
    collective,
    remaining_axes,
    replica_groups,
    with_axis_groups,
)
from xlafront.lax.reductions import reduced
from xlafront.lax.shapes import broadcast_batch, reshape_to
from xlafront.lax.slicing import concatenate_p

if TYPE_CHECKING:
    from xlafront.base.meshes import AbstractMesh
    from xlafront.core.avals import ShapedArray
    from xlafront.core.tracing import Trace
    from xlafront.core.typing import Array, Dims, Params, Tangent
    from xlafront.lax.collectives import Groups
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir
    from xlafront.transforms.batching.vmap import BatchTrace


def reducer_region(ctx: RuleContext, operation: str) -> tuple[list, Callable]:
    aval = ctx.aval_out
    element_type = ((), aval.dtype)
    return ([element_type, element_type], lambda inner, x, y: [inner.op(operation, [x, y], [element_type])])


def _lower_all_reduce(operation: str) -> Callable:
    def lower(ctx: RuleContext, x: ir.Value, *, axes: tuple, axis_index_groups: Groups = None) -> ir.Value:
        if not axes:
            return x
        mlir = lowering.mlir
        return ctx.with_regions(
            "stablehlo.all_reduce", [x], [reducer_region(ctx, operation)], [ctx.aval_out],
            replica_groups=mlir.dense_i64(replica_groups(ctx, axes, axis_index_groups)), channel_handle=channel(),
            use_global_device_ids=mlir.attribute("unit"))[0]

    return lower


def same_aval(x: ShapedArray, **_: Any) -> ShapedArray:
    return x


def _result_vma(varying: frozenset, *, axes: tuple, axis_index_groups: Groups = None) -> frozenset:
    """Return the axes over which the result varies. With groups, it varies along the reduced axis, from group to group."""
    return varying if axis_index_groups is not None else varying - set(axes)


def _reduce_mapped_axis(primitive_of: Callable[[], Primitive], reduction: str, multiplies: bool) -> Callable:
    """Return the rule over an axis that `vmap` names. If all elements are the same, a sum `multiplies` the element."""
    def reduce_all(trace: Any, operands: Sequence[Any], dims: Dims, *, axes: tuple, axis_index_groups: Groups = None
                   ) -> tuple[Any, Any]:
        [x], [d] = operands, dims
        if d is None:
            if multiplies:
                aval = tracing.aval_of(x)
                count = np.asarray(trace.size).astype(aval.dtype)[()]
                x = mul(x, count.item() if aval.weak_type else count)
        else:
            x = reduced(reduction, x, (d,))
        remaining = remaining_axes(axes, trace.axis_name)
        if remaining:
            primitive = primitive_of()
            x = primitive.bind(x, axes=remaining, **({} if primitive is psum_invariant_p else {"axis_index_groups": None}))
        return x, None

    grouped_rule = with_axis_groups(reduce_all)

    def over_axis(trace: Any, operands: Sequence[Any], dims: Dims, *, axes: tuple, axis_index_groups: Groups = None
                  ) -> tuple[Any, Any]:
        params = {"axes": axes, "axis_index_groups": axis_index_groups}
        if axis_index_groups is None or len({len(g) for g in axis_index_groups}) == 1:
            return grouped_rule(trace, operands, dims, **params)
        check_grouped(axes)
        x = broadcast_batch(operands[0], dims[0], trace.size)
        reduced_groups = [reduced(reduction, take_rows(x, np.array(group, np.int32)), (0,))
                  for group in axis_index_groups]
        stacked = concatenate_p.bind(*[reshape_to(t, (1, *np.shape(t))) for t in reduced_groups], dimension=0)
        group_of = np.empty(trace.size, np.int32)
        for number, group in enumerate(axis_index_groups):
            group_of[list(group)] = number
        return take_rows(stacked, group_of), 0

    return over_axis


def _pvary_mapped_axis(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, axes: tuple) -> tuple[Any, Any]:
    remaining = remaining_axes(axes, trace.axis_name)
    return pvary_p.bind(operands[0], axes=remaining) if remaining else operands[0], dims[0]


def _psum_aval(x: ShapedArray, **_: Any) -> ShapedArray:
    check_dtype("psum", "int float complex bool", x.dtype)
    return x


def _stage_pvary(trace: Trace, args: Sequence[Any], params: Params) -> Any:
    """Cast a value to vary along the axes, unless it does already: jaxprs may be evaluated again on values of other types."""
    [x], axes = args, params["axes"]
    unreduced, reduced = (present & set(axes) for present in unreduced_and_reduced_axes(x))
    if unreduced:
        raise ValueError(f"a value of type {str_short(tracing.aval_of(x))} is unreduced over {sorted(map(str, unreduced))}, "
                         f"and cannot be used as one that varies there. Sum it first, with psum or psum_scatter.")
    if reduced:
        x = recast(x, reduced, "reduced", "varying")
    missing = tuple(a for a in axes if a not in tracing.aval_of(x).vma)
    if not reduced and len(missing) == len(axes):
        return None
    return pvary_p.bind(x, axes=missing) if missing else x


psum_p = collective(
    "psum", lambda x, **_: _psum_aval(x).strip_weak_type(), _lower_all_reduce("stablehlo.add"),
    lambda ct, aval, **params: psum_p.bind(ct, **params), _reduce_mapped_axis(lambda: psum_p, "reduce_sum", True))
collective(
    psum_invariant_p, _psum_aval, _lower_all_reduce("stablehlo.add"),
    lambda ct, aval, *, axes: pvary_p.bind(ct, axes=axes), _reduce_mapped_axis(lambda: psum_invariant_p, "reduce_sum", True),
    vma=_result_vma, shown_as="psum")
collective(
    pvary_p, same_aval, lambda ctx, x, *, axes: x, lambda ct, aval, *, axes: psum_invariant_p.bind(ct, axes=axes),
    _pvary_mapped_axis, vma=lambda varying, *, axes: varying | set(axes), shown_as="pcast", stage=_stage_pvary,
    communicates=False, traits=Traits(key_use=KeyUse.FORWARDS))


def _minmax_reduction(name: str, operation: str, reduction: str) -> Primitive:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: tuple, axis_index_groups: Groups = None
            ) -> tuple[Any, Any]:
        """Average the tangents of the elements that attain the extremum."""
        [x], [t] = primals, tangents
        y = primitive.bind(x, axes=axes, axis_index_groups=axis_index_groups)
        if type(t) is Zero:
            return y, Zero(tracing.aval_of(y).to_tangent_aval())
        attained = to_dtype(eq(x, y), tracing.aval_of(t).dtype)

        def sum_over_axes(x: Array) -> Array:
            if axis_index_groups is None and tracing.aval_of(x).vma:
                return psum_invariant_p.bind(x, axes=axes)
            return psum_p.bind(x, axes=axes, axis_index_groups=axis_index_groups)

        return y, div(sum_over_axes(mul(t, attained)), sum_over_axes(attained))

    def abstract(x: ShapedArray, *, axes: tuple, axis_index_groups: Groups = None) -> ShapedArray:
        check_dtype(name, "int float complex bool", x.dtype)
        aval = x if x.vma.issuperset(axes) else x.strip_weak_type()
        return aval.update(vma=_result_vma(x.vma, axes=axes, axis_index_groups=axis_index_groups))

    lower_all_reduce = _lower_all_reduce(operation)

    def lower(ctx: RuleContext, x: ir.Value, *, axes: tuple, axis_index_groups: Groups = None) -> ir.Value:
        check_dtype(f"{name} between devices", "int float bool", ctx.aval_out.dtype)
        return lower_all_reduce(ctx, x, axes=axes, axis_index_groups=axis_index_groups)

    primitive = Primitive(
        name, abstract=abstract, lower=lower, jvp=jvp, batch=batch_rule_keeping_dims,
        mesh=MeshRules(sharding_rules.same, over_axis=_reduce_mapped_axis(lambda: primitive, reduction, False),
                       communicates=True, states_vma=True))
    return primitive


pmax_p = _minmax_reduction("pmax", "stablehlo.maximum", "reduce_max")
pmin_p = _minmax_reduction("pmin", "stablehlo.minimum", "reduce_min")


# Casts

_DUALS = {"varying": "varying", "unreduced": "reduced", "reduced": "unreduced"}


def _recast_aval(x: ShapedArray, *, axes: tuple, source: str, target: str, mesh: AbstractMesh) -> ShapedArray:
    explicit, axes = x.explicit_sharding, frozenset(axes)
    spec = PartitionSpec(*[None] * x.ndim) if explicit is None else explicit.spec
    spec = spec.update(unreduced=spec.unreduced - axes | (axes if target == "unreduced" else frozenset()),
                       reduced=spec.reduced - axes | (axes if target == "reduced" else frozenset()))
    return x.update(vma=x.vma | axes if target == "varying" else x.vma - axes, sharding=NamedSharding(mesh, spec))


def _recast_transpose(ct: Tangent, x: Any, *, axes: tuple, source: str, target: str, mesh: AbstractMesh) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if source != "invarying":
        return [recast_p.bind(ct, axes=axes, source=_DUALS[target], target=_DUALS[source], mesh=mesh)]
    return [psum_invariant_p.bind(unreduced_as_varying(ct, axes), axes=axes)]


recast_p.define(
    abstract=_recast_aval, lower=lambda ctx, x, **_: x, transpose=_recast_transpose, shown_as="pcast",
    jvp=lambda primals, tangents, **params: (recast_p.bind(*primals, **params), tangents[0] if type(
        tangents[0]) is Zero else recast_p.bind(tangents[0], **params)),
    batch=lambda axis_size, xs, ds, **params: (recast_p.bind(*xs, **params), ds[0]), mesh=MeshRules(states_mesh_types=True),
    traits=Traits(key_use=KeyUse.FORWARDS))


def unreduced_and_reduced_axes(x: Array) -> tuple[frozenset, frozenset]:
    """Return the mesh axes along which a value is unreduced, and those along which it is reduced."""
    explicit = tracing.aval_of(x).explicit_sharding
    return (frozenset(), frozenset()) if explicit is None else (explicit.spec.unreduced, explicit.spec.reduced)


def unreduced_as_varying(x: Array, names: Sequence[Hashable], kind: UnreducedKind = UnreducedKind.sum) -> Array:
    """Cast a value that is unreduced along these axes, in a reduction of this kind, to the varying values on each device."""
    explicit = tracing.aval_of(x).explicit_sharding
    unreduced = frozenset() if explicit is None or explicit.spec.unreduced_kind is not kind else (
        explicit.spec.unreduced & set(names))
    return recast(x, unreduced, "unreduced", "varying") if unreduced else x


def cast_to(x: Array, axes: frozenset, target: str) -> Array:
    """Cast a varying value to "unreduced", or an invarying value to "reduced"."""
    aval = tracing.aval_of(x)
    unreduced, reduced = unreduced_and_reduced_axes(x)
    source, is_valid = ("varying", axes <= aval.vma) if target == "unreduced" else (
        "invarying", not axes & (aval.vma | unreduced | reduced))
    if not is_valid:
        raise ValueError(f"pcast to {target} takes a value that is {source} along {sorted(map(str, axes))}, got one of type "
                         f"{str_short(aval)}.")
    return recast(x, axes, source, target) if axes else x


PRIMITIVES = {p.name: p for p in (psum_p, psum_invariant_p, pvary_p, pmax_p, pmin_p, recast_p)}
