"""A matrix product that takes fusions, and functions that are fused with it, with what they compute by NumPy."""

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import fuser, tpu as pltpu


def pulled(f, spec, number, *args):
    return fuser.pull_block_spec(f, spec, scalar_prefetch_handler=lambda *refs: refs[slice(*number)], grid_len=3)(*args)


def matmul(interpret, x_fusion, y_fusion, z_fusion, *, rows=128, inner=128, columns=128):
    """Multiply the results of two fusions block by block, and apply the third to blocks of the product."""
    (m, k), n = x_fusion.shape, y_fusion.shape[1]
    product = xf.ShapeDtypeStruct((m, n), np.float32)
    is_plain, z_fusion = z_fusion is None, z_fusion or (lambda z: (z,))
    (x, xs, x_scalars), (y, ys, y_scalars) = fuser.get_fusion_values(x_fusion), fuser.get_fusion_values(y_fusion)
    z, zs, z_scalars = fuser.get_fusion_values(z_fusion, product)
    scalars = (*x_scalars, *y_scalars, *z_scalars)
    ends = np.cumsum([0, len(x_scalars), len(y_scalars), len(z_scalars)]).tolist()
    x_block, (x_specs,), _ = pulled(x, pl.BlockSpec((rows, inner), lambda i, j, k, *_: (i, k)), ends[:2], xs)
    y_block, (y_specs,), _ = pulled(y, pl.BlockSpec((inner, columns), lambda i, j, k, *_: (k, j)), ends[1:3], ys)
    z_block, z_specs, _, out_types, out_specs = fuser.push_pull_block_spec(
        z, pl.BlockSpec((rows, columns), lambda i, j, k, *_: (i, j)), scalar_prefetch_handler=lambda *refs: refs[ends[2]:],
        grid_len=3)(zs, product)

    def kernel(*refs):
        scalar_refs, (x_refs, y_refs, z_refs, *out_refs, sum_ref) = refs[:len(scalars)], refs[len(scalars):]
        ids = [pl.program_id(i) for i in range(3)]
        x, y = (f(ids, scalar_refs, [r[...] for r in values]) for f, values in ((x_block, x_refs), (y_block, y_refs)))
        pl.when(ids[2] == 0)(lambda: sum_ref.__setitem__(..., xnp.zeros_like(sum_ref)))
        sum_ref[...] += xnp.dot(x, y, preferred_element_type=np.float32)

        @pl.when(ids[2] == pl.num_programs(2) - 1)
        def _():
            for ref, value in zip(out_refs, z_block(ids, scalar_refs, [r[...] for r in z_refs], sum_ref[...]), strict=True):
                ref[...] = value

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=len(scalars), grid=(m // rows, n // columns, k // inner), in_specs=[x_specs, y_specs, z_specs],
        out_specs=out_specs, scratch_shapes=[pltpu.VMEM((rows, columns), np.float32)])
    results = pl.pallas_call(kernel, grid_spec=spec, out_shape=out_types, interpret=interpret)(*scalars, xs, ys, zs)
    return results[0] if is_plain else results


RNG = np.random.default_rng(0)
X, Y, BIAS = (RNG.normal(size=s).astype(np.float32) for s in ((256, 256), (256, 256), (256,)))
STACK, INDEX, SCALE = RNG.normal(size=(3, 256, 256)).astype(np.float32), np.int32(2), np.float32(3)
ARGS = (X, Y, BIAS, STACK, INDEX, SCALE)
P = X.astype(np.float64) @ Y
relu = lambda x: np.maximum(x, 0)
iota = lambda d: lax.broadcasted_iota(np.int32, (256, 256), d)


@fuser.custom_fusion
def scaled(x, table):
    """The rows of `x`, times the first row of a table, which need not have as many rows."""
    return x * table[:1]


scaled.def_pull_block_spec(lambda outs: (outs[0], outs[0].replace(
    block_shape=(8, outs[0].block_shape[1]), block_index_transform=lambda *index: (0, outs[0].block_index_transform(*index)[1]))))
scaled.def_push_block_spec(lambda specs: (specs[0],))
scaled.def_eval_rule(lambda context, x, table: (x * table[:1],))

# Name: the function of the product, the arguments; what it computes.
FUSED = {
    "plain": (lambda mm, x, y, *_: mm(x, y), P),
    "elementwise": (lambda mm, x, y, *_: xnp.tanh(mm(xnp.exp(x) * 2, y + 1) / 100),
                    np.tanh(np.exp(X) * 2 @ (Y + 1.0) / 100)),
    "a bias and an activation": (lambda mm, x, y, b, *_: xf.nn.relu(mm(x, y) + b[None]), relu(P + BIAS)),
    "rows that are scaled": (lambda mm, x, y, b, *_: mm(x * b[None, :], y) + b, (X * BIAS) @ Y.astype(np.float64) + BIAS),
    "broadcasts": (lambda mm, x, y, b, *_: mm(x, xnp.broadcast_to(b[:, None], (256, 256)) * y),
                   X @ (BIAS[:, None] * Y.astype(np.float64))),
    "transposed operands": (lambda mm, x, y, *_: mm(x.T, y.T), X.T.astype(np.float64) @ Y.T),
    "a transposed result": (lambda mm, x, y, *_: mm(x, y).T + 1, P.T + 1),
    "two results": (lambda mm, x, y, *_: (lambda z: (z + 1, z.astype(xnp.bfloat16)))(mm(x, y) * 0 + 3), (0 * P + 4, 0 * P + 3)),
    "a slice": (lambda mm, x, y, *_: mm(x[128:], y[:, 128:]), P[128:, 128:]),
    "a dynamic slice": (lambda mm, x, y, b, stack, i, s: mm(lax.dynamic_index_in_dim(stack, i, 0, keepdims=False) * 2, y),
                        2 * STACK[2].astype(np.float64) @ Y),
    "scalars": (lambda mm, x, y, b, stack, i, s: mm(x * s, y) * s, 9 * P),
    "a mask": (lambda mm, x, y, *_: xnp.where(iota(0) >= iota(1), mm(x, y), 0), np.tril(P)),
    "positions": (lambda mm, x, y, *_: mm(x + iota(1), y), (X + np.arange(256)) @ Y.astype(np.float64)),
    "new dimensions": (lambda mm, x, y, *_: mm(x[None][0], y)[None], P[None]),
    "rows that are merged": (lambda mm, x, y, b, stack, *_: mm(stack.reshape(768, 256), y), STACK.reshape(768, 256).astype(np.float64) @ Y),
    "concatenated operands": (lambda mm, x, y, *_: mm(xnp.concatenate([x, 2 * y]), y), np.concatenate([P, 2 * Y.astype(np.float64) @ Y])),
    "concatenated columns": (lambda mm, x, y, b, stack, *_: mm(xnp.concatenate([x, stack[0]], 1), xnp.concatenate([y, stack[1]])),
                             P + STACK[0].astype(np.float64) @ STACK[1]),
    "calls": (lambda mm, x, y, *_: xf.jit(xf.nn.silu)(mm(xf.jit(xnp.abs)(x), y) / 50),
              (lambda z: z / (1 + np.exp(-z)))(np.abs(X) @ Y.astype(np.float64) / 50)),
    "custom fusions": (lambda mm, x, y, *_: scaled(mm(scaled(x, y[:8]), y), x[8:]), (X * Y[0]) @ Y.astype(np.float64) * X[8]),
    "a computation beside": (lambda mm, x, y, b, *_: (mm(x, y), xnp.sin(b)), (P, np.sin(BIAS))),
}


def fused(name, interpret):
    """Return the fused function."""
    mm = fuser.fusible(lambda *args, **kwargs: matmul(interpret, *args, **kwargs))
    return fuser.fuse(lambda *args: FUSED[name][0](mm, *args))
