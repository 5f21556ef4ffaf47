"""`shard_alike`: pairs of values that the compiler shards in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlafront import lowering
from xlafront.core import tracing, tree
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.tangents import zeros_of
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.shapes import broadcast_batch

if TYPE_CHECKING:
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


@boundary
def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Shard two arrays in the same way over the devices of a mesh.

    If one is sharded already, the other follows it. The final sharding is the compiler's choice.

    Args:
        x, y: Arrays of the same shape, or pytrees of the same structure with arrays of the same shapes.

    Returns:
        A tuple of `x` and `y`.

    Example:
        >>> from xlafront.experimental.shard_alike import shard_alike
        >>> shard_alike(xnp.zeros(2), xnp.ones(2))
        (Array([0., 0.], dtype=float32), Array([1., 1.], dtype=float32))
    """
    (first, treedef), (second, y_treedef) = tree.flatten(x), tree.flatten(y)
    if treedef != y_treedef:
        raise ValueError(f"shard_alike takes two pytrees of the same structure, got {treedef} and {y_treedef}.")
    pairs = []
    for i, (a, b) in enumerate(zip(first, second)):
        shapes = tracing.aval_of(a, "shard_alike").shape, tracing.aval_of(b, "shard_alike").shape
        if shapes[0] != shapes[1]:
            path = tree.path_of(x, i)
            raise ValueError(f"shard_alike takes arrays of the same shapes; x{path} has the shape {shapes[0]} and y{path} "
                             f"{shapes[1]}.")
        pairs.append(shard_alike_p.bind(a, b))
    return treedef.unflatten([a for a, _ in pairs]), treedef.unflatten([b for _, b in pairs])


def _lower(ctx: RuleContext, *values: ir.Value) -> list[ir.Value]:
    module = ctx.module_context
    group = lowering.mlir.i64(module.sharding_groups)
    module.sharding_groups += 1
    for value in values:
        ctx.op("sdy.sharding_group", [value], [], group_id=group)
    return list(values)


def _shard_tangents_alike(values: Sequence[Any]) -> list[Any]:
    """Shard tangents alike, unless all are symbolic zeros."""
    if all([type(x) is Zero for x in values]):
        return list(values)
    return shard_alike_p.bind(*[zeros_of(x.aval) if type(x) is Zero else x for x in values])


def _batch(size: int, operands: Sequence[Any], dims: Dims) -> tuple[Any, Any]:
    return shard_alike_p.bind(*[broadcast_batch(x, d, size) for x, d in zip(operands, dims)]), [0, 0]


shard_alike_p = Primitive(
    "shard_alike", multiple_results=True, abstract=lambda x, y: [x, y], lower=_lower, batch=_batch,
    jvp=lambda primals, tangents: (shard_alike_p.bind(*primals), _shard_tangents_alike(tangents)),
    transpose=lambda cts, *operands: _shard_tangents_alike(cts), mesh=MeshRules(states_mesh_types=True))
