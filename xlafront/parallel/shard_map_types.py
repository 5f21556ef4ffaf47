"""Types in `shard_map`: global and local types, and the varying axes of bodies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.core import tracing
from xlafront.core.basic_primitives import pvary_p, recast
from xlafront.core.ir import Jaxpr
from xlafront.core.tracing import MeshAxis
from xlafront.runtime.sharding import AxisType, active, axes_of


def spec_axes(spec) -> frozenset:
    """Return the mesh axes that a spec shards over."""
    return frozenset(axis for partition in spec for axis in axes_of(partition))


def shards_along(spec, sizes, rank: int) -> list[int]:
    """Return the number of shards along each dimension."""
    counts = [math.prod([sizes[a] for a in axes_of(p)]) for p in spec]
    return counts + [1] * (rank - len(counts))


def local_type(aval, spec, mesh, manual: frozenset, check: bool):
    """Return the type of a device's shard, sharded over the explicit axes that are not manual."""
    shape = tuple(n // count for n, count in zip(aval.shape, shards_along(spec, mesh.shape, aval.ndim)))
    explicit = aval.explicit_sharding
    if explicit is not None:
        partitions = [tuple(a for a in axes_of(p) if a not in manual) for p in explicit.spec.partitions]
        local_mesh = explicit.mesh.update_axis_types({a: AxisType.Manual for a in manual})
        local_spec = explicit.spec if check else explicit.spec.update(
            unreduced=explicit.spec.unreduced - manual, reduced=explicit.spec.reduced - manual)
        explicit = NamedSharding(local_mesh, local_spec.update(partitions=partitions))
    return aval.update(shape=shape, sharding=explicit, vma=aval.vma | spec_axes(spec) if check else aval.vma)


def global_type_of(aval, spec, mesh, manual: frozenset):
    """Return the type of the global array with these local shards."""
    if aval.is_high:
        return aval.unshard(mesh, True, spec)
    shape = tuple(n * count for n, count in zip(aval.shape, shards_along(spec, mesh.shape, aval.ndim)))
    if aval.explicit_sharding is not None:
        local_spec = aval.explicit_sharding.spec
        spec = local_spec.update(partitions=[(*axes_of(p), *axes_of(q))
                                             for p, q in zip(spec.padded(aval.ndim), local_spec.partitions)])
    return aval.update(shape=shape, sharding=NamedSharding(mesh, spec), vma=aval.vma - manual)


class axes_in_scope:
    """A context that binds the manual axes of a mesh as named axes, and sets the context mesh with these axes as Manual."""

    def __init__(self, mesh, manual: frozenset, check: bool):
        sizes = mesh.shape
        self.axes = tuple(MeshAxis(name, sizes[name], check, mesh, pvary_p) for name in mesh.axis_names if name in manual)
        self.mesh, self.manual = mesh.abstract_mesh, manual

    def __enter__(self):
        self.saved = tracing.thread.axes, active.abstract
        outer_names = [axis[0] for axis in tracing.thread.axes if type(axis) is MeshAxis]
        tracing.thread.axes = (*tracing.thread.axes, *self.axes)
        active.abstract = self.mesh.update_axis_types({a: AxisType.Manual for a in (*outer_names, *self.manual)})

    def __exit__(self, *exception):
        tracing.thread.axes, active.abstract = self.saved


def axes_of_vmaps() -> frozenset:
    """Return the axes over which surrounding `vmap`s shard their elements: devices along them have different elements."""
    axes: set = set()
    trace: Any = tracing.thread.trace
    while trace is not None:
        axes.update(axes_of(getattr(trace, "spmd_axis_name", None)))
        trace = trace.parent
    return frozenset(axes)


# Body jaxprs


def pick(items: Sequence[Any], flags: Sequence[bool]) -> tuple:
    return tuple(x for x, flag in zip(items, flags) if flag)


def vary_results(closed: Jaxpr, specs) -> Jaxpr:
    """Return the jaxpr whose results vary over all axes of their specs, as their cotangents will."""
    missing = [() if aval.is_high else tuple(sorted(spec_axes(spec) - aval.vma, key=str))
               for spec, aval in zip(specs, closed.out_avals)]
    summands = [() if aval.is_high else spec.unreduced & aval.vma for spec, aval in zip(specs, closed.out_avals)]
    if not any(missing) and not any(summands):
        return closed

    def run(*xs):
        results = closed(*xs)
        results = [pvary_p.bind(x, axes=axes) if axes else x for x, axes in zip(results, missing)]
        return [recast(x, axes, "varying", "unreduced") if axes else x for x, axes in zip(results, summands)]

    return tracing.derive(closed, ("vary", tuple(missing), tuple(summands)), run)
