"""Moving values of the host between the processes of a program, and waiting for one another.

Every process has to make these calls, in the same order. What the processes must give alike (shapes, dtypes, names)
is compared before anything is sent, so that a difference is an error in all of them and not a program that hangs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlafront.core import backends, dtypes, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.shards import from_local_data
from xlafront.parallel import host_local
from xlafront.runtime import distributed
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import Device, NamedSharding
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging.jit import jit


class ProcessFailureError(RuntimeError):
    """Processes died, or failed, in a `live_devices` block; `failed_devices` are theirs."""

    def __init__(self, failed_devices: Sequence[Device]):
        self.failed_devices = list(failed_devices)
        super().__init__(f"processes {sorted({d.process_index for d in self.failed_devices})} failed in a live_devices block.")


# Through the devices


def _one_device_each() -> Mesh:
    """The first device of every process."""
    first: dict[int, Any] = {}
    for device in backends.devices():
        first.setdefault(device.process_index, device)
    return Mesh(np.array([first[i] for i in sorted(first)], dtype=object), ("processes",))


@functools.cache
def _to_all(mesh: Mesh, how: Callable) -> Callable:
    """The compiled function whose results every device of the mesh has whole."""
    return jit(how, out_shardings=NamedSharding(mesh, PartitionSpec()))


def _as_they_are(arrays: list) -> list:
    return arrays


def _sums(arrays: list) -> list:
    return [x.sum(0, dtype=x.dtype) for x in arrays]


def _replicate(arrays: Sequence[ArrayImpl], mesh: Mesh, how: Callable = _as_they_are) -> list[np.ndarray]:
    return [np.asarray(x.addressable_data(0)) for x in _to_all(mesh, how)(list(arrays))]


def _stack(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each value what all processes have, along a new first dimension."""
    mesh = _one_device_each()
    rows = NamedSharding(mesh, PartitionSpec("processes"))
    bits = [_as_bits(value) for value in values]
    arrays = [from_local_data(rows, b[None], (mesh.size, *b.shape)) for b in bits]
    return [_from_bits(stacked, value) for stacked, value in zip(_replicate(arrays, mesh), values)]


def _as_bits(value: np.ndarray) -> np.ndarray:
    """The bytes, as unsigned integers that every backend moves unchanged."""
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return flat.view(np.uint32) if flat.size % 4 == 0 else flat


def _from_bits(stacked: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(stacked).view(np.uint8).view(like.dtype).reshape(len(stacked), *like.shape)


def _host_value(x, what: str) -> np.ndarray:
    value = np.asarray(x)
    if value.dtype.kind not in "biufcV":
        raise TypeError(f"{what} moves arrays of numbers, got {type(x).__name__} of dtype {value.dtype}.")
    return value.astype(dtypes.canonicalize_dtype(value.dtype), copy=False)


def _leaves_alike(what: str, in_tree: Any) -> tuple[list[np.ndarray], Any]:
    """The leaves on the host; an error in every process when their shapes and dtypes differ between processes."""
    leaves, treedef = tree.flatten(in_tree)
    values = [_host_value(x, what) for x in leaves]
    text = f"{what} of " + ", ".join(f"{v.dtype}{list(v.shape)}" for v in values)
    differing = distributed.agree(what, text)
    if differing:
        raise ValueError(f"the processes do not make the same call: {_in_words(differing)}. Call {what} in all processes, with "
                         f"arrays of the same shapes and dtypes.")
    return values, treedef


def _in_words(said: dict[int, str]) -> str:
    shown = list(said.items())[:4]
    return "; ".join(f"process {number}: {words[:300]}" for number, words in shown) + ("; ..." if len(said) > 4 else "")


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """What all processes have, as NumPy arrays, in all processes.

    - `in_tree`: a pytree of arrays and numbers. Values of the host, and arrays of this process alone, must have the same shape
      everywhere; arrays that span processes come back whole.
    - `tiled`: whether the former are joined along their first dimension; they are stacked along a new one otherwise.

    >>> process_allgather(np.float32(1.5))
    array([1.5], dtype=float32)
    """
    leaves, treedef = tree.flatten(in_tree)
    results: list[Any] = [None] * len(leaves)
    spanning = [i for i, x in enumerate(leaves) if isinstance(x, ArrayImpl) and not x.is_fully_addressable]
    for i in spanning:
        if not tiled:
            raise ValueError(f"process_allgather got an array of shape {leaves[i].shape} that spans processes: it is gathered "
                             f"whole, which has to be asked for with tiled=True.")
        results[i] = _gathered(leaves[i])
    own = [i for i in range(len(leaves)) if i not in set(spanning)]
    if own and backends.process_count() == 1:
        for i in own:
            value = np.asarray(leaves[i])
            results[i] = value if tiled else value[None]
    elif own:
        values, _ = _leaves_alike("process_allgather", [leaves[i] for i in own])
        for i, stacked in zip(own, _stack(values)):
            results[i] = stacked.reshape(-1, *stacked.shape[2:]) if tiled and stacked.ndim > 1 else stacked
    return treedef.unflatten(results)


def _gathered(x: ArrayImpl) -> np.ndarray:
    if x.is_fully_replicated:
        return np.asarray(x)
    mesh = x.sharding.mesh if isinstance(x.sharding, NamedSharding) else Mesh(
        np.array(x.sharding._device_assignment, dtype=object), ("devices",))
    [value] = _replicate([x], mesh)
    return value


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """What one process has, as NumPy arrays in all processes.

    - `in_tree`: a pytree of arrays and numbers, of the same types in all processes.
    - `is_source`: whether this is the process; it is process 0 without.

    >>> broadcast_one_to_all(np.arange(3))
    array([0, 1, 2])
    """
    if backends.process_count() == 1:
        return tree.map(np.asarray, in_tree)
    source = backends.process_index() == 0 if is_source is None else bool(is_source)
    values, treedef = _leaves_alike("broadcast_one_to_all", in_tree)
    mesh = _one_device_each()
    rows = NamedSharding(mesh, PartitionSpec("processes"))
    # One process contributes the bits, the others zeros: their sum is the value, whatever its dtype.
    bits = [_as_bits(v) for v in values]
    arrays = [from_local_data(rows, (b if source else np.zeros_like(b))[None], (mesh.size, *b.shape))
              for b in [np.array([source], np.uint32), *bits]]
    sources, *sums = _replicate(arrays, mesh, _sums)
    if sources[0] != 1:
        raise ValueError(f"broadcast_one_to_all has {sources[0]} sources; is_source must be true in one process.")
    return treedef.unflatten([_from_bits(s[None], v).reshape(v.shape) for s, v in zip(sums, values)])


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here, and their devices have done what was asked of them before.

    - `name`: the same in all of them, for the error where they are at different places.

    >>> sync_global_devices("before the checkpoint")
    """
    if backends.process_count() == 1:
        return
    differing = distributed.agree("sync_global_devices", f"sync_global_devices({name!r})")
    if differing:
        raise AssertionError(f"the processes wait at different places: {_in_words(differing)}.")
    mesh = Mesh(np.array(backends.devices(), dtype=object), ("devices",))
    ones = from_local_data(NamedSharding(mesh, PartitionSpec("devices")),
                                              np.ones(len(mesh.local_devices), np.float32), (mesh.size,))
    _replicate([ones], mesh, _sums)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """AssertionError in every process when the processes have different values, structures or dtypes.

    - `in_tree`: what this process has, a pytree of arrays and numbers.
    - `fail_message`: what the error says first.

    >>> assert_equal({"step": 3, "rate": np.float32(0.1)}, "the processes have different settings")
    """
    if backends.process_count() == 1:
        return
    leaves, treedef = tree.flatten(in_tree)
    values = [_host_value(x, "assert_equal") for x in leaves]
    differing = distributed.agree("assert_equal", f"{distributed.fingerprint(values)} {treedef} {_brief(values)}")
    if differing:
        differences = {number: words.partition(" ")[2] for number, words in differing.items()}
        raise AssertionError(f"{fail_message + ': ' if fail_message else ''}the processes have different values. "
                             f"{_in_words(differences)}")


def _brief(values: Sequence[np.ndarray]) -> str:
    return ", ".join(np.array2string(v, threshold=8, edgeitems=3) for v in values[:4])[:250]


# Arrays of one process as parts of global ones


def _specs(name: str, inputs: Any, pspecs: Any) -> tuple[list, list, Any]:
    leaves, treedef = tree.flatten(inputs)
    specs = tree.broadcast_prefix(pspecs, inputs, lambda s: s is None or isinstance(s, PartitionSpec))
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            raise ValueError(f"{name} needs a PartitionSpec for each array, got {spec!r}; one that is not split has P().")
    return leaves, specs, treedef


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Global arrays over a mesh, from the parts that this process has. Arrays that span processes stay as they are.

    Along dimensions that are split over processes the global size is the sum of the local ones; along others all
    processes give the same.

    - `local_inputs`: a pytree of arrays.
    - `global_mesh`: the mesh. `pspecs`: how the global arrays are split over it, a prefix of that pytree.

    >>> batch = host_local_array_to_global_array(np.ones((4, 2)), xf.make_mesh((1,), ("data",)), xf.P("data"))
    >>> batch.shape
    (4, 2)
    """
    leaves, specs, treedef = _specs("host_local_array_to_global_array", local_inputs, pspecs)
    return treedef.unflatten([
        x if isinstance(x, ArrayImpl) and not x.is_fully_addressable else
        host_local_array_to_global_array_p.bind(x, global_mesh=global_mesh, pspec=spec) for x, spec in zip(leaves, specs)])


def host_local_array_to_global_array_impl(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ArrayImpl:
    """One array of `host_local_array_to_global_array`.

    - `arr`, `global_mesh`, `pspec`: the array, the mesh, and how the global array is split over it.

    >>> host_local_array_to_global_array_impl(np.ones(4), global_mesh=xf.make_mesh((1,), ("data",)), pspec=xf.P()).shape
    (4,)
    """
    return host_local.to_global(arr, global_mesh=global_mesh, pspec=pspec)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts of global arrays on this process's devices, each an array over this process's part of the mesh.

    - `global_inputs`: a pytree of arrays.
    - `global_mesh`: the mesh. `pspecs`: how they are split over it, a prefix of that pytree.

    >>> mesh = xf.make_mesh((1,), ("data",))
    >>> batch = xf.device_put(np.ones(4), xf.NamedSharding(mesh, xf.P("data")))
    >>> global_array_to_host_local_array(batch, mesh, xf.P("data")).shape
    (4,)
    """
    leaves, specs, treedef = _specs("global_array_to_host_local_array", global_inputs, pspecs)
    return treedef.unflatten([global_array_to_host_local_array_p.bind(x, global_mesh=global_mesh, pspec=spec)
                              for x, spec in zip(leaves, specs)])


def global_array_to_host_local_array_impl(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ArrayImpl:
    """One array of `global_array_to_host_local_array`.

    - `arr`, `global_mesh`, `pspec`: the array, the mesh, and how it is split over it.

    >>> mesh = xf.make_mesh((1,), ("data",))
    >>> global_array_to_host_local_array_impl(np.ones(4), global_mesh=mesh, pspec=xf.P()).shape
    (4,)
    """
    return host_local.to_local(arr, global_mesh=global_mesh, pspec=pspec)


def ltg_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """The type of the global array of a local one.

    - `arr`, `global_mesh`, `pspec`: the array, the mesh, and how the global array is split over it.

    >>> ltg_abstract_eval(np.ones(4, np.float32), global_mesh=xf.make_mesh((1,), ("data",)), pspec=xf.P("data"))
    ShapedArray(float32[4])
    """
    return host_local.global_type(arr, global_mesh, pspec)


def gtl_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> ShapedArray:
    """The type of this process's part of a global array.

    - `arr`, `global_mesh`, `pspec`: the array, the mesh, and how it is split over it.

    >>> gtl_abstract_eval(np.ones(4, np.float32), global_mesh=xf.make_mesh((1,), ("data",)), pspec=xf.P("data"))
    ShapedArray(float32[4])
    """
    return host_local.local_type(arr, global_mesh, pspec)


def ltg_batcher(insert_axis: bool, axis_data: Any, vals_in: Sequence[Any], dims_in: Sequence[int], global_mesh: Mesh,
                pspec: PartitionSpec) -> tuple[Any, int]:
    """The global array of a batch of local ones, and the dimension that counts its elements.

    - `insert_axis`: of the reference's signature. `axis_data`: the axis of the batch; where it has an `spmd_name`, the elements
      are spread over that axis of the mesh.
    - `vals_in`, `dims_in`: the batch in a list, and in a list which of its dimensions counts the elements.
    - `global_mesh`, `pspec`: the mesh, and how each global array is split over it.

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
    """Those of the devices whose processes live, for the block. When one fails in it, the block fails in all of them.

    - `devices`: the devices.

    >>> # with live_devices(devices()) as alive: train_step(params, batch, alive)
    """
    if distributed.state.client is None:
        raise RuntimeError("live_devices belongs to programs of many processes: call distributed.initialize first.")
    me = distributed.state.process_id
    processes = sorted({d.process_index for d in devices})
    if me not in processes:
        raise ValueError(f"live_devices needs at least one device of this process; it got devices of processes {processes}.")
    before = distributed.live_processes(processes)
    problem: Exception | None = None
    try:
        yield [d for d in devices if d.process_index in before]
    except Exception as e:
        problem = e
    after = distributed.live_processes(sorted(before))
    failed = {process for process, incarnation in before.items() if after.get(process) != incarnation}
    if not failed:
        said = distributed.agree("live_devices", "done" if problem is None else "failed", sorted(before))
        failed = {process for process, words in said.items() if words == "failed"}
    if problem is not None:
        raise problem
    if failed:
        raise ProcessFailureError([d for d in devices if d.process_index in failed])


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether this is the step after which all processes save, because one of them was told to end (by SIGTERM).

    Every process asks at every step; they all hear True at the same one.

    - `step_id`: the number of the step.

    >>> # if reached_preemption_sync_point(step): save(params)
    """
    if distributed.state.client is None:
        raise RuntimeError("reached_preemption_sync_point belongs to programs of many processes: call distributed.initialize "
                           "first.")
    return distributed.reached_preemption_sync_point(step_id)
