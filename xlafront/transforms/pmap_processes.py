"""`pmap` in programs of many processes: each gives and gets the slices of its own devices.

The mapped function itself is over the devices of all processes. Around it, arrays over this process's devices become
parts of arrays over all, and back, without a copy. All processes make the same calls, under the same transformations:
a derivative is that of the sum of what they differentiate, each with respect to its own arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import tree
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.sharding import Mesh, PartitionSpec
from xlafront.transforms.host_local import to_global_p, to_local_p


def over_all(name: str, mesh: Mesh, leaves: Sequence[Any], axes: Sequence[int | None], argument: Callable[[int], str],
             convert: Callable[..., Any] = to_global_p.bind) -> list[Any]:
    """The leaves as parts of global arrays."""
    if not mesh.local_devices:
        raise ValueError(f"pmap of {name} was called in a process that has none of its devices.")
    local = mesh.local_mesh
    for i, (x, a) in enumerate(zip(leaves, axes)):
        if a is not None and np.shape(x)[a] != local.size and not (isinstance(x, ArrayImpl) and not x.is_fully_addressable):
            raise ValueError(
                f"pmap of {name} needs a slice for each of the {local.size} devices of this process along axis {a} of "
                f"{argument(i)}, which has shape {np.shape(x)}; the other processes give those of theirs.")
    return [convert(x, global_mesh=mesh, pspec=_spec(mesh, x, a)) for x, a in zip(leaves, axes)]


def own_results(results: Any, axes: Sequence[int | None], mesh: Mesh) -> Any:
    """Global arrays as arrays of this process."""
    flat, treedef = tree.flatten(results)
    return treedef.unflatten([to_local_p.bind(y, global_mesh=mesh, pspec=_spec(mesh, y, a)) for y, a in zip(flat, axes)])


def _spec(mesh: Mesh, x: Any, axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * (axis % np.ndim(x)), mesh.axis_names[0])
