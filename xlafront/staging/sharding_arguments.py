"""Shardings as arguments: pytree prefixes of shardings, specs over the mesh in context, devices, formats, None."""

from __future__ import annotations

from enum import Enum

from xlafront.base.jaxlib_compat import Device, NamedSharding, Sharding
from xlafront.base.layouts import Format, Layout
from xlafront.core import tree
from xlafront.core.avals import with_entry
from xlafront.runtime.sharding import AxisType, PartitionSpec, active


class UnspecifiedValue(Enum):
    """The type of `UNSPECIFIED`, which leaves a sharding to the compiler."""

    UNSPECIFIED = "unspecified"
    __hash__ = object.__hash__  # that of `Enum` runs in Python

    def __repr__(self):
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue.UNSPECIFIED


def flatten_shardings(name: str, given, full, partly: bool = False, allow_mesh_context: bool = False) -> tuple:
    """Return the sharding of each leaf of `full`, from a pytree prefix of shardings; None means unspecified.

    `partly`: specs may leave dimensions to the compiler. `allow_mesh_context`: they may be over the mesh of `with mesh:`.
    `name` is that of the argument, for errors.
    """

    def is_leaf(x):
        return x is None or x is UNSPECIFIED or _is_sharding_like(x)

    found = tuple([as_sharding(name, x, allow_mesh_context) for x in tree.leaves_by_prefix(name, given, full, is_leaf)])
    if not partly:
        for sharding in found:
            if isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec.partitions:
                raise ValueError(f"{name} got {sharding.spec}, but UNCONSTRAINED leaves a dimension to the compiler, which "
                                 f"only with_sharding_constraint does. Name axes there, or None.")
    return found


def given_leaves(given) -> list:
    """Return the leaves of a pytree of shardings that are neither None nor unspecified."""
    return [] if given is UNSPECIFIED else tree.leaves(given, _is_sharding_like)


def _is_sharding_like(x) -> bool:
    return isinstance(x, (Sharding, PartitionSpec, Device, Format))


def flatten_layouts(given, full) -> list:
    """Return the layout of each leaf of `full`, from a pytree prefix; None where it has no `Format`."""
    leaves = tree.broadcast_prefix(given, full, lambda x: x is None or _is_sharding_like(x))
    return [x.layout if isinstance(x, Format) else None for x in leaves]


def requests_layouts(given) -> bool:
    """True if there is a `Format` among shardings."""
    return any([isinstance(x, Format) for x in given_leaves(given)])


def as_sharding(name: str, x, allow_mesh_context: bool = False):
    """Return the sharding that an argument means; None is unspecified."""
    if x is None or x is UNSPECIFIED:
        return UNSPECIFIED
    if isinstance(x, Format):
        return UNSPECIFIED if x.sharding is None else x.sharding
    if isinstance(x, PartitionSpec):
        return over_active_mesh(name, x, RuntimeError, allow_mesh_context)
    if isinstance(x, NamedSharding) and x.mesh.empty:
        raise ValueError(f"{name} got an empty NamedSharding, {x}, whose mesh has no axes. Use a mesh with axes, or "
                         f"SingleDeviceSharding(device).")
    if isinstance(x, Sharding):
        return x
    if isinstance(x, Layout) or x is Layout.AUTO:
        raise ValueError(f"{name} takes shardings, got a layout alone: {x!r}. Wrap it: Format(layout, sharding).")
    remedy = " Use sharding.SingleDeviceSharding(device)." if isinstance(x, Device) else ""
    raise TypeError(f"{name} takes shardings, got {type(x).__name__}: {x!r}.{remedy}")


def over_active_mesh(name: str, spec: PartitionSpec, error: type[Exception] = ValueError,
                     allow_mesh_context: bool = False) -> NamedSharding:
    """Return a spec over the mesh in context; with `allow_mesh_context`, that of `with mesh:` if there is no other."""
    mesh = active.abstract or active.mesh or (active.entered if allow_mesh_context else None)
    if mesh is None:
        raise error(f"{name} has the PartitionSpec {spec}, but there is no mesh in force that it could refer to: use "
                    f"NamedSharding(mesh, {spec}), or please set a mesh with set_mesh(mesh): it needs a non-empty mesh in "
                    "context.")
    if active.abstract is not None and active.mesh is not None and active.mesh.size == mesh.size:
        mesh = active.mesh.with_axes(mesh)
    return NamedSharding(mesh, spec)


def of_batches(sharding, dim: int, broadcast_over):
    """Return the sharding of batches: sharded over the axes of `vmap`'s `spmd_axis_name`, else as the compiler decides."""
    if broadcast_over is None and isinstance(sharding, NamedSharding) and not sharding.mesh.auto_axes:
        # A requested sharding is not part of a type: the compiler may shard the batch over axes of any type.
        sharding = sharding.update(mesh=sharding.mesh.update(axis_types=(AxisType.Auto,) * len(sharding.mesh.axis_names)))
    return with_entry(sharding, dim, PartitionSpec.UNCONSTRAINED if broadcast_over is None else broadcast_over)
