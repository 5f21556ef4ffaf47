"""Random kernels: shapes, dtypes, index maps and operations, run from their modules by both evaluators, interpreted, and by NumPy."""

import numpy as np
import pytest
import triton_evaluator
from test_mosaic import evaluated

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl

pytestmark = pytest.mark.cpu_only

# Functions of two blocks, written for NumPy's functions and ours. Those of floats are continuous.
FLOATS = [
    lambda n, a, b: n.tanh(a) * b, lambda n, a, b: a + b.sum(-1, keepdims=True) / 128, lambda n, a, b: n.cumsum(a, 0) / 8 - b,
    lambda n, a, b: a * 0.5 + b.max(0)[None], lambda n, a, b: n.roll(a, 3, 1) - b, lambda n, a, b: n.roll(a, -1, 0) + b,
    lambda n, a, b: n.where(a > b, a, b), lambda n, a, b: n.sort(a, 1) + b, lambda n, a, b: a[::-1] - b[:, ::-1],
    lambda n, a, b: n.exp(-abs(a)) + n.log1p(abs(b)), lambda n, a, b: n.arcsinh(a) - n.arctan(b), lambda n, a, b: n.expm1(-abs(a)) + b,
    lambda n, a, b: n.minimum(a, b) / (1 + abs(b)), lambda n, a, b: n.where((a > 0) != (b > 0), 0, n.minimum(abs(a), abs(b))), lambda n, a, b: n.clip(a, -1, 0.5) * b,
    lambda n, a, b: (a @ b.T if n is np else lax.dot(a, b.T, precision="highest")).sum(1)[:, None] / 128 + b,
    lambda n, a, b: n.take_along_axis(a, rows(n, a), 0) - b, lambda n, a, b: n.take_along_axis(b, columns(n, b), 1) + a,
    lambda n, a, b: n.concatenate([a[::2], b[1::2]]), lambda n, a, b: n.repeat(a[:, ::2], 2, 1) * 0.5 + b, lambda n, a, b: a[n.arange(len(a)) // 2] + b,
    lambda n, a, b: sums_of_four(n, a) / 4 - b, lambda n, a, b: n.concatenate([a[:2], b[:2], a[4:]]) if len(a) == 8 else a + b]
INTEGERS = [
    lambda n, a, b: a + 3 * b, lambda n, a, b: n.maximum(a, b) - (a > 4), lambda n, a, b: a // (1 + abs(b)) + b, lambda n, a, b: a ^ b,
    lambda n, a, b: (a << 2) >> 1, lambda n, a, b: n.where(a % 3 == 1, a, b), lambda n, a, b: n.sort(a, 0) & 255, lambda n, a, b: n.cumsum(a, 1) & b,
    lambda n, a, b: a.max(1, keepdims=True) + b, lambda n, a, b: b - a.min(0), lambda n, a, b: n.roll(a, 1, 0) | b, lambda n, a, b: a[:, ::-1] & b,
    lambda n, a, b: n.take_along_axis(a, b & (len(a) - 1), 0) + b, lambda n, a, b: n.take_along_axis(b, a & 127, 1) ^ a,
    lambda n, a, b: a + n.argmax(b, 1).astype(np.int32)[:, None], lambda n, a, b: b + n.argmin(a, 0).astype(np.int32), lambda n, a, b: a + (a @ b.T)[:, :1],
    lambda n, a, b: n.concatenate([a[::2], b[::2]]), lambda n, a, b: n.maximum(n.repeat(a[:, 1::2], 2, 1), b)]


def rows(n, a):
    return (7 * n.arange(a.size, dtype=np.int32).reshape(a.shape)) % len(a)


def columns(n, a):
    return (n.arange(a.size, dtype=np.int32).reshape(a.shape) // 3) % 128


def sums_of_four(n, a):
    if n is np:
        padded = np.pad(a, ((0, 0), (3, 0)))
        return sum([padded[:, k:k + 128] for k in range(4)])
    return lax.reduce_window(a, np.float32(0), lax.add, (1, 4), (1, 1), [(0, 0), (3, 0)])


def index_maps(rng, blocks):
    """Return the grid, and an index map for each input and the output: the grid's axes in any order, or a fixed row or column."""
    order = [0, 1] if rng.integers(2) else [1, 0]
    grid = tuple([blocks[d] for d in order])
    row, column = (int(rng.integers(n)) for n in blocks)

    def place(*g):
        return g[order.index(0)], g[order.index(1)]

    choices = [place, lambda *g: (row, place(*g)[1]), lambda *g: (place(*g)[0], column), lambda *g: (blocks[0] - 1 - place(*g)[0], place(*g)[1])]
    return grid, [choices[rng.integers(len(choices))] for _ in range(2)], place


def compare(seed):
    rng = np.random.default_rng(seed)
    block = (8 * 2 ** int(rng.integers(2)), 128)
    blocks = tuple(rng.integers(1, 4, 2).tolist())
    shape = tuple([b * n for b, n in zip(block, blocks)])
    dtype = [np.dtype(np.float32), xnp.dtype("bfloat16"), np.dtype(np.int32)][seed % 3]
    operations = [(INTEGERS if dtype == np.int32 else FLOATS)[i] for i in rng.integers(0, len(INTEGERS if dtype == np.int32 else FLOATS), 4)]
    arrays = [(rng.integers(-99, 99, shape) if dtype == np.int32 else rng.normal(size=shape)).astype(dtype) for _ in range(2)]
    grid, maps, place = index_maps(rng, blocks)

    def compute(n, a, b):
        for f in operations:
            a, b = f(n, a, b), a
        return a

    def kernel(x_ref, y_ref, o_ref):
        x, y = (r[...] if dtype == np.int32 else r[...].astype(np.float32) for r in (x_ref, y_ref))
        o_ref[...] = compute(xnp, x, y).astype(dtype)

    expected = np.zeros(shape, np.int32 if dtype == np.int32 else np.float64)
    with np.errstate(all="ignore"):
        for g in np.ndindex(*grid):
            x, y = (a[tuple([slice(i * m, (i + 1) * m) for i, m in zip(f(*g), block)])] for a, f in zip(arrays, maps))
            x, y = (v if dtype == np.int32 else v.astype(np.float64) for v in (x, y))
            expected[tuple([slice(i * m, (i + 1) * m) for i, m in zip(place(*g), block)])] = compute(np, x, y)

    def call(interpret):
        specs = [pl.BlockSpec(block, f) for f in (*maps, place)]
        return pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct(shape, dtype), grid=grid, in_specs=specs[:2], out_specs=specs[2],
                              interpret=interpret)

    # (not optimized: two thirds of the time are XLA's)
    interpreted = xf.jit(call(True)).lower(*arrays).compile(compiler_options={"xla_backend_optimization_level": 0})
    results = {"interpreted": interpreted(*arrays), "Mosaic": evaluated(call(False), *arrays)[0][0],
               "Triton": triton_evaluator.evaluate(call(False), *arrays)[0]}
    tolerance = {"float32": 2e-3, "bfloat16": 3e-2, "int32": 0}[dtype.name]
    scale = 1 if dtype == np.int32 else max(1, np.abs(expected).max())
    for name, found in results.items():
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance * scale, err_msg=f"{name}, seed {seed}")


@pytest.mark.parametrize("seed", range(20))
def test_random_kernels(seed):
    compare(seed)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(100, 300, 20))
def test_many_random_kernels(start):
    for seed in range(start, start + 20):
        compare(seed)
