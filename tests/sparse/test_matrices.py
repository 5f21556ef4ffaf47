"""COO, CSR, CSC and BCSR, against NumPy and SciPy."""

import numpy as np
import pytest
import scipy.sparse
from sparse.layouts import array_with_zeros

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import sparse

M = array_with_zeros((4, 5), seed=1)
M3 = array_with_zeros((2, 3, 4))
FORMATS = {"COO": sparse.COO, "CSR": sparse.CSR, "CSC": sparse.CSC, "BCSR": sparse.BCSR}


@pytest.mark.parametrize("name", ["COO", "CSC", *[pytest.param(name, marks=pytest.mark.soak) for name in ("CSR", "BCSR")]])
def test_products(name):
    mat = FORMATS[name].fromdense(M, nse=14)
    np.testing.assert_array_equal(mat.todense(), M)
    np.testing.assert_array_equal(mat @ np.ones(5, "int32"), M.sum(1))
    np.testing.assert_array_equal(xf.jit(lambda m, y: m @ y)(mat, M.T), M @ M.T)
    weights = np.arange(4, dtype="float32")
    gradient = sparse.grad(lambda m: (m @ xnp.ones(5)) @ weights)(mat)
    np.testing.assert_array_equal(gradient.todense(), np.where(M != 0, weights[:, None], 0))
    np.testing.assert_array_equal(xf.grad(lambda y: weights @ (mat @ y))(np.ones(5, "float32")), weights @ M)
    np.testing.assert_array_equal(xf.grad(lambda m: (FORMATS[name].fromdense(m, nse=14).data * 3).sum())(M),
                                  np.where(M != 0, 3, 0))
    assert repr(mat) == f"{name}(float32[4, 5], nse=14)"
    assert xf.tree.map(lambda x: x, mat).shape == (4, 5)


@pytest.mark.parametrize("name", ["COO", "CSR", "CSC"])
def test_transposes_share_component_arrays(name):
    mat = FORMATS[name].fromdense(M)
    assert mat.T.data is mat.data
    np.testing.assert_array_equal(mat.T.todense(), M.T)
    np.testing.assert_array_equal(mat.T @ np.ones(4), M.sum(0))
    with pytest.raises(NotImplementedError):
        mat * 2
    with pytest.raises(NotImplementedError):
        mat @ mat
    with pytest.raises(AssertionError):
        mat @ np.ones(4)
    with pytest.raises(AssertionError):
        mat.transpose((0, 1))


@pytest.mark.cpu_only
def test_functions_of_matrices():
    coo, csr = sparse.coo_fromdense(M), sparse.csr_fromdense(M)
    expected = scipy.sparse.csr_matrix(M)
    np.testing.assert_array_equal(csr.indices, expected.indices)
    np.testing.assert_array_equal(csr.indptr, expected.indptr)
    for mat, vector, matrix in ((coo, sparse.coo_matvec, sparse.coo_matmat), (csr, sparse.csr_matvec, sparse.csr_matmat)):
        np.testing.assert_array_equal(vector(mat, np.ones(4), transpose=True), M.sum(0))
        np.testing.assert_array_equal(matrix(mat, M, transpose=True), M.T @ M)
    assert (coo._rows_sorted, coo._cols_sorted, coo.T._rows_sorted) == (True, False, False)
    turned = coo.T._sort_indices()
    assert turned._rows_sorted and np.all(np.diff(turned.row) >= 0)


@pytest.mark.parametrize("shape, n_batch, n_dense", [((2, 3, 4, 2), 1, 1), *[
    pytest.param(*case, marks=pytest.mark.soak) for case in (((2, 3, 4), 1, 0), ((3, 4, 2), 0, 1))]])
def test_batches_of_compressed_rows(shape, n_batch, n_dense):
    dense = array_with_zeros(shape, seed=2)
    mat = sparse.BCSR.fromdense(dense, n_batch=n_batch, n_dense=n_dense)
    assert (mat.n_batch, mat.n_sparse, mat.n_dense) == (n_batch, 2, n_dense) and mat.indptr.shape == shape[:n_batch] + (4,)
    for found in (mat, mat.to_bcoo(), sparse.BCSR.from_bcoo(mat.to_bcoo()), mat.sum_duplicates()):
        np.testing.assert_array_equal(found.todense(), dense)
    joined = sparse.bcsr_concatenate([mat, mat], dimension=n_batch)
    np.testing.assert_array_equal(joined.todense(), np.concatenate([dense, dense], n_batch))


def test_products_of_batches():
    mat = sparse.BCSR.fromdense(M3, n_batch=1)
    np.testing.assert_array_equal(xf.vmap(lambda m: m.todense())(mat), M3)
    found = sparse.bcsr_dot_general(mat, M3, dimension_numbers=(((2,), (2,)), ((0,), (0,))))
    np.testing.assert_array_equal(found, M3 @ M3.swapaxes(1, 2))
    wide = sparse.bcsr_broadcast_in_dim(mat, shape=(5, 2, 3, 4), broadcast_dimensions=(1, 2, 3))
    np.testing.assert_array_equal(wide.todense(), np.broadcast_to(M3, (5, 2, 3, 4)))
    np.testing.assert_array_equal(sparse.bcsr_extract(mat.indices, mat.indptr, 2 * M3), 2 * np.asarray(mat.data))
    for refused in (lambda: mat.T, lambda: mat + mat, lambda: mat.sum(), lambda: M3.swapaxes(1, 2) @ mat, lambda: mat[0]):
        with pytest.raises(NotImplementedError):
            refused()


def test_mismatched_components_raise():
    for buffers, shape in (((np.ones(2), np.zeros(2, int), np.zeros(3, int)), (4, 5)), ((np.ones(2), np.zeros(3, int),
        np.zeros(5, int)), (4, 5))):
        with pytest.raises(ValueError):
            sparse.BCSR(buffers, shape=shape)


def test_many_elements():
    mat = scipy.sparse.random(60, 50, 0.3, random_state=0, dtype="float32", format="csr")
    for name in ("CSR", "BCSR"):
        found = FORMATS[name].from_scipy_sparse(mat)
        np.testing.assert_array_equal(found.todense(), mat.todense())
        np.testing.assert_allclose(found @ np.ones(50, "float32"), np.asarray(mat.sum(1))[:, 0], rtol=1e-5)


def test_compressed_products_read_no_columns_out_of_bounds():
    """Both ways to handle such elements are covered: masked values and an additional row of zeros."""
    data, starts = np.arange(1, 13, dtype="float32"), np.array([0, 6, 12])
    columns = np.array([0, 4, 2, -1, 1, 3, 3, 2, 3, 2**31 - 1, 0, 1], np.int32)
    dense = np.zeros((2, 3), np.float32)
    np.add.at(dense, (np.repeat([0, 1], 6)[(columns >= 0) & (columns < 3)], columns[(columns >= 0) & (columns < 3)]),
              data[(columns >= 0) & (columns < 3)])
    product = xf.jit(lambda data, columns, y: sparse.BCSR((data, columns, starts), shape=(2, 3)) @ y)
    for width in (2, 7):
        y = np.arange(3 * width, dtype="float32").reshape(3, width)
        np.testing.assert_array_equal(product(data, columns, y), dense @ y)


@pytest.mark.parametrize("make", [
    lambda data, row, col: sparse.COO((data, row, col), shape=(3, 2)),
    lambda data, row, col: sparse.BCOO((data, xnp.stack([row, col], -1)), shape=(3, 2))], ids=["COO", "BCOO"])
@pytest.mark.parametrize("width", [(), (2,)])
def test_derivatives_ignore_padding(make, width):
    """This holds even if infinities and NaNs are in the last row of either operand."""
    row, col = xnp.array([0, 2, 3, -1, 7]), xnp.array([1, 0, 2, 0, 5])  # two elements, and three out of bounds
    data = xnp.arange(1.0, 6.0)
    other = np.array([3.0, np.inf], "float32").reshape(2, *[1] * len(width)) * np.ones((2, *width), "float32")
    weights = np.array([2.0, np.nan, np.inf], "float32").reshape(3, *[1] * len(width)) * np.ones((3, *width), "float32")
    _, pull_back = xf.vjp(lambda d, y: make(d, row, col) @ y, data, other)
    in_data, in_other = pull_back(weights)
    np.testing.assert_array_equal(in_data, [np.inf, np.inf, 0, 0, 0])
    np.testing.assert_array_equal(in_other, np.stack([weights[2] * 2, weights[0] * 1]))
