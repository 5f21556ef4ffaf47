"""Arguments that operations of many families take: dtypes, and the shardings of results. Shapes and axes are in `shapes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.core import dtypes
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import check_spec
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging.meshes import get_abstract_mesh

KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda d: d == dtypes.bool_, "int": dtypes.is_integer, "float": dtypes.is_float,
    "complex": dtypes.is_complex,
    # Of those of fewer than 8 bits hardware knows only some operations.
    "bytes": lambda d: dtypes.is_integer(d) and d not in dtypes.small_ints,
    "signed": lambda d: d.kind == "i" and d not in dtypes.small_ints,
    "float32": lambda d: d in (dtypes.float32, dtypes.float64),
}
_SHOWN = {"int": "integer", "float": "floating", "complex": "complex (complexfloating)", "bytes": "int of 8 bits or more",
          "signed": "signed int of 8 bits or more", "float32": "float32 or float64", "key": "random keys"}


def check_dtype(name: str, accepts: str, d, error: type[Exception] = TypeError) -> None:
    """`accepts` is a list of kinds in one string, such as "int float complex"."""
    if accepts == "any":
        return
    kinds = accepts.split()
    if "key" in kinds if dtypes.is_extended(d) else any([KINDS[kind](d) for kind in kinds if kind != "key"]):
        return
    if not dtypes.is_extended(d) and d == dtypes.float0:
        raise error(f"{name} was called with an array of dtype float0, which supports no operations by design: it is the "
                    f"tangent of integers and booleans. Use xnp.zeros_like(x, dtype=float) for zeros to compute with.")
    listed = ", ".join([_SHOWN.get(kind, kind) for kind in kinds])
    raise error(f"{name} does not accept dtype {d}: it takes arrays of dtypes {listed}. Convert with x.astype(...).")


def specified(dtype: Any, name: str) -> Any:
    """A dtype that a user must name: None is no default."""
    if dtype is None:
        raise ValueError(f"{name}: the dtype must be specified, got None.")
    return dtype


def named_sharding(where: Any, user: str, explicit: bool = True) -> NamedSharding | None:
    """What a user gave as `out_sharding`, a `NamedSharding` or a spec over the mesh in force; None for None, and where
    it says nothing: the sharding in a type that knows of no mesh is over one without axes."""
    if where is None:
        return None
    if isinstance(where, PartitionSpec):
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(f"{user} got the PartitionSpec {where}, but there is no mesh in force (no mesh context) that it "
                             f"could refer to. Please set a mesh, with set_mesh(mesh), or use NamedSharding(mesh, {where}).")
        where = NamedSharding(mesh, where)
    if not isinstance(where, NamedSharding):
        raise TypeError(f"{user} takes a NamedSharding or a PartitionSpec for out_sharding, got {type(where).__name__}: "
                        f"{where!r}.")
    if where.mesh.empty:
        return None
    inside = get_abstract_mesh()
    if not inside.empty and (where.mesh.shape_tuple, where.mesh.axis_types) != (inside.shape_tuple, inside.axis_types):
        raise ValueError(f"{user} got out_sharding {where.spec} over {where.mesh}, but the context mesh, in force here, is "
                         f"{inside}: they should match. Give the spec alone, or put that mesh in force with set_mesh.")
    check_spec(where.mesh, where.spec)
    other = [a for p in where.spec for a in axes_of(p) if a not in where.mesh.explicit]
    if explicit and other:
        kind = where.mesh.axis_types[where.mesh.axis_names.index(other[0])]
        raise ValueError(f"{user} got {where.spec} over {where.mesh}, but the axis {other[0]!r} is of type {kind.name}: it is "
                         f"not part of types. Use an axis of type Explicit, or with_sharding_constraint for Auto axes.")
    return where
