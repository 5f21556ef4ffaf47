"""Transfers of values between the host and devices, and between shardings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from xlafront import lowering
from xlafront.base.collective_guard import no_collectives
from xlafront.base.jaxlib_compat import (
    ArrayCopySemantics,
    ArrayImpl,
    Device,
    NamedSharding,
    Sharding,
    batched_block_until_ready,
)
from xlafront.base.layouts import Format, Layout, MemorySpace
from xlafront.base.meshes import AbstractMesh, AxisType, Mesh, active, concrete_meshes
from xlafront.base.specs import IndivisibleError, RankError, UnreducedKind, axes_of
from xlafront.checks.collectives import check_reshard
from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray, abstract_token, entry_of, with_entry
from xlafront.core.basic_primitives import reshard_p
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import of_first_any_kind, types_over_meshes
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.manual_computation import shards_as_sums
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime import backends, distributed, keys
from xlafront.runtime.guards import explicit
from xlafront.runtime.sharding import PartitionSpec, in_device_memory, open_sums, single_device
from xlafront.runtime.transfers import aligned_empty, copied, shard_indices_and_devices, unshare_buffers
from xlafront.staging import module_shardings
from xlafront.staging.array_transfers import put, relayout, reshard as reshard_arrays, transfer_all
from xlafront.staging.device_assignment import describe_sharding, has_devices
from xlafront.staging.jit import jit
from xlafront.staging.sharding_arguments import over_active_mesh

if TYPE_CHECKING:
    from xlafront.core.typing import Array, ArrayLike, Dims, Params, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def to_sharding(caller: str, target: Any) -> Sharding:
    """Convert a target of `device_put` to a sharding."""
    if isinstance(target, Sharding):
        return target
    if isinstance(target, Device):
        return single_device(target)
    if isinstance(target, PartitionSpec):
        return over_active_mesh(caller, target)
    raise ValueError(f"{caller} takes a device, a sharding, a Format, a memory space or a pytree of these as its target, got "
                     f"{type(target).__name__}: {target!r}.")


def _is_target(x: Any) -> bool:
    return x is None or isinstance(x, (Device, Sharding, PartitionSpec, Format, MemorySpace))


def _is_flag(x: Any) -> bool:
    return x is None or isinstance(x, (bool, np.bool_))


_T = TypeVar("_T")


@overload
def device_put(x: ArrayLike, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Array: ...


@overload
def device_put(x: _T, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> _T: ...


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """Transfer arrays to a device, or shard them over several.

    Args:
        x: A pytree of arrays or host values.
        device: A device, a sharding, a `Format`, a memory space, or a pytree prefix of these. Default: host values go to the
            default device and stay uncommitted.
        src: Current location of the arrays. Not needed.
        donate: If True, the input arrays are deleted and their memory is reused. A bool or a pytree prefix of bools.
        may_alias: If False, always copy. If True, host values may be used in place; they must not change later.

    Returns:
        A pytree like `x`, of arrays on the target.

    Example:
        >>> rows = xf.NamedSharding(xf.make_mesh((1,), ("data",)), xf.P("data"))
        >>> xf.device_put(np.ones((8, 4)), rows).sharding.spec
        P('data',)
    """
    with explicit("device_put"):
        return put_tree(x, device, donate, may_alias)


def put_tree(x: Any, device: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """Do the same as `device_put`, without marking the transfer as explicit for transfer guards."""
    leaves, treedef = tree.flatten_tree(x)
    count = len(leaves)
    targets = [device] * count if _is_target(device) else tree.leaves_by_prefix("device_put: device", device, x, _is_target)
    donated, aliased = (
        [flag] * count if _is_flag(flag) else tree.leaves_by_prefix(f"device_put: {name}", flag, x, _is_flag)
        for name, flag in (("donate", donate), ("may_alias", may_alias)))
    if any(donated) and any([d and a for d, a in zip(donated, aliased)]):
        raise ValueError("device_put cannot both donate the memory of an array (donate=True) and alias it (may_alias=True). "
                         "Leave one of them out.")
    results: list = [None] * count
    batched: list[int] = []  # local arrays, which are transferred by one call of the runtime
    shardings: dict = {}
    is_tracing = tracing.is_tracing()
    if is_tracing and any([x is not None for x in targets]):
        _check_targets_in_shard_map(targets)
    for i, (leaf, target) in enumerate(zip(leaves, targets)):
        try:
            if isinstance(target, (Device, PartitionSpec)):
                target = shardings.get(target) or shardings.setdefault(target, to_sharding("device_put", target))
            if isinstance(target, NamedSharding):
                shape = np.shape(leaf)
                target.check_compatible_aval(shape)
                target.shard_shape(shape)
            if count > 1 and not is_tracing and _is_local_transfer(leaf, target):
                leaf._check_if_deleted()
                shard_indices_and_devices(target, leaf.shape)
                targets[i] = target
                batched.append(i)
            else:
                results[i] = put_leaf(leaf, target, donated[i], aliased[i])
        except (IndivisibleError, RankError) as e:
            raise type(e)(f"device_put of x{tree.path_of(x, i)}: {e}") from None
    if batched:
        arrays = [leaves[i] for i in batched]
        transferred = transfer_all(arrays, [leaf._aval for leaf in arrays], [targets[i] for i in batched], True)
        for i, result in zip(batched, transferred):
            results[i] = _release_source(leaves[i], result, donated[i], aliased[i])
    return treedef.unflatten(results)


def _check_targets_in_shard_map(targets: list) -> None:
    """Raise an error for devices and for meshes with other axis types in the body of a `shard_map`, whose values are shards."""
    active_mesh, trace = active.abstract, tracing.thread.trace
    if active_mesh is None or not active_mesh.manual_axes:
        return
    while trace is not None and getattr(trace, "evaluate", None) is None:
        trace = trace.parent
    for target in targets:
        mesh = target.mesh.abstract_mesh if isinstance(target, NamedSharding) else None
        if trace is not None and isinstance(target, (Device, Sharding)) or mesh is not None and (
                mesh.axis_types != active_mesh.axis_types):
            raise ValueError(f"device_put to {target} is not allowed within a function of shard_map, whose values are shards "
                             f"on one device; the active mesh is {active_mesh}. Call device_put outside of it.")


def check_devices(x: Array, sharding: Any, caller: str) -> None:
    """Raise an error if an array is committed to other devices than those of a sharding: executables transfer nothing."""
    source = None if isinstance(x, tracing.Tracer) else getattr(x, "sharding", None)
    if not has_devices(sharding) and active.mesh is not None and active.mesh.shape_tuple == sharding.mesh.shape_tuple:
        sharding = sharding.update(mesh=active.mesh)
    if isinstance(source, Sharding) and getattr(x, "committed", False) and has_devices(sharding) and (
            source._internal_device_list != sharding._internal_device_list):
        raise ValueError(f"{caller} got incompatible devices for a jitted computation: an array of shape {np.shape(x)} that is "
                         f"{describe_sharding(source)}, to be {describe_sharding(sharding)}. Transfer it with "
                         f"device_put(x, sharding).")


def _is_local_transfer(x: Any, target: Any) -> bool:
    """True if the runtime can transfer the array as it is: from and to devices of this process, without unreduced axes."""
    return type(x) is ArrayImpl and isinstance(target, Sharding) and all([
        has_devices(s) and s.is_fully_addressable and not open_sums(s) for s in (x._sharding, target)])


def put_leaf(x: Any, target: Any, donate: bool = False, may_alias: bool | None = None) -> Any:
    """Transfer one value. Hot without a target; watched by the `asarray` benchmark."""
    if type(target) is MemorySpace:
        return _to_memory(x, target, may_alias)
    if type(target) is Format:
        return _to_format(x, target, donate, may_alias)
    sharding = None if target is None else to_sharding("device_put", target)
    own: Any = getattr(x, "sharding", None)
    if sharding is not None and (open_sums(sharding) or open_sums(own)):
        if isinstance(sharding, NamedSharding):
            return reshard_p.bind(x, dst_sharding=sharding)
        x = reshard_p.bind(x, dst_sharding=own.update(spec=own.spec.update(unreduced=frozenset())))
    if isinstance(x, tracing.Tracer) or tracing.is_tracing():
        return device_put_p.bind(x, **_put_params(sharding, None, donate, may_alias))
    aval = tracing.aval_of(x, "device_put")
    if aval is abstract_token:
        return x
    if type(x) is keys.KeyArray:
        return x if sharding is None else keys.wrap(put_leaf(x._base_array, sharding, donate, may_alias), aval)
    if sharding is None:
        if type(aval.dtype) is np.dtypes.StringDType:
            raise TypeError("device_put of an array of strings needs a target. Pass a CPU device, as in "
                            "device_put(x, devices('cpu')[0]), or a sharding over CPU devices.")
        if type(x) is ArrayImpl:
            return copied(x, aval) if may_alias is False else x
        return put(_host_copy(x, aval, may_alias), aval, single_device(backends.default_device()), False)
    if isinstance(sharding, NamedSharding):
        if not has_devices(sharding):
            raise ValueError(f"device_put of an array of shape {aval.shape} to {sharding}, which has no devices: its mesh is "
                             f"an AbstractMesh. Use a sharding over a Mesh, from make_mesh.")
        shard_indices_and_devices(sharding, aval.shape)
    if type(x) is not ArrayImpl:
        if sharding.is_fully_addressable:
            return put(_host_copy(x, aval, may_alias), aval, sharding, True)
        return _put_across_processes(x, aval, sharding)
    aval = x._aval  # without the type that its sharding implies
    x._check_if_deleted()
    if not sharding.is_fully_addressable:
        result = _put_across_processes(x, aval, sharding)
    elif not (x.is_fully_addressable or x.is_fully_replicated):
        raise ValueError(
            f"device_put cannot transfer an array of shape {aval.shape} that spans processes, {x.sharding}, to devices of only "
            f"this process: {sharding}. Use x.addressable_shards for its local shards, or "
            f"experimental.multihost_utils.process_allgather for the global array.")
    else:
        result = put(x, aval, sharding, True)
    return _release_source(x, result, donate, may_alias)


def _release_source(x: ArrayImpl, result: ArrayImpl, donate: bool, may_alias: bool | None) -> ArrayImpl:
    """Return the result of a transfer, without shared memory if required, and delete the source if it was donated."""
    donated = donate and not x._sharding.is_equivalent_to(result._sharding, x.ndim)
    if (donated or may_alias is False) and x._sharding.device_set & result._sharding.device_set:
        result = unshare_buffers(result, x)  # a shared buffer would be deleted with the array
    if donated:
        x.delete()
    return result


def _to_memory(x: Array, space: MemorySpace, may_alias: bool | None) -> Array:
    """Transfer a value to the memory of its device, or of the device's host."""
    kind = "pinned_host" if space is MemorySpace.Host else "device"
    if isinstance(x, tracing.Tracer) or tracing.is_tracing():
        return move_memory_p.bind(x, memory_kind=kind)
    return _to_memory_kind(x, kind, may_alias)


def _to_memory_kind(x: Any, kind: str, may_alias: bool | None = None) -> Array:
    if type(x) is keys.KeyArray:
        return keys.wrap(_to_memory_kind(x._base_array, kind, may_alias), x.aval)
    if type(x) is not ArrayImpl:
        x = put_leaf(x, None)
    x._check_if_deleted()
    if x.sharding.memory_kind == kind:
        return copied(x, x.aval) if may_alias is False else x
    return put(x, x.aval, x.sharding.with_memory_kind(kind), x._committed)


def _to_format(x: Array, target: Format, donate: bool, may_alias: bool | None) -> Array | tracing.Tracer:
    """Transfer a value to a sharding, with an explicit layout."""
    if target.layout is Layout.AUTO:
        raise ValueError(f"device_put needs a concrete layout and sharding, got {target}: only a compiled function can choose "
                         "a layout. Pass one, as in Layout((1, 0)), or only the sharding.")
    if target.layout is None:
        return put_leaf(x, target.sharding, donate, may_alias)
    target.layout.check_compatible_aval(tracing.aval_of(x, "device_put").shape)
    if type(x) is keys.KeyArray:
        words = x._base_array
        target = Format(target.layout.of_rank(words.ndim), target.sharding)
        return keys.wrap(_to_format(words, target, donate, may_alias), x.aval)
    transferred = put_leaf(x, target.sharding)
    if isinstance(transferred, tracing.Tracer):
        return transferred
    result = transferred if target.layout.fits(transferred.format.layout) else relayout(transferred, target.layout)
    if type(x) is not ArrayImpl:
        return result
    if result is transferred:
        return _release_source(x, transferred, donate, may_alias)
    if donate:
        x.delete()
    return result


def _put_across_processes(x: Any, aval: ShapedArray, sharding: Sharding) -> ArrayImpl:
    """Transfer a value to devices of several processes. Each process puts its own shards, so all must have the same value."""
    if type(x) is ArrayImpl and not x.is_fully_addressable:
        if x.sharding.is_equivalent_to(sharding, aval.ndim):
            return put(x, aval, sharding, True)
        if x.sharding.device_set == sharding.device_set:
            return reshard_arrays([x], [sharding])[0]
    host = _host_copy(x, aval)
    processes = {d.process_index for d in sharding.device_set}
    differing = {} if backends.process_index() not in processes else distributed.agree(
        "device_put", f"{distributed.fingerprint([host])} {_summary(host)}", processes)
    if differing:
        differences = "; ".join(f"process {i}: {text.partition(' ')[2]}" for i, text in list(differing.items())[:4])
        raise AssertionError(
            f"device_put to {sharding} got different values of shape {aval.shape} in different processes: {differences}. Pass "
            f"the same value in all of them, or use make_array_from_process_local_data for different shards.")
    return put(host, aval, sharding, True)


def _summary(host: np.ndarray) -> str:
    return np.array2string(host, threshold=8, edgeitems=3)[:200]


def _host_copy(x: Any, aval: ShapedArray, may_alias: bool | None = None) -> np.ndarray:
    """Copy a host value, so that later changes of the caller's array do not show; `may_alias` allows to share it."""
    if may_alias:
        return np.asarray(x, dtype=aval.dtype)
    if aval.size < 1 << 14:
        return np.array(x, dtype=aval.dtype)
    copy = aligned_empty(aval.shape, aval.dtype)
    copy[...] = x
    return copy


def device_get(x: Any) -> Any:
    """Copy arrays to the host, as NumPy arrays. All transfers are started before the first one is awaited.

    Args:
        x: A pytree of arrays.

    Returns:
        A pytree like `x`, of NumPy arrays.

    Example:
        >>> xf.device_get({"a": xnp.ones(2)})
        {'a': array([1., 1.], dtype=float32)}
    """
    leaves, treedef = tree.flatten_tree(x)
    with explicit("device_get"):
        for leaf in leaves:
            if isinstance(leaf, ArrayImpl):
                leaf.copy_to_host_async()
        return treedef.unflatten([_to_numpy(leaf) for leaf in leaves])


def _to_numpy(x: Any) -> Any:
    if isinstance(x, ArrayImpl):
        return x._value
    if hasattr(x, "__array__") and type(x) is not keys.KeyArray and not isinstance(x, tracing.Tracer):
        return np.asarray(x)
    return x


def block_until_ready(x: Any) -> Any:
    """Wait until arrays have been computed, and return them.

    Args:
        x: A pytree of arrays.

    Returns:
        `x`.

    Example:
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
    """Start to copy arrays to the host, where later reads find them, and return the arrays.

    Args:
        x: A pytree of arrays.

    Returns:
        `x`.

    Example:
        >>> np.asarray(xf.copy_to_host_async(xnp.ones(2)))
        array([1., 1.], dtype=float32)
    """
    for leaf in tree.leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


# Traced functions


def _put_params(sharding: Any, source: Any, donate: bool = False, may_alias: bool | None = None) -> dict[str, Any]:
    semantics = ArrayCopySemantics.DONATE_INPUT if donate else (
        ArrayCopySemantics.ALWAYS_COPY if may_alias is False else ArrayCopySemantics.REUSE_INPUT)
    return {"devices": (sharding,), "srcs": (source,), "copy_semantics": (semantics,)}


def lower_put(ctx: RuleContext, x: ir.Value, *, sharding: Sharding | None) -> ir.Value:
    if sharding is not None and not in_device_memory(sharding):
        x = _lower_memory_kind(ctx, x, memory_kind=sharding.memory_kind)
    if sharding is None or not isinstance(sharding, NamedSharding):
        return x
    context = ctx.module_context.sharding_context
    if context is not None and context.partitioned:
        sharding = context.on_devices(sharding)
    [result] = module_shardings.constrain(ctx, [x], [ctx.aval_out], [sharding])
    return result


def _put_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, devices: tuple, srcs: tuple, copy_semantics: tuple
             ) -> tuple[Any, Any]:
    [x] = primals
    result = device_put_p.bind(x, devices=devices, srcs=srcs, copy_semantics=copy_semantics)
    if type(tangents[0]) is Zero:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    # Cotangents of a committed array go to its devices.
    value = x._concrete() if isinstance(x, tracing.Tracer) else x
    srcs = (value._sharding,) if type(value) is ArrayImpl and value._committed else srcs
    return result, device_put_p.bind(tangents[0], devices=devices, srcs=srcs, copy_semantics=copy_semantics)


def _put_transpose(ct: Tangent, x: Any, *, devices: tuple, srcs: tuple, copy_semantics: tuple) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if srcs != (None,):
        return [device_put_p.bind(ct, devices=srcs, srcs=devices, copy_semantics=copy_semantics)]
    return [_to_memory_space_of(x.aval, ct)]


def _to_memory_space_of(aval: ShapedArray, ct: Array) -> Array:
    """Transfer a cotangent to the memory space of the primal value."""
    needs_host, is_on_host = (t.memory_space is MemorySpace.Host for t in (aval, tracing.aval_of(ct)))
    return ct if needs_host == is_on_host else move_memory_p.bind(ct, memory_kind="pinned_host" if needs_host else "device")


def _put_batch(size: int, operands: Sequence[Any], dims: Dims, *, devices: tuple, srcs: tuple, copy_semantics: tuple
               ) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    devices, srcs = ((with_entry(sharding, d),) for [sharding] in (devices, srcs))
    return device_put_p.bind(x, devices=devices, srcs=srcs, copy_semantics=copy_semantics), d


class _DevicePut(Primitive):
    """A transfer, whose result has the sharding and the memory that are parameters."""

    __slots__ = ()

    def types_of(self, avals: tuple, params: Params) -> ShapedArray:
        [sharding] = params["devices"]
        kind = getattr(sharding, "memory_kind", None)
        memory = None if kind in (None, "device") else MemorySpace.Host
        return types_over_meshes(self, avals, params | {"sharding": sharding}).update(memory_space=memory)


device_put_p = _DevicePut(
    "device_put", abstract=lambda x, **_: ShapedArray(x.shape, x.dtype, x.weak_type, vma=x.vma),
    lower=lambda ctx, x, *, devices, **_: lower_put(ctx, x, sharding=devices[0]),
    impl=lambda x, *, devices, **_: put_leaf(x, devices[0]), jvp=_put_jvp, transpose=_put_transpose, batch=_put_batch,
    mesh=MeshRules(sharding_rules.same, sums=of_first_any_kind,
                   binds_devices=lambda *, devices, **_: isinstance(devices[0], NamedSharding)),
    traits=Traits(key_use=KeyUse.FORWARDS, runs_eagerly=True, is_reshard=True))


def _lower_memory_kind(ctx: RuleContext, x: ir.Value, *, memory_kind: str) -> ir.Value:
    if ctx.platform == "cpu":  # the memory of CPU devices is host memory
        return x
    m = lowering.mlir
    return ctx.op("stablehlo.custom_call", [x], call_target_name=m.string("annotate_device_placement"),
                  has_side_effect=m.boolean(True), **{"mhlo.frontend_attributes": m.ir.DictAttr.get(
                      {"_xla_buffer_placement": m.string(memory_kind)})})


move_memory_p = Primitive(
    "move_memory", abstract=lambda x, *, memory_kind: x.update(
        memory_space=None if memory_kind == "device" else MemorySpace.Host), lower=_lower_memory_kind,
    impl=lambda x, *, memory_kind: _to_memory_kind(x, memory_kind),
    transpose=lambda ct, x, *, memory_kind: [ct if type(ct) is Zero else _to_memory_space_of(x.aval, ct)],
    batch=lambda size, xs, dims, *, memory_kind: (move_memory_p.bind(xs[0], memory_kind=memory_kind), dims[0]), jvp=linear_jvp,
    mesh=MeshRules(states_mesh_types=True), traits=Traits(key_use=KeyUse.FORWARDS, runs_eagerly=True))


# Resharding over explicit axes


def _reshard_batch(axis_size: int, xs: Sequence[Any], ds: Dims, *, dst_sharding: NamedSharding) -> tuple[Any, Any]:
    [x], [d], target = xs, ds, dst_sharding
    entry = entry_of(tracing.aval_of(x), d)
    if entry is not None and not target.mesh.explicit:  # axes become automatic in the elements, not in the batch
        mesh = target.mesh.abstract_mesh.update_axis_types({a: AxisType.Explicit for a in axes_of(entry)})
        target = NamedSharding(mesh, target.spec)
    return reshard_p.bind(x, dst_sharding=with_entry(target, d, entry)), d


def _reshard_lower(ctx: RuleContext, x: ir.Value, *, dst_sharding: NamedSharding) -> ir.Value:
    context, target = ctx.module_context.sharding_context, dst_sharding
    if context is None or not context.partitioned:
        return x
    if not target.mesh.explicit:
        explicit = ctx.avals_in[0].explicit_sharding
        if explicit is None or not explicit.spec.unreduced & explicit.mesh.explicit:
            return x
        target = explicit.update(spec=explicit.spec.update(unreduced=frozenset()))  # automatic axes cannot be unreduced
    spec, [aval] = target.spec, ctx.avals_in
    unreduced = frozenset() if aval.explicit_sharding is None else aval.explicit_sharding.spec.unreduced
    if spec.unreduced - unreduced and aval.explicit_sharding is not None and isinstance(aval.dtype, np.dtype):
        as_sums = shards_as_sums(ctx, x, target.mesh, aval.explicit_sharding.spec, spec.unreduced - unreduced)
        if as_sums is not None:
            return module_shardings.constrain(ctx, [as_sums], [ctx.aval_out], [target])[0]
    if spec.unreduced - unreduced and unreduced - spec.unreduced:  # the compiler cannot reduce and unreduce in one step
        explicit = aval.explicit_sharding
        intermediate = explicit.update(spec=explicit.spec.update(unreduced=unreduced & spec.unreduced))
        [x] = module_shardings.constrain(ctx, [x], [aval], [intermediate])
    elif spec.unreduced and not unreduced:
        # Reshard first: otherwise the compiler takes the shard on each device for its summand.
        [x] = module_shardings.constrain(ctx, [x], [aval], [target.update(spec=spec.update(unreduced=frozenset()))])
    return module_shardings.constrain(ctx, [x], [ctx.aval_out], [target])[0]


def _reshard_impl(x: Array, *, dst_sharding: NamedSharding) -> Array:
    mesh, target = dst_sharding.mesh, dst_sharding
    if dst_sharding.spec.unreduced:
        _check_kind(tracing.aval_of(x), dst_sharding)
    if no_collectives.value:
        check_reshard(tracing.aval_of(x), dst_sharding)
    source = getattr(x, "sharding", None)
    if not mesh.explicit and isinstance(source, NamedSharding) and source.mesh.shape_tuple == mesh.shape_tuple:
        spec = source.spec.update(unreduced=frozenset(), reduced=frozenset())
        x = x if not open_sums(source) else _reshard_call(source.update(spec=spec))(x)
        return put_leaf(x, NamedSharding(source.mesh.update(axis_types=mesh.axis_types), spec))
    if isinstance(mesh, AbstractMesh):
        mesh = concrete_mesh(x, mesh)
    rank = tracing.aval_of(x).ndim
    sharding = NamedSharding(mesh, target.spec.update(partitions=target.spec.padded(rank)[:rank]))
    if open_sums(source):
        return x if source == sharding else _reshard_call(sharding)(x)
    if open_sums(sharding):
        if isinstance(source, NamedSharding) and source.mesh == mesh:
            return _reshard_call(sharding)(x)
        return _reshard_call(sharding)(put_leaf(x, sharding.update(spec=sharding.spec.update(unreduced=frozenset()))))
    return put_leaf(x, sharding)


@functools.lru_cache(256)
def _reshard_call(target: NamedSharding) -> Callable:
    """Return a compiled function that reshards unreduced arrays: only executables reduce or unreduce."""
    return jit(lambda x: reshard_p.bind(x, dst_sharding=target))


def concrete_mesh(x: Array, mesh: AbstractMesh) -> Mesh:
    """Return a mesh with devices for an abstract mesh: that of the array, or the active one, if it has as many devices."""
    sharding = getattr(x, "sharding", None)
    candidates = [m for m in (sharding.mesh if isinstance(sharding, NamedSharding) else None, active.mesh,
                              concrete_meshes.get(mesh)) if isinstance(m, Mesh) and m.size == mesh.size]
    for candidate in sorted(candidates, key=lambda m: m.shape_tuple != mesh.shape_tuple):
        return candidate.with_axes(mesh)
    raise ValueError(f"cannot shard an array of type {tracing.aval_of(x)} over {mesh}, which has no devices. Use a Mesh, or "
                     f"activate one with set_mesh.")


def _check_kind(x: ShapedArray, target: NamedSharding) -> None:
    """Raise for a reshard to open maxima or minima, which only reductions can leave open, and to another kind."""
    kind, own = target.spec.unreduced_kind, PartitionSpec() if x.explicit_sharding is None else x.explicit_sharding.spec
    if own.unreduced and target.spec.unreduced and own.unreduced_kind is not kind:
        raise ValueError(f"reshard of an array of the type {x} to {target.spec} would change its unreduced_kind from "
                         f"{own.unreduced_kind} to {kind}. Reduce the array first, with reshard(x, P(...)).")
    if kind not in (None, UnreducedKind.sum) and not target.spec.unreduced <= own.unreduced:
        raise ValueError(f"reshard cannot make an array of the type {x} more unreduced, as {target.spec} requests: only "
                         f"reductions leave maxima and minima open.")


def _reshard_type(x: ShapedArray, *, dst_sharding: NamedSharding) -> ShapedArray:
    _check_kind(x, dst_sharding)
    return x.update(sharding=dst_sharding)


reshard_p.define(
    abstract=_reshard_type, lower=_reshard_lower, impl=_reshard_impl,
    transpose=lambda ct, x, *, dst_sharding: [Zero(x.aval) if type(ct) is Zero else ct], batch=_reshard_batch, jvp=linear_jvp,
    mesh=MeshRules(states_mesh_types=True), traits=Traits(key_use=KeyUse.FORWARDS))
