"""Dtypes that are stored in one dtype and have derivatives in another."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import dtypes, lax
from xlafront.experimental import EArray, primal_tangent_dtype

BYTES = primal_tangent_dtype("int8", "float32")
HALF = primal_tangent_dtype("float32", "bfloat16", "half")
X = np.arange(3, dtype=np.float32)


def test_dtype_properties():
    assert repr(BYTES) == "PrimalTangentDType{i8/f32}" and str(HALF) == "half"
    assert primal_tangent_dtype("int8", "float32") == BYTES and hash(primal_tangent_dtype("int8", "float32")) == hash(BYTES)
    assert primal_tangent_dtype("int8", "float32", "other") != BYTES
    assert (BYTES.primal_dtype, BYTES.tangent_dtype) == ("int8", "float32")
    assert xnp.issubdtype(HALF, dtypes.extended) and not xnp.issubdtype(HALF, dtypes.prng_key)
    with pytest.raises(TypeError):
        primal_tangent_dtype("nonsense", "float32")


def test_conversions():
    there = lax.convert_element_type(np.int8([1, 2]), BYTES)
    assert there.dtype == BYTES and there.shape == (2,)
    assert np.array_equal(lax.convert_element_type(there, "int8"), [1, 2])
    assert np.array_equal(xf.jit(lambda x: lax.convert_element_type(x, "int8") + 1)(there), [2, 3])
    for wrong in (lambda: lax.convert_element_type(there, "float32"), lambda: lax.convert_element_type(X, BYTES)):
        with pytest.raises(ValueError, match="do not allow"):
            wrong()


def test_derivatives_have_tangent_dtype():
    _, moved = xf.jvp(lambda x: lax.convert_element_type(x, HALF), (X,), (X,))
    assert moved.dtype == "bfloat16" and np.array_equal(moved.astype("float32"), X)

    def f(x):
        return (lax.convert_element_type(lax.convert_element_type(x, HALF), "float32") * np.float32(1.001)).sum()

    for grad in (xf.grad(f), xf.jit(xf.grad(f))):
        assert np.array_equal(grad(X), np.ones(3))  # 1.001 is 1 to bfloat16
    batch = xf.vmap(lambda x: lax.convert_element_type(x, HALF))(X)
    assert batch.shape == (3,) and batch.dtype == HALF


def test_arrays_of_an_extended_dtype():
    array = EArray(xf.core.ShapedArray((3,), BYTES), xnp.arange(3, dtype="int8"))
    assert (array.shape, array.dtype, array.ndim, array.size) == ((3,), BYTES, 1, 3)
    assert isinstance(array, EArray) and isinstance(array, xf.Array)
    assert not isinstance(xf.random.key(0), EArray) and not isinstance(xnp.ones(3), EArray)
    assert np.array_equal(xf.jit(lambda x: lax.convert_element_type(x, "int8"))(array), [0, 1, 2])
