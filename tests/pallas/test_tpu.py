"""The words of TPUs, in kernels that are interpreted."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu

interpreted = functools.partial(pl.pallas_call, interpret=True)
X, M = np.arange(8, dtype=np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)
LIKE = xf.ShapeDtypeStruct((8,), "float32")
ORDER = np.array([1, 0], np.int32)


def spec():
    return pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[pl.BlockSpec((4,), lambda i, order_ref: order_ref[i])],
        out_specs=pl.BlockSpec((4,), lambda i, order_ref: (i,)), scratch_shapes=[pltpu.VMEM((4,), "float32")])


def add_order(order_ref, x_ref, o_ref, scratch_ref):
    scratch_ref[...] = x_ref[...]
    o_ref[...] = scratch_ref[...] + order_ref[pl.program_id(0)]


add = interpreted(add_order, out_shape=LIKE, grid_spec=spec())


def test_index_maps_read_scalars():
    np.testing.assert_array_equal(add(ORDER, X), [5, 6, 7, 8, 0, 1, 2, 3])
    np.testing.assert_array_equal(xf.jit(add)(ORDER[::-1], X), [0, 1, 2, 3, 5, 6, 7, 8])
    text = str(xf.make_jaxpr(add)(ORDER, X))
    assert "Ref<smem>{i32[2]}" in text and "Ref<vmem>{f32[4]}" in text
    assert "num_scalar_prefetch=1" in repr(spec())


def test_batches_and_derivatives_with_scalars():
    both = np.stack([ORDER, ORDER[::-1]])
    expected = [[5, 6, 7, 8, 0, 1, 2, 3], [0, 1, 2, 3, 5, 6, 7, 8]]
    np.testing.assert_array_equal(xf.vmap(add, (0, None))(both, X), expected)
    np.testing.assert_array_equal(xf.vmap(add, (None, 0))(ORDER, np.stack([X, X + 1])), [expected[0], np.add(expected[0], 1)])
    value, tangent = xf.jvp(lambda x: add(ORDER, x), (X,), (X,))
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(tangent, [*X[4:], *X[:4]])
    np.testing.assert_array_equal(xf.grad(lambda x: (add(ORDER, x) * X).sum())(X), [*X[4:], *X[:4]])


def test_memories_and_options():
    assert repr(pltpu.VMEM((8, 128), "float32")) == "MemoryRef(inner_aval=ShapedArray(float32[8,128]), memory_space=VMEM)"
    params = pltpu.CompilerParams(dimension_semantics=["parallel", pltpu.ARBITRARY], flags={"a": 1})
    assert params.dimension_semantics == ("parallel", pltpu.ARBITRARY) and hash(params) is not None

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec(memory_space=pltpu.HBM)
    found = interpreted(kernel, out_shape=LIKE, in_specs=[block], out_specs=block, compiler_params=params)(X)
    np.testing.assert_array_equal(found, X)


def test_rolled_vectors():
    np.testing.assert_array_equal(pltpu.roll(M, 2, 1), np.roll(M, 2, 1))
    np.testing.assert_array_equal(xf.jit(lambda x, s: pltpu.roll(x, s, 0))(M, 3), np.roll(M, 3, 0))
    rows = [np.roll(row, 1 + 2 * i) for i, row in enumerate(M)]
    np.testing.assert_array_equal(pltpu.roll(M, 1, 1, stride=2, stride_axis=0), rows)
    with pytest.raises(ValueError, match="not negative"):
        pltpu.roll(M, -1, 0)


def test_masked_reads_and_writes():
    def kernel(x_ref, o_ref):
        o_ref[...] = xnp.zeros(8)
        pltpu.store(o_ref, pltpu.load(x_ref) + 1, mask=x_ref[...] > 4)
        pltpu.trace_value("first", x_ref[0])

    np.testing.assert_array_equal(interpreted(kernel, out_shape=LIKE)(X), [0, 0, 0, 0, 0, 6, 7, 8])
