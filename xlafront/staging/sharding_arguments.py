"""Shardings as users give them, as pytree prefixes: shardings, specs over the mesh in force, devices, formats, None."""

from __future__ import annotations

from xlafront.core import tree
from xlafront.core.avals import with_entry
from xlafront.runtime.jaxlib_compat import Device, NamedSharding, Sharding
from xlafront.runtime.layouts import Format, Layout
from xlafront.runtime.sharding import AxisType, PartitionSpec, active


class UnspecifiedValue:
    def __repr__(self):
        return "UnspecifiedValue"

    def __reduce__(self):
        return "UNSPECIFIED"


UNSPECIFIED = UnspecifiedValue()


def flatten_shardings(what: str, given, full, partly: bool = False, entered: bool = False) -> tuple:
    """The sharding of each leaf of `full`, from a pytree prefix of shardings; None means unspecified.

    `partly`: specs may leave dimensions to the compiler. `entered`: they may be over the mesh of `with mesh:`.
    """

    def is_leaf(x):
        return x is None or x is UNSPECIFIED or _is_given(x)

    found = tuple([as_sharding(what, x, entered) for x in tree.leaves_by_prefix(what, given, full, is_leaf)])
    if not partly:
        for sharding in found:
            if isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec.partitions:
                raise ValueError(f"{what} got {sharding.spec}, but UNCONSTRAINED leaves a dimension to the compiler, which "
                                 f"only with_sharding_constraint does. Name axes there, or None.")
    return found


def given_leaves(given) -> list:
    """What there is in a pytree of shardings that is neither None nor unspecified."""
    return [] if given is UNSPECIFIED else tree.leaves(given, _is_given)


def _is_given(x) -> bool:
    return isinstance(x, (Sharding, PartitionSpec, Device, Format))


def flatten_layouts(given, full) -> list:
    """The layout of each leaf of `full` that `given`, a pytree prefix, has a `Format` for."""
    leaves = tree.broadcast_prefix(given, full, lambda x: x is None or _is_given(x))
    return [x.layout if isinstance(x, Format) else None for x in leaves]


def asks_for_layouts(given) -> bool:
    """Whether there is a `Format` among shardings."""
    return any([isinstance(x, Format) for x in given_leaves(given)])


def as_sharding(what: str, x, entered: bool = False):
    """One sharding, from what may stand for it; None is unspecified."""
    if x is None or x is UNSPECIFIED:
        return UNSPECIFIED
    if isinstance(x, Format):
        return UNSPECIFIED if x.sharding is None else x.sharding
    if isinstance(x, PartitionSpec):
        return over_active_mesh(what, x, RuntimeError, entered)
    if isinstance(x, Sharding):
        return x
    if isinstance(x, Layout) or x is Layout.AUTO:
        raise ValueError(f"{what} takes shardings, got a layout alone: {x!r}. Wrap it: Format(layout, sharding).")
    remedy = " Use sharding.SingleDeviceSharding(device)." if isinstance(x, Device) else ""
    raise TypeError(f"{what} takes shardings, got {type(x).__name__}: {x!r}.{remedy}")


def over_active_mesh(what: str, spec: PartitionSpec, error: type[Exception] = ValueError,
                     entered: bool = False) -> NamedSharding:
    """A spec that was given without a mesh; one that was `entered` with `with mesh:` may do."""
    mesh = active.abstract or active.mesh or (active.entered if entered else None)
    if mesh is None:
        raise error(f"{what} has the PartitionSpec {spec}, but there is no mesh in force that it could refer to: use "
                    f"NamedSharding(mesh, {spec}), or please set a mesh with set_mesh(mesh): it needs a non-empty mesh in "
                    "context.")
    if active.abstract is not None and active.mesh is not None and active.mesh.shape_tuple == mesh.shape_tuple:
        mesh = active.mesh.update(axis_types=mesh.axis_types)
    return NamedSharding(mesh, spec)


def of_batches(sharding, dim: int, spread_over):
    """The sharding of batches: elements stay over the axes that `vmap` spreads them over, else the compiler decides."""
    if spread_over is None and isinstance(sharding, NamedSharding) and not sharding.mesh.auto_axes:
        # What a program is asked for is no type of a value: the compiler may split it over axes of any type.
        sharding = sharding.update(mesh=sharding.mesh.update(axis_types=(AxisType.Auto,) * len(sharding.mesh.axis_names)))
    return with_entry(sharding, dim, PartitionSpec.UNCONSTRAINED if spread_over is None else spread_over)
