"""Batches of products of small matrices on CPUs: a sum of outer products in place of `dot_general`.

XLA's CPU runtime calls a library for each product of a batch of 4 x 4 matrices or larger ones, half a microsecond each. The sum
over the contracted dimension, written as multiplications and additions, is one vectorized loop over the batch, ten to thirty
times faster. It adds the terms in order; the library uses other fused multiply-adds, so the last bit may differ.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from xlafront import lowering
from xlafront.symbolic.dimensions import is_symbolic
from xlafront.tuning.wide_loops import is_for_one_cpu

_MIN_BATCH = 4
_MAX_SIZE = 8  # of each matrix dimension
_MIN_PRODUCT = 64  # from this number of multiplications on, the library is called


def applies(ctx, dimensions: tuple) -> bool:
    """True if a `dot_general` is lowered as a sum. `dimensions`: of both operands, the contracted, batch and free ones."""
    x, y = ctx.avals_in
    if not is_for_one_cpu(ctx.module_context):
        return False
    if not x.dtype == y.dtype == ctx.aval_out.dtype or x.dtype not in (np.float32, np.float64):
        return False
    if is_symbolic(x.shape) or is_symbolic(y.shape):
        return False
    batch, m, k, n = _sizes(x.shape, y.shape, dimensions)
    return batch >= _MIN_BATCH and max(m, k, n) <= _MAX_SIZE and m * k * n >= _MIN_PRODUCT


def lower(ctx, x, y, dimensions: tuple):
    """Lower a product of batches of small matrices."""
    (xc, yc), (xb, yb), (x_free, y_free) = dimensions
    dtype = ctx.aval_out.dtype
    batch, m, k, n = _sizes(ctx.avals_in[0].shape, ctx.avals_in[1].shape, dimensions)
    rows = _rows(ctx, x, ctx.avals_in[0], (*xc, *xb, *x_free), (k, batch, m))
    columns = _rows(ctx, y, ctx.avals_in[1], (*yc, *yb, *y_free), (k, batch, n))
    kind = ((batch, m, n), dtype)
    terms = [ctx.op("stablehlo.multiply", [ctx.broadcast(row, *kind, (0, 1)), ctx.broadcast(column, *kind, (0, 2))], [kind])
             for row, column in zip(rows, columns)]
    return ctx.reshape(functools.reduce(lambda total, term: ctx.op("stablehlo.add", [total, term], [kind]), terms),
                       ctx.aval_out.shape, dtype)


def _rows(ctx, value, aval, permutation: tuple, shape: tuple) -> list:
    """Transpose and reshape a value, and return its slices along the first dimension."""
    dtype = aval.dtype
    if permutation != tuple(range(aval.ndim)):
        value = ctx.op("stablehlo.transpose", [value], [(tuple([aval.shape[i] for i in permutation]), dtype)],
                       permutation=lowering.mlir.i64s(permutation))
    value = ctx.reshape(value, shape, dtype)
    count, *row = shape
    return [ctx.reshape(ctx.slice(value, (i, 0, 0), (i + 1, *row), result=((1, *row), dtype)), row, dtype)
            for i in range(count)]


def _sizes(x: tuple, y: tuple, dimensions: tuple) -> tuple[int, int, int, int]:
    """Return the sizes of the batch, of the free dimensions of `x`, of the contracted ones, and of the free ones of `y`."""
    (contracted, _), (batch, _), (x_free, y_free) = dimensions
    return (math.prod(x[i] for i in batch), math.prod(x[i] for i in x_free), math.prod(x[i] for i in contracted),
            math.prod(y[i] for i in y_free))
