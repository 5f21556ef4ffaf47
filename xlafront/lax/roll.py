"""Rotation of elements along a dimension by a static shift, as in `xnp.roll`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core.primitive import Cost, KeyUse, Traits
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import structural, typed
from xlafront.lax.slicing import concatenate, slice_in_dim

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.typing import Array, Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def _lower(ctx: RuleContext, x: ir.Value, *, shift: int, dimension: int) -> ir.Value:
    """Lower to a concatenation of two slices: a sharded array stays sharded, and devices send only to their neighbors.

    An unsharded vector is concatenated with itself and sliced, which is faster because XLA fuses it with its consumer. For
    larger arrays that is slower than copying the two slices.
    """
    module, aval = ctx.module_context, ctx.aval_out
    n = aval.shape[dimension]

    def typed_as(length: int) -> ShapedArray:
        return typed(aval, (*aval.shape[:dimension], length, *aval.shape[dimension + 1:]))

    def slice_of(value: ir.Value, start: int, stop: int) -> ir.Value:
        begin, end = [0] * aval.ndim, list(aval.shape)
        begin[dimension], end[dimension] = start, stop
        return ctx.slice(value, begin, end, result=typed_as(stop - start))

    context = module.sharding_context
    is_sharded = context is not None and context.partitioned and module.manual_mesh is None
    if is_sharded or aval.ndim > 1:
        return ctx.concatenate([slice_of(x, n - shift, n), slice_of(x, 0, n - shift)], dimension)
    return slice_of(ctx.concatenate([x, x], dimension, typed_as(2 * n)), n - shift, 2 * n - shift)


def _roll_by_slices(x: Array, *, shift: int, dimension: int) -> Array:
    boundary = np.shape(x)[dimension] - shift
    ends = slice_in_dim(x, boundary, None, axis=dimension), slice_in_dim(x, 0, boundary, axis=dimension)
    return concatenate(ends, dimension)


def _batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, shift: int, dimension: int) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    return roll_p.bind(x, shift=shift, dimension=dimension + (dimension >= d)), d


roll_p = structural(
    "roll", lambda x, *, shift, dimension: typed(x, x.shape), _lower, lambda ct, aval, *, shift, dimension: roll_p.bind(
                        ct, shift=aval.shape[dimension] - shift, dimension=dimension), _batch,
    sharding_rule=sharding_rules.roll, decompose=_roll_by_slices, traits=Traits(cost=Cost.CHEAP, key_use=KeyUse.PERMUTES))


def roll(x: Array, shift: int, dimension: int) -> Array:
    """Rotate the elements along a dimension; elements shifted beyond the end reappear at the start."""
    n = np.shape(x)[dimension]
    return roll_p.bind(x, shift=shift % n, dimension=dimension) if n and shift % n else x
