"""Operations of single matrix units: interpreted, simulated, and run from the emitted module by the evaluator, against NumPy."""

import mosaic_evaluator
import numpy as np
import pytest
from matrix_unit_kernels import KERNELS, OUT, X, Y, has_queues, queued
from test_mosaic import evaluated, module_text

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import tpu as pltpu

pytestmark = pytest.mark.cpu_only

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("interpret", [True, pltpu.InterpretParams()])
@pytest.mark.parametrize("kernel", KERNELS)
def test_values(kernel, interpret):
    found = xf.jit(pl.pallas_call(kernel, OUT, interpret=interpret))(X, Y)
    np.testing.assert_allclose(found, KERNELS[kernel], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_values_of_the_module(kernel):
    call = pl.pallas_call(kernel, OUT)
    if kernel is queued and not has_queues():
        with pytest.raises(NotImplementedError, match=r"pltpu.matmul_lhs_fifo with this version of jaxlib .* newer jaxlib"):
            evaluated(call, X, Y)
        return
    [found], _ = evaluated(call, X, Y)
    np.testing.assert_allclose(found, KERNELS[kernel], rtol=1e-4, atol=1e-4)


def test_integers_are_summed_exactly():
    x, y = (RNG.integers(-100, 100, shape).astype(np.int8) for shape in ((32, 256), (256, 256)))

    def kernel(x_ref, y_ref, o_ref):
        pltpu.matmul_push_rhs(y_ref[...], 0, 0)
        pltpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=0)
        o_ref[...] = pltpu.matmul_pop_fifo((32, 256), np.int32, 0)

    found = pl.pallas_call(kernel, xf.ShapeDtypeStruct((32, 256), np.int32), interpret=True)(x, y)
    np.testing.assert_array_equal(found, x.astype(np.int64) @ y.astype(np.int64))


def test_the_queue_is_a_ring():
    def kernel(x_ref, y_ref, o_ref):
        pltpu.matmul_push_rhs(y_ref[...], 0, 0)
        pltpu.matmul_lhs_fifo(x_ref[...], 0, load_staged_rhs=0)

        def body(i, _):
            pltpu.matmul_lhs_fifo(x_ref[...] * i.astype(xnp.bfloat16), 0)
            o_ref[...] = pltpu.matmul_pop_fifo((16, 256), np.float32, 0)

        lax.fori_loop(0, 100, body, None)
        o_ref[...] += pltpu.matmul_pop_fifo((16, 256), np.float32, 0)

    found = pl.pallas_call(kernel, OUT, interpret=True)(np.ones_like(X), Y)
    np.testing.assert_allclose(found, np.tile((98 + 99) * np.float64(Y).sum(0), (16, 1)), rtol=1e-3, atol=1e-2)


def refused(body, error, match, **options):
    with pytest.raises(error, match=match):
        xf.make_jaxpr(pl.pallas_call(body, OUT, **options))(X, Y)


def test_bad_calls():
    acc = pltpu.ACC(0)
    refused(lambda x, y, o: pltpu.matmul_lhs_fifo(x[...], 0, load_staged_rhs=1), ValueError, "no right operand .* register 1")
    refused(lambda x, y, o: pltpu.matmul_lhs_fifo(x[...], 0), ValueError, "no right operand was pushed to unit 0 loaded")
    refused(lambda x, y, o: pltpu.matmul_push_rhs(y[0], 0, 0), ValueError, r"a matrix as rhs, got the shape \(256,\)")
    refused(lambda x, y, o: pltpu.matmul_push_rhs(y[...], -1, 0), TypeError, "staging_register, got -1")
    refused(lambda x, y, o: pltpu.matmul_pop(o), TypeError, "a reference to accumulators")

    def mismatch(x_ref, y_ref, o_ref, shape=(16, 256)):
        pltpu.matmul_push_rhs(y_ref[...], 0, 0)
        pl.run_scoped(lambda a: pltpu.matmul_acc_lhs(a, x_ref[:, :128] if shape == (16, 256) else x_ref[...], 0), acc(shape, "f4"))

    refused(mismatch, ValueError, r"left operand bfloat16\[16,128\] and the right one, of shape \(256, 256\)")
    refused(lambda *refs: mismatch(*refs, shape=(8, 256)), ValueError, r"float32\[16, 256\], the accumulators float32\[8, 256\]")
    with pytest.raises(ValueError, match="only for kernels"):
        pltpu.matmul_push_rhs(Y, 0, 0)
    with pytest.raises(ValueError, match="a matrix of float32 or int32, got bfloat16"):
        acc((8, 128), "bfloat16")
    with pytest.raises(ValueError, match="is in matrix_unit.*pl.run_scoped for pltpu.ACC"):
        module_text(pl.pallas_call(lambda x, y, o, a: None, OUT, scratch_shapes=[acc((8, 128), "f4")]), X, Y)


def test_accumulators_are_of_one_chip(monkeypatch):
    assert pltpu.get_tpu_info("tpu7x").num_accumulators == 128 and not pltpu.get_tpu_info("v6e").num_accumulators
    monkeypatch.setattr("xlafront.pallas.matrix_units.active_chip", lambda: "v6e")
    with pytest.raises(ValueError, match="TPU v6e has no accumulators .*matmul_lhs_fifo"):
        pltpu.ACC(0)((8, 128), np.float32)
    monkeypatch.setattr("xlafront.pallas.matrix_units.active_chip", lambda: "tpu7x")
    assert pltpu.ACC(0)((8, 128), np.float32).memory_space == pltpu.ACC(0)


# Keys of TPU kernels


def sample(key_ref, o_ref):
    o_ref[...] = xf.random.uniform(key_ref[...], (8, 128))


def sampled(**options):
    return pl.pallas_call(sample, xf.ShapeDtypeStruct((8, 128), np.float32), **options)


IN_SMEM = {"in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)]}


def test_keys():
    key = pltpu.to_pallas_key(xf.random.key(5))
    assert str(key.dtype) == "key<pl>" and xf.random.key_impl(key) == "pallas_tpu"
    np.testing.assert_array_equal(xf.random.key_data(key), [[2003086470, 3955154020]])  # as in JAX
    np.testing.assert_array_equal(xf.random.key_data(key), xf.random.bits(xf.random.key(5), (1, 2), np.uint32))
    values = sampled(interpret=True, **IN_SMEM)(key)
    others = sampled(interpret=True, **IN_SMEM)(xf.random.fold_in(key, 1))
    assert abs(values.mean() - 0.5) < 0.05 and 0 <= values.min() and values.max() < 1 and (values != others).mean() > 0.9
    with pytest.raises(NotImplementedError, match="split keys before pltpu.to_pallas_key"):
        xf.random.split(key)


def test_keys_in_modules():
    f = lambda seed: sampled(**IN_SMEM)(pltpu.to_pallas_key(xf.random.key(seed)))
    [(module, _)] = mosaic_evaluator.modules(module_text(f, np.int32(0)))
    text = str(module)
    assert "memref<1x2xi32, #tpu.memory_space<smem>>" in text and "prng_set_seed_32" in text and text.count("memref.load") == 2
    with pytest.raises(ValueError, match=r"args\[0\], of type key<pl>.*, is a random key in vmem.*SMEM"):
        module_text(lambda seed: sampled()(pltpu.to_pallas_key(xf.random.key(seed))), np.int32(0))
    with pytest.raises(NotImplementedError, match=r"random numbers of a key of type key<rbg>\[\].*to_pallas_key"):
        module_text(lambda seed: sampled(**IN_SMEM)(xf.random.key(seed, impl="rbg")), np.int32(0))


# Pipelines whose first blocks are copied ahead


ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
A, B = RNG.normal(size=(24, 128)).astype(np.float32), RNG.normal(size=(48, 128)).astype(np.float32)


def prefetched(count, interpret, cores=1):
    twice = pl.BlockSpec((8, 128), lambda i: (i // 2, 0), pipeline_mode=pl.Buffered(3, prefetched_count=count))

    def kernel(a_ref, b_ref, o_ref):
        run, prefetch = pltpu.emit_pipeline_with_async_prefetch(
            lambda a, b, o: o.__setitem__(..., 2 * a[...] + b[...]), grid=(6,), in_specs=[twice, ROWS], out_specs=[ROWS], mesh=None)
        run(a_ref, b_ref, o_ref, allocations=prefetch(a_ref, b_ref))

    main = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel, xf.ShapeDtypeStruct(B.shape, B.dtype), in_specs=[main] * 2, out_specs=main, interpret=interpret)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_prefetch(count):
    expected = 2 * np.repeat(A.reshape(3, 8, 128), 2, 0).reshape(48, 128) + B
    np.testing.assert_allclose(prefetched(count, True)(A, B), expected, rtol=1e-6)
    np.testing.assert_allclose(prefetched(count, pltpu.InterpretParams(detect_races=True))(A, B), expected, rtol=1e-6)
    [found], _ = evaluated(prefetched(count, False), A, B)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_prefetch_refused():
    with pytest.raises(ValueError, match=r"input 0 has 3 prefetched blocks.*pl.Buffered\(4, prefetched_count=3\)"):
        prefetched(3, True)(A, B)
    _, prefetch = pltpu.emit_pipeline_with_async_prefetch(lambda a, o: None, grid=(6,), in_specs=[ROWS], out_specs=[ROWS], mesh=None)
    with pytest.raises(TypeError, match="references of 1 inputs within a kernel, got (?s:.*)does not persist"):
        prefetch(A)
