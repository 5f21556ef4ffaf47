"""Types of `shard_map`: of whole arrays and of the parts that devices hold, and what follows from them for its programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import ClosedJaxpr, eval_jaxpr
from xlafront.core.tracing import MeshAxis
from xlafront.lax.all_reductions import pvary_p, recast
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import AxisType, active, axes_of


def spec_axes(spec) -> frozenset:
    """The mesh axes that a spec splits over."""
    return frozenset(axis for partition in spec for axis in axes_of(partition))


def parts_along(spec, sizes, rank: int) -> list[int]:
    """The number of parts of each dimension."""
    counts = [math.prod([sizes[a] for a in axes_of(p)]) for p in spec]
    return counts + [1] * (rank - len(counts))


def local_type(aval, spec, mesh, manual: frozenset, check: bool):
    """The type of a device's part: split over the explicit axes that the body leaves to types."""
    shape = tuple(n // parts for n, parts in zip(aval.shape, parts_along(spec, mesh.shape, aval.ndim)))
    explicit = aval.explicit_sharding
    if explicit is not None:
        left = [tuple(a for a in axes_of(p) if a not in manual) for p in explicit.spec.partitions]
        inner = explicit.mesh.update_axis_types({a: AxisType.Manual for a in manual})
        own = explicit.spec if check else explicit.spec.update(
            unreduced=explicit.spec.unreduced - manual, reduced=explicit.spec.reduced - manual)
        explicit = NamedSharding(inner, own.update(partitions=left))
    return aval.update(shape=shape, sharding=explicit, vma=aval.vma | spec_axes(spec) if check else aval.vma)


def whole_type(aval, spec, mesh, manual: frozenset):
    """The type of the array that the parts make up."""
    if aval.is_high:
        return aval.unshard(mesh, True, spec)
    shape = tuple(n * parts for n, parts in zip(aval.shape, parts_along(spec, mesh.shape, aval.ndim)))
    if aval.explicit_sharding is not None:
        inner = aval.explicit_sharding.spec
        spec = inner.update(partitions=[(*axes_of(p), *axes_of(q)) for p, q in zip(spec.padded(aval.ndim), inner.partitions)])
    return aval.update(shape=shape, sharding=NamedSharding(mesh, spec), vma=aval.vma - manual)


class axes_in_scope:
    """The manual axes of a mesh as named axes, while a body is traced, and the mesh in force with these of type Manual."""

    def __init__(self, mesh, manual: frozenset, check: bool):
        sizes = mesh.shape
        self.axes = tuple(MeshAxis(name, sizes[name], check, mesh, pvary_p) for name in mesh.axis_names if name in manual)
        self.mesh, self.manual = mesh.abstract_mesh, manual

    def __enter__(self):
        self.saved = tracing.thread.axes, active.abstract
        around = [axis[0] for axis in tracing.thread.axes if type(axis) is MeshAxis]
        tracing.thread.axes = (*tracing.thread.axes, *self.axes)
        active.abstract = self.mesh.update_axis_types({a: AxisType.Manual for a in (*around, *self.manual)})

    def __exit__(self, *exception):
        tracing.thread.axes, active.abstract = self.saved


def axes_of_vmaps() -> frozenset:
    """The axes over which surrounding `vmap`s spread their elements: each has its own on the devices along them."""
    found: set = set()
    trace: Any = tracing.thread.trace
    while trace is not None:
        found.update(axes_of(getattr(trace, "spmd_axis_name", None)))
        trace = trace.parent
    return frozenset(found)


# Programs of bodies


def pick(items: Sequence[Any], flags: Sequence[bool]) -> tuple:
    return tuple(x for x, flag in zip(items, flags) if flag)


def edited(closed: ClosedJaxpr, key: tuple, function: Callable[..., Sequence[Any]], in_avals=None) -> ClosedJaxpr:
    """A program made from another by `function`, once."""
    return closed.jaxpr.memoised(key, lambda: tracing.trace_to_closed_jaxpr(
        function, closed.in_avals if in_avals is None else in_avals, closed.debug_info))


def vary_results(closed: ClosedJaxpr, specs) -> ClosedJaxpr:
    """The program whose results vary over all the axes of their specs, as their cotangents will."""
    missing = [() if aval.is_high else tuple(sorted(spec_axes(spec) - aval.vma, key=str))
               for spec, aval in zip(specs, closed.out_avals)]
    summands = [() if aval.is_high else spec.unreduced & aval.vma for spec, aval in zip(specs, closed.out_avals)]
    if not any(missing) and not any(summands):
        return closed

    def run(*xs):
        results = eval_jaxpr(closed.jaxpr, closed.consts, *xs)
        results = [pvary_p.bind(x, axes=axes) if axes else x for x, axes in zip(results, missing)]
        return [recast(x, axes, "varying", "unreduced") if axes else x for x, axes in zip(results, summands)]

    return edited(closed, ("vary", tuple(missing), tuple(summands)), run)
