"""Kernels on single matrix units, with what they compute by NumPy, for the tests of values and those of compilation."""

import ml_dtypes
import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu
from xlafront.pallas.kernel_mlir import make_context


def has_queues():
    """True if the installed jaxlib has the operations of queues of results."""
    return make_context("_tpu_ext").is_registered_operation("tpu.matmul_lhs_fifo")


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 256)).astype(ml_dtypes.bfloat16), RNG.normal(size=(256, 256)).astype(ml_dtypes.bfloat16)
PRODUCT, TRANSPOSED = (np.float64(X) @ np.float64(y) for y in (Y, Y.T))
OUT = xf.ShapeDtypeStruct((16, 256), np.float32)


def accumulated(x_ref, y_ref, o_ref):
    """Two accumulators of one unit, of which one is a part of a larger one; the right operand is loaded once."""
    def run(first, second):
        pltpu.matmul_push_rhs(y_ref[...], 0, 1)
        pltpu.matmul_acc_lhs(first, x_ref[...], load_staged_rhs=0)
        pltpu.matmul_acc_lhs(second.at[16:], 2 * x_ref[...])
        pltpu.matmul_acc_lhs(second.at[16:], x_ref[...])
        o_ref[...] = pltpu.matmul_pop(first) + pltpu.matmul_pop(second.at[16:]) + pltpu.matmul_pop(first)

    pl.run_scoped(run, pltpu.ACC(1)((16, 256), np.float32), pltpu.ACC(1)((32, 256), np.float32))


def queued(x_ref, y_ref, o_ref):
    """Two registers, transposed right operands, and a queue that a loop fills and empties."""
    pltpu.matmul_push_rhs(y_ref[...], 0, 0)
    pltpu.matmul_push_rhs(y_ref[...], 1, 0, transpose=True)
    pltpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=0)
    pltpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=1)

    def body(_, total):
        pltpu.matmul_lhs_fifo(x_ref[...], 0)
        return total + pltpu.matmul_pop_fifo((16, 256), np.float32, 0)

    o_ref[...] = lax.fori_loop(0, 3, body, xnp.zeros((16, 256))) + pltpu.matmul_pop_fifo(OUT.shape, OUT.dtype, 0)
    o_ref[...] += pltpu.matmul_pop_fifo((16, 256), np.float32, 0)


KERNELS = {accumulated: 4 * PRODUCT, queued: PRODUCT + 4 * TRANSPOSED}
