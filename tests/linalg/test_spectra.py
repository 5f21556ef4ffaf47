"""Eigenvalues and eigenvectors: against NumPy, their equations, and finite differences."""

import numpy as np
import pytest
from laws import check_derivatives
from matrices import DTYPES, arrays, check_matrix_derivatives, check_over_devices, near, orthonormal, random, wide as wide

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

linalg = lax.linalg


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (1, 1), (0, 0), (0, 3, 3)])
def test_eigh(rng, dtype, shape):
    a = random(rng, shape, dtype)
    full = (a + a.conj().mT) / 2
    for x, options in ((a, {}), (np.tril(full), {"symmetrize_input": False}),
                       (np.triu(full), {"symmetrize_input": False, "lower": False})):
        v, w = arrays(linalg.eigh(x, **options))
        near(w, np.linalg.eigvalsh(full), dtype)
        near(full @ v, v * w[..., None, :], dtype)
        orthonormal(v, dtype)
        assert v.dtype == dtype and w.dtype == np.finfo(dtype).dtype


def test_eigh_options(rng):
    a = rng.normal(size=(2, 4, 4))
    v, w = arrays(linalg.eigh(a))
    part_v, part_w = arrays(linalg.eigh(a, subset_by_index=(1, 3)))
    near(part_w, w[..., 1:3], "float64")
    near(part_v, v[..., 1:3], "float64")
    near(linalg.eigh(a, implementation=linalg.EighImplementation.QR, sort_eigenvalues=False)[1], w, "float64")
    assert linalg.eigh(np.eye(3, dtype=int))[1].dtype == np.float64
    assert np.isnan(linalg.eigh(np.full((3, 3), np.nan))[1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (1, 1), (0, 0), (0, 3, 3)])
def test_eig(rng, dtype, shape):
    a = random(rng, shape, dtype)
    w, left, right = arrays(linalg.eig(a))
    near(a @ right, right * w[..., None, :], dtype)
    near(left.conj().mT @ a, w[..., :, None] * left.conj().mT, dtype)
    assert w.dtype == left.dtype == right.dtype == np.result_type(dtype, np.complex64)
    for vectors in (left, right):
        near(np.linalg.norm(vectors, axis=-2), np.ones(w.shape), dtype)
    found = linalg.eig(a, compute_left_eigenvectors=False, use_magma=False)
    near(found[0], np.linalg.eigvals(a), dtype)
    near(found[1], right, dtype)
    assert len(found) == 2
    assert len(linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)) == 1


# Derivatives: phases of vectors are anybody's choice, so they are taken of what does not depend on them.


def squares(x):
    return xnp.abs(x) ** 2


def spectrum(x):
    v, w = linalg.eigh(x)
    return [squares(v), w]


def some_of_spectrum(x):
    v, w = linalg.eigh(x, subset_by_index=(1, 3))
    return [squares(v), w]


DERIVATIVES = {
    "eigh": (spectrum, (2, 3, 3)), "some of eigh": (some_of_spectrum, (3, 3)),
    "eig": (lambda x: linalg.eig(x, enable_eigvec_derivs=True), (2, 3, 3)),
    "right of eig": (lambda x: linalg.eig(x, enable_eigvec_derivs=True, compute_left_eigenvectors=False), (3, 3)),
    "values of eig": (lambda x: linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False), (3, 3)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_derivatives_match_differences(name, kind, rng):
    f, shape = DERIVATIVES[name]
    check_matrix_derivatives(f, kind, [shape], rng, 1e-5)


@pytest.mark.parametrize("f", [
    lambda x: xnp.sum(linalg.eigh(x)[0] ** 4) + xnp.sum(linalg.eigh(x)[1] ** 3),
    lambda x: xnp.sum(xnp.abs(linalg.eig(x, enable_eigvec_derivs=True)[2]) ** 4)])
def test_second_derivatives_match_differences(f, rng):
    check_derivatives(xf.grad(f), [rng.normal(size=(3, 3))], rng, 1e-4)


def test_eigenvalue_derivatives_with_equal_eigenvalues():
    """Eigenvalues have derivatives even if two are equal, unless vectors are requested."""
    near(xf.grad(lambda x: xnp.sum(linalg.eigh(x)[1]))(xnp.eye(3)), np.eye(3), "float64")


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["eigh", "eig"])
def test_vmap_and_sharding(name, rng):
    check_over_devices(getattr(linalg, name), rng.normal(size=(8, 3, 3)).astype("float32"))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: linalg.eigh(np.ones((3, 2))), ValueError, r"eigh.*square.*\(3, 2\)"),
    (lambda: linalg.eigh(np.ones((3, 3)), subset_by_index=(1, 4)), ValueError, r"subset_by_index=\(1, 4\).*<= 3"),
    (lambda: linalg.eig(np.ones((3, 2))), ValueError, r"eig.*square.*\(3, 2\)"),
    (lambda: linalg.eig(np.eye(3, dtype=int)), TypeError, "eig does not accept dtype int64.*astype"),
    pytest.param(lambda: linalg.eig(np.eye(3), use_magma=True), ValueError, "only LAPACK", marks=pytest.mark.cpu_only),
    (lambda: xf.grad(lambda x: linalg.eig(x)[0].real.sum())(np.eye(3)), NotImplementedError, "enable_eigvec_derivs=True"),
])
def test_bad_input_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()
