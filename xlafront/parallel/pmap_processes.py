"""`pmap` over several processes: each process passes and receives the slices of its own devices.

The mapped function runs over the devices of all processes. Process-local arrays are converted to global arrays and back
without
copies. All processes make the same calls, under the same transformations: a derivative is that of the sum of the processes'
outputs, in each process with respect to its own arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import tracing, tree
from xlafront.parallel.host_local import global_type, to_global_p, to_local_p
from xlafront.parallel.pmap_arguments import Devices, flat_axes, join_arguments, spec_along, split_arguments
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.staging import signatures


def to_global_arguments(pmap_devices: Devices, fun: Callable, static: signatures.Selection, in_axes: Any, args: tuple,
                        kwargs: dict,
                        convert: Callable[..., Any] = to_global_p.bind) -> tuple[tuple, dict]:
    """Convert the arguments of a call to global arrays."""
    mesh = pmap_devices.multi_process_mesh
    if not mesh.local_devices:
        raise ValueError(f"pmap of {pmap_devices.name} was called in a process that has none of its devices.")
    leaves, in_tree, axes = split_arguments(static, in_axes, pmap_devices.name, args, kwargs)
    count = mesh.local_mesh.size
    for i, (x, a) in enumerate(zip(leaves, axes)):
        if a is not None and np.shape(x)[a] != count and not _is_global(x):
            raise ValueError(
                f"pmap of {pmap_devices.name} needs a slice for each of the {count} devices of this process along axis {a} of "
                f"{signatures.argument_names(fun, static, in_tree)[i]}, which has shape {np.shape(x)}; the other "
                f"processes pass the slices of their devices.")
    global_leaves = [convert(x, global_mesh=mesh, pspec=_spec(mesh, x, a)) for x, a in zip(leaves, axes)]
    return join_arguments(static, in_tree, global_leaves, args, kwargs)


def global_argument_type(x: Any, *, global_mesh: Mesh, pspec: PartitionSpec) -> Any:
    """Return the type that `to_global_p.bind` returns."""
    return x if _is_global(x) else global_type(tracing.aval_of(x), global_mesh, pspec)


def to_local_results(pmap_devices: Devices, out_axes: Any, results: Any) -> Any:
    """Convert global results to arrays of this process."""
    mesh = pmap_devices.multi_process_mesh
    leaves, treedef = tree.flatten(results)
    axes = flat_axes(f"pmap of {pmap_devices.name}: out_axes", out_axes, results)
    return treedef.unflatten([to_local_p.bind(y, global_mesh=mesh, pspec=_spec(mesh, y, a)) for y, a in zip(leaves, axes)])


def _is_global(x: Any) -> bool:
    return isinstance(x, ArrayImpl) and not x.is_fully_addressable


def _spec(mesh: Mesh, x: Any, axis: int | None) -> PartitionSpec:
    return spec_along(mesh, None if axis is None else axis % np.ndim(x))
