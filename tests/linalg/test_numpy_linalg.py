"""`xlafront.numpy.linalg` against NumPy, and against the equations that define its results."""

import numpy as np
import pytest
from laws import check_batching, check_derivatives
from matrices import DTYPES, random, wide as wide

import xlafront as xf
import xlafront.numpy as xnp

linalg = xnp.linalg
theirs = np.linalg


def near(ours, expected, dtype="float64", factor=1):
    tolerance = factor * (1e-4 if dtype in ("float32", "complex64") else 1e-10)
    for x, y in zip(xf.tree.leaves(ours), xf.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)
        assert x.dtype == np.asarray(y).dtype


def positive(x):
    return x @ x.conj().mT + 3 * np.eye(x.shape[-1], dtype=x.dtype)


# What NumPy has under the same name: a call for each way to use it, with a matrix that suits it.
SAME = {
    "solve": [lambda m, a: m.solve(a, a[..., :2]), lambda m, a: m.solve(a[0, 0], a[0, 0, :, 0]),
              lambda m, a: m.solve(a[0, 0], a), lambda m, a: m.solve(a, a[0, 0])],
    "inv": [lambda m, a: m.inv(a)], "det": [lambda m, a, n=n: m.det(a[..., :n, :n]) for n in range(5)],
    "slogdet": [lambda m, a: tuple(m.slogdet(a)), lambda m, a: tuple(m.slogdet(a[0, 0]))],
    "cholesky": [lambda m, a: m.cholesky(positive(a)), lambda m, a: m.cholesky(positive(a), upper=True)],
    "eigvalsh": [lambda m, a: m.eigvalsh(positive(a)), lambda m, a: m.eigvalsh(positive(a), "U")],
    "svdvals": [lambda m, a: m.svdvals(a[..., :3]), lambda m, a: m.svd(a, compute_uv=False),
                lambda m, a: m.svd(a + a.conj().mT, compute_uv=False, hermitian=True)],
    "pinv": [lambda m, a: m.pinv(a[..., :2]), lambda m, a: m.pinv(a[..., :2, :]), lambda m, a: m.pinv(a, rtol=0.3),
             lambda m, a: m.pinv(a + a.conj().mT, hermitian=True), lambda m, a: m.pinv(a[..., :0])],
    "norm": [*[lambda m, a, o=o: m.norm(a[0, 0, 0], o) for o in (None, 0, 1, 2, -1, -2, 3, np.inf, -np.inf)],
             *[lambda m, a, o=o: m.norm(a[..., :3], o, (-2, -1)) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
             lambda m, a: m.norm(a), lambda m, a: m.norm(a, keepdims=True), lambda m, a: m.norm(a, 2, (1, 3), True),
             lambda m, a: m.norm(a, axis=1), lambda m, a: m.norm(a, "nuc", (3, 0), True)],
    "vector_norm": [lambda m, a: m.vector_norm(a), lambda m, a: m.vector_norm(a, axis=(0, 2), ord=3, keepdims=True)],
    "matrix_norm": [lambda m, a: m.matrix_norm(a), lambda m, a: m.matrix_norm(a, ord="nuc", keepdims=True)],
    "cond": [lambda m, a, p=p: m.cond(a, p) for p in (None, 1, -1, 2, -2, "fro", "nuc", np.inf, -np.inf)]
    + [lambda m, a: m.cond(a[..., :2])],
    "matrix_power": [lambda m, a, n=n: m.matrix_power(a, n) for n in (0, 1, 2, 5, -1, -3)],
    "multi_dot": [lambda m, a: m.multi_dot([a[0, 0], a[0, 1], a[1, 0], a[1, 1]]),
                  lambda m, a: m.multi_dot([a[0, 0, 0], a[0, 1], a[1, 0][:, :2]]),
                  lambda m, a: m.multi_dot([a[0, 0, 0], a[0, 1], a[0, 0, 1]])],
    "tensorinv": [lambda m, a: m.tensorinv(a[0, 0].reshape(2, 2, 4), 2)],
    "tensorsolve": [lambda m, a: m.tensorsolve(a[0, 0].reshape(2, 2, 4), a[0, 1, :2, :2]),
                    lambda m, a: m.tensorsolve(a[0, 0].reshape(4, 2, 2), a[0, 1, :2, :2].reshape(2, 2), axes=(0,))],
    "diagonal": [lambda m, a: m.diagonal(a, offset=1)], "trace": [lambda m, a: m.trace(a), lambda m, a: m.trace(a, offset=-1)],
    "outer": [lambda m, a: m.outer(a[0, 0, 0], a[0, 0, 1])], "vecdot": [lambda m, a: m.vecdot(a, a[:1], axis=1)],
    "cross": [lambda m, a: m.cross(a[..., :3], a[..., 1:])], "matmul": [lambda m, a: m.matmul(a, a)],
    "tensordot": [lambda m, a: m.tensordot(a, a, axes=([0, 3], [1, 2]))], "matrix_transpose": [lambda m, a: m.matrix_transpose(a)],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SAME)
def test_functions_match_numpy(name, dtype, rng):
    a = random(rng, (2, 2, 4, 4), dtype) + np.asarray(2, dtype) * np.eye(4, dtype=dtype)
    for call in SAME[name]:
        near(call(linalg, a), call(theirs, a), dtype, 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_decompositions_by_their_equations(rng, dtype):
    a = random(rng, (2, 4, 3), dtype)
    for mode, rows in (("reduced", 3), ("complete", 4)):
        q, r = linalg.qr(a, mode)
        assert q.shape == (2, 4, rows) and r.shape == (2, rows, 3)
        near(np.asarray(q) @ np.asarray(r), a, dtype)
        near(linalg.qr(a, "r"), linalg.qr(a).R, dtype)
    h, tau = linalg.qr(a, "raw")
    assert h.shape == (2, 3, 4) and tau.shape == (2, 3)
    u, s, vh = linalg.svd(a, full_matrices=False)
    near(np.asarray(u) * np.asarray(s)[:, None] @ np.asarray(vh), a, dtype)
    assert linalg.svd(a).U.shape == (2, 4, 4)
    square = a[:, :3]
    w, v = linalg.eigh(square)
    near(np.asarray(v) * np.asarray(w)[:, None] @ np.asarray(v).conj().mT, (square + square.conj().mT) / 2, dtype)
    only_upper = linalg.eigh(np.triu(positive(square)), "U", symmetrize_input=False)
    near(only_upper.eigenvalues, theirs.eigvalsh(positive(square)), dtype, 10)
    u, s, vh = linalg.svd(square + square.conj().mT, hermitian=True)
    near(np.asarray(u) * np.asarray(s)[:, None] @ np.asarray(vh), square + square.conj().mT, dtype)
    assert np.all(np.diff(np.asarray(s)) <= 0) and np.all(np.asarray(s) >= 0)
    w, v = map(np.asarray, linalg.eig(square))
    near(square @ v, v * w[:, None], dtype="complex64" if dtype in ("float32", "complex64") else "complex128")
    near(np.sort_complex(linalg.eigvals(square)[0]), np.sort_complex(w[0]), dtype)
    for method in ("lu", "qr"):
        sign, size = map(np.asarray, linalg.slogdet(square, method=method))
        near(sign * np.exp(size), theirs.det(square), dtype)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_the_lower_triangle(upper, rng):
    matrix = positive(random(rng, (3, 3)))
    read = np.tril(matrix) + 100 * np.triu(np.ones((3, 3)), 1)
    factor = theirs.cholesky(matrix)
    near(linalg.cholesky(read, upper=upper, symmetrize_input=False), factor.T if upper else factor)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_least_squares(shape, columns, rng):
    a, b = random(rng, shape), random(rng, (shape[0], *columns))
    x, rest, rank, s = linalg.lstsq(a, b)
    expected = theirs.lstsq(a, b)
    near(x, expected[0])
    near(s, expected[3])
    assert int(rank) == expected[2] and rest.shape == (columns or (1,))
    near(rest, np.sum((b - a @ expected[0]) ** 2, 0).reshape(rest.shape))
    near(linalg.lstsq(a, b, numpy_resid=True)[1], expected[1])
    a[:, 0] = a[:, 1]
    assert int(linalg.lstsq(a, b)[2]) == theirs.lstsq(a, b)[2]
    near(linalg.lstsq(a, b)[0], theirs.lstsq(a, b)[0])


def test_singular_matrices(rng):
    a = random(rng, (4, 4))
    a[3] = a[0] - a[1]
    u, s, vh = theirs.svd(a)
    adjugate = theirs.det(u) * theirs.det(vh) * (vh.T @ np.diag([np.prod(np.delete(s, i)) for i in range(4)]) @ u.T)
    near(xf.grad(linalg.det)(a), adjugate.T, factor=1e3)
    near(xf.grad(linalg.det)(np.diag([2.0, 0.0, 3.0, 5.0])), np.diag([0, 30.0, 0, 0]))
    near(xf.grad(linalg.det)(np.diag([2.0, 0.0, 3.0, 0.0])), np.zeros((4, 4)))
    assert [float(v) for v in linalg.slogdet(np.zeros((2, 2)))] == [0.0, -np.inf]
    for dtype in ("float16", "bfloat16"):
        small = xnp.array([[0.1, 0.2], [0.3, 0.4]], dtype)
        sign, size = linalg.slogdet(small)
        assert sign == -1 and sign.dtype == size.dtype == dtype and abs(float(size) - np.log(0.02)) < 0.05
        assert [float(v) for v in linalg.slogdet(small[:1, :1] * 0)] == [0.0, -np.inf]
    assert not np.isfinite(linalg.inv(np.zeros((2, 2)))).any()
    assert linalg.cond(np.array([[1.0, 1.0], [1.0, 1.0]]), 1) == linalg.cond(np.zeros((2, 2))) == np.inf
    assert np.isnan(linalg.cond(np.array([[1.0, np.nan], [1.0, 1.0]]), 1))
    ranks = [linalg.matrix_rank(x) for x in (np.ones((3, 3)), np.eye(3), np.zeros((2, 3)), np.ones(3), np.float64(0))]
    assert [int(r) for r in ranks] == [1, 3, 0, 1, 0]
    assert linalg.matrix_rank(np.diag([1.0, 0.1, 0.01]), rtol=0.05) == 2 == linalg.matrix_rank(np.diag([1.0, 0.1, 0.01]), tol=0.05)
    assert linalg.matrix_rank(np.diag([1.0, -1.0, 0.0]), hermitian=True) == 2


def test_integer_and_small_dtypes():
    assert linalg.solve(np.array([[2, 0], [0, 4]]), np.array([2, 8])).dtype == np.float64
    assert linalg.matrix_power(np.array([[1, 1], [0, 1]]), 5).dtype == np.int64
    with xf.enable_x64(False):
        assert linalg.inv(np.eye(2, dtype=np.int32)).dtype == np.float32
        assert linalg.det(xnp.eye(3, dtype=int)).dtype == np.float32


def shifted(x):
    return x + 3 * xnp.eye(x.shape[-1])


DERIVATIVES = {
    "solve": (lambda a, b: linalg.solve(shifted(a), b), [(2, 3, 3), (2, 3, 2)]),
    "solve for a vector": (lambda a, b: linalg.solve(shifted(a), b), [(3, 3), (3,)]),
    "inv": (lambda a: linalg.inv(shifted(a)), [(3, 3)]), "det": (linalg.det, [(2, 4, 4)]), "small det": (linalg.det, [(3, 3)]),
    "slogdet": (lambda a: linalg.slogdet(a)[1], [(4, 4)]), "slogdet by qr": (lambda a: linalg.slogdet(a, method="qr")[1], [(3, 3)]),
    "pinv": (linalg.pinv, [(2, 4, 3)]), "pinv wide": (linalg.pinv, [(2, 3)]),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[0], [(4, 2), (4,)]), "norm": (linalg.norm, [(3, 2)]),
    "nuclear norm": (lambda a: linalg.norm(a, "nuc"), [(3, 2)]), "norm 3": (lambda a: linalg.norm(a, 3), [(4,)]),
    "spectral norm": (lambda a: linalg.norm(a, 2), [(3, 3)]), "cond": (linalg.cond, [(3, 3)]),
    "matrix_power": (lambda a: linalg.matrix_power(a, 3), [(3, 3)]),
    "hermitian svd": (lambda a: linalg.svd(a + a.T, hermitian=True, compute_uv=False), [(3, 3)]),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_match_differences(name, rng):
    f, shapes = DERIVATIVES[name]
    check_derivatives(f, [rng.normal(size=s) for s in shapes], rng, 1e-4)


def test_second_derivatives_match_differences(rng):
    a = rng.normal(size=(4, 4))
    for f in (linalg.det, lambda x: linalg.slogdet(x)[1], lambda x: xnp.sum(linalg.inv(shifted(x)) ** 2)):
        check_derivatives(xf.grad(f), [a], rng, 1e-3)
    b = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))  # of complex matrices: the sign turns
    turn = 1e-6 * rng.normal(size=(4, 4))
    _, (moved, _) = xf.jvp(lambda x: tuple(linalg.slogdet(x)), (b,), (turn.astype(complex),))
    near(np.asarray(moved) / 1e-6, (theirs.slogdet(b + turn)[0] - theirs.slogdet(b)[0]) / 1e-6, "complex64")


@pytest.mark.parametrize("name", ["solve", "inv", "det", "pinv"])
def test_vmap_equals_a_loop(name, rng):
    a = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    args = (a, rng.normal(size=3)) if name == "solve" else (a,)
    check_batching(getattr(linalg, name), args)


def test_solve_and_derivatives_share_one_factorization(rng):
    a, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    text = xf.jit(xf.value_and_grad(lambda a, b: xnp.sum(linalg.solve(a, b) ** 2), argnums=(0, 1))).lower(a, b).as_text()
    assert text.count("getrf_ffi") == 1
    text = xf.jit(xf.value_and_grad(lambda a: linalg.slogdet(a)[1])).lower(a).as_text()
    assert text.count("getrf_ffi") == 1


@pytest.mark.parametrize("shape", [(0, 0), (0, 4, 4)])
def test_empty_matrices(shape):
    x = np.zeros(shape, np.float32)
    for name in ("inv", "det", "diagonal", "trace"):
        near(getattr(linalg, name)(x), getattr(theirs, name)(x), "float32")
    near(linalg.slogdet(x)[1], theirs.slogdet(x)[1], "float32")
    near(linalg.solve(x, x), theirs.solve(x, x), "float32")


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: linalg.solve(np.ones((3, 2)), np.ones(3)), ValueError, r"solve.*square.*\(3, 2\)"),
    (lambda: linalg.solve(np.eye(3), np.ones(2)), ValueError, r"a \(3, 3\), b \(2,\)"),
    (lambda: linalg.solve(np.ones((2, 3, 3)), np.ones((2, 3))), ValueError, r"b\[\.\.\., None\]"),
    (lambda: linalg.inv(np.ones((3, 2))), ValueError, r"inv takes square matrices.*\(3, 2\)"),
    (lambda: linalg.det(np.ones(3)), ValueError, r"det takes a matrix.*\(3,\)"),
    (lambda: linalg.inv([[1.0]]), TypeError, "inv"),
    (lambda: linalg.inv(xnp.eye(2, dtype="bfloat16")), TypeError, "bfloat16.*astype"),
    (lambda: linalg.norm(np.ones((2, 2, 2)), 2), ValueError, r"axis=\(0, 1, 2\)"),
    (lambda: linalg.norm(np.ones(3), "fro"), ValueError, "'fro'.*vectors"),
    (lambda: linalg.norm(np.eye(3), 3), ValueError, "3 is no order.*matrices"),
    (lambda: linalg.norm(np.eye(3), axis=5), ValueError, "axis=5"),
    (lambda: linalg.qr(np.eye(3), "economic"), ValueError, "economic"),
    (lambda: linalg.eigh(np.eye(3), "x"), ValueError, "UPLO"),
    (lambda: linalg.slogdet(np.eye(3), method="x"), ValueError, "'x'"),
    (lambda: linalg.cond(np.ones((0, 0))), ValueError, r"cond.*\(0, 0\).*no condition number"),
    (lambda: linalg.eigh(np.ones((3, 2))), ValueError, r"eigh takes square matrices.*\(3, 2\)"),
    (lambda: linalg.cond(np.ones((3, 2)), 1), ValueError, r"p=1.*\(3, 2\)"),
    (lambda: linalg.matrix_power(np.eye(3), 2.0), TypeError, "integer.*2.0"),
    (lambda: linalg.multi_dot([np.eye(3)]), ValueError, "two or more"),
    (lambda: linalg.lstsq(np.ones((4, 2)), np.ones(3)), ValueError, r"\(4, 2\) and \(3,\)"),
    (lambda: linalg.pinv(np.eye(3), 0.1, rcond=0.1), ValueError, "rtol or rcond"),
    (lambda: linalg.outer(np.eye(3), np.eye(3)), ValueError, "two vectors"),
    (lambda: linalg.cross(np.ones(2), np.ones(2)), ValueError, "three elements"),
    (lambda: linalg.tensorinv(np.ones((2, 3, 4)), 2), ValueError, "6 rows and 4 columns"),
    (lambda: linalg.tensorsolve(np.ones((2, 3, 6)), np.ones((3, 2))), ValueError, r"\(2, 3\).*\(3, 2\)"),
])
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()


A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]], np.float32)
C = (A[::-1] * np.array([1, -1, 2]) + 1j * A).astype(np.complex64)
H = (A + 1j * (C.real - C.real.T)).astype(np.complex64)
LINALG = xf.lax.linalg
STRICT = {
    "slogdet": lambda x: xnp.linalg.slogdet(x)[1],
    "sign": lambda x: xnp.abs(1 - xnp.linalg.slogdet(x)[0]) ** 2,
    "lstsq": lambda x: xnp.linalg.lstsq(x, x[:, 0] + 1)[0],
    "svd": lambda x: xnp.abs(xnp.linalg.svd(x[:, :2])[0]),
    "wide svd": lambda x: xnp.abs(xnp.linalg.svd(x[:2])[2]),
    "eigh": lambda x: xnp.abs(xnp.linalg.eigh(x)[1]),
    "eigvalsh": xnp.linalg.eigvalsh,
    "qr": lambda x: xnp.abs(xnp.linalg.qr(x)[0]),
    "nuc": lambda x: xnp.linalg.norm(x, "nuc"),
    "cond": xnp.linalg.cond,
    "pinv": xnp.linalg.pinv,
    "eig": lambda x: xnp.abs(LINALG.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)[1]),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict_promotion(name):
    def total(x):
        return xnp.sum(xnp.abs(STRICT[name](x)))

    for x in (A, H):
        with xf.numpy_rank_promotion("allow"):
            expected, gradient = xf.value_and_grad(total)(x)
        with xf.numpy_dtype_promotion("strict"), xf.numpy_rank_promotion("raise"):
            value, strict = xf.value_and_grad(total)(xnp.asarray(x))
        assert value == expected and np.allclose(strict, gradient, rtol=1e-5, equal_nan=True)
        assert bool(xnp.isfinite(strict).all())
    with xf.numpy_dtype_promotion("strict"):
        assert xf.hessian(total)(xnp.asarray(A)).shape == (3, 3, 3, 3)


@pytest.mark.parametrize("entry", [1e-30, 1.1754944e-38, 1e30, -2.0, 3e-20j])
def test_qdwh_of_any_size(entry):
    x = np.array([[entry]], np.complex64 if entry.imag else np.float32)
    with xf.numpy_dtype_promotion("strict"), xf.numpy_rank_promotion("raise"):
        u, h, *_ = LINALG.qdwh(xnp.asarray(x), dynamic_shape=(1, 1))
    np.testing.assert_allclose(np.asarray(u), x / abs(x), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(h), abs(x), rtol=1e-6)


def test_matrix_rank_and_integers():
    for f in (xnp.linalg.svd, xnp.linalg.svdvals, xnp.linalg.qr, xnp.linalg.eig, xnp.linalg.eigvals):
        with pytest.raises(TypeError, match="matrix"):
            f(np.ones(3))
    integers = np.array([[2, -1], [1, 3]])
    for order, expected in ((1, 7), (np.inf, 3), (-np.inf, 1)):
        found = xnp.linalg.vector_norm(integers, ord=order)
        assert found.dtype == xnp.asarray(integers).dtype and found == expected
    tall = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    limits = (0.3, 1.0, 11.0)
    expected = [int(np.sum(np.linalg.svd(tall)[1] > limit)) for limit in limits]
    assert [int(xnp.linalg.matrix_rank(tall, rtol=limit)) for limit in limits] == expected == [2, 1, 0]


def test_slogdet_of_small_matrices():
    """Matrices of size 1 and 2 are factored without a kernel, and without overflow in products of elements."""
    rng = np.random.default_rng(3)
    for n in (1, 2):
        for dtype in (np.float32, np.complex64):
            a = rng.normal(size=(9, n, n)).astype(dtype) + (1j * rng.normal(size=(9, n, n)) if dtype == np.complex64 else 0)
            for ours, theirs in zip(xnp.linalg.slogdet(a.astype(dtype)), np.linalg.slogdet(a)):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    large = np.array([[1e30, 2e30], [3e30, 1e30]], np.float32)
    assert xnp.linalg.slogdet(large).sign == -1
    np.testing.assert_allclose(xnp.linalg.slogdet(large).logabsdet, np.log(5) + 60 * np.log(10), rtol=1e-6)
    assert xnp.linalg.slogdet(np.zeros((2, 2))) == (0, -np.inf)
    a = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    np.testing.assert_allclose(xf.grad(lambda a: xnp.linalg.slogdet(a).logabsdet)(a), np.linalg.inv(a).T, rtol=1e-5)


def test_vander_derivative_at_zero():
    slopes = xf.jacfwd(lambda x: xnp.vander(x, 3, increasing=True))(np.zeros(1, np.float32))
    assert slopes[0, :, 0].tolist() == [0, 1, 0]
    with pytest.raises(TypeError, match="booleans"):
        xnp.vander(np.array([True, False]))


@pytest.mark.parametrize("shape", [(100_000, 2), (2, 100_000)])
def test_derivative_of_pinv_forms_no_large_square_matrix(shape):
    a, t = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    with xf.enable_x64(True):
        a, t = a.astype(np.float64), t.astype(np.float64)
        value, tangent = xf.jvp(xnp.linalg.pinv, (a,), (t,))
        step = 1e-5
        np.testing.assert_allclose(tangent, (np.linalg.pinv(a + step * t) - np.linalg.pinv(a - step * t)) / (2 * step), atol=1e-10)
