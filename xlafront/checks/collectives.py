"""Detection of communication over mesh axes that `sharding.no_collectives` forbids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.base.collective_guard import no_collectives
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import axes_of
from xlafront.core.errors import ForbiddenCollectiveError
from xlafront.core.ir import Jaxpr, subprograms


def check_collectives(jaxpr: Jaxpr) -> None:
    """Raise for an equation that communicates over a forbidden axis. Jaxprs inside are checked when they are traced."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.shown_as
        if eqn.primitive.mesh.communicates:
            axes = eqn.params.get("axes", eqn.params.get("axis_name", ()))
            names = axes if isinstance(axes, (tuple, frozenset)) else (axes,)
            _refuse(no_collectives.value.intersection(names), name, "acts on it")
        elif eqn.primitive.name == "reshard":
            check_reshard(eqn.invars[0].aval, eqn.outvars[0].aval.sharding)
        elif next(subprograms(eqn.params), None) is None:
            check_operation(name, [v.aval for v in eqn.invars], [v.aval.sharding for v in eqn.outvars if _axes(v.aval)])


def check_operation(name: str, avals: Sequence[Any], shardings: Sequence[Any]) -> None:
    """Raise if an operand is sharded or unreduced over a forbidden axis, and no result is."""
    lost = no_collectives.value.intersection(frozenset().union(*map(_axes, avals)))
    for sharding in shardings:
        lost -= frozenset(_dimensions(sharding)) | sharding.spec.unreduced
    _refuse(lost, name, "has an operand that is sharded or unreduced over it, and no such result")


def check_reshard(aval: Any, target: Any) -> None:
    """Raise if a reshard communicates over a forbidden axis. One that makes axes automatic does not."""
    if not isinstance(target, NamedSharding) or not target.mesh.explicit:
        return
    check_operation("reshard", [aval], [target])
    before, after = _dimensions(aval.explicit_sharding), _dimensions(target)
    moved = [axis for axis in before.keys() & after.keys() if before[axis] != after[axis]]
    _refuse(no_collectives.value.intersection(moved), "reshard", "changes the dimension that is sharded over it")


def _refuse(axes: frozenset, name: str, reason: str) -> None:
    if axes:
        raise ForbiddenCollectiveError(f"a collective across the axis {min(axes, key=str)!r} is forbidden by no_collectives, "
                                       f"but {name} {reason}.")


def _dimensions(sharding: Any) -> dict[Any, int]:
    """Return the dimension that each mesh axis shards."""
    return {} if sharding is None else {axis: d for d, entry in enumerate(sharding.spec) for axis in axes_of(entry)}


def _axes(aval: Any) -> frozenset:
    """Return the mesh axes over which values of a type are sharded or unreduced."""
    sharding = getattr(aval, "explicit_sharding", None)
    return frozenset() if sharding is None else frozenset(_dimensions(sharding)) | sharding.spec.unreduced
