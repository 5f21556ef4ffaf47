"""Named axes: the axes in scope, their device groups, `axis_index`, and the rules that all collectives share.

An axis has a name inside of `vmap(axis_name=...)`, `pmap` and `shard_map`. A collective has two batching rules: `batch`, as
any operation, and `over_axis` for the axis that `vmap` names, over which it is an ordinary operation on the batch. If a
collective works over several axes, the mapped one becomes a dimension and the others remain. With `axis_index_groups`, the
mapped axis is split into two: the groups, and the positions within a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import axis_index_p, move_dim
from xlafront.core.primitive import MeshRules, OwnRule, Primitive, Traits
from xlafront.core.sharding_types import of_first
from xlafront.core.typing import Array
from xlafront.core.varying import IndexedAxis
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.elementwise import add, mul
from xlafront.lax.indexing import take_rows
from xlafront.lax.manual_computation import coordinate, manual_computation
from xlafront.lax.shapes import broadcast_batch, counting, linear_jvp, record, reshape_to

if TYPE_CHECKING:
    from xlafront.core.typing import ArrayLike, BatchRule, Dims, Tangent
    from xlafront.lax.collectives import Groups
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

CHANNEL = 1  # the channel number of collectives


def names_of(axes: Hashable) -> tuple:
    """Return an axis argument, one name or a tuple of names, as a tuple."""
    return axes if isinstance(axes, tuple) else (axes,)


def axes_text(names: Hashable) -> str:
    names = names_of(names)
    return f"the axis {names[0]!r}" if len(names) == 1 else f"the axes {names}"


def unbound_axis(name: Hashable, caller: str, bound_axes: Iterable[Hashable]) -> NameError:
    scope = ", ".join(map(repr, bound_axes)) or "none"
    return NameError(f"{caller} works over {name!r}, an unbound axis name: no such axis is in scope here (axes in scope: "
                     f"{scope}). Call it inside of shard_map over a mesh with an axis of that name, or of vmap or pmap with "
                     f"axis_name={name!r}.")


def checked_axis_size(name: Hashable, caller: str) -> int:
    """Return the size of a named axis in scope. Raise an error in the name of `caller` if there is none."""
    for bound_name, size in reversed(tracing.thread.axes):
        if bound_name == name:
            return size
    raise unbound_axis(name, caller, [bound_name for bound_name, _ in tracing.thread.axes])


def resolve_axes(axis_name: Any, caller: str) -> tuple[tuple, int]:
    """Return the names of an axis argument and the product of their sizes."""
    names = tuple(axis_name) if isinstance(axis_name, list) else names_of(axis_name)
    size = math.prod([checked_axis_size(name, caller) for name in names])
    if len(set(names)) != len(names):
        raise ValueError(f"{caller} got an axis name twice: {names}. Name each axis once.")
    return names, size


def bound_axis_size(name: Hashable) -> int:
    """Return the size of a named axis that is in scope."""
    return next(size for bound_name, size in reversed(tracing.thread.axes) if bound_name == name)


# Lowering: the device groups of a collective, from the mesh of the surrounding `shard_map`


def manual_mesh(ctx: RuleContext, names: Sequence[Hashable]) -> tuple[np.ndarray, list[int]]:
    """Return the array of partition ids of the surrounding `shard_map`'s mesh, and the dimensions of the named axes in it."""
    manual = ctx.module_context.manual_mesh
    axis_names = () if manual is None else manual.axis_names
    for name in names:
        if name not in axis_names:
            raise unbound_axis(name, ctx.primitive.shown_as, axis_names)
    return manual.positions, [axis_names.index(name) for name in names]


def replica_groups(ctx: RuleContext, names: Sequence[Hashable], groups: Groups = None) -> np.ndarray:
    """Return one row of partition ids per group of devices that exchange data, in the order of the axis index."""
    positions, dims = manual_mesh(ctx, names)
    other_dims = [i for i in range(positions.ndim) if i not in dims]
    size = math.prod(positions.shape[i] for i in dims)
    rows = positions.transpose(*other_dims, *dims).reshape(-1, size)
    if groups is None:
        return rows
    # XLA takes groups of different sizes as rows padded with -1.
    longest = max(map(len, groups))
    padded = [[*group, *[-1] * (longest - len(group))] for group in groups]
    return np.array([[row[i] if i >= 0 else -1 for i in group] for row in rows for group in padded])


def channel(number: int = CHANNEL) -> ir.Attribute:
    """Return the channel attribute of a collective. All share one channel, so that XLA can deduplicate equal collectives."""
    return lowering.mlir.attribute(f"#stablehlo.channel_handle<handle = {number}, type = 1>")


def source_target_pairs(ctx: RuleContext, names: Sequence[Hashable], perm: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the pairs of partition ids for pairs of indices along the axes."""
    rows = replica_groups(ctx, names)
    return np.array([[row[source], row[target]] for row in rows for source, target in perm], dtype=np.int64).reshape(-1, 2)


# Construction of collective primitives


def collective(name: str | Primitive, abstract: Callable, lower: Callable, transpose: Callable, over_axis: Callable,
               batch: BatchRule | OwnRule | None = None, vma: Callable | None = None, shown_as: str | None = None,
               sharding_rule: Callable = sharding_rules.same, communicates: bool = True, **rules: Any) -> Primitive:
    """Make the record of a collective that is linear in its first operand.

    `vma(varying, **params)` returns the axes over which the result varies, if the operands vary over `varying`. Without
    `batch`, the operation is applied to the batch unchanged, and the batch dimension stays in place.
    """
    def transpose_rule(ct: Tangent, x: Any, *rest: Any, **params: Any) -> list[Any]:
        if type(ct) is Zero or not is_undefined(x):
            return [Zero(x.aval) if is_undefined(x) else None] + [None] * len(rest)
        return [transpose(ct, x.aval, *rest, **params)] + [None] * len(rest)

    def typed_abstract(*xs: ShapedArray, **params: Any) -> ShapedArray:
        aval = abstract(*xs, **params)
        varying = frozenset().union(*(x.vma for x in xs))
        return aval.update(vma=varying if vma is None else vma(varying, **params), sharding=None)

    return record(
        name, abstract=typed_abstract, lower=lower, jvp=linear_jvp, transpose=transpose_rule,
        batch=batch or batch_rule_keeping_dims,
        shown_as=shown_as, mesh=MeshRules(sharding_rule, of_first, over_axis=over_axis, communicates=communicates,
                                          states_vma=vma is not None), **rules)


@OwnRule
def batch_rule_keeping_dims(primitive: Primitive) -> Callable:
    def batch(_: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
        return primitive.bind(*operands, **params), dims[0]

    return batch


# Rules over an axis that `vmap` names


def remaining_axes(names: Hashable, name: Hashable) -> tuple:
    """Return the axes without the mapped one."""
    return tuple(n for n in names_of(names) if n != name)


def axes_around(names: Hashable, name: Hashable) -> tuple[tuple, tuple, int, int]:
    """Return the axes before and after the mapped one (slower and faster varying), and the product of the sizes of each."""
    names = names_of(names)
    position = names.index(name)
    before, after = names[:position], names[position + 1:]
    return before, after, math.prod([bound_axis_size(n) for n in before]), math.prod([bound_axis_size(n) for n in after])


def with_axis_groups(rule: Callable) -> Callable:
    """Extend a rule for an entire axis to `axis_index_groups` of equal size."""
    def over_axis(trace: Any, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
        groups = params.get("axis_index_groups")
        if groups is None:
            return rule(trace, operands, dims, **params)
        check_grouped(names_of(params.get("axes") or params.get("axis_name")))
        count, size = len(groups), len(groups[0])
        order = np.array([i for group in groups for i in group], np.int32)
        values = [x if d is None else _split_batch(x, d, order, (count, size)) for x, d in zip(operands, dims)]

        def per_group(*xs: ArrayLike) -> list[Array]:
            results, out_dims = rule(_Mapped(size, trace.axis_name), xs, [None if d is None else 0 for d in dims], **(
                params | {"axis_index_groups": None}))
            return [broadcast_batch(results, out_dims, size)]

        group_dims = [None if d is None else 0 for d in dims]
        [result], [dim] = trace.map(per_group, values, group_dims, count)
        result = broadcast_batch(result, dim, count)
        shape = np.shape(result)
        return take_rows(reshape_to(result, (trace.size, *shape[2:])), np.argsort(order).astype(np.int32)), 0

    return over_axis


def check_grouped(names: tuple) -> None:
    if len(names) > 1:
        raise NotImplementedError(f"axis_index_groups over {axes_text(names)} are not supported if vmap maps one of the axes. "
                                  "Use that axis alone, or mesh axes in a shard_map.")


class _Mapped:
    """The attributes of a batching trace that the rules read."""

    def __init__(self, size: int, axis_name: Hashable) -> None:
        self.size, self.axis_name = size, axis_name


def _split_batch(x: Array, dim: int, order: np.ndarray, sizes: tuple[int, int]) -> Array:
    x = take_rows(move_dim(x, dim, 0), order)
    return reshape_to(x, (*sizes, *np.shape(x)[1:]))


# axis_index


def _index_lower(ctx: RuleContext, *, axis_name: Hashable) -> ir.Value:
    positions, [dim] = manual_mesh(ctx, (axis_name,))
    manual = ctx.module_context.manual_mesh
    if positions.shape[dim] == 1:
        return ctx.constant(0, dtype=np.int32)
    if not manual.automatic():
        return coordinate(ctx, positions, dim)
    # The partition id is meaningful only if no mesh axis is automatic.
    [index] = manual_computation(ctx, [], [], lambda body: [coordinate(body, positions, dim)], [ctx.aval_out], [],
                                 [f"<@{manual.symbol}, []>"], manual.automatic())
    return index


axis_index_p.define(
    lower=_index_lower,
    abstract=lambda *, axis_name: ShapedArray((), np.dtype(np.int32), vma=tracing.checked_axes() & {axis_name}),
    jvp=lambda primals, tangents, *, axis_name: (
    axis_index_p.bind(axis_name=axis_name), Zero(ShapedArray((), dtypes.float0))),
    mesh=MeshRules(over_axis=lambda trace, operands, dims, *, axis_name: (
    counting(dtypes.int32, (trace.size,), 0), 0)), traits=Traits(memoise=False))


def axis_index(axis_name: Hashable) -> Array:
    """Return the index of the current device or batch element along a named axis.

    Args:
        axis_name: Name of the axis, or a tuple of names, whose index is counted with the last axis fastest.

    Returns:
        A scalar of dtype int32.

    Example:
        >>> xf.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(xnp.array([10, 10, 10]))
        Array([10, 11, 12], dtype=int32)
    """
    names, _ = resolve_axes(axis_name, "axis_index")
    index: Any = np.int32(0) if not names else None
    for name in names:
        axis = next(axis for axis in reversed(tracing.thread.axes) if axis[0] == name)
        index_along = axis.index if type(axis) is IndexedAxis else axis_index_p.bind(axis_name=name)
        index = index_along if index is None else add(mul(index, np.int32(checked_axis_size(name, "axis_index"))), index_along)
    return index
