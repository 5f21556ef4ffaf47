"""Iterative linear solvers against NumPy's direct solutions; partial iterations against least squares in Krylov spaces."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.scipy.sparse import linalg

RNG = np.random.default_rng(0)
A = RNG.normal(size=(6, 6)) + 1j * RNG.normal(size=(6, 6))
B = RNG.normal(size=6) + 1j * RNG.normal(size=6)
METHODS = {
    "cg": linalg.cg, "bicgstab": linalg.bicgstab, "gmres": linalg.gmres,
    "gmres, incremental": functools.partial(linalg.gmres, solve_method="incremental"),
    "gmres, restarted": functools.partial(linalg.gmres, restart=3),
}


def system(method, dtype):
    """Return a matrix that the method can solve with, a right-hand side and a preconditioner."""
    a, b = (A, B) if dtype[0] == "c" else (A.real, B.real)
    matrix = a @ a.conj().T + np.eye(6) if method == "cg" else a + 7 * np.eye(6)
    return matrix.astype(dtype), b.astype(dtype), np.diag(1 / np.diag(matrix)).astype(dtype)


def assert_close(x, expected, dtype):
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-9
    np.testing.assert_allclose(np.asarray(x), expected, rtol=tolerance, atol=tolerance)
    assert x.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("method", METHODS)
def test_solutions_against_numpy(method, dtype):
    solve, (a, b, m) = METHODS[method], system(method, dtype)
    with xf.enable_x64(dtype in ("float64", "complex128")):
        tol = 1e-6 if dtype in ("float32", "complex64") else 1e-12
        x, info = solve(a, b, tol=tol)
        assert_close(x, np.linalg.solve(a, b), dtype)
        assert info is None if method in ("cg", "bicgstab") else int(info) == 0
        assert_close(solve(a, b, x0=np.ones_like(b), M=m, tol=tol)[0], np.linalg.solve(a, b), dtype)


@pytest.mark.parametrize("method", METHODS)
def test_operators_on_pytrees_under_vmap_and_jit(method):
    solve, (a, b, _) = METHODS[method], system(method, "float64")
    with xf.enable_x64(True):
        def matvec(tree):
            x = a @ xnp.concatenate([tree["u"], tree["v"]])
            return {"u": x[:2], "v": x[2:]}

        def halves(b):
            return {"u": b[:2], "v": b[2:]}

        @xf.jit
        def run(bs, tol):
            return xf.vmap(lambda b: solve(matvec, halves(b), M=lambda t: xf.tree.map(lambda x: x / 8, t), tol=tol)[0])(bs)

        bs = np.stack([b, 2 * b[::-1]])
        found = run(bs, 1e-12)
        assert_close(np.concatenate([found["u"], found["v"]], 1), np.linalg.solve(a, bs.T).T, "float64")


@pytest.mark.parametrize("method", METHODS)
def test_derivatives(method):
    """Check derivatives against `dx = A^-1 (db - dA x)` and its transpose."""
    solve, (a, b, m) = METHODS[method], system(method, "float64")
    with xf.enable_x64(True):
        da = RNG.normal(size=a.shape)
        da, db, ct = da + da.T, RNG.normal(size=6), RNG.normal(size=6)
        f = xf.jit(lambda a, b: solve(a, b, tol=1e-12, M=m)[0])
        x, dx = xf.jvp(f, (a, b), (da, db))
        expected = np.linalg.solve(a, b)
        assert_close(dx, np.linalg.solve(a, db - da @ expected), "float64")
        ga, gb = xf.vjp(f, a, b)[1](ct)
        w = np.linalg.solve(a.T, ct)
        assert_close(gb, w, "float64")
        assert_close(np.vdot(ga, da), np.vdot(-np.outer(w, expected), da), "float64")


def test_derivatives_of_complex_systems():
    a, b, _ = system("cg", "complex128")
    with xf.enable_x64(True):
        for f in (linalg.cg, linalg.gmres):
            gradient = xf.grad(lambda b: xnp.sum(f(a, b, tol=1e-12)[0] ** 2).real)(b)
            assert_close(gradient, 2 * np.linalg.solve(a.T, np.linalg.solve(a, b)), "complex128")


@pytest.mark.parametrize("incremental", [False, True])
def test_gmres_restart_minimizes_residual_in_krylov_space(incremental):
    a, b, _ = system("gmres", "float64")
    m = np.linalg.inv(a + RNG.normal(size=a.shape))
    with xf.enable_x64(True):
        for k in (1, 2, 4):
            space = np.stack([np.linalg.matrix_power(m @ a, i) @ m @ b for i in range(k)], 1)
            expected = space @ np.linalg.lstsq(m @ a @ space, m @ b)[0]
            x, _ = linalg.gmres(a, b, M=m, restart=k, maxiter=1, tol=1e-14, solve_method="incremental" if incremental else "batched")
            assert_close(x, expected, "float64")


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bfloat16"])
def test_cg_under_strict_dtype_promotion(dtype):
    with xf.numpy_dtype_promotion("strict"):
        found = xf.grad(lambda b: linalg.cg(2 * xnp.eye(2, dtype=dtype), b)[0].real.sum())(xnp.ones(2, dtype))
    assert found.dtype == dtype and found.tolist() == [0.5, 0.5]


def test_cg_step_and_stopping_rule():
    a, b, _ = system("cg", "float64")
    with xf.enable_x64(True):
        assert_close(linalg.cg(a, b, maxiter=1)[0], b * (b @ b) / (b @ a @ b), "float64")
        for name, solve in METHODS.items():
            for limits, most in (({"tol": 0.1}, 0.1 * np.linalg.norm(b)), ({"tol": 0.0, "atol": 0.5}, 0.5)):
                assert np.linalg.norm(b - a @ np.asarray(solve(a, b, **limits)[0])) <= most, name
            np.testing.assert_array_equal(solve(a, np.zeros(6))[0], 0)
            np.testing.assert_array_equal(solve(a, b, maxiter=0)[0], 0)
        assert_close(xf.jit(lambda n, tol: linalg.cg(a, b, maxiter=n, tol=tol)[0])(1, 1e-5), linalg.cg(a, b, maxiter=1)[0], "float64")


def test_small_systems_and_zero_right_hand_sides():
    eye = np.eye(4, dtype="float32")
    for solve in METHODS.values():
        np.testing.assert_allclose(np.asarray(solve(2 * eye, np.ones(4, "float32"))[0]), 0.5, rtol=1e-6)
    assert int(linalg.gmres(eye * np.float32("nan"), np.ones(4, "float32"))[1]) == -1


def test_64_bit_matrix_while_x64_is_disabled():
    for solve in METHODS.values():
        found = solve(np.diag(np.arange(1.0, 7.0)), np.ones(6, "float32"))[0]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, 1 / np.arange(1.0, 7.0), rtol=1e-4)


def test_bad_input_raises():
    a, b, _ = system("cg", "float32")
    for solve in (linalg.cg, linalg.bicgstab, linalg.gmres):
        with pytest.raises(ValueError, match="square matrix.*5, 6"):
            solve(a[:5], b)
        for given in (None, a.tolist(), 3):
            with pytest.raises(TypeError, match="needs A as"):
                solve(given, b)
        with pytest.raises(TypeError, match="needs M as"):
            solve(a, b, M=3)
        with pytest.raises(TypeError, match="6 rows"):
            solve(a, b[:5])
        with pytest.raises(ValueError, match="6 rows"):
            solve(a, np.float32(2))
        with pytest.raises(ValueError, match="shapes of b"):
            solve(a, b, x0=np.ones(5))
        with pytest.raises(ValueError, match="pytree structure of b"):
            solve(a, b, x0={"a": b})
        with pytest.raises(TypeError, match="floating"):
            solve(a, np.arange(6))
        with pytest.raises(TypeError, match="complex64"):
            solve(a + 0j, b)
        with pytest.raises(TypeError, match="pytree"):
            solve(lambda x: x[0], (b,))
    with pytest.raises(ValueError, match="solve_method"):
        linalg.gmres(a, b, solve_method="both")
    with pytest.raises(TypeError, match="restart"):
        linalg.gmres(a, b, restart=2.5)


class Doubling:
    """A linear operator that is neither an array nor a function."""

    shape, dtype = (3, 3), np.dtype(np.float32)

    def __matmul__(self, x):
        return 2 * x


@pytest.mark.parametrize("solver", [linalg.cg, linalg.gmres, linalg.bicgstab])
def test_objects_that_multiply(solver):
    for b in (np.arange(3, dtype=np.float32), np.arange(9, dtype=np.float32).reshape(3, 3)):
        np.testing.assert_allclose(solver(Doubling(), b)[0], b / 2, rtol=1e-6)


@pytest.mark.parametrize(("solver", "weak"), [(linalg.cg, False), (linalg.gmres, True), (linalg.bicgstab, True)])
def test_weak_types_of_solutions(solver, weak):
    """GMRES and BiCGSTAB of Python scalars have a weak type, conjugate gradients have not, as in JAX."""
    assert xf.typeof(solver(lambda x: x, 1.0)[0]).weak_type == xf.typeof(solver(lambda x: x, 1.0, x0=0.0)[0]).weak_type == weak
    assert not xf.typeof(solver(lambda x: x, np.float32(1))[0]).weak_type
    assert not xf.typeof(solver(lambda x: x, 1.0, x0=np.float32(0))[0]).weak_type
