"""Derivatives with respect to sparse arrays, against dense ones."""

import numpy as np
import pytest
from sparse.layouts import array_with_zeros, bcoo

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import sparse

M = array_with_zeros((4, 5), seed=1)
Y = np.arange(5, dtype="float32")


def product(m, y):
    return xnp.sin(m @ y)


@pytest.mark.parametrize("transform", ["jacfwd", "jacrev", "jacobian"])
def test_jacobians(transform):
    mat = bcoo(M)
    found = getattr(sparse, transform)(product)(mat, Y)
    assert (found.shape, found.n_batch, found.indices_sorted) == ((4, 4, 5), 1, True)
    np.testing.assert_allclose(found.todense(), np.where(M != 0, xf.jacrev(product)(M, Y), 0), rtol=1e-5, atol=1e-6)
    both = getattr(sparse, transform)(lambda m, y: (product(m, y), 1), argnums=(0, 1), has_aux=True)(mat, Y)
    assert both[1] == 1
    np.testing.assert_allclose(both[0][1], xf.jacrev(product, 1)(M, Y), rtol=1e-5, atol=1e-5)
    with pytest.raises((AssertionError, TypeError)):
        getattr(sparse, transform)(lambda m: m * 2)(mat)


@pytest.mark.parametrize("kind", [sparse.COO, sparse.CSR, sparse.CSC])
def test_jacobians_of_matrices(kind):
    """A matrix has no batch dimensions: only its components have the dimensions of the result."""
    mat = kind.fromdense(M)
    found, of_sum = sparse.jacrev(product)(mat, Y), sparse.jacrev(lambda m, y: product(m, y).sum())(mat, Y)
    expected = np.where(M != 0, xf.jacrev(product)(M, Y), 0)
    assert type(found) is kind and found.shape == of_sum.shape == M.shape and found.data.shape == (4, mat.nse)
    for i, row in enumerate(expected):
        one = kind.tree_unflatten(mat.tree_flatten()[1], [x[i] for x in found.tree_flatten()[0]])
        np.testing.assert_allclose(one.todense(), row, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_sum.todense(), expected.sum(0), rtol=1e-5, atol=1e-6)


def test_gradients_have_the_layout_of_their_argument():
    def loss(tree, y):
        return (product(tree["m"], y) ** 2).sum()

    expected = xf.grad(loss)({"m": M}, Y)["m"]
    for n_batch in (0, 1):
        mat = bcoo(M, n_batch)
        (value, gradient), same = sparse.value_and_grad(loss)({"m": mat}, Y), sparse.grad(loss)({"m": mat}, Y)
        assert (gradient["m"].n_batch, gradient["m"].nse) == (n_batch, mat.nse)
        np.testing.assert_allclose(value, loss({"m": M}, Y), rtol=1e-5)
        for found in (gradient["m"], same["m"]):
            np.testing.assert_allclose(found.todense(), np.where(M != 0, expected, 0), rtol=1e-4, atol=1e-5)
    gradient, aux = sparse.grad(lambda m: (m.sum(), "aux"), has_aux=True)(bcoo(M))
    assert aux == "aux" and set(gradient.data.tolist()) == {1.0}
    np.testing.assert_allclose(sparse.grad(lambda x: (x ** 2).sum())(M), 2 * M)
    with pytest.raises(TypeError):
        xf.grad(lambda m: m.sum())(bcoo(M))
