"""Random counts: the Poisson, binomial, geometric and multinomial distributions."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront import tuning
from xlafront.control.scan import scan
from xlafront.control.while_loop import while_loop
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.lax.shapes import reshape_to
from xlafront.random.approximations import poisson_approximate, select_method
from xlafront.random.distributions import (
    _broadcast,
    _float_dtype,
    _full,
    _sample_shape,
    uniform_inline,
)
from xlafront.random.primitives import random_split_p, split
from xlafront.random.prng import single_key, with_sharding
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

sample_once = functools.partial(tuning.sample_once, reshape=reshape_to)

_lgamma = PUBLIC["lgamma"]
_FLOAT = np.dtype(np.float32)


def _integer_dtype(name: str, dtype):
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, f"random.{name}")
    if not dtypes.is_integer(d):
        raise ValueError(f"random.{name} needs an integer dtype, got {d}.")
    return d


# Poisson


def _by_product(key, lam, shape, dtype):
    """Sample by Knuth's method: count uniform samples until their product is below `exp(-lam)`."""
    def step(state):
        key, count, logarithm = state
        first, second = split(key, 2)
        count = xnp.where(logarithm > -lam, count + 1, count)
        return first, count, logarithm + xnp.log(uniform_inline(second, shape, _FLOAT))

    start = key, xnp.zeros_like(lam, dtype), xnp.zeros_like(lam, _FLOAT)
    _, count, _ = while_loop(lambda s: xnp.any(s[2] > -lam), step, start)
    return xnp.maximum(count - 1, 0).astype(dtype)


def _by_rejection(key, lam, shape, dtype):
    """Sample by Hörmann's transformed rejection with squeeze, for means of 10 and more."""
    log_lam = xnp.log(lam)
    b = 0.931 + 2.53 * xnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(state):
        key, result, accepted = state
        key, u_key, v_key = split(key, 3)
        u = sample_once(uniform_inline, u_key, shape, _FLOAT) - 0.5
        v = sample_once(uniform_inline, v_key, shape, _FLOAT)
        us = 0.5 - abs(u)
        k = xnp.floor((2 * a / us + b) * u + lam + 0.43)
        s = xnp.log(v * inverse / (a / (us * us) + b))
        t = -lam + k * log_lam - _lgamma(k + 1)
        accepts_early = (us >= 0.07) & (v <= v_r)
        rejects_early = (k < 0) | ((us < 0.013) & (v > us))
        accepts = accepts_early | (~rejects_early & (s <= t))
        return key, xnp.where(accepts, k, result), accepted | accepts

    start = key, -xnp.ones_like(lam, _FLOAT), xnp.zeros_like(lam, bool)
    _, result, _ = while_loop(lambda s: ~xnp.all(s[2]), step, start)
    return result.astype(dtype)


def _poisson_exact(key, lam, shape, dtype):
    lam = _full(_broadcast(lam, shape, _FLOAT), shape)
    is_valid = lam >= 0
    is_small = ~is_valid | (lam < 10)
    small = _by_product(key, xnp.where(is_small & is_valid, lam, 0), shape, dtype)
    large = _by_rejection(key, xnp.where(is_small, 1e5, lam), shape, dtype)
    result = xnp.where(lam == 0, 0, xnp.where(is_small, small, large))
    return xnp.where(is_valid, result, -1).astype(dtype)


@library(static=("shape", "dtype", "sample"), name="poisson")
def _poisson(key, lam, shape, dtype, sample):
    return sample(key, lam, shape, dtype)


@library(static=("shape", "dtype", "method"))
@accepts(anything=True)
def poisson(key: ArrayLike, lam: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
            method: str = "exact", out_sharding: ShardingLike = None) -> Array:
    """Sample from the Poisson distribution.

    Args:
        key: PRNG key; for the exact method one of the implementation `threefry2x32`.
        lam: Mean, nonnegative. For negative means the result is -1.
        shape: Shape of the result, to which `lam` must broadcast. Default: the shape of `lam`.
        dtype: Integer dtype of the result. Default: the default integer dtype.
        method: "exact" for samples by rejection, or "approximate" for samples without loops, which are faster; the total
            variation distance of their distribution is below 1e-4.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Integer array of samples.

    Example:
        >>> random.poisson(random.key(0), 3.0, (2,)).shape
        (2,)
    """
    key = single_key("poisson", key)
    impl = key.dtype.impl
    sample = select_method("poisson", method, _poisson_exact, poisson_approximate)
    if method == "exact" and impl.name != "threefry2x32":
        raise NotImplementedError(f"random.poisson with method='exact' is only implemented for keys of threefry2x32, got one "
                                  f"of {impl.name}. Make one with random.key(seed, impl='threefry2x32'), or pass "
                                  f"method='approximate'.")
    samples = _poisson(key, lam, _sample_shape("poisson", shape, lam), _integer_dtype("poisson", dtype), sample)
    return with_sharding(samples, out_sharding)


@library(static=("shape", "dtype"), name="geometric")
def _geometric(key, p, shape, dtype):
    real = _float_dtype("geometric", dtypes.to_inexact(dtypes.canonicalize_dtype(dtypes.operand_type(p)[0])))
    p = _full(_broadcast(p, shape, real), shape)
    u = uniform_inline(key, shape, real)
    u = xnp.where(u == 0, xnp.ones_like(u), u)  # which log maps to 0: the first trial succeeds
    return (xnp.floor(xnp.log(u) / xnp.log1p(-p)) + 1).astype(dtype)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def geometric(key: ArrayLike, p: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              out_sharding: ShardingLike = None) -> Array:
    """Sample from the geometric distribution: the number of trials up to and including the first success.

    Args:
        key: PRNG key.
        p: Probability of success of each trial, positive.
        shape: Shape of the result, to which `p` must broadcast. Default: the shape of `p`.
        dtype: Integer dtype of the result. Default: the default integer dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Integer array of samples.

    Example:
        >>> random.geometric(random.key(0), 0.5, (2,)).shape
        (2,)
    """
    key = single_key("geometric", key)
    samples = _geometric(key, p, _sample_shape("geometric", shape, p), _integer_dtype("geometric", dtype))
    return with_sharding(samples, out_sharding)


# Binomial


def _by_inversion(key, n, p, shape, dtype):
    """Count the successes within `n` trials by summing the waiting times between them, which are geometric."""
    log_failure = xnp.log1p(-p)

    def step(state):
        key, successes, trials = state
        first, second = split(key, 2)
        u = sample_once(uniform_inline, first, shape, dtype)
        trials = trials + xnp.ceil(xnp.log(u) / log_failure)
        return second, xnp.where(trials <= n, successes + 1, successes), trials

    start = key, xnp.zeros_like(n * p, dtype), xnp.zeros_like(n * p, dtype)
    return while_loop(lambda s: xnp.any(s[2] <= n), step, start)[1]


# The error of Stirling's formula for the logarithm of k!, for small k.
_TAIL = (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
         0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287)


def _stirling_tail(k):
    small = xnp.array(_TAIL, k.dtype)[xnp.clip(k, 0, 9).astype(np.int32)]
    z = (k + 1) * (k + 1)
    return xnp.where(k <= 9, small, (1 / 12 - (1 / 360 - 1 / 1260 / z) / z) / (k + 1))


def _by_btrs(key, n, p, is_needed, shape, dtype):
    """Sample by Hörmann's transformed rejection, for means of 10 and more and p up to 1/2.

    Without `is_needed` no iteration runs.
    """
    deviation = xnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = xnp.floor((n + 1) * p)

    def step(state):
        key, result, accepted = state
        key, u_key, v_key = split(key, 3)
        u = sample_once(uniform_inline, u_key, shape, dtype) - 0.5
        v = sample_once(uniform_inline, v_key, shape, dtype)
        us = 0.5 - abs(u)
        k = xnp.floor((2 * a / us + b) * u + c)
        accepts_early = (us >= 0.07) & (v <= v_r)
        rejects_early = (k < 0) | (k > n)
        log_ratio = xnp.log(v * alpha / (a / (us * us) + b))
        bound = ((m + 0.5) * xnp.log((m + 1) / (r * (n - m + 1))) + (n + 1) * xnp.log((n - m + 1) / (n - k + 1))
                 + (k + 0.5) * xnp.log(r * (n - k + 1) / (k + 1)) + _stirling_tail(m) + _stirling_tail(n - m)
                 - _stirling_tail(k) - _stirling_tail(n - k))
        accepts = accepts_early | (~rejects_early & (log_ratio <= bound))
        return key, xnp.where(accepts, k, result), accepted | accepts

    start = key, -xnp.ones_like(deviation, dtype), xnp.broadcast_to(~is_needed, deviation.shape)
    return while_loop(lambda s: ~xnp.all(s[2]), step, start)[1]


def binomial_inline(key, n, p, shape, dtype):
    is_mirrored = p >= 0.5
    q = xnp.where(is_mirrored, 1 - p, p)
    is_valid = (n > 0) & (q > 0) & (n < np.inf)
    is_small = n * q <= 10
    n = xnp.floor(n)
    use_inversion, use_rejection = is_valid & is_small, is_valid & ~is_small
    by_inversion = _by_inversion(key, xnp.where(use_inversion, n, -1), xnp.where(use_inversion, q, 0.5), shape, dtype)
    by_rejection = _by_btrs(key, xnp.where(use_rejection, n, 1e4), xnp.where(use_rejection, q, 0.5), xnp.any(use_rejection),
                            shape, dtype)
    result = xnp.where(is_valid, xnp.where(is_small, by_inversion, by_rejection), 0)
    result = xnp.where(is_mirrored & (n < np.inf), n - result, result)
    result = xnp.where(n == np.inf, n, result)
    return xnp.where((p >= 0) & (p <= 1) & (n >= 0), result, np.nan).astype(dtype)


@library(static=("shape", "dtype"), name="binomial")
def _binomial(key, n, p, shape, dtype):
    compute = _compute_dtype(p)  # The dtype of n has no influence.
    n, p = (_full(_broadcast(v, shape, compute), shape) for v in (n, p))
    return binomial_inline(key, n, p, shape, compute).astype(dtype)


def _compute_dtype(*params):
    """Return the dtype in which counts are sampled."""
    return dtypes.to_inexact(dtypes.result_type(*params))


@library(static=("shape", "dtype"))
@accepts(anything=True)
def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Sequence[int] | None = None,
             dtype: DTypeLike | None = None) -> Array:
    """Sample from the binomial distribution: the number of successes in independent trials.

    Args:
        key: PRNG key.
        n: Number of trials, nonnegative. For invalid values the result is NaN.
        p: Probability of success of each trial, between 0 and 1.
        shape: Shape of the result, to which the parameters must broadcast. Default: their joint shape.
        dtype: Floating dtype of the result. Default: the default float dtype.

    Returns:
        Array of samples.

    Example:
        >>> random.binomial(random.key(0), 10, 0.5, (2,)).shape
        (2,)
    """
    key = single_key("binomial", key)
    return _binomial(key, n, p, _sample_shape("binomial", shape, n, p), _float_dtype("binomial", dtype))


@library(static=("shape", "dtype", "unroll"), name="multinomial")
def _multinomial(key, n, p, shape, dtype, unroll):
    result_dtype, dtype = dtype, _compute_dtype(n, p)
    n, p = _full(_broadcast(n, shape, dtype), shape), xnp.asarray(p, dtype)
    p = xnp.broadcast_to(p, (*shape, p.shape[-1]))
    tail_sums = xnp.cumsum(p[..., ::-1], axis=-1)[..., ::-1]
    keys = random_split_p.bind(key, shape=(p.shape[-1],))

    def step(remaining, xs):
        key, probability, tail_sum = xs
        conditional = xnp.clip(probability / xnp.where(tail_sum == 0, 1, tail_sum), 0, 1)
        count = xnp.where(tail_sum == 0, 0, binomial_inline(key, remaining, conditional, shape, dtype))
        return remaining - count, count

    _, counts = scan(step, n, (keys, xnp.moveaxis(p, -1, 0), xnp.moveaxis(tail_sums, -1, 0)), unroll=unroll)
    return xnp.moveaxis(counts, 0, -1).astype(result_dtype)


@library(static=("shape", "dtype", "unroll"))
@accepts(anything=True)
def multinomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, *, shape: Sequence[int] | None = None,
                dtype: DTypeLike | None = None, unroll: int = 1) -> Array:
    """Sample from the multinomial distribution: how often each outcome occurs in independent trials.

    Args:
        key: PRNG key.
        n: Number of trials.
        p: Probabilities of the outcomes along the last axis. They must sum to 1.
        shape: Shape of the result without the axis of outcomes. Default: the joint shape of `n` and `p[..., 0]`.
        dtype: Dtype of the result, of any kind. Default: the default float dtype.
        unroll: Number of outcomes that an iteration of the loop over them processes.

    Returns:
        Array of counts, with the outcomes along the last axis.

    Example:
        >>> float(random.multinomial(random.key(0), 10, xnp.array([0.2, 0.8])).sum())
        10.0
    """
    key = single_key("multinomial", key)
    p_shape = np.shape(p)
    if not p_shape:
        raise ValueError("random.multinomial needs a vector of probabilities, got a scalar.")
    batch_shape = _sample_shape("multinomial", shape, np.empty(np.shape(n)), np.empty(p_shape[:-1]))
    result_dtype = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, "random.multinomial")
    return _multinomial(key, n, p, batch_shape, result_dtype, unroll)
