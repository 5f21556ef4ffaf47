"""The primitives that differentiation and batching need by name, and short operations made of them.

They are declared here. The room `lax` defines their records, with lowerings and with the rules that need further primitives:
each is followed by the module that does. So the calculus (`transforms.ad`, `transforms.batching`) needs only the core.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xlafront.base.meshes import AxisType
from xlafront.core import tracing
from xlafront.core.avals import entry_of, with_dimension, without_dimension
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall

# Arithmetic and shapes
add_any_p = Primitive.declare("add_any", "xlafront.lax.families")  # the sum of two tangents or cotangents of one type
convert_element_type_p = Primitive.declare("convert_element_type", "xlafront.lax.elementwise")
broadcast_in_dim_p = Primitive.declare("broadcast_in_dim", "xlafront.lax.shapes")
transpose_p = Primitive.declare("transpose", "xlafront.lax.shapes")

# Values over meshes
axis_index_p = Primitive.declare("axis_index", "xlafront.lax.named_axes")
pvary_p = Primitive.declare("pvary", "xlafront.lax.all_reductions")  # the same value, typed as one that varies over axes
psum_invariant_p = Primitive.declare("psum_invariant", "xlafront.lax.all_reductions")  # the sum over axes
recast_p = Primitive.declare("recast", "xlafront.lax.all_reductions")  # see `recast`
reshard_p = Primitive.declare("reshard", "xlafront.lax.device_put")

# References
get_p = Primitive.declare("get", "xlafront.lax.refs")
swap_p = Primitive.declare("swap", "xlafront.lax.refs")

# A call of a jaxpr that is inlined when it is staged. Transforming one gives another such call.
inline_call_p = ProgramCall.declare("inlined", "xlafront.staging.library")


def to_dtype(x: Any, dtype: Any) -> Any:
    """Convert an array to a dtype."""
    return convert_element_type_p.bind(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


def with_weakness(x: Any, weak: bool) -> Any:
    """Return an array with the given weak type."""
    aval = tracing.aval_of(x)
    if aval.weak_type == weak:
        return x
    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=weak, sharding=None)


def move_dim(x: Any, source: int, target: int) -> Any:
    """Move a dimension to another position."""
    if source == target:
        return x
    order = [i for i in range(np.ndim(x)) if i != source]
    order.insert(target, source)
    return transpose_p.bind(x, permutation=tuple(order))


def place_axis(x: Any, dim: int | None, target: int, size: int, split: Any = None) -> Any:
    """Move the batch dimension `dim` of `x` to `target`; broadcast `x` along a new one of the given size if `dim` is None.

    With `split`, a sharding of vectors over explicit mesh axes, the dimension is sharded so.
    """
    aval: Any = None
    if dim is not None:
        moved = move_dim(x, dim, target)
        if split is None or entry_of(aval := tracing.aval_of(moved), target) == split.spec.partitions[0]:
            return moved
        sharding = with_dimension(without_dimension(aval, target), target, size, split).explicit_sharding
        return reshard_p.bind(moved, dst_sharding=sharding)
    shape, sharding = np.shape(x), None
    if split is not None:
        aval = tracing.aval_of(x)
        sharding = with_dimension(aval, target, size, split).explicit_sharding
    return broadcast_in_dim_p.bind(x, shape=(*shape[:target], size, *shape[target:]), broadcast_dimensions=tuple(
        i for i in range(len(shape) + 1) if i != target), sharding=sharding)


def recast(x: Any, axes: Iterable[Any], source: str, target: str) -> Any:
    """Cast a value to another type along axes of the surrounding `shard_map`. This computes nothing.

    Args:
        x: The value.
        axes: The axes.
        source: Its type along them: it varies between devices ("varying"), is the same on all ("invarying"), is a pending sum
            of the values on the devices ("unreduced"), or is the same with cotangents that are such sums ("reduced").
        target: The new type, one of these.
    """
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is not None:
        mesh = explicit.mesh
    else:
        mesh_axes = [a for a in tracing.thread.axes if type(a) is tracing.MeshAxis]
        mesh = mesh_axes[-1].mesh.abstract_mesh.update_axis_types({a[0]: AxisType.Manual for a in mesh_axes})
    return recast_p.bind(x, axes=tuple(sorted(axes, key=str)), source=source, target=target, mesh=mesh)
