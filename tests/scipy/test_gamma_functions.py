"""Gamma functions of complex numbers, orders that are integers, and normal functions of lists, against SciPy."""

import numpy as np
import pytest
import scipy.special as special

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.special as ours


@pytest.mark.parametrize(("dtype", "error"), [(np.complex64, 3e-5), (np.complex128, 1e-12)])
def test_gamma_of_complex_numbers(dtype, error, rng):
    z = rng.uniform(-8, 8, 300) + 1j * rng.uniform(-8, 8, 300)
    z = np.concatenate([z, rng.uniform(-7.7, 20, 60)]).astype(dtype)  # on the real line too
    with xf.enable_x64(dtype is np.complex128):
        got = ours.gamma(z)
        assert got.dtype == dtype
        wanted = special.gamma(z.astype(np.complex128))
        np.testing.assert_array_less(np.abs(np.asarray(got) - wanted), error * np.abs(wanted))
        np.testing.assert_array_equal(np.asarray(got)[300:].imag, 0)
        assert np.isnan(np.asarray(ours.gamma(np.array([0j, -1, -5], dtype)))).all()


def test_the_derivative_of_gamma_of_complex_numbers():
    with xf.enable_x64(True):
        for z in (1 + 1j, 2 + 0j, -2.5 + 0.3j, -1.5 + 0j):
            slope = complex(xf.grad(ours.gamma, holomorphic=True)(z))
            np.testing.assert_allclose(slope, special.gamma(z) * special.digamma(z), rtol=1e-10)


def test_orders_of_polygamma_are_integers():
    x = np.array([0.5, 1.0, 7.5], np.float32)
    for n in (0, np.int8(1), np.array([1, 2, 3])):
        np.testing.assert_allclose(np.asarray(ours.polygamma(n, x)), special.polygamma(n, x), rtol=2e-5)
    for n in (1.0, True, 1j, np.ones(3, np.float32)):
        with pytest.raises(ValueError, match="integers as orders"):
            ours.polygamma(n, x)


def test_normal_functions_of_lists():
    for name in ("ndtr", "log_ndtr"):
        got = getattr(ours, name)([[-1.0], [2.0]])
        np.testing.assert_allclose(np.asarray(got), getattr(special, name)([[-1.0], [2.0]]), rtol=1e-5)
        with pytest.raises((TypeError, ValueError)):
            getattr(ours, name)(None)
    with pytest.raises(TypeError):
        ours.ndtri([0.5])


def test_weak_types_do_not_come_out():
    assert not ours.gamma(1j).weak_type and ours.gamma(xnp.array(1j)).dtype == np.complex64
