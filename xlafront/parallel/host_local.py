"""Conversions between process-local arrays and global arrays: two primitives, each the transpose of the other.

Along dimensions that are sharded over processes, the global size is the sum of the local sizes; other dimensions are
replicated.
The buffers stay on their devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base.jax_names import buffers_of
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.meshes import check_spec
from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import device_put, to_sharding
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime import distributed, keys
from xlafront.runtime.arrays import ArrayImpl, skip_checks
from xlafront.runtime.sharding import Mesh, PartitionSpec, axes_of
from xlafront.runtime.shards import from_local_data
from xlafront.staging.array_transfers import put


def _on_other_mesh(aval: ShapedArray, pspec: PartitionSpec, old: Mesh, new: Mesh) -> ShapedArray:
    """Return the type with the same shards on another mesh."""
    check_spec(old, pspec, aval.ndim)
    shape = list(aval.shape)
    for d, entry in enumerate(pspec):
        before, after = (math.prod([mesh.shape[axis] for axis in axes_of(entry)]) for mesh in (old, new))
        shape[d] = shape[d] // before * after
    return ShapedArray(tuple(shape), aval.dtype, getattr(aval, "weak_type", False))


def global_type(aval: Any, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """Return the global type of a process-local array."""
    return _on_other_mesh(aval, pspec, global_mesh.local_mesh, global_mesh)


def local_type(aval: Any, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """Return the process-local type of a global array."""
    return _on_other_mesh(aval, pspec, global_mesh, global_mesh.local_mesh)


def to_global(x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    """Convert a process-local array to a global one. Arrays that span processes are returned unchanged."""
    aval = tracing.aval_of(x)
    if type(x) is keys.KeyArray:
        return keys.wrap(to_global(x._base_array, global_mesh=global_mesh, pspec=pspec), global_type(aval, global_mesh, pspec))
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        return x
    local = put(x, aval, NamedSharding(global_mesh.local_mesh, pspec), True)
    return _with_buffers(local, global_type(aval, global_mesh, pspec), NamedSharding(global_mesh, pspec))


def to_local(x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    """Convert a global array to an array over this process's part of the mesh."""
    aval = local_type(tracing.aval_of(x), global_mesh, pspec)
    if type(x) is keys.KeyArray:
        return keys.wrap(to_local(x._base_array, global_mesh=global_mesh, pspec=pspec), aval)
    sharding = NamedSharding(global_mesh, pspec)
    if not isinstance(x, ArrayImpl) or x.sharding != sharding:
        x = device_put(x, sharding)
    return _with_buffers(x, aval, NamedSharding(global_mesh.local_mesh, pspec))


def _with_buffers(x: ArrayImpl, aval: ShapedArray, sharding: NamedSharding) -> ArrayImpl:
    """Return an array of another type and sharding with the buffers of `x`."""
    return ArrayImpl(aval, sharding, buffers_of(x), committed=True, **skip_checks)


def _lower(ctx, x, *, global_mesh, pspec):
    if global_mesh.is_multi_process:
        raise ValueError(
            "process-local arrays cannot be converted to global ones inside of a loop, a branch or another compiled body: "
            "call pmap over the devices of several processes, and host_local_array_to_global_array, outside of it.")
    return x


def batched_spec(pspec: PartitionSpec, dim: int, name: Any = None) -> PartitionSpec:
    """Return the spec of a batch along `dim`."""
    entries = pspec.padded(dim)
    return pspec.update(partitions=(*entries[:dim], name, *entries[dim:]))


def _conversion(name: str, type_of: Callable, impl: Callable, inverse: Callable[[], Primitive]) -> Primitive:
    def batch(trace, xs, dims, *, global_mesh, pspec):
        spec = batched_spec(pspec, dims[0], trace.spmd_axis_name)
        return primitive.bind(xs[0], global_mesh=global_mesh, pspec=spec), dims[0]

    primitive = Primitive(
        name, abstract=type_of, impl=impl, lower=_lower, jvp=linear_jvp, batch_with_axis=batch,
        transpose=lambda ct, x, **params: [Zero(x.aval) if type(ct) is Zero else inverse().bind(ct, **params)],
        mesh=MeshRules(changes_groups=lambda *, global_mesh, **_: global_mesh.is_multi_process))
    return primitive


to_global_p = _conversion("host_local_array_to_global_array", global_type, to_global, lambda: to_local_p)
to_local_p = _conversion("global_array_to_host_local_array", local_type, to_local, lambda: to_global_p)


# Process-local data


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Create global arrays from the data of this process.

    Along dimensions that are sharded over processes, the local data may also be the global data, if `global_shape` says so.

    Args:
        sharding: Sharding of the arrays, one for all or a pytree prefix.
        local_data: Pytree of host arrays.
        global_shape: Shapes of the global arrays, as a pytree prefix. An omitted size (None) is the local size, times the
            number of
            processes if they shard the dimension.

    Returns:
        A pytree of global arrays.

    Example:
        >>> rows = xf.NamedSharding(xf.make_mesh((1,), ("data",)), xf.P("data"))
        >>> xf.make_array_from_process_local_data(rows, {"images": np.zeros((4, 8)), "labels": np.zeros(4)})["labels"].shape
        (4,)
    """
    leaves, treedef = tree.flatten(local_data)
    shardings, shapes = (tree.leaves_by_prefix(f"make_array_from_process_local_data: {name}", prefix, local_data, _is_shape)
                         for name, prefix in (("sharding", sharding), ("global_shape", global_shape)))
    return treedef.unflatten([_from_leaf(to_sharding("make_array_from_process_local_data", s), x, shape)
                              for s, x, shape in zip(shardings, leaves, shapes)])


def _is_shape(x: Any) -> bool:
    return x is None or isinstance(x, (tuple, list)) and all([n is None or isinstance(n, (int, np.integer)) for n in x])


def _from_leaf(sharding: Any, x: Any, shape: Sequence[int | None] | None) -> Any:
    if distributed.state.num_processes == 1 and shape is not None and tuple(shape) != np.shape(x):
        raise ValueError(f"make_array_from_process_local_data was given global_shape={tuple(shape)} for data of shape "
                         f"{np.shape(x)}: with a single process, the data are the global array. Leave global_shape out.")
    if not sharding.addressable_devices:
        raise ValueError(
            f"make_array_from_process_local_data was given {sharding}, which has no devices of this process, and thus no "
            f"local data. Call make_array_from_single_device_arrays(shape, sharding, [], dtype=...).")
    if type(x) is not keys.KeyArray:
        return from_local_data(sharding, x, shape)
    words = x._base_array
    global_words = from_local_data(sharding, words, None if shape is None else (*shape, *words.shape[x.ndim:]))
    return keys.wrap(global_words, ShapedArray(global_words.shape[:x.ndim], x.dtype))
