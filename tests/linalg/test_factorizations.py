"""Cholesky and LU factors, triangular and tridiagonal systems: against NumPy, their equations and finite differences."""

import itertools

import numpy as np
import pytest
from laws import check_derivatives
from matrices import DTYPES, check_matrix_derivatives, check_over_devices, near, random, wide as wide

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax
from xlafront.core.errors import ShardingTypeError

linalg = lax.linalg


def positive(rng, batch, n, dtype):
    x = random(rng, (*batch, n, n), dtype)
    return x @ x.conj().mT + n * np.eye(n, dtype=dtype)


def same(x, y, dtype):
    near(x, y, dtype)
    assert np.asarray(x).dtype == y.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_cholesky(rng, dtype, batch):
    x = positive(rng, batch, 4, dtype)
    same(xf.jit(linalg.cholesky)(x), np.linalg.cholesky(x), dtype)
    junk = x + np.triu(random(rng, x.shape, dtype), 1)  # without symmetrising only the lower triangle is read
    same(linalg.cholesky(junk, symmetrize_input=False), np.linalg.cholesky(x), dtype)
    mixed = linalg.cholesky(np.stack([np.eye(2, dtype=dtype), -np.eye(2, dtype=dtype)]))
    same(mixed[0], np.eye(2, dtype=dtype), dtype)
    assert np.isnan(np.asarray(mixed[1])[0, 0])  # no such factor: NaN for this matrix alone
    assert linalg.cholesky(np.zeros((*batch, 0, 0), dtype)).shape == (*batch, 0, 0)
    assert linalg.cholesky(np.eye(2, dtype=int)).dtype == np.float64
    for factorize in (linalg.cholesky, linalg.eigh):
        with pytest.raises(TypeError, match=f"{factorize.__name__} with symmetrize_input=False .* got dtype int"):
            factorize(np.eye(2, dtype=int), symmetrize_input=False)


TOGETHER = {  # operations on several arrays, and shapes that fit
    "cholesky_update": [(3, 3), (3,)],
    "triangular_solve": [(3, 3), (2, 3)],
    "tridiagonal_solve": [(3,), (3,), (3,), (3, 2)],
    "symmetric_product": [(3, 2), (3, 3)],
    "householder_product": [(3, 2), (2,)],
    "ormqr": [(3, 2), (2,), (3, 3)],
}


@pytest.mark.parametrize("name", TOGETHER)
def test_mismatched_dtypes_or_batches_raise(name):
    f, shapes = getattr(linalg, name), TOGETHER[name]
    for i in range(len(shapes)):
        for other in ("float64", "bfloat16", "int32", "complex64"):
            operands = [xnp.ones(s, other if i == j else "float32") for j, s in enumerate(shapes)]
            with pytest.raises(TypeError, match=rf"{name}.*(same dtypes?|{other})"):
                f(*operands)
        with pytest.raises(TypeError, match=name):
            f(*[xnp.ones((2, 2, *s) if i == j else s) for j, s in enumerate(shapes)])
    if name != "cholesky_update":
        with pytest.raises(ValueError, match=f"{name} takes arrays with the same leading dimensions"):
            f(*[xnp.ones((2 if s is shapes[-1] else 5, *s)) for s in shapes])


def test_small_floats_without_kernels():
    w, factor = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 1, 0], [0, 3, -1], [0, 0, 1]])
    expected = np.linalg.cholesky(factor.T @ factor + np.outer(w, w)).T
    for dtype in ("bfloat16", "float16"):
        found = linalg.cholesky_update(xnp.asarray(factor, dtype), xnp.asarray(w, dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(np.abs(np.asarray(found, np.float64)), np.abs(expected), atol=0.05)
        product = linalg.symmetric_product(xnp.asarray(factor, dtype), xnp.eye(3, dtype=dtype), alpha=2.0, beta=3.0)
        np.testing.assert_array_equal(np.asarray(product, np.float64), 2 * factor @ factor.T + 3 * np.eye(3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_update(rng, dtype):
    if dtype.startswith("complex"):
        with pytest.raises(TypeError, match="cholesky_update does not accept dtype"):
            linalg.cholesky_update(np.eye(2, dtype=dtype), np.ones(2, dtype))
        return
    factor, w = np.triu(random(rng, (4, 4), dtype)), random(rng, (4,), dtype)
    found = np.asarray(linalg.cholesky_update(factor, w))
    same(found.T @ found, factor.T @ factor + np.outer(w, w), dtype)
    same(np.tril(found, -1), np.zeros((4, 4), dtype), dtype)
    many = xf.vmap(linalg.cholesky_update, in_axes=(None, 0))(factor, np.stack([w, 0 * w]))
    same(many[0], found, dtype)
    same(many[1], factor, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_solve(rng, dtype):
    a, b = random(rng, (2, 4, 4), dtype) + 3 * np.eye(4, dtype=dtype), random(rng, (2, 4, 3), dtype)
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for flags in itertools.product((False, True), repeat=5):
        given = dict(zip(names, flags))
        read = np.tril(a) if given["lower"] else np.triu(a)
        if given["unit_diagonal"]:
            read = read * (1 - np.eye(4, dtype=dtype)) + np.eye(4, dtype=dtype)
        op = read.mT if given["transpose_a"] else read
        op = op.conj() if given["conjugate_a"] else op
        right = b if given["left_side"] else b.mT
        x = np.asarray(linalg.triangular_solve(a, right, **given))
        same(op @ x if given["left_side"] else x @ op, right, dtype)


def test_triangular_solve_options():
    a = np.array([[2.0, 0.0], [1.0, 4.0]])
    same(linalg.triangular_solve(a, np.array([2.0, 9.0]), left_side=True, lower=True), np.array([1.0, 2.0]), "float64")
    same(linalg.triangular_solve(a, np.array([4.0, 8.0]), lower=True), np.array([1.0, 2.0]), "float64")
    small = linalg.triangular_solve(xnp.asarray(a, "bfloat16"), xnp.ones((2, 1), "bfloat16"), left_side=True, lower=True)
    assert small.dtype == xnp.bfloat16  # no kernel: XLA's own
    np.testing.assert_allclose(np.asarray(small, float)[:, 0], [0.5, 0.125], rtol=1e-2)
    assert linalg.triangular_solve(np.zeros((0, 0)), np.zeros((0, 3)), left_side=True).shape == (0, 3)
    many = np.arange(20.0).reshape(2, 5, 2)
    for left in (True, False):  # one matrix, many right-hand sides: one solve
        solve = xf.vmap(lambda b, left=left: linalg.triangular_solve(a, b, left_side=left, lower=True), in_axes=1, out_axes=1)
        x = np.asarray(solve(many))
        same(np.einsum("ij,jbk->ibk", a, x) if left else x @ a, many, "float64")
        shapes = [e.outvars[0].aval.shape for e in xf.make_jaxpr(solve)(many).eqns if e.primitive.name == "triangular_solve"]
        assert shapes == ([(2, 10)] if left else [(10, 2)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5)])
def test_lu(rng, dtype, shape):
    x = random(rng, shape, dtype)
    factors, swaps, permutation = map(np.asarray, xf.jit(linalg.lu)(x))
    k = min(shape[-2:])
    lower = np.tril(factors[..., :k], -1) + np.eye(shape[-2], k, dtype=dtype)
    same(lower @ np.triu(factors[..., :k, :]), np.take_along_axis(x, permutation[..., None], -2), dtype)
    assert np.abs(np.tril(factors[..., :k], -1)).max() <= 1 + 1e-6 or dtype.startswith("complex")  # rows were chosen by size
    assert swaps.dtype == permutation.dtype == np.int32
    for one, other in zip(swaps.reshape(-1, k), permutation.reshape(-1, shape[-2])):
        rows = list(range(shape[-2]))
        for i, j in enumerate(one):
            rows[i], rows[j] = rows[j], rows[i]
        assert rows == list(other) == list(linalg.lu_pivots_to_permutation(one, shape[-2]))
    assert linalg.lu(np.zeros((0, 3)))[2].shape == (0,)


def dense(dl, d, du):
    """Return the matrices with these diagonals."""
    n = d.shape[-1]
    on = [np.eye(n, k=k, dtype=d.dtype) for k in (-1, 0, 1)]
    return dl[..., :, None] * on[0] + d[..., :, None] * on[1] + du[..., :, None] * on[2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_solve(rng, dtype):
    from xlafront.linalg.factorizations import _tridiagonal_elimination

    for n in (1, 2, 5):
        dl, d, du, b = (random(rng, s, dtype) for s in ((2, n), (2, n), (2, n), (2, n, 3)))
        d = d + np.asarray(4, dtype)
        same(dense(dl, d, du) @ np.asarray(linalg.tridiagonal_solve(dl, d, du, b)), b, dtype)
        same(dense(dl, d, du) @ np.asarray(_tridiagonal_elimination(dl, d, du, b, perturb_singular=False)), b, dtype)
    if dtype == "float64":
        zero = np.zeros(3)
        assert np.isfinite(linalg.tridiagonal_solve(zero, np.array([1.0, 0, 1]), zero, np.ones((3, 1)), perturb_singular=True)).all()
        assert not np.isfinite(linalg.tridiagonal_solve(zero, np.array([1.0, 0, 1]), zero, np.ones((3, 1)))).all()


def test_symmetric_product(rng):
    a, c = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 3))
    found = linalg.symmetric_product(a, c, alpha=2.0, beta=0.5)
    same(np.tril(found), np.tril(2 * a @ a.mT + 0.5 * c), "float64")
    full = np.asarray(linalg.symmetric_product(a, c, symmetrize_output=True))
    same(full, a @ a.mT, "float64")


def hermitian(x):
    return x @ x.conj().mT + 3 * xnp.eye(x.shape[-1])


DERIVATIVES = {
    "cholesky": (lambda x: linalg.cholesky(hermitian(x)), [(2, 3, 3)]),
    "lu": (lambda x: linalg.lu(x)[0], [(3, 3)]), "lu tall": (lambda x: linalg.lu(x)[0], [(4, 2)]),
    "lu wide": (lambda x: linalg.lu(x)[0], [(2, 2, 4)]),
    "tridiagonal_solve": (lambda x, b: linalg.tridiagonal_solve(x[..., 0], 5 + x[..., 1], x[..., 2], b), [(2, 4, 3), (2, 4, 2)]),
    **{f"triangular_solve {flags}": (
        lambda a, b, flags=flags: linalg.triangular_solve(
            a + 3 * xnp.eye(3), b if flags[0] else b.mT, left_side=flags[0], lower=flags[1], transpose_a=flags[2],
            conjugate_a=flags[3], unit_diagonal=flags[4]), [(3, 3), (3, 2)])
       for flags in ((True, True, False, False, False), (False, False, True, True, False), (True, False, False, True, True),
                     (False, True, True, False, True))},
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_derivatives_match_differences(name, kind, rng):
    f, shapes = DERIVATIVES[name]
    check_matrix_derivatives(f, kind, shapes, rng)


def test_second_derivatives_match_differences(rng):
    a = rng.normal(size=(3, 3))
    check_derivatives(xf.grad(lambda x: xnp.sum(linalg.cholesky(hermitian(x)) ** 2)), [a], rng, 1e-5)
    check_derivatives(xf.grad(lambda x: xnp.sum(linalg.triangular_solve(x, x + 1, lower=True) ** 2)), [a + 3 * np.eye(3)], rng, 1e-4)


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["cholesky", "lu", "triangular_solve", "tridiagonal_solve"])
def test_vmap_and_sharding(name, rng):
    f = {"triangular_solve": lambda a: linalg.triangular_solve(a, a, lower=True),
         "tridiagonal_solve": lambda a: linalg.tridiagonal_solve(a[..., 0], a[..., 1] + 9, a[..., 2], a),
         }.get(name, getattr(linalg, name))
    check_over_devices(f, positive(rng, (8,), 3, "float32"))


@pytest.mark.cpu_only
def test_explicit_axes(rng):
    mesh = xf.make_mesh((8,), ("data",))
    x = xf.device_put(positive(rng, (8,), 8, "float32"), NamedSharding(mesh, P("data")))
    with xf.set_mesh(mesh):
        assert xf.typeof(linalg.cholesky(x)).sharding.spec == P("data", None, None)
        assert xf.typeof(linalg.lu(x)[1]).sharding.spec == P("data", None)
        with pytest.raises(ShardingTypeError, match="unsharded matrices"):
            linalg.lu(xf.reshard(x, P(None, "data")))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: linalg.cholesky(np.ones((3, 2))), ValueError, r"cholesky.*square.*\(3, 2\)"),
    (lambda: linalg.cholesky(np.ones(3)), ValueError, r"cholesky.*matrix.*\(3,\)"),
    (lambda: linalg.cholesky(xnp.eye(3, dtype="float16")), TypeError, "cholesky of float16.*astype"),
    (lambda: linalg.lu(np.eye(3, dtype=int)), TypeError, "lu does not accept dtype int64.*astype"),
    (lambda: linalg.triangular_solve(np.eye(3), np.ones((2, 3)), left_side=True), ValueError, r"3 rows.*left_side=False"),
    (lambda: linalg.triangular_solve(np.ones((2, 3, 3)), np.ones((4, 3, 3))), ValueError, "leading dimensions"),
    (lambda: linalg.triangular_solve(np.eye(3), np.ones((3, 3), complex)), TypeError, "float64.*complex128"),
    (lambda: linalg.tridiagonal_solve(np.ones(3), np.ones(2), np.ones(3), np.ones((3, 1))), TypeError, "three diagonals"),
    (lambda: linalg.lu_pivots_to_permutation(np.array([1, 1, 2], np.int32), 2), ValueError, "permutation_size=2"),
    (lambda: linalg.lu_pivots_to_permutation(np.array([1.0, 1, 2]), 3), TypeError, "pivots"),
])
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_cholesky_of_a_lower_triangle_has_its_derivative(rng, dtype):
    """Without `symmetrize_input` what is above the diagonal is not read, nor is the imaginary part of the diagonal."""
    with xf.enable_x64(True):
        x, t = (random(rng, (3, 3), dtype) for _ in range(2))
        x = x @ x.conj().T + 3 * np.eye(3)
        hermitian = lambda a: np.tril(a, -1) + np.tril(a, -1).conj().T + np.diag(a.diagonal().real)
        factor = lambda step: np.linalg.cholesky(hermitian(x + step * t))
        found = xf.jvp(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), (xnp.asarray(x),), (xnp.asarray(t),))
        np.testing.assert_allclose(found[0], factor(0), 1e-10)
        np.testing.assert_allclose(found[1], (factor(1e-6) - factor(-1e-6)) / 2e-6, 1e-5, 1e-8)
