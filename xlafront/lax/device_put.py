"""Moving values between the host and devices, and between shardings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import backends, keys, tracing, tree
from xlafront.core.avals import ShapedArray, abstract_token, entry_of, with_entry
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import of_first, types_over_meshes
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.manual_computation import parts_as_sums
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime import distributed
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.guards import explicit
from xlafront.runtime.jaxlib_compat import ArrayCopySemantics, Device, NamedSharding, Sharding, batched_block_until_ready
from xlafront.runtime.layouts import Format, Layout, MemorySpace
from xlafront.runtime.meshes import AbstractMesh, AxisType, Mesh, active, concrete_meshes
from xlafront.runtime.sharding import PartitionSpec, in_device_memory, open_sums, single_device
from xlafront.runtime.specs import IndivisibleError, RankError, axes_of
from xlafront.runtime.transfers import aligned_empty, apart, copied, places
from xlafront.staging import module_shardings
from xlafront.staging.device_assignment import has_devices, in_words
from xlafront.staging.jit import jit
from xlafront.staging.moves import move_all, put, relayout, reshard as reshard_arrays
from xlafront.staging.sharding_arguments import over_active_mesh


def to_sharding(user: str, where):
    """A target that a user gave, as a sharding."""
    if isinstance(where, Sharding):
        return where
    if isinstance(where, Device):
        return single_device(where)
    if isinstance(where, PartitionSpec):
        return over_active_mesh(user, where)
    raise ValueError(f"{user} takes a device, a sharding, a Format, a memory space or a pytree of these as its target, got "
                     f"{type(where).__name__}: {where!r}.")


def _is_target(x) -> bool:
    return x is None or isinstance(x, (Device, Sharding, PartitionSpec, Format, MemorySpace))


def _is_flag(x) -> bool:
    return x is None or isinstance(x, (bool, np.bool_))


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """Put arrays on a device, or spread them over several.

    - `x`: a pytree of arrays or host values.
    - `device`: a device, a sharding, or a pytree prefix of them. Without one, host values go to the default device and stay
      free to move from there.
    - `src`: where the arrays are, which is not needed.
    - `donate`: give up the arrays, so that their memory is free where they were; a bool or a pytree prefix.
    - `may_alias`: False asks for memory of its own; True lets host values be used where they are, which must then not change.

    >>> rows = xf.NamedSharding(xf.make_mesh((1,), ("data",)), xf.P("data"))
    >>> xf.device_put(np.ones((8, 4)), rows).sharding.spec
    P('data',)
    """
    with explicit("device_put"):
        return put_tree(x, device, donate, may_alias)


def put_tree(x, device=None, donate=False, may_alias=None):
    """`device_put` for those who were not asked to move something: guards on transfers tell the two apart."""
    leaves, treedef = tree.flatten_tree(x)
    count = len(leaves)
    targets = [device] * count if _is_target(device) else tree.leaves_by_prefix("device_put: device", device, x, _is_target)
    donated, aliased = (
        [flag] * count if _is_flag(flag) else tree.leaves_by_prefix(f"device_put: {name}", flag, x, _is_flag)
        for name, flag in (("donate", donate), ("may_alias", may_alias)))
    if any(donated) and any([d and a for d, a in zip(donated, aliased)]):
        raise ValueError("device_put cannot give up the memory of an array (donate=True) and use it on (may_alias=True). Leave "
                         "one of them out.")
    results: list = [None] * count
    together: list[int] = []  # arrays that are here, to go somewhere: the runtime sees them all at once
    shardings: dict = {}
    tracing_now = tracing.is_tracing()
    if tracing_now and any([x is not None for x in targets]):
        _check_inside(targets)
    for i, (leaf, target) in enumerate(zip(leaves, targets)):
        try:
            if isinstance(target, (Device, PartitionSpec)):
                target = shardings.get(target) or shardings.setdefault(target, to_sharding("device_put", target))
            if isinstance(target, NamedSharding):
                shape = np.shape(leaf)
                target.check_compatible_aval(shape)
                target.shard_shape(shape)
            if count > 1 and not tracing_now and _is_plain_move(leaf, target):
                leaf._check_if_deleted()
                places(target, leaf.shape)
                targets[i] = target
                together.append(i)
            else:
                results[i] = put_leaf(leaf, target, donated[i], aliased[i])
        except (IndivisibleError, RankError) as e:
            raise type(e)(f"device_put of x{tree.path_of(x, i)}: {e}") from None
    if together:
        moving = [leaves[i] for i in together]
        moved = move_all(moving, [leaf._aval for leaf in moving], [targets[i] for i in together], True)
        for i, result in zip(together, moved):
            results[i] = _settled(leaves[i], result, donated[i], aliased[i])
    return treedef.unflatten(results)


def _check_inside(targets: list) -> None:
    """In the body of a `shard_map` a value is a device's part: it goes to no device, and to no mesh whose axes have other types
    than in the one in force there."""
    inside, trace = active.abstract, tracing.thread.trace
    if inside is None or not inside.manual_axes:
        return
    while trace is not None and getattr(trace, "evaluate", None) is None:
        trace = trace.parent
    for target in targets:
        mesh = target.mesh.abstract_mesh if isinstance(target, NamedSharding) else None
        if trace is not None and isinstance(target, (Device, Sharding)) or mesh is not None and (
                mesh.axis_types != inside.axis_types):
            raise ValueError(f"device_put to {target} is not allowed within a function of shard_map, whose values are the "
                             f"parts "
                             f"of devices; the mesh in force is {inside}. Put arrays on devices outside of it.")


def check_devices(x, sharding, user: str) -> None:
    """Raise where an array is bound to other devices than those of a sharding: programs move nothing between devices."""
    own = None if isinstance(x, tracing.Tracer) else getattr(x, "sharding", None)
    if not has_devices(sharding) and active.mesh is not None and active.mesh.shape_tuple == sharding.mesh.shape_tuple:
        sharding = sharding.update(mesh=active.mesh)
    if isinstance(own, Sharding) and getattr(x, "committed", False) and has_devices(sharding) and (
            own._internal_device_list != sharding._internal_device_list):
        raise ValueError(f"{user} got incompatible devices for a jitted computation: an array of shape {np.shape(x)} that is "
                         f"{in_words(own)}, to be {in_words(sharding)}. Move it there with device_put(x, sharding).")


def _is_plain_move(x, target) -> bool:
    """Whether the runtime can move it as it is: an array of this process, to devices of this process."""
    return type(x) is ArrayImpl and isinstance(target, Sharding) and all([
        has_devices(s) and s.is_fully_addressable and not open_sums(s) for s in (x._sharding, target)])


def put_leaf(x, target, donate=False, may_alias=None):
    """One value. Hot without a target: watched by the `asarray` benchmark."""
    if type(target) is MemorySpace:
        return _to_memory(x, target, may_alias)
    if type(target) is Format:
        return _to_format(x, target, donate, may_alias)
    sharding = None if target is None else to_sharding("device_put", target)
    if sharding is not None and (open_sums(sharding) or open_sums(getattr(x, "sharding", None))):
        return reshard_p.bind(x, dst_sharding=sharding)
    if isinstance(x, tracing.Tracer) or tracing.is_tracing():
        return device_put_p.bind(x, **_put_params(sharding, None, donate, may_alias))
    aval = tracing.aval_of(x, "device_put")
    if aval is abstract_token:
        return x
    if type(x) is keys.KeyArray:
        return x if sharding is None else keys.wrap(put_leaf(x._base_array, sharding, donate, may_alias), aval)
    if sharding is None:
        if type(aval.dtype) is np.dtypes.StringDType:
            raise TypeError("device_put of an array of strings needs to be told where to: a device of CPUs, as "
                            "device_put(x, devices('cpu')[0]), or a sharding over such devices.")
        if type(x) is ArrayImpl:
            return copied(x, aval) if may_alias is False else x
        return put(_host(x, aval, may_alias), aval, single_device(backends.default_device()), False)
    if isinstance(sharding, NamedSharding):
        if not has_devices(sharding):
            raise ValueError(f"device_put of an array of shape {aval.shape} to {sharding}, which has no devices: its mesh is "
                             f"an AbstractMesh. Use a sharding over a Mesh, from make_mesh.")
        places(sharding, aval.shape)
    if type(x) is not ArrayImpl:
        if sharding.is_fully_addressable:
            return put(_host(x, aval, may_alias), aval, sharding, True)
        return _put_across_processes(x, aval, sharding)
    aval = x._aval  # without what follows from its sharding
    x._check_if_deleted()
    if not sharding.is_fully_addressable:
        result = _put_across_processes(x, aval, sharding)
    elif not (x.is_fully_addressable or x.is_fully_replicated):
        raise ValueError(
            f"device_put cannot move an array of shape {aval.shape} that spans processes, {x.sharding}, to devices of this "
            f"process alone: {sharding}. Use x.addressable_shards for the parts that are here, or "
            f"experimental.multihost_utils.process_allgather for the whole.")
    else:
        result = put(x, aval, sharding, True)
    return _settled(x, result, donate, may_alias)


def _settled(x: ArrayImpl, result: ArrayImpl, donate, may_alias) -> ArrayImpl:
    """The result of a move, with memory of its own where asked for; the array is gone when it was donated and has moved."""
    gone = donate and not x._sharding.is_equivalent_to(result._sharding, x.ndim)
    if (gone or may_alias is False) and x._sharding.device_set & result._sharding.device_set:
        result = apart(result, x)  # a buffer that stays where it is would go with the array
    if gone:
        x.delete()
    return result


def _to_memory(x, space: MemorySpace, may_alias: bool | None):
    """To the memory of the device, or of its host, where the value is."""
    kind = "pinned_host" if space is MemorySpace.Host else "device"
    if isinstance(x, tracing.Tracer) or tracing.is_tracing():
        return move_memory_p.bind(x, memory_kind=kind)
    return _to_memory_kind(x, kind, may_alias)


def _to_memory_kind(x, kind: str, may_alias: bool | None = None):
    if type(x) is keys.KeyArray:
        return keys.wrap(_to_memory_kind(x._base_array, kind, may_alias), x.aval)
    if type(x) is not ArrayImpl:
        x = put_leaf(x, None)
    x._check_if_deleted()
    if x.sharding.memory_kind == kind:
        return copied(x, x.aval) if may_alias is False else x
    return put(x, x.aval, x.sharding.with_memory_kind(kind), x._committed)


def _to_format(x, target: Format, donate: bool, may_alias: bool | None):
    """To a sharding with the elements in a certain order: what a program returns that is asked for it."""
    if target.layout is Layout.AUTO:
        raise ValueError(f"device_put needs a concrete layout and sharding, got {target}: only a compiled function can choose "
                         "the order of elements. Name it, as in Layout((1, 0)), or pass the sharding alone.")
    if target.layout is None:
        return put_leaf(x, target.sharding, donate, may_alias)
    target.layout.check_compatible_aval(tracing.aval_of(x, "device_put").shape)
    if type(x) is keys.KeyArray:
        words = x._base_array
        target = Format(target.layout.of_rank(words.ndim), target.sharding)
        return keys.wrap(_to_format(words, target, donate, may_alias), x.aval)
    moved = put_leaf(x, target.sharding)
    if isinstance(moved, tracing.Tracer):
        return moved
    result = moved if target.layout.fits(moved.format.layout) else relayout(moved, target.layout)
    if type(x) is not ArrayImpl:
        return result
    if result is moved:
        return _settled(x, moved, donate, may_alias)
    if donate:
        x.delete()
    return result


def _put_across_processes(x, aval, sharding):
    """To devices of several processes, each of which puts its own parts and so has to have the same value."""
    if type(x) is ArrayImpl and not x.is_fully_addressable:
        if x.sharding.is_equivalent_to(sharding, aval.ndim):
            return put(x, aval, sharding, True)
        if x.sharding.device_set == sharding.device_set:
            return reshard_arrays([x], [sharding])[0]
    host = _host(x, aval)
    processes = {d.process_index for d in sharding.device_set}
    differing = {} if backends.process_index() not in processes else distributed.agree(
        "device_put", f"{distributed.fingerprint([host])} {_brief(host)}", processes)
    if differing:
        differences = "; ".join(f"process {i}: {text.partition(' ')[2]}" for i, text in list(differing.items())[:4])
        raise AssertionError(
            f"device_put to {sharding} got different values of shape {aval.shape} in different processes: {differences}. Give "
            f"the same value in all of them, or use make_array_from_process_local_data for parts that differ.")
    return put(host, aval, sharding, True)


def _brief(host) -> str:
    return np.array2string(host, threshold=8, edgeitems=3)[:200]


def _host(x, aval, may_alias=None):
    """The host value as an array of its own: later changes to the user's array must not show."""
    if may_alias:
        return np.asarray(x, dtype=aval.dtype)
    if aval.size < 1 << 14:
        return np.array(x, dtype=aval.dtype)
    own = aligned_empty(aval.shape, aval.dtype)
    own[...] = x
    return own


def device_get(x: Any) -> Any:
    """Copy arrays to the host, as NumPy arrays. All transfers start before the first is waited for.

    - `x`: a pytree of arrays.

    >>> xf.device_get({"a": xnp.ones(2)})
    {'a': array([1., 1.], dtype=float32)}
    """
    leaves, treedef = tree.flatten_tree(x)
    with explicit("device_get"):
        for leaf in leaves:
            if isinstance(leaf, ArrayImpl):
                leaf.copy_to_host_async()
        return treedef.unflatten([_get(leaf) for leaf in leaves])


def _get(x):
    if isinstance(x, ArrayImpl):
        return x._value
    if hasattr(x, "__array__") and type(x) is not keys.KeyArray and not isinstance(x, tracing.Tracer):
        return np.asarray(x)
    return x


def block_until_ready(x: Any) -> Any:
    """Wait until arrays have been computed; returns them.

    - `x`: a pytree of arrays.

    >>> xf.block_until_ready(xnp.ones(2) + 1)
    Array([2., 2.], dtype=float32)
    """
    leaves = tree.leaves(x)
    arrays = [leaf for leaf in leaves if type(leaf) is ArrayImpl]
    batched_block_until_ready(arrays)
    if len(arrays) < len(leaves):
        for leaf in leaves:
            if hasattr(leaf, "block_until_ready"):
                leaf.block_until_ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Start to copy arrays to the host, where reading them later finds them; returns them.

    - `x`: a pytree of arrays.

    >>> np.asarray(xf.copy_to_host_async(xnp.ones(2)))
    array([1., 1.], dtype=float32)
    """
    for leaf in tree.leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


# Inside a traced function


def _put_params(sharding, source, donate=False, may_alias=None) -> dict[str, Any]:
    semantics = ArrayCopySemantics.DONATE_INPUT if donate else (
        ArrayCopySemantics.ALWAYS_COPY if may_alias is False else ArrayCopySemantics.REUSE_INPUT)
    return {"devices": (sharding,), "srcs": (source,), "copy_semantics": (semantics,)}


def lower_put(ctx, x, *, sharding):
    if sharding is not None and not in_device_memory(sharding):
        x = _lower_move(ctx, x, memory_kind=sharding.memory_kind)
    if sharding is None or not isinstance(sharding, NamedSharding):
        return x
    context = ctx.module_context.sharding_context
    if context is not None and context.partitioned:
        sharding = context.on_devices(sharding)
    [result] = module_shardings.constrain(ctx, [x], [ctx.aval_out], [sharding])
    return result


def _put_jvp(primals, tangents, *, devices, srcs, copy_semantics):
    [x] = primals
    answer = device_put_p.bind(x, devices=devices, srcs=srcs, copy_semantics=copy_semantics)
    if type(tangents[0]) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    # Where derivatives with respect to it go: of an array that is bound to devices, to these.
    srcs = (x._sharding,) if type(x) is ArrayImpl and x._committed else srcs
    return answer, device_put_p.bind(tangents[0], devices=devices, srcs=srcs, copy_semantics=copy_semantics)


def _put_transpose(ct, x, *, devices, srcs, copy_semantics):
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if srcs != (None,):
        return [device_put_p.bind(ct, devices=srcs, srcs=devices, copy_semantics=copy_semantics)]
    return [_in_memory_of(x.aval, ct)]


def _in_memory_of(aval: ShapedArray, ct):
    """A derivative in the memory of the value it is for."""
    wanted, found = (t.memory_space is MemorySpace.Host for t in (aval, tracing.aval_of(ct)))
    return ct if wanted == found else move_memory_p.bind(ct, memory_kind="pinned_host" if wanted else "device")


def _put_batch(size, operands, dims, *, devices, srcs, copy_semantics):
    [x], [d] = operands, dims
    devices, srcs = ((with_entry(sharding, d),) for [sharding] in (devices, srcs))
    return device_put_p.bind(x, devices=devices, srcs=srcs, copy_semantics=copy_semantics), d


def _put_types(avals, params):
    [sharding] = params["devices"]
    kind = getattr(sharding, "memory_kind", None)
    memory = None if kind in (None, "device") else MemorySpace.Host
    return types_over_meshes(device_put_p, avals, params | {"sharding": sharding}).update(memory_space=memory)


device_put_p = Primitive(
    "device_put", abstract=lambda x, **_: ShapedArray(x.shape, x.dtype, x.weak_type, vma=x.vma),
    lower=lambda ctx, x, *, devices, **_: lower_put(ctx, x, sharding=devices[0]),
    impl=lambda x, *, devices, **_: put_leaf(x, devices[0]), jvp=_put_jvp, transpose=_put_transpose, batch=_put_batch,
    sharding_rule=sharding_rules.same, sums=of_first)
device_put_p.key_use = "hands on"
device_put_p.runs_eagerly = device_put_p.moves = True
device_put_p.binds_devices = lambda *, devices, **_: isinstance(devices[0], NamedSharding)
device_put_p.types_of = device_put_p.types_over_meshes = _put_types


def _lower_move(ctx, x, *, memory_kind):
    if ctx.platform == "cpu":  # all of its memory is the host's
        return x
    m = lowering.mlir
    return ctx.op("stablehlo.custom_call", [x], call_target_name=m.string("annotate_device_placement"),
                  has_side_effect=m.boolean(True), **{"mhlo.frontend_attributes": m.ir.DictAttr.get(
                      {"_xla_buffer_placement": m.string(memory_kind)})})


move_memory_p = Primitive(
    "move_memory", abstract=lambda x, *, memory_kind: x.update(
        memory_space=None if memory_kind == "device" else MemorySpace.Host),
    lower=_lower_move, impl=lambda x, *, memory_kind: _to_memory_kind(x, memory_kind),
    transpose=lambda ct, x, *, memory_kind: [ct if type(ct) is Zero else _in_memory_of(x.aval, ct)],
    batch=lambda size, xs, dims, *, memory_kind: (move_memory_p.bind(xs[0], memory_kind=memory_kind), dims[0]))
move_memory_p.key_use = "hands on"
move_memory_p.jvp = linear_jvp(move_memory_p)
move_memory_p.own_types = move_memory_p.runs_eagerly = True


# Between shardings over explicit axes


def _reshard_batch(axis_size, xs, ds, *, dst_sharding):
    [x], [d], target = xs, ds, dst_sharding
    entry = entry_of(tracing.aval_of(x), d)
    if entry is not None and not target.mesh.explicit:  # the elements are freed of their axes, the batch is not
        mesh = target.mesh.abstract_mesh.update_axis_types({a: AxisType.Explicit for a in axes_of(entry)})
        target = NamedSharding(mesh, target.spec)
    return reshard_p.bind(x, dst_sharding=with_entry(target, d, entry)), d


def _reshard_lower(ctx, x, *, dst_sharding):
    context, target = ctx.module_context.sharding_context, dst_sharding
    if context is None or not context.partitioned:
        return x
    if not target.mesh.explicit:
        explicit = ctx.avals_in[0].explicit_sharding
        if explicit is None or not explicit.spec.unreduced & explicit.mesh.explicit:
            return x
        target = explicit.update(spec=explicit.spec.update(unreduced=frozenset()))  # what has no type has no open sums
    spec, [aval] = target.spec, ctx.avals_in
    unreduced = frozenset() if aval.explicit_sharding is None else aval.explicit_sharding.spec.unreduced
    if spec.unreduced - unreduced and aval.explicit_sharding is not None and isinstance(aval.dtype, np.dtype):
        found = parts_as_sums(ctx, x, target.mesh, aval.explicit_sharding.spec, spec.unreduced - unreduced)
        if found is not None:
            return module_shardings.constrain(ctx, [found], [ctx.aval_out], [target])[0]
    if spec.unreduced - unreduced and unreduced - spec.unreduced:  # the compiler only makes sums, or opens them
        between = aval.explicit_sharding.update(spec=aval.explicit_sharding.spec.update(unreduced=unreduced & spec.unreduced))
        [x] = module_shardings.constrain(ctx, [x], [aval], [between])
    elif spec.unreduced and not unreduced:
        # As a whole first: else the compiler takes what each device has for its summand.
        [x] = module_shardings.constrain(ctx, [x], [aval], [target.update(spec=spec.update(unreduced=frozenset()))])
    return module_shardings.constrain(ctx, [x], [ctx.aval_out], [target])[0]


def _reshard_impl(x, *, dst_sharding):
    mesh, target = dst_sharding.mesh, dst_sharding
    own = getattr(x, "sharding", None)
    if not mesh.explicit and isinstance(own, NamedSharding) and own.mesh.shape_tuple == mesh.shape_tuple:
        spec = own.spec.update(unreduced=frozenset(), reduced=frozenset())
        x = x if not open_sums(own) else _resharded(own.update(spec=spec))(x)
        return put_leaf(x, NamedSharding(own.mesh.update(axis_types=mesh.axis_types), spec))
    if isinstance(mesh, AbstractMesh):
        mesh = over_devices(x, mesh)
    rank = tracing.aval_of(x).ndim
    sharding = NamedSharding(mesh, target.spec.update(partitions=target.spec.padded(rank)[:rank]))
    if open_sums(own):
        return x if own == sharding else _resharded(sharding)(x)
    if open_sums(sharding):
        if isinstance(own, NamedSharding) and own.mesh == mesh:
            return _resharded(sharding)(x)
        return _resharded(sharding)(put_leaf(x, sharding.update(spec=sharding.spec.update(unreduced=frozenset()))))
    return put_leaf(x, sharding)


@functools.lru_cache(256)
def _resharded(target: NamedSharding) -> Callable:
    """What moves arrays whose sums are still to be made: only a program makes or opens them."""
    return jit(lambda x: reshard_p.bind(x, dst_sharding=target))


def over_devices(x, mesh: AbstractMesh) -> Mesh:
    """The devices of a mesh that only has a shape: those of the array, or of the mesh in force."""
    own = getattr(x, "sharding", None)
    for found in (own.mesh if isinstance(own, NamedSharding) else None, active.mesh, concrete_meshes.get(mesh)):
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found if found.axis_types == mesh.axis_types else found.update(axis_types=mesh.axis_types)
    raise ValueError(f"an array of type {tracing.aval_of(x)} was to be spread over {mesh}, which has no devices. Use a Mesh, "
                     f"or put one in force with set_mesh.")


reshard_p = Primitive(
    "reshard", abstract=lambda x, *, dst_sharding: x.update(sharding=dst_sharding), lower=_reshard_lower, impl=_reshard_impl,
    transpose=lambda ct, x, *, dst_sharding: [Zero(x.aval) if type(ct) is Zero else ct], batch=_reshard_batch)
reshard_p.key_use = "hands on"
reshard_p.jvp = linear_jvp(reshard_p)
reshard_p.own_types = True
