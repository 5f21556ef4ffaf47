"""Samplers without loops: `method='approximate'`."""

import numpy as np
import pytest
import scipy.stats as st

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import random
from xlafront.random import approximations

k = random.key(0)
APPROXIMATE = {"method": "approximate"}

# name: parameters, and samples of the reference of key 0
SAMPLES = {
    "gamma": ((xnp.array([0.3, 5.0]), (3, 2)), [[5.018961, 5.1154203], [0.10731168, 2.1058946], [0.3220217, 5.708429]]),
    "loggamma": ((1e-3, (3,)), [-7.422576, -21.235865, -870.78772]),
    "beta": ((xnp.array([0.3, 5.0]), 1.5, (3, 2)), [[0.0828856, 0.94658053], [0.77357107, 0.78056508], [0.71341652, 0.71531779]]),
    "chisquare": ((xnp.array([0.3, 5.0]), (3, 2)), [[9.322993, 5.9409485], [0.010956864, 1.3780236], [0.24098971, 5.761303]]),
    "poisson": ((30.0, (5,)), [39, 42, 27, 29, 31]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name):
    parameters, expected = SAMPLES[name]
    np.testing.assert_allclose(getattr(random, name)(k, *parameters, **APPROXIMATE), expected, rtol=2e-6)


LAWS = [
    ("gamma", (0.3,), st.gamma(0.3)), ("gamma", (2.5,), st.gamma(2.5)), ("gamma", (1e3,), st.gamma(1e3)),
    ("loggamma", (0.5,), st.loggamma(0.5)), ("beta", (0.5, 2.0), st.beta(0.5, 2)), ("chisquare", (3.0,), st.chi2(3)),
]


@pytest.mark.parametrize("name, parameters, law", LAWS)
def test_samples_have_the_distribution(name, parameters, law):
    x = np.asarray(getattr(random, name)(random.key(3), *parameters, (20_000,), **APPROXIMATE)).astype(np.float64)
    assert st.kstest(x, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("mean", [0.01, 0.8, 3.0, 6.9, 7.1, 12.0, 40.0, 1000.0])
def test_distance_of_the_poisson_distribution(mean):
    """The quantiles of a fine grid of probabilities have a total variation distance below 1e-4 from the distribution."""
    n = 2**20
    with xf.enable_x64(True):
        z = xnp.asarray(st.norm.ppf((np.arange(n) + 0.5) / n))
        quantile = approximations._small_quantile if mean < 7 else approximations._large_quantile
        values, counts = np.unique(quantile(z, xnp.asarray(mean)), return_counts=True)
    probabilities = st.poisson(mean).pmf(values)
    distance = (abs(counts / n - probabilities).sum() + (1 - probabilities.sum())) / 2
    assert distance < 1e-4 + len(values) / n


@pytest.mark.parametrize("a", [0.01, 0.5, 1.0, 30.0, 1e5])
def test_moments_of_gamma_samples(a):
    with xf.enable_x64(True):
        x = np.asarray(random.gamma(random.key(5), a, (100_000,), **APPROXIMATE))
    np.testing.assert_allclose([x.mean(), x.var()], [a, a], rtol=0.06)


def test_derivatives():
    """They are those of the formula: the samples are a smooth function of the parameters."""
    with xf.enable_x64(True):
        a = xnp.array([0.3, 5.0, 100.0])
        for sample in (random.gamma, random.loggamma, random.chisquare, lambda key, v, **o: random.beta(key, v, 2.0, **o)):
            slopes = xf.grad(lambda v, sample=sample: sample(k, v, **APPROXIMATE).sum())(a)
            above, below = (np.asarray(sample(k, a + h, **APPROXIMATE)) for h in (1e-6, -1e-6))
            np.testing.assert_allclose(slopes, (above - below) / 2e-6, rtol=1e-6)
            assert (np.asarray(slopes) > 0).all()


def test_no_loops():
    for name, (parameters, _) in SAMPLES.items():
        text = str(xf.make_jaxpr(lambda key, p=parameters, f=getattr(random, name): f(key, *p, **APPROXIMATE))(k))
        assert "while" not in text and "random_gamma" not in text


def test_batches_and_other_generators():
    keys, a = random.split(k, 2), xnp.array([1.0, 2.0])
    mapped = xf.vmap(lambda key, v: random.gamma(key, v, (2,), **APPROXIMATE))(keys, a)
    for key, v, row in zip(keys, a, mapped):
        np.testing.assert_allclose(row, random.gamma(key, v, (2,), **APPROXIMATE), rtol=1e-6)
    counts = random.poisson(random.key(0, impl="rbg"), 30.0, (1000,), **APPROXIMATE)
    assert abs(float(counts.mean()) - 30) < 0.6


def test_boundary_parameters_and_dtypes():
    for a, expected in ((0.0, -np.inf), (np.nan, np.nan), (np.inf, np.inf)):
        np.testing.assert_array_equal(random.loggamma(k, a, (3,), **APPROXIMATE), [expected] * 3)
    assert random.poisson(k, xnp.array([0.0, -1.0, np.nan]), **APPROXIMATE).tolist() == [0, -1, -1]
    assert random.poisson(k, 30.0, (5,), "int8", **APPROXIMATE).tolist() == [39, 42, 27, 29, 31]
    half = random.gamma(k, xnp.array([0.3, 5.0]), (3, 2), "float16", **APPROXIMATE)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, SAMPLES["gamma"][1], rtol=1e-3)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("method", ["fast", None, ["exact"]])
def test_unknown_methods(name, method):
    with pytest.raises((ValueError, TypeError), match="method"):
        getattr(random, name)(k, *SAMPLES[name][0], method=method)


def test_exact_is_the_default():
    for name, (parameters, _) in SAMPLES.items():
        sample = getattr(random, name)
        np.testing.assert_array_equal(sample(k, *parameters), sample(k, *parameters, method="exact"))


def test_key_annotations():
    def sample(key: random.Key):
        return random.normal(key)

    assert random.Key(k) is k and sample(random.Key(k)).shape == ()
