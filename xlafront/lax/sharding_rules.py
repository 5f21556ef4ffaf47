"""Sharding rules of primitives: how results are sharded over explicit mesh axes (`core.sharding_types`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from xlafront.base.specs import axes_of
from xlafront.core.errors import ShardingTypeError
from xlafront.core.sharding_types import Operands, texts

if TYPE_CHECKING:
    from xlafront.base.meshes import AbstractMesh
    from xlafront.core.avals import ShapedArray
    from xlafront.core.typing import Params


def merge(name: str, operands: Operands, entries: Sequence[Any]) -> Any:
    """Return the mesh axes of a dimension that several operands share. Raise an error if they differ."""
    merged = None
    for entry in entries:
        if entry is not None and merged is not None and entry != merged:
            raise ShardingTypeError(
                f"{name} got operands whose dimensions are split differently: {texts(operands)} ({merged!r} and {entry!r}). "
                f"Reshard one of them to the sharding of the other, with reshard.")
        merged = entry if merged is None else merged
    return merged


def elementwise(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    arrays = [(aval, entries) for aval, entries in operands if aval.ndim == result.ndim]
    return [merge(name, operands, [e[i] for aval, e in arrays if aval.shape[i] == result.shape[i]]) for i in range(result.ndim)]


def same(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    return operands[0][1]


def reduced(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    axes = params["axes"] if "axes" in params else params["dimensions"]
    return _drop_dims(elementwise(name, operands, operands[0][0], params), axes)


def _drop_dims(entries: Sequence[Any], axes: Collection[int]) -> list[Any]:
    return [e for i, e in enumerate(entries) if i not in axes]


def along(parameter: str) -> Callable:
    def rule(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
        entries = elementwise(name, operands, result, params)
        axis = params[parameter]
        axes = next((entries_of[axis] for _, entries_of in operands if entries_of[axis] is not None), None)
        if axes is not None:
            raise ShardingTypeError(f"{name} along dimension {axis} of {texts(operands)}, a sharded dimension, over {axes!r}: "
                                    f"it must be unsharded, since {name} needs entire rows. Unshard it first, with reshard.")
        return entries

    return rule


def windows(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Shard the result as the operands, if that divides its size, which windows and transforms of real numbers change."""
    arrays = [(aval, entries) for aval, entries in operands if aval.ndim == result.ndim]
    aval = next(a for a, _ in arrays if a.explicit_sharding is not None)
    entries = [merge(name, operands, each) for each in zip(*[entries_of for _, entries_of in arrays])]
    for axis, entry in enumerate(entries):
        if entry is not None and result.shape[axis] % _num_shards(aval.explicit_sharding.mesh, entry):
            raise ShardingTypeError(f"{name} along dimension {axis} of {texts(operands)}, which is sharded over {entry!r}, has "
                                    f"a result of size {result.shape[axis]}, which is not evenly divisible. Unshard that "
                                    f"dimension of the operand first, with reshard.")
    return entries


def same_as_second(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    return operands[1][1]


def broadcast(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    [(aval, entries)] = operands
    result_entries: list = [None] * result.ndim
    for i, d in enumerate(params["broadcast_dimensions"]):
        if aval.shape[i] == result.shape[d]:
            result_entries[d] = entries[i]
    return result_entries


def transpose(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    return [operands[0][1][d] for d in params["permutation"]]


def tile(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Allow only unsharded dimensions to be repeated."""
    for i, (entry, n) in enumerate(zip(operands[0][1], params["reps"])):
        if entry is not None and n != 1:
            raise ShardingTypeError(f"tile of {texts(operands)} {n} times along the sharded dimension {i}, which is sharded "
                                    f"over {entry!r}, is not supported. Unshard that dimension first, with reshard.")
    return operands[0][1]


def roll(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Require the two exchanged blocks to be divisible as the dimension is."""
    [(aval, entries)] = operands
    d, entry = params["dimension"], entries[params["dimension"]]
    if entry is not None and params["shift"] % _num_shards(aval.explicit_sharding.mesh, entry):
        _raise_ambiguous(name, operands, result, f"its sharded dimension {d} is sharded over {entry!r}, and a part of size "
                                                 f"{params['shift']} cannot be")
    return entries


def update(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Require an update to have the sharding of the array."""
    (x, entries), (updates, update_entries) = operands[:2]
    if tuple(entries) != tuple(update_entries):
        raise ShardingTypeError(f"{name} of {texts(operands)}: the update must have the sharding of the array. Use "
                                f"x.at[...].set(values, out_sharding=P(...)), or reshard one to the sharding of the other.")
    return entries


def squeeze(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    return _drop_dims(operands[0][1], params["dimensions"])


def _num_shards(mesh: AbstractMesh, entry: Any) -> int:
    return math.prod([mesh.shape[a] for a in axes_of(entry)])


def resized(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Keep the axes of sliced and padded dimensions whose new size they divide. All devices get a single element."""
    aval, entries = operands[0]
    remaining = list(entries)
    for i, entry in enumerate(entries):
        if entry is not None and aval.shape[i] != result.shape[i] and result.shape[i] % _num_shards(aval.explicit_sharding.mesh,
                                                                                               entry):
            if math.prod(result.shape) != 1:
                _raise_ambiguous(name, operands, result, f"its dimension {i} is sharded over {entry!r}, and a part of size "
                                                         f"{result.shape[i]} cannot be")
            remaining[i] = None
    return remaining


def _raise_ambiguous(name: str, operands: Operands, result: ShapedArray, reason: str) -> NoReturn:
    raise ShardingTypeError(f"{name} of {texts(operands)} with a result of shape {result.shape} is ambiguous, as it works on "
                            f"a sharded dimension: {reason}. Give the sharding of the result with "
                            "x.at[...].get(out_sharding=P(...)), or change the sharding of x first, with reshard.")


def concatenate(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Require one sharding of all operands that are sharded. The others are sharded as they, without communication."""
    shardings = {tuple(entries): None for _, entries in operands if any(map(axes_of, entries))}
    if len(shardings) > 1:
        raise ShardingTypeError(f"concatenate needs operands of one sharding, got {texts(operands)}. Reshard them to one "
                                f"sharding, with reshard.")
    return next(iter(shardings), operands[0][1])


def reshape(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Shard the result of a reshape that splits one dimension into several or joins several, beside dimensions of size 1."""
    [(aval, entries)] = operands
    if 0 in aval.shape or all(e is None for e in entries):
        return [None] * result.ndim
    old, new = ([n for n in shape if n != 1] for shape in (aval.shape, result.shape))
    resized = iter(_resized_entries(aval, old, [e for n, e in zip(aval.shape, entries) if n != 1], new, result.shape))
    return [None if n == 1 else next(resized) for n in result.shape]


def _resized_entries(aval: ShapedArray, old: Sequence[int], entries: Sequence[Any], new: Sequence[int], shape: tuple) -> list:
    """Return the entries of a reshaped array of type `aval`, from those of its dimensions that are longer than 1."""
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    last = next((i for i in range(shorter - first) if old[-1 - i] != new[-1 - i]), shorter - first)
    before, after = entries[first:len(old) - last], new[first:len(new) - last]
    mesh = aval.explicit_sharding.mesh
    if not any(map(axes_of, before)):
        middle: list | None = [None] * len(after)
    elif len(before) == 1:
        middle = _split_axes_over(mesh, axes_of(before[0]), after)
    else:
        middle = _join_axes(mesh, [axes_of(e) for e in before], after)
    if middle is None:
        raise ShardingTypeError(f"reshape of {aval} to {shape} is ambiguous: splitting or joining these sharded dimensions is "
                                f"not supported without the sharding of the result. Pass it as out_sharding=P(...).")
    return [*entries[:first], *middle, *entries[len(old) - last:]]


def _split_axes_over(mesh: AbstractMesh, axes: tuple, sizes: tuple) -> list | None:
    """Distribute the mesh axes of one dimension over those it is split into, each fully sharded before the next."""
    result: list = []
    left = list(axes)
    for n in sizes:
        taken: list = []
        num_shards = 1
        while left and n % (num_shards * mesh.shape[left[0]]) == 0:
            num_shards *= mesh.shape[left[0]]
            taken.append(left.pop(0))
        if left and num_shards != n:
            return None
        result.append(tuple(taken))
    return None if left else result


def _join_axes(mesh: AbstractMesh, axes: list[tuple], sizes: tuple) -> list | None:
    """Return the mesh axes of joined dimensions: only the leading ones may be sharded."""
    joined = tuple(a for names in axes for a in names)
    leading = all(axes[k] or not any(axes[k:]) for k in range(len(axes)))
    return [joined] if leading and len(sizes) == 1 and sizes[0] % _num_shards(mesh, joined) == 0 else None


def dot_general(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    (x, xs), (y, ys) = operands
    (xc, yc), (xb, yb) = params["dimension_numbers"]
    for i, j in zip(xc, yc):
        if xs[i] is not None and ys[j] is not None:
            raise ShardingTypeError(
                f"the product of {texts(operands)} sums over contracting dimensions that are sharded, over {xs[i]!r} and "
                f"{ys[j]!r}, and the sharding of the result is ambiguous. Pass it as out_sharding=P(...), or change the "
                "sharding of an operand with reshard.")
    batch = [merge("dot_general", operands, [xs[i], ys[j]]) for i, j in zip(xb, yb)]
    return [*batch, *_drop_dims(xs, (*xc, *xb)), *_drop_dims(ys, (*yc, *yb))]


def convolution(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Keep the axes of batch and spatial dimensions. The sharding of features is ambiguous."""
    (x, xs), (_, ys) = operands
    lhs, _, out = params["dimension_numbers"]
    if xs[lhs[1]] is not None or any(e is not None for e in ys):
        raise ShardingTypeError(f"the convolution of {texts(operands)} has sharded features or a sharded kernel, and the "
                                f"sharding of the result is ambiguous. Pass it as out_sharding=P(...).")
    result_entries: list = [None] * result.ndim
    for i, j in zip((lhs[0], *lhs[2:]), (out[0], *out[2:])):
        result_entries[j] = xs[i]
        if xs[i] is not None and result.shape[j] % _num_shards(x.explicit_sharding.mesh, xs[i]):
            _raise_ambiguous(name, operands, result, f"dimension {i} of the input is sharded over {xs[i]!r}, and one of size "
                                                     f"{result.shape[j]} cannot be")
    return result_entries


def gather(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    (x, entries), (_, indexed) = operands
    dn, sizes = params["dimension_numbers"], params["slice_sizes"]
    if not result.shape:  # all devices get a single element
        return [None] * result.ndim
    for d in range(x.ndim):
        if entries[d] is not None and sizes[d] != x.shape[d] and d not in dn.operand_batching_dims:
            _raise_ambiguous("indexing", operands, result,
                             f"dimension {d} is sharded over {entries[d]!r}, and only parts of it are selected")
    if dn.collapsed_slice_dims:  # otherwise it is one slice per element of a batch, sharded as the batch
        index_dims = [d for d in range(len(indexed) - 1) if d not in dn.start_indices_batching_dims]
        _check_index_sharding("indexing", operands, 1, index_dims, "x.at[...].get(out_sharding=P(...))")
    window_entries = iter([entries[d] for d in range(x.ndim) if d not in (*dn.collapsed_slice_dims, *dn.operand_batching_dims)])
    merged = list(indexed[:-1])
    for d, i in zip(dn.operand_batching_dims, dn.start_indices_batching_dims):
        merged[i] = merge("indexing", operands, [entries[d], merged[i]])
    batch = iter(merged)
    return [next(window_entries) if i in dn.offset_dims else next(batch) for i in range(result.ndim)]


def _check_index_sharding(name: str, operands: Operands, number: int, dims: Sequence[int], remedy: str) -> None:
    """Raise an error if indices are sharded: each device would read or write elements on all devices."""
    axes = next((entry for d in dims if (entry := operands[number][1][d]) is not None), None)
    if axes is not None:
        raise ShardingTypeError(f"{name} of {texts(operands)} with positions that are sharded over {axes!r} is ambiguous. Give "
                                f"the sharding of the result with {remedy}, or reshard the indices, with reshard.")


def scatter(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    x, entries = operands[0]
    dn = params["dimension_numbers"]
    entries = list(entries)
    if dn.inserted_window_dims:
        batching, remedy = dn.scatter_indices_batching_dims, "x.at[...].set(..., out_sharding=P(...))"
        update_rows = [d for d in range(operands[2][0].ndim) if d not in dn.update_window_dims]
        index_dims = [i for i in range(len(update_rows)) if i not in batching]
        _check_index_sharding(name, operands, 1, index_dims, remedy)
        _check_index_sharding(name, operands, 2, [update_rows[i] for i in index_dims], remedy)
    for d, i in zip(dn.operand_batching_dims, dn.scatter_indices_batching_dims):
        entries[d] = merge(name, operands, [entries[d], operands[1][1][i]])
    updates, update_entries = operands[2]
    window_dims = [d for d in range(x.ndim) if d not in (*dn.inserted_window_dims, *dn.operand_batching_dims)]
    replaced = [d for d, u in zip(window_dims, dn.update_window_dims)  # in full: wherever it begins, it stays on its devices
                if updates.shape[u] == x.shape[d] and update_entries[u] == entries[d]]
    for d in dn.scatter_dims_to_operand_dims:
        if entries[d] is not None and d not in replaced:
            raise ShardingTypeError(f"an update of {texts(operands)} at indices of dimension {d}, which is sharded over "
                                    f"{entries[d]!r}, is ambiguous. Unshard that dimension of the array first, with "
                                    f"reshard, or update it in a function of auto_axes.")
    return entries


def bitcast(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Shard the result if a last dimension appears or disappears."""
    [(_, entries)] = operands
    return (*entries, *[None] * result.ndim)[:result.ndim]


def all_gather(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    entries, d = operands[0][1], params["all_gather_dimension"]
    return entries if params["tiled"] else (*entries[:d], None, *entries[d:])


def reduce_scatter(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    return operands[0][1] if params["tiled"] else _drop_dims(operands[0][1], (params["scatter_dimension"],))


def unsharded(name: str, operands: Operands, result: ShapedArray, params: Params) -> Sequence[Any]:
    """Require unsharded operands."""
    axes = next((e for _, entries in operands for e in entries if e is not None), None)
    if axes is not None:
        raise ShardingTypeError(f"{name} of {texts(operands)} needs unsharded arrays, and one is sharded over {axes!r}. Give "
                                f"the sharding of the result with out_sharding=P(...), or unshard the array with reshard.")
    return [None] * result.ndim
