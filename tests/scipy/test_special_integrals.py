"""Integrals, hypergeometric and integer-order functions against SciPy: wide ranges, limits, derivatives, dtypes."""

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.special as special
from laws import check_batching, finite_difference

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy.special as ours

BORDERS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 1e-30, -1e-30, 1e30])
# name: whether negative numbers are tried too, the relative errors allowed in float64 and in float32
REAL = {
    "dawsn": (True, 1e-13, 3e-6), "erfcx": (True, 2e-13, 3e-6), "exp1": (True, 1e-14, 1e-6), "expi": (True, 5e-13, 3e-5),
    "spence": (True, 1e-13, 3e-6), "fresnel": (True, 5e-13, 1e-6), "sici": (True, 1e-13, 2e-6), "loggamma": (False, 1e-13, 5e-6),
}


def points(rng, negative, count=600):
    x = np.concatenate([10 ** rng.uniform(-8, 3, count), rng.uniform(0, 12, count)])
    return np.concatenate([x, -x]) if negative else x


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", REAL)
def test_values_for_real_arguments(name, dtype, rng):
    negative, *errors = REAL[name]
    x = points(rng, negative).astype(dtype)
    if name == "erfcx":
        x = x[x > -9]
    with xf.enable_x64(dtype is np.float64):
        got = xf.tree.leaves(getattr(ours, name)(x))
    expected = getattr(special, name)(x.astype(np.float64))
    for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,)):
        assert a.dtype == dtype
        a, error = np.asarray(a, np.float64), errors[dtype is np.float32]
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        huge = np.abs(b) > np.finfo(dtype).max / 10
        np.testing.assert_allclose(a[~huge], b[~huge], rtol=error, atol=1e-15 if dtype is np.float64 else 2e-6)
        np.testing.assert_array_equal(np.sign(a[huge]), np.sign(b[huge]))


@pytest.mark.parametrize("name", REAL)
def test_limits_and_special_values(name):
    """Equal to SciPy's, with signs of zeros, except for Spence's function at infinity, whose limit is minus infinity."""
    with xf.enable_x64(True):
        got = xf.tree.leaves(getattr(ours, name)(BORDERS))
    expected = np.reshape(getattr(special, name)(BORDERS), (-1, BORDERS.size)).copy()
    if name == "spence":
        expected[0, 2] = -np.inf
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=0)
        if name in ("dawsn", "erfcx"):
            np.testing.assert_array_equal(np.signbit(a)[~np.isnan(b)], np.signbit(b)[~np.isnan(b)])


# name: values, the error allowed in float64 and float32, relative to the modulus
COMPLEX = {"wofz": (1e-13, 1e-5), "erfcx": (1e-13, 1e-5), "loggamma": (1e-12, 3e-5)}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", COMPLEX)
def test_values_for_complex_arguments(name, dtype, rng):
    x, y = np.where(np.arange(1500) % 2, rng.normal(size=(2, 1500)) * 5, 10 ** rng.uniform(-8, 3, (2, 1500)) * rng.choice([-1, 1], (2, 1500)))
    if name == "wofz":
        y = np.where(y < -abs(x) - 3, -y, y)  # where it does not overflow
    if name == "erfcx":
        x = np.where(x < -abs(y) - 3, -x, x)
    z = (x + 1j * y).astype(dtype)
    with xf.enable_x64(dtype is np.complex128):
        got = np.asarray(getattr(ours, name)(z))
    expected = getattr(special, name)(z.astype(np.complex128))
    assert got.dtype == dtype
    small = np.abs(expected) < 1e25
    error = np.abs(got - expected)[small] / (np.abs(expected)[small] + (0 if name == "wofz" else 0.1))
    if dtype is np.complex64:  # near zeros of the function, of which the place is not exact
        assert np.quantile(error, 0.99) < COMPLEX[name][1]
    else:
        assert error.max() < COMPLEX[name][0]


def test_complex_limits():
    with xf.enable_x64(True):
        both_sides = np.array([complex(-1.5, 0.0), complex(-1.5, -0.0), complex(-20.25, 0.0), complex(-20.25, -0.0)])
        np.testing.assert_allclose(ours.loggamma(both_sides), special.loggamma(both_sides), rtol=1e-13)
        assert np.isnan(np.asarray(ours.loggamma(np.array([0j, -1 + 0j, -7 + 0j])))).all()
        ends = np.array([complex(np.inf, 0), complex(-np.inf, 0), complex(0, np.inf), complex(0, -np.inf), complex(np.nan, 0)])
        np.testing.assert_array_equal(ours.wofz(ends), special.wofz(ends))
        large = np.array([1e10, 1e20, -1e30, 1e20 + 1e20j, 3 + 1e25j, -1e25 + 2j], "complex64")  # the squares go beyond float32
        np.testing.assert_allclose(ours.wofz(large), special.wofz(large.astype(complex)), rtol=1e-6)
        # the real part alone, where it is far smaller than the imaginary one
        z = np.array([5 + 1e-9j, 8 + 1e-12j, 30 + 1e-5j, 3 + 0j])
        np.testing.assert_allclose(np.real(ours.wofz(z)), np.real(special.wofz(z)), rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_generalized_exponential_integrals(dtype, rng):
    n, x = np.meshgrid(np.array([0, 1, 2, 3, 5, 10, 33, 200]), np.concatenate([10 ** rng.uniform(-8, 2, 60), rng.uniform(0, 5, 60)]))
    with xf.enable_x64(dtype is np.float64):
        got = ours.expn(n, x.astype(dtype))
        border = np.asarray(ours.expn(np.array([0, 1, 2, 5, 2, 2]), np.array([0.0, 0, 0, 0, np.inf, -1], dtype)))
        half = float(ours.expn(0.5, dtype(0.7)))
    expected = special.expn(n, x.astype(dtype).astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=1e-13 if dtype is np.float64 else 5e-6, atol=1e-40)
    np.testing.assert_allclose(border, [np.inf, np.inf, 1, 0.25, 0, np.nan])
    # E_1/2(x) = sqrt(pi / x) erfc(sqrt(x))
    single = 1e-6 if xf.default_backend() == "cpu" else 5e-6
    np.testing.assert_allclose(half, np.sqrt(np.pi / 0.7) * special.erfc(np.sqrt(0.7)), rtol=1e-13 if dtype is np.float64 else single)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_owens_t(dtype, rng):
    h, a = 10 ** rng.uniform(-3, 1.2, (2, 1500)) * rng.choice([-1, 1], (2, 1500))
    h, a = h.astype(dtype), a.astype(dtype)
    grid = np.array(list(itertools.product([0.0, np.inf, -np.inf, 1.0, np.nan, -2.0], [0.0, np.inf, -np.inf, 1.0, np.nan, -0.5])), dtype).T
    with xf.enable_x64(dtype is np.float64):
        got, ends = ours.owens_t(h, a), ours.owens_t(*grid)
    expected = special.owens_t(h.astype(np.float64), a.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=3e-13 if dtype is np.float64 else 3e-5, atol=1e-30)
    np.testing.assert_allclose(ends, special.owens_t(*grid.astype(np.float64)), rtol=1e-5)


def parameters(rng, count, size):
    found = rng.uniform(-3, 6, (count, size))
    found[:, ::5] = np.round(found[:, ::5])
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hyp1f1(dtype, rng):
    a, b = parameters(rng, 2, 400).astype(dtype)
    b = np.where(b < 0.1, 0.3 - b, b).astype(dtype)
    x = (rng.choice([-1, 1], 400) * 10 ** rng.uniform(-3, 1.8, 400)).astype(dtype)
    with xf.enable_x64(dtype is np.float64):
        got = np.asarray(ours.hyp1f1(a, b, x), np.float64)
    expected = special.hyp1f1(*[v.astype(np.float64) for v in (a, b, x)])
    usual = np.abs(expected) < 1e30
    scale = np.maximum(np.abs(expected), np.minimum(1, np.exp(x.astype(np.float64))))  # SciPy loses what cancels
    error = (np.abs(got - expected) / scale)[usual]
    assert np.quantile(error, 0.98) < (1e-10 if dtype is np.float64 else 1e-4)


def test_derivatives_of_hyp1f1_at_equal_parameters():
    """The values are an exponential there, the derivatives in one parameter are not: -+ sum of x^k / k! (1/2 + ... + 1/(1+k))."""
    x, term, harmonic, slope = 1.5, 1.0, 0.0, 0.0
    for k in range(1, 40):
        term, harmonic = term * x / k, harmonic + 1 / (1 + k)
        slope += term * harmonic
    found = xf.grad(ours.hyp1f1, (0, 1, 2))(2.0, 2.0, x)
    np.testing.assert_allclose(found, (slope, -slope, np.exp(x)), rtol=2e-6)


def test_derivatives_of_spence_at_one():
    """log(x) / (1 - x) is -1 + t / 2 - t**2 / 3 + ... of t = x - 1."""
    first, second, third = (xf.grad(ours.spence), xf.grad(xf.grad(ours.spence)), xf.grad(xf.grad(xf.grad(ours.spence))))
    np.testing.assert_allclose((first(1.0), second(1.0), third(1.0)), (-1, 1 / 2, -2 / 3), rtol=1e-6)


def test_hyp1f1_limits():
    with xf.enable_x64(True):
        table = [(0.0, -1.0, 2.0, 1.0), (1.0, -1.0, 2.0, np.inf), (-1.0, -2.0, 2.0, 2.0), (2.0, 2.0, 1.5, np.exp(1.5)), (1.0, 2.0, 0.0, 1.0),
                 (1.0, 2.0, np.nan, np.nan), (1.0, 2.0, np.inf, np.inf), (1.0, 2.0, -np.inf, 0.0), (1.0, 2.0, -1e4, 1e-4),
                 (1.0, 2.0, 700.0, np.expm1(700.0) / 700), (-3.0, 1.0, 1e3, 1 - 3e3 + 1.5e6 - 1e9 / 6)]
        *args, expected = np.array(table).T
        np.testing.assert_allclose(ours.hyp1f1(*args), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hyp2f1(dtype, rng):
    """The real line up to 1, with integer differences of parameters, for which the formulas near 1 have logarithms."""
    a, b, c = parameters(rng, 3, 600)
    c[::3] = (a + b)[::3] + rng.integers(-2, 4, c[::3].shape)
    c = np.where(c < 0.1, 0.35 - c, c)
    x = np.where(np.arange(600) % 2, rng.uniform(-1, 1, 600), 1 - 10 ** rng.uniform(-2, 3, 600))
    args = [v.astype(dtype) for v in (a, b, c, x)]
    with xf.enable_x64(dtype is np.float64):
        got = np.asarray(ours.hyp2f1(*args), np.float64)
    expected = special.hyp2f1(*[v.astype(np.float64) for v in args])
    error = np.abs(got - expected) / (np.abs(expected) + 1e-3)
    assert np.median(error) < (1e-14 if dtype is np.float64 else 1e-6) and np.quantile(error, 0.97) < (1e-9 if dtype is np.float64 else 1e-3)


def gauss_by_decimals(a, b, c, x):
    """The direct sum after Pfaff's transformation, with enough digits for its cancellation; SciPy is wrong for some cases."""
    a, b, c, x = (Decimal(float(v)) for v in (a, b, c, x))
    factor, b, x = ((1 - x) ** -a, c - b, x / (x - 1)) if x < 0 else (Decimal(1), b, x)
    term, total, k = Decimal(1), Decimal(1), 0
    while abs(term) > abs(total) / 10**30 or k < 80:
        term *= (a + k) * (b + k) / (c + k) / (k + 1) * x
        total, k = total + term, k + 1
    return float(factor * total)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hyp2f1_of_large_parameters(dtype, rng):
    """Alternating terms cancel, and single factors overflow."""
    args = [v.astype(dtype) for v in (*rng.uniform(5, 40, (3, 120)), np.concatenate([rng.uniform(-1, 1, 60), rng.uniform(-30, 0, 60)]))]
    with localcontext() as context:
        context.prec = 120
        expected = np.array([gauss_by_decimals(*numbers) for numbers in zip(*args)])
    with xf.enable_x64(dtype is np.float64):
        got = np.asarray(ours.hyp2f1(*args), np.float64)
    can_be_written = (np.abs(expected) > np.finfo(dtype).tiny) & (np.abs(expected) < float(np.finfo(dtype).max) / 100)
    error = np.abs(got - expected)[can_be_written] / np.abs(expected)[can_be_written]
    assert np.median(error) < (1e-14 if dtype is np.float64 else 1e-5) and np.quantile(error, 0.9) < (1e-9 if dtype is np.float64 else 1e-2)


FAR_LEFT = [  # a, b, c, x and the function there, by sums of 30 digits
    (4.5, 16.75, 4, -584.5, -4.255385756665816e-18), (18.5, 11.5, -0.875, -970, 6.965088540693783e-38),
    (14.9375, -4.0625, -4.21875, -775.5, 980989368613401.9), (-1.984375, 19.25, 9.125, -790, 2350763.0255804234),
    (0.640625, -4.9375, 4.5, -776, 889466332485.5199), (3, -5.5, 0.375, -860, 2.373322642579819e18),
    (1, -2.75, 9, -537, 269287.6054241682), (-1.4375, -3.4375, 2, -700, 51729082.62961787)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hyp2f1_of_large_negative_x(dtype):
    *args, expected = np.resize(FAR_LEFT, (600, 5)).T  # as many as above: one compilation
    with xf.enable_x64(dtype is np.float64):
        got = np.asarray(ours.hyp2f1(*[v.astype(dtype) for v in args]), np.float64)
    np.testing.assert_allclose(got, expected, rtol=200 * np.finfo(dtype).eps)


@pytest.mark.soak
def test_hyp2f1_derivatives_for_large_parameters():
    """Parameters whose terms cancel; reference derivatives are differences of sums with many digits."""
    point, step = (21.3, 30.1, 7.4, -0.8), Decimal("1e-20")
    with xf.enable_x64(True), localcontext() as context:
        context.prec = 120
        got = xf.grad(ours.hyp2f1, (0, 1, 2, 3))(*point)
        for i, slope in enumerate(got):
            args = [Decimal(v) for v in point]
            ends = []
            for sign in (1, -1):
                moved = [v + sign * step * (i == j) for j, v in enumerate(args)]
                a, b, c, x = moved
                term = total = Decimal(1)
                for k in range(600):
                    term *= (a + k) * (c - b + k) / (c + k) / (k + 1) * x / (x - 1)
                    total += term
                ends.append((1 - x) ** -a * total)
            np.testing.assert_allclose(slope, float((ends[0] - ends[1]) / (2 * step)), rtol=1e-6)


def test_hyp2f1_closed_forms():
    x = np.array([-1e6, -30.0, -1.0, -0.3, 0.0, 0.4, 0.79, 0.81, 0.99, 0.999999])
    with xf.enable_x64(True):
        f = ours.hyp2f1
        y = x[x != 0]
        np.testing.assert_allclose(f(1.0, 1.0, 2.0, y), -np.log1p(-y) / y, rtol=1e-11)
        np.testing.assert_allclose(f(0.3, 1.7, 1.7, x), (1 - x) ** -0.3, rtol=1e-11)
        np.testing.assert_allclose(f(0.5, 0.5, 1.0, x), 2 / np.pi * special.ellipk(x), rtol=1e-11)
        table = [(1.0, 1.0, 3.5, 1.0, special.hyp2f1(1, 1, 3.5, 1)), (1.0, 2.0, 2.5, 1.0, np.inf), (1.0, 2.0, 3.0, 2.0, np.inf),
                 (-2.0, 1.0, 3.0, 5.0, 1 - 10 / 3 + 25 / 6), (1.0, 2.0, -1.0, 0.5, np.inf), (0.0, 2.0, -1.0, 0.5, 1.0), (1.0, 2.0, 3.0, np.nan, np.nan)]
        *args, expected = np.array(table).T
        np.testing.assert_allclose(f(*args), expected, rtol=1e-12)


X = np.array([0.3, 0.9, 1.7, 3.1, 6.5, 14.0])
A, B, C = np.array([0.7, 2.0, -1.3, 3.0, 1.0, 1.5]), np.array([1.1, 0.4, 2.2, 1.6, 4.5, 2.5]), np.array([1.9, 2.5, 0.8, 3.3, 1.4, 2.5])
# function, arguments, in which it is differentiated
SMOOTH = [
    *[(name, [X], (0,)) for name in ("dawsn", "erfcx", "exp1", "expi", "fresnel", "sici", "spence", "loggamma")],
    ("dawsn", [-X], (0,)), ("erfcx", [-X / 7], (0,)), ("expi", [-X], (0,)), ("sici", [-X], (0,)), ("fresnel", [-X], (0,)),
    ("expn", [np.full(6, 3.0), X], (1,)), ("owens_t", [X / 3 - 1, A], (0, 1)),
    *[pytest.param(*case, marks=pytest.mark.soak) for case in (  # large programs
        ("hyp1f1", [A, B, np.array([-60.0, -3.0, 0.0, 1.0, 7.0, 30.0])], (0, 1, 2)),
        ("hyp2f1", [A, B, C, np.array([-5.0, -0.7, 0.0, 0.3, 0.7, 0.85])], (0, 1, 2, 3)))],
]


@pytest.mark.parametrize("name, args, positions", SMOOTH)
def test_derivatives_match_differences(name, args, positions):
    """Forward and reverse mode against finite differences."""
    f = getattr(ours, name)
    with xf.enable_x64(True):
        for i in positions:
            one = lambda v, i=i: xnp.stack(xf.tree.leaves(f(*[v if j == i else a for j, a in enumerate(args)])))  # noqa: E731
            [numeric] = finite_difference(one, [args[i]], [np.ones(6)], 1e-6)
            scale = np.abs(numeric) + np.abs(np.asarray(one(args[i]))) + 1e-3
            forward = xf.jvp(one, (args[i],), (np.ones(6),))[1]
            assert np.max(np.abs(forward - numeric) / scale) < 1e-7
            backward = xf.grad(lambda v, one=one: one(v).sum())(args[i])
            assert np.max(np.abs(backward - numeric.sum(0)) / scale.sum(0)) < 1e-7


def test_second_derivatives():
    """Closed forms: of Dawson's integral, E1, and the exponential that Kummer's function is for equal parameters."""
    with xf.enable_x64(True):
        y = special.dawsn(1.3)
        np.testing.assert_allclose(xf.grad(xf.grad(ours.dawsn))(1.3), -2 * y - 2.6 * (1 - 2.6 * y), rtol=1e-13)
        np.testing.assert_allclose(xf.grad(xf.grad(ours.exp1))(1.3), np.exp(-1.3) * (1 / 1.3 + 1 / 1.3**2), rtol=1e-13)
        np.testing.assert_allclose(xf.grad(xf.grad(ours.hyp1f1, 2), 2)(1.0, 2.0, 1.3), special.hyp1f1(3, 4, 1.3) / 3, rtol=1e-12)
        np.testing.assert_allclose(xf.grad(ours.wofz, holomorphic=True)(1 + 1j), -2 * (1 + 1j) * special.wofz(1 + 1j) + 2j / np.sqrt(np.pi))
        z = np.array([1 + 1j, -2.5 + 0.3j, 0.2 - 20j, -30 - 9j])
        slope = xf.jvp(ours.loggamma, (z,), (np.ones(4, complex),))[1]
        np.testing.assert_allclose(slope, special.digamma(z), rtol=1e-12)


def test_fresnel_derivatives_for_large_x():
    """Sine and cosine of `pi x^2 / 2` and their derivatives, for numbers whose squares are rounded."""
    x = np.array([70.2558822631836, -6.858357906341553, 0.5, 1e20], np.float32)
    squares = [(int(n * 2**24) ** 2 % 2**50) / 2**48 for n in x.astype(float)]  # their rest by 4, exactly
    sine, cosine = (f(np.pi / 2 * np.array(squares)) for f in (np.sin, np.cos))
    for i, expected, slope in ((0, sine, cosine), (1, cosine, -sine)):
        first = xf.grad(lambda x, i=i: ours.fresnel(x)[i])
        np.testing.assert_allclose(xf.vmap(first)(x), expected, rtol=2e-6, atol=1e-7)
        np.testing.assert_allclose(xf.vmap(xf.grad(first))(x), np.pi * x * slope, rtol=2e-5)


def test_bernoulli_numbers():
    with xf.enable_x64(True):
        np.testing.assert_allclose(ours.bernoulli(270), special.bernoulli(270), rtol=1e-11)
        for n in range(4):
            np.testing.assert_allclose(ours.bernoulli(n), special.bernoulli(max(n, 2))[:n + 1])
    assert ours.bernoulli(40).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bessel_functions(dtype, rng):
    z = np.concatenate([rng.uniform(-30, 30, 200), [0.0, -0.0, 1e-8, 35.0]]).astype(dtype)
    error = 1e-12 if dtype is np.float64 else 3e-5
    with xf.enable_x64(dtype is np.float64):
        for v, n_iter in ((0, 90), (45, 50)):
            expected = special.jv(np.arange(v + 1)[:, None], z.astype(np.float64))
            np.testing.assert_allclose(ours.bessel_jn(z, v=v, n_iter=n_iter), expected, rtol=error, atol=error)
        slope = xf.jvp(lambda z: ours.bessel_jn(z, v=3, n_iter=90), (z,), (np.ones_like(z),))[1]
        np.testing.assert_allclose(slope, special.jvp(np.arange(4)[:, None], z.astype(np.float64)), rtol=error, atol=error)
        assert ours.bessel_jn(z.reshape(2, -1), v=2).shape == (3, 2, 102) and ours.bessel_jn(z, v=-1).shape == (0, 204)
        backward = xf.grad(lambda z: ours.bessel_jn(z, v=2).sum())(dtype(1.5))
        np.testing.assert_allclose(backward, special.jvp(np.arange(3), 1.5).sum(), rtol=error)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_spherical_harmonics(dtype, rng):
    n, m = (g.ravel() for g in np.meshgrid(np.arange(0, 12), np.arange(-13, 14)))
    theta, phi = rng.uniform(0, np.pi, n.size).astype(dtype), rng.uniform(-4, 4, n.size).astype(dtype)
    theta[:3], error = 0, 1e-12 if dtype is np.float64 else 1e-5
    expected = special.sph_harm_y(n, m, theta.astype(np.float64), phi.astype(np.float64))
    with xf.enable_x64(dtype is np.float64):
        got = ours.sph_harm_y(n, m, theta, phi)
        assert got.dtype == (np.complex128 if dtype is np.float64 else np.complex64)
        np.testing.assert_allclose(got, expected, rtol=error, atol=error)
        np.testing.assert_allclose(xf.jit(ours.sph_harm_y, static_argnames="n_max")(n, m, theta, phi, n_max=15), expected, rtol=error, atol=error)
        f = lambda t: ours.sph_harm_y(n, m, t, phi).real  # noqa: E731
        slope = xf.jvp(f, (theta,), (np.ones_like(theta),))[1]
        step = 1e-6 if dtype is np.float64 else 1e-3
        numeric = [special.sph_harm_y(n, m, theta.astype(np.float64) + s, phi.astype(np.float64)).real for s in (-step, step)]
        usual = theta > 0.1
        np.testing.assert_allclose(slope[usual], ((numeric[1] - numeric[0]) / (2 * step))[usual], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(xf.grad(lambda t: f(t).sum())(theta), slope, rtol=100 * error, atol=100 * error)
    with pytest.raises(xf.errors.ConcretizationTypeError, match="n_max"):
        xf.jit(ours.sph_harm_y)(n, m, theta, phi)


def test_loggamma_between_poles_has_one_branch():
    z = np.array([-0.5 + 1j, -0.5 - 0.4j, -0.5 + 0j, -1.5 + 1e-3j, -2.5 + 0.5j, -2.5 - 2j, -3.5 + 1j], np.complex64)
    np.testing.assert_allclose(ours.loggamma(z), special.loggamma(z.astype(complex)), rtol=3e-6)


@pytest.mark.parametrize("name", ["dawsn", "erfcx", "exp1", "sici", "wofz"])
def test_vmap_equals_a_loop(name):
    check_batching(getattr(ours, name), [X.astype(np.float32)])


@pytest.mark.parametrize("name", ["owens_t", "expn"])
def test_batches_of_binary_functions(name):
    check_batching(getattr(ours, name), [X.astype(np.float32)[:4], A.astype(np.float32)[:4] + 2])


@pytest.mark.parametrize("name", ["dawsn", "erfcx", "exp1", "expi", "sici", "fresnel", "loggamma"])
def test_small_floats_are_computed_in_float32(name):
    for dtype in ("float16", "bfloat16"):
        x = xnp.array([0.5, 1.5, 3.0], dtype)
        for got, wide in zip(xf.tree.leaves(getattr(ours, name)(x)), xf.tree.leaves(getattr(ours, name)(x.astype("float32")))):
            assert got.dtype == dtype
            np.testing.assert_allclose(got.astype("float32"), wide.astype(dtype).astype("float32"), rtol=1e-2)


REFUSED = [
    ("dawsn", (1j,), ValueError), ("fresnel", (1j,), NotImplementedError), ("sici", (1j,), ValueError), ("exp1", ([1.0],), TypeError),
    ("spence", (2,), TypeError), ("spence", (np.float16(2),), TypeError), ("expn", (1, 1j), ValueError), ("expn", (1, [1.5]), TypeError),
    ("expn", (np.ones(2), np.ones(3)), ValueError), ("hyp1f1", (1, None, 1), TypeError), ("hyp1f1", (1j, 1, 1), ValueError),
    ("hyp2f1", (1j, 1, 1, 1), TypeError), ("hyp1f1", (np.ones(2), np.ones(3), 1), ValueError), ("owens_t", (np.ones(2), np.ones(3)), TypeError),
    ("bernoulli", (-1,), ValueError), ("bernoulli", (2.5,), TypeError), ("sph_harm_y", (1.5, 1, 0.1, 0.1), TypeError),
    ("sph_harm_y", (1, 1, 0.1j, 0.1), TypeError), ("sph_harm_y", (1, 1, 0.1, 0.1, 1), NotImplementedError), ("dawsn", (None,), TypeError),
]


@pytest.mark.parametrize("name, args, error", REFUSED)
def test_bad_input(name, args, error):
    with pytest.raises(error, match=name if args[0] is not None and name != "bernoulli" or args == (-1,) else None):
        getattr(ours, name)(*args)


def test_associated_legendre_functions():
    """Against derivatives of Legendre polynomials; at the ends against their limits."""
    n, z = 4, np.array([-1, -0.7, 0, 0.3, 1])
    expected = np.zeros((n + 1, n + 1, z.size))
    slopes = np.zeros_like(expected)
    for order, degree in itertools.product(range(n + 1), repeat=2):
        if order <= degree:
            polynomial = np.polynomial.Legendre.basis(degree).deriv(order)
            expected[order, degree] = (-1) ** order * (1 - z * z) ** (order / 2) * polynomial(z)
            with np.errstate(divide="ignore", invalid="ignore"):
                inner = -order * z * (1 - z * z) ** (order / 2 - 1) * polynomial(z) if order else 0 * z
            slopes[order, degree] = (-1) ** order * (inner + (1 - z * z) ** (order / 2) * polynomial.deriv()(z))
    with xf.enable_x64(True):
        values, derivatives = ours.lpmn(n, n, z)
        scaled = ours.lpmn_values(n, n, z, True)
        backward = xf.jvp(lambda z: ours.lpmn_values(n, n, z, False), (z[1:4],), (np.ones(3),))[1]
    np.testing.assert_allclose(values, expected, atol=1e-13)
    np.testing.assert_allclose(derivatives, slopes, atol=1e-12)
    np.testing.assert_allclose(backward, slopes[:, :, 1:4], atol=1e-12)
    degree, order = np.arange(n + 1)[None, :], np.arange(n + 1)[:, None]
    scale = np.sqrt((2 * degree + 1) / (4 * np.pi) * special.factorial(np.maximum(degree - order, 0)) / special.factorial(degree + order))
    np.testing.assert_allclose(scaled, expected * scale[:, :, None], atol=1e-13)
    with pytest.raises(NotImplementedError, match="m = 1 and n = 2"):
        ours.lpmn(1, 2, xnp.ones(1))
    with pytest.raises(ValueError, match="a vector z"):
        ours.lpmn_values(1, 1, xnp.ones((1, 1)), False)
    with pytest.raises(TypeError, match="int32"):
        ours.lpmn(1, 1, xnp.arange(2))


def test_hyp2f1_infinities():
    """At 1, with the sign of the left limit."""
    a, b, c = np.array([[1.5, 2.5, 1.0], [-1.5, 2.5, 0.5], [1.0, 1.0, -0.5], [2.0, -0.5, 1.0], [-0.5, 3.0, 1.2]]).T
    found = ours.hyp2f1(*xnp.asarray([a, b, c], np.float32), 1.0)
    np.testing.assert_array_equal(found, np.inf * np.sign(special.hyp2f1(a, b, c, 1 - 1e-9)))


def test_derivatives_of_hyp2f1_of_nothing():
    nothing = np.zeros(0, np.float32)
    value, slope = xf.jvp(ours.hyp2f1, (nothing,) * 4, (nothing,) * 4)
    assert value.shape == slope.shape == (0,)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_derivatives_of_16_bits_do_not_cancel(dtype):
    x = np.asarray(xnp.array([0.5, 2.5, 1.25], dtype))
    for function, slope in ((ours.erfcx, lambda x, y: 2 * x * y - 2 / np.sqrt(np.pi)), (ours.dawsn, lambda x, y: 1 - 2 * x * y)):
        wide = x.astype(np.float64)
        expected = slope(wide, getattr(special, function.__name__)(wide))
        np.testing.assert_allclose(np.float64(xf.vmap(xf.grad(function))(x)), expected, rtol=float(xnp.finfo(dtype).eps))
