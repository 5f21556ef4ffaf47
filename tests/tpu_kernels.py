"""TPU kernels with what they compute by NumPy, for the tests of values and those of compilation."""

from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np
import scipy.special as sp

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu
from xlafront.sharding import Mesh, PartitionSpec as P

F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
Block, Spec = pl.BlockSpec, xf.ShapeDtypeStruct


class Kernel(NamedTuple):
    """A kernel: `call(interpret)` is the function, `expected` computes the same with NumPy."""

    call: Callable
    arguments: Callable
    expected: Callable
    tolerance: float = 1e-5
    aliases: tuple = ()


KERNELS: dict[str, Kernel] = {}


def kernel(arguments, expected, tolerance=1e-5, aliases=(), **options):
    """Decorator that adds a kernel with the options of `pallas_call`."""
    def add(body):
        def call(interpret):
            return pl.pallas_call(body, interpret=interpret, **options)

        KERNELS[body.__name__] = Kernel(call, arguments, expected, tolerance, aliases)
        return body

    return add


def numbers(*shape, seed=0, dtype=F32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def integers(*shape, low=-100, high=100, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


ROWS = Block((8, 128), lambda i: (i, 0))


@kernel(lambda: (numbers(32, 256), numbers(32, 256, seed=1)), lambda x, y: x + y, out_shape=Spec((32, 256), F32), grid=(4, 2),
        in_specs=[Block((8, 128), lambda i, j: (i, j))] * 2, out_specs=Block((8, 128), lambda i, j: (i, j)))
def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


@kernel(lambda: (numbers(30, 200),), lambda x: 2 * x, out_shape=Spec((30, 200), F32), grid=(4, 2),
        in_specs=[Block((8, 128), lambda i, j: (i, j))], out_specs=Block((8, 128), lambda i, j: (i, j)))
def ragged_edges(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


@kernel(lambda: (numbers(256, 256, dtype=BF16), numbers(256, 256, seed=1, dtype=BF16)),
        lambda x, y: x.astype(F32) @ y.astype(F32), 0.02, out_shape=Spec((256, 256), F32), grid=(2, 2, 2),
        in_specs=[Block((128, 128), lambda i, j, k: (i, k)),
                  Block((128, 128), lambda i, j, k: (k, j), pipeline_mode=pl.Buffered(2))],
        out_specs=Block((128, 128), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((128, 128), F32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", pltpu.ARBITRARY),
                                             vmem_limit_bytes=1 << 21),
        cost_estimate=pl.CostEstimate(2 * 256**3, 0, 6 * 256 * 256))
def matmul(x_ref, y_ref, o_ref, sum_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        sum_ref[...] = xnp.zeros_like(sum_ref)

    sum_ref[...] += xnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = sum_ref[...]


def _softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@kernel(lambda: (numbers(64, 256),), _softmax, out_shape=Spec((64, 256), F32), grid=4,
        in_specs=[Block((16, 256), lambda i: (i, 0))], out_specs=Block((16, 256), lambda i: (i, 0)))
def softmax(x_ref, o_ref):
    x = x_ref[...]
    e = xnp.exp(x - x.max(1, keepdims=True))
    o_ref[...] = e / e.sum(1, keepdims=True)


def _attention(q, k, v):
    return np.stack([_softmax(a / 8 @ b.T) @ c for a, b, c in zip(q, k, v)])


@kernel(lambda: tuple([numbers(2, 256, 128, seed=s) for s in range(3)]), _attention, 1e-4, out_shape=Spec((2, 256, 128), F32),
        grid=(2, 2), in_specs=[Block((None, 128, 128), lambda b, i: (b, i, 0)), *[Block((None, 256, 128), lambda b, i: (b, 0, 0))] * 2],
        out_specs=Block((None, 128, 128), lambda b, i: (b, i, 0)))
def flash_attention(q_ref, k_ref, v_ref, o_ref):
    q = q_ref[...] * 0.125

    def step(j, carry):
        largest, total, values = carry
        here = pl.ds(pl.multiple_of(j * 128, 128), 128)
        scores = q @ k_ref[here, :].T
        new = xnp.maximum(largest, scores.max(1, keepdims=True))
        p, factor = xnp.exp(scores - new), xnp.exp(largest - new)
        return new, factor * total + p.sum(1, keepdims=True), values * factor + p @ v_ref[here, :]

    start = xnp.full((128, 1), -xnp.inf), xnp.zeros((128, 1)), xnp.zeros((128, 128))
    _, total, values = lax.fori_loop(0, 2, step, start)
    o_ref[...] = values / total


def _gathered_rows(order, x):
    return x.reshape(4, 8, 128)[order].reshape(32, 128) * np.repeat(order, 8)[:, None]


@kernel(lambda: (np.array([2, 0, 3, 1], np.int32), numbers(32, 128)), _gathered_rows, out_shape=Spec((32, 128), F32),
        grid_spec=pltpu.PrefetchScalarGridSpec(1, 4, [Block((8, 128), lambda i, order: (order[i], 0))],
                                               Block((8, 128), lambda i, order: (i, 0))))
def scalar_prefetch(order_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] * order_ref[pl.program_id(0)].astype(F32)


def _shifted(x):
    return np.stack([np.roll(row, 1) for row in x[8:]]) + 3


@kernel(lambda: (numbers(16, 128),), _shifted, out_shape=Spec((8, 128), F32), in_specs=[Block(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), F32), pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.REGULAR])
def copies(x_ref, o_ref, buffer_ref, copied, counter):
    copy = pltpu.make_async_copy(x_ref.at[pl.ds(8, 8)], buffer_ref.at[1], copied.at[1])
    copy.start()
    copy.wait()
    pl.semaphore_signal(counter, 5)
    pl.semaphore_wait(counter, 4)
    pl.delay(10)

    def body(scratch_ref, number_ref):
        scratch_ref[...] = pltpu.roll(buffer_ref[1], pl.semaphore_read(counter), 1)
        number_ref[0, 1] = 3
        o_ref[...] = scratch_ref[...] + number_ref[0, 1].astype(F32)

    pl.run_scoped(body, pltpu.VMEM((8, 128), F32), pltpu.SMEM((1, 2), "int32"))
    pl.semaphore_wait(counter)


@kernel(lambda: (numbers(16, 128),), lambda x: 1 * x, out_shape=Spec((16, 128), F32), in_specs=[Block(memory_space=pltpu.HBM)],
        out_specs=Block(memory_space=pl.ANY))
def copies_between_main_memory(x_ref, o_ref):
    pltpu.sync_copy(x_ref, o_ref)


def _recurrence(a, x):
    h, found = np.zeros(x.shape[1:], F32), []
    for decay, v in zip(a, x):
        h = decay * h + v
        found.append(h)
    return np.stack(found)


@kernel(lambda: (numbers(11, 128), numbers(11, 128, seed=1)), lambda a, x: (_recurrence(a, x), _recurrence(a.T, x.T).T), 1e-4,
        out_shape=(Spec((11, 128), F32),) * 2)
def associative_scans(a_ref, x_ref, down_ref, along_ref):
    """A linear recurrence along each axis, with an odd number of steps. It makes arrays without elements."""
    def step(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    for ref, axis in ((down_ref, 0), (along_ref, 1)):
        ref[...] = lax.associative_scan(step, (a_ref[...], x_ref[...]), axis=axis)[1]


def _spaced(x):
    rows, planes = np.full((16, 256), 2, F32), np.full((9, 2, 128), 2, F32)
    rows[1::2, :255:2] = x
    planes[1::3] = x[:6].reshape(3, 2, 128)
    return rows, planes


@kernel(lambda: (numbers(8, 128),), _spaced, out_shape=(Spec((16, 256), F32), Spec((9, 2, 128), F32)))
def padding_between_elements(x_ref, rows_ref, planes_ref):
    rows_ref[...] = lax.pad(x_ref[...], np.float32(2), ((1, 0, 1), (0, 1, 1)))
    planes_ref[...] = lax.pad(x_ref[:6].reshape(3, 2, 128), np.float32(2), ((1, 1, 2), (0, 0, 0), (0, 0, 0)))


@kernel(lambda: (numbers(4, 32, 128), numbers(32, 128, seed=1)), lambda x, y: x.sum(2, keepdims=True) * y,
        1e-4, out_shape=Spec((4, 32, 128), F32), grid=(4, 4),
        in_specs=[Block((None, 8, 128), lambda i, j: (i, j, 0)), Block((pl.Element(8), pl.Element(128)), lambda i, j: (j * 8, 0))],
        out_specs=Block((None, 8, 128), lambda i, j: (i, j, 0)))
def squeezed_and_element_blocks(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...].sum(1, keepdims=True) * y_ref[...]


def _indexed(x):
    out = np.zeros((8, 128), F32)
    out[0], out[1] = x[5], x[3] + 1
    out[2:4] = x[0:4:2]
    out[4:5, 0:1] = 7
    out[5, 5] = x[2, 3]
    out[6] = x[x.shape[0] - 1]
    return out


@kernel(lambda: (numbers(8, 128),), _indexed, out_shape=Spec((8, 128), F32), grid=(1,))
def indexing(x_ref, o_ref):
    i = pl.program_id(0)
    o_ref[...] = xnp.zeros((8, 128), F32)
    o_ref[0] = x_ref[5]
    o_ref[i + 1, :] = x_ref.at[pl.ds(2, 4)][1] + 1
    o_ref[2:4] = x_ref[pl.ds(0, 2, stride=2)]
    o_ref[4:5, 0:1] = xnp.full((1, 1), 7, F32)
    o_ref[5, 5] = x_ref[2, 3]
    o_ref[6, :] = x_ref[-1]


def _strided(x, y, v, b):
    wide, narrow, line, flags = np.zeros((3, 32, 256), F32), np.ones((2, 64, 256), BF16), np.full(2048, 5, F32), np.zeros((32, 256), bool)
    wide[0, :, :128], wide[1], wide[2, 1::4, ::2] = x[:, ::2], x[::-1][::-1][np.arange(32) // 2 * 2], x[3:11, :128]
    narrow[0, ::2], narrow[1, :, 1::2] = y[1:64:2], y[:, :128]
    line[::2] = v[1024:]
    line[1:17:2] = np.where(v[:8] > 0, v[:8], line[1:17:2])
    flags[1::2] = b[::2]
    return wide, narrow, line, flags


@kernel(lambda: (numbers(32, 256), numbers(64, 256, dtype=BF16), numbers(2048), integers(32, 256, low=0, high=2).astype(bool)), _strided,
        grid=1, out_shape=(Spec((3, 32, 256), F32), Spec((2, 64, 256), BF16), Spec((2048,), F32), Spec((32, 256), "bool")))
def strides(x_ref, y_ref, v_ref, b_ref, wide_ref, narrow_ref, line_ref, flags_ref):
    i = pl.program_id(0)
    wide_ref[...] = xnp.zeros(wide_ref.shape, F32)
    wide_ref[0, :, :128] = x_ref[:, ::2]
    wide_ref[1, ::2] = x_ref[::2]
    wide_ref[1, pl.ds(1, 16, stride=2)] = x_ref[pl.ds(0, 16, stride=2)]
    wide_ref[2, 1::4, ::2] = x_ref[3:11, :128]
    narrow_ref[...] = xnp.ones(narrow_ref.shape, BF16)
    narrow_ref.at[0][::2] = y_ref[pl.ds(1, 32, stride=2)]
    narrow_ref[i + 1, :, 1::2] = y_ref[:, :128]
    line_ref[...] = xnp.full(line_ref.shape, 5, F32)
    line_ref[::2] = v_ref[1024:]
    pltpu.store(line_ref.at[pl.ds(1, 8, stride=2)], v_ref[:8], mask=v_ref[:8] > 0)
    flags_ref[...] = xnp.zeros((32, 256), bool)
    flags_ref[1::2] = b_ref[::2]


def _shapes(x):
    out = np.stack([*x[:4], *[x[4]] * 4])
    out += np.concatenate([x[:, 64:], x[:, :64]], 1) + np.tile(x[:1], (8, 1)) + np.repeat(x[1:2], 8, 0)
    out += np.pad(x[:4], ((0, 4), (0, 0))) + np.arange(128, dtype=F32) + np.arange(8, dtype=F32)[:, None]
    return out + x.T.T + x[2, 3] + (x[:, :1] > 0)


@kernel(lambda: (numbers(8, 128),), _shapes, out_shape=Spec((8, 128), F32))
def shapes(x_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = xnp.stack([*[x[i] for i in range(4)], *[x[4]] * 4])
    o_ref[...] += xnp.concatenate([x[:, 64:], x[:, :64]], 1) + xnp.tile(x[:1], (8, 1)) + xnp.repeat(x[1:2], 8, 0)
    o_ref[...] += xnp.pad(x[:4], ((0, 4), (0, 0))) + lax.broadcasted_iota(F32, (8, 128), 1)
    o_ref[...] += xnp.arange(8, dtype=F32)[:, None]
    o_ref[...] += x.T.T + x[2, 3] + xnp.broadcast_to(x[:, :1] > 0, (8, 128)).astype(F32)


def _reductions(x):
    out = np.zeros((8, 128), F32) + x.sum() + x.max() + x.min(0) + x.sum(1, keepdims=True)
    out += x.argmax(0) + x.argmin(1)[:, None] + (x > 0).any(0) + (x > -9).all() + x.astype(np.int32).max()
    return out + (x @ x[1])[:, None] + x.astype(np.int32).sum(0)


@kernel(lambda: (numbers(8, 128),), _reductions, 1e-4, out_shape=Spec((8, 128), F32))
def reductions(x_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = xnp.zeros((8, 128), F32) + x.sum() + x.max() + x.min(0) + x.sum(1, keepdims=True)
    o_ref[...] += xnp.argmax(x, 0).astype(F32) + xnp.argmin(x, 1, keepdims=True).astype(F32)
    o_ref[...] += (x > 0).any(0).astype(F32) + (x > -9).all().astype(F32) + x.astype("int32").max().astype(F32)
    o_ref[...] += (x @ x[1])[:, None] + x.astype("int32").sum(0).astype(F32)


def _elementwise(x):
    with np.errstate(all="ignore"):
        out = np.where(x > 0, np.exp(x), np.tanh(x)) + np.abs(x) ** 1.5 + np.sign(x) + np.round(x) + np.floor(x)
        out += 1 / (1 + np.exp(-x)) + x**3 + np.maximum(x, 0.5) + np.minimum(x, 0.5) + np.clip(x, -1, 1) + np.isnan(x)
        out += np.log1p(np.abs(x)) + np.sqrt(np.abs(x)) + np.exp2(x) + np.fmod(x, 0.7) + (x != 0.5) + (x.view(np.uint32) >> 8)
    return out + 1 / (2 + np.abs(x))


@kernel(lambda: (numbers(8, 128),), _elementwise, 1e-4, out_shape=Spec((8, 128), F32))
def elementwise(x_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = xnp.where(x > 0, xnp.exp(x), xnp.tanh(x)) + xnp.abs(x) ** 1.5 + xnp.sign(x) + xnp.round(x) + xnp.floor(x)
    o_ref[...] += xf.nn.sigmoid(x) + x**3 + xnp.maximum(x, 0.5) + xnp.minimum(x, 0.5) + xnp.clip(x, -1, 1)
    o_ref[...] += xnp.isnan(x).astype(F32) + xnp.log1p(xnp.abs(x)) + xnp.sqrt(xnp.abs(x)) + xnp.exp2(x)
    o_ref[...] += lax.rem(x, xnp.float32(0.7)) + (x != 0.5).astype(F32)
    o_ref[...] += (lax.bitcast_convert_type(x, "uint32") >> 8).astype("int32").astype(F32) + pltpu.reciprocal(2 + xnp.abs(x))


# Functions that Mosaic does not have, on a range, with the same of NumPy and SciPy.
SERIES: dict[Callable, tuple[Callable, float, float]] = {
    xnp.arcsin: (np.arcsin, -1, 1), xnp.arccos: (np.arccos, -1, 1), xnp.arctan: (np.arctan, -20, 20), xnp.sinh: (np.sinh, -20, 20),
    xnp.cosh: (np.cosh, -20, 20), xnp.arcsinh: (np.arcsinh, -1e3, 1e3), xnp.arccosh: (np.arccosh, 1, 1e3),
    xnp.arctanh: (np.arctanh, -0.999, 0.999), xnp.expm1: (np.expm1, -5, 5), xnp.cbrt: (np.cbrt, -1e3, 1e3), lax.erfc: (sp.erfc, -4, 9),
    lax.erf_inv: (sp.erfinv, -0.999, 0.999), lax.lgamma: (sp.gammaln, -4.4, 60), lax.digamma: (sp.digamma, -4.4, 60),
    lax.bessel_i0e: (sp.i0e, -40, 40), lax.bessel_i1e: (sp.i1e, -40, 40), lambda x: lax.igamma(x, 3.0): (lambda x: sp.gammainc(x, 3), 0.1, 9)}


def _from_range(x, low, high):
    return low + (high - low) * x


def _series(x):
    return np.stack([f(_from_range(x.astype(np.float64), low, high)) for f, low, high in SERIES.values()])


@kernel(lambda: (np.linspace(0.001, 0.999, 1024, dtype=F32).reshape(8, 128),), _series, 1e-4, out_shape=Spec((len(SERIES), 8, 128), F32))
def series(x_ref, o_ref):
    for i, (f, (_, low, high)) in enumerate(SERIES.items()):
        o_ref[i] = f(_from_range(x_ref[...], low, high))


def _along_axes(x, k):
    rows = np.stack([np.cumsum(x, 0), np.cumsum(x[:, ::-1], 1)[:, ::-1], np.cumprod(x, 1), np.maximum.accumulate(x, 1),
                     np.minimum.accumulate(x, 0), np.logaddexp.accumulate(x, 1), np.sort(x, 0), np.sort(x, 1), x[::-1], x[:, ::-1],
                     np.roll(x, 3, 1), np.roll(x, -1, 0), np.broadcast_to(x.prod(0), x.shape), np.cumsum(2 * x, 0),
                     np.where((np.arange(8) == 3)[:, None], x[:1], x), np.broadcast_to(x[5], x.shape)])
    return rows, np.stack([np.argsort(k, 1, kind="stable"), np.sort(k, 0), -np.sort(-k, 1)]), np.argsort(-k, 1, kind="stable")


@kernel(lambda: (numbers(8, 128), integers(8, 128, low=0, high=9)), _along_axes, 1e-4,
        out_shape=(Spec((16, 8, 128), F32), Spec((3, 8, 128), "int32"), Spec((8, 128), "int32")))
def along_axes(x_ref, k_ref, o_ref, p_ref, q_ref):
    x, k = x_ref[...], k_ref[...]
    start = lax.convert_element_type(x[0, 0] * 0, "int32")
    found = [lax.cumsum(x, 0), lax.cumsum(x, 1, reverse=True), lax.cumprod(x, 1), lax.cummax(x, 1), lax.cummin(x, 0),
             lax.cumlogsumexp(x, 1), xnp.sort(x, 0), xnp.sort(x, 1), x[::-1], x[:, ::-1], xnp.roll(x, 3, 1), xnp.roll(x, -1, 0),
             xnp.broadcast_to(x.prod(0), x.shape), lax.scan(lambda c, row: (c + 2 * row,) * 2, xnp.zeros(128), x)[1],
             lax.dynamic_update_slice(x, x[:1], (start + 3, 0)), xnp.broadcast_to(lax.dynamic_slice(x, (start + 5, 0), (1, 128)), x.shape)]
    for i, y in enumerate(found):
        o_ref[i] = y
    p_ref[0], p_ref[1] = xnp.argsort(k, 1), xnp.sort(k, 0)
    p_ref[2], q_ref[...] = lax.top_k(k, 128)


@kernel(lambda: (numbers(16, 128, dtype=BF16), integers(16, 128, low=0, high=100, dtype=np.uint8).astype(np.int16)), lambda x, k: (
        np.stack([np.arctan2(*[np.float32(v) for v in (x, x[::-1])]), np.cumsum(np.float32(x), 1), np.fmod(np.float32(x), 0.5)]).astype(BF16),
        np.stack([k << 3, k >> 2, np.roll(k, 1, 0), np.bitwise_count(k).astype(np.int16)])), 0.1,
        out_shape=(Spec((3, 16, 128), BF16), Spec((4, 16, 128), "int16")))
def narrow_functions(x_ref, k_ref, o_ref, p_ref):
    x, k = x_ref[...], k_ref[...]
    o_ref[0], o_ref[2] = xnp.arctan2(x, x[::-1]), lax.rem(x, xnp.bfloat16(0.5))
    o_ref[1] = lax.cumsum(x.astype(F32), 1).astype(BF16)
    p_ref[0], p_ref[1], p_ref[2], p_ref[3] = k << 3, lax.shift_right_logical(k, np.int16(2)), xnp.roll(k, 1, 0), lax.population_count(k)


def _carried(x):
    while (x > 1).any():
        x = np.where(x > 1, x / 2, x)
    return x


@kernel(lambda: (numbers(8, 128) * 20,), _carried, out_shape=Spec((8, 128), F32))
def booleans_in_loops(x_ref, o_ref):
    x = x_ref[...]
    found = lax.while_loop(lambda c: c[1].any(), lambda c: (y := xnp.where(c[1], c[0] / 2, c[0]), y > 1), (x, x > 1))
    mask = lax.fori_loop(0, 2, lambda i, m: m ^ (x > 0), found[0] <= 1)
    o_ref[...] = xnp.where(mask == (x != 9), found[0], xnp.nan)


@kernel(lambda: (integers(32, 128, dtype=np.int8), integers(32, 128, seed=1, dtype=np.int8), integers(32, 128, low=0, high=2).astype(bool)),
        lambda x, y, b: (x.astype(np.int32) @ y.astype(np.int32).T + (x > 0).sum(1, keepdims=True), b & (x > 0)),
        out_shape=(Spec((32, 32), "int32"), Spec((32, 128), "bool")), grid=2, scratch_shapes=[pltpu.SMEM((2,), "bool")])
def narrow_integers(x_ref, y_ref, b_ref, o_ref, p_ref, flags_ref):
    flags_ref[0] = pl.program_id(0) > 0
    o_ref[...] = lax.dot_general(x_ref[...], y_ref[...], (((1,), (1,)), ((), ())), preferred_element_type="int32")
    o_ref[...] += (x_ref[...] > 0).astype("int32").sum(1, keepdims=True)
    p_ref[...] = b_ref[...] & (x_ref[...] > 0)


def _wrapping(x, u):
    with np.errstate(over="ignore"):
        y = np.maximum(x + x, x * x) + np.where(x > 3, x, -x) + np.abs(x) + np.clip(x, -5, 7)
    return y, np.maximum(u + u, u) // np.uint8(3), np.broadcast_to(u.astype(np.uint32).max(1, keepdims=True) * 2**24, u.shape)


@kernel(lambda: (integers(32, 128, dtype=np.int8), integers(32, 128, low=0, high=256, dtype=np.uint8)), _wrapping,
        out_shape=(Spec((32, 128), "int8"), Spec((32, 128), "uint8"), Spec((32, 128), "uint32")))
def narrow_arithmetic(x_ref, u_ref, o_ref, p_ref, largest_ref):
    x, u = x_ref[...], u_ref[...]
    o_ref[...] = xnp.maximum(x + x, x * x) + xnp.where(x > 3, x, -x) + xnp.abs(x) + xnp.clip(x, -5, 7)
    p_ref[...] = xnp.maximum(u + u, u) // xnp.uint8(3)
    largest_ref[...] = xnp.broadcast_to((u.astype("uint32") * xnp.uint32(2**24)).max(1, keepdims=True), u.shape)


def _words(x):
    bf16 = x.astype(BF16).astype(F32)
    return bf16 + np.stack([x[::2].view(np.uint32) >> 0, x[1::2].view(np.uint32)]).transpose(1, 0, 2).reshape(x.shape).view(F32)


@kernel(lambda: (numbers(16, 128),), _words, out_shape=Spec((16, 128), F32))
def packed_words(x_ref, o_ref):
    words = pltpu.pack_elementwise([x_ref[...], -x_ref[...]], packed_dtype="bfloat16")
    o_ref[...] = pltpu.unpack_elementwise(words, index=0, packed_dtype="bfloat16", unpacked_dtype=F32)
    o_ref[...] += pltpu.bitcast(pltpu.bitcast(x_ref[...], "int16"), F32)


def _rounded(x, bits):
    return ((x.view(np.uint32) + (bits & 0xffff)) & 0xffff0000).view(F32)


@kernel(lambda: (numbers(16, 128), integers(16, 128, low=0, high=2**32 - 1, dtype=np.uint32)), _rounded, out_shape=Spec((16, 128), F32))
def rounding_at_random(x_ref, bits_ref, o_ref):
    o_ref[...] = pltpu.stochastic_round(x_ref[...], bits_ref[...], target_dtype="bfloat16").astype(F32)


def _rounded_to_eight_bits(x, bits):
    unit = 2.0 ** (np.floor(np.log2(np.abs(x))) - 2)
    return np.sign(x) * np.floor(np.abs(x) / unit + (bits & 0x1fffff) / 2**21) * unit


@kernel(lambda: (numbers(32, 128), integers(32, 128, low=0, high=2**32 - 1, dtype=np.uint32)), _rounded_to_eight_bits,
        out_shape=Spec((32, 128), F32))
def rounding_at_random_to_eight_bits(x_ref, bits_ref, o_ref):
    o_ref[...] = pltpu.stochastic_round(x_ref[...], bits_ref[...], target_dtype="float8_e5m2").astype(F32)


@kernel(lambda: (numbers(32, 128),), lambda x: np.concatenate([x[8:24], x[16:32]]), out_shape=Spec((32, 128), F32), grid=2,
        in_specs=[Block((pl.BoundedSlice(16), 128), lambda i: (pl.ds(8 + 8 * i, 16), 0))], out_specs=Block((16, 128), lambda i: (i, 0)))
def overlapping_slices(x_ref, o_ref):
    o_ref[...] = x_ref[...]


@kernel(lambda: (numbers(8, 128),), lambda x: 1 * x, 1e-3, out_shape=Spec((8, 128), F32))
def random_numbers(x_ref, o_ref):
    """The bits are zero where there is no generator: the smallest numbers."""
    pltpu.prng_seed(1)
    o_ref[...] = x_ref[...] + pltpu.stateful_normal((8, 128)) + pltpu.stateful_uniform((8, 128))
    o_ref[...] -= 1 - pltpu.stateful_bernoulli(0.5, (8, 128)).astype(F32)


@kernel(lambda: (numbers(8, 128), integers(8, 128, low=0, high=2)), lambda x, m: np.where(m, x, 5) + np.where(m, x, 0),
        out_shape=Spec((8, 128), F32))
def masks(x_ref, mask_ref, o_ref):
    mask = mask_ref[...] > 0
    o_ref[...] = xnp.zeros((8, 128), F32)
    pltpu.store(o_ref, x_ref[...], mask=mask)
    o_ref[...] += pl.triton.load(x_ref, mask=mask, other=5.0)


def _loops(n, x):
    for _ in range(n):
        x = 2 * x
    return 4 * x if n > 2 else x


@kernel(lambda: (np.array([3], np.int32), numbers(8, 128)), lambda n, x: _loops(n[0], x), out_shape=Spec((8, 128), F32),
        in_specs=[Block(memory_space=pltpu.SMEM), pl.no_block_spec])
def loops_and_branches(n_ref, x_ref, o_ref):
    _, y = lax.while_loop(lambda c: c[0] < n_ref[0], lambda c: (c[0] + 1, 2 * c[1]), (0, x_ref[...]))
    y = lax.cond(n_ref[0] > 2, lambda y: lax.fori_loop(0, 3, lambda i, c: c + y, y), lambda y: y, y)
    o_ref[...] = y


@kernel(lambda: (numbers(16, 128),), lambda x: 2 * x, aliases=((0, 0),), out_shape=Spec((16, 128), F32),
        input_output_aliases={0: 0}, grid=2, in_specs=[ROWS], out_specs=ROWS)
def aliases(x_ref, o_ref):
    o_ref[...] = o_ref[...] + x_ref[...]


@kernel(lambda: (numbers(2, 16, 128), numbers(2, 128, 128, seed=1)), lambda x, y: x @ y, 1e-4, out_shape=Spec((2, 16, 128), F32))
def batched_product(x_ref, y_ref, o_ref):
    o_ref[...] = lax.dot_general(x_ref[...], y_ref[...], (((2,), (1,)), ((0,), (0,))), precision="highest")


def _with(name, transformation, arguments, expected, tolerance):
    before = KERNELS[name]
    KERNELS[f"{transformation.__name__} of {name}"] = Kernel(lambda interpret: transformation(before.call(interpret)), arguments,
                                                             expected, tolerance)


def vmap(f):
    return xf.vmap(f)


def jvp(f):
    return lambda x, t: xf.jvp(f, (x,), (t,))


_with("matmul", vmap, lambda: (numbers(3, 256, 256, dtype=BF16), numbers(3, 256, 256, seed=1, dtype=BF16)),
      lambda x, y: x.astype(F32) @ y.astype(F32), 0.02)
_with("add", vmap, lambda: (numbers(2, 32, 256), numbers(2, 32, 256, seed=1)), lambda x, y: x + y, 1e-6)
_with("flash_attention", vmap, lambda: tuple([numbers(1, 2, 256, 128, seed=s) for s in range(3)]),
      lambda q, k, v: _attention(q[0], k[0], v[0])[None], 1e-4)
_with("softmax", jvp, lambda: (numbers(64, 256), numbers(64, 256, seed=1)),
      lambda x, t: (_softmax(x), _softmax(x) * (t - (_softmax(x) * t).sum(1, keepdims=True))), 1e-4)


def rows_by_grid_size(interpret):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + pl.num_programs(0).astype(F32)

    return lambda n, x: pl.pallas_call(body, out_shape=Spec((32, 128), F32), grid=(n,), in_specs=[ROWS], out_specs=ROWS,
                                       interpret=interpret)(x)


KERNELS["dynamic grid"] = Kernel(rows_by_grid_size, lambda: (np.int32(4), numbers(32, 128)), lambda n, x: x + n)


def pipelined_product(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = xnp.zeros(o_ref.shape, o_ref.dtype)

    o_ref[...] += x_ref[...] @ y_ref[...]


MAIN = Block(memory_space=pl.ANY)


@kernel(lambda: (numbers(16, 512), numbers(512, 384, seed=1)), lambda x, y: x @ y, 1e-3, out_shape=Spec((16, 384), F32),
        in_specs=[MAIN, MAIN], out_specs=MAIN)
def pipeline(x_ref, y_ref, o_ref):
    run = pltpu.emit_pipeline(pipelined_product, grid=(2, 3, 4), out_specs=[Block((8, 128), lambda i, j, k: (i, j))], in_specs=[
        Block((8, 128), lambda i, j, k: (i, k)), Block((128, 128), lambda i, j, k: (k, j))])
    run(x_ref, y_ref, o_ref)


@kernel(lambda: (np.array([3], np.int32), numbers(4, 8, 128)),
        lambda n, x: np.concatenate([x[:3] + np.arange(3, dtype=F32)[:, None, None], np.full((1, 8, 128), np.nan, F32)]),
        out_shape=Spec((4, 8, 128), F32), in_specs=[Block(memory_space=pltpu.SMEM), MAIN], out_specs=MAIN)
def pipeline_of_dynamic_size(n_ref, x_ref, o_ref):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + pl.program_id(0).astype(F32)

    rows = Block((None, 8, 128), lambda i: (i, 0, 0))
    pltpu.emit_pipeline(body, grid=(n_ref[0],), in_specs=[rows], out_specs=[rows])(x_ref, o_ref)


def pipelines_with_buffers(counts, **options):
    """A product whose arguments and result have these numbers of buffers."""
    def kernel(x_ref, y_ref, o_ref):
        x, y, o = map(pl.Buffered, counts)
        pltpu.emit_pipeline(
            pipelined_product, grid=(2, 3, 4), out_specs=[Block((8, 128), lambda i, j, k: (i, j), pipeline_mode=o)], in_specs=[
                Block((8, 128), lambda i, j, k: (i, k), pipeline_mode=x),
                Block((128, 128), lambda i, j, k: (k, j), pipeline_mode=y)], **options)(x_ref, y_ref, o_ref)

    def call(interpret):
        return pl.pallas_call(kernel, out_shape=Spec((16, 384), F32), in_specs=[MAIN, MAIN], out_specs=MAIN, interpret=interpret)

    return Kernel(call, lambda: (numbers(16, 512), numbers(512, 384, seed=1)), lambda x, y: x @ y, 1e-3)


@kernel(lambda: (numbers(40, 384),), lambda x: 2 * x + np.arange(40)[:, None] // 16, 1e-4, out_shape=Spec((40, 384), F32), in_specs=[MAIN],
        out_specs=MAIN)
def pipeline_of_blocks_beyond_the_edge(x_ref, o_ref):
    def body(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...] + pl.program_id(0).astype(F32)

    block = Block((16, 256), lambda i, j: (i, j))
    pltpu.emit_pipeline(body, grid=(3, 2), in_specs=[block], out_specs=[block])(x_ref, o_ref)


def _grouped(ends, x):
    """Groups of rows are multiplied with their number."""
    groups = np.searchsorted(ends, np.arange(len(x)), side="right")
    return x * (1 + groups)[:, None]


@kernel(lambda: (np.array([16, 24, 40, 64], np.int32), numbers(64, 128)), _grouped, out_shape=Spec((64, 128), F32),
        in_specs=[Block(memory_space=pltpu.SMEM), MAIN], out_specs=MAIN)
def pipeline_of_slices(ends_ref, x_ref, o_ref):
    """Groups of 16, 8, 16 and 24 rows, as slices of 24 at most, in a pipeline whose outputs have three buffers."""
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * (1 + pl.program_id(0)).astype(F32)

    def group(i):
        start = xnp.where(i == 0, 0, ends_ref[xnp.maximum(i - 1, 0)])
        return pl.ds(pl.multiple_of(start, 8), pl.multiple_of(ends_ref[i] - start, 8)), 0

    slices = Block((pl.BoundedSlice(24), 128), group)
    pltpu.emit_pipeline(body, grid=4, in_specs=[slices], out_specs=[slices.replace(pipeline_mode=pl.Buffered(3))])(x_ref, o_ref)


@kernel(lambda: (numbers(32, 128),), lambda x: x[:24] + x[8:], out_shape=Spec((24, 128), F32), in_specs=[MAIN], out_specs=MAIN)
def pipeline_of_overlapping_blocks(x_ref, o_ref):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[:8] + x_ref[8:]

    windows = Block((pl.Element(16), 128), lambda i: (pl.multiple_of(8 * i, 8), 0))
    pltpu.emit_pipeline(body, grid=3, in_specs=[windows], out_specs=[ROWS])(x_ref, o_ref)


@kernel(lambda: (numbers(32, 256),), lambda x: x[:, :128] + np.pad(x[8:, 128:], ((0, 8), (0, 0))), out_shape=Spec((32, 128), F32),
        in_specs=[MAIN], out_specs=MAIN)
def pipeline_of_overlapping_blocks_beyond_the_edge(x_ref, o_ref):
    def body(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[:8] + xnp.where(pl.program_id(0) < 3, y_ref[8:], 0)

    def windows(column):
        return Block((pl.Element(16, (8, 8)), pl.Element(128)), lambda i: (pl.multiple_of(8 * i, 8), column))

    pltpu.emit_pipeline(body, grid=4, in_specs=[windows(0), windows(128)], out_specs=[ROWS])(x_ref, x_ref, o_ref)


@kernel(lambda: (numbers(32, 256), numbers(4, 8, 128, seed=1)), lambda x, y: 2 * x[::-1, 128:].reshape(4, 8, 128)[:, ::-1] + y,
        out_shape=Spec((4, 8, 128), F32), in_specs=[MAIN, MAIN], out_specs=MAIN, scratch_shapes=[pltpu.VMEM((8, 128), F32)])
def pipeline_of_blocks_in_main_memory(x_ref, y_ref, o_ref, buffer_ref):
    """Blocks in HBM are parts of the arrays, which the body copies."""
    def body(x_ref, y_ref, o_ref):
        pltpu.sync_copy(x_ref, buffer_ref)
        buffer_ref[...] = 2 * buffer_ref[...] + y_ref[...]
        pltpu.sync_copy(buffer_ref, o_ref)

    pltpu.emit_pipeline(body, grid=4, in_specs=[
        Block((8, 128), lambda i: (3 - i, 1), memory_space=pltpu.HBM), Block((None, 8, 128), lambda i: (i, 0, 0))],
        out_specs=[Block((pl.Squeezed(), 8, 128), lambda i: (i, 0, 0), memory_space=pltpu.HBM)])(x_ref, y_ref, o_ref)


KERNELS["pipeline of 1, 3 and 2 buffers"] = pipelines_with_buffers((1, 3, 2))
KERNELS["pipeline of 4, 2 and 1 buffers"] = pipelines_with_buffers((4, 2, 1))
KERNELS["pipeline that is none"] = pipelines_with_buffers((2, 2, 2), no_pipelining=True)


@kernel(lambda: (numbers(32, 128), numbers(32, 128, seed=1)), lambda x, y: np.where(np.arange(32)[:, None] < 16, y + 3 * x, np.nan),
        out_shape=Spec((32, 128), F32), in_specs=[MAIN, MAIN], out_specs=MAIN, scratch_shapes=[pltpu.BufferedRef.input_output(
            ROWS, F32, 3)])
def pipelines_that_share_buffers(x_ref, y_ref, o_ref, out_buffers):
    """Two pipelines over the first rows, which copy blocks of the result in and out."""
    pltpu.sync_copy(y_ref.at[pl.ds(0, 16)], o_ref.at[pl.ds(0, 16)])

    def body(x_ref, o_ref, factor_ref):
        o_ref[...] += factor_ref[0] * x_ref[...]

    def run(x_buffers, factor_ref):
        pipeline = pltpu.emit_pipeline(body, grid=2, in_specs=[ROWS], out_specs=[ROWS])
        for factor in (1, 2):
            factor_ref[0] = xnp.float32(factor)
            pipeline(x_ref, o_ref, scratches=[factor_ref], allocations=(x_buffers, out_buffers))

    pl.run_scoped(run, pltpu.BufferedRef.input(ROWS, F32), pltpu.SMEM((1,), F32))


@kernel(lambda: (numbers(16, 256),), lambda x: np.pad(x[2:, :250], ((0, 4), (3, 0)), constant_values=7), out_shape=Spec((18, 253), F32))
def padded_and_cropped(x_ref, o_ref):
    o_ref[...] = lax.pad(x_ref[...], F32.type(7), ((-2, 4, 0), (3, -6, 0)))


@kernel(lambda: (numbers(8, 128),), lambda x: (x, np.int32([[3]])), out_shape=(Spec((8, 128), F32), Spec((1, 1), "int32")),
        out_specs=(Block((8, 128)), Block(memory_space=pltpu.SMEM)), scratch_shapes=[pltpu.SemaphoreType.REGULAR])
def waits_that_leave_the_count(x_ref, o_ref, count_ref, semaphore):
    pl.semaphore_signal(semaphore, 3)
    pl.semaphore_wait(semaphore, 2, decrement=False)
    count_ref[0, 0] = pl.semaphore_read(semaphore)
    pl.semaphore_wait(semaphore, 3)
    o_ref[...] = x_ref[...]


@kernel(lambda: (numbers(4, 8, 128),), lambda x: np.cumsum(x, 0)[::-1], out_shape=Spec((4, 8, 128), F32), grid=4,
        in_specs=[Block((None, 8, 128), lambda i: (i, 0, 0))], out_specs=Block((None, 8, 128), lambda i: (3 - i, 0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), F32), pltpu.HBM((4, 8, 128), F32)])
def scratch_in_main_memory(x_ref, o_ref, sum_ref, sums_ref):
    """Sums of the preceding steps. Each step reads that of the one before from main memory."""
    step = pl.program_id(0)
    sum_ref[...] = x_ref[...]

    @pl.when(step > 0)
    def _():
        pltpu.sync_copy(sums_ref.at[step - 1], o_ref)
        sum_ref[...] += o_ref[...]

    pltpu.sync_copy(sum_ref, sums_ref.at[step])
    o_ref[...] = sum_ref[...]


@kernel(lambda: (numbers(4, 16, 128),), lambda x: (16 * x, np.repeat(np.cumsum(x > 0, 1)[:, -1:] > 8, 8, 1)),
        out_shape=(Spec((4, 16, 128), F32), Spec((4, 8, 128), "bool")), grid=(2, 2),
        in_specs=[Block((None, 16, 128), lambda i, j: (2 * i + j, 0, 0))],
        out_specs=(Block((None, 16, 128), lambda i, j: (2 * i + j, 0, 0)), Block((None, 8, 128), lambda i, j: (2 * i + j, 0, 0))),
        scratch_shapes=[pl.ANY((8, 128), "bool"), pltpu.VMEM((8, 128), "bool")],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")))
def scratch_in_main_memory_by_parallel_steps(x_ref, o_ref, p_ref, flags_ref, buffer_ref):
    """Memory of a scope inside of a loop and a branch, and booleans."""
    count = xnp.sum((x_ref[...] > 0).astype(F32), axis=0, keepdims=True)
    buffer_ref[...] = xnp.broadcast_to(count, (8, 128)) > 8
    pltpu.sync_copy(buffer_ref, flags_ref)
    buffer_ref[...] = xnp.zeros((8, 128), "bool")
    pltpu.sync_copy(flags_ref, buffer_ref)
    p_ref[...] = buffer_ref[...]
    o_ref[...] = x_ref[...]

    @pl.loop(0, 4)
    def _(step):
        @pl.when(step >= 0)
        def _():
            def double(memory_ref):
                pltpu.sync_copy(o_ref, memory_ref)
                o_ref[...] = xnp.zeros((16, 128))
                pltpu.sync_copy(memory_ref, o_ref)
                o_ref[...] *= 2

            pl.run_scoped(double, pl.ANY((16, 128), F32))


def on_cores(cores, blocks, **options):
    """A kernel on cores that share the blocks of rows."""
    def kernel(x_ref, o_ref, core_ref):
        core_ref[0] = lax.axis_index("core").astype(F32)

        def body(x_ref, o_ref):
            o_ref[...] = x_ref[...] + 100 * core_ref[0] + pl.program_id(0).astype(F32)

        pltpu.emit_pipeline(body, grid=(blocks,), in_specs=[ROWS], out_specs=[ROWS], dimension_semantics=(pltpu.PARALLEL,),
                            **options)(x_ref, o_ref)

    def call(interpret):
        return pl.kernel(kernel, out_type=Spec((8 * blocks, 128), F32), mesh=pltpu.TensorCoreMesh(axis_name="core", num_cores=cores),
                         scratch_types=[pltpu.SMEM((1,), F32)], interpret=interpret)

    def expected(x):
        owners = np.concatenate([np.full(len(part), core) for core, part in enumerate(np.array_split(np.arange(blocks), cores))])
        return x + np.repeat(100 * owners + np.arange(blocks), 8)[:, None]

    return Kernel(call, lambda: (numbers(8 * blocks, 128),), expected, 1e-4)


KERNELS["one core"] = on_cores(1, 3, core_axis_name="core")
KERNELS["two cores"] = on_cores(2, 6, core_axis_name="core")
KERNELS["two cores and an odd number of blocks"] = on_cores(2, 5, core_axis_name="core")
KERNELS["cores as programs"] = on_cores(2, 4, core_axis=0)


# Kernels of several devices


class OnDevices(NamedTuple):
    """A kernel that runs on each device of a mesh: `call(interpret)` is the function of one device, with one block of rows of
    each argument. `expected` computes the rows of all devices with NumPy."""

    call: Callable
    mesh: dict  # sizes of the axes by name
    arguments: Callable
    expected: Callable
    tolerance: float = 1e-6

    def sharded(self, interpret, devices):
        """The function of the rows of all devices, and the sharding of arguments."""
        mesh = Mesh(np.array(devices).reshape(*self.mesh.values()), tuple(self.mesh))
        rows = P(tuple(self.mesh))
        return xf.shard_map(self.call(interpret), mesh=mesh, in_specs=rows, out_specs=rows), xf.NamedSharding(mesh, rows)


DEVICE_KERNELS: dict[str, OnDevices] = {}
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR


def device_kernel(mesh, arguments, expected, tolerance=1e-6, **options):
    """Decorator that adds a kernel of several devices with the options of `pallas_call`."""
    def add(body):
        def call(interpret):
            return pl.pallas_call(body, interpret=interpret, compiler_params=pltpu.CompilerParams(collective_id=1), **options)

        DEVICE_KERNELS[body.__name__] = OnDevices(call, mesh, arguments, expected, tolerance)
        return body

    return add


def neighbours(axis):
    """The index of the device, and those of its left and right neighbours."""
    me, count = lax.axis_index(axis), lax.axis_size(axis)
    return me, lax.rem(me + count - 1, count), lax.rem(me + 1, count)


def meet(*devices):
    """Wait until neighbours have started."""
    barrier = pltpu.get_barrier_semaphore()
    for device in devices:
        pl.semaphore_signal(barrier, device_id=device)
    pl.semaphore_wait(barrier, len(devices))


@device_kernel({"x": 4}, lambda: (numbers(32, 128),), lambda x: np.concatenate([x] * 4).reshape(16, 8, 128),
               out_shape=Spec((4, 8, 128), F32), in_specs=[MAIN], out_specs=MAIN, scratch_shapes=[DMA, DMA, DMA])
def ring_of_copies(x_ref, o_ref, send, receive, copied):
    """An all-gather: each device passes on what it has received last."""
    me, left, right = neighbours("x")
    meet({"x": left}, {"x": right})
    pltpu.async_copy(x_ref, o_ref.at[me], copied).wait()

    @pl.loop(0, lax.axis_size("x") - 1)
    def _(step):
        slot = o_ref.at[lax.rem(me - step + 4, 4)]
        copy = pltpu.make_async_remote_copy(slot, slot, send, receive, (right,))
        copy.start()
        copy.wait()


def _sum_of_rows(x):
    return x.reshape(4, 4, 8, 128).sum(0).reshape(32, 128)


@device_kernel({"x": 4}, lambda: (numbers(4 * 32, 128),), _sum_of_rows, 1e-4, out_shape=Spec((8, 128), F32), scratch_shapes=[
    pltpu.VMEM((2, 8, 128), F32), DMA, DMA((2,)), REGULAR])
def ring_of_sums(x_ref, o_ref, buffer_ref, send, receive, free):
    """A reduce-scatter: partial sums go around, into two buffers that the receiver signals to be free."""
    me, left, right = neighbours("x")
    meet(left, right)
    pl.semaphore_signal(free, 1, device_id={"x": left})  # (the second buffer of the first step)
    buffer_ref[0] = x_ref[pl.ds(pl.multiple_of(8 * lax.rem(me + 3, 4), 8), 8)]

    @pl.loop(0, 3)
    def _(step):
        here, there = lax.rem(step, 2), lax.rem(step + 1, 2)
        pl.semaphore_wait(free)
        copy = pltpu.async_remote_copy(buffer_ref.at[here], buffer_ref.at[there], send, receive.at[there], {"x": right})
        copy.wait()
        buffer_ref[there] += x_ref[pl.ds(pl.multiple_of(8 * lax.rem(me - step + 2 + 4, 4), 8), 8)]

        @pl.when(step < 2)
        def _():
            pl.semaphore_signal(free, 1, device_id={"x": left})

    o_ref[...] = buffer_ref[1]


def _exchanged(x):
    x = x.reshape(2, 2, 8, 128)
    return (x[::-1] + 10 * x[:, ::-1] + 100 * x[::-1, ::-1]).reshape(32, 128)


@device_kernel({"x": 2, "y": 2}, lambda: (numbers(32, 128),), _exchanged, 1e-4, out_shape=Spec((8, 128), F32))
def exchanges_along_both_axes(x_ref, o_ref):
    """Devices named by a dict, by coordinates, and by a logical id; scratch memory of a scope as the destination."""
    x, y = lax.axis_index("x"), lax.axis_index("y")
    others = {"x": 1 - x}, (x, 1 - y), 3 - (2 * x + y)
    meet(*others)

    @pl.with_scoped(pltpu.VMEM((3, 8, 128), F32), DMA((3,)), DMA((3,)))
    def exchange(buffer_ref, send, receive):
        meet(*others)  # the memory is there
        copies = [pltpu.async_remote_copy(x_ref, buffer_ref.at[i], send.at[i], receive.at[i], device)
                  for i, device in enumerate(others)]
        for copy in copies:
            copy.wait_send()
            copy.wait_recv()
        o_ref[...] = buffer_ref[0] + 10 * buffer_ref[1] + 100 * buffer_ref[2]

    exchange()
