"""Reshaping, slicing, gathering and reducing BCOO arrays, compared with NumPy on dense arrays, in all layouts."""

import warnings

import numpy as np
import pytest
from sparse.layouts import array_with_zeros, bcoo, layouts

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import sparse
from xlafront.sparse import positions

M2 = array_with_zeros((4, 5), seed=1)
M3 = array_with_zeros((2, 3, 4))


def same(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.todense(), expected, rtol=1e-6)


@pytest.mark.parametrize("n_batch, n_dense", [
    pair if pair in ((0, 0), (2, 1)) else pytest.param(*pair, marks=pytest.mark.soak) for pair in layouts(3)])
def test_layouts_change(n_batch, n_dense):
    mat = bcoo(M3, n_batch, n_dense)
    for target in ((0, 0), (1, 1), (2, 0), (0, 2)):
        changed = sparse.bcoo_update_layout(mat, n_batch=target[0], n_dense=target[1], on_inefficient=None)
        assert (changed.n_batch, changed.n_dense) == target
        same(changed, M3)


def test_inefficient_layouts_raise_or_warn():
    mat = bcoo(M2)
    with pytest.raises(sparse.SparseEfficiencyError):
        mat.update_layout(n_batch=1)
    with pytest.warns(sparse.SparseEfficiencyWarning):
        mat.update_layout(n_dense=1, on_inefficient="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mat.update_layout(n_batch=1, on_inefficient=None)
    for options in ({"n_batch": 3}, {"n_batch": -1}, {"n_batch": 1, "on_inefficient": "?"}):
        with pytest.raises(ValueError):
            mat.update_layout(**options)


@pytest.mark.parametrize("n_batch, n_dense", [(1, 1), *[pytest.param(*pair, marks=pytest.mark.soak) for pair in (
    (0, 0), (1, 0), (0, 1), (2, 0), (0, 2))]])
def test_slices_and_sums(n_batch, n_dense):
    mat = bcoo(M3, n_batch, n_dense, more=1)
    same(sparse.bcoo_slice(mat, start_indices=(0, 1, 1), limit_indices=(1, 3, 3)), M3[:1, 1:3, 1:3])
    same(sparse.bcoo_slice(mat, start_indices=(0, 0, 0), limit_indices=(2, 3, 4), strides=(1, 2, 3)), M3[:, ::2, ::3])
    same(sparse.bcoo_dynamic_slice(mat, (1, xnp.array(2), 0), (1, 2, 3)), M3[1:, 1:, :3])
    for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        same(sparse.bcoo_reduce_sum(mat, axes=axes), M3.sum(axes))
    same(sparse.bcoo_rev(mat, (0, 1, 2)), M3[::-1, ::-1, ::-1])
    one = bcoo(M3[:, :1], n_batch, n_dense)
    same(sparse.bcoo_squeeze(one, dimensions=(1,)), M3[:, 0])


def test_results_store_at_most_all_positions():
    mat = bcoo(M2)
    assert sparse.bcoo_slice(mat, start_indices=(0, 0), limit_indices=(1, 1)).nse == 1
    assert mat[0].nse == 5 and mat[0, 1].nse == 1
    assert (mat @ mat.T).nse == 16


def test_concatenation():
    for n_batch, n_dense in ((0, 0), (1, 0), (0, 1)):
        mat, other = bcoo(M3, n_batch, n_dense), bcoo(2 * M3, n_batch, n_dense, more=2)
        for dimension in range(3 - n_dense):
            same(sparse.bcoo_concatenate([mat, other], dimension=dimension), np.concatenate([M3, 2 * M3], dimension))
    for operands, dimension, error in (([], 0, ValueError), ([M2], 0, ValueError), ([bcoo(M3, 0, 1)] * 2, 2,
        NotImplementedError)):
        with pytest.raises(error):
            sparse.bcoo_concatenate(operands, dimension=dimension)


@pytest.mark.parametrize("n_batch, n_dense, new", [
    (0, 0, (4, 6)), (0, 0, (24,)), (0, 0, (1, 2, 12)), (1, 0, (2, 12)), (1, 0, (1, 2, 6, 2)), (2, 0, (3, 2, 4)), (0, 1, (6, 4)),
    (0, 2, (2, 12)), (1, 1, (2, 3, 2, 2))])
def test_reshape(n_batch, n_dense, new):
    same(sparse.bcoo_reshape(bcoo(M3, n_batch, n_dense, more=1), new_sizes=new), M3.reshape(new))


def test_reshape_and_transpose_across_dimension_kinds_raise():
    with pytest.raises(ValueError):
        bcoo(M3, 1).reshape(6, 4)
    with pytest.raises(TypeError):
        bcoo(M2).reshape(3, 3)
    for new in ((3, 3), (-1,)):
        with pytest.raises(ValueError, match="elements"):
            sparse.bcoo_reshape(bcoo(M2), new_sizes=new)
    with pytest.raises(NotImplementedError):
        bcoo(M3, 1).transpose((1, 0, 2))
    with pytest.raises(TypeError):
        bcoo(M2).transpose((0,))


def test_broadcast_in_dim():
    mat = bcoo(M2)
    for shape, dimensions, expected in (((3, 4, 5), (1, 2), np.broadcast_to(M2, (3, 4, 5))), ((4, 1, 5), (0, 2), M2[:, None]),
                                        ((4, 5, 1), (0, 1), M2[..., None])):
        same(sparse.bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=dimensions), expected)
    with pytest.raises(NotImplementedError):
        sparse.bcoo_broadcast_in_dim(mat, shape=(4, 3, 5), broadcast_dimensions=(0, 2))
    same(sparse.bcoo_broadcast_in_dim(bcoo(M2, 0, 1), shape=(4, 5, 3), broadcast_dimensions=(0, 1)),
         np.broadcast_to(M2[..., None], (4, 5, 3)))


INDICES = {"row": 1, "element": (1, 2), "column": np.s_[:, 1], "part": np.s_[1:3], "step": np.s_[::2, 1:], "last": -1,
           "reversed": np.s_[::-1], "rows": np.array([2, 0]), "columns": np.s_[:, np.array([3, 1])], "new": None,
           "pairs": (np.array([0, 2]), np.array([1, 1])), "mask": np.array([True, False, True, False]), "all": Ellipsis}


@pytest.mark.parametrize("name", INDICES)
def test_indexing(name):
    same(bcoo(M2)[INDICES[name]], M2[INDICES[name]])


def test_traced_indices():
    mat = bcoo(M2)
    found = xf.jit(lambda m, i: m[i])(mat, 2)
    same(found, M2[2])
    same(xf.jit(lambda m, i: sparse.bcoo_dynamic_slice(m, (i, 0), (2, 5)))(mat, 3), M2[2:])
    assert [row.todense().tolist() for row in mat] == M2.tolist()


def test_gather():
    numbers = lax.GatherDimensionNumbers(offset_dims=(0,), collapsed_slice_dims=(1,), start_index_map=(1,))
    found = sparse.bcoo_gather(bcoo(M2), xnp.array([[0], [3]]), numbers, (4, 1))
    same(found, M2[:, [0, 3]])
    clamped = sparse.bcoo_gather(bcoo(M2), xnp.array([[1], [9]]), numbers, (4, 1), mode="clip", fill_value=7.0)
    same(clamped, M2[:, [1, 4]])
    for mode in ("fill", "one_hot"):
        with pytest.raises(NotImplementedError, match="clamped"):
            sparse.bcoo_gather(bcoo(M2), xnp.array([[0]]), numbers, (4, 1), mode=mode)
    with pytest.raises(NotImplementedError, match="FILL"):
        sparse.sparsify(lambda x: xnp.take(x, np.array([9]), 0))(bcoo(M2))


@pytest.mark.parametrize("shape", [(50, 60), (2**17, 2**17)], ids=["one_number_for_a_place", "too_many_places"])
def test_order_and_sums_of_many_elements(shape):
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 40, (700, 2)).astype(np.int32)
    rows[::50] = [shape, (shape[0] + 5, 1)] * 7  # padding, also of which one index is within bounds
    values = np.arange(700, dtype=np.float32)
    mat = sparse.BCOO((values, rows), shape=shape)
    inside = rows[:, 0] < shape[0]
    order = np.lexsort(rows[inside].T[::-1])
    ordered, count = sparse.bcoo_sort_indices(mat), inside.sum()
    np.testing.assert_array_equal(ordered.indices[:count], rows[inside][order])
    np.testing.assert_array_equal(ordered.data[:count], values[inside][order])  # equal ones stay in their order
    unique_rows, which = np.unique(rows[inside], axis=0, return_inverse=True)
    summed = mat.sum_duplicates(remove_zeros=False)
    np.testing.assert_array_equal(summed.indices, unique_rows)
    np.testing.assert_allclose(summed.data, np.bincount(which.ravel(), values[inside]), rtol=1e-6)


# Symbolic sizes


SYMBOLIC = {
    "bcoo_broadcast_in_dim": (lambda x, n: sparse.bcoo_broadcast_in_dim(x, shape=(n, 1, 3), broadcast_dimensions=(0, 2)).todense(),
                              lambda dense: dense[:, None]),
    "bcoo_squeeze": (lambda x, n: sparse.bcoo_squeeze(sparse.bcoo_broadcast_in_dim(
        x, shape=(n, 1, 3), broadcast_dimensions=(0, 2)), dimensions=(1,)).todense(), lambda dense: dense),
    "bcoo_update_layout": (lambda x, n: sparse.bcoo_update_layout(x, n_batch=2, on_inefficient=None).todense(), lambda dense: dense),
    "bcoo_multiply_dense": (lambda x, n: sparse.BCOO((sparse.bcoo_multiply_dense(x, 2 * xnp.ones((n, 3))), x.indices),
                                                     shape=(n, 3)).todense(), lambda dense: 2 * dense),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name):
    function, expected = SYMBOLIC[name]
    dense = np.array([[1, 0, 2], [0, 0, 3], [0, 4, 0], [5, 0, 0]], np.float32)
    indices = np.argwhere(dense).astype(np.int32)
    data = dense[tuple(indices.T)]
    (n,) = xf.export.symbolic_shape("n")
    exported = xf.export.export(xf.jit(lambda data, indices, like: function(
        sparse.BCOO((data, indices), shape=(like.shape[0], 3)), like.shape[0])))(
            data, indices, xf.ShapeDtypeStruct((n,), np.float32))
    np.testing.assert_array_equal(exported.call(data, indices, np.ones(4, np.float32)), expected(dense))


@pytest.mark.parametrize("dtype, size", [
    ("int8", 0), ("uint8", 0), ("int8", 100), ("int8", 200), ("uint8", 200), ("int32", 5), ("uint32", 5), ("int16", 0)])
def test_in_bounds_of_all_index_dtypes(dtype, size):
    info = np.iinfo(dtype)
    columns = np.array([info.min, 0, 1, 4, 5, 99, 100, info.max], dtype)
    indices = np.stack([columns, columns[::-1]], -1)
    expected = ((indices.astype(int) >= 0) & (indices.astype(int) < [size, 1000])).all(-1)
    np.testing.assert_array_equal(positions.in_bounds(xnp.asarray(indices), (size, 1000)), expected)
    lowest = [x if 0 <= x < size else min(size, np.iinfo(dtype).max) for x in columns.astype(int).tolist()]
    np.testing.assert_array_equal(positions.clamp_to_padding(xnp.asarray(columns), size), lowest)


def test_batches_of_rows_hold_each_element_once():
    mat = sparse.BCOO((xnp.arange(1., 6.), xnp.array([[1, 0], [0, 2], [9, 1], [1, 0], [0, 7]])), shape=(2, 3))
    found = mat.update_layout(n_batch=1, on_inefficient=None)
    np.testing.assert_array_equal(found.data, [[0, 2, 0, 0, 5], [1, 0, 0, 4, 0]])
    np.testing.assert_array_equal(found.indices[..., 0], [[0, 2, 1, 0, 7]] * 2)
    np.testing.assert_array_equal(found.todense(), [[0, 0, 2], [5, 0, 0]])


@pytest.mark.parametrize("n_batch", range(4))
def test_slices_without_sparse_dimensions_preserve_nse(n_batch):
    dense = np.arange(12.).reshape(2, 3, 2)
    mat = sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=3 - n_batch, nse=3)
    found = sparse.bcoo_slice(mat, start_indices=(0, 1, 0), limit_indices=(2, 3, 1))
    assert found.nse == sparse.bcoo_dynamic_slice(mat, (0, 1, 0), (2, 2, 1)).nse == 3
    np.testing.assert_array_equal(found.todense(), dense[:, 1:, :1])


def test_squeeze_preserves_properties_of_indices():
    mat = sparse.BCOO.fromdense(xnp.ones((1, 3)))
    assert (mat[0].indices_sorted, mat[0].unique_indices, mat[-1].nse) == (True, True, 3)
