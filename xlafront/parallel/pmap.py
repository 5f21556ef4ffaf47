"""`pmap`: map a function over devices; a thin layer over `shard_map` and `jit`.

Calls use the C++ dispatch of `jit`: results stay on the devices, and the next call takes them without a transfer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.core import errors, tracing, tree
from xlafront.core.tracing import MeshAxis
from xlafront.lax.shapes import expand_dims, squeeze
from xlafront.parallel import pmap_processes
from xlafront.parallel.pmap_arguments import Devices, flat_axes, join_arguments, spec_along, split_arguments
from xlafront.parallel.shard_map import shard_map_flat
from xlafront.parallel.shard_map_rules import shard_map_p
from xlafront.runtime import distributed
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging import device_assignment, signatures, stages
from xlafront.staging.dispatch import public_function
from xlafront.staging.jitted import Jitted
from xlafront.staging.passes import CompileJob
from xlafront.staging.signatures import Options, Selection

_R = TypeVar("_R")
_UNNAMED = "_internal_pmap_axis_name"  # appears in the shardings of results


def pmap(fun: Callable[..., _R], axis_name: Hashable | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
         static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None, backend: str | None = None,
         axis_size: int | None = None, donate_argnums: int | Sequence[int] = ()) -> Callable[..., _R]:
    """Compile a function and run it on each device, on slices of the arguments.

    Args:
        fun: Function to run on each device.
        axis_name: Name of the mapped axis, for collectives in `fun`.
        in_axes: Pytree prefix of the positional arguments with the axis of each to map over, or None to broadcast it to all
            devices.
        out_axes: Pytree prefix of the results with the position of the mapped axis in each, or None for equal results.
        static_broadcasted_argnums: Positions of static arguments: Python values that are part of the cache key.
        devices: Devices to map over. Default: the devices of the backend.
        backend: Platform name that selects the default devices.
        axis_size: Size of the mapped axis; required only if no argument is mapped.
        donate_argnums: Positions of arguments whose buffers may be reused for results.

    Returns:
        A function of arrays with a mapped axis.

    Example:
        >>> xf.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(xnp.array([5.0]))
        Array([1.], dtype=float32)
    """
    if not callable(fun):
        raise errors.not_callable("pmap", fun)
    static = signatures.select_arguments(fun, "static_broadcasted", static_broadcasted_argnums, None)
    donate = signatures.select_arguments(fun, "donate", donate_argnums, None)
    both = sorted(set(static.nums) & set(donate.nums))
    if both:
        raise ValueError(f"the argument {both[0]} of {signatures.function_name(fun)} cannot be both static and donated.")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    for axes, param in ((in_axes, "in_axes"), (out_axes, "out_axes")):
        for a in tree.leaves(axes):
            if isinstance(a, bool) or not isinstance(a, (int, np.integer)):
                raise TypeError(f"pmap {param} must be an int, None, or a container of these, got {a!r} in it.")
    if devices is not None and not len(devices):
        raise ValueError("the argument devices of pmap must be non-empty, or None for all devices.")
    pmap_devices = Devices(signatures.function_name(fun), _UNNAMED if axis_name is None else axis_name, axis_size,
                           None if devices is None else tuple(devices), backend)
    mapped = Pmapped(_global_function(fun, static, in_axes, out_axes, pmap_devices), Options(static, donate), pmap_devices.name)
    dispatch = public_function(mapped)
    needed = 1 + max(static.nums, default=-1)

    def is_across() -> bool:
        return distributed.state.num_processes > 1 and pmap_devices.multi_process_mesh is not None

    def call(*args, **kwargs):
        """Dispatch the call. This is a hot path."""
        if len(args) < needed:
            raise ValueError(f"pmap of {pmap_devices.name} has static_broadcasted_argnums={static.nums}, but was called with "
                             f"only {len(args)} positional argument(s). Pass all static arguments by position.")
        if not is_across():
            return dispatch(*args, **kwargs)
        args, kwargs = pmap_processes.to_global_arguments(pmap_devices, fun, static, in_axes, args, kwargs)
        return pmap_processes.to_local_results(pmap_devices, out_axes, dispatch(*args, **kwargs))

    def global_arguments(args, kwargs):
        """Return the arguments to compile for: with several processes, global arrays over all devices."""
        if not is_across():
            return args, kwargs
        return pmap_processes.to_global_arguments(pmap_devices, fun, static, in_axes, args, kwargs,
                                                  pmap_processes.global_argument_type)

    def eval_shape(*args, **kwargs):
        return stages.trace(Jitted(call, Options(static)) if is_across() else mapped, args, kwargs).out_info

    def trace(*args, **kwargs):
        return stages.trace(mapped, *global_arguments(args, kwargs))

    def lower(*args, lowering_platforms=None, **kwargs):
        return trace(*args, **kwargs).lower(lowering_platforms=lowering_platforms)

    signatures.copy_metadata(call, fun)
    for stage in (trace, lower, eval_shape):
        setattr(call, stage.__name__, stage)
    call.clear_cache, call._cache_size = mapped.clear_cache, mapped.cache_size  # type: ignore[attr-defined]
    return call


def _global_function(fun: Callable, static: Selection, in_axes, out_axes, pmap_devices: Devices) -> Callable:
    """Return the function of global arguments: a `shard_map` of `fun` on one slice."""
    name = pmap_devices.name

    def global_fun(*args, **kwargs):
        for axis in tracing.thread.axes:
            if type(axis) is MeshAxis:
                raise ValueError(f"pmap of {name} was called inside of a function that runs on each device already (over the "
                                 f"axis {axis[0]!r}). Use vmap there, or one shard_map over a mesh with two axes.")
        leaves, in_tree, axes = split_arguments(static, in_axes, name, args, kwargs)

        def argument_name(i: int) -> str:
            return signatures.argument_names(fun, static, in_tree)[i]

        for i, x in enumerate(leaves):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"pmap of {name}", argument_name(i))
        size = pmap_devices.size(leaves, axes, argument_name)
        mesh = pmap_devices.mesh(size,
                                 lambda: next((f"{argument_name(i)} has shape {np.shape(x)}" for i, (x, a) in enumerate(zip(
            leaves, axes)) if a is not None), f"axis_size={size}"))
        positions = [None if a is None else a % np.ndim(x) for a, x in zip(axes, leaves)]
        out_tree: Any = None
        out_specs: list = []

        def local_fun(*blocks):
            nonlocal out_tree
            values = [x if a is None else squeeze(x, (a,)) for x, a in zip(blocks, positions)]
            positional, named = join_arguments(static, in_tree, values, args, kwargs)
            results, out_tree = signatures.check_results(fun, fun(*positional, **named))
            out_numbers = tree.leaf_indices(out_tree)
            out_axes_flat = flat_axes(f"pmap of {name}: out_axes", out_axes, out_numbers)
            out_specs[:], stacked = [], []
            for i, (x, a) in enumerate(zip(results, out_axes_flat)):
                rank = np.ndim(x)
                if a is None:
                    stacked.append(x)
                    out_specs.append(spec_along(mesh, None))
                    continue
                if not -rank - 1 <= a <= rank:
                    path = tree.keystr(tree.flatten_with_path(out_numbers)[0][i][0])
                    raise ValueError(f"pmap of {name} has out_axes={a} for result{path} of shape {np.shape(x)} on each device.")
                stacked.append(expand_dims(x, (a % (rank + 1),)))
                out_specs.append(spec_along(mesh, a % (rank + 1)))
            return stacked

        local_fun.__name__ = local_fun.__qualname__ = name
        results = shard_map_flat(local_fun, name, mesh, [spec_along(mesh, a) for a in positions], out_specs,
                                 leaves)
        return out_tree.unflatten(results)

    global_fun.__name__, global_fun.__wrapped__ = name, fun  # type: ignore[attr-defined]
    return global_fun


class Pmapped(Jitted):
    """A `Jitted` function of global arguments, which are placed as its `shard_map` requires."""

    def body(self, traced):
        """Return the only equation, the `shard_map`."""
        [eqn] = [eqn for eqn in traced.closed.eqns if eqn.primitive is shard_map_p]
        return eqn

    def in_shardings_of(self, traced) -> tuple:
        eqn = self.body(traced)
        mesh = eqn.params["mesh"]
        in_specs = {v: spec for v, spec in zip(eqn.invars, eqn.params["in_specs"]) if not v.is_literal}
        return tuple(_sharding(mesh, in_specs.get(v, PartitionSpec())) for v in traced.closed.invars)

    def place(self, traced, call):
        return device_assignment.place_arguments(self.name, call.leaves, self.in_shardings_of(traced), traced, self.options)

    def job(self, traced, call, assignment, donated) -> CompileJob:
        eqn = self.body(traced)
        specs = dict(zip(eqn.outvars, eqn.params["out_specs"]))
        out_shardings = tuple(_sharding(eqn.params["mesh"], specs.get(v, PartitionSpec())) for v in traced.closed.outvars)
        return CompileJob(self.name, traced, assignment, donated, out_shardings, self.options)


@functools.lru_cache(4096)
def _sharding(mesh: Mesh, spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(mesh, spec)
