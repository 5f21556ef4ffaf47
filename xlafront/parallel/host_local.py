"""Arrays of one process as parts of arrays over the devices of all, and back: two operations, each the other's transpose.

Along dimensions that are split over processes the global size is the sum of the local ones; along others all processes
give the same. What lies on the devices stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import keys, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.shards import from_local_data
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import device_put, to_sharding
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime import distributed
from xlafront.runtime.arrays import ArrayImpl, skip_checks
from xlafront.runtime.jax_names import buffers_of
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import check_spec
from xlafront.runtime.sharding import Mesh, PartitionSpec, axes_of
from xlafront.staging.moves import put


def _resized(aval: ShapedArray, pspec: PartitionSpec, old: Mesh, new: Mesh) -> ShapedArray:
    """The type with the same parts on the devices of another mesh."""
    check_spec(old, pspec, aval.ndim)
    shape = list(aval.shape)
    for d, entry in enumerate(pspec):
        before, after = (math.prod([mesh.shape[axis] for axis in axes_of(entry)]) for mesh in (old, new))
        shape[d] = shape[d] // before * after
    return ShapedArray(tuple(shape), aval.dtype, getattr(aval, "weak_type", False))


def global_type(aval: Any, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """The type of the global array of a local one."""
    return _resized(aval, pspec, global_mesh.local_mesh, global_mesh)


def local_type(aval: Any, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """The type of this process's part of a global array."""
    return _resized(aval, pspec, global_mesh, global_mesh.local_mesh)


def to_global(x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    """The global array of a local one. Arrays that span processes stay as they are."""
    aval = tracing.aval_of(x)
    if type(x) is keys.KeyArray:
        return keys.wrap(to_global(x._base_array, global_mesh=global_mesh, pspec=pspec), global_type(aval, global_mesh, pspec))
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        return x
    local = put(x, aval, NamedSharding(global_mesh.local_mesh, pspec), True)
    return _over(local, global_type(aval, global_mesh, pspec), NamedSharding(global_mesh, pspec))


def to_local(x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    """The part of a global array on this process's devices, an array over this process's part of the mesh."""
    aval = local_type(tracing.aval_of(x), global_mesh, pspec)
    if type(x) is keys.KeyArray:
        return keys.wrap(to_local(x._base_array, global_mesh=global_mesh, pspec=pspec), aval)
    sharding = NamedSharding(global_mesh, pspec)
    if not isinstance(x, ArrayImpl) or x.sharding != sharding:
        x = device_put(x, sharding)
    return _over(x, aval, NamedSharding(global_mesh.local_mesh, pspec))


def _over(x: ArrayImpl, aval: ShapedArray, sharding: NamedSharding) -> ArrayImpl:
    """The parts of `x`, as those of another array."""
    return ArrayImpl(aval, sharding, buffers_of(x), committed=True, **skip_checks)


def _lower(ctx, x, *, global_mesh, pspec):
    if global_mesh.is_multi_process:
        raise ValueError(
            "arrays of one process cannot become parts of global ones inside of a loop, a branch or another compiled body: "
            "call pmap over the devices of several processes, and host_local_array_to_global_array, outside of it.")
    return x


def batched_spec(pspec: PartitionSpec, dim: int, name: Any = None) -> PartitionSpec:
    """The spec of batches that are counted along `dim`."""
    entries = pspec.padded(dim)
    return pspec.update(partitions=(*entries[:dim], name, *entries[dim:]))


def _conversion(name: str, type_of: Callable, impl: Callable) -> Primitive:
    made = Primitive(name, abstract=type_of, impl=impl, lower=_lower)

    def batch(trace, xs, dims, *, global_mesh, pspec):
        spec = batched_spec(pspec, dims[0], trace.spmd_axis_name)
        return made.bind(xs[0], global_mesh=global_mesh, pspec=spec), dims[0]

    made.jvp, made.batch_with_axis = linear_jvp(made), batch
    return made


def _transposed(back: Primitive) -> Callable:
    return lambda ct, x, **params: [Zero(x.aval) if type(ct) is Zero else back.bind(ct, **params)]


to_global_p = _conversion("host_local_array_to_global_array", global_type, to_global)
to_local_p = _conversion("global_array_to_host_local_array", local_type, to_local)
to_global_p.changes_groups = to_local_p.changes_groups = lambda *, global_mesh, **_: global_mesh.is_multi_process
to_global_p.transpose, to_local_p.transpose = _transposed(to_local_p), _transposed(to_global_p)


# Data of each process


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Global arrays from the parts that this process holds.

    Along dimensions that are split over processes a part may also be the whole, where `global_shape` says so.

    - `sharding`: how the arrays are split, for all of them or as a pytree prefix.
    - `local_data`: a pytree of host arrays.
    - `global_shape`: the shapes of the whole arrays, as a pytree prefix. What is left out (None) equals the local size, or
      grows with the number of processes that share the dimension.

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
                         f"{np.shape(x)}: in a program of one process that is the whole array. Leave global_shape out.")
    if not sharding.addressable_devices:
        raise ValueError(
            f"make_array_from_process_local_data was given {sharding}, which has no devices of this process, so that there is "
            f"no part here. Call make_array_from_single_device_arrays(shape, sharding, [], dtype=...).")
    if type(x) is not keys.KeyArray:
        return from_local_data(sharding, x, shape)
    words = x._base_array
    whole = from_local_data(sharding, words, None if shape is None else (*shape, *words.shape[x.ndim:]))
    return keys.wrap(whole, ShapedArray(whole.shape[:x.ndim], x.dtype))
