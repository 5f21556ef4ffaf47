"""`split`: all pieces of an array along an axis, by one operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core.primitive import Cost, MeshRules, Primitive, Traits
from xlafront.core.sharding_types import of_first_any_kind
from xlafront.core.tangents import instantiate
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import canonical_axis, typed
from xlafront.lax.slicing import concatenate_p
from xlafront.symbolic.dimensions import as_size

if TYPE_CHECKING:
    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def _split_bounds(sizes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    start = 0
    for n in sizes:
        yield start, start + n
        start += n


def _split_lower(ctx: RuleContext, x: ir.Value, *, sizes: tuple[int, ...], axis: int) -> list[ir.Value]:
    pieces = []
    for (start, stop), aval in zip(_split_bounds(sizes), ctx.avals_out):
        limits = list(ctx.avals_in[0].shape)
        starts = [0] * len(limits)
        starts[axis], limits[axis] = start, stop
        pieces.append(ctx.slice(x, starts, limits, result=aval))
    return pieces


def _split_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, sizes: tuple[int, ...], axis: int) -> tuple[Any, Any]:
    tangents_out = split_p.bind(tangents[0], sizes=sizes, axis=axis)
    return split_p.bind(primals[0], sizes=sizes, axis=axis), tangents_out


def _split_transpose(cts: Sequence[Tangent], x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [concatenate_p.bind(*map(instantiate, cts), dimension=axis)]


def _split_batch(size: int, operands: Sequence[Any], dims: Dims, *, sizes: tuple[int, ...], axis: int) -> tuple[Any, Any]:
    axis += dims[0] <= axis
    return split_p.bind(operands[0], sizes=sizes, axis=axis), [dims[0]] * len(sizes)


split_p = Primitive(
    "split", multiple_results=True, lower=_split_lower, jvp=_split_jvp, transpose=_split_transpose, batch=_split_batch,
    abstract=lambda x, *, sizes, axis: [typed(x, (*x.shape[:axis], n, *x.shape[axis + 1:])) for n in sizes],
    mesh=MeshRules(sharding_rule=sharding_rules.resized, sums=of_first_any_kind), traits=Traits(cost=Cost.CHEAP))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Split an array along a dimension into pieces of given sizes.

    Args:
        operand: An array.
        sizes: Sizes of the pieces, which add up to the size of the dimension.
        axis: The dimension.

    Returns:
        The pieces.

    Note:
        `numpy.split` takes the indices where the pieces start.

    Example:
        >>> lax.split(xnp.arange(5), (2, 3))
        [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    axis = canonical_axis(axis, np.ndim(operand), "split")
    sizes = tuple([as_size(n) for n in sizes])
    n = np.shape(operand)[axis]
    if any(m < 0 for m in sizes) or sum(sizes) != n:
        raise ValueError(f"split needs sizes that add up to the size of axis {axis}, {n}, got {sizes}.")
    return list(split_p.bind(operand, sizes=sizes, axis=axis))
