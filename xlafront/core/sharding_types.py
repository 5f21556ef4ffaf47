"""Shardings and memories of results, from those of operands, as far as they are part of types.

Three fields of a primitive determine them. `sharding_rule(name, operands, result, params)` returns for each dimension of
the result the mesh axes that shard it; `operands` are pairs of a type and its entries, one for each dimension. Results of
primitives without a rule are replicated. If the choice is ambiguous (a sum over a sharded dimension), an error requests
`out_sharding`.

`sums` and `summed_axes` are about `unreduced` values, which are the sum of the values on the devices along some axes, and
`reduced` values, which are equal on all devices but whose cotangents are unreduced: in a sum over many steps these are
reduced once. Linear operations act on each summand as on the sum, and pass the axes on; other operations need the sum, and
an error requests a `reshard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.meshes import AxisType, active
from xlafront.base.specs import PartitionSpec, UnreducedKind, axes_of
from xlafront.core import dtypes, source
from xlafront.core.avals import ShapedArray
from xlafront.core.errors import ShardingTypeError

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive
    from xlafront.core.typing import Aval, Params

Axes = frozenset
Entries = tuple
Operands = Sequence[tuple[Any, Entries]]


class Sums(NamedTuple):
    """The operands in which an operation is linear.

    Args:
        of: "first": linear in the first operand. "all": linear in all operands together, except for `operands`. "one":
            linear in one of `operands`, where the others are equal on all devices.
        operands: Indices of operands.
        kinds: The kinds of unreduced values that the operation passes on. Operations that only move elements pass on all.
    """

    of: str
    operands: tuple[int, ...] = ()
    kinds: tuple[UnreducedKind, ...] = (UnreducedKind.sum,)


of_first = Sums("first")  # other operands are indices and so on
of_first_any_kind = Sums("first", kinds=tuple(UnreducedKind))


def of_all(*besides: int) -> Sums:
    """Return `Sums` for operations that are linear in all operands together, except for some."""
    return Sums("all", besides)


of_all_any_kind = Sums("all", kinds=tuple(UnreducedKind))


def of_one(*summands: int) -> Sums:
    """Return `Sums` for operations that are linear in one of some operands.

    Examples are products of a summand with values that are equal on all devices.
    """
    return Sums("one", summands)


def types_over_meshes(primitive: Primitive, avals: tuple, params: dict[str, Any]) -> Any:
    """Return the types of the results of an operation that contains no jaxpr."""
    requested = params.get("out_sharding")
    if requested is None:
        requested = params.get("sharding")
    requested = requested if type(requested) is NamedSharding else None
    mesh = _common_mesh(primitive, avals)
    if mesh is None and requested is None:
        types = primitive.varying_types(avals, params)
    else:
        types = primitive.varying_types(tuple([
            a.update(sharding=None) if a.explicit_sharding is not None else a for a in avals]), params)
    several = primitive.multiple_results
    results = list(types) if several else [types]
    if requested is not None:
        if not primitive.traits.is_reshard:
            _check_out_sharding(primitive, avals, params, requested, results[0])
        results = [_with_spec(primitive, t, requested) for t in results]
    elif mesh is not None:
        results = [_shard_like(primitive, avals, t, mesh, params) for t in results]
    memories = _memories(primitive, avals)
    if len(memories) == 1:
        [memory] = memories
        results = [t.update(memory_space=memory) for t in results]
    return results if several else results[0]


def _memories(primitive: Primitive, avals: Sequence[Any]) -> set:
    """Return the memories of the operands, other than the default one of devices.

    Scalars have none, nor have the values that are written into an array.
    """
    typed = [a for a in (avals[:1] if primitive.traits.updates_in_place else avals) if isinstance(a, ShapedArray)]
    arrays = [a for a in typed if a.shape]
    memories = {a.memory for a in arrays or typed}
    if len(memories) > 1 and arrays and not primitive.multiple_results:
        raise ValueError(f"{primitive.shown_as} got arrays in different memories: {', '.join(map(str, avals))}. Transfer "
                         f"one of them: device_put(x, memory.Space.Device), or Host.")
    return memories - {None}


def _common_mesh(primitive: Primitive, avals: Sequence[Any]) -> Any:
    found = None
    for aval in avals:
        if aval.explicit_sharding is None:
            continue
        mesh = aval.explicit_sharding.mesh
        if found is not None and mesh is not found and mesh.shape_tuple != found.shape_tuple:
            raise ValueError(f"{primitive.shown_as} got operands over different meshes, {found} and {mesh}: "
                             f"{', '.join(map(str, avals))}. Transfer them to one mesh with device_put.")
        found = found or mesh
    if found is not None and source.thread.site is None:  # equations traced earlier have been checked in their own context
        inside = active.abstract_mesh()
        if not inside.empty and (inside.shape_tuple, inside.axis_types) != (found.shape_tuple, found.axis_types):
            raise ValueError(f"{primitive.shown_as} got operands over {found}, but the context mesh is {inside}: they "
                             f"should match. {', '.join(map(str, avals))}")
    return found


def _with_spec(primitive: Primitive, aval: Any, sharding: NamedSharding) -> Any:
    if not isinstance(aval, ShapedArray):
        return aval
    return aval.update(sharding=sharding)


def _shard_like(primitive: Primitive, avals: tuple, result: Any, mesh: Any, params: Params) -> Any:
    if not isinstance(result, ShapedArray):
        return result
    rule = primitive.mesh.sharding_rule
    unreduced, reduced = _axes_of_result(primitive, avals, result)
    if rule is None:
        return result
    operands = [(a, (None,) * len(getattr(a, "shape", ())) if a.explicit_sharding is None
                 else a.explicit_sharding.spec.partitions) for a in avals]
    entries = rule(primitive.shown_as, operands, result, params)
    used = [axis for e in entries for axis in axes_of(e)]
    if not (used or unreduced or reduced):
        return result
    both = [axis for axis in used if axis in unreduced or axis in reduced]
    if both:
        raise ShardingTypeError(
            f"{primitive.shown_as} of {texts(operands)} would give a result that is sharded over {both[0]!r}, over which an "
            f"operand is unreduced or reduced. Reshard one of them with reshard.")
    if len(set(used)) != len(used):
        twice = next(a for a in used if used.count(a) > 1)
        raise ShardingTypeError(
            f"{primitive.shown_as} of {texts(operands)} would give a result of shape {result.shape} with two dimensions "
            f"sharded over {twice!r}, which can shard only one. Pass out_sharding=P(...) if the function takes it, or reshard "
            f"an operand with reshard.")
    return result.update(sharding=NamedSharding(mesh, PartitionSpec(
        *entries, unreduced=unreduced, reduced=reduced, unreduced_kind=_unreduced_kind(avals) if unreduced else None)))


# Unreduced values


def has_open_sums(aval: Any) -> bool:
    """True if values of a type are unreduced."""
    return aval.explicit_sharding is not None and bool(aval.explicit_sharding.spec.unreduced)


def _specs(avals: tuple) -> list[Any]:
    return [None if a.explicit_sharding is None else a.explicit_sharding.spec for a in avals]


def _unreduced_kind(avals: tuple) -> UnreducedKind | None:
    """Return how the unreduced operands are to be reduced; None if there are none."""
    return next((s.unreduced_kind for s in _specs(avals) if s is not None and s.unreduced), None)


def _listed(axes: Axes) -> str:
    return ", ".join(map(repr, sorted(axes, key=str)))


def texts(operands: Operands) -> str:
    """Return the types of operands, for messages."""
    return _texts([aval for aval, _ in operands])


def _texts(avals: Sequence[Any]) -> str:
    return ", ".join(map(str, avals))


def _axes_of_result(primitive: Primitive, avals: tuple, result: Any) -> tuple[Axes, Axes]:
    """Return the axes over which a result is unreduced, and those over which it is reduced."""
    specs = _specs(avals)
    if not any([s is not None and (s.unreduced or s.reduced) for s in specs]):
        return frozenset(), frozenset()
    unreduced_axes = [frozenset() if s is None else s.unreduced for s in specs]
    reduced = [frozenset() if s is None else s.reduced for s in specs]
    if any(unreduced_axes):
        return _unreduced(primitive, avals, unreduced_axes, reduced, result)
    return frozenset(), _reduced(primitive, avals, reduced)


def _reduced(primitive: Primitive, avals: tuple[Aval, ...], reduced: list[Axes]) -> Axes:
    sums = primitive.mesh.sums
    if sums is not None and sums.of == "first":
        return reduced[0]
    together = sums is not None and sums.of == "all"
    if not primitive.traits.broadcasts_scalars and not together:
        return frozenset()
    first = next(axes for axes in reduced if axes)
    unsummed = sums.operands if sums is not None and together else ()
    for i, (aval, axes) in enumerate(zip(avals, reduced)):
        if i not in unsummed and axes != first and (axes or getattr(aval, "shape", None)):
            raise ShardingTypeError(
                f"{primitive.shown_as} of {_texts(avals)}: the operands must be reduced over the same axes, over which their "
                f"cotangents are unreduced. Reshard the others with reshard(x, P(..., reduced={{{_listed(first)}}})), or this "
                f"one to the sharding of the others.")
    return first


def _unreduced(primitive: Primitive, avals: tuple, unreduced_axes: list[Axes], reduced: list[Axes], result: Any
               ) -> tuple[Axes, Axes]:
    sums, axes = primitive.mesh.sums, next(axes for axes in unreduced_axes if axes)
    attempt = f"{primitive.shown_as} of {_texts(avals)}"
    kinds = (UnreducedKind.sum,) if sums is None else sums.kinds
    for spec in _specs(avals):
        if spec is not None and spec.unreduced and (spec.unreduced_kind not in kinds
                                                    or spec.unreduced_kind is not _unreduced_kind(avals)):
            expected = kinds[0] if spec.unreduced_kind not in kinds else _unreduced_kind(avals)
            raise ValueError(f"{attempt}: expected unreduced_kind={expected}, got {spec.unreduced_kind}. Reduce the operand "
                             f"first, with reshard(x, P(...)).")
    remedy = f"Compute the sum over {_listed(axes)} first, with reshard(x, P(...))."
    if sums is not None and sums.of == "one":
        summand, factor = (0, 1) if unreduced_axes[0] or 1 not in sums.operands else (1, 0)
        refusal = ShardingTypeError if factor in sums.operands else ValueError  # of a denominator
        if unreduced_axes[factor] or not unreduced_axes[summand]:
            raise refusal(f"{attempt} is not the sum of the results of each device for its summand. {remedy}")
        if reduced[factor] != axes and (reduced[factor] or getattr(avals[factor], "shape", None)):
            raise refusal(f"{attempt}: an array that multiplies or divides summands over {_listed(axes)} must be reduced over "
                          f"the same axes. Reshard it with reshard(x, P(..., reduced={{{_listed(axes)}}})). {remedy}")
        return axes, reduced[summand]
    if sums is not None and sums.of == "all":
        if any([o != axes for i, o in enumerate(unreduced_axes) if i not in sums.operands]):
            raise ShardingTypeError(f"{attempt}: some operands are unreduced over {_listed(axes)}, others are not. "
                                    f"{remedy}")
        return axes, frozenset()
    rounds = dtypes.is_inexact(avals[0].dtype) != dtypes.is_inexact(result.dtype)
    if sums is None or any(unreduced_axes[1:]) or rounds:
        refusal = ShardingTypeError if primitive.traits.contracts or primitive.traits.broadcasts_scalars else ValueError
        raise refusal(f"{attempt} needs the sum over {_listed(axes)}, over which an operand is unreduced. {remedy}")
    return axes, reduced[0]


def _check_out_sharding(primitive: Primitive, avals: tuple, params: dict[str, Any], requested: NamedSharding, result: Any
                        ) -> None:
    """Raise if an operation cannot leave its result unreduced over the axes that `out_sharding` names."""
    axes, sums = requested.spec.unreduced, primitive.mesh.sums
    kind = _unreduced_kind(avals) or (UnreducedKind.sum if sums is None else sums.kinds[0])
    if requested.spec.unreduced_kind not in (None, kind):
        raise ShardingTypeError(f"{primitive.shown_as} requires the unreduced_kind of out_sharding to be {kind}, got "
                                f"{requested.spec}.")
    own: Axes = frozenset()
    if any([s is not None and s.unreduced for s in _specs(avals)]):
        own, _ = _axes_of_result(primitive, avals, result)
    if own - axes:
        raise ShardingTypeError(f"{primitive.shown_as} of {_texts(avals)} cannot compute the sum over {_listed(own - axes)}: "
                                f"its result is unreduced, which out_sharding={requested.spec} does not allow. Compute the "
                                f"sum with reshard.")
    if not axes - own:
        return
    summed = frozenset() if primitive.mesh.summed_axes is None else primitive.mesh.summed_axes(avals, params)
    product = len(avals) > 1  # its result is unreduced over all summed axes, or none
    if product and summed != axes:
        summed = frozenset()
    if not axes <= own | summed:
        each = "in both operands over just these axes" if product else "over these axes"
        raise ShardingTypeError(
            f"{primitive.shown_as} of {_texts(avals)} cannot leave its result unreduced over {_listed(axes)}, as "
            f"out_sharding={requested.spec} requests: it would have to sum dimensions that are sharded {each}. Name other "
            f"axes, or reshard the result with reshard.")


def auto_sharding(explicit: NamedSharding) -> NamedSharding:
    """Return a sharding over the same mesh with automatic axes, of a type without sharding."""
    mesh = explicit.mesh
    return NamedSharding(mesh.update(axis_types=tuple([AxisType.Auto] * len(mesh.axis_names))), PartitionSpec())
