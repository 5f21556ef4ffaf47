"""Gamma variables, by the rejection method of Marsaglia and Tsang, and distributions that are made of them.

Each sample has a key of its own, so that how often one is rejected changes no other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront.control.scan import map as map_one_by_one
from xlafront.control.while_loop import while_loop
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import known
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax import slicing
from xlafront.lax.barriers import optimization_barrier_p
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.lax.keys import unwrap_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.lax.sharding_rules import merge
from xlafront.numpy.promotion import check_arraylike
from xlafront.random import rbg
from xlafront.random.distributions import (
    _broadcast,
    _float_dtype,
    _full,
    _sample_shape,
    check_parameters,
    exponential_inline,
    normal_inline,
    uniform_inline,
)
from xlafront.random.primitives import random_split_p, split
from xlafront.random.prng import placed, single_key, threefry_prng_impl
from xlafront.random.threefry import together, word
from xlafront.runtime.jaxlib_compat import jaxlib_version
from xlafront.special.incomplete_gamma import random_gamma_grad
from xlafront.staging.library import library, written_once
from xlafront.transforms.batching.vmap import vmap

_digamma = PUBLIC["digamma"]


def _apart(key):
    """The words of a key, which are not computed again in the loop that uses them."""
    [words] = optimization_barrier_p.bind(together(*key))
    return tuple([word(words, i) for i in (0, 1)])


_LANES = 8  # numbers in a vector


def _one(key, a, log_space: bool, remainder: bool = False):
    """One sample of shape parameter `a`; below 1 that of `a + 1`, times a uniform number to the power of `1 / a`.
    `remainder` says that some of the samples fill no vector: LLVM takes twice as long for the two loops over long kernels."""
    dtype = a.dtype
    raised = a >= 1
    d = xnp.where(raised, a, a + 1) - dtype.type(1 / 3)
    c = dtype.type(1 / 3) / xnp.sqrt(d)
    key, of_boost = split(key, 2)
    if remainder:
        of_boost = _apart(of_boost)

    def proposal(state):
        key, _, _ = state
        key, drawn = split(key, 2)
        x = normal_inline(drawn, (), dtype)
        return key, x, 1 + x * c

    def rejected(state):
        _, square, cube, u = state
        return (u >= 1 - dtype.type(0.0331) * square * square) & (
            xnp.log(u) >= square / 2 + d * (1 - cube + xnp.log(cube)))

    def attempt(state):
        key, of_proposal, of_uniform = split(state[0], 3)
        _, x, v = while_loop(lambda s: s[2] <= 0, proposal, (of_proposal, xnp.zeros((), dtype), -xnp.ones((), dtype)))
        return key, x * x, v * v * v, uniform_inline(of_uniform, (), dtype)

    one = xnp.ones((), dtype)
    _, _, cube, _ = while_loop(rejected, attempt, (key, 0 * one, one, 2 * one))
    if log_space:
        boost = xnp.where(raised, 0, -exponential_inline(of_boost, (), dtype) / a)
        return xnp.log(d) + xnp.log(cube) + boost
    boost = xnp.where(raised, 1, (1 - uniform_inline(of_boost, (), dtype)) ** (1 / a))
    return d * cube * boost


def _samples(key, a, *, log_space):
    apart = tracing.aval_of(key).dtype.impl is threefry_prng_impl and jaxlib_version < (0, 11)  # later LLVM takes minutes

    def of_one_key(key, a):
        flat = a.reshape(-1)
        keys = random_split_p.bind(key, shape=flat.shape)
        if apart:
            words = unwrap_p.bind(keys)
            keys = tuple(slicing.index_in_dim(words, i, 1, keepdims=False) for i in (0, 1))
        remainder = apart and known(flat.shape[0], 0) % _LANES != 0
        return vmap(lambda key, v: _one(key, v, log_space, remainder))(keys, flat).reshape(a.shape)

    function = of_one_key
    for _ in range(np.ndim(key)):
        function = vmap(function)
    return function(key, a)


def _one_after_another(key, a, *, log_space):
    """On CPUs, for generators that give a batch of keys the bits of its first: each sample is then of its own key."""
    if tracing.aval_of(key).dtype.impl.random_bits is not rbg.random_bits:
        return _samples(key, a, log_space=log_space)
    each = random_split_p.bind(key, shape=a.shape[np.ndim(key):])
    return map_one_by_one(lambda pair: _one(*pair, log_space), (each.reshape(-1), a.reshape(-1))).reshape(a.shape)


def _jvp(primals, tangents, *, log_space):
    key, a = primals
    found = random_gamma_p.bind(key, a, log_space=log_space)
    t = tangents[1]
    if type(t) is Zero:
        return found, Zero(tracing.aval_of(found).to_tangent_aval())
    if not log_space:
        return found, t * random_gamma_grad(a, found)
    sample = xnp.exp(found)
    # Where the sample itself is too small, the first term of the series of its distribution function says how it moves.
    tiny = sample <= float(dtypes.finfo(sample.dtype).tiny)
    safe = xnp.where(tiny, 1, sample)
    return found, t * xnp.where(tiny, (_digamma(a + 1) - found) / a, random_gamma_grad(a, safe) / safe)


def _batch(axis_size, operands, dims, *, log_space):
    return random_gamma_p.bind(*[broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)], log_space=log_space), 0


def _split(name, operands, result, params):
    """Batches of keys and of parameters are split in one way, samples of one key as their parameters."""
    (_, of_keys), (_, of_params) = operands
    return [*[merge(name, operands, pair) for pair in zip(of_keys, of_params)], *of_params[len(of_keys):]]


random_gamma_p = Primitive("random_gamma", abstract=lambda key, a, *, log_space: ShapedArray(a.shape, a.dtype),
                           lower=lower_fun(_samples), jvp=_jvp, batch=_batch, sharding_rule=_split)
random_gamma_p.lowerings["cpu"] = lower_fun(_one_after_another)


def gamma_inline(key, a, shape, dtype, log_space=False):
    a = _full(_broadcast(a, shape, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space)


@library(static=("shape", "dtype", "log_space"), name="gamma")
def _gamma(key, a, shape, dtype, log_space):
    return gamma_inline(key, a, shape, dtype, log_space)


@written_once(static=("shape", "dtype"))
def gamma(key: ArrayLike, a: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
          out_sharding: ShardingLike = None) -> Array:
    """Samples of the gamma distribution with density `x^(a-1) exp(-x) / gamma(a)`. They can be differentiated in `a`.

    - `key`: a random key.
    - `a`: the shape parameter, positive.
    - `shape`: of the samples, which `a` broadcasts to; its own where it is not given.
    - `dtype`: a floating one.
    - `out_sharding`: where the samples are placed.

    >>> random.gamma(random.key(0), 3.0, (2, 4)).shape
    (2, 4)
    """
    key = single_key("gamma", key)
    return placed(_gamma(key, a, _sample_shape("gamma", shape, a), _float_dtype("gamma", dtype), False), out_sharding)


@written_once(static=("shape", "dtype"))
def loggamma(key: ArrayLike, a: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
             out_sharding: ShardingLike = None) -> Array:
    """Logarithms of samples of the gamma distribution, exact where the samples would be too small for their dtype.

    - `key`, `a`, `shape`, `dtype`, `out_sharding`: as of `gamma`.

    >>> bool(random.loggamma(random.key(0), 1e-3) < -10)
    True
    """
    key = single_key("loggamma", key)
    found = _gamma(key, a, _sample_shape("loggamma", shape, a), _float_dtype("loggamma", dtype), True)
    return placed(found, out_sharding)


@library(static=("shape", "dtype"), name="beta")
def _beta(key, a, b, shape, dtype):
    first, second = split(key, 2)
    x, y = (gamma_inline(w, v, shape, dtype, True) for w, v in ((first, a), (second, b)))
    top = xnp.maximum(x, y)
    x, y = xnp.exp(x - top), xnp.exp(y - top)
    return x / (x + y)


@written_once(static=("shape", "dtype"))
def beta(key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Samples of the beta distribution with density proportional to `x^(a-1) (1-x)^(b-1)`.

    - `a`, `b`: its parameters, positive.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `gamma`.

    >>> random.beta(random.key(0), 2.0, 3.0, (2,)).shape
    (2,)
    """
    key = single_key("beta", key)
    d = _float_dtype("beta", dtype)
    check_parameters("beta", d, a, b)
    return placed(_beta(key, a, b, _sample_shape("beta", shape, a, b), d), out_sharding)


@library(static=("shape", "dtype"), name="dirichlet")
def _dirichlet(key, alpha, shape, dtype):
    logs = gamma_inline(key, alpha, (*shape, np.shape(alpha)[-1]), dtype, True)
    if not np.size(logs):
        return logs
    parts = xnp.exp(logs - xnp.max(logs, -1, keepdims=True))
    return parts / xnp.sum(parts, -1, keepdims=True)


@written_once(static=("shape", "dtype"))
def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              out_sharding: ShardingLike = None) -> Array:
    """Samples of the Dirichlet distribution: vectors of positive numbers whose sum is 1.

    - `alpha`: its parameters along the last dimension, positive.
    - `shape`: of the samples without that dimension, which the other dimensions of `alpha` broadcast to.
    - `key`, `dtype`, `out_sharding`: as of `gamma`.

    >>> random.dirichlet(random.key(0), xnp.ones(3), (2,)).shape
    (2, 3)
    """
    key = single_key("dirichlet", key)
    check_arraylike("dirichlet", alpha)
    if not np.ndim(alpha):
        raise ValueError("random.dirichlet needs a vector of parameters alpha, with ndim of at least one (>= 1); got a scalar.")
    joint = _sample_shape("dirichlet", shape, np.empty(np.shape(alpha)[:-1]))
    return placed(_dirichlet(key, alpha, joint, _float_dtype("dirichlet", dtype)), out_sharding)


@library(static=("shape", "dtype"), name="t")
def _t(key, df, shape, dtype):
    first, second = split(key, 2)
    df = _full(_broadcast(df, shape, dtype), shape)
    n = normal_inline(first, shape, dtype)
    half = df / 2
    return n * xnp.sqrt(half / gamma_inline(second, half, shape, dtype))


@written_once(static=("shape", "dtype"))
def t(key: ArrayLike, df: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
      out_sharding: ShardingLike = None) -> Array:
    """Samples of Student's t distribution.

    - `df`: the degrees of freedom, positive.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `gamma`.

    >>> random.t(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    key = single_key("t", key)
    d = _float_dtype("t", dtype)
    check_parameters("t", d, df)
    return placed(_t(key, df, _sample_shape("t", shape, df), d), out_sharding)


def _chisquare_inline(key, df, shape, dtype):
    half = _full(_broadcast(df, shape, dtype), shape) / 2
    return 2 * xnp.exp(gamma_inline(key, half, shape, dtype, True))


@library(static=("shape", "dtype"), name="chisquare")
def _chisquare(key, df, shape, dtype):
    return _chisquare_inline(key, df, shape, dtype)


@written_once(static=("shape", "dtype"))
def chisquare(key: ArrayLike, df: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              out_sharding: ShardingLike = None) -> Array:
    """Samples of the chi-square distribution: sums of squares of normal numbers.

    - `df`: the degrees of freedom, positive.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `gamma`.

    >>> random.chisquare(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    key = single_key("chisquare", key)
    d = _float_dtype("chisquare", dtype)
    check_parameters("chisquare", d, df)
    return placed(_chisquare(key, df, _sample_shape("chisquare", shape, df), d), out_sharding)


@library(static=("shape", "dtype"), name="f")
def _f(key, dfnum, dfden, shape, dtype):
    first, second = split(key, 2)
    above, below = (_chisquare_inline(w, df, shape, dtype) / _full(_broadcast(df, shape, dtype), shape)
                    for w, df in ((second, dfnum), (first, dfden)))
    return above / below


@written_once(static=("shape", "dtype"))
def f(key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
      out_sharding: ShardingLike = None) -> Array:
    """Samples of the F distribution: quotients of mean squares of normal numbers.

    - `dfnum`, `dfden`: the degrees of freedom above and below, positive.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `gamma`.

    >>> random.f(random.key(0), 3.0, 4.0, (2,)).shape
    (2,)
    """
    key = single_key("f", key)
    found = _f(key, dfnum, dfden, _sample_shape("f", shape, dfnum, dfden), _float_dtype("f", dtype))
    return placed(found, out_sharding)
