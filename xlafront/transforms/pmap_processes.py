"""`pmap` in programs of many processes: each gives and gets the slices of its own devices.

The mapped function itself is over the devices of all processes. Around it, arrays over this process's devices become
parts of arrays over all, and back, without a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import keys, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.runtime.arrays import ArrayImpl, put, skip_checks
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import Mesh, PartitionSpec


@functools.lru_cache(256)
def own_part(mesh: Mesh, name: str) -> Mesh:
    """The devices of this process, of a mesh with one axis."""
    here = mesh.local_devices
    if not here:
        raise ValueError(f"pmap of {name} was called in a process that has none of its devices.")
    return Mesh(np.array(here, dtype=object), mesh.axis_names)


def call_on_all(inner: Callable, name: str, mesh: Mesh, leaves: Sequence[Any], axes: Sequence[int | None],
                argument: Callable[[int], str]) -> Any:
    """`inner` of the leaves as parts of global arrays; its results as arrays of this process."""
    local = own_part(mesh, name)
    everywhere = []
    for i, (x, a) in enumerate(zip(leaves, axes)):
        if isinstance(x, tracing.Tracer):
            raise ValueError(
                f"pmap of {name} over the devices of several processes takes arrays, but {argument(i)} is being traced: apply "
                f"grad, vmap and jit inside of the function that pmap maps.")
        if a is not None and np.shape(x)[a] != local.size:
            raise ValueError(
                f"pmap of {name} needs a slice for each of the {local.size} devices of this process along axis {a} of "
                f"{argument(i)}, which has shape {np.shape(x)}; the other processes give those of theirs.")
        spec = PartitionSpec() if a is None else PartitionSpec(*[None] * (a % np.ndim(x)), mesh.axis_names[0])
        everywhere.append(_to_all(x, spec, local, mesh))
    return tree.map(lambda y: _to_own(y, local), inner(everywhere))


def _to_all(x, spec: PartitionSpec, local: Mesh, mesh: Mesh):
    if type(x) is keys.KeyArray:
        return keys.wrap(_to_all(x._base_array, spec, local, mesh), _resized(x.aval, spec, local.size, mesh.size))
    if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
        return x
    aval = tracing.aval_of(x)
    x = put(x, aval, NamedSharding(local, spec), True)
    return ArrayImpl(_resized(aval, spec, local.size, mesh.size), NamedSharding(mesh, spec), x._arrays, committed=True,
                     **skip_checks)


def _to_own(y, local: Mesh):
    if type(y) is keys.KeyArray:
        words = _to_own(y._base_array, local)
        return keys.wrap(words, ShapedArray(words.shape[:y.ndim], y.dtype))
    mesh, spec = y.sharding.mesh, y.sharding.spec
    return ArrayImpl(_resized(y.aval, spec, mesh.size, local.size), NamedSharding(local, spec), y._arrays, committed=True,
                     **skip_checks)


def _resized(aval, spec: PartitionSpec, old: int, new: int) -> ShapedArray:
    """The type with the split dimension over another number of devices."""
    shape = tuple(n // old * new if d < len(spec) and spec[d] is not None else n for d, n in enumerate(aval.shape))
    return ShapedArray(shape, aval.dtype, aval.weak_type)
