"""NaN and half-integers, compared with SciPy."""

import numpy as np
import scipy.ndimage
import scipy.special
import scipy.stats

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.scipy import ndimage, special, stats


def test_xlogy_of_zero_and_nan():
    x, y = np.array([0, 0, 1, 0, 2.0]), np.array([np.nan, 0, np.nan, -3, 3])
    np.testing.assert_allclose(special.xlogy(x, y), scipy.special.xlogy(x, y), rtol=1e-6)
    np.testing.assert_allclose(special.xlog1py(x, y), scipy.special.xlog1py(x, y), rtol=1e-6)


def test_mode_counts_nan_as_one_value():
    for x in (np.array([np.nan, np.nan, 1]), np.array([1.0, 2, 2, np.nan])):
        values, counts = np.unique(x, return_counts=True)  # SciPy gives NaN for any NaN by its policy
        found = stats.mode(x)
        np.testing.assert_array_equal(found.mode, values[counts.argmax()])
        assert found.count == counts.max()


def test_nearest_elements_of_halves():
    """Half-integers below the array are outside of it."""
    coordinates = np.array([-0.5, -0.6, -1.5, 5.5])
    found = ndimage.map_coordinates(xnp.arange(1.0, 6), [coordinates], order=0, mode="constant", cval=9)
    np.testing.assert_array_equal(found, scipy.ndimage.map_coordinates(np.arange(1.0, 6), [coordinates], order=0, cval=9))


def test_spherical_harmonics_beyond_the_poles():
    """The polar angle enters by its cosine, and by the size of its sine, as in SciPy."""
    m, n = np.array([0, 1, 2, -1, 1, -2]), np.array([0, 1, 2, 1, 2, 2])
    for first, last in ((-7, -4), (-3, -0.1), (4, 6), (7, 12)):
        polar, azimuthal = np.linspace(first, last, 6), np.linspace(0, 5, 6)
        np.testing.assert_allclose(special.sph_harm_y(n, m, polar, azimuthal, n_max=2),
                                   scipy.special.sph_harm_y(n, m, polar, azimuthal), atol=1e-5)


def test_nothing_taken_in_one_way():
    n = np.float32([0, 0.5, 3])
    assert special.comb(n, np.float32(0), repetition=True).tolist() == scipy.special.comb(n, 0, repetition=True).tolist() == [1, 1, 1]


def test_divergences_of_infinities_and_nan():
    pairs = [(a, b) for a in (np.nan, np.inf, 0.5, 0, -1) for b in (np.nan, np.inf, 2, 0, -1)]
    p, q = np.array(pairs).T
    with np.errstate(all="ignore"):
        for name in ("rel_entr", "kl_div"):
            np.testing.assert_allclose(getattr(special, name)(xnp.float32(p), xnp.float32(q)), getattr(scipy.special, name)(p, q), err_msg=name)
    for function in (special.rel_entr, special.kl_div):
        slopes = np.stack(xf.vmap(xf.grad(function, (0, 1)))(xnp.float32(p), xnp.float32(q)), 1)
        for pair, slope in zip(pairs, slopes):
            if np.isnan(pair).any():
                assert np.isnan(slope).all()
            elif min(pair) < 0 or pair[0] > pair[1] == 0:  # the value is infinite and constant there
                assert (slope == 0).all()
