"""QR factors, reflectors, and reductions to Hessenberg, Schur and tridiagonal form: against NumPy and their equations."""

import functools

import numpy as np
import pytest
import scipy.linalg
from laws import check_derivatives
from matrices import DTYPES, arrays, check_matrix_derivatives, check_over_devices, near, orthonormal, random, wide as wide

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

linalg = lax.linalg
SHAPES = ((3, 3), (2, 5, 3), (3, 5), (0, 3), (3, 0), (0, 2, 3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(rng, dtype, shape):
    a = random(rng, shape, dtype)
    for full, mode in ((True, "complete"), (False, "reduced")):
        q, r = arrays(linalg.qr(a, full_matrices=full))
        expected = np.linalg.qr(a, mode=mode)
        near(q, expected[0], dtype)  # LAPACK's too
        near(r, expected[1], dtype)
        assert q.dtype == r.dtype == dtype
        q, r, columns = arrays(linalg.qr(a, full_matrices=full, pivoting=True))
        near(q @ r, np.take_along_axis(a, columns[..., None, :], -1), dtype)
        orthonormal(q, dtype)
        assert columns.dtype == np.int32 and (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
        sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
        assert (np.diff(sizes) <= 1e-5).all() and not np.tril(r, -1).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_geqrf_without_a_kernel(rng, dtype):
    """The algorithm for platforms without a kernel gives LAPACK's results, also for zero columns."""
    from xlafront.linalg.orthogonal import _geqrf_reflections

    for shape in ((4, 4), (2, 5, 3), (2, 3, 1), (3, 5)):
        a = random(rng, shape, dtype)
        a[..., 1:, 0] = a[..., 0, -1] = 0
        found, taus = arrays(_geqrf_reflections(a))
        for x, y in zip(np.reshape(a, (-1, *shape[-2:])), zip(np.reshape(found, (-1, *shape[-2:])), np.reshape(taus, (-1, taus.shape[-1])))):
            (packed, expected), _ = scipy.linalg.qr(x, mode="raw")
            near(y[0], packed, dtype)
            near(y[1], expected, dtype)


@functools.partial(xf.jit, static_argnums=(3, 4))
def _ormqr_by_formula(a, taus, c, left, transpose):
    """The derivative along `c`, in which the function is linear: computed as on platforms without a kernel."""
    return xf.jvp(lambda c: linalg.ormqr(a, taus, c, left=left, transpose=transpose), (c,), (c,))[1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_reflections(rng, dtype):
    vectors, taus = random(rng, (2, 5, 3), dtype), random(rng, (2, 3), dtype)
    taus[0, 1] = 0
    expected = np.broadcast_to(np.eye(5, dtype=dtype), (2, 5, 5))
    for i in range(3):
        v = np.where(np.arange(5) > i, vectors[..., i], np.arange(5) == i)
        expected = expected - taus[:, i, None, None] * (expected @ v[..., None]) * v.conj()[:, None, :]
    near(linalg.householder_product(vectors, taus), expected[..., :3], dtype)
    near(linalg.householder_product(vectors[..., :0], taus[..., :0]), expected[..., :0], dtype)
    for left in (True, False):
        c = random(rng, (2, 5, 4) if left else (2, 4, 5), dtype)
        for transpose in (True, False):
            q = expected.conj().mT if transpose else expected
            product = q @ c if left else c @ q
            near(linalg.ormqr(vectors, taus, c, left=left, transpose=transpose), product, dtype)
            # as for platforms without a kernel
            near(_ormqr_by_formula(vectors, taus, c, left, transpose), product, dtype)


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (1, 1)])
def test_reductions(rng, dtype, shape):
    a, n = random(rng, shape, dtype), shape[-1]
    t, q = arrays(linalg.schur(a))
    near(q @ t @ q.conj().mT, a, dtype)
    orthonormal(q, dtype)
    assert not np.tril(t, -1 if dtype.startswith("complex") else -2).any()
    [alone] = linalg.schur(a, compute_schur_vectors=False)
    near(alone, t, dtype)

    h, taus = arrays(linalg.hessenberg(a))
    q = np.broadcast_to(np.eye(n, dtype=dtype), shape).copy()
    q[..., 1:, 1:] = linalg.householder_product(h[..., 1:, :-1], taus)
    near(q @ np.triu(h, -1) @ q.conj().mT, a, dtype)

    a = a + a.conj().mT
    for lower in (True, False):
        x, diagonal, beside, taus = arrays(linalg.tridiagonal(np.tril(a) if lower else np.triu(a), lower=lower))
        own = np.diagonal(x, -1 if lower else 1, -2, -1)
        near(own, beside, dtype)
        assert diagonal.dtype == beside.dtype == np.finfo(dtype).dtype and taus.dtype == dtype
        for index in np.ndindex(shape[:-2]):
            dense = np.diag(diagonal[index]) + np.diag(beside[index], 1) + np.diag(beside[index], -1)
            near(np.linalg.eigvalsh(dense), np.linalg.eigvalsh(a[index]), dtype)


@pytest.mark.cpu_only
def test_reductions_of_empty_matrices():
    assert [x.shape for x in linalg.hessenberg(np.ones((0, 0)))] == [(0, 0), (0,)]
    assert [x.shape for x in linalg.schur(np.ones((2, 0, 0)))] == [(2, 0, 0)] * 2
    assert [x.shape for x in linalg.tridiagonal(np.ones((0, 2, 2)))] == [(0, 2, 2), (0, 2), (0, 1), (0, 1)]
    bad = np.full((3, 3), np.nan)
    for found in (linalg.hessenberg(bad), linalg.tridiagonal(bad), linalg.schur(bad)):
        assert np.isnan(found[0]).any()


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(("shape", "options"), [
    ((2, 3, 3), {}), ((4, 2), {}), ((4, 2), {"full_matrices": False, "pivoting": True}), ((2, 4), {"pivoting": True})])
def test_derivatives_of_qr(rng, shape, options, kind):
    check_matrix_derivatives(lambda x: linalg.qr(x, **options)[:2], kind, [shape], rng)


def test_ormqr_derivatives(rng):
    a, taus = rng.normal(size=(4, 2)), rng.normal(size=2)
    check_derivatives(lambda a, taus: [linalg.householder_product(a, taus)], [a, taus], rng)
    check_derivatives(lambda a, taus, c: [linalg.ormqr(a, taus, c, left=False)], [a, taus, rng.normal(size=(3, 4))], rng)
    check_derivatives(xf.grad(lambda a: sum(xnp.sum(xnp.sin(x)) for x in linalg.qr(a))), [a], rng, 1e-5)
    zeros, q = np.zeros((0, 2)), linalg.qr(np.ones((0, 2)))[1]
    assert q.shape == xf.jvp(lambda x: linalg.qr(x)[1], (zeros,), (zeros,))[1].shape == (0, 2)


@pytest.mark.cpu_only
def test_vmap_and_sharding(rng):
    x = rng.normal(size=(8, 4, 3)).astype("float32")
    check_over_devices(lambda a: linalg.qr(a, pivoting=True), x)
    check_over_devices(lambda a: linalg.hessenberg(a[..., :3, :]), x)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: linalg.qr(np.ones(3)), TypeError, r"qr takes a matrix.*\(3,\)"),
    (lambda: linalg.qr(np.ones((3, 3), int)), TypeError, "qr does not accept dtype int64.*astype"),
    (lambda: linalg.qr(xnp.ones((3, 3), "bfloat16")), TypeError, "qr of bfloat16.*astype"),
    (lambda: linalg.householder_product(np.ones((2, 3)), np.ones(2)), ValueError, r"as many rows as columns.*\(2, 3\)"),
    (lambda: linalg.householder_product(np.ones((3, 2)), np.ones(3)), ValueError, r"taus of shape \(3,\)"),
    (lambda: linalg.householder_product(np.ones((2, 3, 2)), np.ones(2)), TypeError, "leading dimensions"),
    (lambda: linalg.ormqr(np.ones((3, 2)), np.ones(2), np.ones((2, 3))), ValueError, "with 3 rows"),
    (lambda: linalg.ormqr(np.ones((3, 2)), np.ones(2), np.ones((3, 2)), left=False), ValueError, "with 3 columns"),
    (lambda: linalg.ormqr(np.ones((3, 2)), np.ones(2), np.ones((3, 3), complex)), TypeError, "same dtypes"),
    (lambda: linalg.hessenberg(np.ones((3, 2))), ValueError, r"hessenberg.*square.*\(3, 2\)"),
    (lambda: linalg.tridiagonal(np.ones((0, 0))), ValueError, "at least one row"),
    pytest.param(lambda: linalg.schur(np.eye(3), sort_eig_vals=True), NotImplementedError, "sort_eig_vals", marks=pytest.mark.cpu_only),
])
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()
