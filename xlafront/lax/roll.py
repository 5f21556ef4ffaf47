"""Rotation of elements along a dimension by a known amount, as `xnp.roll` does."""

from __future__ import annotations

import numpy as np

from xlafront import lowering
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import physical_tail, structural, typed


def _lower(ctx, x, *, shift, dimension):
    """Of an array split over devices the two ends change places: it stays split, and each device sends to the next alone. On
    one device a part of the array laid down twice is faster, because it is computed together with what reads it."""
    mlir, module, aval = lowering.mlir, ctx.module_context, ctx.aval_out
    n, tail = aval.shape[dimension], physical_tail(ctx)

    def part(value, length: int, start: int, stop: int):
        whole = [*aval.shape[:dimension], length, *aval.shape[dimension + 1:], *tail]
        shape = (*aval.shape[:dimension], stop - start, *aval.shape[dimension + 1:])
        begin, end = [0] * len(whole), list(whole)
        begin[dimension], end[dimension] = start, stop
        return ctx.op("stablehlo.slice", [value], [typed(aval, shape)], start_indices=mlir.i64s(begin),
                      limit_indices=mlir.i64s(end), strides=mlir.i64s([1] * len(whole)))

    def joined(values, length: int):
        shape = (*aval.shape[:dimension], length, *aval.shape[dimension + 1:])
        return ctx.op("stablehlo.concatenate", values, [typed(aval, shape)], dimension=mlir.i64(dimension))

    context = module.sharding_context
    if context is not None and context.partitioned and module.manual_mesh is None:
        return joined([part(x, n, n - shift, n), part(x, n, 0, n - shift)], n)
    return part(joined([x, x], 2 * n), 2 * n, n - shift, 2 * n - shift)


def _batch(axis_size, operands, dims, *, shift, dimension):
    [x], [d] = operands, dims
    return roll_p.bind(x, shift=shift, dimension=dimension + (dimension >= d)), d


roll_p = structural("roll", lambda x, *, shift, dimension: typed(x, x.shape), _lower,
                    lambda ct, aval, *, shift, dimension: roll_p.bind(
                        ct, shift=aval.shape[dimension] - shift, dimension=dimension), _batch,
                    sharding_rule=sharding_rules.same)


def roll(x, shift: int, dimension: int):
    """Rotate the elements along a dimension; those that fall off the end come back at the start."""
    n = np.shape(x)[dimension]
    return roll_p.bind(x, shift=shift % n, dimension=dimension) if n and shift % n else x
