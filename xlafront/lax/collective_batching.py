"""What each collective is over an axis that `vmap` names: an ordinary operation on the batch.

Where a collective works over several axes, the one that is mapped here becomes a dimension and the rest remain. With
`axis_index_groups` the mapped axis is taken as two: the groups, and the places in a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlafront.core import tracing
from xlafront.core.primitive import Primitive
from xlafront.lax.collective_primitives import (
    all_gather_invariant_p,
    all_gather_p,
    all_to_all_p,
    axis_index_p,
    names_of,
    pbroadcast_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_invariant_p,
    psum_p,
    psum_scatter_p,
    pvary_p,
)
from xlafront.lax.reductions import PRIMITIVES as REDUCTIONS
from xlafront.lax.shapes import broadcast_in_dim_p, move_dim, permute, reshape_to


def _rest(names, name) -> tuple:
    return tuple(n for n in names_of(names) if n != name)


def _known_size(name) -> int:
    return next(size for known, size in reversed(tracing.thread.axes) if known == name)


def _batch(x, dim, size):
    """The operand with its batch dimension first; one is made where all elements are the same."""
    from xlafront.transforms.batching.vmap import place_axis

    return place_axis(x, dim, 0, size)


def _take(x, indices, axis: int = 0):
    from xlafront.numpy.indexing import take

    return take(x, np.asarray(indices, np.int32), axis=axis)


# Groups


def _grouped(rule: Callable) -> Callable:
    """A rule for the whole axis as one that also knows groups of equal size."""
    def over_axis(trace, operands, dims, **params):
        groups = params.get("axis_index_groups")
        if groups is None:
            return rule(trace, operands, dims, **params)
        from xlafront.transforms.batching.vmap import batch_flat

        count, size = len(groups), len(groups[0])
        order = [i for group in groups for i in group]
        values = [x if d is None else _split_batch(x, d, order, (count, size)) for x, d in zip(operands, dims)]

        def of_group(*xs):
            inner = _Mapped(size, trace.axis_name)
            results, out_dims = rule(inner, xs, [None if d is None else 0 for d in dims], **(
                params | {"axis_index_groups": None}))
            return [_batch(results, out_dims, size)]

        outer = [None if d is None else 0 for d in dims]
        [result], [dim] = batch_flat(of_group, values, outer, count)
        result = _batch(result, dim, count)
        shape = np.shape(result)
        return _take(reshape_to(result, (trace.size, *shape[2:])), np.argsort(order)), 0

    return over_axis


class _Mapped:
    """The part of a batching trace that the rules read."""

    def __init__(self, size, axis_name):
        self.size, self.axis_name = size, axis_name


def _split_batch(x, dim, order, sizes):
    x = _take(move_dim(x, dim, 0), order)
    return reshape_to(x, (*sizes, *np.shape(x)[1:]))


# Reductions


def _reduction(primitive: Primitive, reduction: str, repeats: bool) -> Callable:
    def whole(trace, operands, dims, *, axes, axis_index_groups=None):
        [x], [d] = operands, dims
        if d is None:
            if repeats:
                from xlafront.lax.elementwise import mul

                aval = tracing.aval_of(x)
                count = np.asarray(trace.size).astype(aval.dtype)[()]
                x = mul(x, count.item() if aval.weak_type else count)
        else:
            x = REDUCTIONS[reduction].bind(x, axes=(d,), out_sharding=None)
        rest = _rest(axes, trace.axis_name)
        if rest:
            x = primitive.bind(x, axes=rest, **({} if primitive is psum_invariant_p else {"axis_index_groups": None}))
        return x, None

    equal = _grouped(whole)

    def over_axis(trace, operands, dims, *, axes, axis_index_groups=None):
        params = {"axes": axes, "axis_index_groups": axis_index_groups}
        if axis_index_groups is None or len({len(g) for g in axis_index_groups}) == 1:
            return equal(trace, operands, dims, **params)
        from xlafront.lax.shapes import concatenate

        x = _batch(operands[0], dims[0], trace.size)
        totals = [REDUCTIONS[reduction].bind(_take(x, group), axes=(0,), out_sharding=None) for group in axis_index_groups]
        stacked = concatenate([reshape_to(t, (1, *np.shape(t))) for t in totals], 0)
        group_of = np.empty(trace.size, np.int32)
        for number, group in enumerate(axis_index_groups):
            group_of[list(group)] = number
        return _take(stacked, group_of), 0

    return over_axis


psum_p.over_axis = _reduction(psum_p, "reduce_sum", True)
psum_invariant_p.over_axis = _reduction(psum_invariant_p, "reduce_sum", True)
pmax_p.over_axis = _reduction(pmax_p, "reduce_max", False)
pmin_p.over_axis = _reduction(pmin_p, "reduce_min", False)


def _vary(trace, operands, dims, *, axes):
    rest = _rest(axes, trace.axis_name)
    return pvary_p.bind(operands[0], axes=rest) if rest else operands[0], dims[0]


pvary_p.over_axis = _vary


# Gathering and scattering. `before` and `after` are the axes that count slower and faster than the mapped one.


def _places(names, name) -> tuple[tuple, tuple, int, int]:
    names = names_of(names)
    at = names.index(name)
    before, after = names[:at], names[at + 1:]
    return before, after, math.prod([_known_size(n) for n in before]), math.prod([_known_size(n) for n in after])


def _gather(primitive: Primitive) -> Callable:
    def over_axis(trace, operands, dims, *, axis_name, all_gather_dimension, axis_size, axis_index_groups, tiled):
        [x], [d] = operands, dims
        before, after, slow, fast = _places(axis_name, trace.axis_name)
        x = _batch(x, d, trace.size)
        at = all_gather_dimension
        x = move_dim(x, 0, at)  # before the dimension that is joined to, or as the new one
        if before or after:
            x = primitive.bind(x, axis_name=before + after, all_gather_dimension=at, axis_size=slow * fast,
                               axis_index_groups=None, tiled=False)
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:at], slow, fast, *shape[at + 1:]))
            order = list(range(np.ndim(x)))
            order[at + 1], order[at + 2] = at + 2, at + 1
            x = permute(x, order)
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:at], slow * trace.size * fast, *shape[at + 3:]))
        if tiled:
            shape = np.shape(x)
            x = reshape_to(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2:]))
        return x, None

    return over_axis


all_gather_p.over_axis = _grouped(_gather(all_gather_p))
all_gather_invariant_p.over_axis = _gather(all_gather_invariant_p)


def _scatter(trace, operands, dims, *, axis_name, scatter_dimension, axis_size, axis_index_groups, tiled):
    before, after, slow, fast = _places(axis_name, trace.axis_name)
    total, _ = psum_p.over_axis(trace, operands, dims, axes=(trace.axis_name,), axis_index_groups=None)
    shape, at = np.shape(total), scatter_dimension
    part = shape[at] // axis_size
    if not (before or after):
        if tiled:
            total = reshape_to(total, (*shape[:at], trace.size, part, *shape[at + 1:]))
        return total, at
    x = reshape_to(total, (*shape[:at], slow, trace.size, fast, part, *shape[at + 1:]))
    x = move_dim(x, at + 1, 0)
    x = reshape_to(x, (trace.size, *shape[:at], slow * fast * part, *shape[at + 1:]))
    x = psum_scatter_p.bind(x, axis_name=before + after, scatter_dimension=at + 1, axis_size=slow * fast,
                            axis_index_groups=None, tiled=tiled)
    return x, 0


psum_scatter_p.over_axis = _grouped(_scatter)


# Exchanging


def _exchange(trace, operands, dims, *, axis_name, split_axis, concat_axis, axis_size, axis_index_groups):
    before, after, slow, fast = _places(axis_name, trace.axis_name)
    x = _batch(operands[0], dims[0], trace.size)
    n, shape = trace.size, np.shape(x)[1:]
    part = shape[split_axis] // axis_size
    # Dimensions: the sender, then those of the element with the split one as (slow, receiver, fast, part).
    x = reshape_to(x, (n, *shape[:split_axis], slow, n, fast, part, *shape[split_axis + 1:]))
    receiver = split_axis + 2
    rest = [i for i in range(1, np.ndim(x)) if i != receiver]
    # The sender counts slower than what it sends: it goes before the dimension that it is joined to.
    if concat_axis == split_axis:
        where = rest.index(split_axis + 4)
    else:
        where = rest.index(concat_axis + 1 if concat_axis < split_axis else concat_axis + 4)
    rest.insert(where, 0)
    x = permute(x, [receiver, *rest])
    full = list(shape)
    full[split_axis] = slow * fast * part
    full[concat_axis] *= n
    x = reshape_to(x, (n, *full))
    if not (before or after):
        return x, 0
    x = all_to_all_p.bind(x, axis_name=before + after, split_axis=split_axis + 1, concat_axis=concat_axis + 1,
                          axis_size=slow * fast, axis_index_groups=None)
    at = concat_axis + 1
    shape = np.shape(x)
    inner = shape[at] // (slow * fast * n)
    x = reshape_to(x, (*shape[:at], slow, fast, n, inner, *shape[at + 1:]))
    order = list(range(np.ndim(x)))
    order[at + 1], order[at + 2] = at + 2, at + 1
    return reshape_to(permute(x, order), shape), 0


all_to_all_p.over_axis = _grouped(_exchange)


def _permute(trace, operands, dims, *, axis_name, perm):
    from xlafront.lax.creation import full_like
    from xlafront.lax.elementwise import select_n

    [x], [d] = operands, dims
    size = trace.size * math.prod([_known_size(n) for n in _rest(axis_name, trace.axis_name)])
    source = np.full(size, -1, np.int32)
    for s, t in perm:
        source[t] = s
    if len(names_of(axis_name)) > 1:
        # The places along the other axes are not known here: get all values, and take the one from the right place.
        gathered, _ = all_gather_p.over_axis(trace, operands, dims, axis_name=axis_name, all_gather_dimension=0,
                                             axis_size=size, axis_index_groups=None, tiled=False)
        return _by_index(trace, axis_name, lambda at: _select_source(gathered, source, at))
    if d is None and (source >= 0).all():
        return x, None
    x = _batch(x, d, trace.size)
    taken = _take(x, np.maximum(source, 0))
    if (source >= 0).all():
        return taken, 0
    arrives = broadcast_in_dim_p.bind(np.asarray(source >= 0), shape=np.shape(taken), broadcast_dimensions=(0,),
                                      sharding=None)
    return select_n(arrives, full_like(taken, 0), taken), 0


def _by_index(trace, axis_name, function):
    """`function` of one's place along several axes, one of which is mapped here."""
    from xlafront.lax.creation import iota
    from xlafront.transforms.batching.vmap import batch_flat

    here = iota(np.dtype(np.int32), trace.size)

    def of_place(place):
        index = None
        for name in names_of(axis_name):
            step = place if name == trace.axis_name else axis_index_p.bind(axis_name=name)
            size = trace.size if name == trace.axis_name else _known_size(name)
            index = step if index is None else index * np.int32(size) + step
        return [function(index)]

    [result], [dim] = batch_flat(of_place, [here], [0], trace.size)
    return result, dim


def _select_source(gathered, source, at):
    from xlafront.lax.creation import full_like
    from xlafront.lax.elementwise import select_n
    from xlafront.lax.shapes import dynamic_index_in_dim

    origin = dynamic_index_in_dim(source, at, 0, keepdims=False)
    value = dynamic_index_in_dim(gathered, origin * (origin >= 0), 0, keepdims=False)
    return select_n(origin >= 0, full_like(value, 0), value)


ppermute_p.over_axis = _permute


def _broadcast(trace, operands, dims, *, axis_name, source):
    from xlafront.lax.shapes import index_in_dim

    [x], [d] = operands, dims
    before, after, slow, fast = _places(axis_name, trace.axis_name)
    own = source // fast % trace.size
    if d is not None:
        x = index_in_dim(x, own, d, keepdims=False)
    if before or after:
        x = pbroadcast_p.bind(x, axis_name=before + after, source=source // (fast * trace.size) * fast + source % fast)
    return x, None


pbroadcast_p.over_axis = _broadcast


def _index(trace, operands, dims, *, axis_name):
    from xlafront.lax.creation import iota

    return iota(np.dtype(np.int32), trace.size), 0


axis_index_p.over_axis = _index
