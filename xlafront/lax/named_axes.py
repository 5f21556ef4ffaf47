"""Named axes: which there are, which devices are along those of a mesh, one's own place, and what all collectives share.

An axis has a name inside of `vmap(axis_name=...)`, `pmap` and `shard_map`. A collective has two rules for batches: `batch`, as
any operation, and `over_axis` for the axis that `vmap` names, over which it is an ordinary operation on the batch. Where a
collective works over several axes, the one that is mapped becomes a dimension and the rest remain. With `axis_index_groups` the
mapped axis is taken as two: the groups, and the places in a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax import sharding_rules
from xlafront.lax.elementwise import add, mul
from xlafront.lax.indexing import take_rows
from xlafront.lax.manual_computation import coordinate, manual_computation
from xlafront.lax.shapes import broadcast_batch, counting, linear_jvp, move_dim, reshape_to

CHANNEL = 1  # of collectives


def names_of(axes) -> tuple:
    """The names in an axis argument, which is one name or a tuple of them."""
    return axes if isinstance(axes, tuple) else (axes,)


def axes_text(names) -> str:
    names = names_of(names)
    return f"the axis {names[0]!r}" if len(names) == 1 else f"the axes {names}"


def unbound_axis(name, user: str, known) -> NameError:
    scope = ", ".join(map(repr, known)) or "none"
    return NameError(f"{user} works over {name!r}, an unbound axis name: no such axis is in scope here (axes in scope: "
                     f"{scope}). Call it inside of shard_map over a mesh with an axis of that name, or of vmap or pmap with "
                     f"axis_name={name!r}.")


def size_of(name, user: str) -> int:
    """The number of elements along one named axis in scope; `user` is who asks, for the error."""
    for known, size in reversed(tracing.thread.axes):
        if known == name:
            return size
    raise unbound_axis(name, user, [known for known, _ in tracing.thread.axes])


def named(axis_name, user: str) -> tuple[tuple, int]:
    """The names of an axis argument and how many elements there are along them all."""
    names = tuple(axis_name) if isinstance(axis_name, list) else names_of(axis_name)
    size = math.prod([size_of(name, user) for name in names])
    if len(set(names)) != len(names):
        raise ValueError(f"{user} got an axis name twice: {names}. Each axis can take part once.")
    return names, size


def known_size(name) -> int:
    """The number of elements along a named axis that is in scope."""
    return next(size for known, size in reversed(tracing.thread.axes) if known == name)


# Lowering: which devices work together, from the mesh of the surrounding `shard_map`


def manual_mesh(ctx, names):
    """The mesh of the surrounding `shard_map` as numbers of partitions, and the positions of the named axes in it."""
    manual = ctx.module_context.manual_mesh
    known = () if manual is None else manual.axis_names
    for name in names:
        if name not in known:
            raise unbound_axis(name, ctx.primitive.shown_as, known)
    return manual.positions, [known.index(name) for name in names]


def replica_groups(ctx, names, groups=None) -> np.ndarray:
    """A row for each group of partitions that exchange data; in each the order is that of the axis index."""
    positions, where = manual_mesh(ctx, names)
    rest = [i for i in range(positions.ndim) if i not in where]
    size = math.prod(positions.shape[i] for i in where)
    rows = positions.transpose(*rest, *where).reshape(-1, size)
    if groups is None:
        return rows
    # XLA takes groups of different sizes as rows filled up with -1.
    longest = max(map(len, groups))
    padded = [[*group, *[-1] * (longest - len(group))] for group in groups]
    return np.array([[row[i] if i >= 0 else -1 for i in group] for row in rows for group in padded])


def channel(number: int = CHANNEL):
    """The channel of a collective: one for all of them, so that XLA can see that two are the same."""
    return lowering.mlir.attribute(f"#stablehlo.channel_handle<handle = {number}, type = 1>")


def pairs_of_devices(ctx, names, perm) -> np.ndarray:
    """What each pair of indices along the axes is between partitions."""
    rows = replica_groups(ctx, names)
    return np.array([[row[source], row[target]] for row in rows for source, target in perm], dtype=np.int64).reshape(-1, 2)


# The family


def collective(name: str, abstract, lower, transpose, over_axis, batch=None, vma=None, shown_as: str | None = None,
               sharding_rule: Callable = sharding_rules.same) -> Primitive:
    """A record for a collective that is linear in its first operand.

    `vma(varying, **params)` says over which axes the result differs, when the operand does over `varying`. Without `batch`
    it treats each element alike.
    """
    def transpose_rule(ct, x, *rest, **params):
        if type(ct) is Zero or not is_undefined(x):
            return [Zero(x.aval) if is_undefined(x) else None] + [None] * len(rest)
        return [transpose(ct, x.aval, *rest, **params)] + [None] * len(rest)

    def typed_abstract(*xs, **params):
        aval = abstract(*xs, **params)
        joint = frozenset().union(*(x.vma for x in xs))
        return aval.update(vma=joint if vma is None else vma(joint, **params), sharding=None)

    primitive = Primitive(name, abstract=typed_abstract, lower=lower, transpose=transpose_rule, shown_as=shown_as,
                          sharding_rule=sharding_rule)
    primitive.jvp = linear_jvp(primitive)
    primitive.batch = batch or each_alike(primitive)
    primitive.over_axis = over_axis
    primitive.own_vma = vma is not None
    return primitive


def each_alike(primitive: Primitive):
    def batch(_, operands, dims, **params):
        return primitive.bind(*operands, **params), dims[0]

    return batch


# Over an axis that `vmap` names


def others(names, name) -> tuple:
    """The axes but the mapped one."""
    return tuple(n for n in names_of(names) if n != name)


def places(names, name) -> tuple[tuple, tuple, int, int]:
    """The axes that count slower and faster than the mapped one, and how many elements there are along them."""
    names = names_of(names)
    at = names.index(name)
    before, after = names[:at], names[at + 1:]
    return before, after, math.prod([known_size(n) for n in before]), math.prod([known_size(n) for n in after])


def grouped(rule: Callable) -> Callable:
    """A rule for the whole axis as one that also knows groups of equal size."""
    def over_axis(trace, operands, dims, **params):
        groups = params.get("axis_index_groups")
        if groups is None:
            return rule(trace, operands, dims, **params)
        check_grouped(names_of(params.get("axes") or params.get("axis_name")))
        count, size = len(groups), len(groups[0])
        order = np.array([i for group in groups for i in group], np.int32)
        values = [x if d is None else _split_batch(x, d, order, (count, size)) for x, d in zip(operands, dims)]

        def of_group(*xs):
            results, out_dims = rule(_Mapped(size, trace.axis_name), xs, [None if d is None else 0 for d in dims], **(
                params | {"axis_index_groups": None}))
            return [broadcast_batch(results, out_dims, size)]

        outer = [None if d is None else 0 for d in dims]
        [result], [dim] = trace.map(of_group, values, outer, count)
        result = broadcast_batch(result, dim, count)
        shape = np.shape(result)
        return take_rows(reshape_to(result, (trace.size, *shape[2:])), np.argsort(order).astype(np.int32)), 0

    return over_axis


def check_grouped(names: tuple) -> None:
    if len(names) > 1:
        raise NotImplementedError(f"axis_index_groups over {axes_text(names)} are not supported where vmap maps one of the "
                                  "axes: work over that axis alone, or over mesh axes in a shard_map.")


class _Mapped:
    """The part of a batching trace that the rules read."""

    def __init__(self, size, axis_name):
        self.size, self.axis_name = size, axis_name


def _split_batch(x, dim, order, sizes):
    x = take_rows(move_dim(x, dim, 0), order)
    return reshape_to(x, (*sizes, *np.shape(x)[1:]))


# One's own place


def _index_lower(ctx, *, axis_name):
    positions, [where] = manual_mesh(ctx, (axis_name,))
    manual = ctx.module_context.manual_mesh
    if positions.shape[where] == 1:
        return ctx.constant(0, dtype=np.int32)
    if not manual.automatic():
        return coordinate(ctx, positions, where)
    # The number of the partition has a meaning only where no axis is left to the compiler.
    [index] = manual_computation(ctx, [], [], lambda body: [coordinate(body, positions, where)], [ctx.aval_out], [],
                                 [f"<@{manual.symbol}, []>"], manual.automatic())
    return index


axis_index_p = Primitive(
    "axis_index", lower=_index_lower, memoise=False,
    abstract=lambda *, axis_name: ShapedArray((), np.dtype(np.int32), vma=tracing.checked_axes() & {axis_name}))
axis_index_p.jvp = lambda primals, tangents, *, axis_name: (
    axis_index_p.bind(axis_name=axis_name), Zero(ShapedArray((), dtypes.float0)))
axis_index_p.over_axis = lambda trace, operands, dims, *, axis_name: (
    counting(dtypes.int32, (trace.size,), 0), 0)


def axis_index(axis_name: Hashable) -> Array:
    """One's own index along a named axis.

    - `axis_name`: the name; or several, along which places are counted with the last fastest.

    >>> xf.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(xnp.array([10, 10, 10]))
    Array([10, 11, 12], dtype=int32)
    """
    names, _ = named(axis_name, "axis_index")
    index: Any = None
    for name in names:
        here = axis_index_p.bind(axis_name=name)
        index = here if index is None else add(mul(index, np.int32(size_of(name, "axis_index"))), here)
    return np.int32(0) if index is None else index
