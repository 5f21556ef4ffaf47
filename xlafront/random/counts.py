"""Random numbers of events: Poisson, binomial, geometric and multinomial."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.scan import scan
from xlafront.control.while_loop import while_loop
from xlafront.core import dtypes
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.random.called_draws import once
from xlafront.random.distributions import (
    _broadcast,
    _float_dtype,
    _full,
    _sample_shape,
    uniform_inline,
)
from xlafront.random.primitives import random_split_p, split
from xlafront.random.prng import placed, single_key
from xlafront.staging.library import library, written_once

_lgamma = PUBLIC["lgamma"]
_FLOAT = np.dtype(np.float32)


def _integers(name: str, dtype):
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, f"random.{name}")
    if not dtypes.is_integer(d):
        raise ValueError(f"random.{name} makes numbers of an integer dtype, got {d}.")
    return d


# Poisson


def _by_product(key, lam, shape, dtype):
    """Knuth's method: how many uniform numbers it takes until their product is below `exp(-lam)`."""
    def step(state):
        key, count, logarithm = state
        first, second = split(key, 2)
        count = xnp.where(logarithm > -lam, count + 1, count)
        return first, count, logarithm + xnp.log(uniform_inline(second, shape, _FLOAT))

    start = key, xnp.zeros_like(lam, dtype), xnp.zeros_like(lam, _FLOAT)
    _, count, _ = while_loop(lambda s: xnp.any(s[2] > -lam), step, start)
    return xnp.maximum(count - 1, 0).astype(dtype)


def _by_rejection(key, lam, shape, dtype):
    """Hörmann's transformed rejection with squeeze, for means of 10 and more."""
    log_lam = xnp.log(lam)
    b = 0.931 + 2.53 * xnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(state):
        key, found, accepted = state
        key, of_u, of_v = split(key, 3)
        u = once(uniform_inline, of_u, shape, _FLOAT) - 0.5
        v = once(uniform_inline, of_v, shape, _FLOAT)
        us = 0.5 - abs(u)
        k = xnp.floor((2 * a / us + b) * u + lam + 0.43)
        s = xnp.log(v * inverse / (a / (us * us) + b))
        t = -lam + k * log_lam - _lgamma(k + 1)
        quick = (us >= 0.07) & (v <= v_r)
        never = (k < 0) | ((us < 0.013) & (v > us))
        good = quick | (~never & (s <= t))
        return key, xnp.where(good, k, found), accepted | good

    start = key, -xnp.ones_like(lam, _FLOAT), xnp.zeros_like(lam, bool)
    _, found, _ = while_loop(lambda s: ~xnp.all(s[2]), step, start)
    return found.astype(dtype)


@library(static=("shape", "dtype"), name="poisson")
def _poisson(key, lam, shape, dtype):
    lam = _full(_broadcast(lam, shape, _FLOAT), shape)
    usual = lam >= 0
    few = ~usual | (lam < 10)
    small = _by_product(key, xnp.where(few & usual, lam, 0), shape, dtype)
    large = _by_rejection(key, xnp.where(few, 1e5, lam), shape, dtype)
    found = xnp.where(lam == 0, 0, xnp.where(few, small, large))
    return xnp.where(usual, found, -1).astype(dtype)


@written_once(static=("shape", "dtype"))
def poisson(key: ArrayLike, lam: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
            out_sharding: ShardingLike = None) -> Array:
    """Numbers of independent events, of which there are `lam` on average.

    - `key`: a random key, of the implementation `threefry2x32`.
    - `lam`: the mean, not negative; -1 comes of others.
    - `shape`: of the samples, which `lam` broadcasts to; its own where it is not given.
    - `dtype`: an integer one.
    - `out_sharding`: where the samples are placed.

    >>> random.poisson(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    key = single_key("poisson", key)
    impl = key.dtype.impl
    if impl.name != "threefry2x32":
        raise NotImplementedError(f"random.poisson is only implemented for keys of threefry2x32, got one of {impl.name}. Make "
                                  f"one with random.key(seed, impl='threefry2x32').")
    return placed(_poisson(key, lam, _sample_shape("poisson", shape, lam), _integers("poisson", dtype)), out_sharding)


@library(static=("shape", "dtype"), name="geometric")
def _geometric(key, p, shape, dtype):
    real = dtypes.to_inexact(dtypes.canonicalize_dtype(dtypes.operand_type(p)[0]))
    p = _full(_broadcast(p, shape, real), shape)
    u = uniform_inline(key, shape, real)
    return (xnp.floor(xnp.log(u) / xnp.log1p(-p)) + 1).astype(dtype)


@written_once(static=("shape", "dtype"))
def geometric(key: ArrayLike, p: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              out_sharding: ShardingLike = None) -> Array:
    """Numbers of independent trials until the first success, that one included.

    - `p`: the probability of success in each trial, above 0.
    - `dtype`: an integer one.
    - `key`, `shape`, `out_sharding`: as of `poisson`.

    >>> random.geometric(random.key(0), 0.5, (2,)).shape
    (2,)
    """
    key = single_key("geometric", key)
    return placed(_geometric(key, p, _sample_shape("geometric", shape, p), _integers("geometric", dtype)), out_sharding)


# Binomial


def _by_waiting(key, n, p, shape, dtype):
    """How many successes there are within `n` trials, by the numbers of trials between them."""
    log_failure = xnp.log1p(-p)

    def step(state):
        key, successes, trials = state
        first, second = split(key, 2)
        u = once(uniform_inline, first, shape, dtype)
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


def _by_btrs(key, n, p, wanted, shape, dtype):
    """Hörmann's transformed rejection, for means of 10 and more and p up to 1/2; not done where it is not wanted."""
    deviation = xnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = xnp.floor((n + 1) * p)

    def step(state):
        key, found, accepted = state
        key, of_u, of_v = split(key, 3)
        u = once(uniform_inline, of_u, shape, dtype) - 0.5
        v = once(uniform_inline, of_v, shape, dtype)
        us = 0.5 - abs(u)
        k = xnp.floor((2 * a / us + b) * u + c)
        quick = (us >= 0.07) & (v <= v_r)
        never = (k < 0) | (k > n)
        left = xnp.log(v * alpha / (a / (us * us) + b))
        bound = ((m + 0.5) * xnp.log((m + 1) / (r * (n - m + 1))) + (n + 1) * xnp.log((n - m + 1) / (n - k + 1))
                 + (k + 0.5) * xnp.log(r * (n - k + 1) / (k + 1)) + _stirling_tail(m) + _stirling_tail(n - m)
                 - _stirling_tail(k) - _stirling_tail(n - k))
        good = quick | (~never & (left <= bound))
        return key, xnp.where(good, k, found), accepted | good

    start = key, -xnp.ones_like(deviation, dtype), xnp.broadcast_to(~wanted, deviation.shape)
    return while_loop(lambda s: ~xnp.all(s[2]), step, start)[1]


def binomial_inline(key, n, p, shape, dtype):
    mirrored = p >= 0.5
    q = xnp.where(mirrored, 1 - p, p)
    usual = (n > 0) & (q > 0) & ~xnp.isnan(n)
    below = n * q <= 10
    few, many = usual & below, usual & ~below
    waiting = _by_waiting(key, xnp.where(few, n, -1), xnp.where(few, q, 0.5), shape, dtype)
    rejection = _by_btrs(key, xnp.where(many, n, 1e4), xnp.where(many, q, 0.5), xnp.any(many), shape, dtype)
    found = xnp.where(usual, xnp.where(below, waiting, rejection), 0)
    found = xnp.where(mirrored, n - found, found)
    return xnp.where((p >= 0) & (p <= 1) & (n >= 0) & (n < np.inf), found, np.nan).astype(dtype)


@library(static=("shape", "dtype"), name="binomial")
def _binomial(key, n, p, shape, dtype):
    compute = _of_parameters(p)  # whatever that of n is
    n, p = (_full(_broadcast(v, shape, compute), shape) for v in (n, p))
    return binomial_inline(key, n, p, shape, compute).astype(dtype)


def _of_parameters(*params):
    """The dtype that numbers of successes are drawn in."""
    return dtypes.to_inexact(dtypes.result_type(*params))


@written_once(static=("shape", "dtype"))
def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Sequence[int] | None = None,
             dtype: DTypeLike | None = None) -> Array:
    """Numbers of successes in independent trials.

    - `key`: a random key.
    - `n`: how many trials, not negative; NaN comes of others.
    - `p`: the probability of success in each, between 0 and 1.
    - `shape`: of the samples, which the parameters broadcast to; theirs where it is not given.
    - `dtype`: a floating one.

    >>> random.binomial(random.key(0), 10, 0.5, (2,)).shape
    (2,)
    """
    key = single_key("binomial", key)
    return _binomial(key, n, p, _sample_shape("binomial", shape, n, p), _float_dtype("binomial", dtype))


@library(static=("shape", "dtype", "unroll"), name="multinomial")
def _multinomial(key, n, p, shape, dtype, unroll):
    result, dtype = dtype, _of_parameters(n, p)
    n, p = _full(_broadcast(n, shape, dtype), shape), xnp.asarray(p, dtype)
    p = xnp.broadcast_to(p, (*shape, p.shape[-1]))
    left = xnp.cumsum(p[..., ::-1], axis=-1)[..., ::-1]
    keys = random_split_p.bind(key, shape=(p.shape[-1],))

    def draw(rest, given):
        key, share, total = given
        chance = xnp.clip(share / xnp.where(total == 0, 1, total), 0, 1)
        drawn = xnp.where(total == 0, 0, binomial_inline(key, rest, chance, shape, dtype))
        return rest - drawn, drawn

    _, drawn = scan(draw, n, (keys, xnp.moveaxis(p, -1, 0), xnp.moveaxis(left, -1, 0)), unroll=unroll)
    return xnp.moveaxis(drawn, 0, -1).astype(result)


@written_once(static=("shape", "dtype", "unroll"))
def multinomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, *, shape: Sequence[int] | None = None,
                dtype: DTypeLike | None = None, unroll: int = 1) -> Array:
    """How often each of several outcomes comes in independent trials.

    - `key`: a random key.
    - `n`: how many trials.
    - `p`: the probability of each outcome along the last dimension; the sums are 1.
    - `shape`: of the samples, whose last dimension counts the outcomes.
    - `dtype`: a floating one.
    - `unroll`: how many outcomes a step of the loop over them takes.

    >>> float(random.multinomial(random.key(0), 10, xnp.array([0.2, 0.8])).sum())
    10.0
    """
    key = single_key("multinomial", key)
    own = np.shape(p)
    if not own:
        raise ValueError("random.multinomial needs a vector of probabilities, got a scalar.")
    whole = common_shape((*np.shape(n), 1), own) if shape is None else tuple(shape)
    _sample_shape("multinomial", whole, np.empty((*np.shape(n), 1)), np.empty(own))
    return _multinomial(key, n, p, whole[:-1], _float_dtype("multinomial", dtype), unroll)
