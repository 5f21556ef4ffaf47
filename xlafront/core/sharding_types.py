"""What types of results say of mesh axes and of memories, from what types of operands say.

Three fields of a primitive's record tell it. `sharding_rule(name, operands, result, params)` returns for each dimension of the
result the axes that split it; `operands` are pairs of a type and its entries, one for each dimension. What has no rule gives
results that are not split. Where a choice is not for types to make (a sum over a split dimension), the user is asked for
`out_sharding`.

`sums` and `summed_axes` are about values that are the sum of what the devices hold along some axes (`unreduced`), and values
that are the same on all devices but whose cotangents are such sums (`reduced`): in a sum over many steps these are summed once.
What is linear does to each summand what it does to the sum, and so passes the axes on; the rest needs the sum, and the user is
asked to make it with `reshard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xlafront.core import dtypes
from xlafront.core.avals import ShapedArray
from xlafront.core.errors import ShardingTypeError
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import active
from xlafront.runtime.specs import PartitionSpec, axes_of

Axes = frozenset
Entries = tuple
Operands = Sequence[tuple[Any, Entries]]


class Sums(NamedTuple):
    """Of which operands the result is linear: `of` the "first", of "all" but those in `operands` together, or of "one" of
    those in `operands`, where the others are the same on all devices."""

    of: str
    operands: tuple[int, ...] = ()


of_first = Sums("first")  # other operands are indices and the like


def of_all(*besides: int) -> Sums:
    """Linear in all operands together, but for those."""
    return Sums("all", besides)


def of_one(*summands: int) -> Sums:
    """Linear in one of these operands: a product of a summand and what is the same on all devices."""
    return Sums("one", summands)


def types_over_meshes(primitive, avals: tuple, params: dict[str, Any]):
    """The types of the results of an operation that contains no program."""
    wanted = params.get("out_sharding")
    if wanted is None:
        wanted = params.get("sharding")
    wanted = wanted if type(wanted) is NamedSharding else None
    mesh = _common_mesh(primitive, avals)
    if mesh is None and wanted is None:
        types = primitive.varying_types(avals, params)
    else:
        types = primitive.varying_types(tuple([
            a.update(sharding=None) if a.explicit_sharding is not None else a for a in avals]), params)
    several = primitive.multiple_results
    results = list(types) if several else [types]
    if wanted is not None:
        if not primitive.moves:
            _check_out_sharding(primitive, avals, params, wanted, results[0])
        results = [_with_spec(primitive, t, wanted) for t in results]
    elif mesh is not None:
        results = [_split_like(primitive, avals, t, mesh, params) for t in results]
    memories = _memories(primitive, avals)
    if len(memories) == 1:
        [memory] = memories
        results = [t.update(memory_space=memory) for t in results]
    return results if several else results[0]


def _memories(primitive, avals) -> set:
    """The memories, other than the devices' own, that operands are in. Scalars are anywhere, and what is put into an array."""
    typed = [a for a in (avals[:1] if primitive.writes else avals) if isinstance(a, ShapedArray)]
    arrays = [a for a in typed if a.shape]
    memories = {a.memory for a in arrays or typed}
    if len(memories) > 1 and arrays and not primitive.multiple_results:
        raise ValueError(f"{primitive.shown_as} got arrays in different memories: {', '.join(map(str, avals))}. Move one "
                         f"of them to the memory of the other: device_put(x, memory.Space.Device), or Host.")
    return memories - {None}


def _common_mesh(primitive, avals):
    found = None
    for aval in avals:
        if aval.explicit_sharding is None:
            continue
        mesh = aval.explicit_sharding.mesh
        if found is not None and mesh is not found and mesh.shape_tuple != found.shape_tuple:
            raise ValueError(f"{primitive.shown_as} got operands over different meshes, {found} and {mesh}: "
                             f"{', '.join(map(str, avals))}. Bring them to one mesh with device_put.")
        found = found or mesh
    if found is not None:
        inside = active.abstract_mesh()
        if not inside.empty and (inside.shape_tuple, inside.axis_types) != (found.shape_tuple, found.axis_types):
            raise ValueError(f"{primitive.shown_as} got operands over {found}, but the context mesh, in force here, is "
                             f"{inside}: they should match. {', '.join(map(str, avals))}")
    return found


def _with_spec(primitive, aval, sharding: NamedSharding):
    if not isinstance(aval, ShapedArray):
        return aval
    return aval.update(sharding=sharding)


def _split_like(primitive, avals, result, mesh, params):
    if not isinstance(result, ShapedArray):
        return result
    rule = primitive.sharding_rule
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
            f"{primitive.shown_as} of {texts(operands)} would give a result that is split over {both[0]!r}, over which an "
            f"operand is unreduced or reduced. Bring one of them to another sharding with reshard.")
    if len(set(used)) != len(used):
        twice = next(a for a in used if used.count(a) > 1)
        raise ShardingTypeError(
            f"{primitive.shown_as} of {texts(operands)} would give a result of shape {result.shape} with two dimensions split "
            f"over {twice!r}, which splits only one. Say how it is split with out_sharding=P(...) where the function takes it, "
            f"or bring an operand to another sharding with reshard.")
    return result.update(sharding=NamedSharding(mesh, PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)))


# Sums that are still to be made


def has_open_sums(aval) -> bool:
    """Whether values of a type are the sum of what devices hold."""
    return aval.explicit_sharding is not None and bool(aval.explicit_sharding.spec.unreduced)


def _specs(avals: tuple) -> list[Any]:
    return [None if a.explicit_sharding is None else a.explicit_sharding.spec for a in avals]


def _listed(axes: Axes) -> str:
    return ", ".join(map(repr, sorted(axes, key=str)))


def texts(operands: Operands) -> str:
    """The types of operands, for messages."""
    return _texts([aval for aval, _ in operands])


def _texts(avals: Sequence[Any]) -> str:
    return ", ".join(map(str, avals))


def _axes_of_result(primitive, avals: tuple, result) -> tuple[Axes, Axes]:
    """The axes over which a result is unreduced, and those over which it is reduced."""
    specs = _specs(avals)
    if not any([s is not None and (s.unreduced or s.reduced) for s in specs]):
        return frozenset(), frozenset()
    unreduced_axes = [frozenset() if s is None else s.unreduced for s in specs]
    reduced = [frozenset() if s is None else s.reduced for s in specs]
    if any(unreduced_axes):
        return _unreduced(primitive, avals, unreduced_axes, reduced, result)
    return frozenset(), _reduced(primitive, avals, reduced)


def _reduced(primitive, avals: tuple, reduced: list[Axes]) -> Axes:
    sums = primitive.sums
    if sums == of_first:
        return reduced[0]
    together = sums is not None and sums.of == "all"
    if not primitive.broadcasts_scalars and not together:
        return frozenset()
    first = next(axes for axes in reduced if axes)
    unsummed = sums.operands if together else ()
    for i, (aval, axes) in enumerate(zip(avals, reduced)):
        if i not in unsummed and axes != first and (axes or getattr(aval, "shape", ())):
            raise ShardingTypeError(
                f"{primitive.shown_as} of {_texts(avals)}: the operands must be reduced over the same axes, since along these "
                f"the sums of cotangents are left open. Bring the others to it, with reshard(x, P(..., "
                f"reduced={{{_listed(first)}}})), or this one to what they are.")
    return first


def _unreduced(primitive, avals: tuple, unreduced_axes: list[Axes], reduced: list[Axes], result
               ) -> tuple[Axes, Axes]:
    sums, axes = primitive.sums, next(axes for axes in unreduced_axes if axes)
    attempt = f"{primitive.shown_as} of {_texts(avals)}"
    remedy = f"Make the sum over {_listed(axes)} first, with reshard(x, P(...))."
    if sums is not None and sums.of == "one":
        summand, factor = (0, 1) if unreduced_axes[0] or 1 not in sums.operands else (1, 0)
        if unreduced_axes[factor] or not unreduced_axes[summand]:
            refusal = ShardingTypeError if factor in sums.operands else NotImplementedError
            raise refusal(f"{attempt} is not the sum of what each device would compute of its part. {remedy}")
        if reduced[factor] != axes and (reduced[factor] or getattr(avals[factor], "shape", ())):
            raise ShardingTypeError(f"{attempt}: an array that multiplies summands over {_listed(axes)} must be reduced over "
                                    f"the same axes. Use reshard(x, P(..., reduced={{{_listed(axes)}}})) of it. {remedy}")
        return axes, reduced[summand]
    if sums is not None and sums.of == "all":
        if any([o != axes for i, o in enumerate(unreduced_axes) if i not in sums.operands]):
            raise ShardingTypeError(f"{attempt}: some of them are still to be summed over {_listed(axes)}, others are not. "
                                    f"{remedy}")
        return axes, frozenset()
    rounds = dtypes.is_inexact(avals[0].dtype) != dtypes.is_inexact(result.dtype)
    if sums is None or any(unreduced_axes[1:]) or rounds:
        refusal = (ShardingTypeError if primitive.contracts else
                   NotImplementedError if primitive.broadcasts_scalars else ValueError)
        raise refusal(f"{attempt} needs the sum over {_listed(axes)}, which has not been made. {remedy}")
    return axes, reduced[0]


def _check_out_sharding(primitive, avals: tuple, params: dict[str, Any], wanted: NamedSharding, result) -> None:
    """Whether an operation can leave the sums open that a user names in `out_sharding`."""
    axes = wanted.spec.unreduced
    own: Axes = frozenset()
    if any([s is not None and s.unreduced for s in _specs(avals)]):
        own, _ = _axes_of_result(primitive, avals, result)
    if own - axes:
        raise ShardingTypeError(f"{primitive.shown_as} of {_texts(avals)} cannot make the sum over {_listed(own - axes)}: it "
                                f"stays open, and out_sharding={wanted.spec} does not say so. Make it with reshard.")
    if not axes - own:
        return
    summed = frozenset() if primitive.summed_axes is None else primitive.summed_axes(avals, params)
    product = len(avals) > 1  # which leaves all of its sums open, or none
    if product and summed != axes:
        summed = frozenset()
    if not axes <= own | summed:
        each = "in both operands over just these axes" if product else "over these axes"
        raise ShardingTypeError(
            f"{primitive.shown_as} of {_texts(avals)} cannot leave the sum over {_listed(axes)} open, as told by out_sharding="
            f"{wanted.spec}: it would have to sum dimensions that are split {each}. Name other axes, or bring the result to "
            f"this sharding with reshard.")
