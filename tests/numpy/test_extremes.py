"""`minmax` and `top_k`, which NumPy 2.4 does not have: against its `min`, `max` and stable sorts."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

X = np.float32([[2, 5, 1, 5], [3, -7, np.inf, 4], [0, -0.0, 2, -np.inf]])


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_minmax(axis, keepdims):
    low, high = xnp.minmax(X, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(low, X.min(axis, keepdims=keepdims))
    np.testing.assert_array_equal(high, X.max(axis, keepdims=keepdims))


def test_minmax_with_initial_values_and_where():
    x = xnp.arange(4)
    assert [int(v) for v in xnp.minmax(x, initial=2)] == [0, 3] and [int(v) for v in xnp.minmax(x, initial=(-1, 7))] == [-1, 7]
    assert [int(v) for v in xnp.minmax(x, where=x > 1, initial=(9, -9))] == [2, 3]
    assert [float(v) for v in xnp.minmax(xnp.zeros(0), initial=(1.0, 2.0))] == [1, 2]
    for bad in (lambda: xnp.minmax(xnp.zeros(0)), lambda: xnp.minmax(x, where=x > 1)):
        with pytest.raises(ValueError, match="needs `initial`"):
            bad()
    with pytest.raises(NotImplementedError, match="numpy.minmax does not support `out`"):
        xnp.minmax(x, out=3)


def test_minmax_under_transformations():
    low, high = xf.jit(xf.vmap(xnp.minmax))(X)
    np.testing.assert_array_equal(low, X.min(1))
    np.testing.assert_array_equal(high, X.max(1))
    np.testing.assert_array_equal(xf.grad(lambda x: sum(xnp.minmax(x)))(xnp.array([1.0, 1, 3])), [0.5, 0.5, 1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, -1])
def test_top_k(dtype, axis, rng):
    x = rng.integers(0, 5, (4, 6)).astype(dtype)
    if dtype == "int8":
        x[0, 0] = -128
    order = np.argsort(x, axis, kind="stable")
    values, indices = xnp.top_k(x, 3, axis=axis, mode="smallest")
    smallest = np.take(order, range(3), axis)
    np.testing.assert_array_equal(indices, smallest)
    np.testing.assert_array_equal(values, np.take_along_axis(x, smallest, axis))
    values, indices = xnp.top_k(x, 3, axis=axis)
    n = x.shape[axis]
    largest = np.take(n - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), range(n - 1, n - 4, -1), axis)
    np.testing.assert_array_equal(indices, largest)
    np.testing.assert_array_equal(values, np.take_along_axis(x, largest, axis))
    assert values.dtype == dtype and indices.dtype == np.int32


def test_top_k_of_nan_and_signed_zeros():
    nan = np.float32([3, 1, np.nan, 2])
    assert xnp.top_k(nan, 2, mode="smallest")[1].tolist() == [1, 3] and xnp.top_k(nan, 2)[1].tolist() == [2, 0]
    zeros = np.float32([-0.0, 0, -0.0])
    assert xnp.top_k(zeros, 3, mode="smallest")[1].tolist() == [0, 2, 1] and xnp.top_k(zeros, 3)[1].tolist() == [1, 0, 2]
    assert xf.grad(lambda x: xnp.top_k(x, 2, mode="smallest")[0].sum())(xnp.array([3.0, 1, 2])).tolist() == [0, 1, 1]


@pytest.mark.parametrize("call, error, message", [
    (lambda: xnp.top_k(X, 2, mode="x"), ValueError, "'largest' or 'smallest', got 'x'"),
    (lambda: xnp.top_k(X.astype(complex), 2), ValueError, "complex"),
    (lambda: xnp.top_k(X, 5), ValueError, "no larger than the size"), (lambda: xnp.top_k(X, -1), ValueError, "nonnegative"),
    (lambda: xnp.top_k(X, 2.0), TypeError, "integer"), (lambda: xnp.top_k(X, 2, axis=2), ValueError, "out of bounds"),
    (lambda: xnp.top_k([1.0], 1), TypeError, "list"),
])
def test_top_k_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_top_k_returns_a_list():
    """As `lax.top_k`, the structure that JAX gives."""
    assert isinstance(xnp.top_k(np.float32([1, 2]), 1), list) and isinstance(xf.jit(lambda x: xnp.top_k(x, 1, mode="smallest"))(np.float32([1, 2])), list)
