"""`pmap` in programs of many processes: each gives and gets the slices of its own devices.

The mapped function itself is over the devices of all processes. Around it, arrays over this process's devices become
parts of arrays over all, and back, without a copy. All processes make the same calls, under the same transformations:
a derivative is that of the sum of what they differentiate, each with respect to its own arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import tracing, tree
from xlafront.parallel.host_local import global_type, to_global_p, to_local_p
from xlafront.parallel.pmap_arguments import Devices, flat_axes, join_arguments, spec_along, split_arguments
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging import signatures


def over_all(over: Devices, fun: Callable, static: signatures.Selection, in_axes: Any, args: tuple, kwargs: dict,
             convert: Callable[..., Any] = to_global_p.bind) -> tuple[tuple, dict]:
    """The arguments of a call as parts of global arrays."""
    mesh = over.over_processes
    if not mesh.local_devices:
        raise ValueError(f"pmap of {over.name} was called in a process that has none of its devices.")
    leaves, in_tree, axes = split_arguments(static, in_axes, over.name, args, kwargs)
    count = mesh.local_mesh.size
    for i, (x, a) in enumerate(zip(leaves, axes)):
        if a is not None and np.shape(x)[a] != count and not _is_global(x):
            raise ValueError(
                f"pmap of {over.name} needs a slice for each of the {count} devices of this process along axis {a} of "
                f"{signatures.argument_names(fun, static, in_tree)[i]}, which has shape {np.shape(x)}; the other processes "
                f"give those of theirs.")
    everywhere = [convert(x, global_mesh=mesh, pspec=_spec(mesh, x, a)) for x, a in zip(leaves, axes)]
    return join_arguments(static, in_tree, everywhere, args, kwargs)


def type_over_all(x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    """As `to_global_p.bind`, of the type alone."""
    return x if _is_global(x) else global_type(tracing.aval_of(x), global_mesh, pspec)


def own_results(over: Devices, out_axes: Any, results: Any) -> Any:
    """Global arrays as arrays of this process."""
    mesh = over.over_processes
    leaves, treedef = tree.flatten(results)
    axes = flat_axes(f"pmap of {over.name}: out_axes", out_axes, results)
    return treedef.unflatten([to_local_p.bind(y, global_mesh=mesh, pspec=_spec(mesh, y, a)) for y, a in zip(leaves, axes)])


def _is_global(x: Any) -> bool:
    return isinstance(x, ArrayImpl) and not x.is_fully_addressable


def _spec(mesh: Mesh, x: Any, axis: int | None) -> PartitionSpec:
    return spec_along(mesh, None if axis is None else axis % np.ndim(x))
