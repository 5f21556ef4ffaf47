"""`split`: all the pieces of an array along an axis, by one operation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlafront.core.dimensions import as_size
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import canonical_axis, typed
from xlafront.lax.slicing import concatenate_p
from xlafront.lax.zeros import instantiate


def _split_bounds(sizes):
    at = 0
    for n in sizes:
        yield at, at + n
        at += n


def _split_lower(ctx, x, *, sizes, axis):
    parts = []
    for (start, stop), aval in zip(_split_bounds(sizes), ctx.avals_out):
        limits = list(ctx.avals_in[0].shape)
        starts = [0] * len(limits)
        starts[axis], limits[axis] = start, stop
        parts.append(ctx.slice(x, starts, limits, result=aval))
    return parts


def _split_jvp(primals, tangents, *, sizes, axis):
    moved = split_p.bind(tangents[0], sizes=sizes, axis=axis)
    return split_p.bind(primals[0], sizes=sizes, axis=axis), moved


def _split_transpose(cts, x, *, sizes, axis):
    if all(type(ct) is Zero for ct in cts):
        return [Zero(x.aval)]
    return [concatenate_p.bind(*map(instantiate, cts), dimension=axis)]


def _split_batch(size, operands, dims, *, sizes, axis):
    axis += dims[0] <= axis
    return split_p.bind(operands[0], sizes=sizes, axis=axis), [dims[0]] * len(sizes)


split_p = Primitive(
    "split", multiple_results=True, lower=_split_lower, jvp=_split_jvp, transpose=_split_transpose, batch=_split_batch,
    sharding_rule=sharding_rules.resized, sums=of_first, cost="cheap",
    abstract=lambda x, *, sizes, axis: [typed(x, (*x.shape[:axis], n, *x.shape[axis + 1:])) for n in sizes])


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """An array cut along a dimension into pieces.

    - `operand`: an array.
    - `sizes`: how long the pieces are; together they are the whole. (`numpy.split` takes where they begin.)
    - `axis`: the dimension.

    >>> lax.split(xnp.arange(5), (2, 3))
    [Array([0, 1], dtype=int32), Array([2, 3, 4], dtype=int32)]
    """
    axis = canonical_axis(axis, np.ndim(operand), "split")
    sizes = tuple([as_size(n) for n in sizes])
    n = np.shape(operand)[axis]
    if any(m < 0 for m in sizes) or sum(sizes) != n:
        raise ValueError(f"split needs sizes that add up to the size of axis {axis}, {n}, got {sizes}.")
    return list(split_p.bind(operand, sizes=sizes, axis=axis))
