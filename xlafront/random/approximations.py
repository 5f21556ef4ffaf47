"""Samplers without loops, `method='approximate'`: approximate quantiles of normal samples.

Gamma samples use the quantiles of the chi-square distribution of R. B. Goldstein, "Algorithm 451: Chi-square quantiles",
Communications of the ACM 16 (1973); Poisson samples use the normal approximation of D. B. Peizer and J. W. Pratt, "A normal
approximation for binomial, F, beta, and other common, related tail probabilities, I", JASA 63 (1968).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.random.distributions import _broadcast, exponential_inline, normal_inline
from xlafront.random.primitives import split
from xlafront.special.normal import cumulative_normal

# Gamma

# The cube root of a quantile, divided by the degrees of freedom n, is a polynomial in z / sqrt(n), where z is the quantile of
# the normal distribution. Its coefficients are polynomials in 1 / n. The constant term is 1, the limit of many degrees of
# freedom, where the algorithm has 1.0000886.
_CUBE_ROOT = (
    (1.0, -0.2237368, -0.01513904), (0.4713941, 0.02607083, -0.008986007), (0.0001348028, 0.01128186, 0.02277679),
    (-0.008553069, -0.01153761, -0.01323293), (0.00312558, 0.005169654, -0.006950356),
    (-0.0008426812, 0.00253001, 0.001060438), (9.780499e-05, -0.001450117, 0.001565326))
_STEPS = 4  # of the recurrence: the polynomials are accurate for larger parameters only


def gamma_approximate(key: Array, a: ArrayLike, shape: tuple[int, ...], dtype: np.dtype, log_space: bool = False) -> Array:
    """Sample from the gamma distribution of `a + 4`, and multiply by powers of uniform samples to reach `a`."""
    wide = max(dtype, np.dtype(np.float32), key=lambda d: d.itemsize)
    a = _broadcast(a, shape, wide)
    normal_key, boost_key = split(key, 2)
    larger = a + wide.type(_STEPS)
    freedom = 2 * larger
    inverse = 1 / freedom
    ratio = normal_inline(normal_key, shape, wide) * lax.rsqrt(freedom)
    root = lax.polynomial(ratio, [lax.polynomial(inverse, row) for row in _CUBE_ROOT])
    logarithm = xnp.log(larger) + 3 * xnp.log(xnp.maximum(root, dtypes.finfo(wide).tiny))
    steps = xnp.arange(_STEPS, dtype=wide).reshape(_STEPS, *[1] * len(shape))
    boosts = -exponential_inline(boost_key, (_STEPS, *shape), wide) / (a + steps)
    logarithm = logarithm + xnp.sum(boosts, 0)
    return (logarithm if log_space else xnp.exp(logarithm)).astype(dtype)


# Poisson

_LARGE_MEAN = 7.0  # Below, the quantile is found among the first numbers; from here on it is computed.
_MOST_COUNTED = 18  # Larger numbers have a probability below 1e-4 for means below 7.
_NEAR = 0.25  # Distance from 1 up to which the series is used.
_SERIES = tuple([(-1) ** k * 2 / ((k + 1) * (k + 2)) for k in range(1, 10)])


def _peizer_pratt(x: Array) -> Array:
    """Compute `(1 - x^2 + 2 x log(x)) / (1 - x)^2`, and its series around 1, where the quotient is inaccurate."""
    excess = x - 1
    is_near = abs(excess) < _NEAR
    series = xnp.zeros_like(x)
    for coefficient in reversed(_SERIES):
        series = excess * (x.dtype.type(coefficient) + series)
    far, distance = xnp.where(is_near, 2, x), xnp.where(is_near, 1, excess)
    return xnp.where(is_near, series, (1 - far * far + 2 * far * xnp.log(far)) / (distance * distance))


def _normal_score(k: Array, mean: Array) -> Array:
    """Return the number whose normal probability is about that of at most `k` events: minus infinity for negative `k`."""
    count = xnp.maximum(k, 0)
    correction = _peizer_pratt((count + 0.5) / mean)
    score = (count - mean + 2 / 3 + 0.02 / (count + 1)) * xnp.sqrt((1 + correction) / mean)
    return xnp.where(k < 0, -np.inf, score)


def _large_quantile(z: Array, mean: Array) -> Array:
    """Return the Poisson quantile of the probability of `z`: that of the Cornish-Fisher expansion, corrected by one."""
    root = xnp.sqrt(mean)
    estimate = mean + root * z - 2 / 3 + z * z / 6 + z * (1 - z * z) / (72 * root)
    k = xnp.ceil(estimate + 0.6)
    is_enough = [(_normal_score(k - i, mean) >= z).astype(z.dtype) for i in (0, 1)]
    return xnp.maximum(k + 1 - is_enough[0] - is_enough[1], 0)


def _small_quantile(z: Array, mean: Array) -> Array:
    """Return the Poisson quantile of the probability of `z`: the number of sums of probabilities that are below it."""
    probability = cumulative_normal(z)
    term = total = xnp.exp(-mean)
    count = (total < probability).astype(z.dtype)
    for k in range(1, _MOST_COUNTED + 1):
        term = term * (mean / k)
        total = total + term
        count = count + (total < probability).astype(z.dtype)
    return count


def poisson_approximate(key: Array, mean: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Sample from the Poisson distribution: the quantiles of normal samples. Invalid means give -1, as with rejection."""
    wide = np.dtype(dtypes.default_dtype(float))
    mean = xnp.asarray(_broadcast(mean, shape, wide))
    z = normal_inline(key, shape, wide)
    is_small = ~(mean >= _LARGE_MEAN)
    samples = xnp.where(is_small, _small_quantile(z, mean), _large_quantile(z, mean))
    return xnp.where(mean >= 0, samples, -1).astype(dtype)


def select_method(name: str, method: Any, exact: Callable, approximate: Callable) -> Callable:
    """Return the sampler of a method, and raise a `ValueError` for other methods."""
    samplers = {"exact": exact, "approximate": approximate}
    if not isinstance(method, str) or method not in samplers:
        raise ValueError(f"the method argument to random.{name} must be one of 'exact' and 'approximate', got {method!r}.")
    return samplers[method]
