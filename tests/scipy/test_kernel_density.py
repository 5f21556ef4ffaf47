"""Kernel density estimates against SciPy; their samples against those of JAX."""

import numpy as np
import pytest
import scipy.stats

import xlafront as xf
from xlafront.scipy.stats import gaussian_kde

METHODS = [None, "silverman", 0.4, lambda density: 0.7]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
def test_densities(method, weighted, rng):
    samples, points = rng.normal(size=(2, 10)), rng.normal(size=(2, 7))
    weights = rng.uniform(0.1, 1, 10) if weighted else None
    with xf.enable_x64(True):
        ours, theirs = gaussian_kde(samples, method, weights), scipy.stats.gaussian_kde(samples, method, weights)
        line, their_line = gaussian_kde(samples[0], method, weights), scipy.stats.gaussian_kde(samples[0], method, weights)
        pairs = [(ours.neff, theirs.neff), (ours.covariance, theirs.covariance), (ours.inv_cov, theirs.inv_cov), (ours.weights, theirs.weights),
                 (ours(points), theirs(points)), (ours.pdf(np.zeros(2)), theirs.pdf(np.zeros(2))), (ours.logpdf(9 * points), theirs.logpdf(9 * points)),
                 (ours.integrate_gaussian(np.ones(2), np.diag([1.0, 2.0])), theirs.integrate_gaussian(np.ones(2), np.diag([1.0, 2.0]))),
                 (line.integrate_gaussian(0.1, 2.0), their_line.integrate_gaussian(0.1, 2.0)), (line(0.3), their_line(0.3)),
                 (line.integrate_box_1d(-0.3, 2), their_line.integrate_box_1d(-0.3, 2)),
                 (ours.integrate_kde(gaussian_kde(samples + 1)), theirs.integrate_kde(scipy.stats.gaussian_kde(samples + 1)))]
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-11)
    assert (ours.d, ours.n) == (2, 10)


def test_far_tails():
    """Only the nearest sample contributes to SciPy's log-sum."""
    with xf.enable_x64(True):
        f = gaussian_kde(np.array([0.0, 1.0]), 1.0)
        variance = float(f.covariance[0, 0])
        expected = -0.5 * (1e4 - 1) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance) - np.log(2)
        np.testing.assert_allclose(f.logpdf(1e4), [expected], rtol=1e-12)


def test_samples():
    """Golden values of JAX: the bits of samples, for the key 0 and the first normal numbers of NumPy's generator with seed 0."""
    rng = np.random.default_rng(0)
    rng.normal(size=400)
    samples = rng.normal(size=(2, 10)).astype(np.float32)
    found = gaussian_kde(samples).resample(xf.random.key(0))
    # The second number is a difference of two that are near 1, of which one depends on the order in which a sum is made.
    np.testing.assert_allclose(found, [-1.3714684, -0.00232005], rtol=1e-6, atol=3e-7)
    found = gaussian_kde(samples[0]).resample(xf.random.key(0), (3,))
    np.testing.assert_allclose(found, [[-1.2270304, -1.8938007, 1.3032507]], rtol=1e-6)
    many = gaussian_kde(samples).resample(xf.random.key(1), (20000,))
    np.testing.assert_allclose(np.cov(many), np.cov(samples, bias=True) + gaussian_kde(samples).covariance, atol=0.05)


def test_transformations(rng):
    samples, points = rng.normal(size=(2, 10)).astype(np.float32), rng.normal(size=(2, 7)).astype(np.float32)
    density = gaussian_kde(samples)
    np.testing.assert_allclose(xf.jit(lambda f, p: f(p))(density, points), density(points), rtol=1e-5)
    np.testing.assert_allclose(xf.vmap(lambda p: density(p)[0], 1)(points), density(points), rtol=1e-5)
    leaves, tree = xf.tree.flatten(density)
    assert len(leaves) == 5 and xf.tree.unflatten(tree, leaves).n == 10
    with xf.enable_x64(True):
        step = 1e-6
        f = scipy.stats.gaussian_kde(samples.astype(np.float64))
        numeric = (f.logpdf(points + [[step], [0]]) - f.logpdf(points - [[step], [0]])) / (2 * step)
        slope = xf.grad(lambda p: gaussian_kde(samples.astype(np.float64)).logpdf(p).sum())(points.astype(np.float64))
        np.testing.assert_allclose(slope[0], numeric, rtol=1e-5)


D = np.random.default_rng(1).normal(size=(2, 10)).astype(np.float32)
REFUSED = [
    (lambda: gaussian_kde(D, "bad"), ValueError), (lambda: gaussian_kde(D, weights=np.ones(2)), ValueError), (lambda: gaussian_kde(np.ones(1)), ValueError),
    (lambda: gaussian_kde(D, weights=np.ones((2, 2))), ValueError), (lambda: gaussian_kde([1.0, 2.0]), TypeError),
    (lambda: gaussian_kde(D + 1j), NotImplementedError), (lambda: gaussian_kde(np.ones((2, 3, 4))), ValueError),
    (lambda: gaussian_kde(D)(np.zeros(3)), ValueError), (lambda: gaussian_kde(D)([0.0, 1.0]), TypeError),
    (lambda: gaussian_kde(D[0])(1j), NotImplementedError), (lambda: gaussian_kde(D).integrate_gaussian(np.zeros(3), np.eye(2)), ValueError),
    (lambda: gaussian_kde(D).integrate_gaussian(np.zeros(2), np.eye(3)), ValueError), (lambda: gaussian_kde(D).integrate_box_1d(0, 1), ValueError),
    (lambda: gaussian_kde(D[0]).integrate_box_1d(np.zeros(2), 1), ValueError), (lambda: gaussian_kde(D[0]).integrate_box_1d(0, 1j), TypeError), (lambda: gaussian_kde(D).integrate_kde(gaussian_kde(D[0])), ValueError),
    (lambda: gaussian_kde(D).integrate_box(np.zeros(2), np.ones(2)), NotImplementedError), (lambda: gaussian_kde(D).set_bandwidth(0.3), NotImplementedError),
    (lambda: setattr(gaussian_kde(D), "n", 3), TypeError),
]


@pytest.mark.parametrize("call, error", REFUSED)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.cpu_only
def test_matrix_of_samples_and_points_is_fused():
    density = xf.jit(lambda x, y: gaussian_kde(x)(y)).lower(np.ones(300, np.float32), np.ones(200, np.float32)).compile()
    assert density.memory_analysis().temp_size_in_bytes < 300 * 200


def test_far_points_have_density_zero():
    density = gaussian_kde(np.array([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(density.logpdf(np.array([np.inf, -np.inf])), -np.inf)
    np.testing.assert_allclose(density.logpdf(np.array([1e4])), scipy.stats.gaussian_kde([1.0, 2.0, 4.0]).logpdf([1e4]), rtol=1e-5)
