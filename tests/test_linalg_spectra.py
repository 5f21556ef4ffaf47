"""Eigenvalues and eigenvectors: against NumPy, their equations, and finite differences."""

import numpy as np
import pytest
from laws import check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P, lax

linalg = lax.linalg
DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def wide():
    with xf.enable_x64(True):
        yield


def random(rng, shape, dtype):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def near(x, y, dtype, tolerance=None):
    tolerance = tolerance or (2e-4 if dtype in ("float32", "complex64") else 1e-10)
    np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


def orthonormal(x, dtype):
    near(x.conj().mT @ x, np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1])), dtype)


def arrays(found):
    return [np.asarray(x) for x in found]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (1, 1), (0, 0), (0, 3, 3)])
def test_eigh(rng, dtype, shape):
    a = random(rng, shape, dtype)
    whole = (a + a.conj().mT) / 2
    for x, options in ((a, {}), (np.tril(whole), {"symmetrize_input": False}),
                       (np.triu(whole), {"symmetrize_input": False, "lower": False})):
        v, w = arrays(linalg.eigh(x, **options))
        near(w, np.linalg.eigvalsh(whole), dtype)
        near(whole @ v, v * w[..., None, :], dtype)
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


def parts(f):
    """`f` as a function of real and imaginary parts, to real and imaginary parts."""
    def real(*args):
        found = f(args[0] + 1j * args[1] if len(args) == 2 else args[0])
        return [part for x in found for part in ((x.real, x.imag) if xnp.iscomplexobj(x) else (x,))]

    return real


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_derivatives(name, kind, rng):
    f, shape = DERIVATIVES[name]
    check_derivatives(parts(f), [rng.normal(size=shape) for _ in range(1 if kind == "real" else 2)], rng, 1e-5)


@pytest.mark.parametrize("f", [
    lambda x: xnp.sum(linalg.eigh(x)[0] ** 4) + xnp.sum(linalg.eigh(x)[1] ** 3),
    lambda x: xnp.sum(xnp.abs(linalg.eig(x, enable_eigvec_derivs=True)[2]) ** 4)])
def test_derivatives_of_derivatives(f, rng):
    check_derivatives(xf.grad(f), [rng.normal(size=(3, 3))], rng, 1e-4)


def test_equal_values():
    """Eigenvalues have derivatives where two are equal and nobody asks for vectors."""
    near(xf.grad(lambda x: xnp.sum(linalg.eigh(x)[1]))(xnp.eye(3)), np.eye(3), "float64")


@pytest.mark.parametrize("name", ["eigh", "eig"])
def test_over_a_mapped_axis_and_over_devices(name, rng):
    """Split along a batch over eight devices, each works on its own matrices."""
    x = rng.normal(size=(8, 3, 3)).astype("float32")
    f = getattr(linalg, name)
    alone = xf.tree.map(lambda *rows: np.stack(rows), *[xf.tree.map(np.asarray, f(row)) for row in x])
    mesh = xf.make_mesh((8,), ("data",), axis_types=(xf.sharding.AxisType.Auto,))
    split = xf.device_put(x, NamedSharding(mesh, P("data")))
    compiled = xf.jit(f).lower(split).compile()
    assert "all-gather" not in compiled.as_text()
    for found in (xf.vmap(f, in_axes=2)(np.moveaxis(x, 0, 2)), compiled(split)):
        for ours, theirs in zip(xf.tree.leaves(found), xf.tree.leaves(alone)):
            near(ours, theirs, "float32")
    assert all(leaf.sharding.spec[0] == "data" for leaf in xf.tree.leaves(compiled(split)))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: linalg.eigh(np.ones((3, 2))), ValueError, r"eigh.*square.*\(3, 2\)"),
    (lambda: linalg.eigh(np.ones((3, 3)), subset_by_index=(1, 4)), ValueError, r"subset_by_index=\(1, 4\).*<= 3"),
    (lambda: linalg.eig(np.ones((3, 2))), ValueError, r"eig.*square.*\(3, 2\)"),
    (lambda: linalg.eig(np.eye(3, dtype=int)), TypeError, "eig does not take.*int64.*astype"),
    (lambda: linalg.eig(np.eye(3), use_magma=True), ValueError, "LAPACK alone"),
    (lambda: xf.grad(lambda x: linalg.eig(x)[0].real.sum())(np.eye(3)), NotImplementedError, "enable_eigvec_derivs=True"),
])
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
