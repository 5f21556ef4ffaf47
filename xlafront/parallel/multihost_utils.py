"""Exchange of host values between processes, and synchronization.

Every process must make these calls, in the same order. Properties that must agree (shapes, dtypes, names) are compared before
anything is sent, so that a mismatch raises an error in all processes instead of hanging.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl, Device, NamedSharding
from xlafront.core import dtypes, tree
from xlafront.core.avals import ShapedArray
from xlafront.parallel import host_local
from xlafront.runtime import backends, distributed
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.runtime.shards import from_local_data
from xlafront.staging.jit import jit


class ProcessFailureError(RuntimeError):
    """Raised if processes died or failed in a `live_devices` block.

    Args:
        failed_devices: Devices of the failed processes.
    """

    def __init__(self, failed_devices: Sequence[Device]):
        self.failed_devices = list(failed_devices)
        super().__init__(f"processes {sorted({d.process_index for d in self.failed_devices})} failed in a live_devices block.")


# Collectives over devices


def _process_mesh() -> Mesh:
    """Return a mesh with the first device of every process."""
    first: dict[int, Any] = {}
    for device in backends.devices():
        first.setdefault(device.process_index, device)
    return Mesh(np.array([first[i] for i in sorted(first)], dtype=object), ("processes",))


@functools.cache
def _replicating_function(mesh: Mesh, function: Callable) -> Callable:
    """Return the compiled function whose results are replicated over the mesh."""
    return jit(function, out_shardings=NamedSharding(mesh, PartitionSpec()))


def _identity(arrays: list) -> list:
    return arrays


def _sums(arrays: list) -> list:
    return [x.sum(0, dtype=x.dtype) for x in arrays]


def _replicate(arrays: Sequence[ArrayImpl], mesh: Mesh, function: Callable = _identity) -> list[np.ndarray]:
    return [np.asarray(x.addressable_data(0)) for x in _replicating_function(mesh, function)(list(arrays))]


def _stack(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Stack the values of all processes along a new first dimension."""
    mesh = _process_mesh()
    rows = NamedSharding(mesh, PartitionSpec("processes"))
    bits = [_to_bits(value) for value in values]
    arrays = [from_local_data(rows, b[None], (mesh.size, *b.shape)) for b in bits]
    return [_from_bits(stacked, value) for stacked, value in zip(_replicate(arrays, mesh), values)]


def _to_bits(value: np.ndarray) -> np.ndarray:
    """View the bytes as unsigned integers, which every backend transfers exactly."""
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return flat.view(np.uint32) if flat.size % 4 == 0 else flat


def _from_bits(stacked: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(stacked).view(np.uint8).view(like.dtype).reshape(len(stacked), *like.shape)


def _host_value(x, caller: str) -> np.ndarray:
    value = np.asarray(x)
    if value.dtype.kind not in "biufcV":
        raise TypeError(f"{caller} takes arrays of numbers, got {type(x).__name__} of dtype {value.dtype}.")
    return value.astype(dtypes.canonicalize_dtype(value.dtype), copy=False)


def _matching_leaves(caller: str, in_tree: Any) -> tuple[list[np.ndarray], Any]:
    """Return the leaves on the host; raise in every process if their shapes or dtypes differ between processes."""
    leaves, treedef = tree.flatten(in_tree)
    values = [_host_value(x, caller) for x in leaves]
    text = f"{caller} of " + ", ".join(f"{v.dtype}{list(v.shape)}" for v in values)
    differing = distributed.agree(caller, text)
    if differing:
        raise ValueError(
            f"the processes do not make the same call: {_describe(differing)}. Call {caller} in all processes, with "
                         f"arrays of the same shapes and dtypes.")
    return values, treedef


def _describe(states: dict[int, str]) -> str:
    shown_states = list(states.items())[:4]
    return "; ".join(f"process {process}: {state[:300]}" for process, state in shown_states) + ("; ..." if len(states) > 4
                                                                                                else "")


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Gather the values of all processes in all processes.

    Args:
        in_tree: Pytree of arrays and scalars. Host values and process-local arrays must have the same shape in all processes;
            arrays
            that span processes are returned as their global values.
        tiled: If True, concatenate local values along the first dimension; otherwise stack them along a new one.

    Returns:
        A pytree of NumPy arrays.

    Example:
        >>> process_allgather(np.float32(1.5))
        array([1.5], dtype=float32)
    """
    leaves, treedef = tree.flatten(in_tree)
    results: list[Any] = [None] * len(leaves)
    spanning = [i for i, x in enumerate(leaves) if isinstance(x, ArrayImpl) and not x.is_fully_addressable]
    for i in spanning:
        if not tiled:
            raise ValueError(f"process_allgather got an array of shape {leaves[i].shape} that spans processes: such "
                             f"arrays are gathered to their global value. Pass tiled=True.")
        results[i] = _gather(leaves[i])
    local = [i for i in range(len(leaves)) if i not in set(spanning)]
    if local and backends.process_count() == 1:
        for i in local:
            value = np.asarray(leaves[i])
            results[i] = value if tiled else value[None]
    elif local:
        values, _ = _matching_leaves("process_allgather", [leaves[i] for i in local])
        for i, stacked in zip(local, _stack(values)):
            results[i] = stacked.reshape(-1, *stacked.shape[2:]) if tiled and stacked.ndim > 1 else stacked
    return treedef.unflatten(results)


def _gather(x: ArrayImpl) -> np.ndarray:
    if x.is_fully_replicated:
        return np.asarray(x)
    mesh = x.sharding.mesh if isinstance(x.sharding, NamedSharding) else Mesh(
        np.array(x.sharding._device_assignment, dtype=object), ("devices",))
    [value] = _replicate([x], mesh)
    return value


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Broadcast the values of one process to all processes.

    Args:
        in_tree: Pytree of arrays and scalars, with the same types in all processes.
        is_source: True in the process whose values are broadcast. Default: True in process 0.

    Returns:
        A pytree of NumPy arrays.

    Example:
        >>> broadcast_one_to_all(np.arange(3))
        array([0, 1, 2])
    """
    if backends.process_count() == 1:
        return tree.map(np.asarray, in_tree)
    source = backends.process_index() == 0 if is_source is None else bool(is_source)
    values, treedef = _matching_leaves("broadcast_one_to_all", in_tree)
    mesh = _process_mesh()
    rows = NamedSharding(mesh, PartitionSpec("processes"))
    # The source contributes the bits, the others zeros: the sum is the value, for any dtype.
    bits = [_to_bits(v) for v in values]
    arrays = [from_local_data(rows, (b if source else np.zeros_like(b))[None], (mesh.size, *b.shape))
              for b in [np.array([source], np.uint32), *bits]]
    sources, *sums = _replicate(arrays, mesh, _sums)
    if sources[0] != 1:
        raise ValueError(f"broadcast_one_to_all has {sources[0]} sources; is_source must be true in one process.")
    return treedef.unflatten([_from_bits(s[None], v).reshape(v.shape) for s, v in zip(sums, values)])


def sync_global_devices(name: str) -> None:
    """Wait until all processes have reached this call and their devices have finished all previous work.

    Args:
        name: Name of the synchronization point. If the names differ between processes, an error is raised.

    Example:
        >>> sync_global_devices("before the checkpoint")
    """
    if backends.process_count() == 1:
        return
    differing = distributed.agree("sync_global_devices", f"sync_global_devices({name!r})")
    if differing:
        raise AssertionError(f"the processes wait at different places: {_describe(differing)}.")
    mesh = Mesh(np.array(backends.devices(), dtype=object), ("devices",))
    ones = from_local_data(NamedSharding(mesh, PartitionSpec("devices")),
                                              np.ones(len(mesh.local_devices), np.float32), (mesh.size,))
    _replicate([ones], mesh, _sums)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError in every process if the processes have different values, structures or dtypes.

    Args:
        in_tree: Pytree of arrays and scalars of this process.
        fail_message: Prefix of the error message.

    Example:
        >>> assert_equal({"step": 3, "rate": np.float32(0.1)}, "the processes have different settings")
    """
    if backends.process_count() == 1:
        return
    leaves, treedef = tree.flatten(in_tree)
    values = [_host_value(x, "assert_equal") for x in leaves]
    differing = distributed.agree("assert_equal", f"{distributed.fingerprint(values)} {treedef} {_summary(values)}")
    if differing:
        differences = {process: state.partition(" ")[2] for process, state in differing.items()}
        raise AssertionError(f"{fail_message + ': ' if fail_message else ''}the processes have different values. "
                             f"{_describe(differences)}")


def _summary(values: Sequence[np.ndarray]) -> str:
    return ", ".join(np.array2string(v, threshold=8, edgeitems=3) for v in values[:4])[:250]


# Process-local and global arrays


def _specs(name: str, inputs: Any, pspecs: Any) -> tuple[list, list, Any]:
    leaves, treedef = tree.flatten(inputs)
    specs = tree.broadcast_prefix(pspecs, inputs, lambda s: s is None or isinstance(s, PartitionSpec))
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            raise ValueError(f"{name} needs a PartitionSpec for each array, got {spec!r}. Pass P() for an unsharded array.")
    return leaves, specs, treedef


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Convert process-local arrays to global arrays over a mesh. Arrays that span processes are returned unchanged.

    Along dimensions that are sharded over processes, the global size is the sum of the local sizes; along others, all
    processes must
    pass the same data.

    Args:
        local_inputs: Pytree of process-local arrays.
        global_mesh: Mesh of the global arrays.
        pspecs: Pytree prefix of `local_inputs` with the `PartitionSpec` of each global array.

    Returns:
        A pytree of global arrays.

    Example:
        >>> batch = host_local_array_to_global_array(np.ones((4, 2)), xf.make_mesh((1,), ("data",)), xf.P("data"))
        >>> batch.shape
        (4, 2)
    """
    leaves, specs, treedef = _specs("host_local_array_to_global_array", local_inputs, pspecs)
    return treedef.unflatten([
        x if isinstance(x, ArrayImpl) and not x.is_fully_addressable else
        host_local_array_to_global_array_p.bind(x, global_mesh=global_mesh, pspec=spec) for x, spec in zip(leaves, specs)])


def host_local_array_to_global_array_impl(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ArrayImpl:
    """Convert a single array like `host_local_array_to_global_array`.

    Args:
        arr: Process-local array.
        global_mesh: Mesh of the global array.
        pspec: `PartitionSpec` of the global array over the mesh.

    Returns:
        The global array.

    Example:
        >>> host_local_array_to_global_array_impl(np.ones(4), global_mesh=xf.make_mesh((1,), ("data",)), pspec=xf.P()).shape
        (4,)
    """
    return host_local.to_global(arr, global_mesh=global_mesh, pspec=pspec)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Convert global arrays to process-local arrays over this process's part of the mesh.

    Args:
        global_inputs: Pytree of global arrays.
        global_mesh: Mesh of the global arrays.
        pspecs: Pytree prefix of `global_inputs` with the `PartitionSpec` of each array.

    Returns:
        A pytree of process-local arrays.

    Example:
        >>> mesh = xf.make_mesh((1,), ("data",))
        >>> batch = xf.device_put(np.ones(4), xf.NamedSharding(mesh, xf.P("data")))
        >>> global_array_to_host_local_array(batch, mesh, xf.P("data")).shape
        (4,)
    """
    leaves, specs, treedef = _specs("global_array_to_host_local_array", global_inputs, pspecs)
    return treedef.unflatten([global_array_to_host_local_array_p.bind(x, global_mesh=global_mesh, pspec=spec)
                              for x, spec in zip(leaves, specs)])


def global_array_to_host_local_array_impl(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ArrayImpl:
    """Convert a single array like `global_array_to_host_local_array`.

    Args:
        arr: Global array.
        global_mesh: Mesh of the global array.
        pspec: `PartitionSpec` of the global array over the mesh.

    Returns:
        The process-local array.

    Example:
        >>> mesh = xf.make_mesh((1,), ("data",))
        >>> global_array_to_host_local_array_impl(np.ones(4), global_mesh=mesh, pspec=xf.P()).shape
        (4,)
    """
    return host_local.to_local(arr, global_mesh=global_mesh, pspec=pspec)


def ltg_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """Return the type of the global array for a process-local one.

    Args:
        arr: Process-local array or its type.
        global_mesh: Mesh of the global array.
        pspec: `PartitionSpec` of the global array over the mesh.

    Returns:
        The type of the global array.

    Example:
        >>> ltg_abstract_eval(np.ones(4, np.float32), global_mesh=xf.make_mesh((1,), ("data",)), pspec=xf.P("data"))
        ShapedArray(float32[4])
    """
    return host_local.global_type(arr, global_mesh, pspec)


def gtl_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """Return the type of the process-local array for a global one.

    Args:
        arr: Global array or its type.
        global_mesh: Mesh of the global array.
        pspec: `PartitionSpec` of the global array over the mesh.

    Returns:
        The type of the process-local array.

    Example:
        >>> gtl_abstract_eval(np.ones(4, np.float32), global_mesh=xf.make_mesh((1,), ("data",)), pspec=xf.P("data"))
        ShapedArray(float32[4])
    """
    return host_local.local_type(arr, global_mesh, pspec)


def ltg_batcher(insert_axis: bool, axis_data: Any, vals_in: Sequence[Any], dims_in: Sequence[int], global_mesh: Mesh,
                pspec: PartitionSpec) -> tuple[Any, int]:
    """Batch `host_local_array_to_global_array`.

    Args:
        insert_axis: Ignored; accepted for compatibility with JAX.
        axis_data: The batch axis. If it has an `spmd_name`, the batch is sharded over that mesh axis.
        vals_in: The batch, in a sequence of one.
        dims_in: The batch dimension, in a sequence of one.
        global_mesh: Mesh of the global arrays.
        pspec: `PartitionSpec` of each global array over the mesh.

    Returns:
        The batch of global arrays and its batch dimension.

    Example:
        >>> from xlafront.interpreters.batching import AxisData
        >>> batch = np.ones((2, 4))
        >>> ltg_batcher(False, AxisData("i", 2), [batch], [0], xf.make_mesh((1,), ("data",)), xf.P("data"))[0].sharding.spec
        P(None, 'data')
    """
    [x], [dim] = vals_in, dims_in
    spec = host_local.batched_spec(pspec, dim, axis_data.spmd_name)
    return host_local_array_to_global_array_p.bind(x, global_mesh=global_mesh, pspec=spec), dim


host_local_array_to_global_array_p, global_array_to_host_local_array_p = host_local.to_global_p, host_local.to_local_p


# Failures


@contextmanager
def live_devices(devices: Sequence[Device]) -> Iterator[list[Device]]:
    """Return a context manager for a block that runs on the devices of live processes.

    If a process fails in the block, the block fails in all processes with a `ProcessFailureError`.

    Args:
        devices: Devices to check.

    Returns:
        A context manager with the list of live devices.

    Example:
        >>> # with live_devices(devices()) as alive: train_step(params, batch, alive)
    """
    if distributed.state.client is None:
        raise RuntimeError("live_devices is for multi-process programs: call distributed.initialize first.")
    process_id = distributed.state.process_id
    processes = sorted({d.process_index for d in devices})
    if process_id not in processes:
        raise ValueError(f"live_devices needs at least one device of this process; it got devices of processes {processes}.")
    before = distributed.live_processes(processes)
    error: Exception | None = None
    try:
        yield [d for d in devices if d.process_index in before]
    except Exception as e:
        error = e
    after = distributed.live_processes(sorted(before))
    failed = {process for process, incarnation in before.items() if after.get(process) != incarnation}
    if not failed:
        states = distributed.agree("live_devices", "done" if error is None else "failed", sorted(before))
        failed = {process for process, state in states.items() if state == "failed"}
    if error is not None:
        raise error
    if failed:
        raise ProcessFailureError([d for d in devices if d.process_index in failed])


def reached_preemption_sync_point(step_id: int) -> bool:
    """Return True at the step after which all processes should save, because one of them is preempted.

    Preemption is announced by the signal SIGTERM. Every process must call this at every step; it returns True in all of them at
    the same step.

    Args:
        step_id: Number of the step.

    Returns:
        True if this is the step at which to save.

    Example:
        >>> # if reached_preemption_sync_point(step): save(params)
    """
    if distributed.state.client is None:
        raise RuntimeError("reached_preemption_sync_point is for multi-process programs: call distributed.initialize "
                           "first.")
    return distributed.reached_preemption_sync_point(step_id)
