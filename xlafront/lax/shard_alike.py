"""Values of which the compiler is told that they are to be spread over devices alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront import lowering
from xlafront.core import tracing, tree
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.shapes import broadcast_batch, zeros_of


@boundary
def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """The same values, of which the compiler is told to spread both over the devices of a mesh in the same way.

    Where one is split already, the other follows it; how they are split in the end is the compiler's choice.

    - `x`, `y`: arrays of the same shape, or pytrees of the same structure whose arrays have the same shapes.

    >>> from xlafront.experimental.shard_alike import shard_alike
    >>> shard_alike(xnp.zeros(2), xnp.ones(2))
    (Array([0., 0.], dtype=float32), Array([1., 1.], dtype=float32))
    """
    (first, structure), (second, other) = tree.flatten(x), tree.flatten(y)
    if structure != other:
        raise ValueError(f"shard_alike takes two pytrees of the same structure, got {structure} and {other}.")
    pairs = []
    for i, (a, b) in enumerate(zip(first, second)):
        shapes = tracing.aval_of(a, "shard_alike").shape, tracing.aval_of(b, "shard_alike").shape
        if shapes[0] != shapes[1]:
            path = tree.path_of(x, i)
            raise ValueError(f"shard_alike takes arrays of the same shapes; x{path} has the shape {shapes[0]} and y{path} "
                             f"{shapes[1]}.")
        pairs.append(shard_alike_p.bind(a, b))
    return structure.unflatten([a for a, _ in pairs]), structure.unflatten([b for _, b in pairs])


def _lower(ctx, *values):
    module = ctx.module_context
    group = lowering.mlir.i64(module.sharding_groups)
    module.sharding_groups += 1
    for value in values:
        ctx.op("sdy.sharding_group", [value], [], group_id=group)
    return list(values)


def _alike(values: Sequence[Any]) -> list[Any]:
    """Of derivatives, which may be zero: alike as soon as there is one."""
    if all([type(x) is Zero for x in values]):
        return list(values)
    return shard_alike_p.bind(*[zeros_of(x.aval) if type(x) is Zero else x for x in values])


def _batch(size, operands, dims):
    return shard_alike_p.bind(*[broadcast_batch(x, d, size) for x, d in zip(operands, dims)]), [0, 0]


shard_alike_p = Primitive(
    "shard_alike", multiple_results=True, abstract=lambda x, y: [x, y], lower=_lower, batch=_batch,
    jvp=lambda primals, tangents: (shard_alike_p.bind(*primals), _alike(tangents)),
    transpose=lambda cts, *operands: _alike(cts))
shard_alike_p.own_types = True
