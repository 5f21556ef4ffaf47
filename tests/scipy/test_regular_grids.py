"""Interpolation on grids, and integrals of samples, against SciPy."""

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
from laws import check_derivatives

import xlafront as xf
import xlafront.scipy as jsp
from xlafront.scipy.interpolate import RegularGridInterpolator

GRID = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 2.5, 4.0])


@pytest.mark.parametrize("fill", [np.nan, None, 7.0])
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("rest", [(), (2,)])
def test_values_match_scipy(rest, method, fill, rng):
    values, points = rng.normal(size=(3, 4, *rest)), rng.uniform(-1, 5, (5, 7, 2))
    points[0, 0] = 1.0, 2.5
    points[0, 1] = np.nan, 1.0
    theirs = scipy.interpolate.RegularGridInterpolator(GRID, values, method, False, fill)
    with xf.enable_x64(True):
        ours = RegularGridInterpolator(GRID, values, method, False, fill)
        np.testing.assert_allclose(ours(points), theirs(points), atol=1e-13)
        np.testing.assert_allclose(xf.jit(lambda f, p: f(p))(ours, points), theirs(points), atol=1e-13)
        np.testing.assert_allclose(ours((np.array([0.5, 2.0]), 1.0)), theirs((np.array([0.5, 2.0]), 1.0)), atol=1e-13)
        np.testing.assert_allclose(ours(points, method="nearest"), theirs(points, method="nearest"), atol=1e-13)


def test_transformations(rng):
    values, points = rng.normal(size=(3, 4)), rng.uniform(0.1, 2.9, (6, 2))
    check_derivatives(lambda v, p: RegularGridInterpolator(GRID, v)(p), [values, points], rng)
    assert RegularGridInterpolator(GRID, values)(points[0]).shape == (1,)
    line = RegularGridInterpolator((np.arange(3.0),), np.arange(3.0) ** 2)
    np.testing.assert_allclose(xf.vmap(lambda x: line(x))(np.array([0.5, 1.5])).ravel(), [0.5, 2.5])
    np.testing.assert_allclose(xf.grad(lambda x: line(x)[0])(1.5), 3.0)


V = np.ones((3, 4), np.float32)
REFUSED = [
    ((GRID, V, "cubic"), ValueError), ((GRID, V, "linear", True), NotImplementedError), (((*GRID, GRID[0]), V), ValueError),
    (((GRID[1], GRID[1]), V), ValueError), ((GRID, V, "linear", False, 1j), ValueError), ((GRID, V, "linear", False, "a"), TypeError),
]


@pytest.mark.parametrize("args, error", REFUSED)
def test_bad_input(args, error):
    with pytest.raises(error):
        RegularGridInterpolator(*args)


def test_bad_points():
    f = RegularGridInterpolator(GRID, V)
    for points, error in ((np.ones(3), TypeError), ([[0.5, 0.5]], TypeError)):
        with pytest.raises(error):
            f(points)
    with pytest.raises(ValueError, match="method"):
        f(np.ones((1, 2)), method="bad")


def test_trapezoid(rng):
    y, x = rng.normal(size=(3, 5)).astype(np.float32), np.sort(rng.normal(size=5)).astype(np.float32)
    for options in ({}, {"x": x}, {"dx": 0.3}, {"axis": 0}, {"dx": x[:4]}, {"axis": 0, "dx": abs(y[1:])}):
        np.testing.assert_allclose(jsp.integrate.trapezoid(y, **options), scipy.integrate.trapezoid(y, **options), rtol=1e-5, atol=1e-6)
    many, points = rng.normal(size=(2, 3, 5)).astype(np.float32), rng.normal(size=(3, 5)).astype(np.float32)
    np.testing.assert_allclose(jsp.integrate.trapezoid(many, points), scipy.integrate.trapezoid(many, points), rtol=1e-4, atol=1e-5)
    for bad, error in (({"x": 2.0}, ValueError), ({"dx": np.ones(3), "axis": 0}, TypeError)):
        with pytest.raises(error):
            jsp.integrate.trapezoid(y, **bad)
    with pytest.raises(IndexError, match="at least one sample"):
        jsp.integrate.trapezoid(y[:, :0])


def test_scipy_submodules_are_attributes():
    """Submodules of `xlafront.scipy` need no separate import, as in JAX."""
    for name in ("fft", "integrate", "interpolate", "linalg", "ndimage", "signal", "special", "stats"):
        assert getattr(jsp, name).__name__ == f"xlafront.scipy.{name}" and name in dir(jsp)
