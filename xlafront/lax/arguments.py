"""Arguments that operations of many families take: dtypes, and the shardings of results. Shapes and axes are in `shapes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import check_spec
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging.meshes import get_abstract_mesh

KINDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda d: d == dtypes.bool_, "int": dtypes.is_integer, "float": dtypes.is_float,
    "complex": dtypes.is_complex, "signed": lambda d: dtypes.is_integer(d) and not dtypes.is_unsigned(d),
    "float32": lambda d: d in (dtypes.float32, dtypes.float64),
}

_SPELLED = {"int": "integer", "float": "floating", "complex": "complex (complexfloating)", "signed": "signed integer"}


def check_dtype(name: str, accepts: str, d) -> None:
    """`accepts` is a list of kinds in one string, such as "int float complex"."""
    if accepts == "any" or (isinstance(d, np.dtype) and any(KINDS[kind](d) for kind in accepts.split())):
        return
    if d == dtypes.float0:
        raise TypeError(f"{name} does not accept dtype float0, that of the derivatives of integers: by design these arrays "
                        "have no operations. For zeros take np.zeros_like(x, dtype=float), or differentiate in arguments of "
                        "a float dtype.")
    raise TypeError(f"{name} does not accept dtype {d}; accepted are {', '.join(_SPELLED.get(k, k) for k in accepts.split())}. "
                    f"Convert with x.astype(...).")


def named_sharding(where: Any, user: str, explicit: bool = True) -> NamedSharding | None:
    """What a user gave as `out_sharding`, a `NamedSharding` or a spec over the mesh in force; None for None."""
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
    check_spec(where.mesh, where.spec)
    other = [a for p in where.spec for a in axes_of(p) if a not in where.mesh.explicit]
    if explicit and other:
        kind = where.mesh.axis_types[where.mesh.axis_names.index(other[0])]
        raise ValueError(f"{user} got {where.spec} over {where.mesh}, but the axis {other[0]!r} is of type {kind.name}: it is "
                         f"not part of types. Use an axis of type Explicit, or with_sharding_constraint for Auto axes.")
    return where
