"""Products of BCOO arrays, compared with NumPy on dense arrays."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from sparse.layouts import array_with_zeros, bcoo

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P
from xlafront.experimental import sparse
from xlafront.sharding import AxisType

M2 = array_with_zeros((4, 5), seed=1)
M3 = array_with_zeros((2, 3, 4))
M4 = array_with_zeros((2, 3, 4, 2), seed=3)


def contracted(x, y, numbers):
    """Compute `dot_general` by `einsum`."""
    (lc, rc), (lb, rb) = numbers
    letters = iter("abcdefghijklmnop")
    left, right = [next(letters) for _ in range(x.ndim)], [next(letters) for _ in range(y.ndim)]
    for i, j in zip((*lc, *lb), (*rc, *rb)):
        right[j] = left[i]
    out = [left[i] for i in lb] + [n for i, n in enumerate(left) if i not in (*lb, *lc)] + [
        n for i, n in enumerate(right) if i not in (*rb, *rc)]
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", x, y)


CASES = [(((2,), (2,)), ((0,), (0,))), (((2,), (2,)), ((), ())), (((1, 2), (1, 2)), ((), ())), (((0,), (0,)), ((), ())),
         (((), ()), ((0,), (0,))), (((2, 1), (2, 1)), ((0,), (0,))), (((1,), (1,)), ((), ()))]


@pytest.mark.parametrize("numbers", CASES, ids=str)
@pytest.mark.parametrize("n_batch, n_dense", [(1, 0), *[pytest.param(*pair, marks=pytest.mark.soak) for pair in (
    (0, 0), (2, 0), (1, 1))]])
def test_sparse_with_dense(numbers, n_batch, n_dense):
    (lc, _), (lb, _) = numbers
    other = array_with_zeros((2, 3, 4), seed=2)
    mat = bcoo(M3, n_batch, n_dense, more=1)
    if any(d >= n_batch for d in lb) or any(d >= 3 - n_dense for d in lc):
        with pytest.raises(NotImplementedError):
            sparse.bcoo_dot_general(mat, other, dimension_numbers=numbers)
        return
    expected = contracted(M3, other, numbers)
    np.testing.assert_allclose(sparse.bcoo_dot_general(mat, other, dimension_numbers=numbers), expected)
    expected = contracted(other, M3, numbers)
    np.testing.assert_allclose(sparse.bcoo_dot_general(other, mat, dimension_numbers=numbers), expected)


@pytest.mark.parametrize("numbers, n_batch", [
    ((((2,), (2,)), ((0,), (0,))), 1), ((((2,), (2,)), ((), ())), 0), ((((1, 2), (1, 2)), ((), ())), 0), ((((), ()), ((),
        ())), 0)],
    ids=str)
def test_sparse_with_sparse(numbers, n_batch):
    other = array_with_zeros((2, 3, 4), seed=2)
    found = sparse.bcoo_dot_general(bcoo(M3, n_batch, more=1), bcoo(other, n_batch), dimension_numbers=numbers)
    np.testing.assert_allclose(found.todense(), contracted(M3, other, numbers))


def test_scipy_computes_the_same():
    left = scipy.sparse.random(30, 40, 0.1, random_state=0, dtype="float32")
    right = scipy.sparse.random(40, 20, 0.1, random_state=1, dtype="float32")
    x, y = sparse.BCOO.from_scipy_sparse(left), sparse.BCOO.from_scipy_sparse(right)
    np.testing.assert_allclose((x @ y).todense(), (left @ right).todense(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x @ right.toarray(), (left @ right).todense(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(left.toarray() @ y, (left @ right).todense(), rtol=1e-5, atol=1e-6)


def test_dtypes_of_products():
    mat = bcoo(M2)
    for x, y, dtype in ((mat, np.ones(5, "int32"), "float32"), (mat.astype("int32"), np.ones(5, "float32"), "float32"),
                        (mat, np.ones(5, "complex64"), "complex64"), (mat.astype("float16"), np.ones(5, "float16"), "float16")):
        found = x @ y
        assert found.dtype == dtype
        np.testing.assert_allclose(found, M2.sum(1))
    numbers = (((1,), (0,)), ((), ()))
    found = sparse.bcoo_dot_general(mat.astype("float16"), np.ones(5, "float16"), dimension_numbers=numbers,
                                    preferred_element_type="float32")
    assert found.dtype == "float32"


def test_mismatched_shapes_raise():
    with pytest.raises(TypeError):
        bcoo(M2) @ np.ones(4)
    with pytest.raises(TypeError):
        bcoo(M2) @ bcoo(M2)
    with pytest.raises(ValueError):
        bcoo(M2) @ 2
    with pytest.raises(ValueError):
        sparse.bcoo_dot_general(bcoo(M3, 1), bcoo(M3, 1), dimension_numbers=(((2,), (2,)), ((), ())))


def test_gradients_are_those_of_dense_products():
    mat, y = bcoo(M2, more=1), array_with_zeros((5, 3), seed=4)
    weights = np.arange(12, dtype="float32").reshape(4, 3)

    def dense(m, y):
        return (xnp.sin(m @ y) * weights).sum()

    expected, other = xf.grad(dense, argnums=(0, 1))(M2, y)
    for transform in (lambda f: f, xf.jit):
        found, found_other = transform(sparse.grad(dense, argnums=(0, 1)))(mat, y)
        np.testing.assert_allclose(found.todense(), np.where(M2 != 0, expected, 0), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found_other, other, rtol=1e-4, atol=1e-4)
    xf.test_util.check_grads(lambda d, y: mat.with_data(d) @ y, (mat.data, y), 2, atol=1e-2, rtol=1e-2)
    square = bcoo(M2 @ M2.T)
    xf.test_util.check_grads(lambda d: (square.with_data(d) @ square).todense(), (square.data,), 1, atol=2e-1, rtol=1e-2)


def test_products_under_vmap():
    mat, ys = bcoo(M2), array_with_zeros((3, 5), seed=5)
    np.testing.assert_allclose(xf.vmap(lambda y: mat @ y)(ys), ys @ M2.T)
    data = np.stack([np.asarray(mat.data), 2 * np.asarray(mat.data)])
    np.testing.assert_allclose(xf.vmap(lambda d: mat.with_data(d) @ ys[0])(data), [M2 @ ys[0], 2 * M2 @ ys[0]])
    found = xf.vmap(lambda m, y: m @ y)(bcoo(M3, 1), np.ones((2, 4), "float32"))
    np.testing.assert_allclose(found, M3.sum(2))


@pytest.mark.parametrize("nse", [6, 300], ids=["few places", "many places"])
def test_sparse_and_dense_algorithms_agree(nse):
    """Few stored elements read rows; for many of them products of dense matrices are faster."""
    random = np.random.default_rng(nse)
    x, y, b = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 20, 3), (2, 3, 40), (2, 40, 3)))
    flat = [random.permutation(800)[:nse] for _ in range(2)]
    indices = np.stack(np.unravel_index(flat, (20, 40)), -1).astype(np.int32)
    indices[1, 0] = 20, 40  # padding
    inside = np.ones((2, nse), np.float32)
    inside[1, 0] = 0
    rows, columns = np.minimum(indices[..., 0], 19), np.minimum(indices[..., 1], 39)
    batch = np.arange(2)[:, None]
    numbers = (((2,), (1,)), ((0,), (0,)))

    @xf.jit
    def sampled(x, y, ct):
        found, pull = xf.vjp(lambda x, y: sparse.bcoo_dot_general_sampled(x, y, indices, dimension_numbers=numbers), x, y)
        return found, pull(ct)

    ct = random.integers(-3, 4, (2, nse)).astype(np.float32)
    dense_ct = np.zeros((2, 20, 40), np.float32)
    np.add.at(dense_ct, (np.broadcast_to(batch, rows.shape), rows, columns), ct * inside)
    found, (by_x, by_y) = sampled(x, y, ct)
    np.testing.assert_allclose(found, (x @ y)[batch, rows, columns] * inside)
    np.testing.assert_allclose(by_x, dense_ct @ y.transpose(0, 2, 1))
    np.testing.assert_allclose(by_y, x.transpose(0, 2, 1) @ dense_ct)

    @xf.jit
    def product(data, b, ct):
        def multiply(data, b):
            return sparse.bcoo_dot_general(sparse.BCOO((data, indices), shape=(2, 20, 40)), b, dimension_numbers=numbers)
        found, pull = xf.vjp(multiply, data, b)
        return found, pull(ct)

    ct = random.integers(-3, 4, (2, 20, 3)).astype(np.float32)
    data = random.integers(-3, 4, (2, nse)).astype(np.float32)
    mat = np.zeros((2, 20, 40), np.float32)
    np.add.at(mat, (np.broadcast_to(batch, rows.shape), rows, columns), data * inside)
    found, (by_data, by_b) = product(data, b, ct)
    np.testing.assert_allclose(found, mat @ b)
    np.testing.assert_allclose(by_data, (ct @ b.transpose(0, 2, 1))[batch, rows, columns] * inside)
    np.testing.assert_allclose(by_b, mat.transpose(0, 2, 1) @ ct)


def test_sampled_products():
    x, y = array_with_zeros((4, 3), seed=6), array_with_zeros((3, 5), seed=7)
    indices = bcoo(M2, more=1).indices
    numbers = (((1,), (0,)), ((), ()))
    found = sparse.bcoo_dot_general_sampled(x, y, indices, dimension_numbers=numbers)
    np.testing.assert_allclose(found, [*(x @ y)[M2 != 0], 0])
    found = sparse.bcoo_dot_general_sampled(x, y, indices[:, :1], dimension_numbers=numbers)
    np.testing.assert_allclose(found[:-1], (x @ y)[np.nonzero(M2)[0]])
    batched = sparse.bcoo_dot_general_sampled(M3, M3, bcoo(np.ones((2, 3, 3)), 1).indices,
                                              dimension_numbers=(((2,), (2,)), ((0,), (0,))))
    np.testing.assert_allclose(batched.reshape(2, 3, 3), M3 @ M3.swapaxes(1, 2))
    xf.test_util.check_grads(lambda x, y: sparse.bcoo_dot_general_sampled(x, y, indices, dimension_numbers=numbers), (x, y), 1,
                             atol=1e-1, rtol=1e-2)


def test_elementwise_products():
    mat = bcoo(M2, more=1)
    for other in (array_with_zeros((4, 5), seed=8), np.arange(5.), np.arange(4.)[:, None], np.float32(3)):
        found = mat * other
        assert found.nse == mat.nse and found.indices_sorted and found.unique_indices
        np.testing.assert_allclose(found.todense(), M2 * other)
        np.testing.assert_allclose((other * mat).todense(), M2 * other)
    for shape in ((4, 5), (1, 5), (4, 1), (5,)):
        other = array_with_zeros(shape, seed=9)
        np.testing.assert_allclose((mat * bcoo(other)).todense(), M2 * other)
    for n_batch, n_dense in itertools.product((0, 1), repeat=2):
        other = array_with_zeros((2, 3, 4), seed=9)
        found = sparse.bcoo_multiply_sparse(bcoo(M3, n_batch, n_dense), bcoo(other, n_batch, n_dense))
        np.testing.assert_allclose(found.todense(), M3 * other)
        np.testing.assert_allclose((bcoo(M3, n_batch, n_dense) * M3[0]).todense(), M3 * M3[0])
    with pytest.raises(NotImplementedError):
        sparse.bcoo_multiply_dense(mat, np.ones((3, 4, 5)))
    with pytest.raises(TypeError):
        sparse.bcoo_multiply_sparse(mat, bcoo(M3))


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(2, 1)]], ids=str)
def test_convolution(padding):
    x, kernel = array_with_zeros((1, 1, 9), seed=10), array_with_zeros((1, 1, 3), seed=11)
    before, after = {"SAME": (1, 1), "VALID": (0, 0)}.get(padding if isinstance(padding, str) else "", (2, 1))
    expected = np.correlate(np.pad(x[0, 0], (before, after)), kernel[0, 0])
    found = sparse.bcoo_conv_general_dilated(bcoo(x), bcoo(kernel), window_strides=(1,), padding=padding)
    np.testing.assert_allclose(found.todense()[0, 0], expected)


def test_convolutions_with_strides_raise():
    x = bcoo(array_with_zeros((1, 1, 9), seed=10))
    with pytest.raises(NotImplementedError):
        sparse.bcoo_conv_general_dilated(x, x, window_strides=(2,), padding="SAME")
    with pytest.raises(ValueError):
        sparse.bcoo_conv_general_dilated(bcoo(M4[:1]), bcoo(M4[:1]), window_strides=(1, 1), padding="SAME")


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype, by_kernel", [("float32", True), ("complex64", True), ("int32", True), ("bfloat16", False)])
def test_products_of_compressed_rows_by_kernel(dtype, by_kernel):
    dense, other = array_with_zeros((7, 5)), array_with_zeros((5, 4), seed=1)
    matrix = sparse.BCSR.fromdense(xnp.asarray(dense, dtype), nse=30)
    right = xnp.asarray(other, dtype)
    product = xf.jit(lambda m, x: m @ x)
    np.testing.assert_array_equal(np.asarray(product(matrix, right)).astype("complex64"), dense @ other)
    assert ("cpu_csr_sparse_dense_ffi" in product.lower(matrix, right).as_text()) == by_kernel
    if dtype == "float32":
        left, transposed = sparse.grad(lambda m, x: (m @ x).sum(), (0, 1))(matrix, right)
        np.testing.assert_allclose(transposed, dense.T @ np.ones((7, 4)), rtol=1e-6)
        np.testing.assert_allclose(left.todense(), np.where(dense, np.ones((7, 4)) @ other.T, 0), rtol=1e-6)
        exported = xf.export.export(product)(matrix, right)  # for machines that may not have the kernel
        np.testing.assert_array_equal(exported.call(matrix, right), dense @ other)


def test_csr_indices_out_of_bounds():
    """Row and column indices are not trusted: the kernel would read out of bounds."""
    matrix = sparse.BCSR((xnp.ones(3), xnp.array([0, 900_000_000, -5]), xnp.array([0, 100_000, 7, -9])), shape=(3, 5))
    product = np.asarray(matrix @ xnp.arange(10.0).reshape(5, 2))
    np.testing.assert_array_equal(product, [[0, 1], [0, 0], [0, 0]])


def test_padding_ignores_nan_and_inf():
    """Two rows of padding, with a matrix whose last row is not finite."""
    mat = sparse.BCOO((xnp.array([1.0, 2.0, 0.0, 0.0]), xnp.array([[0, 0], [1, 0], [2, 2], [2, 2]])), shape=(2, 2))
    other = np.array([[1.0, 2.0], [np.inf, np.nan]], np.float32)
    np.testing.assert_array_equal(mat @ other, [[1, 2], [2, 4]])
    data = xf.grad(lambda d: (sparse.BCOO((d, mat.indices), shape=(2, 2)) @ other).sum())(mat.data)
    np.testing.assert_array_equal(data, [3, 3, 0, 0])


def test_boolean_products_stay_boolean():
    positions = np.zeros((0, 1), np.int32)
    found = sparse.bcoo_dot_general_sampled(np.ones((4, 1), bool), np.ones(4, bool), positions,
                                            dimension_numbers=(((0,), (0,)), ((), ())))
    assert found.dtype == bool and found.shape == (0,)


@pytest.mark.parametrize("nse", [6, 3000])  # by jaxlib's kernel, and by adding up rows
@pytest.mark.parametrize("columns", [(), (3,)])
def test_bcsr_elements_out_of_bounds_are_ignored(nse, columns):
    rng = np.random.default_rng(nse)
    data, indices = rng.integers(1, 9, nse).astype("float32"), rng.integers(-3, 9, nse)
    starts = np.sort(rng.integers(0, nse + 1, 5))
    starts[0], other = 0, rng.integers(1, 9, (6, *columns)).astype("float32")
    expected = np.zeros((4, *columns), "float32")
    for row in range(4):
        for k in range(starts[row], starts[row + 1]):
            if 0 <= indices[k] < 6:
                expected[row] += data[k] * other[indices[k]]
    matrix = sparse.BCSR((data, indices, starts), shape=(4, 6))
    np.testing.assert_array_equal(xf.jit(lambda m, x: m @ x)(matrix, other), expected)


@pytest.mark.parametrize("dense", [M2[0], M2[:, :1], M2[:1], M2], ids=str)
def test_products_with_broadcast_operands_preserve_indices(dense):
    mat = bcoo(M2, more=2)
    for found in (mat * dense, xnp.asarray(dense) * mat, xf.jit(lambda m, d: m * d)(mat, dense)):
        np.testing.assert_array_equal(found.todense(), M2 * dense)
        np.testing.assert_array_equal(found.indices, mat.indices)
        assert (found.indices_sorted, found.unique_indices) == (mat.indices_sorted, mat.unique_indices)


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
def test_dense_products_have_the_requested_sharding(wrap):
    mesh = xf.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
    m, y, rows = np.eye(8, 4, dtype="float32") * 3, np.arange(4, dtype="float32"), NamedSharding(mesh, P("x"))
    numbers, coordinates = (((1,), (0,)), ((), ())), bcoo(m)
    for multiply, mat in ((sparse.bcoo_dot_general, coordinates), (sparse.bcsr_dot_general, sparse.BCSR.fromdense(m))):
        found = wrap(lambda y: multiply(mat, y, dimension_numbers=numbers, out_sharding=rows))(y)  # noqa: B023
        np.testing.assert_array_equal(found, m @ y)
        assert found.sharding.spec == P("x")
    found = wrap(lambda y: sparse.bcoo_dot_general(
        y, coordinates, dimension_numbers=(((0,), (1,)), ((), ())), out_sharding=rows))(y)
    assert found.sharding.spec == P("x") and found.tolist() == (m @ y).tolist()


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit])
def test_shardings_of_sparse_results_have_no_effect(wrap):
    mesh = xf.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
    m, rows = np.eye(8, 4, dtype="float32") * 3, NamedSharding(mesh, P("x"))
    found = wrap(lambda x, y: sparse.bcoo_dot_general(x, y, dimension_numbers=(((1,), (0,)), ((), ())), out_sharding=rows))(
        bcoo(m), bcoo(m.T))
    np.testing.assert_array_equal(found.todense(), m @ m.T)
    for found, expected in (
            (wrap(lambda x: sparse.bcoo_reshape(x, new_sizes=(4, 8), sharding=rows))(bcoo(m)), m.reshape(4, 8)),
            (wrap(lambda x: sparse.bcoo_broadcast_in_dim(x, shape=(2, 8, 4), broadcast_dimensions=(1, 2), sharding=rows))(
                bcoo(m)), np.broadcast_to(m, (2, 8, 4)))):
        np.testing.assert_array_equal(found.todense(), expected)
    x, kernel = np.arange(8, dtype="float32").reshape(1, 1, 8), np.ones((1, 1, 1), "float32")

    def convolve(spec):
        return wrap(lambda x, y: sparse.bcoo_conv_general_dilated(
            x, y, window_strides=(1,), padding="VALID", out_sharding=NamedSharding(mesh, spec)))(bcoo(x), bcoo(kernel))

    np.testing.assert_array_equal(convolve(P(None, None, "x")).todense(), x)
    with pytest.raises(ValueError, match="x"):
        convolve(P("x"))
