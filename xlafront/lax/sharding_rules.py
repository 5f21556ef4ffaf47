"""How results are split over explicit mesh axes: the `sharding_rule`s of primitives' records (`core.sharding_types`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlafront.core.errors import ShardingTypeError
from xlafront.core.sharding_types import Operands, texts
from xlafront.runtime.specs import axes_of


def merge(name: str, operands: Operands, entries: Sequence[Any]):
    """The axes of a dimension that several operands have."""
    found = None
    for entry in entries:
        if entry is not None and found is not None and entry != found:
            raise ShardingTypeError(
                f"{name} got operands whose dimensions are split differently: {texts(operands)} ({found!r} and {entry!r}). "
                f"Bring one of them to the sharding of the other with reshard.")
        found = entry if found is None else found
    return found


def elementwise(name, operands, result, params):
    full = [(aval, entries) for aval, entries in operands if aval.ndim == result.ndim]
    return [merge(name, operands, [e[i] for aval, e in full if aval.shape[i] == result.shape[i]]) for i in range(result.ndim)]


def same(name, operands, result, params):
    return operands[0][1]


def reduced(name, operands, result, params):
    axes = params["axes"] if "axes" in params else params["dimensions"]
    return _drop(elementwise(name, operands, operands[0][0], params), axes)


def _drop(entries, axes):
    return [e for i, e in enumerate(entries) if i not in axes]


def along(parameter: str):
    def rule(name, operands, result, params):
        entries = elementwise(name, operands, result, params)
        axis = params[parameter]
        split = next((own[axis] for _, own in operands if own[axis] is not None), None)
        if split is not None:
            raise ShardingTypeError(f"{name} along dimension {axis} of {texts(operands)}, a sharded dimension, which is split "
                                    f"over {split!r}: it must be unsharded, as it needs whole rows. Bring it to a "
                                    "sharding that leaves that dimension whole, with reshard.")
        return entries

    return rule


def windows(name, operands, result, params):
    """Split as the operands are, whose rows meet at the borders. Windows and transforms of real numbers change sizes."""
    arrays = [(aval, entries) for aval, entries in operands if aval.ndim == result.ndim]
    aval = next(a for a, _ in arrays if a.explicit_sharding is not None)
    entries = [merge(name, operands, each) for each in zip(*[own for _, own in arrays])]
    for axis, entry in enumerate(entries):
        if entry is not None and result.shape[axis] % _parts(aval.explicit_sharding.mesh, entry):
            raise ShardingTypeError(f"{name} along dimension {axis} of {texts(operands)}, which is split over {entry!r}, gives "
                                    f"one of size {result.shape[axis]}, which is not evenly divisible. Bring the operand to a "
                                    f"sharding that leaves that dimension whole, with reshard.")
    return entries


def second(name, operands, result, params):
    return operands[1][1]


def broadcast(name, operands, result, params):
    [(aval, entries)] = operands
    found: list = [None] * result.ndim
    for i, d in enumerate(params["broadcast_dimensions"]):
        if aval.shape[i] == result.shape[d]:
            found[d] = entries[i]
    return found


def transpose(name, operands, result, params):
    return [operands[0][1][d] for d in params["permutation"]]


def tile(name, operands, result, params):
    """Only whole dimensions are laid down several times."""
    for i, (entry, n) in enumerate(zip(operands[0][1], params["reps"])):
        if entry is not None and n != 1:
            raise ShardingTypeError(f"tile of {texts(operands)} {n} times along the sharded dimension {i}, which is split over "
                                    f"{entry!r}: it needs whole rows. Bring it to a sharding that leaves that dimension whole, "
                                    f"with reshard.")
    return operands[0][1]


def roll(name, operands, result, params):
    """The two parts that change places must be split as the whole is."""
    [(aval, entries)] = operands
    d, entry = params["dimension"], entries[params["dimension"]]
    if entry is not None and params["shift"] % _parts(aval.explicit_sharding.mesh, entry):
        _refuse_part(name, operands, result, f"its sharded dimension {d} is split over {entry!r}, and a part of size "
                                             f"{params['shift']} cannot be")
    return entries


def update(name, operands, result, params):
    """What is written into an array is split as the array is."""
    (x, entries), (written, own) = operands[:2]
    if tuple(entries) != tuple(own):
        raise ShardingTypeError(f"{name} of {texts(operands)}: what is written must be split as the array is. Use "
                                f"x.at[...].set(values, out_sharding=P(...)), or bring one to the sharding of the other with "
                                f"reshard.")
    return entries


def squeeze(name, operands, result, params):
    return _drop(operands[0][1], params["dimensions"])


def _parts(mesh, entry) -> int:
    return math.prod([mesh.shape[a] for a in axes_of(entry)])


def resized(name, operands, result, params):
    """Slices and padding: a dimension keeps its axes where these divide its new size."""
    aval, entries = operands[0]
    for i, entry in enumerate(entries):
        if entry is not None and aval.shape[i] != result.shape[i] and result.shape[i] % _parts(aval.explicit_sharding.mesh,
                                                                                               entry):
            _refuse_part(name, operands, result, f"its dimension {i} is split over {entry!r}, and a part of size "
                                                 f"{result.shape[i]} cannot be")
    return entries


def _refuse_part(name, operands, result, why: str):
    raise ShardingTypeError(f"{name} of {texts(operands)} with a result of shape {result.shape} is ambiguous, as it works on "
                            f"a sharded dimension: {why}. Say how the result is split with "
                            "x.at[...].get(out_sharding=P(...)), or bring x to another sharding with reshard first.")


def concatenate(name, operands, result, params):
    for _, entries in operands[1:]:
        if tuple(entries) != tuple(operands[0][1]):
            raise ShardingTypeError(f"concatenate needs operands that are split in one way, got {texts(operands)}. Bring them "
                                    f"to one sharding with reshard.")
    return operands[0][1]


def reshape(name, operands, result, params):
    """Dimensions of size 1 come and go; besides, one dimension may be cut into several, or several joined to one."""
    [(aval, entries)] = operands
    old, new = aval.shape, result.shape
    if 0 in old or all(e is None for e in entries):
        return [None] * len(new)
    if [n for n in old if n != 1] == [n for n in new if n != 1]:
        kept = iter([e for n, e in zip(old, entries) if n != 1])
        return [None if n == 1 else next(kept) for n in new]
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    last = next((i for i in range(shorter - first) if old[-1 - i] != new[-1 - i]), shorter - first)
    before, after = entries[first:len(old) - last], new[first:len(new) - last]
    mesh = aval.explicit_sharding.mesh
    if not any(map(axes_of, before)):
        middle: list | None = [None] * len(after)
    elif len(before) == 1:
        middle = _dealt_out(mesh, axes_of(before[0]), after)
    else:
        middle = _joined(mesh, [axes_of(e) for e in before], after)
    if middle is None:
        raise ShardingTypeError(f"reshape of {aval} to {new} is ambiguous: it is not supported to cut or join these "
                                f"sharded dimensions without being told how the result is split. Say so with "
                                f"out_sharding=P(...).")
    return [*entries[:first], *middle, *entries[len(old) - last:]]


def _dealt_out(mesh, axes: tuple, sizes: tuple) -> list | None:
    """The axes of one dimension over those that it is cut into: each gets what divides it, and is used up before the next."""
    found: list = []
    left = list(axes)
    for n in sizes:
        taken: list = []
        parts = 1
        while left and n % (parts * mesh.shape[left[0]]) == 0:
            parts *= mesh.shape[left[0]]
            taken.append(left.pop(0))
        if left and parts != n:
            return None
        found.append(tuple(taken))
    return None if left else found


def _joined(mesh, axes: list[tuple], sizes: tuple) -> list | None:
    """The axes of dimensions that become one: they must come from its leading ones."""
    joint = tuple(a for names in axes for a in names)
    leading = all(axes[k] or not any(axes[k:]) for k in range(len(axes)))
    return [joint] if leading and len(sizes) == 1 and sizes[0] % _parts(mesh, joint) == 0 else None


def dot_general(name, operands, result, params):
    (x, xs), (y, ys) = operands
    (xc, yc), (xb, yb) = params["dimension_numbers"]
    for i, j in zip(xc, yc):
        if xs[i] is not None and ys[j] is not None:
            raise ShardingTypeError(
                f"the product of {texts(operands)} sums over contracting dimensions that are sharded, over {xs[i]!r} and "
                f"{ys[j]!r}, and it is ambiguous how the result should be split. Say so with out_sharding=P(...), or bring an "
                "operand to another sharding with reshard.")
    batch = [merge("dot_general", operands, [xs[i], ys[j]]) for i, j in zip(xb, yb)]
    return [*batch, *_drop(xs, (*xc, *xb)), *_drop(ys, (*yc, *yb))]


def convolution(name, operands, result, params):
    """The batch and the places keep their axes; how features would be split is for the user to say."""
    (x, xs), (_, ys) = operands
    lhs, _, out = params["dimension_numbers"]
    if xs[lhs[1]] is not None or any(e is not None for e in ys):
        raise ShardingTypeError(f"the convolution of {texts(operands)} has features or a kernel that are split, and it is "
                                f"ambiguous how the result should be. Say so with out_sharding=P(...).")
    found: list = [None] * result.ndim
    for i, j in zip((lhs[0], *lhs[2:]), (out[0], *out[2:])):
        found[j] = xs[i]
        if xs[i] is not None and result.shape[j] % _parts(x.explicit_sharding.mesh, xs[i]):
            _refuse_part(name, operands, result, f"dimension {i} of the input is split over {xs[i]!r}, and one of size "
                                                 f"{result.shape[j]} cannot be")
    return found


def gather(name, operands, result, params):
    (x, entries), (_, indexed) = operands
    dn, sizes = params["dimension_numbers"], params["slice_sizes"]
    for d in range(x.ndim):
        if entries[d] is not None and sizes[d] != x.shape[d] and d not in dn.operand_batching_dims:
            _refuse_part("indexing", operands, result, f"dimension {d} is split over {entries[d]!r}, and parts of it are taken")
    if dn.collapsed_slice_dims:  # (else it is a slice for each element of a batch, which is split as the batch is)
        places = [d for d in range(len(indexed) - 1) if d not in dn.start_indices_batching_dims]
        _refuse_split_places("indexing", operands, 1, places, "x.at[...].get(out_sharding=P(...))")
    windows = iter([entries[d] for d in range(x.ndim) if d not in (*dn.collapsed_slice_dims, *dn.operand_batching_dims)])
    merged = list(indexed[:-1])
    for d, i in zip(dn.operand_batching_dims, dn.start_indices_batching_dims):
        merged[i] = merge("indexing", operands, [entries[d], merged[i]])
    batch = iter(merged)
    return [next(windows) if i in dn.offset_dims else next(batch) for i in range(result.ndim)]


def _refuse_split_places(name, operands, number: int, dims, remedy: str):
    """Positions of which each device knows a part would take or change elements on all of them."""
    split = next((entry for d in dims if (entry := operands[number][1][d]) is not None), None)
    if split is not None:
        raise ShardingTypeError(f"{name} of {texts(operands)} with positions that are split over {split!r} is ambiguous. Say "
                                f"how the result is split with {remedy}, or bring them to another sharding with reshard.")


def scatter(name, operands, result, params):
    x, entries = operands[0]
    dn = params["dimension_numbers"]
    entries = list(entries)
    if dn.inserted_window_dims:
        batching, remedy = dn.scatter_indices_batching_dims, "x.at[...].set(..., out_sharding=P(...))"
        rows = [d for d in range(operands[2][0].ndim) if d not in dn.update_window_dims]
        places = [i for i in range(len(rows)) if i not in batching]
        _refuse_split_places(name, operands, 1, places, remedy)
        _refuse_split_places(name, operands, 2, [rows[i] for i in places], remedy)
    for d, i in zip(dn.operand_batching_dims, dn.scatter_indices_batching_dims):
        entries[d] = merge(name, operands, [entries[d], operands[1][1][i]])
    for d in dn.scatter_dims_to_operand_dims:
        if entries[d] is not None:
            raise ShardingTypeError(f"an update of {texts(operands)} at indices of dimension {d}, which is split over "
                                    f"{entries[d]!r}, is ambiguous. Bring the array to a sharding that leaves that dimension "
                                    f"whole, with reshard, or update it in a function of auto_axes.")
    return entries


def words(name, operands, result, params):
    """Where elements become several, or several one, along a last dimension."""
    [(_, entries)] = operands
    return (*entries, *[None] * result.ndim)[:result.ndim]


def all_gather(name, operands, result, params):
    entries, d = operands[0][1], params["all_gather_dimension"]
    return entries if params["tiled"] else (*entries[:d], None, *entries[d:])


def reduce_scatter(name, operands, result, params):
    return operands[0][1] if params["tiled"] else _drop(operands[0][1], (params["scatter_dimension"],))


def whole(name, operands, result, params):
    """Operations on arrays that no mesh axis splits."""
    split = next((e for _, entries in operands for e in entries if e is not None), None)
    if split is not None:
        raise ShardingTypeError(f"{name} of {texts(operands)} needs whole arrays, and one is split over {split!r}. Say how the "
                                f"result is split with out_sharding=P(...), or bring it to a whole one with reshard.")
    return [None] * result.ndim
