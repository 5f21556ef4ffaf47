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
        if entries[axis] is not None:
            raise ShardingTypeError(f"{name} along dimension {axis} of {texts(operands)}, a sharded dimension, which is split "
                                    f"over {entries[axis]!r}: it must be unsharded, as it needs whole rows. Bring it to a "
                                    "sharding that leaves that dimension whole, with reshard.")
        return entries

    return rule


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
    """Dimensions that are laid down once stay as they are; the others come whole."""
    return [e if n == 1 else None for e, n in zip(operands[0][1], params["reps"])]


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


def _groups(old: tuple, new: tuple):
    """Runs of dimensions before and after a reshape that hold the same elements."""
    i = j = 0
    while i < len(old) or j < len(new):
        first, second = i, j
        a, b = (old[i] if i < len(old) else 1), (new[j] if j < len(new) else 1)
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while a != b:
            if a < b:
                a, i = a * old[i], i + 1
            else:
                b, j = b * new[j], j + 1
        yield range(first, i), range(second, j)


def reshape(name, operands, result, params):
    [(aval, entries)] = operands
    found: list = [None] * result.ndim
    if 0 in aval.shape or all(e is None for e in entries):
        return found
    old = [i for i in range(aval.ndim) if aval.shape[i] != 1]
    new = [j for j in range(result.ndim) if result.shape[j] != 1]
    for before, after in _groups(tuple(aval.shape[i] for i in old), tuple(result.shape[j] for j in new)):
        axes = [axes_of(entries[old[i]]) for i in before]
        if not any(axes):
            continue
        mesh, target = aval.explicit_sharding.mesh, new[after[0]] if len(after) else None
        # Axes of dimensions that become one must come from its leading ones; those of one that is cut go to the first part.
        leading = all(axes[k] or not any(axes[k:]) for k in range(len(axes)))
        joint = tuple(a for names in axes for a in names)
        fits = target is not None and result.shape[target] % _parts(mesh, joint) == 0
        if not (leading and fits and (len(before) == 1 or len(after) == 1)):
            raise ShardingTypeError(f"reshape of {aval} to {result.shape} is not supported, it is ambiguous: the axes {joint} "
                                    "split sharded dimensions that do not stay together. Say how the result is split with "
                                    "out_sharding=P(...).")
        found[target] = joint
    return found


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


def gather(name, operands, result, params):
    (x, entries), (_, indexed) = operands
    dn, sizes = params["dimension_numbers"], params["slice_sizes"]
    for d in range(x.ndim):
        if entries[d] is not None and sizes[d] != x.shape[d] and d not in dn.operand_batching_dims:
            _refuse_part("indexing", operands, result, f"dimension {d} is split over {entries[d]!r}, and parts of it are taken")
    windows = iter([entries[d] for d in range(x.ndim) if d not in (*dn.collapsed_slice_dims, *dn.operand_batching_dims)])
    merged = list(indexed[:-1])
    for d, i in zip(dn.operand_batching_dims, dn.start_indices_batching_dims):
        merged[i] = merge("indexing", operands, [entries[d], merged[i]])
    batch = iter(merged)
    return [next(windows) if i in dn.offset_dims else next(batch) for i in range(result.ndim)]


def scatter(name, operands, result, params):
    x, entries = operands[0]
    dn = params["dimension_numbers"]
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
