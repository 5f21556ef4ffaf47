"""Incomplete gamma and beta functions and Bessel functions against SciPy: values, limits, derivatives, batches, bad input."""

import math

import numpy as np
import pytest
import scipy.special as sp
from laws import finite_difference

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.scipy import special

# name: SciPy's function, number of arguments
FUNCTIONS = {"bessel_i0e": (sp.i0e, 1), "bessel_i1e": (sp.i1e, 1), "igamma": (sp.gammainc, 2), "igammac": (sp.gammaincc, 2), "betainc": (sp.betainc, 3)}
# relative and absolute error that is allowed; what is smaller than 1e-30 is not compared
ERRORS = {np.float32: (1e-4, 3e-5), np.float64: (2e-11, 1e-12)}


def points(name, rng, dtype):
    n = 1500
    if name.startswith("bessel"):
        return [np.concatenate([rng.normal(size=n) * 10, 10.0 ** rng.uniform(-20, 6, n)]).astype(dtype)]
    if name == "betainc":
        a, b, x = 10 ** rng.uniform(-2, 3, n), 10 ** rng.uniform(-2, 3, n), rng.uniform(size=n)
        x[::2] = np.clip(a / (a + b) * (1 + rng.normal(size=n) / np.sqrt(a + b + 1)), 1e-5, 1 - 1e-5)[::2]
        return [v.astype(dtype) for v in (a, b, x)]
    a = 10 ** rng.uniform(-2, 6, n)
    x = a * np.where(np.arange(n) % 2, 10 ** rng.uniform(-0.5, 0.5, n), 1 + 3 * rng.normal(size=n) / np.sqrt(a + 9))
    return [v.astype(dtype) for v in (a, abs(x))]


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_match_scipy(name, dtype, rng):
    relative, absolute = ERRORS[dtype]
    args = points(name, rng, dtype)
    with xf.enable_x64(dtype is np.float64):
        got = np.asarray(getattr(lax, name)(*args))
    expected = FUNCTIONS[name][0](*[a.astype(np.float64) for a in args])
    assert got.dtype == dtype and not np.isnan(got).any()
    np.testing.assert_allclose(got, expected, rtol=relative, atol=1e-30 if name.startswith("bessel") else absolute)


def at_borders(values, count):
    grid = np.meshgrid(*[np.array(values)] * count, indexing="ij")
    return [g.ravel() for g in grid]


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_limits_and_special_values(name, dtype):
    """Zeros of both signs, infinities, NaN, negative numbers."""
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 0.5, 2.0, 1e-30, 200.0]
    args = [a.astype(dtype) for a in at_borders(values, FUNCTIONS[name][1])]
    with xf.enable_x64(dtype is np.float64):
        got = np.asarray(getattr(lax, name)(*args))
    expected = FUNCTIONS[name][0](*[a.astype(np.float64) for a in args])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-6)


# function, arguments, in which it can be differentiated
SMOOTH = [
    ("bessel_i0e", [np.array([-3.0, -0.2, 0.5, 7.9, 8.1, 60.0])], (0,)),
    ("bessel_i1e", [np.array([-3.0, -0.2, 0.5, 7.9, 8.1, 60.0])], (0,)),
    ("igamma", [np.array([0.3, 2.0, 30.0, 4.0, 900.0]), np.array([0.2, 3.0, 25.0, 9.0, 920.0])], (0, 1)),
    ("igammac", [np.array([0.3, 2.0, 30.0, 4.0]), np.array([0.2, 3.0, 25.0, 9.0])], (0, 1)),
    ("betainc", [np.array([0.5, 2.0, 30.0]), np.array([1.5, 0.4, 20.0]), np.array([0.2, 0.7, 0.61])], (2,)),
]


@pytest.mark.parametrize("name, args, positions", SMOOTH)
def test_derivatives_match_differences(name, args, positions):
    f = getattr(lax, name)
    with xf.enable_x64(True):
        for i in positions:
            ones = [np.ones_like(a) if j == i else np.zeros_like(a) for j, a in enumerate(args)]
            one = lambda v, i=i: f(*[v if j == i else a for j, a in enumerate(args)])  # noqa: E731
            [numeric] = finite_difference(f, args, ones, 1e-6)
            np.testing.assert_allclose(xf.jvp(one, (args[i],), (ones[i],))[1], numeric, rtol=2e-6, atol=1e-9)
            np.testing.assert_allclose(xf.grad(lambda v, one=one: one(v).sum())(args[i]), numeric, rtol=2e-6, atol=1e-9)


def test_bessel_derivatives_at_zero():
    i0 = [1, 0, 1 / 2, 0, 3 / 8]  # from the power series; the scaled functions take abs(x) to have the derivative 0
    for function, derivatives in ((special.i0, i0), (special.i0e, i0), (xnp.i0, i0), (special.i1, i0[1:]), (special.i1e, i0[1:])):
        for value in derivatives:
            assert abs(function(0.0) - value) < 1e-6
            function = xf.grad(function)


@pytest.mark.parametrize("dtype, error", [("float32", 3e-6), ("float64", 2e-14)])
def test_higher_bessel_derivatives(dtype, error):
    x = np.array([-70, -24, -20.5, -9, -0.3, 1e-5, 0.02, 1, 3, 8.1, 15.9, 16.1, 19.9, 20.1, 60], dtype)
    with xf.enable_x64(True):
        function, scaled = special.i0, special.i0e
        for order in range(5):
            expected = sp.ivp(0, x.astype("float64"), order)
            np.testing.assert_allclose(xf.vmap(function)(x), expected, rtol=error)
            terms = [math.comb(order, k) * (-np.sign(x)) ** (order - k) * sp.ivp(0, x.astype("float64"), k) for k in range(order + 1)]
            np.testing.assert_allclose(xf.vmap(scaled)(x), sum(terms) * np.exp(-np.abs(x.astype("float64"))), atol=error)
            function, scaled = xf.grad(function), xf.grad(scaled)


def test_unsupported_derivatives_raise():
    with pytest.raises(ValueError, match="a and b is not supported"):
        xf.grad(lax.betainc)(1.0, 2.0, 0.5)
    with pytest.raises(NotImplementedError, match="igamma_grad_a"):
        xf.grad(lax.igamma_grad_a)(1.0, 2.0)


def test_derivative_in_shape_parameter(rng):
    """Against finite differences of SciPy's function and, for samples, of its inverse."""
    a = 10 ** rng.uniform(-1, 5, 400)
    x = rng.gamma(a) + 1e-12
    step = 1e-4 * np.sqrt(a) * np.minimum(a, 1)
    with xf.enable_x64(True):
        slope, moved = np.asarray(lax.igamma_grad_a(a, x)), np.asarray(lax.random_gamma_grad(a, x))
    numeric = (sp.gammainc(a + step, x) - sp.gammainc(a - step, x)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-7)
    p = sp.gammainc(a, x)
    inner = (p > 1e-3) & (p < 0.999)
    inverse = (sp.gammaincinv(a + step, p) - sp.gammaincinv(a - step, p)) / (2 * step)
    np.testing.assert_allclose(moved[inner], inverse[inner], rtol=1e-5)
    for f in (lax.igamma_grad_a, lax.random_gamma_grad):
        single = np.asarray(f(a.astype(np.float32), x.astype(np.float32)))
        np.testing.assert_allclose(single, slope if f is lax.igamma_grad_a else moved, rtol=2e-3, atol=1e-5)


# NaN where the shape is not positive, the limit is negative, or one of them is infinite; at 0 nothing moves. As in the reference.
SLOPES_AT_BORDERS = [(1.0, 0.0, 0.0), (np.inf, 0.0, 0.0), (0.0, 1.0, np.nan), (-1.0, 1.0, np.nan), (1.0, -1.0, np.nan), (1.0, np.inf, np.nan),
                     (np.inf, 1.0, np.nan), (np.nan, 1.0, np.nan), (1.0, np.nan, np.nan), (0.0, 0.0, np.nan)]


@pytest.mark.parametrize("name", ["igamma_grad_a", "random_gamma_grad"])
def test_derivatives_at_limits(name):
    a, x, expected = np.array(SLOPES_AT_BORDERS, np.float32).T
    np.testing.assert_array_equal(getattr(lax, name)(a, x), expected)


@pytest.mark.parametrize("name", [*FUNCTIONS, "igamma_grad_a", "random_gamma_grad"])
def test_dtypes_and_batches(name):
    count = FUNCTIONS.get(name, (None, 2))[1]
    f = getattr(lax, name)
    args = [np.array([0.25, 0.5, 0.75], np.float32) * (i + 1) / 2 for i in range(count)]
    exact = np.asarray(f(*args))
    for dtype in ("float16", "bfloat16") if name.startswith("bessel") else ("bfloat16",):
        narrow = [np.asarray(a).astype(dtype) for a in map(xf.numpy.asarray, args)]
        got = f(*narrow)
        assert got.dtype == dtype
        np.testing.assert_allclose(np.asarray(got).astype(np.float32), exact, rtol=1e-2)
    mapped = xf.vmap(f, in_axes=(1, *[None] * (count - 1)))(np.stack([args[0]] * 2, 1), *[a[1] for a in args[1:]])
    np.testing.assert_allclose(mapped[1], f(args[0], *[np.full_like(a, a[1]) for a in args[1:]]), rtol=1e-6)
    if name != "random_gamma_grad":
        assert f(*[0.5] * count).weak_type
        for bad in (1, True, 1j, np.arange(3)):
            with pytest.raises(TypeError, match="dtype"):
                f(*[bad] * count)
    if count > 1:
        with pytest.raises(TypeError, match="shapes"):
            lax.igamma(np.ones((2, 3), np.float32), np.ones((2, 2), np.float32))
        with pytest.raises(TypeError, match="dtypes"):
            lax.igamma(np.ones(3, np.float32), np.ones(3, np.float16))


def test_random_gamma_grad_derivatives():
    """The derivatives of `random_gamma_grad` against finite differences."""
    with xf.enable_x64(True):
        a, x, h = np.array([0.5, 2.0, 30.0]), np.array([0.4, 3.0, 25.0]), 1e-5
        for f, at in ((lambda a: lax.random_gamma_grad(a, x), a), (lambda x: lax.random_gamma_grad(a, x), x)):
            expected = (np.asarray(f(at + h)) - np.asarray(f(at - h))) / (2 * h)
            np.testing.assert_allclose(xf.jvp(f, (at,), (np.ones(3),))[1], expected, rtol=1e-5)
            np.testing.assert_allclose(xf.grad(lambda at, f=f: f(at).sum())(at), expected, rtol=1e-5)
