"""The BCOO format: layouts, conversions, properties of indices, transformations."""

import numpy as np
import pytest
import scipy.sparse
from sparse.layouts import array_with_zeros, bcoo, layouts

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import sparse

M3 = array_with_zeros((2, 3, 4))
M2 = array_with_zeros((4, 5), seed=1)


@pytest.mark.parametrize("n_batch, n_dense", layouts(3))
def test_fromdense_todense_round_trip(n_batch, n_dense):
    mat = bcoo(M3, n_batch, n_dense, more=1)
    assert (mat.n_batch, mat.n_sparse, mat.n_dense) == (n_batch, 3 - n_batch - n_dense, n_dense)
    assert mat.data.shape == M3.shape[:n_batch] + (mat.nse,) + M3.shape[3 - n_dense:]
    assert mat.indices.shape == M3.shape[:n_batch] + (mat.nse, mat.n_sparse)
    assert mat.indices_sorted and mat.unique_indices
    np.testing.assert_array_equal(mat.todense(), M3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int32", "uint8", "bool"])
def test_dtypes_are_preserved(dtype):
    dense = array_with_zeros((3, 4), dtype)
    mat = bcoo(dense)
    assert mat.dtype == dtype and mat.nse == np.count_nonzero(dense)
    np.testing.assert_array_equal(mat.todense(), dense)


def test_from_scipy_sparse():
    mat = scipy.sparse.random(5, 6, 0.3, random_state=0, dtype="float32")
    for kind in (sparse.BCOO, sparse.BCSR, sparse.COO, sparse.CSR, sparse.CSC):
        np.testing.assert_array_equal(kind.from_scipy_sparse(mat).todense(), mat.todense())
    assert sparse.BCOO.from_scipy_sparse(mat, index_dtype="int16").indices.dtype == "int16"


def test_padding_is_ignored():
    mat = bcoo(M2, more=3)
    np.testing.assert_array_equal(mat.indices[-3:], [[4, 5]] * 3)
    loud = sparse.BCOO((mat.data.at[-3:].set(100), mat.indices), shape=mat.shape)
    np.testing.assert_array_equal(loud.todense(), M2)
    np.testing.assert_allclose(loud @ xnp.ones(5), M2.sum(1))
    np.testing.assert_allclose((loud @ loud.T).todense(), M2 @ M2.T)
    np.testing.assert_allclose(loud.sum(), M2.sum())
    np.testing.assert_array_equal(loud.T.todense(), M2.T)
    np.testing.assert_array_equal(loud.reshape(2, 10).todense(), M2.reshape(2, 10))
    np.testing.assert_array_equal(sparse.bcoo_concatenate([loud, loud], dimension=0).todense(), np.concatenate([M2, M2]))
    np.testing.assert_array_equal(sparse.bcoo_rev(loud, (1,)).todense(), M2[:, ::-1])
    np.testing.assert_array_equal((loud * 2).sum_duplicates().todense(), M2 * 2)


def test_values_of_equal_indices_are_summed():
    mat = sparse.BCOO((xnp.array([1., 2., 4., 0.]), xnp.array([[1, 1], [0, 2], [1, 1], [0, 0]])), shape=(2, 3))
    expected = [[0, 0, 2], [0, 5, 0]]
    np.testing.assert_array_equal(mat.todense(), expected)
    summed = mat.sum_duplicates()
    assert (summed.nse, summed.unique_indices, summed.indices_sorted) == (2, True, True)
    assert summed.indices.tolist() == [[0, 2], [1, 1]] and summed.data.tolist() == [2, 5]
    assert mat.sum_duplicates(remove_zeros=False).nse == 3 and mat.sum_duplicates(nse=5).nse == 5
    np.testing.assert_array_equal(xf.jit(lambda m: m.sum_duplicates(nse=4))(mat).todense(), expected)
    ordered = mat.sort_indices()
    assert ordered.indices.tolist() == [[0, 0], [0, 2], [1, 1], [1, 1]] and not ordered.unique_indices
    once = sparse.bcoo_extract(mat, np.ones((2, 3)), assume_unique=False)
    assert once.todense().tolist() == [[1, 0, 1], [0, 1, 0]]


def test_batch_dimensions_of_size_1_are_shared():
    mat = bcoo(M2)
    shared = sparse.BCOO((mat.data[None], mat.indices[None]), shape=(3, 4, 5))
    assert shared.n_batch == 1
    np.testing.assert_array_equal(shared.todense(), np.stack([M2] * 3))
    np.testing.assert_array_equal(shared.sum(0).todense(), 3 * M2)
    np.testing.assert_array_equal(shared @ xnp.ones(5), np.stack([M2.sum(1)] * 3))
    np.testing.assert_array_equal(sparse.bcoo_update_layout(shared, n_batch=0).todense(), np.stack([M2] * 3))


def test_text_and_pytree():
    mat = bcoo(M3, 1)
    assert repr(mat) == f"BCOO(float32[2, 3, 4], nse={mat.nse}, n_batch=1)"
    leaves, tree = xf.tree.flatten(mat)
    assert len(leaves) == 2 and repr(xf.tree.unflatten(tree, leaves)) == repr(mat)
    assert repr(xf.tree.unflatten(tree, [None, None])) == "BCOO(<invalid>)"
    assert len(mat) == 2 and mat.size == 24 and mat.block_until_ready() is mat
    with pytest.raises(TypeError):
        hash(mat)


def test_invalid_components_raise():
    mat = bcoo(M2)
    for buffers, shape, error in (((mat.data, mat.indices[:-1]), (4, 5), ValueError), ((mat.data, mat.indices), (4, 5, 6),
        ValueError),
                                ((mat.data, mat.indices), (4,), AssertionError),
                                ((mat.data, mat.indices.astype(float)), (4, 5), AssertionError)):
        with pytest.raises(error):
            sparse.BCOO(buffers, shape=shape)
    with pytest.raises(xf.errors.ConcretizationTypeError):
        xf.jit(sparse.BCOO.fromdense)(M2)
    with pytest.raises(ValueError, match="nse"):
        xf.jit(lambda m: m.sum_duplicates())(mat)


def test_vmap_maps_over_batches():
    mat = bcoo(M3, 1)
    np.testing.assert_array_equal(xf.vmap(lambda m: m.todense())(mat), M3)
    np.testing.assert_array_equal(xf.vmap(lambda m, v: m @ v)(mat, np.ones((2, 4))), M3.sum(2))
    turned = xf.vmap(lambda m: m.T)(mat)
    assert (turned.shape, turned.n_batch) == ((2, 4, 3), 1)
    np.testing.assert_array_equal(turned.todense(), M3.swapaxes(1, 2))
    made = xf.vmap(lambda m: sparse.BCOO.fromdense(m, nse=12))(M3)
    np.testing.assert_array_equal(made.todense(), M3)
    np.testing.assert_array_equal(xf.vmap(lambda m: m, out_axes=1)(bcoo(M3, 2)).todense(), M3.swapaxes(0, 1))
    with pytest.raises(ValueError, match="batch"):
        xf.vmap(lambda m: m.todense())(bcoo(M2))


def test_values_are_differentiated_and_indices_are_not():
    mat = bcoo(M2, more=1)

    def weighted(data):
        return (sparse.BCOO((data, mat.indices), shape=mat.shape).todense() ** 2).sum()

    np.testing.assert_allclose(xf.grad(weighted)(mat.data)[:-1], 2 * M2[M2 != 0])
    np.testing.assert_allclose(xf.grad(lambda m: (sparse.BCOO.fromdense(m, nse=mat.nse).data ** 2).sum())(M2), 2 * M2)
    tangent = np.full_like(M2, 3)
    moved = xf.jvp(lambda m: sparse.BCOO.fromdense(m, nse=mat.nse).data, (M2,), (tangent,))[1]
    np.testing.assert_array_equal(moved, [3] * (mat.nse - 1) + [0])
    gradient = xf.grad(lambda d: (mat.with_data(d).T.sum_duplicates(nse=mat.nse).data ** 2).sum())(mat.data)
    np.testing.assert_allclose(gradient, 2 * np.asarray(mat.data))


def test_operations_on_the_arrays_alone():
    from xlafront.experimental.sparse import bcoo as on_arrays, util

    mat = bcoo(M2, more=1)
    info, buffers = util.SparseInfo(mat.shape), (mat.data, mat.indices)
    np.testing.assert_array_equal(on_arrays._bcoo_todense(*buffers, spinfo=info), M2)
    np.testing.assert_array_equal(on_arrays._bcoo_extract(mat.indices, M2), mat.data)
    np.testing.assert_array_equal(on_arrays._bcoo_fromdense(M2, nse=mat.nse)[1], mat.indices)
    assert on_arrays._validate_bcoo(*buffers, mat.shape) == (0, 2, 0, mat.nse)
    assert int(util._count_stored_elements(M2)) == np.count_nonzero(M2)
    data, indices, shape = on_arrays._bcoo_reduce_sum(*buffers, spinfo=info, axes=(0,))
    np.testing.assert_array_equal(sparse.BCOO((data, indices), shape=shape).todense(), M2.sum(0))
    numbers = (((1,), (0,)), ((), ()))
    np.testing.assert_array_equal(on_arrays._bcoo_dot_general(*buffers, M2.T, dimension_numbers=numbers, lhs_spinfo=info), M2 @ M2.T)
    np.testing.assert_array_equal(
        on_arrays._bcoo_rdot_general(M2.T, *buffers, dimension_numbers=numbers, rhs_spinfo=info), M2.T @ M2)
