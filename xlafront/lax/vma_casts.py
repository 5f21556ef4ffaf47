"""Values of other types inside of a `shard_map` that checks.

Along a mesh axis a value varies, is the same on all devices ("invarying"), is the sum of what they hold ("unreduced"), or is
the same and has cotangents that are such sums ("reduced"). Casts between these compute nothing; their derivatives may sum.
"""

from __future__ import annotations

import numpy as np

from xlafront.core import tracing
from xlafront.core.avals import str_short
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.collective_primitives import axis_index_p, psum_invariant_p, pvary_p
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import AxisType
from xlafront.runtime.specs import PartitionSpec

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


def _sums_of(x) -> tuple[frozenset, frozenset]:
    explicit = tracing.aval_of(x).explicit_sharding
    return (frozenset(), frozenset()) if explicit is None else (explicit.spec.unreduced, explicit.spec.reduced)


def summands(x, names):
    """A sum that is still to be made along these axes as what each device holds of it."""
    unreduced = _sums_of(x)[0] & set(names)
    return recast(x, unreduced, "unreduced", "varying") if unreduced else x


def as_unreduced(x, axes):
    """A value as a sum that is still to be made: what each device holds, or all of it on the first."""
    from xlafront.lax.elementwise import eq, mul, to_dtype

    for axis in sorted(axes - tracing.aval_of(x).vma, key=str):
        first = to_dtype(eq(axis_index_p.bind(axis_name=axis), np.int32(0)), tracing.aval_of(x).dtype)
        x = mul(pvary_p.bind(x, axes=(axis,)), first)
    return recast(x, axes, "varying", "unreduced")


def _used_as_varying(trace, args, params):
    """A value beside others that vary along these axes. What varies already stays as it is; programs are evaluated again
    on values of other types."""
    [x], axes = args, params["axes"]
    unreduced, reduced = (own & set(axes) for own in _sums_of(x))
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


def cast_to(x, axes: frozenset, target: str):
    """`pcast` to "unreduced", of what varies, or to "reduced", of what is the same."""
    aval = tracing.aval_of(x)
    unreduced, reduced = _sums_of(x)
    source, fits = ("varying", axes <= aval.vma) if target == "unreduced" else (
        "invarying", not axes & (aval.vma | unreduced | reduced))
    if not fits:
        raise ValueError(f"pcast to {target} takes a value that is {source} along {sorted(map(str, axes))}, got one of type "
                         f"{str_short(aval)}.")
    return recast(x, axes, source, target) if axes else x


def typed_zeros(zeros, sharding):
    """Zeros of a type that is unreduced or reduced over some axes."""
    from xlafront.lax.resharding import reshard_p

    spec, explicit = sharding.spec, sharding.mesh.explicit
    if explicit:
        inner = spec.update(unreduced=spec.unreduced & explicit, reduced=spec.reduced & explicit)
        zeros = reshard_p.bind(zeros, target=sharding.update(spec=inner))
    unreduced, reduced = spec.unreduced - explicit, spec.reduced - explicit
    if unreduced:
        zeros = recast(pvary_p.bind(zeros, axes=tuple(sorted(unreduced, key=str))), unreduced, "varying", "unreduced")
    return recast(zeros, reduced, "invarying", "reduced") if reduced else zeros
