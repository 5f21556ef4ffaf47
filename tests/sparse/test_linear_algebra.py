"""The direct solver and the eigensolver, compared with NumPy."""

import numpy as np
import pytest

import xlafront as xf
from xlafront.experimental import sparse
from xlafront.experimental.sparse.linalg import lobpcg_standard, spsolve

A = np.array([[4, 1, 0], [0, 3, 2], [1, 0, 5]], "float32")
B = np.array([1, 2, 3], "float32")


def test_systems_are_solved():
    mat = sparse.BCSR.fromdense(A)
    np.testing.assert_allclose(spsolve(*mat._bufs, B), np.linalg.solve(A, B), rtol=1e-5)

    def solve(data, b):
        return spsolve(data, mat.indices, mat.indptr, b)

    np.testing.assert_allclose(xf.jit(solve)(mat.data, B), np.linalg.solve(A, B), rtol=1e-5)
    weights = np.array([3, 1, 2], "float32")
    expected_b = np.linalg.solve(A.T, weights)
    expected_a = -np.outer(expected_b, np.linalg.solve(A, B))[A != 0]
    found = xf.grad(lambda data, b: weights @ solve(data, b), argnums=(0, 1))(mat.data, B)
    np.testing.assert_allclose(found[0], expected_a, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], expected_b, rtol=1e-4)
    np.testing.assert_allclose(xf.vmap(solve, (None, 0))(mat.data, np.stack([B, 2 * B])), np.linalg.solve(A, np.stack(
        [B, 2 * B], 1)).T, rtol=1e-5)
    for arguments in ((mat.data, mat.indices, mat.indptr, B[:, None]), (mat.data, mat.indices, mat.indptr, B.astype(int)),
                      (mat.data, mat.indices, mat.indptr, np.ones(4, "float32"))):
        with pytest.raises(ValueError):
            spsolve(*arguments)


def test_the_largest_eigenvalues():
    random = np.random.default_rng(0)
    q, _ = np.linalg.qr(random.normal(size=(30, 30)))
    values = np.arange(1., 31)
    matrix = ((q * values) @ q.T).astype("float32")
    start = random.normal(size=(30, 3)).astype("float32")
    for operand in (lambda x: matrix @ x, sparse.BCOO.fromdense(matrix)):
        found, vectors, steps = lobpcg_standard(operand, start)
        np.testing.assert_allclose(found, [30, 29, 28], rtol=1e-4)
        np.testing.assert_allclose(np.abs(vectors.T @ q[:, :-4:-1]), np.eye(3), atol=2e-2)
        assert 0 < int(steps) <= 100
    assert int(lobpcg_standard(matrix, start, m=2)[2]) == 2
    for bad in ((matrix, start[:, :0]), (matrix, np.ones((30, 7), "float32")), (matrix[:20, :20], start), (matrix,
        start.astype(int))):
        with pytest.raises(ValueError):
            lobpcg_standard(*bad)
