"""`pmap`: one function on each device, over slices of its arguments; a thin layer over `shard_map` and `jit`.

Calls are dispatched by C++ as those of `jit` are: results stay on the devices, and the next step takes them as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, tracing, tree
from xlafront.core.tracing import MeshAxis
from xlafront.core.wrapping import wraps
from xlafront.lax.shapes import expand_dims, squeeze
from xlafront.parallel import pmap_processes
from xlafront.parallel.pmap_arguments import Devices, flat_axes, join_arguments, spec_along, split_arguments
from xlafront.parallel.shard_map import map_parts
from xlafront.parallel.shard_map_rules import shard_map_p
from xlafront.runtime import distributed
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging import device_assignment, signatures, stages
from xlafront.staging.compiling import LoweredModule
from xlafront.staging.jitted import Jitted, Options, function_of
from xlafront.staging.signatures import Selection

_UNNAMED = "_internal_pmap_axis_name"  # which the shardings of results show


def pmap(fun: Callable, axis_name: Hashable | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
         static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None, backend: str | None = None,
         axis_size: int | None = None, donate_argnums: int | Sequence[int] = ()) -> Callable:
    """A compiled function that runs another on each device, on its slice of the arguments.

    - `fun`: the other.
    - `axis_name`: a name under which collectives inside `fun` refer to the devices.
    - `in_axes`, `out_axes`: as for `vmap`; None for arguments that all devices share, and for results that are equal.
    - `static_broadcasted_argnums`: arguments that are Python values, part of the key of the compiled program.
    - `devices`, `backend`: the devices, the first of the backend when left out.
    - `axis_size`: their number, needed only where no argument tells.
    - `donate_argnums`: arguments whose memory the results may take.

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
    for axes, which in ((in_axes, "in_axes"), (out_axes, "out_axes")):
        for a in tree.leaves(axes):
            if not isinstance(a, (int, np.integer)):
                raise TypeError(f"pmap takes integers and None in {which}, got {a!r}.")
    over = Devices(signatures.function_name(fun), _UNNAMED if axis_name is None else axis_name, axis_size,
                   None if devices is None else tuple(devices), backend)
    mapped = Pmapped(_on_whole(fun, static, in_axes, out_axes, over), Options(static, donate), over.name)
    inner = function_of(mapped)

    def is_across() -> bool:
        return distributed.state.num_processes > 1 and over.over_processes is not None

    @wraps(fun)
    def call(*args, **kwargs):
        """Hot: little but the dispatch."""
        if not is_across():
            return inner(*args, **kwargs)
        args, kwargs = pmap_processes.over_all(over, fun, static, in_axes, args, kwargs)
        return pmap_processes.own_results(over, out_axes, inner(*args, **kwargs))

    def whole(args, kwargs):
        """What is compiled: with several processes, the function of the arrays over all devices."""
        if not is_across():
            return args, kwargs
        return pmap_processes.over_all(over, fun, static, in_axes, args, kwargs, pmap_processes.type_over_all)

    def eval_shape(*args, **kwargs):
        return stages.trace(Jitted(call, Options(static)) if is_across() else mapped, args, kwargs).out_info

    def trace(*args, **kwargs):
        return stages.trace(mapped, *whole(args, kwargs))

    def lower(*args, lowering_platforms=None, **kwargs):
        return trace(*args, **kwargs).lower(lowering_platforms=lowering_platforms)

    for stage in (trace, lower, eval_shape):
        setattr(call, stage.__name__, stage)
    call.clear_cache, call._cache_size = mapped.clear_cache, mapped.cache_size  # type: ignore[attr-defined]
    return call


def _on_whole(fun: Callable, static: Selection, in_axes, out_axes, over: Devices) -> Callable:
    """The function of whole arguments: a `shard_map` of `fun` of one slice."""
    name = over.name

    def whole(*args, **kwargs):
        for axis in tracing.thread.axes:
            if type(axis) is MeshAxis:
                raise ValueError(f"pmap of {name} was called inside of a function that runs on each device already (over the "
                                 f"axis {axis[0]!r}). Use vmap there, or one shard_map over a mesh with two axes.")
        leaves, in_tree, axes = split_arguments(static, in_axes, name, args, kwargs)

        def argument(i: int) -> str:
            return signatures.argument_names(fun, static, in_tree)[i]

        for i, x in enumerate(leaves):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"pmap of {name}", argument(i))
        size = over.size(leaves, axes, argument)
        mesh = over.mesh(size, lambda: next((f"{argument(i)} has shape {np.shape(x)}" for i, (x, a) in enumerate(zip(
            leaves, axes)) if a is not None), f"axis_size={size}"))
        places = [None if a is None else a % np.ndim(x) for a, x in zip(axes, leaves)]
        out_tree: Any = None
        out_specs: list = []

        def part(*blocks):
            nonlocal out_tree
            values = [x if a is None else squeeze(x, (a,)) for x, a in zip(blocks, places)]
            positional, named = join_arguments(static, in_tree, values, args, kwargs)
            results, out_tree = signatures.check_results(fun, fun(*positional, **named))
            shown = tree.numbered(out_tree)
            out_axes_flat = flat_axes(f"pmap of {name}: out_axes", out_axes, shown)
            out_specs[:], stacked = [], []
            for i, (x, a) in enumerate(zip(results, out_axes_flat)):
                rank = np.ndim(x)
                if a is None:
                    stacked.append(x)
                    out_specs.append(spec_along(mesh, None))
                    continue
                if not -rank - 1 <= a <= rank:
                    path = tree.keystr(tree.flatten_with_path(shown)[0][i][0])
                    raise ValueError(f"pmap of {name} has out_axes={a} for result{path} of shape {np.shape(x)} on each device.")
                stacked.append(expand_dims(x, (a % (rank + 1),)))
                out_specs.append(spec_along(mesh, a % (rank + 1)))
            return stacked

        part.__name__ = part.__qualname__ = name
        results = map_parts(part, name, mesh, [spec_along(mesh, a) for a in places], out_specs,
                            leaves)
        return out_tree.unflatten(results)

    whole.__name__, whole.__wrapped__ = name, fun  # type: ignore[attr-defined]
    return whole


class Pmapped(Jitted):
    """`Jitted` for a function of whole arguments, which go where its `shard_map` wants them."""

    def body(self, traced):
        """The equation of the `shard_map`, of which there is one."""
        [eqn] = [eqn for eqn in traced.closed.jaxpr.eqns if eqn.primitive is shard_map_p]
        return eqn

    def in_shardings_of(self, traced) -> tuple:
        eqn = self.body(traced)
        mesh = eqn.params["mesh"]
        found = {v: spec for v, spec in zip(eqn.invars, eqn.params["in_specs"]) if not v.is_literal}
        return tuple(_sharding(mesh, found.get(v, PartitionSpec())) for v in traced.closed.jaxpr.invars)

    def place(self, traced, call):
        return device_assignment.place_arguments(self.name, call.leaves, self.in_shardings_of(traced), traced, self.options)

    def lower(self, traced, call, assignment, donated, platform=None):
        eqn = self.body(traced)
        specs = dict(zip(eqn.outvars, eqn.params["out_specs"]))
        out_shardings = tuple(_sharding(eqn.params["mesh"], specs.get(v, PartitionSpec())) for v in traced.closed.jaxpr.outvars)
        return LoweredModule(self.name, traced.closed, assignment, donated, out_shardings, self.options, traced,
                              elsewhere=platform)


@functools.lru_cache(4096)
def _sharding(mesh: Mesh, spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(mesh, spec)
