"""`scipy.linalg` against SciPy: values in float64, batches, derivatives, and bad input."""

import numpy as np
import pytest
import scipy.linalg as theirs

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.linalg as ours

RNG = np.random.default_rng(0)
A = RNG.normal(size=(5, 5))
P = A @ A.T + np.eye(5)
H = P + 1j * (A - A.T)
R = RNG.normal(size=(5, 3))
B = RNG.normal(size=(5, 2))
C, D = RNG.normal(size=4), RNG.normal(size=3)
SQUARE = {"real": A, "complex": A + 1j * A.T, "positive": P}


@pytest.fixture(autouse=True)
def wide():
    with xf.enable_x64(True):
        yield


def close(a, b, tolerance=1e-8):
    a, b = xf.tree.leaves(a), xf.tree.leaves(b)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


@pytest.mark.cpu_only
@pytest.mark.parametrize("kind", SQUARE)
def test_decompositions_multiply_to_the_matrix(kind):
    x = SQUARE[kind]
    t, z = found = ours.schur(x)
    assert type(found) is list  # as in JAX
    close(z @ t @ z.conj().T, x)
    close(ours.rsf2csf(t, z), theirs.rsf2csf(np.asarray(t), np.asarray(z)))
    t, z = ours.schur(x, output="complex")
    close(z @ t @ z.conj().T, x)
    assert not np.tril(t, -1).any()
    h, q = ours.hessenberg(x, calc_q=True)
    close(q @ h @ q.conj().T, x)
    close(q.conj().T @ q, np.eye(5))
    assert not np.tril(h, -2).any()
    p, lower, upper = ours.lu(x)
    close(p @ lower @ upper, x)
    close(ours.lu(x, permute_l=True), (p @ lower, upper))
    for method in ("svd", "qdwh"):
        close(ours.polar(x, method=method), theirs.polar(x))
    close(ours.polar(x, side="left", method="svd"), theirs.polar(x, side="left"))


def test_other_decompositions():
    close(ours.polar(R.T, side="left"), theirs.polar(R.T, side="left"))
    close(ours.polar(np.stack([P, A]))[0][1], theirs.polar(A)[0])
    for mode in ("full", "economic"):
        for pivoting in (False, True):
            q, r, *columns = ours.qr(R, mode=mode, pivoting=pivoting)
            close(q @ r, R[:, columns[0]] if pivoting else R)
    close(ours.qr(R, mode="r"), (ours.qr(R)[1],))
    close(ours.svd(R, compute_uv=False), theirs.svdvals(R))
    close(ours.eigh(H, eigvals_only=True), theirs.eigvalsh(H))
    p, lower, upper = ours.lu(np.stack([R, R[::-1]]))
    close(p @ lower @ upper, np.stack([R, R[::-1]]))


@pytest.mark.parametrize("mode", ["left", "right"])
@pytest.mark.parametrize("x", [R, R.T, R + 1j * R[::-1]], ids=["tall", "wide", "complex"])
def test_qr_multiply(x, mode):
    c = RNG.normal(size=(min(x.shape), 2) if mode == "left" else (2, x.shape[0]))
    q = np.asarray(ours.qr(x, mode="economic")[0])
    close(ours.qr_multiply(x, c, mode)[0], q @ c if mode == "left" else c @ q)
    close(ours.qr_multiply(x, c, mode, conjugate=True)[0], q.conj() @ c if mode == "left" else c @ q.conj())


@pytest.mark.parametrize("kind", SQUARE)
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_solve_from_factors(kind, trans):
    x = SQUARE[kind]
    close(ours.lu_solve(ours.lu_factor(x), B, trans=trans), theirs.lu_solve(theirs.lu_factor(x), B, trans=trans))
    for lower in (False, True):
        for unit in (False, True):
            how = dict(trans=trans, lower=lower, unit_diagonal=unit)
            close(ours.solve_triangular(x, B, **how), theirs.solve_triangular(x, B, **how), 1e-6)
            close(ours.solve_triangular(x, B[:, 0], **how), theirs.solve_triangular(x, B[:, 0], **how), 1e-6)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("x", [P, H], ids=["real", "complex"])
def test_positive_definite_matrices(x, lower):
    close(ours.cholesky(x, lower=lower), theirs.cholesky(x, lower=lower))
    close(ours.cho_solve(ours.cho_factor(x, lower=lower), B), theirs.solve(x, B))
    other = np.where(np.tri(5) if lower else np.tri(5).T, x, 7)  # the triangle that is not read
    close(ours.solve(other, B, lower=lower, assume_a="pos"), theirs.solve(x, B))
    positive, general = (
        xf.jacrev(lambda x, a=a: xnp.real(ours.solve(x, B[:, 0], lower=lower, assume_a=a))) for a in ("pos", "gen")
    )
    close(positive(x), general(x), 1e-6)


def test_solve_broadcasts_matrices_and_right_sides():
    stack = np.stack([P, 2 * P])
    for f in (
        ours.solve_triangular,
        lambda a, b: ours.cho_solve((a, False), b),
        lambda a, b: ours.solve(a, b),
        lambda a, b: ours.solve(a, b, assume_a="pos"),
    ):
        close(f(P, np.stack([B, -B]))[1], -np.asarray(f(P, B)))
        close(f(stack, B[None])[1], f(2 * P, B))
        close(f(stack, B[:, 0])[1], f(2 * P, B[:, 0]))
    with pytest.warns(FutureWarning, match=r"b\[\.\.\., None\]"):
        close(ours.solve_triangular(stack, B.T)[1], ours.solve_triangular(2 * P, B[:, 1]))


@pytest.mark.cpu_only
@pytest.mark.parametrize("kind", SQUARE)
def test_functions_of_matrices(kind):
    x = SQUARE[kind]
    close(ours.expm(x), theirs.expm(x))
    close(ours.expm(np.stack([x, 30 * x / np.abs(x).max()]))[1], theirs.expm(30 * x / np.abs(x).max()), 1e-6)
    close(ours.expm(np.triu(x), upper_triangular=True), theirs.expm(np.triu(x)))
    root = ours.sqrtm(x)
    close(root @ root, x)
    value, error = ours.funm(x, xnp.exp, disp=False)
    close(value, theirs.expm(x), 1e-7)
    assert 0 < error < 1e-8
    close(ours.expm_frechet(x, P.astype(x.dtype)), theirs.expm_frechet(x, P.astype(x.dtype)))


@pytest.mark.parametrize("problem", [1, 2, 3])
@pytest.mark.parametrize("a", [A + A.T, H], ids=["real", "complex"])
def test_generalized_eigenvalues(problem, a):
    b = P + 2 * np.eye(5) + (1j * (A.T - A) / 4 if np.iscomplexobj(a) else 0)
    expected = theirs.eigh(a, b, type=problem, eigvals_only=True)
    for lower in (True, False):
        w, v = (np.asarray(x) for x in ours.eigh(a, b, lower=lower, type=problem))
        close((w, ours.eigh(a, b, lower, True, type=problem)), (expected, expected))
        left, right = {1: (a @ v, b @ v), 2: (a @ b @ v, v), 3: (b @ a @ v, v)}[problem]
        close(left, right * w)
        close(np.conj(v.T) @ (np.linalg.solve(b, v) if problem == 3 else b @ v), np.eye(5))
    stacked = xf.jit(lambda x, y: ours.eigh(x, y, type=problem, eigvals_only=True))(np.stack([a, 2 * a])[:, None], np.stack([b, b, b]))
    close(stacked, np.stack([expected, 2 * expected])[:, None].repeat(3, 1))
    mapped = xf.vmap(lambda x: ours.eigh(x, b, type=problem)[0])(np.stack([a, -a]))
    close(mapped, np.stack([expected, -expected[::-1]]))


def test_derivatives_of_generalized_eigenvalues():
    """The derivative of an eigenvalue of type 1 is `v^H (da - w db) v`."""
    a, b = A + A.T, P + 2 * np.eye(5)
    w, v = theirs.eigh(a, b)
    for i in range(5):
        slopes = xf.grad(lambda x, y, i=i: ours.eigh(x, y)[0][i], (0, 1))(a, b)
        outer = np.outer(v[:, i], v[:, i])
        close(slopes, (outer, -w[i] * outer), 1e-7)
    for problem in (2, 3):
        products = xf.grad(lambda y, problem=problem: ours.eigh(a, y, type=problem)[0].sum())(b)
        close(products, a)  # the sum is the trace of the product


def test_matrices_of_eigh_are_symmetrized():
    upper = np.triu(P)
    mean = (upper + upper.T) / 2
    close(ours.eigh(upper, eigvals_only=True), np.linalg.eigvalsh(mean))
    close(ours.eigh(P, np.tril(P) + np.eye(5), eigvals_only=True, lower=False),
          theirs.eigvalsh(P, (np.tril(P) + np.tril(P).T) / 2 + np.eye(5)))


def test_bad_arguments_of_eigh():
    assert np.isnan(ours.eigh(P, -P)[0]).all()
    assert ours.eigh(np.zeros((0, 0)), np.zeros((0, 0)))[1].shape == (0, 0)
    close(ours.eigh(P.tolist(), np.eye(5, dtype=int).tolist(), eigvals_only=True), np.linalg.eigvalsh(P))
    for call, error, words in (
            (lambda: ours.eigh(P, type=4), ValueError, "type .*must be 1, 2 or 3"), (lambda: ours.eigh(P, P, type="1"), ValueError, "type"),
            (lambda: ours.eigh(P, P, eigvals=(0, 1)), NotImplementedError, "eigvals"), (lambda: ours.eigh(P, P[:2, :2]), ValueError, "size"),
            (lambda: ours.eigh(P[:2], P), ValueError, "square"), (lambda: ours.eigh(P, P[:2]), ValueError, "square"),
            (lambda: ours.eigh(P, P[0]), ValueError, "matrix"), (lambda: ours.eigh(np.stack([P] * 4), np.stack([P] * 2)), ValueError, "broadcast")):
        with pytest.raises(error, match=words):
            call()


def test_lists_and_bad_values():
    """Lists are accepted where JAX accepts them; functions shared with NumPy do not."""
    rows = [[1.0, 2.0], [2.0, 5.0]]
    np.testing.assert_allclose(ours.cholesky(rows), [[1, 2], [0, 1]], atol=1e-6)
    np.testing.assert_allclose(ours.lu_solve(ours.lu_factor(rows), [1.0, 3.0]), [-1, 1], atol=1e-5)
    np.testing.assert_allclose(ours.eigh(rows)[0], 3 + np.array([-1, 1]) * 8**0.5, atol=1e-5)
    q, r = ours.qr(rows)
    np.testing.assert_allclose(q @ r, rows, atol=1e-5)
    for function in (ours.inv, ours.det):
        with pytest.raises(TypeError):
            function(rows)
    for bad, error in ((None, ValueError), (3.0, TypeError), (np.ones(2), TypeError)):
        for function in (ours.qr, ours.svd):
            with pytest.raises(error):
                function(bad)
        with pytest.raises(ValueError):
            ours.lu(bad)


def test_expm_in_float32_and_beyond_max_squarings():
    with xf.enable_x64(False):
        close(ours.expm(A.astype(np.float32)), theirs.expm(A), 1e-4)
    assert np.isnan(ours.expm(1e6 * A, max_squarings=2)).all()
    close(ours.expm(np.zeros((0, 0))), np.zeros((0, 0)))
    gradient = xf.grad(lambda a: ours.expm(a).sum())(A)
    close(np.vdot(gradient, P), theirs.expm_frechet(A, P)[1].sum())


@pytest.mark.parametrize("method", [pytest.param("schur", marks=pytest.mark.cpu_only), "eigen"])
@pytest.mark.parametrize("kind", SQUARE)
def test_sylvester(kind, method):
    x, y, c = SQUARE[kind], P[:3, :3], R
    found = ours.solve_sylvester(x, y, c, method=method)
    assert np.isrealobj(found) == np.isrealobj(x)
    close(x @ found + found @ y, c)
    assert np.isnan(ours.solve_sylvester(np.eye(2), -np.eye(2), np.ones((2, 2)), method=method)).all()


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e150])
def test_tridiagonal_matrices(scale):
    d, e = RNG.normal(size=6), RNG.normal(size=5)
    expected = theirs.eigh_tridiagonal(d, e, eigvals_only=True)
    close(ours.eigh_tridiagonal(d * scale, e * scale, eigvals_only=True) / scale, expected, 1e-13)
    close(ours.eigh_tridiagonal(d * scale, 1j * e * scale, eigvals_only=True) / scale, expected, 1e-13)
    some = dict(select="i", select_range=(1, 3))
    close(ours.eigh_tridiagonal(d * scale, e * scale, eigvals_only=True, **some) / scale, expected[1:4], 1e-13)
    if scale == 1:
        w, v = ours.eigh_tridiagonal(d, e, **some)
        close(w, expected[1:4])
        close((np.diag(d) + np.diag(e, 1) + np.diag(e, -1)) @ v, v * w)
        both = ours.eigh_tridiagonal(np.stack([d, -d]), np.stack([e, e]), eigvals_only=True, tol=1e-9)
        close(both, np.stack([expected, theirs.eigh_tridiagonal(-d, e, eigvals_only=True)]))
        close(ours.eigh_tridiagonal(np.zeros(3), np.zeros(2), eigvals_only=True), np.zeros(3))
        close(ours.eigh_tridiagonal(d[:1], e[:0], eigvals_only=True), d[:1])


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_special_matrices_of_a_size(n):
    for name in ("hadamard", "hilbert", "invhilbert", "pascal", "invpascal", "dft"):
        close(getattr(ours, name)(n), getattr(theirs, name)(n))
    for kind in ("lower", "upper", "symmetric"):
        close(ours.pascal(n, kind), theirs.pascal(n, kind))
        close(ours.invpascal(n, kind), theirs.invpascal(n, kind))
    for scale in ("n", "sqrtn"):
        close(ours.dft(n, scale), theirs.dft(n, scale))
    close(ours.helmert(n, full=True), theirs.helmert(n, full=True))
    close(ours.helmert(n + 1), theirs.helmert(n + 1))
    p = RNG.normal(size=n + 1)
    close(ours.fiedler_companion(p), theirs.fiedler_companion(p))
    close(np.sort_complex(np.linalg.eigvals(ours.companion(p))), np.sort_complex(np.roots(p)), 1e-6)


ROWS = {
    "toeplitz": [(C,), (C, D), (D, C), (C + 1j * C,)],
    "hankel": [(C,), (C, D), (D, C)],
    "circulant": [(C,)],
    "companion": [(C,)],
    "fiedler": [(C,)],
    "leslie": [(C, D)],
    "block_diag": [(A, R, C), (2.0, D)],
    "convolution_matrix": [(v, n, m) for v in (C, D[:1]) for n in (1, 2, 5, 6) for m in ("full", "same", "valid")],
}


@pytest.mark.parametrize("name", ROWS)
def test_special_matrices_of_vectors(name):
    for args in ROWS[name]:
        close(getattr(ours, name)(*args), getattr(theirs, name)(*args))
    if name not in ("block_diag", "convolution_matrix"):
        args = ROWS[name][0]
        batch = [np.stack([a, 2 * a]) for a in args]
        close(getattr(ours, name)(*batch)[1], theirs.__dict__[name](*[2 * a for a in args]))


REFUSED = {
    "not square": (lambda: ours.expm(R), ValueError, r"square.*\(5, 3\)"),
    "half precision": (lambda: ours.expm(A.astype(np.float16)), TypeError, "float16"),
    "sides": (lambda: ours.solve_triangular(A, R[:3]), ValueError, r"\(5, 5\).*\(3, 3\)"),
    "trans": (lambda: ours.solve_triangular(A, B, trans=3), ValueError, "trans"),
    "lu trans": (lambda: ours.lu_solve(ours.lu_factor(A), B, trans="T"), ValueError, "'T'"),
    "assume_a": (lambda: ours.solve(A, B, assume_a="foo"), ValueError, "'foo'"),
    "sylvester": (lambda: ours.solve_sylvester(A, P, R), ValueError, r"C of shape \(5, 5\)"),
    "qr mode": (lambda: ours.qr(R, mode="raw"), ValueError, "economic"),
    "qr_multiply": (lambda: ours.qr_multiply(R, A[:, :4]), ValueError, "columns"),
    "polar": (lambda: ours.polar(R.T), NotImplementedError, "method='svd'"),
    "schur": (lambda: ours.schur(A, output="foo"), ValueError, "'foo'"),
    "tridiagonal": (lambda: ours.eigh_tridiagonal(C, C), TypeError, r"\(4,\)"),
    "integers": (lambda: ours.eigh_tridiagonal(np.arange(3), np.arange(2)), TypeError, "int64"),
    "range": (lambda: ours.eigh_tridiagonal(C, D, select="i"), ValueError, "select_range"),
    "hadamard": (lambda: ours.hadamard(3), ValueError, "power"),
    "leslie": (lambda: ours.leslie(C, C), ValueError, "survival"),
    "list": (lambda: ours.toeplitz([1, 2]), TypeError, "list"),
    "blocks": (lambda: ours.block_diag(P, P[None]), ValueError, r"argument 1.*\(1, 5, 5\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_raises(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.cpu_only  # LAPACK's
def test_sqrtm_of_singular_matrices():
    """Elements of the square root are 0 where two eigenvalue roots sum to 0."""
    for a in (np.zeros((2, 2)), np.diag([0.0, 0.0, 4.0]), np.array([[0.0, 1.0], [0.0, 0.0]])):
        np.testing.assert_array_equal(ours.sqrtm(a.astype(np.float32)), np.sqrt(np.diag(np.diag(a))))


def test_eigenvectors_of_complex_tridiagonal_matrices():
    """The off-diagonal is the one above the diagonal."""
    d, e = RNG.normal(size=(2, 6)), RNG.normal(size=(2, 5)) + 1j * RNG.normal(size=(2, 5))
    w, v = ours.eigh_tridiagonal(d + 0j, e)
    for i in range(2):
        a = np.diag(d[i]) + np.diag(e[i], 1) + np.diag(e[i].conj(), -1)
        close(a @ v[i], v[i] * w[i])
        close(w[i], np.linalg.eigvalsh(a))


def test_rsf2csf_of_hessenberg_matrices():
    h, q = theirs.hessenberg(A, calc_q=True)
    close(ours.rsf2csf(h, q), theirs.rsf2csf(h, q))
    t, z = theirs.schur(A)
    stacked = ours.rsf2csf(np.stack([t, t + np.eye(5)]), z)
    close([x[1] for x in stacked], theirs.rsf2csf(t + np.eye(5), z))


@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_leading_dimensions_broadcast(method):
    factors, b = np.stack([np.linalg.cholesky(P), np.linalg.cholesky(P + np.eye(5))]), R[:, :2]
    for x, a in zip(ours.cho_solve((factors, True), b), (P, P + np.eye(5))):
        close(a @ x, b)
    right_sides = RNG.normal(size=(2, 5, 4))
    left, right = A, RNG.normal(size=(4, 4)) + 8 * np.eye(4)
    for x, c in zip(ours.solve_sylvester(left, right, right_sides, method=method), right_sides):
        close(left @ x + x @ right, c)


@pytest.mark.parametrize("arguments", [(1.0,), (np.ones(3), 1.0), (1.0, np.ones(3))])
def test_hankel_refuses_scalars(arguments):
    """As SciPy, which takes scalars as vectors of one element in `toeplitz` only."""
    with pytest.raises(ValueError, match="scalar as"):
        ours.hankel(*arguments)


def test_weak_types_of_special_matrices():
    """Matrices of elements of a vector keep its weak type; others, as in JAX, do not."""
    weak = xnp.asarray(1.0) * 2 + xnp.zeros(3, bool)
    assert weak.weak_type
    assert [f(weak).weak_type for f in (ours.circulant, ours.fiedler)] == [True] * 2
    assert [f(weak).weak_type for f in (ours.toeplitz, ours.hankel, ours.companion, ours.fiedler_companion)] == [False] * 4
    assert [ours.leslie(weak, s).weak_type for s in (weak[1:], weak[1:].astype("float32"))] == [True, False]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_tridiagonal_eigenvalues_of_16_bits(dtype):
    found = ours.eigh_tridiagonal(xnp.array([1, 2, 3], dtype), xnp.array([0.5, 0.5], dtype), eigvals_only=True)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.float32(found), theirs.eigh_tridiagonal([1, 2, 3], [0.5, 0.5], True), rtol=1e-2)
