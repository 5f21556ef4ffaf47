"""Masked reads and writes, atomic updates and hints as equations of kernels: their texts, derivatives and batches."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import pallas as pl
from xlafront.experimental.pallas import triton

X = np.arange(1.0, 9.0, dtype=np.float32)
MASK = np.arange(8) % 3 > 0


def kernel_jaxpr(kernel, *args, **options):
    function = pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8,), "float32"), interpret=True, **options)
    return xf.make_jaxpr(function)(*args).eqns[0].params["jaxpr"]


def test_texts_of_equations():
    def kernel(x_ref, i_ref, o_ref):
        mask = i_ref[...] < 5
        x = triton.load(x_ref.at[pl.ds(0, 8)], mask=mask, other=0.0, eviction_policy="evict_last")
        triton.store(o_ref.at[pl.ds(0, 8)], x, mask=mask)
        triton.atomic_xchg(o_ref, 0, triton.load(x_ref.at[1], cache_modifier=".cg"))
        triton.debug_barrier()
        o_ref[...] = triton.approx_tanh(x) + triton.max_contiguous(i_ref[...], 8)

    text = str(kernel_jaxpr(kernel, X, np.arange(8)))
    for part in ("<- a[:] mask=", "other=", "c[:] <- ", "atomic_rmw[", "atomic_type=atomic_xchg", "debug_barrier", "approx_tanh",
                 "max_contiguous[values=(8,)]"):
        assert part in text, part


def masked_square(x_ref, m_ref, o_ref):
    x = triton.load(x_ref, mask=m_ref[...], other=2.0)
    o_ref[...] = xnp.zeros(8)
    triton.store(o_ref, x * x, mask=m_ref[...])


def call(kernel, *args):
    return pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((8,), "float32"), interpret=True)(*args)


def test_derivatives_of_masked_operations():
    def function(x):
        return call(masked_square, x, MASK)

    value, tangent = xf.jvp(function, (X,), (xnp.ones(8),))
    np.testing.assert_array_equal(value, np.where(MASK, X * X, 0))
    np.testing.assert_array_equal(tangent, np.where(MASK, 2 * X, 0))
    np.testing.assert_array_equal(xf.grad(lambda x: function(x).sum())(X), np.where(MASK, 2 * X, 0))
    batch = xnp.stack([xnp.asarray(X), 2 * xnp.asarray(X)])
    np.testing.assert_array_equal(xf.vmap(function)(batch)[1], np.where(MASK, 4 * X * X, 0))


@pytest.mark.parametrize(("name", "tangent"), [("add", 4.0), ("max", 3.0), ("min", 1.0), ("xchg", 3.0)])
def test_derivatives_of_atomic_updates(name, tangent):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        triton.atomic_add(o_ref, pl.ds(0, 8), 0.0)
        getattr(triton, f"atomic_{name}")(o_ref, pl.ds(0, 4), 3 * x_ref[:4], mask=xnp.arange(4) < 2)
        triton.debug_barrier()

    expected = np.array([tangent, tangent, *[1] * 6])
    np.testing.assert_array_equal(xf.jvp(lambda x: call(kernel, x), (X,), (xnp.ones(8),))[1], expected)
    np.testing.assert_array_equal(xf.grad(lambda x: call(kernel, x).sum())(X), expected)


def test_batches_of_references():
    def add(ref, x, i, mask):
        old = triton.atomic_add(ref, i, x)
        triton.store(ref.at[pl.ds(i, 2)], xnp.full(2, 7.0), mask=mask)
        return old + triton.load(ref.at[i])

    def function(values, x, i):
        refs = xf.new_ref(values)
        result = xf.vmap(add, in_axes=(0, 0, 0, None))(refs, x, i, np.array([True, False]))
        return result, refs[...]

    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    result, updated = xf.jit(function)(values, np.float32([1, 2, 3]), np.array([0, 2, 1]))
    expected = values.copy()
    expected[[0, 1, 2], [0, 2, 1]] = 7
    np.testing.assert_array_equal(updated, expected)
    np.testing.assert_array_equal(result, values[[0, 1, 2], [0, 2, 1]] + 7)
    with pytest.raises(ValueError, match="not batched"):
        xf.jit(lambda v: xf.vmap(lambda r, x: triton.atomic_add(r, 0, x), in_axes=(None, 0))(xf.new_ref(v), v))(X)


def test_eager_use():
    ref = xf.new_ref(xnp.asarray(X))
    assert float(triton.atomic_max(ref, 2, 100.0)) == 3 and float(triton.load(ref.at[2])) == 100
    triton.store(ref, xnp.zeros(8), mask=MASK)
    np.testing.assert_array_equal(ref[...], np.where(MASK, 0, X))
    np.testing.assert_allclose(xf.grad(triton.approx_tanh)(0.5), 1 - np.tanh(0.5) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(xf.vmap(lambda x: triton.max_contiguous(x, (4, 1)))(xnp.ones((2, 3, 4))), np.ones((2, 3, 4)))


def test_bad_input():
    def assembly(x_ref, o_ref):
        [o_ref[...]] = triton.elementwise_inline_asm("ex2.approx.f32 $0, $1;", args=[x_ref[...]], constraints="=f,f", pack=1,
                                                     result_shape_dtypes=[x_ref])

    assert "ex2.approx" in str(kernel_jaxpr(assembly, X))
    with pytest.raises(NotImplementedError, match="compiled for GPUs"):
        call(assembly, X)
    with pytest.raises(TypeError, match=r"mask of dtype bool, got int32"):
        kernel_jaxpr(lambda x, o: triton.store(o, x[...], mask=xnp.arange(8)), X)
    with pytest.raises(TypeError, match=r"atomic_or takes a reference to integers"):
        kernel_jaxpr(lambda x, o: triton.atomic_or(x, 0, 1.0), X.astype(np.float16))
    with pytest.raises(ValueError, match="reference to a scalar"):
        kernel_jaxpr(lambda x, o: triton.atomic_cas(o, 0, 1.0), X)
    with pytest.raises(TypeError, match="load takes a reference"):
        triton.load(xnp.ones(3))
