"""All-reductions over named axes, and the casts of types that are their transposes.

Along a mesh axis of a `shard_map` that checks, a value varies, is the same on all devices ("invarying"), is the sum of what
they hold ("unreduced"), or is the same and has cotangents that are such sums ("reduced"). Casts between these compute nothing;
their derivatives may sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront import lowering
from xlafront.core import tracing
from xlafront.core.avals import str_short
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.elementwise import div, eq, mul, to_dtype
from xlafront.lax.indexing import take_rows
from xlafront.lax.named_axes import channel, check_grouped, collective, each_alike, grouped, others, replica_groups
from xlafront.lax.reductions import reduced
from xlafront.lax.shapes import broadcast_batch, reshape_to
from xlafront.lax.slicing import concatenate_p
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import AxisType
from xlafront.runtime.specs import PartitionSpec


def reducer_region(ctx, operation: str):
    aval = ctx.aval_out
    scalar = ((), aval.dtype)
    return ([scalar, scalar], lambda inner, x, y: [inner.op(operation, [x, y], [scalar])])


def _lower_all_reduce(operation: str):
    def lower(ctx, x, *, axes, axis_index_groups=None):
        if not axes:
            return x
        mlir = lowering.mlir
        return ctx.with_regions(
            "stablehlo.all_reduce", [x], [reducer_region(ctx, operation)], [ctx.aval_out],
            replica_groups=mlir.dense_i64(replica_groups(ctx, axes, axis_index_groups)), channel_handle=channel(),
            use_global_device_ids=mlir.attribute("unit"))[0]

    return lower


def same_type(x, **_):
    return x


def _over(varying, *, axes, axis_index_groups=None):
    """With groups the result is that of one's own group: different along the axis."""
    return varying if axis_index_groups is not None else varying - set(axes)


def _over_mapped(primitive_of: Callable[[], Primitive], reduction: str, repeats: bool) -> Callable:
    """The rule over an axis that `vmap` names; where all elements are the same, a sum `repeats` them."""
    def whole(trace, operands, dims, *, axes, axis_index_groups=None):
        [x], [d] = operands, dims
        if d is None:
            if repeats:
                aval = tracing.aval_of(x)
                count = np.asarray(trace.size).astype(aval.dtype)[()]
                x = mul(x, count.item() if aval.weak_type else count)
        else:
            x = reduced(reduction, x, (d,))
        rest = others(axes, trace.axis_name)
        if rest:
            primitive = primitive_of()
            x = primitive.bind(x, axes=rest, **({} if primitive is psum_invariant_p else {"axis_index_groups": None}))
        return x, None

    equal = grouped(whole)

    def over_axis(trace, operands, dims, *, axes, axis_index_groups=None):
        params = {"axes": axes, "axis_index_groups": axis_index_groups}
        if axis_index_groups is None or len({len(g) for g in axis_index_groups}) == 1:
            return equal(trace, operands, dims, **params)
        check_grouped(axes)
        x = broadcast_batch(operands[0], dims[0], trace.size)
        totals = [reduced(reduction, take_rows(x, np.array(group, np.int32)), (0,))
                  for group in axis_index_groups]
        stacked = concatenate_p.bind(*[reshape_to(t, (1, *np.shape(t))) for t in totals], dimension=0)
        group_of = np.empty(trace.size, np.int32)
        for number, group in enumerate(axis_index_groups):
            group_of[list(group)] = number
        return take_rows(stacked, group_of), 0

    return over_axis


def _vary_over_mapped(trace, operands, dims, *, axes):
    rest = others(axes, trace.axis_name)
    return pvary_p.bind(operands[0], axes=rest) if rest else operands[0], dims[0]


def _summed_type(x, **_):
    check_dtype("psum", "int float complex bool", x.dtype)
    return x


psum_p = collective(
    "psum", lambda x, **_: _summed_type(x).strip_weak_type(), _lower_all_reduce("stablehlo.add"),
    lambda ct, aval, **params: psum_p.bind(ct, **params), _over_mapped(lambda: psum_p, "reduce_sum", True))
psum_invariant_p = collective(
    "psum_invariant", _summed_type, _lower_all_reduce("stablehlo.add"),
    lambda ct, aval, *, axes: pvary_p.bind(ct, axes=axes), _over_mapped(lambda: psum_invariant_p, "reduce_sum", True),
    vma=_over, shown_as="psum")
pvary_p = collective(
    "pvary", same_type, lambda ctx, x, *, axes: x,
    lambda ct, aval, *, axes: psum_invariant_p.bind(ct, axes=axes), _vary_over_mapped,
    vma=lambda varying, *, axes: varying | set(axes), shown_as="pcast")
pvary_p.key_use = "hands on"


def _extreme(name: str, operation: str, reduction: str) -> Primitive:
    def jvp(primals, tangents, *, axes, axis_index_groups=None):
        """The tangents of those that attain the extreme, on average."""
        [x], [t] = primals, tangents
        y = primitive.bind(x, axes=axes, axis_index_groups=axis_index_groups)
        if type(t) is Zero:
            return y, Zero(tracing.aval_of(y).to_tangent_aval())
        attained = to_dtype(eq(x, y), tracing.aval_of(t).dtype)

        def total(x):
            if axis_index_groups is None and tracing.aval_of(x).vma:
                return psum_invariant_p.bind(x, axes=axes)
            return psum_p.bind(x, axes=axes, axis_index_groups=axis_index_groups)

        return y, div(total(mul(t, attained)), total(attained))

    def abstract(x, *, axes, axis_index_groups=None):
        check_dtype(name, "int float complex bool", x.dtype)
        aval = x if x.vma.issuperset(axes) else x.strip_weak_type()
        return aval.update(vma=_over(x.vma, axes=axes, axis_index_groups=axis_index_groups))

    lower_all_reduce = _lower_all_reduce(operation)

    def lower(ctx, x, *, axes, axis_index_groups=None):
        check_dtype(f"{name} between devices", "int float bool", ctx.aval_out.dtype)
        return lower_all_reduce(ctx, x, axes=axes, axis_index_groups=axis_index_groups)

    primitive = Primitive(name, abstract=abstract, lower=lower, jvp=jvp,
                          sharding_rule=sharding_rules.same)
    primitive.batch, primitive.own_vma = each_alike(primitive), True
    primitive.over_axis = _over_mapped(lambda: primitive, reduction, False)
    return primitive


pmax_p = _extreme("pmax", "stablehlo.maximum", "reduce_max")
pmin_p = _extreme("pmin", "stablehlo.minimum", "reduce_min")


# Casts

_DUALS = {"varying": "varying", "unreduced": "reduced", "reduced": "unreduced"}


def _recast_type(x, *, axes, source, target, mesh):
    explicit, axes = x.explicit_sharding, frozenset(axes)
    spec = PartitionSpec(*[None] * x.ndim) if explicit is None else explicit.spec
    spec = spec.update(unreduced=spec.unreduced - axes | (axes if target == "unreduced" else frozenset()),
                       reduced=spec.reduced - axes | (axes if target == "reduced" else frozenset()))
    return x.update(vma=x.vma | axes if target == "varying" else x.vma - axes, sharding=NamedSharding(mesh, spec))


def _recast_transpose(ct, x, *, axes, source, target, mesh):
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if source != "invarying":
        return [recast_p.bind(ct, axes=axes, source=_DUALS[target], target=_DUALS[source], mesh=mesh)]
    return [psum_invariant_p.bind(summands(ct, axes), axes=axes)]


recast_p = Primitive(
    "recast", abstract=_recast_type, lower=lambda ctx, x, **_: x, transpose=_recast_transpose, shown_as="pcast",
    jvp=lambda primals, tangents, **params: (recast_p.bind(*primals, **params), tangents[0] if type(
        tangents[0]) is Zero else recast_p.bind(tangents[0], **params)),
    batch=lambda axis_size, xs, ds, **params: (recast_p.bind(*xs, **params), ds[0]))
recast_p.key_use = "hands on"
recast_p.own_types = True


def recast(x, axes, source: str, target: str):
    """The same value with another type along these axes of the surrounding `shard_map`."""
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is not None:
        mesh = explicit.mesh
    else:
        found = [a for a in tracing.thread.axes if type(a) is tracing.MeshAxis]
        mesh = found[-1].mesh.abstract_mesh.update_axis_types({a[0]: AxisType.Manual for a in found})
    return recast_p.bind(x, axes=tuple(sorted(axes, key=str)), source=source, target=target, mesh=mesh)


def sums_of(x) -> tuple[frozenset, frozenset]:
    explicit = tracing.aval_of(x).explicit_sharding
    return (frozenset(), frozenset()) if explicit is None else (explicit.spec.unreduced, explicit.spec.reduced)


def summands(x, names):
    """A sum that is still to be made along these axes as what each device holds of it."""
    unreduced = sums_of(x)[0] & set(names)
    return recast(x, unreduced, "unreduced", "varying") if unreduced else x


def _used_as_varying(trace, args, params):
    """A value beside others that vary along these axes. What varies already stays as it is; programs are evaluated again
    on values of other types."""
    [x], axes = args, params["axes"]
    unreduced, reduced = (own & set(axes) for own in sums_of(x))
    if unreduced:
        raise ValueError(f"a value of type {str_short(tracing.aval_of(x))} is still to be summed over "
                         f"{sorted(map(str, unreduced))}, and cannot be used as one that varies there. Sum it first: psum or "
                         f"psum_scatter.")
    if reduced:
        x = recast(x, reduced, "reduced", "varying")
    rest = tuple(a for a in axes if a not in tracing.aval_of(x).vma)
    if not reduced and len(rest) == len(axes):
        return None
    return pvary_p.bind(x, axes=rest) if rest else x


pvary_p.stage = _used_as_varying
PRIMITIVES = {p.name: p for p in (psum_p, psum_invariant_p, pvary_p, pmax_p, pmin_p, recast_p)}
