"""Distributions by rejection, and distributions derived from normal, uniform and gamma samples."""

import numpy as np
import pytest
import scipy.stats as st
from laws import finite_difference

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import random

k = random.key(7)
# JAX's samples from this key.
SAMPLES = {
    "gamma": (lambda: random.gamma(k, 2.5, (4, )), [2.62513, 1.2273, 1.31556, 4.32272]),
    "gamma small": (lambda: random.gamma(k, 0.3, (4, )), [5.71588e-07, 0.158529, 7.04618e-05, 1.8172]),
    "gamma arr": (lambda: random.gamma(k, xnp.array([0.5, 1., 3., 1e5])), [0.00023368, 0.217917, 1.70737, 100362]),
    "loggamma": (lambda: random.loggamma(k, 0.01, (4, )), [-438.773, -28.832, -263.697, -9.7939]),
    "beta": (lambda: random.beta(k, 0.5, 2., (3, )), [0.0193925, 0.212113, 0.00134915]),
    "dirichlet": (lambda: random.dirichlet(k, xnp.array([0.5, 1., 2.])), [0.000202311, 0.188664, 0.811134]),
    "t": (lambda: random.t(k, 3., (3, )), [2.31518, 0.149949, -0.500237]),
    "chisquare": (lambda: random.chisquare(k, 3., shape=(3, )), [3.02207, 1.04379, 1.15568]),
    "f": (lambda: random.f(k, 3., 4., shape=(3, )), [0.552516, 1.16396, 1.78313]),
    "poisson": (lambda: random.poisson(k, 3., (30, )), [4, 1, 1, 3, 2, 7, 4, 2, 4, 1, 0, 6, 1, 3, 10, 5, 7, 1, 2, 2, 3, 6, 4, 4, 5, 1, 5, 2, 5, 4]),
    "poisson big": (lambda: random.poisson(k, 300., (30, )), [309, 318, 258, 334, 297, 301, 317, 275, 318, 303, 295, 317, 293, 285, 306, 312, 304, 297, 305, 333, 310, 310, 305, 307, 305, 269, 319, 272, 302, 330]),
    "poisson mix": (lambda: random.poisson(k, xnp.array([0., 1., 9., 11., 1e4, xnp.nan, -1.])), [0, 1, 9, 17, 9984, -1, -1]),
    "binomial": (lambda: random.binomial(k, 10, 0.3, (30, )), [5, 4, 3, 4, 5, 1, 4, 3, 4, 1, 1, 3, 5, 1, 2, 4, 3, 3, 3, 4, 2, 4, 4, 1, 4, 4, 4, 3, 7, 2]),
    "binomial big": (lambda: random.binomial(k, 1000, 0.3, (30, )), [308, 316, 266, 328, 298, 301, 314, 279, 315, 302, 295, 314, 294, 288, 305, 310, 303, 298, 304, 328, 308, 309, 304, 306, 304, 274, 316, 277, 302, 325]),
    "binomial, mean 10": (lambda: random.binomial(k, 25., 0.4, (12, )), [14, 14, 12, 9, 6, 9, 6, 10, 12, 11, 6, 12]),
    "binomial, fractional n": (lambda: random.binomial(k, xnp.array([2.5, 30.3, 7.7]), xnp.array([.9, .6, .05])), [1, 15, 0]),
    "binomial, means about 10": (lambda: random.binomial(k, xnp.arange(20., 30.), 0.4), [10, 12, 10, 9, 6, 9, 12, 9, 8, 9]),
    "multinomial by shape": (lambda: random.multinomial(k, 20., xnp.array([0.2, 0.3, 0.5]), shape=(2,)).ravel(), [5, 6, 9, 6, 7, 7]),
    "binomial mix": (lambda: random.binomial(k, xnp.array([0., 1., 9., 100., 1e4, xnp.nan, -1., 5., 5., 50]), xnp.array([0.5, 0.9, 0.7, 0.8, 0.99, 0.1, 0.1, 0., 1., 1.5])), [0, 1, 6, 85, 9912, np.nan, np.nan, 0, 5, np.nan]),
    "geometric": (lambda: random.geometric(k, 0.3, (30, )), [2, 1, 4, 3, 1, 2, 3, 3, 8, 7, 3, 1, 1, 9, 1, 3, 3, 1, 3, 1, 1, 3, 3, 2, 1, 7, 1, 3, 2, 4]),
    "ball": (lambda: random.ball(k, 3), [-0.363884, 0.394585, 0.119758]),
    "ball3": (lambda: random.ball(k, 3, 3., (2, )), [[-0.357112, 0.406339, 0.127564], [-0.484377, 0.168607, -0.171374]]),
    "dsm": (lambda: random.double_sided_maxwell(k, 1., 2., (3, )), [-1.47719, -4.17011, 3.76034]),
    "gn": (lambda: random.generalized_normal(k, 3., (3, )), [-0.115571, -0.666178, 0.0533538]),
    "lognormal": (lambda: random.lognormal(k, 2., (3, )), [2.46569, 49.7446, 0.356123]),
    "maxwell": (lambda: random.maxwell(k, (3, )), [2.07029, 0.71447, 1.49998]),
    "multinomial": (lambda: random.multinomial(k, 10, xnp.array([0.2, 0.3, 0.5])), [2, 4, 4]),
    "multinomial2": (lambda: random.multinomial(k, xnp.array([10, 1000]), xnp.array([[0.2, 0.3, 0.5], [0., 0.5, 0.5]])), [[2, 4, 4], [0, 505, 495]]),
    "mvn": (lambda: random.multivariate_normal(k, xnp.zeros(2), xnp.eye(2)*2, (2, )), [[0.638143, 2.7626], [-0.730073, -0.19932]]),
    "pareto": (lambda: random.pareto(k, 2., (3, )), [1.75167, 6.27664, 1.19766]),
    "rayleigh": (lambda: random.rayleigh(k, 2., (3, )), [1.77627, 0.453527, 3.09133]),
    "triangular": (lambda: random.triangular(k, 0., 1., 3., (3, )), [1.60162, 2.60975, 0.953169]),
    "wald": (lambda: random.wald(k, 2., (3, )), [0.470951, 2.44272, 0.970578]),
    "weibull": (lambda: random.weibull_min(k, 2., 3., (3, )), [2.0777, 3.08601, 1.42374]),
    "vm": (lambda: xf.vmap(lambda a: random.gamma(k, a, (2, )))(xnp.array([0.5, 2.])), [[0.00023368, 0.302113], [2.07242, 0.86366]]),
    "vk": (lambda: xf.vmap(lambda q: random.gamma(q, 0.5, (2, )))(random.split(k, 2)), [[0.0124047, 0.50348], [0.324922, 0.0216723]]),
}


@pytest.mark.parametrize("function", [random.gamma, random.loggamma])
def test_samples_do_not_depend_on_their_number(function):
    """Each sample has a key of its own, also where samples are padded to vectors: for one CPU, but not for exports."""
    a = np.float32([0.3, 1, 2.5, 7, 0.9, 40])
    samples = function(k, a)
    for count in (1, 2, 5):
        np.testing.assert_allclose(function(k, a[:count]), samples[:count], rtol=1e-6)
    np.testing.assert_allclose(function(k, np.resize(a, 16))[:6], samples, rtol=1e-6)
    np.testing.assert_allclose(function(k, a.reshape(2, 3)), np.reshape(samples, (2, 3)), rtol=1e-6)
    np.testing.assert_allclose(xf.export.export(xf.jit(lambda k: function(k, a)))(k).call(k), samples, rtol=1e-6)


@pytest.mark.cpu_only
@pytest.mark.parametrize("count", [5, 2000])
def test_uniform_samples_of_counts_are_computed_once(count):
    """A loop of rejections reads them several times; XLA would compile and compute Threefry for each reading."""
    for sample in (lambda key: random.poisson(key, 20.0, (count,)), lambda key: random.binomial(key, 200.0, 0.3, (count,))):
        assert "call @drawn" in xf.jit(sample).lower(k).as_text()


@pytest.mark.cpu_only
def test_gamma_samples_of_rbg_keys_are_independent():
    key = random.key(42, impl="rbg")
    expected = [[2.5782863e-05, 2.0621910], [1.0797736e-02, 2.1411226], [1.2103578e-05, 1.6735173]]  # the reference's
    np.testing.assert_allclose(random.gamma(key, xnp.array([0.3, 2.0]), (3, 2)), expected, rtol=1e-5)
    mapped = xf.vmap(lambda one: random.gamma(one, 2.0, (2,)))(random.split(key, 2))
    np.testing.assert_allclose(mapped, [[1.5277234, 1.527627], [6.3288054, 3.2220175]], rtol=1e-5)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name):
    call, expected = SAMPLES[name]
    np.testing.assert_allclose(call(), expected, rtol=2e-5, atol=1e-6)


# name: its parameters, SciPy's distribution
LAWS = {
    "gamma": [((0.3,), st.gamma(0.3)), ((2.5,), st.gamma(2.5)), ((1e3,), st.gamma(1e3))],
    "beta": [((0.5, 2.0), st.beta(0.5, 2))], "t": [((3.0,), st.t(3))], "chisquare": [((3.0,), st.chi2(3))], "f": [((3.0, 4.0), st.f(3, 4))],
    "lognormal": [((0.7,), st.lognorm(0.7))], "pareto": [((2.0,), st.pareto(2))], "rayleigh": [((2.0,), st.rayleigh(scale=2))],
    "weibull_min": [((2.0, 3.0), st.weibull_min(3, scale=2))], "triangular": [((0.0, 1.0, 3.0), st.triang(1 / 3, 0, 3))],
    "wald": [((2.0,), st.invgauss(2))], "maxwell": [((), st.maxwell())], "generalized_normal": [((3.0,), st.gennorm(3))],
    "double_sided_maxwell": [((1.0, 2.0), None)],
    "poisson": [((3.0,), st.poisson(3)), ((40.0,), st.poisson(40))], "geometric": [((0.3,), st.geom(0.3))],
    "binomial": [((10, 0.3), st.binom(10, 0.3)), ((400, 0.7), st.binom(400, 0.7)), ((30, 0.9), st.binom(30, 0.9))],
}


@pytest.mark.parametrize("name", LAWS)
def test_samples_have_the_distribution(name):
    for parameters, law in LAWS[name]:
        x = np.asarray(getattr(random, name)(random.key(3), *parameters, shape=(4000,))).astype(np.float64)
        if law is None:  # of the distances from the middle
            x, law = abs(x - parameters[0]) / parameters[1], st.maxwell()
        if hasattr(law.dist, "pmf"):
            values = np.unique(np.clip(x, law.ppf(0.01), law.ppf(0.99)))
            for v in values[:: max(1, len(values) // 10)]:
                assert abs((x <= v).mean() - law.cdf(v)) < 0.035
        else:
            assert st.kstest(x, law.cdf).pvalue > 1e-3


def test_vectors():
    n = 4000
    mean, cov = np.array([1.0, -1.0], np.float32), np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
    for method in ("eigh", "svd"):
        x = np.asarray(random.multivariate_normal(k, mean, cov, (n,), method=method))
        np.testing.assert_allclose(x.mean(0), mean, atol=0.1)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.15)
    x = np.asarray(random.dirichlet(k, xnp.array([0.5, 1.0, 2.0]), (n,)))
    np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(x.mean(0), np.array([0.5, 1, 2]) / 3.5, atol=0.02)
    radius = np.sqrt((np.asarray(random.ball(k, 3, shape=(n,))) ** 2).sum(-1))
    assert st.kstest(radius**3, "uniform").pvalue > 1e-3
    counts = np.asarray(random.multinomial(k, 50, xnp.array([0.2, 0.3, 0.5]), shape=(n,)))
    assert (counts.sum(-1) == 50).all()
    np.testing.assert_allclose(counts.mean(0), [10, 15, 25], atol=0.3)
    for dtype in ("int8", "uint16", "complex64", "bfloat16"):  # counts of up to 50 are exact in each
        of_dtype = random.multinomial(k, 50, xnp.array([0.2, 0.3, 0.5]), shape=n, dtype=dtype)
        assert of_dtype.dtype == dtype and (np.asarray(of_dtype, np.complex64) == counts).all()
    for shape, options, size in (((2,), {}, (2, 3, 3)), ((), {"m": 2}, (3, 2)), ((), {"m": 5}, (3, 5)), ((), {"dtype": "complex64"}, (3, 3))):
        q = np.asarray(random.orthogonal(k, 3, shape, **options))
        few = min(size[-2:])
        product = q @ np.conj(np.swapaxes(q, -1, -2)) if size[-2] <= size[-1] else np.conj(q.T) @ q
        assert q.shape == size
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(few), product.shape), atol=1e-5)
    np.testing.assert_array_equal(random.orthogonal(k, 2, m=4, dtype="complex64"), random.orthogonal(k, 4, m=2, dtype="complex64").T)


def test_derivatives_in_the_shape_parameter():
    """For a fixed key the derivative of a sample is that of its quantile: SciPy's inverse CDF, differentiated."""
    import scipy.special as sp

    with xf.enable_x64(True):
        a = np.repeat([0.6, 3.0, 50.0], 7)
        x, moved = xf.jvp(lambda v: random.gamma(k, v), (a,), (np.ones(21),))
        p = sp.gammainc(a, np.asarray(x))
        [expected] = finite_difference(lambda v: sp.gammaincinv(v, p), [a], [np.ones(21)], 1e-5)
        np.testing.assert_allclose(moved, expected, rtol=1e-5)
        np.testing.assert_allclose(xf.grad(lambda v: random.loggamma(k, v).sum())(a), expected / np.asarray(x), rtol=1e-5)
    small = xf.jvp(lambda v: random.loggamma(k, v, (4,)), (0.01,), (1.0,))[1]
    np.testing.assert_allclose(small, (sp.digamma(1.01) - np.array(SAMPLES["loggamma"][1])) / 0.01, rtol=1e-3)


def test_boundary_parameters():
    assert np.isnan(random.binomial(k, np.array([-1.0, np.nan, 5.0]), np.array([0.5, 0.5, 1.5]))).all()
    assert random.poisson(k, np.array([0.0, -1.0, np.nan], np.float32)).tolist() == [0, -1, -1]
    assert random.binomial(k, np.array([0.0, 7.0, 7.0]), np.array([0.5, 0.0, 1.0])).tolist() == [0, 0, 7]
    assert random.gamma(k, 2.0, (0, 3)).shape == (0, 3) and random.gamma(k, 2.0, (2,), "float16").dtype == np.float16


BAD = [
    (lambda: random.gamma(k, 1.0, dtype=int), ValueError, "floating"), (lambda: random.gamma(k, xnp.ones(3), (2,)), ValueError, "broadcast"),
    (lambda: random.gamma(None, 1.0), TypeError, "key"), (lambda: random.poisson(k, 1.0, dtype=float), ValueError, "integer"),
    (lambda: random.poisson(random.key(0, impl="rbg"), 1.0), NotImplementedError, "threefry"), (lambda: random.dirichlet(k, 1.0), ValueError, "ndim"),
    (lambda: random.multivariate_normal(k, xnp.zeros(2) * 1j, xnp.eye(2)), ValueError, "floating"), (lambda: random.t(k, 1j), ValueError, "safely cast"),
    (lambda: random.f(k, 2.0, xnp.ones(2) + 0j), ValueError, "safely cast"), (lambda: random.lognormal(k, 1j), ValueError, "safely cast"),
    (lambda: random.lognormal(k, np.float32(1), dtype="float16"), ValueError, "safely cast"), (lambda: random.beta(k, 1j, 1), ValueError, "safely cast"),
    (lambda: random.multivariate_normal(k, xnp.zeros(2), xnp.eye(3)), ValueError, "shape"), (lambda: random.multivariate_normal(k, 0.0, xnp.eye(3)), ValueError, "ndim"),
    (lambda: random.multivariate_normal(k, xnp.zeros(2), xnp.eye(2), method="lu"), ValueError, "method"), (lambda: random.gamma(random.split(k), 1.0), ValueError, "a single key"),
]


@pytest.mark.parametrize("call, kind, words", BAD)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_array_parameters():
    """dtypes of computation and shape rules equal those of JAX."""
    key, half = random.key(11), xnp.array([0.25, 0.5], "float16")
    assert random.geometric(key, half).tolist() == [4, 1]
    assert random.binomial(key, 5.0, half).tolist() == [0, 4]
    assert random.binomial(key, 5.0, 0.5, dtype="float16") == 1
    # The dtype of the probabilities determines that of the computation; the dtype of the trials does not.
    found = random.binomial(random.key(11), np.float32(40), np.float16(0.5), (12,))
    assert found.tolist() == [24, 14, 22, 23, 20, 18, 22, 19, 19, 22, 21, 18] and found.dtype == "float32"
    np.testing.assert_allclose(random.weibull_min(key, half, 2.5), [0.1401837, 0.2803674], rtol=1e-5)
    np.testing.assert_allclose(random.t(key, half), [-0.1974998, -3.698991], rtol=1e-4)
    assert random.double_sided_maxwell(key, half, 2.5, (3, 2)).shape == (3, 2, 2)
    assert random.dirichlet(key, xnp.zeros(0)).shape == (0,)
    assert random.choice(key, xnp.ones((3, 2)), (0,)).shape == (0,)
    for call in (lambda: random.beta(key, xnp.ones(2), 1.0, dtype="bfloat16"), lambda: random.pareto(key, half, dtype="bfloat16")):
        with pytest.raises(ValueError, match="cast"):
            call()
    with pytest.raises(ValueError, match="axis 1"):
        random.permutation(key, 7, axis=1)
    with pytest.raises(ValueError, match="shape"):
        random.t(key, half, ())


def test_parameters_are_not_rounded_to_the_sample_dtype():
    """As in JAX, scale and location are not rounded to the dtype of the samples."""
    key, wide = random.key(7), xnp.ones(())
    for call in (lambda p: random.double_sided_maxwell(key, p, 2.0, dtype="float16"),
                 lambda p: random.weibull_min(key, p, 2.0, dtype="float16"),
                 lambda p: random.generalized_normal(key, p, dtype="float16"), lambda p: random.ball(key, 3, p, dtype="float16")):
        assert call(wide).dtype == "float32" and call(1.0).dtype == "float16"
    found = random.multivariate_normal(key, xnp.zeros(2), xnp.eye(2), (3,), "float16")
    samples = random.normal(key, (3, 2), "float16")
    assert found.dtype == "float32" and (found == samples).all()


def test_infinitely_many_trials():
    n, p = xnp.array([xnp.inf, xnp.inf, 3.0, 3.0, -xnp.inf, xnp.nan]), xnp.array([0.5, 0.7, 0.0, 1.0, 0.5, 0.5])
    np.testing.assert_array_equal(random.binomial(k, n, p), [np.inf, np.inf, 0, 3, np.nan, np.nan])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_geometric_samples_in_narrow_dtypes(dtype):
    """Uniform samples are 0 often there: these count as a success at the first trial. The others are at least 2**-10."""
    samples = random.geometric(k, xnp.asarray(0.1, dtype), (4096,))
    assert samples.min() == 1 and samples.max() <= 1 + np.log(2.0**-10) / np.log1p(-0.1) + 1


@pytest.mark.parametrize("sigma", [1.0, np.float32(2), np.array([1, 2], np.float32), 1 + 1j])
def test_complex_lognormal_samples(sigma):
    normal = np.asarray(random.normal(k, (2,), complex))
    np.testing.assert_allclose(random.lognormal(k, sigma, (2,), complex), np.exp(normal * sigma), rtol=1e-5)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal_has_the_dtype_of_mean_and_covariance(method):
    with xf.enable_x64(True):
        for mean, cov, expected in [("f4", "f4", "f4"), ("f4", "f8", "f8"), ("i8", "i8", "f8"), ("f2", "f2", "f4")]:
            x = random.multivariate_normal(random.key(0), np.zeros(2, mean), np.eye(2, dtype=cov), method=method)
            assert x.dtype == np.dtype(expected)
            plain = random.normal(random.key(0), (2,), expected)  # the covariance is the identity, but for signs of its factor
            np.testing.assert_allclose(abs(x), abs(plain), rtol=1e-5)
