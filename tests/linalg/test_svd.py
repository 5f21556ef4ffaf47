"""Singular values and polar factors: against NumPy and SciPy, their equations, and finite differences."""

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
Svd = linalg.SvdAlgorithm


def squares(x):
    return xnp.abs(x) ** 2


def check_svd(a, dtype, full, values_alone=True, **options):
    u, s, vh = arrays(linalg.svd(a, full_matrices=full, **options))
    shapes = [x.shape for x in np.linalg.svd(a, full_matrices=full)]
    assert [u.shape, s.shape, vh.shape] == shapes and u.dtype == vh.dtype == dtype and s.dtype == np.finfo(dtype).dtype
    near(s, np.linalg.svd(a, compute_uv=False), dtype)
    near(u[..., :s.shape[-1]] * s[..., None, :] @ vh[..., :s.shape[-1], :], a, dtype)
    orthonormal(u, dtype)
    orthonormal(vh.conj().mT, dtype)
    if values_alone:
        near(linalg.svd(a, compute_uv=False, **options), s, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 3), (3, 5), (0, 3), (3, 0), (0, 2, 3)])
def test_svd(rng, dtype, shape):
    for full in (True, False):
        check_svd(random(rng, shape, dtype), dtype, full)


@pytest.mark.cpu_only
@pytest.mark.parametrize("algorithm", [Svd.QR, Svd.POLAR, Svd.DIVIDE_AND_CONQUER])
def test_algorithms_of_svd(rng, algorithm):
    check_svd(random(rng, (2, 5, 3), "float32"), "float32", True, algorithm=algorithm)
    check_svd(random(rng, (3, 5), "complex128"), "complex128", False, False, algorithm=algorithm)
    check_svd(np.zeros((0, 3)), "float64", True, algorithm=algorithm)
    for low in (random(rng, (4, 2), "float64") @ random(rng, (2, 4), "float64"), np.zeros((4, 4))):
        check_svd(low, "float64", True, False, algorithm=algorithm)


def test_svd_subset(rng):
    a = rng.normal(size=(2, 4, 5))
    u, s, vh = arrays(linalg.svd(a, full_matrices=False))
    part = arrays(linalg.svd(a, full_matrices=False, subset_by_index=(1, 3)))
    for ours, theirs in zip(part, (u[..., 1:3], s[..., 1:3], vh[..., 1:3, :])):
        near(ours, theirs, "float64")
    near(linalg.svd(a, compute_uv=False, subset_by_index=(0, 2)), s[..., :2], "float64")
    assert linalg.svd(a, subset_by_index=(0, 4))[2].shape == (2, 5, 5)
    assert np.isnan(linalg.svd(np.full((3, 3), np.nan), algorithm=Svd.QR)[1]).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_qdwh(rng, dtype):
    a = random(rng, (6, 4), dtype)
    u, h, count, converged = arrays(linalg.qdwh(a))
    expected = scipy.linalg.polar(a)
    near(u, expected[0], dtype)
    near(h, expected[1], dtype)
    assert converged and 2 < count < 8 and u.dtype == h.dtype == dtype
    padded = np.full((6, 4), 7, dtype)
    padded[:5, :3] = a[:5, :3]
    u, h, *_ = arrays(linalg.qdwh(padded, dynamic_shape=(5, 3)))
    near(u[:5, :3] @ h[:3, :3], a[:5, :3], dtype)
    orthonormal(u[:5, :3], dtype)
    assert not u[5:].any() and not u[:, 3:].any() and not h[3:].any()


def test_qdwh_iterations():
    u, h, count, converged = linalg.qdwh(2 * np.eye(3, dtype="float32"), max_iterations=2)
    assert count == 2 and not converged
    with xf.enable_x64(False):  # indices of the diagonal are 32 bits wide, too
        near(xf.vmap(lambda x: linalg.svd(x, algorithm=Svd.POLAR)[1])(np.ones((1, 2, 2), "float32")), [[2, 0]], "float32")


def test_qdwh_of_nearly_singular_matrices(rng):
    """Singular values over 12 orders of magnitude, and a zero matrix."""
    left, right = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    u, h, _, converged = arrays(linalg.qdwh(left * np.logspace(0, -12, 4) @ right))
    near(u, left @ right, "float64", 1e-3)
    near(u @ h, left * np.logspace(0, -12, 4) @ right, "float64", 1e-14)
    assert converged
    assert not any(np.asarray(x).any() for x in linalg.qdwh(np.zeros((4, 4)))[:2])


def singular(x, full=False):
    """Return quantities that do not depend on the arbitrary phases of vectors."""
    u, s, vh = linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return [s, squares(u[..., :k]), squares(vh[..., :k, :]), u[..., :k] @ vh[..., :k, :],
            u[..., k:] @ u[..., k:].mT.conj(), vh[..., k:, :].mT.conj() @ vh[..., k:, :]]


DERIVATIVES = {
    "square": (singular, (2, 3, 3)), "tall": (singular, (4, 2)), "all of wide": (lambda x: singular(x, True), (2, 4)),
    "values": (lambda x: [linalg.svd(x, compute_uv=False)], (4, 3)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_derivatives_match_differences(name, kind, rng):
    f, shape = DERIVATIVES[name]
    check_matrix_derivatives(f, kind, [shape], rng, 1e-5)


def test_second_derivatives_match_differences(rng):
    check_derivatives(xf.grad(lambda x: xnp.sum(linalg.svd(x, full_matrices=False)[0] ** 4)), [rng.normal(size=(3, 3))], rng, 1e-4)


def test_svd_tangents_keep_phases_of_v():
    """Tangents of complex singular vectors keep the phases of V."""
    rng = np.random.default_rng(0)
    a, a_t = random(rng, (3, 3), "complex128"), random(rng, (3, 3), "complex128")
    found, moved = xf.jvp(functools.partial(linalg.svd, full_matrices=False), (a,), (a_t,))
    u, s, vh = arrays(found)
    u_t, s_t, vh_t = arrays(moved)
    near(u_t * s @ vh + u * s_t @ vh + u * s @ vh_t, a_t, "complex128")
    near(np.diag(vh_t @ vh.conj().T), np.zeros(3), "complex128")


def test_singular_matrices():
    """A single zero singular value has vectors with derivatives."""
    u_t = xf.jvp(lambda x: linalg.svd(x)[0], (np.diag([2.0, 1.0, 0.0]),), (np.ones((3, 3)),))[1]
    assert np.isfinite(u_t).all()


@pytest.mark.cpu_only
def test_vmap_and_sharding(rng):
    check_over_devices(linalg.svd, rng.normal(size=(8, 3, 3)).astype("float32"))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: linalg.svd(np.ones(3)), TypeError, r"svd takes a matrix.*\(3,\)"),
    (lambda: linalg.svd(np.ones((3, 3), int)), TypeError, "svd does not accept dtype int64.*astype"),
    (lambda: linalg.svd(np.eye(3), subset_by_index=(1, 2)), ValueError, "use full_matrices=False"),
    (lambda: linalg.svd(np.eye(3), subset_by_index=(2, 1), full_matrices=False), ValueError, "start <= end"),
    (lambda: linalg.qdwh(np.ones((2, 3))), ValueError, r"\(2, 3\).*conj\(\).T"),
    (lambda: linalg.qdwh(np.ones((3, 3), int)), ValueError, "int64"),
])
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_primitive_has_a_default_algorithm():
    x = np.diag(np.float32([3, 2]))
    bind = functools.partial(lax.linalg.svd_p.bind, full_matrices=False, compute_uv=True, subset_by_index=None)
    assert bind(x)[0].tolist() == [3, 2]
    assert np.allclose(xf.jvp(lambda a: bind(a)[0], (x,), (x,))[1], [3, 2])
