"""Rotation of elements along a dimension by a known amount, as `xnp.roll` does."""

from __future__ import annotations

import numpy as np

from xlafront.lax import sharding_rules
from xlafront.lax.shapes import structural, typed
from xlafront.lax.slicing import concatenate, slice_in_dim


def _lower(ctx, x, *, shift, dimension):
    """The two ends change places: an array that is split over devices stays split, and each device sends to the next alone.
    Of a vector on one device a part of it laid down twice is faster, because it is computed together with what reads it; of
    larger arrays that is slower than to copy their two parts."""
    module, aval = ctx.module_context, ctx.aval_out
    n = aval.shape[dimension]

    def resized(length: int):
        return typed(aval, (*aval.shape[:dimension], length, *aval.shape[dimension + 1:]))

    def part(value, start: int, stop: int):
        begin, end = [0] * aval.ndim, list(aval.shape)
        begin[dimension], end[dimension] = start, stop
        return ctx.slice(value, begin, end, result=resized(stop - start))

    context = module.sharding_context
    split = context is not None and context.partitioned and module.manual_mesh is None
    if split or aval.ndim > 1:
        return ctx.concatenate([part(x, n - shift, n), part(x, 0, n - shift)], dimension)
    return part(ctx.concatenate([x, x], dimension, resized(2 * n)), n - shift, 2 * n - shift)


def _by_parts(x, *, shift, dimension):
    last = np.shape(x)[dimension] - shift
    return concatenate([slice_in_dim(x, last, None, axis=dimension), slice_in_dim(x, 0, last, axis=dimension)], dimension)


def _batch(axis_size, operands, dims, *, shift, dimension):
    [x], [d] = operands, dims
    return roll_p.bind(x, shift=shift, dimension=dimension + (dimension >= d)), d


roll_p = structural("roll", lambda x, *, shift, dimension: typed(x, x.shape), _lower,
                    lambda ct, aval, *, shift, dimension: roll_p.bind(
                        ct, shift=aval.shape[dimension] - shift, dimension=dimension), _batch,
                    sharding_rule=sharding_rules.roll)
roll_p.key_use = "moves"
roll_p.for_extensions = _by_parts


def roll(x, shift: int, dimension: int):
    """Rotate the elements along a dimension; those that fall off the end come back at the start."""
    n = np.shape(x)[dimension]
    return roll_p.bind(x, shift=shift % n, dimension=dimension) if n and shift % n else x
