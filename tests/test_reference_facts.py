"""Facts of the reference that no other oracle has: values, dtypes and exceptions observed in it, written down."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

V = np.array([5, 1, 4, 1, 3], np.int32)
F = np.array([1.0, 2.0, 3.0], np.float32)
C = np.array([1 + 2j, 1 - 1j, -1j, 2], np.complex64)
B = np.array([True, False])
weak = xnp.asarray

VALUES = [  # call, values, dtype, weakly typed
    ("n.remainder(V, 0)", [0, 0, 0, 0, 0], "int32", False),
    ("n.fmod(V, 0)", [0, 0, 0, 0, 0], "int32", False),
    ("n.sign(np.array([0, 7], np.uint8))", [0, 1], "uint8", False),
    ("n.maximum(True, 1 + 2j)", 1 + 2j, "complex64", None),
    ("xf.jit(lambda c: n.maximum(c, 1))(C)", [1 + 2j, 1, 1, 2], "complex64", False),
    ("n.minimum(C, C[::-1])", [1 + 2j, -1j, -1j, 1 + 2j], "complex64", False),
    ("n.digitize(V, np.array([5, 3, 1]))", [0, 2, 1, 2, 1], "int32", False),
    ("n.square(B)", [1, 0], "int32", False),
    ("n.bitwise_count(np.array([-7, -3, 8], np.int32))", [3, 2, 1], "uint8", False),
    ("n.quantile(n.arange(12.0), 0.5, method='nearest')", 5, "float32", False),
    ("n.hypot(np.float32(np.inf), np.nan)", np.inf, "float32", False),
    ("n.var(np.array([1, 2], np.int8), ddof=20)", np.nan, "float32", False),
    ("n.floor_divide(B, np.array([True, True]))", [1, 0], "int32", False),
    ("n.power(B, np.array([True, True]))", [1, 0], "int32", False),
    ("n.array([n.asarray(1), 2.0])", [1, 2], "float32", False),
    ("n.bincount(-V)", [5], "int32", False),
    ("n.sum(n.asarray(2))", 2, "int32", False),
    ("n.zeros_like(n.asarray(2.0))", 0, "float32", True),
    ("n.linspace(0, 1, 5, retstep=True)[1]", 0.25, "float32", False),
    ("xf.grad(lambda x: x * 2)(1.0)", 2, "float32", True),
    ("xf.grad(lambda x: 1.0)(1.0)", 0, "float32", True),
    ("xf.grad(lambda a, b: a + b)(np.float32(1), np.float32(2))", 1, "float32", False),
    ("xf.grad(xf.grad(xf.nn.softplus))(0.0)", 0.25, "float32", True),
    ("xf.grad(abs)(0.0)", 1, "float32", True),
    ("xf.grad(lambda x: n.logaddexp(x, np.inf))(np.inf)", 1, "float32", True),
    ("xf.grad(xf.nn.relu)(np.float32(np.nan))", 0, "float32", False),
    ("xf.grad(lambda x: n.floor_divide(x, 0.0))(1.0)", 0, "float32", True),
    ("xf.grad(lambda x: n.abs(n.sign(x)).sum())(C)", [0, 0, 0, 0], "complex64", False),
    ("xf.jacfwd(lambda x: V)(F)", np.zeros((5, 3)), "int32", False),
    ("n.logaddexp(C, C)", C + np.log(2), "complex64", False),
    ("n.sum(np.ones((2, 3, 4), np.float32), axis=[0, 2])", [8, 8, 8], "float32", False),
    ("n.mean(np.ones((2, 3), np.float32), axis=n.array(1))", [1, 1], "float32", False),
    ("n.ones((2, 3)).max(axis=[0, 1])", 1, "float32", False),
    ("n.log10(n.asarray(0j))", -np.inf, "complex64", False),
]


def evaluate(text):
    return eval(text, {"n": xnp, "np": np, "xf": xf, "V": V, "F": F, "C": C, "B": B})


@pytest.mark.parametrize("text, values, dtype, is_weak", VALUES, ids=[row[0] for row in VALUES])
def test_values(text, values, dtype, is_weak):
    x = evaluate(text)
    assert isinstance(x, xf.Array)
    assert x.dtype == dtype
    if is_weak is not None:
        assert x.weak_type == is_weak
    np.testing.assert_allclose(np.asarray(x), values, rtol=2e-6, atol=1e-6)


ERRORS = [
    ("n.power(V, -1)", TypeError),
    ("V_ ** -1", TypeError),
    ("xf.lax.integer_pow(V, -1)", TypeError),
    ("xf.lax.reciprocal(V)", TypeError),
    ("n.clip(C, 0, 1)", ValueError),
    ("n.ones((2, 3)) + n.ones(2)", ValueError),
    ("n.sum(F, axis=2)", ValueError),
    ("n.mean(F, axis=2)", IndexError),
    ("V_ == [1]", TypeError),
    ("float(n.asarray(C)[0])", TypeError),
    ("xf.grad(lambda x: x)()", TypeError),
    ("n.arange(3, dtype=bool)", TypeError),
    ("xf.jacrev(lambda x: V)(F)", TypeError),
    ("xf.lax.abs(np.ones(2, np.uint8))", TypeError),
    ("xf.lax.conj(np.ones(2, np.float16))", TypeError),
    ("n.array([True]).at[n.array([0, 0])].subtract(True)", TypeError),
    ("n.copysign(C, 1.0)", TypeError),
    ("n.broadcast_to(V, (-1, 5))", TypeError),
    ("n.pad(F, 1.5)", TypeError),
]


@pytest.mark.parametrize("text, error", ERRORS, ids=[row[0] for row in ERRORS])
def test_exceptions(text, error):
    with pytest.raises(error):
        evaluate(text.replace("V_", "n.asarray(V)"))


def test_interfaces():
    assert xnp.ndim([1, 2]) == 1 and xnp.shape([[1], [2]]) == (2, 1) and xnp.zeros(xnp.array(2)).shape == (2,)
    assert str(xf.typeof(1)) == "~int32[]"
    lowered = xf.jit(lambda x, y: x + y, donate_argnums=1).lower(1.0, xnp.float32(1))
    assert lowered.in_avals[1] == {} and len(lowered.in_avals[0]) == 2 and lowered.donate_argnums == (1,)
    key = xf.random.key(True)
    assert xnp.array([key, key]).shape == (2,) and key.copy() == key
    path, _ = xnp.einsum_path("ij,jk,kl", np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 2)))
    assert len(path) == 2 and all(len(pair) == 2 for pair in path)
