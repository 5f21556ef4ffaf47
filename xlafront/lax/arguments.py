"""Checks of arguments of many families of operations: dtypes, and shardings of results. Shapes and axes are in `shapes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.meshes import AbstractMesh, check_spec
from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.core import dtypes
from xlafront.staging.meshes import get_abstract_mesh

if TYPE_CHECKING:
    import numpy as np

KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda d: d == dtypes.bool_, "int": dtypes.is_integer, "float": dtypes.is_float,
    "complex": dtypes.is_complex,
    # Hardware supports few operations on integers of fewer than 8 bits.
    "bytes": lambda d: dtypes.is_integer(d) and d not in dtypes.small_ints,
    "signed": lambda d: d.kind == "i" and d not in dtypes.small_ints,
    "float32": lambda d: d in (dtypes.float32, dtypes.float64),
}
_SHOWN = {"int": "integer", "float": "floating", "complex": "complex (complexfloating)", "bytes": "int of 8 bits or more",
          "signed": "signed int of 8 bits or more", "float32": "float32 or float64", "key": "random keys"}


def check_dtype(name: str, accepts: str, d: np.dtype, error: type[Exception] = TypeError) -> None:
    """Raise an error unless the dtype `d` is one of `accepts`, a string of kinds such as "int float complex"."""
    if accepts == "any":
        return
    kinds = accepts.split()
    if "key" in kinds if dtypes.is_extended(d) else any([KINDS[kind](d) for kind in kinds if kind != "key"]):
        return
    if not dtypes.is_extended(d) and d == dtypes.float0:
        raise error(f"{name} was called with an array of dtype float0, which supports no operations by design: it is the "
                    f"tangent of integers and booleans. Use numpy.zeros_like(x, dtype=float) for zeros to compute with.")
    listed = ", ".join([_SHOWN.get(kind, kind) for kind in kinds])
    raise error(f"{name} does not accept dtype {d}: it takes arrays of dtypes {listed}. Convert with x.astype(...).")


def specified(dtype: Any, name: str) -> Any:
    """Return a dtype argument; raise ValueError if it is None."""
    if dtype is None:
        raise ValueError(f"{name}: the dtype must be specified, got None.")
    return dtype


def named_sharding(sharding: Any, caller: str, explicit: bool = True, matches_context: bool = True) -> NamedSharding | None:
    """Return an `out_sharding` argument as a `NamedSharding`; a spec refers to the mesh in context.

    With `matches_context`, the mesh must have the axes of that one.

    Return None for None, and for a sharding over a mesh without axes, which is the sharding of a type without a mesh.
    """
    if sharding is None:
        return None
    if isinstance(sharding, PartitionSpec):
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(f"{caller} got the PartitionSpec {sharding}, but there is no mesh in force (no mesh context) to "
                             f"apply it to. Please set a mesh, with set_mesh(mesh), or use NamedSharding(mesh, {sharding}).")
        sharding = NamedSharding(mesh, sharding)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"{caller} takes a NamedSharding or a PartitionSpec for out_sharding, got {type(sharding).__name__}: "
                        f"{sharding!r}.")
    if sharding.mesh.empty:
        return None
    if sharding.memory_kind is not None and isinstance(sharding.mesh, AbstractMesh):
        raise ValueError(f"{caller} got {sharding} for out_sharding, which does not transfer between memories: a sharding with "
                         f"memory_kind over an AbstractMesh is not allowed. Leave it out, and use device_put.")
    context = get_abstract_mesh()
    if matches_context and not context.empty and (
            (sharding.mesh.shape_tuple, sharding.mesh.axis_types) != (context.shape_tuple, context.axis_types)):
        raise ValueError(f"{caller} got out_sharding {sharding.spec} over {sharding.mesh}, but the context mesh is {context}: "
                         f"they should match. Pass the spec alone, or enter that mesh with set_mesh.")
    check_spec(sharding.mesh, sharding.spec)
    not_explicit = [a for p in sharding.spec for a in axes_of(p) if a not in sharding.mesh.explicit]
    if explicit and not_explicit:
        kind = sharding.mesh.axis_types[sharding.mesh.axis_names.index(not_explicit[0])]
        raise ValueError(f"{caller} got {sharding.spec} over {sharding.mesh}, but the axis {not_explicit[0]!r} is of type "
                         f"{kind.name}, which is not part of types. Use an axis of type Explicit, or with_sharding_constraint "
                         f"for Auto axes.")
    return sharding
