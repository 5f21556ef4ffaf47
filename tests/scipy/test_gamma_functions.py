"""Complex gamma functions, integer orders, and normal functions of lists, against SciPy."""

import numpy as np
import pytest
import scipy.special as special

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.special as ours


@pytest.mark.parametrize(("dtype", "error"), [(np.complex64, 3e-5), (np.complex128, 1e-12)])
def test_complex_gamma(dtype, error, rng):
    z = rng.uniform(-8, 8, 300) + 1j * rng.uniform(-8, 8, 300)
    z = np.concatenate([z, rng.uniform(-7.7, 20, 60)]).astype(dtype)  # on the real line too
    with xf.enable_x64(dtype is np.complex128):
        got = ours.gamma(z)
        assert got.dtype == dtype
        expected = special.gamma(z.astype(np.complex128))
        np.testing.assert_array_less(np.abs(np.asarray(got) - expected), error * np.abs(expected))
        np.testing.assert_array_equal(np.asarray(got)[300:].imag, 0)
        assert np.isnan(np.asarray(ours.gamma(np.array([0j, -1, -5], dtype)))).all()


def test_complex_gamma_derivative():
    with xf.enable_x64(True):
        for z in (1 + 1j, 2 + 0j, -2.5 + 0.3j, -1.5 + 0j):
            slope = complex(xf.grad(ours.gamma, holomorphic=True)(z))
            np.testing.assert_allclose(slope, special.gamma(z) * special.digamma(z), rtol=1e-10)


def test_polygamma_requires_integer_orders():
    x = np.array([0.5, 1.0, 7.5], np.float32)
    for n in (0, np.int8(1), np.array([1, 2, 3])):
        np.testing.assert_allclose(np.asarray(ours.polygamma(n, x)), special.polygamma(n, x), rtol=2e-5)
    for n in (1.0, True, 1j, np.ones(3, np.float32)):
        with pytest.raises(ValueError, match="integers as orders"):
            ours.polygamma(n, x)


def test_normal_functions_accept_lists():
    for name in ("ndtr", "log_ndtr"):
        got = getattr(ours, name)([[-1.0], [2.0]])
        np.testing.assert_allclose(np.asarray(got), getattr(special, name)([[-1.0], [2.0]]), rtol=1e-5)
        with pytest.raises((TypeError, ValueError)):
            getattr(ours, name)(None)
    with pytest.raises(TypeError):
        ours.ndtri([0.5])


def test_results_are_strongly_typed():
    assert not ours.gamma(1j).weak_type and ours.gamma(xnp.array(1j)).dtype == np.complex64


# Numbers that both types hold, and what betaln and poch are there, by sums of 90 digits.
OF_BETA = np.array([2**-6, 0.75, 9.5, 40, 3e3, 2e5, -0.5, 20, 2**-10]), np.array([1e10, 2**100, 1e4, 45, 5e3, 4e2, 1e10, 30, 12])
BETALN = [
    3.790284452874388, -51.7827575905646, -75.81293640226956, -59.37491868426995, -5295.3551146720765,
    -2888.3185593734534, 12.778437588417374, -33.968820791977386, 6.9285234491857395]
OF_POCH, POCH = (np.array([1e4, 400, 12]), np.array([9.5, -3.5, 2.25])), [1.0040444460794077e+38, 7.968358127319035e-10, 299.73092312394397]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accuracy_for_large_arguments(dtype):
    """The error is a few roundings."""
    eps = np.finfo(dtype).eps

    def rounded(*args):
        return [np.array(v, dtype) for v in args]

    with xf.enable_x64(dtype is np.float64):
        np.testing.assert_allclose(ours.betaln(*rounded(*OF_BETA)), BETALN, rtol=4 * eps)
        np.testing.assert_allclose(ours.poch(*rounded(*OF_POCH)), POCH, rtol=100 * eps)
        for name, args in (("rel_entr", ([4.052678, 1e30, 2, 3, 1e-3, 0], [3.8898835, 1e-30, 2, 1e5, 1e-3, 1])),
                           ("ndtri", ([0.4969348, 0.50488955, 0.3, 0.5, 0.74, 0.76],)),
                           ("owens_t", ([1e30, 1, -2], [1, -1e30, 1e25])),
                           ("gammainc", ([10, 292, 1e-30, 2.5], [1e30, 1e30, 1, 1e20])),
                           ("gammaincc", ([10, 292, 1e-30, 2.5], [1e30, 1e30, 1, 1e20]))):
            args = rounded(*args)
            expected = getattr(special, name)(*[v.astype(np.float64) for v in args])
            np.testing.assert_allclose(getattr(ours, name)(*args), expected, rtol=64 * eps, atol=np.finfo(dtype).tiny, err_msg=name)
        slopes = xf.grad(ours.betaln, (0, 1))(dtype(30), dtype(1e4))
        expected = [special.digamma(x) - special.digamma(10030) for x in (30, 1e4)]
        np.testing.assert_allclose(slopes, expected, rtol=max(8 * eps, 1e-11))  # in float64 they cancel for SciPy
        np.testing.assert_allclose(xf.grad(ours.betaln)(dtype(1e18), dtype(2)), -2e-18, rtol=8 * eps)
        slope = xf.grad(xf.grad(ours.betaln))(dtype(50), dtype(1))  # of -log(x)
        np.testing.assert_allclose(slope, 1 / 2500, rtol=8 * eps)
        assert float(ours.betainc(dtype(1), dtype(1e-30), dtype(0.9999999))) >= 0


def test_complex_arguments_raise():
    for name, count in (("gammasgn", 1), ("entr", 1), ("beta", 2), ("rel_entr", 2), ("kl_div", 2), ("poch", 2), ("betainc", 3)):
        with pytest.raises(ValueError, match=name):
            getattr(ours, name)(1j, *[2.0] * (count - 1))
    with pytest.raises(TypeError, match="betaln"):
        ours.betaln(1j, 2.0)
