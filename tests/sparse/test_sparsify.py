"""Sparsified functions, compared with the functions of dense arrays."""

import numpy as np
import pytest
from sparse.layouts import array_with_zeros, bcoo

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, nn
from xlafront.experimental import sparse

M = array_with_zeros((4, 5), seed=1)
SPARSE = {
    "sin": xnp.sin, "negative": lambda x: -x, "abs": xnp.abs, "astype": lambda x: x.astype("int32"), "power": lambda x: x ** 3,
    "square": xnp.square, "sqrt": xnp.sqrt, "twice": lambda x: x + x, "nothing": lambda x: x - x, "product": lambda x: x * x,
    "scaled": lambda x: 2 * x / 3, "transposed": lambda x: x.T, "sum": lambda x: x.sum(0), "keepdims": lambda x: x.sum(1,
        keepdims=True),
    "reshape": lambda x: x.reshape(2, 10), "stack": lambda x: xnp.stack([x, x]), "roll": lambda x: xnp.roll(x, 1, 0),
    "concatenate": lambda x: xnp.concatenate([x, 2 * x], 1), "part": lambda x: x[1:3, ::2], "new": lambda x: x[:, None],
    "broadcast": lambda x: xnp.broadcast_to(x, (3, 4, 5)), "jit": xf.jit(lambda x: x * 2), "matmul": lambda x: x @ x.T,
    "cond": lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + x, x), "custom": lambda x: nn.relu(x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), "gradient": xf.grad(lambda x: (x ** 2).sum()),
    "while": lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2, c[1] + 1), (x, 0))[0],
    "split": lambda x: xnp.split(x, 2)[1], "rows": lambda x: [row * (i + 1) for i, row in enumerate(x)][2], "mapped": xf.vmap(lambda row: row * 3),
    "outer": lambda x: xnp.outer(x[0], x[1]), "steps": lambda x: lax.scan(lambda c, y: (c, x * y), 0., xnp.arange(3.))[1],
}
DENSE = {
    "sums of rows": lambda x: [row.sum() for row in x][2], "length": len,
    "mean": lambda x: x.mean(), "todense": lambda x: sparse.todense(x) + 1, "matmul": lambda x: x @ M.T,
        "vecmat": lambda x: M[:, 0] @ x,
    "add": lambda x: x + M, "subtract": lambda x: M - x, "einsum": lambda x: xnp.einsum("ij,kj->ik", x, M),
    "norm": xnp.linalg.norm, "scan": lambda x: lax.scan(lambda c, y: (c + (x * y).sum(), y), 0., xnp.arange(3.))[0],
}


@pytest.mark.parametrize("use_tracer", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", SPARSE)
def test_results_are_sparse(name, use_tracer):
    found = sparse.sparsify(SPARSE[name], use_tracer)(bcoo(M, more=1))
    assert isinstance(found, sparse.BCOO)
    expected = SPARSE[name](xnp.asarray(M))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found.todense(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", DENSE)
def test_results_are_dense(name):
    found = sparse.sparsify(DENSE[name])(bcoo(M, more=1))
    assert isinstance(found, xf.Array)
    np.testing.assert_allclose(found, DENSE[name](xnp.asarray(M)), rtol=1e-5)


@pytest.mark.parametrize("function", [xnp.cos, xnp.exp, lambda x: x + 1, lambda x: 1 / x, lambda x: x > 0, lambda x: x ** 2.5,
                                      lambda x: x ** 0, lambda x: x.max(), lambda x: x.at[0].set(0)], ids=list("abcdefghi"))
def test_operations_with_dense_results_raise(function):
    for use_tracer in (False, True):
        with pytest.raises(NotImplementedError):
            sparse.sparsify(function, use_tracer)(bcoo(M))


def test_operators():
    mat, other = bcoo(M), bcoo(2 * M)
    for found, expected in ((mat + other, 3 * M), (mat - other, -M), (3 * mat, 3 * M), (mat / 2, M / 2), (-mat, -M), (+mat, M),
                            (abs(mat), M), (mat ** 2, M ** 2), (mat * M, M * M), (mat.astype(int), M)):
        assert isinstance(found, sparse.BCOO)
        np.testing.assert_allclose(found.todense(), expected)
    np.testing.assert_allclose(M + mat, 2 * M)
    np.testing.assert_allclose(np.ones(4) @ mat, M.sum(0))
    assert (mat + other).nse == 2 * mat.nse and mat.sum().shape == () and float(mat.sum(dtype=int)) == M.sum()
    for refused in (lambda: mat + 1, lambda: mat == mat, lambda: 1 / mat, lambda: 2 ** mat, lambda: bcoo(M, 1) + mat):
        with pytest.raises(NotImplementedError):
            refused()


def test_bcsr_results_stay_bcsr():
    mat = sparse.BCSR.fromdense(M)
    for function in (lambda x: -x, xnp.sin, lambda x: xnp.concatenate([x, x]), lambda x: x[None]):
        found = sparse.sparsify(function)(mat)
        assert isinstance(found, sparse.BCSR)
        np.testing.assert_allclose(found.todense(), function(xnp.asarray(M)), rtol=1e-6)
    with pytest.raises(NotImplementedError):
        sparse.sparsify(lambda x: x * 2)(mat)


def test_sparsify_under_transformations():
    mat = bcoo(M)
    double = sparse.sparsify(lambda x, y: {"sum": (x * y).sum(), "x": x})
    found = xf.jit(double)(mat, 2.)
    assert float(found["sum"]) == 2 * M.sum() and isinstance(found["x"], sparse.BCOO)
    np.testing.assert_allclose(xf.grad(lambda d: double(mat.with_data(d), 2.)["sum"])(mat.data), [2] * mat.nse)
    assert repr(sparse.sparsify(lambda x: x, True)(mat)) == repr(mat)


def test_values_of_an_environment():
    matrix = np.array([[1, 0], [0, 2]], np.float32)
    env = sparse.transform.SparsifyEnv()
    given = {"dense": matrix, "bcoo": sparse.BCOO.fromdense(matrix), "bcsr": sparse.BCSR.fromdense(matrix)}
    values = sparse.transform.arrays_to_spvalues(env, given)
    assert [v.is_dense() for v in values.values()] == [False, False, True] and values["bcsr"].is_bcsr()
    assert values["bcoo"] == ((2, 2), 0, 1, None, True, True) and values["bcoo"].ndim == 2
    back = sparse.transform.spvalues_to_arrays(env, values)
    assert [type(x).__name__ for x in back.values()] == ["BCOO", "BCSR", "ArrayImpl"]
    assert str(sparse.transform.spvalues_to_avals(env, values["bcsr"])) == "float32[2,2]"
    [value], structure = sparse.transform.sparsify_raw(lambda x: xnp.sin(x))(env, values["bcoo"])
    assert structure.num_leaves == 1 and value.is_bcoo()
    np.testing.assert_allclose(sparse.transform.spvalues_to_arrays(env, value).todense(), np.sin(matrix), rtol=1e-6)
    with pytest.raises(RuntimeError, match="indptr"):
        env.indptr(values["bcoo"])


def test_functions_of_repeated_indices():
    """Elements with equal indices are added before a function that is not linear."""
    x = sparse.BCSR((xnp.array([1.0, 2.0, 3.0]), xnp.array([0, 0, 1]), xnp.array([0, 2, 3])), shape=(2, 2))
    for function in (xnp.sin, lambda x: x ** 2, lax.bessel_i1e):
        np.testing.assert_allclose(sparse.sparsify(function)(x).todense(), function(3 * np.eye(2, dtype=np.float32)), rtol=1e-6)


def test_functions_with_custom_derivatives_under_tracers():
    square = xf.custom_jvp(lambda x: x ** 2)
    square.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * tangents[0] * primals[0]))
    x = sparse.BCOO.fromdense(xnp.arange(3.0))
    assert sparse.sparsify(square, use_tracer=True)(x).todense().tolist() == [0, 1, 4]
    assert sparse.sparsify(square, use_tracer=True)(xnp.arange(3.0)).tolist() == [0, 1, 4]


def test_all_arguments_are_tracers_with_use_tracer():
    seen = []
    sparse.sparsify(lambda *xs: seen.extend(isinstance(x, sparse.SparseTracer) for x in xs), use_tracer=True)(
        xnp.arange(5), sparse.BCOO.fromdense(xnp.arange(5)))
    assert seen == [True, True]


def test_quotients_of_integers():
    """Quotients by a number are rounded towards zero; the elements of an array have no reciprocals."""
    x = np.array([[7, 0], [0, -7]])
    np.testing.assert_array_equal(sparse.sparsify(lambda x: lax.div(x, 2))(bcoo(x)).todense(), [[3, 0], [0, -3]])
    with pytest.raises(TypeError, match="reciprocals.*astype"):
        sparse.sparsify(lambda x: lax.div(x, xnp.full((2, 2), 2)))(bcoo(x))
