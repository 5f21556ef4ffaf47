"""Functions for GPU kernels, in interpreted kernels."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import triton

interpreted = functools.partial(pl.pallas_call, interpret=True)
X, M = np.arange(8, dtype=np.float32), np.arange(24, dtype=np.float32).reshape(4, 6)
LIKE = xf.ShapeDtypeStruct((8,), "float32")


def run(kernel, *args, **options):
    return interpreted(kernel, out_shape=LIKE, **options)(*args)


def test_masked_reads():
    def kernel(x_ref, o_ref):
        triton.store(o_ref, triton.load(x_ref, mask=xnp.arange(8) < 5, other=-1.0))

    np.testing.assert_array_equal(run(kernel, X), [*X[:5], -1, -1, -1])
    np.testing.assert_array_equal(run(lambda x, o: triton.store(o, triton.load(x)), X), X)


def test_masked_slices_beyond_the_end():
    def read(x_ref, o_ref):
        i = pl.program_id(0) + 4
        o_ref[...] = triton.load(x_ref.at[pl.ds(i, 8)], mask=xnp.arange(8) < 4, other=9.0)

    np.testing.assert_array_equal(run(read, X, grid=1), [*X[4:], 9, 9, 9, 9])

    def write(x_ref, o_ref):
        o_ref[...] = xnp.zeros(8)
        triton.store(o_ref.at[pl.ds(pl.program_id(0) + 4, 8)], x_ref[...] + 1, mask=xnp.arange(8) < 4)

    np.testing.assert_array_equal(run(write, X, grid=1), [0, 0, 0, 0, 1, 2, 3, 4])

    def corner(x_ref, o_ref):
        i = pl.program_id(0) + 2
        o_ref[...] = triton.load(x_ref.at[pl.ds(i, 4), pl.ds(i, 2)], mask=(xnp.arange(4) < 2)[:, None], other=0.0).reshape(8)

    np.testing.assert_array_equal(run(corner, M, grid=1), [*M[2:, 2:4].ravel(), 0, 0, 0, 0])


def test_masked_writes():
    def kernel(x_ref, o_ref):
        o_ref[...] = xnp.zeros(8)
        triton.store(o_ref, x_ref[...], mask=xnp.arange(8) > 3)

    np.testing.assert_array_equal(run(kernel, X), [0, 0, 0, 0, 4, 5, 6, 7])
    with pytest.raises(ValueError, match="only with a mask"):
        run(lambda x, o: triton.store(o, triton.load(x, other=1.0)), X)


@pytest.mark.parametrize(("name", "function"), [
    ("add", np.add), ("max", np.maximum), ("min", np.minimum), ("and", np.bitwise_and), ("or", np.bitwise_or),
    ("xor", np.bitwise_xor), ("xchg", lambda x, y: y)])
@pytest.mark.parametrize("masked", [False, True])
def test_atomics_return_old_values(name, function, masked):
    x, mask = np.arange(8, dtype=np.int32), np.array([True, False, True, False])

    def kernel(x_ref, m_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...]
        p_ref[...] = getattr(triton, f"atomic_{name}")(o_ref, (pl.ds(2, 4),), 3, mask=m_ref[...] if masked else None)

    changed, before = interpreted(kernel, out_shape=(xf.ShapeDtypeStruct((8,), "int32"), xf.ShapeDtypeStruct((4,), "int32")))(
        x, mask)
    np.testing.assert_array_equal(before, x[2:6])
    expected = x.copy()
    expected[2:6] = np.where(mask | (not masked), function(x[2:6], 3), x[2:6])
    np.testing.assert_array_equal(changed, expected)


@pytest.mark.parametrize("name", ["and", "or", "xor"])
@pytest.mark.parametrize("masked", [False, True])
def test_bitwise_atomics_of_floats_update_their_bits(name, masked):
    mask = np.array([True, False, True, False])
    y = np.float32([-1, 2, 0.3, -8])

    def kernel(x_ref, y_ref, m_ref, o_ref):
        o_ref[...] = x_ref[...]
        getattr(triton, f"atomic_{name}")(o_ref, (pl.ds(2, 4),), y_ref[...], mask=m_ref[...] if masked else None)

    expected = X.copy().view(np.int32)
    combined = getattr(np, f"bitwise_{name}")(expected[2:6], y.view(np.int32))
    expected[2:6] = np.where(mask | (not masked), combined, expected[2:6])
    np.testing.assert_array_equal(run(kernel, X, y, mask), expected.view(np.float32))


@pytest.mark.parametrize("name", ["add", "max"])
def test_atomics_update_duplicate_positions_twice(name):
    def kernel(x_ref, i_ref, o_ref):
        o_ref[...] = x_ref[...]
        getattr(triton, f"atomic_{name}")(o_ref, i_ref[...], 2.5 + i_ref[...])

    expected, i = X.copy(), np.array([1, 1, 7, 1])
    getattr(np, {"add": "add", "max": "maximum"}[name]).at(expected, i, 2.5 + i)
    np.testing.assert_array_equal(run(kernel, X, i), expected)


def test_atomic_cas():
    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...]
        p_ref[0] = triton.atomic_cas(o_ref, 0, 5)
        p_ref[1] = triton.atomic_cas(o_ref, 0, 6)

    scalar = xf.ShapeDtypeStruct((), "int32")
    found, before = interpreted(kernel, out_shape=(scalar, xf.ShapeDtypeStruct((2,), "int32")))(0)
    assert found == 5
    np.testing.assert_array_equal(before, [0, 5])


def test_dot_accumulates_in_32_bits():
    np.testing.assert_array_equal(triton.dot(xnp.asarray(M), xnp.asarray(M), trans_b=True), M @ M.T)
    half = triton.dot(xnp.asarray(M, "float16"), xnp.asarray(M, "float16"), trans_a=True, allow_tf32=False)
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, M.T @ M)
    assert triton.dot(xnp.ones((2, 3), "int8"), xnp.ones((3, 2), "int8")).dtype == np.int32


def test_hints_without_effect():
    def kernel(x_ref, o_ref):
        triton.debug_barrier()
        o_ref[...] = triton.approx_tanh(triton.max_contiguous(x_ref[...], 8))

    options = triton.CompilerParams(num_warps=4, num_stages=2)
    np.testing.assert_allclose(run(kernel, X, compiler_params=options), np.tanh(X), rtol=1e-6)
    np.testing.assert_allclose(run(kernel, X, compiler_params={"triton": {"num_warps": 4}}), np.tanh(X), rtol=1e-6)


def test_descriptions_of_gpus():
    info = triton.GpuInfo(gpu_version=triton.GpuVersion("NVIDIA H100"), arch_name="sm_90", compute_capability=90)
    assert info.gpu_version is triton.GpuVersion.H100 and len(triton.GpuVersion) == 20
    assert triton.is_gpu_device() == (xf.default_backend() == "gpu")
