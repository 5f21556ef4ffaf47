"""Constructors of sparse arrays, and conversion of all formats to dense arrays."""

import numpy as np
import pytest

import xlafront as xf
from xlafront.experimental import sparse

FORMATS = ["bcoo", "bcsr", "coo", "csr", "csc"]


@pytest.mark.parametrize("name", FORMATS)
def test_empty_and_diagonals(name):
    empty = sparse.empty((3, 4), "int32", "int16", sparse_format=name)
    assert (empty.nse, empty.dtype, empty.shape, type(empty).__name__.lower()) == (0, "int32", (3, 4), name)
    assert not empty.todense().any()
    for n, m, k in ((3, 4, 0), (3, 4, 1), (4, 3, -2), (3, 3, 7)):
        mat = sparse.eye(n, m, k, sparse_format=name)
        np.testing.assert_array_equal(mat.todense(), np.eye(n, m, k))
        assert mat.nse == np.eye(n, m, k).sum()
    np.testing.assert_array_equal(sparse.todense(sparse.eye(3, sparse_format=name)), np.eye(3))


@pytest.mark.parametrize("n_batch, n_dense", [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)])
def test_layouts_of_diagonals(n_batch, n_dense):
    mat = sparse.eye(3, 4, 1, n_batch=n_batch, n_dense=n_dense)
    assert (mat.n_batch, mat.n_dense) == (n_batch, n_dense)
    np.testing.assert_array_equal(mat.todense(), np.eye(3, 4, 1))


def test_bad_arguments_raise():
    for refused in (lambda: sparse.empty((3, 4), sparse_format="?"), lambda: sparse.empty((3,), n_batch=2),
                    lambda: sparse.empty((3, 4, 5), sparse_format="csr"), lambda: sparse.eye(3, n_dense=3),
                    lambda: sparse.random_bcoo(xf.random.key(0), (4, 5), nse=30)):
        with pytest.raises(ValueError):
            refused()


def test_random_arrays_equal_those_of_jax():
    mat = sparse.random_bcoo(xf.random.key(0), (4, 5))
    np.testing.assert_allclose(mat.data, [0.8423141, 0.18237865, 0.2271781, 0.12072563], rtol=1e-6)
    assert mat.indices.tolist() == [[0, 0], [0, 3], [1, 4], [1, 0]]
    batch = sparse.random_bcoo(xf.random.key(0), (2, 4, 5), n_batch=1, sorted_indices=True)
    assert batch.indices[0].tolist() == [[0, 0], [0, 3], [1, 0], [1, 4]] and batch.indices_sorted
    assert sparse.random_bcoo(xf.random.key(0), (4, 5), unique_indices=False).indices.tolist() == [[0, 2], [0, 2], [3, 1],
        [3, 0]]


def test_todense_of_dense_arrays_under_transformations():
    np.testing.assert_array_equal(sparse.todense(np.ones(3)), np.ones(3))
    mat = sparse.eye(3)
    assert xf.grad(lambda d: (sparse.todense(mat.with_data(d)) * 2).sum())(mat.data).tolist() == [2, 2, 2]
    assert xf.vmap(sparse.todense)(sparse.eye(3, n_batch=1)).tolist() == np.eye(3).tolist()
