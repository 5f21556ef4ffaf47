"""What types of results say of explicit mesh axes and of memories, from what types of operands say.

One rule a primitive: `rule(name, operands, result, params)` returns for each dimension of the result the axes that split it.
`operands` are pairs of a type and its entries, one for each dimension. What has no rule gives results that are not split.
Where a choice is not for types to make (a sum over a split dimension), the user is asked for `out_sharding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.avals import ShapedArray, str_short
from xlafront.core.errors import ShardingTypeError
from xlafront.core.primitive import Primitive
from xlafront.lax import unreduced as open_sums
from xlafront.lax.device_put import reshard_p
from xlafront.lax.resharding import unsplit
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.layouts import MemorySpace
from xlafront.runtime.specs import PartitionSpec, axes_of

Entries = tuple
Operands = Sequence[tuple[Any, Entries]]


def _texts(operands: Operands) -> str:
    return open_sums.texts([aval for aval, _ in operands])


def _merge(name: str, operands: Operands, entries: Sequence[Any]):
    """The axes of a dimension that several operands have."""
    found = None
    for entry in entries:
        if entry is not None and found is not None and entry != found:
            raise ShardingTypeError(
                f"{name} got operands whose dimensions are split differently: {_texts(operands)} ({found!r} and {entry!r}). "
                f"Bring one of them to the sharding of the other with reshard.")
        found = entry if found is None else found
    return found


def _elementwise(name, operands, result, params):
    full = [(aval, entries) for aval, entries in operands if aval.ndim == result.ndim]
    return [_merge(name, operands, [e[i] for aval, e in full if aval.shape[i] == result.shape[i]]) for i in range(result.ndim)]


def _same(name, operands, result, params):
    return operands[0][1]


def _reduce(name, operands, result, params):
    axes = params["axes"] if "axes" in params else params["dimensions"]
    return _drop(_elementwise(name, operands, operands[0][0], params), axes)


def _drop(entries, axes):
    return [e for i, e in enumerate(entries) if i not in axes]


def _along(parameter: str):
    def rule(name, operands, result, params):
        entries = _elementwise(name, operands, result, params)
        axis = params[parameter]
        if entries[axis] is not None:
            raise ShardingTypeError(f"{name} along dimension {axis} of {_texts(operands)}, which is split over "
                                    f"{entries[axis]!r}: it needs whole rows. Bring it to a sharding that leaves that "
                                    f"dimension whole, with reshard.")
        return entries

    return rule


def _broadcast(name, operands, result, params):
    [(aval, entries)] = operands
    found: list = [None] * result.ndim
    for i, d in enumerate(params["broadcast_dimensions"]):
        if aval.shape[i] == result.shape[d]:
            found[d] = entries[i]
    return found


def _transpose(name, operands, result, params):
    return [operands[0][1][d] for d in params["permutation"]]


def _squeeze(name, operands, result, params):
    return _drop(operands[0][1], params["dimensions"])


def _parts(mesh, entry) -> int:
    return math.prod([mesh.shape[a] for a in axes_of(entry)])


def _resized(name, operands, result, params):
    """Slices and padding: a dimension keeps its axes where these divide its new size."""
    aval, entries = operands[0]
    for i, entry in enumerate(entries):
        if entry is not None and aval.shape[i] != result.shape[i] and result.shape[i] % _parts(aval.explicit_sharding.mesh,
                                                                                               entry):
            _refuse_part(name, operands, result, f"its dimension {i} is split over {entry!r}, and a part of size "
                                                 f"{result.shape[i]} cannot be")
    return entries


def _refuse_part(name, operands, result, why: str):
    raise ShardingTypeError(f"{name} of {_texts(operands)} with a result of shape {result.shape} is ambiguous: {why}. Say how "
                            f"the result is split with x.at[...].get(out_sharding=P(...)), or bring x to another sharding "
                            f"with reshard first.")


def _concatenate(name, operands, result, params):
    for _, entries in operands[1:]:
        if tuple(entries) != tuple(operands[0][1]):
            raise ShardingTypeError(f"concatenate needs operands that are split in one way, got {_texts(operands)}. Bring them "
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


def _reshape(name, operands, result, params):
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
            raise ShardingTypeError(f"reshape of {str_short(aval)} to {result.shape} is ambiguous: the axes {joint} split "
                                    f"dimensions that do not stay together. Say how the result is split with "
                                    f"out_sharding=P(...).")
        found[target] = joint
    return found


def _dot_general(name, operands, result, params):
    (x, xs), (y, ys) = operands
    (xc, yc), (xb, yb) = params["dimension_numbers"]
    for i, j in zip(xc, yc):
        if xs[i] is not None and ys[j] is not None:
            raise ShardingTypeError(
                f"the product of {_texts(operands)} sums over dimensions that are split over {xs[i]!r} and {ys[j]!r}, and it "
                f"is ambiguous how the result should be split. Say so with out_sharding=P(...), or bring an operand to another "
                f"sharding with reshard.")
    batch = [_merge("dot_general", operands, [xs[i], ys[j]]) for i, j in zip(xb, yb)]
    return [*batch, *_drop(xs, (*xc, *xb)), *_drop(ys, (*yc, *yb))]


def _gather(name, operands, result, params):
    (x, entries), (_, indexed) = operands
    dn, sizes = params["dimension_numbers"], params["slice_sizes"]
    for d in range(x.ndim):
        if entries[d] is not None and sizes[d] != x.shape[d] and d not in dn.operand_batching_dims:
            _refuse_part("indexing", operands, result, f"dimension {d} is split over {entries[d]!r}, and parts of it are taken")
    windows = iter([entries[d] for d in range(x.ndim) if d not in (*dn.collapsed_slice_dims, *dn.operand_batching_dims)])
    merged = list(indexed[:-1])
    for d, i in zip(dn.operand_batching_dims, dn.start_indices_batching_dims):
        merged[i] = _merge("indexing", operands, [entries[d], merged[i]])
    batch = iter(merged)
    return [next(windows) if i in dn.offset_dims else next(batch) for i in range(result.ndim)]


def _scatter(name, operands, result, params):
    x, entries = operands[0]
    dn = params["dimension_numbers"]
    for d in dn.scatter_dims_to_operand_dims:
        if entries[d] is not None:
            raise ShardingTypeError(f"an update of {_texts(operands)} at indices of dimension {d}, which is split over "
                                    f"{entries[d]!r}, is ambiguous. Bring the array to a sharding that leaves that dimension "
                                    f"whole, with reshard, or update it in a function of auto_axes.")
    return entries


def _words(name, operands, result, params):
    """Where elements become several, or several one, along a last dimension."""
    [(_, entries)] = operands
    return (*entries, *[None] * result.ndim)[:result.ndim]


def _all_gather(name, operands, result, params):
    entries, d = operands[0][1], params["all_gather_dimension"]
    return entries if params["tiled"] else (*entries[:d], None, *entries[d:])


def _reduce_scatter(name, operands, result, params):
    return operands[0][1] if params["tiled"] else _drop(operands[0][1], (params["scatter_dimension"],))


RULES: dict[str, Callable] = {
    **dict.fromkeys(("argmax", "argmin", "reduce", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and",
                     "reduce_or", "reduce_xor"), _reduce),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _along("axis")),
    **dict.fromkeys(("slice", "dynamic_slice", "pad", "split"), _resized),
    **dict.fromkeys(("rev", "roll", "name", "device_put", "sharding_constraint", "dynamic_update_slice"), _same),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max", "scatter_apply"),
                    _scatter),
    **dict.fromkeys(("random_wrap", "random_unwrap", "bitcast_convert_type"), _words),
    "sort": _along("dimension"), "broadcast_in_dim": _broadcast, "transpose": _transpose, "squeeze": _squeeze,
    "concatenate": _concatenate, "reshape": _reshape, "dot_general": _dot_general, "gather": _gather,
    # Collectives of a `shard_map` over other axes of the mesh.
    **dict.fromkeys(("psum", "psum_invariant", "pvary", "pmax", "pmin", "ppermute", "pbroadcast", "all_to_all"), _same),
    "all_gather": _all_gather, "all_gather_invariant": _all_gather, "reduce_scatter": _reduce_scatter,
    "threefry2x32": _elementwise}


def split_types(primitive: Primitive, avals: tuple, params: dict[str, Any]):
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
        open_sums.check_out_sharding(primitive, avals, params, wanted, results[0])
        results = [_with_spec(primitive, t, wanted) for t in results]
    elif mesh is not None:
        results = [_split_like(primitive, avals, t, mesh, params) for t in results]
    memories = _memories(primitive, avals)
    if primitive.name == "device_put":
        kind = getattr(params["sharding"], "memory_kind", None)
        memories = {None if kind in (None, "device") else MemorySpace.Host}
    if len(memories) == 1:
        [memory] = memories
        results = [t.update(memory_space=memory) for t in results]
    return results if several else results[0]


def _memories(primitive: Primitive, avals) -> set:
    """The memories, other than the devices' own, that operands are in. Scalars are anywhere, and what is put into an array."""
    into = primitive.name == "dynamic_update_slice" or primitive.name.startswith("scatter")
    typed = [a for a in (avals[:1] if into else avals) if isinstance(a, ShapedArray)]
    arrays = [a for a in typed if a.shape]
    memories = {a.memory for a in arrays or typed}
    if len(memories) > 1 and arrays and not primitive.multiple_results:
        raise ValueError(f"{primitive.shown_as} got arrays in different memories: {', '.join(map(str_short, avals))}. Move one "
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
                             f"{', '.join(map(str_short, avals))}. Bring them to one mesh with device_put.")
        found = found or mesh
    return found


def _with_spec(primitive, aval, sharding: NamedSharding):
    if not isinstance(aval, ShapedArray):
        return aval
    sharding.shard_shape(aval.shape)
    return aval.update(sharding=sharding)


def _split_like(primitive, avals, result, mesh, params):
    if not isinstance(result, ShapedArray):
        return result
    rule = RULES.get(primitive.name, _elementwise if primitive.broadcasts_scalars else None)
    unreduced, reduced = open_sums.axes_of_result(primitive, avals, result)
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
            f"{primitive.shown_as} of {_texts(operands)} would give a result that is split over {both[0]!r}, over which an "
            f"operand is unreduced or reduced. Bring one of them to another sharding with reshard.")
    if len(set(used)) != len(used):
        twice = next(a for a in used if used.count(a) > 1)
        raise ShardingTypeError(
            f"{primitive.shown_as} of {_texts(operands)} would give a result of shape {result.shape} with two dimensions split "
            f"over {twice!r}, which splits only one. Say how it is split with out_sharding=P(...) where the function takes it, "
            f"or bring an operand to another sharding with reshard.")
    return result.update(sharding=NamedSharding(mesh, PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)))


Primitive.split_types = staticmethod(split_types)


def whole_operands(trace, atoms):
    """Operands as values that are not split, written down as such: for derivatives, which nobody can tell `out_sharding`."""
    made = []
    for v in atoms:
        if v.aval.explicit_sharding is None:
            made.append(v)
            continue
        if v.aval.explicit_sharding.spec.unreduced - v.aval.explicit_sharding.mesh.explicit:
            raise ShardingTypeError(f"a derivative would need the sum of a value of type {str_short(v.aval)}, which is still "
                                    f"to be made. Sum it with psum before it is used so.")
        value = trace.process(reshard_p, (tracing.StagedTracer(trace, v.aval, v),),
                              {"target": unsplit(v.aval.explicit_sharding)})
        made.append(value._var)
    return made


tracing.StagingTrace.whole_operands = staticmethod(whole_operands)
