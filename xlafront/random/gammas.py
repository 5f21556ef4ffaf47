"""Gamma samples, by the rejection method of Marsaglia and Tsang, and distributions derived from them.

Each sample has its own key, so that the number of its rejections does not change any other sample.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront import tuning
from xlafront.api.vmap import vmap
from xlafront.base.jaxlib_compat import jaxlib_version
from xlafront.control.scan import map as map_one_by_one
from xlafront.control.while_loop import while_loop
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax import slicing
from xlafront.lax.elementwise_functions import PUBLIC
from xlafront.lax.key_arrays import unwrap_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.lax.sharding_rules import merge
from xlafront.numpy.promotion import check_arraylike
from xlafront.random import rbg
from xlafront.random.approximations import gamma_approximate, select_method
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
from xlafront.random.prng import single_key, threefry_prng_impl, with_sharding
from xlafront.special.incomplete_gamma import random_gamma_grad
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import known

_digamma = PUBLIC["digamma"]


_LANES = 16  # elements of the widest vectors of a CPU


def _sample_one(key, a, log_space: bool):
    """Return one gamma sample with shape parameter `a`.

    For `a < 1` it is a sample for `a + 1` times a uniform sample to the power `1 / a`.
    """
    dtype = a.dtype
    is_direct = a >= 1
    d = xnp.where(is_direct, a, a + 1) - dtype.type(1 / 3)
    c = dtype.type(1 / 3) / xnp.sqrt(d)
    key, boost_key = split(key, 2)

    def proposal(state):
        key, _, _ = state
        key, subkey = split(key, 2)
        x = normal_inline(subkey, (), dtype)
        return key, x, 1 + x * c

    def rejected(state):
        _, square, cube, u = state
        return (u >= 1 - dtype.type(0.0331) * square * square) & (
            xnp.log(u) >= square / 2 + d * (1 - cube + xnp.log(cube)))

    def attempt(state):
        key, proposal_key, uniform_key = split(state[0], 3)
        _, x, v = while_loop(lambda s: s[2] <= 0, proposal, (proposal_key, xnp.zeros((), dtype), -xnp.ones((), dtype)))
        return key, x * x, v * v * v, uniform_inline(uniform_key, (), dtype)

    one = xnp.ones((), dtype)
    _, _, cube, _ = while_loop(rejected, attempt, (key, 0 * one, one, 2 * one))
    if log_space:
        boost = xnp.where(is_direct, 0, -exponential_inline(boost_key, (), dtype) / a)
        return xnp.log(d) + xnp.log(cube) + boost
    boost = xnp.where(is_direct, 1, (1 - uniform_inline(boost_key, (), dtype)) ** (1 / a))
    return d * cube * boost


def _samples(key, a, *, log_space, fills_vectors=False):
    # Pairs of words instead of key arrays: with the LLVM of later jaxlibs they take minutes to compile.
    as_words = tracing.aval_of(key).dtype.impl is threefry_prng_impl and jaxlib_version < (0, 11)

    def sample_for_key(key, a):
        flat = a.reshape(-1)
        keys = random_split_p.bind(key, shape=flat.shape)
        if as_words:
            words = unwrap_p.bind(keys)
            keys = tuple(slicing.index_in_dim(words, i, 1, keepdims=False) for i in (0, 1))
            if fills_vectors:
                flat, *keys = map(_fill_vectors, (flat, *keys))
        samples = vmap(lambda key, v: _sample_one(key, v, log_space))(tuple(keys) if as_words else keys, flat)
        return samples[:a.size].reshape(a.shape)

    function = sample_for_key
    for _ in range(np.ndim(key)):
        function = vmap(function)
    return function(key, a)


def _fill_vectors(x):
    """Pad a vector with ones to a multiple of the CPU's vectors.

    LLVM compiles a second loop for a remainder, which doubles the compile time, and does not vectorize odd numbers of samples.
    """
    count = known(x.shape[0], 1)
    rest = -count % _LANES if count > 1 else 0
    return slicing.pad_p.bind(x, np.ones((), x.dtype), padding_config=((0, rest, 0),)) if rest else x


def _samples_on_cpu(key, a, *, log_space, fills_vectors):
    """Sample one by one for generators that derive the bits of a batch from its first key.

    Each sample then uses its own key.
    """
    if tracing.aval_of(key).dtype.impl.random_bits is not rbg.random_bits:
        return _samples(key, a, log_space=log_space, fills_vectors=fills_vectors)
    keys = random_split_p.bind(key, shape=a.shape[np.ndim(key):])
    return map_one_by_one(lambda pair: _sample_one(*pair, log_space), (keys.reshape(-1), a.reshape(-1))).reshape(a.shape)


_rules_on_cpu = {fills_vectors: lower_fun(functools.partial(_samples_on_cpu, fills_vectors=fills_vectors))
                 for fills_vectors in (False, True)}


def _lower_on_cpu(ctx, key, a, *, log_space):
    return _rules_on_cpu[tuning.is_for_one_cpu(ctx.module_context)](ctx, key, a, log_space=log_space)


def _jvp(primals, tangents, *, log_space):
    key, a = primals
    result = random_gamma_p.bind(key, a, log_space=log_space)
    t = tangents[1]
    if type(t) is Zero:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    if not log_space:
        return result, t * random_gamma_grad(a, result)
    sample = xnp.exp(result)
    # If the sample underflows, its derivative follows from the first term of the series of the CDF.
    tiny = sample <= float(dtypes.finfo(sample.dtype).tiny)
    safe = xnp.where(tiny, 1, sample)
    return result, t * xnp.where(tiny, (_digamma(a + 1) - result) / a, random_gamma_grad(a, safe) / safe)


def _batch(axis_size, operands, dims, *, log_space):
    return random_gamma_p.bind(*[broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)], log_space=log_space), 0


def _sharding_rule(name, operands, result, params):
    """Merge the shardings of batches of keys and parameters. The other dimensions are sharded like the parameters."""
    (_, key_spec), (_, param_spec) = operands
    return [*[merge(name, operands, pair) for pair in zip(key_spec, param_spec)], *param_spec[len(key_spec):]]


random_gamma_p = Primitive(
    "random_gamma", abstract=lambda key, a, *, log_space: ShapedArray(a.shape, a.dtype),
    lower={None: lower_fun(_samples), "cpu": _lower_on_cpu}, jvp=_jvp, batch=_batch,
    mesh=MeshRules(_sharding_rule))


def gamma_inline(key, a, shape, dtype, log_space=False):
    a = _full(_broadcast(a, shape, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=log_space)


def _sampler(name: str, method: str) -> Callable:
    return select_method(name, method, gamma_inline, gamma_approximate)


@library(static=("shape", "dtype", "log_space", "sample"), name="gamma")
def _gamma(key, a, shape, dtype, log_space, sample):
    return sample(key, a, shape, dtype, log_space)


@library(static=("shape", "dtype", "method"))
@accepts(anything=True)
def gamma(key: ArrayLike, a: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
          method: str = "exact", out_sharding: ShardingLike = None) -> Array:
    """Sample from the gamma distribution with density `x^(a-1) exp(-x) / gamma(a)`.

    Samples are differentiable in `a`.

    Args:
        key: PRNG key.
        a: Shape parameter, positive.
        shape: Shape of the result, to which `a` must broadcast. Default: the shape of `a`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        method: "exact" for samples by rejection, or "approximate" for samples without loops, which are faster and have a small
            bias; their derivatives differ.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.gamma(random.key(0), 3.0, (2, 4)).shape
        (2, 4)
    """
    key = single_key("gamma", key)
    sample = _sampler("gamma", method)
    samples = _gamma(key, a, _sample_shape("gamma", shape, a), _float_dtype("gamma", dtype), False, sample)
    return with_sharding(samples, out_sharding)


@library(static=("shape", "dtype", "method"))
@accepts(anything=True)
def loggamma(key: ArrayLike, a: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
             method: str = "exact", out_sharding: ShardingLike = None) -> Array:
    """Sample logarithms of gamma variables.

    They are accurate even where the gamma samples would underflow.

    Args:
        key: PRNG key.
        a: Shape parameter, positive.
        shape: Shape of the result, to which `a` must broadcast. Default: the shape of `a`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        method: "exact" for samples by rejection, or "approximate" for samples without loops, which are faster and have a small
            bias; their derivatives differ.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> bool(random.loggamma(random.key(0), 1e-3) < -10)
        True
    """
    key = single_key("loggamma", key)
    sample = _sampler("loggamma", method)
    samples = _gamma(key, a, _sample_shape("loggamma", shape, a), _float_dtype("loggamma", dtype), True, sample)
    return with_sharding(samples, out_sharding)


@library(static=("shape", "dtype", "sample"), name="beta")
def _beta(key, a, b, shape, dtype, sample):
    first, second = split(key, 2)
    x, y = (sample(w, v, shape, dtype, True) for w, v in ((first, a), (second, b)))
    maximum = xnp.maximum(x, y)
    x, y = xnp.exp(x - maximum), xnp.exp(y - maximum)
    return x / (x + y)


@library(static=("shape", "dtype", "method"))
@accepts(anything=True)
def beta(key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
         method: str = "exact", out_sharding: ShardingLike = None) -> Array:
    """Sample from the beta distribution with density proportional to `x^(a-1) (1-x)^(b-1)`.

    Args:
        key: PRNG key.
        a: First shape parameter, positive.
        b: Second shape parameter, positive.
        shape: Shape of the result, to which `a` and `b` must broadcast. Default: their joint shape.
        dtype: Floating dtype of the result. Default: the default float dtype.
        method: "exact" for samples by rejection, or "approximate" for samples without loops, which are faster and have a small
            bias; their derivatives differ.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.beta(random.key(0), 2.0, 3.0, (2,)).shape
        (2,)
    """
    key = single_key("beta", key)
    sample = _sampler("beta", method)
    d = _float_dtype("beta", dtype)
    check_parameters("beta", d, a, b)
    return with_sharding(_beta(key, a, b, _sample_shape("beta", shape, a, b), d, sample), out_sharding)


@library(static=("shape", "dtype"), name="dirichlet")
def _dirichlet(key, alpha, shape, dtype):
    logs = gamma_inline(key, alpha, (*shape, np.shape(alpha)[-1]), dtype, True)
    if not np.size(logs):
        return logs
    gammas = xnp.exp(logs - xnp.max(logs, -1, keepdims=True))
    return gammas / xnp.sum(gammas, -1, keepdims=True)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              out_sharding: ShardingLike = None) -> Array:
    """Sample from the Dirichlet distribution: vectors of positive components that sum to 1.

    Args:
        key: PRNG key.
        alpha: Concentration parameters along the last axis, positive.
        shape: Batch shape of the result, without the last axis. The batch shape of `alpha` must broadcast to it. Default: the
            batch shape of `alpha`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples of shape `shape + alpha.shape[-1:]`.

    Example:
        >>> random.dirichlet(random.key(0), xnp.ones(3), (2,)).shape
        (2, 3)
    """
    key = single_key("dirichlet", key)
    check_arraylike("dirichlet", alpha)
    if not np.ndim(alpha):
        raise ValueError("random.dirichlet needs a vector of parameters alpha, with ndim of at least one (>= 1); got a scalar.")
    batch_shape = _sample_shape("dirichlet", shape, np.empty(np.shape(alpha)[:-1]))
    return with_sharding(_dirichlet(key, alpha, batch_shape, _float_dtype("dirichlet", dtype)), out_sharding)


@library(static=("shape", "dtype"), name="t")
def _t(key, df, shape, dtype):
    first, second = split(key, 2)
    df = _full(_broadcast(df, shape, dtype), shape)
    n = normal_inline(first, shape, dtype)
    half = df / 2
    return n * xnp.sqrt(half / gamma_inline(second, half, shape, dtype))


@library(static=("shape", "dtype"))
@accepts(anything=True)
def t(key: ArrayLike, df: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
      out_sharding: ShardingLike = None) -> Array:
    """Sample from Student's t distribution.

    Args:
        key: PRNG key.
        df: Degrees of freedom, positive.
        shape: Shape of the result, to which `df` must broadcast. Default: the shape of `df`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.t(random.key(0), 3.0, (2,)).shape
        (2,)
    """
    key = single_key("t", key)
    d = _float_dtype("t", dtype)
    check_parameters("t", d, df)
    return with_sharding(_t(key, df, _sample_shape("t", shape, df), d), out_sharding)


def _chisquare_inline(key, df, shape, dtype, sample=gamma_inline):
    half = _full(_broadcast(df, shape, dtype), shape) / 2
    return 2 * xnp.exp(sample(key, half, shape, dtype, True))


@library(static=("shape", "dtype", "sample"), name="chisquare")
def _chisquare(key, df, shape, dtype, sample):
    return _chisquare_inline(key, df, shape, dtype, sample)


@library(static=("shape", "dtype", "method"))
@accepts(anything=True)
def chisquare(key: ArrayLike, df: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
              method: str = "exact", out_sharding: ShardingLike = None) -> Array:
    """Sample from the chi-square distribution.

    Args:
        key: PRNG key.
        df: Degrees of freedom, positive.
        shape: Shape of the result, to which `df` must broadcast. Default: the shape of `df`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        method: "exact" for samples by rejection, or "approximate" for samples without loops, which are faster and have a small
            bias; their derivatives differ.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.chisquare(random.key(0), 3.0, (2,)).shape
        (2,)
    """
    key = single_key("chisquare", key)
    sample = _sampler("chisquare", method)
    d = _float_dtype("chisquare", dtype)
    check_parameters("chisquare", d, df)
    return with_sharding(_chisquare(key, df, _sample_shape("chisquare", shape, df), d, sample), out_sharding)


@library(static=("shape", "dtype"), name="f")
def _f(key, dfnum, dfden, shape, dtype):
    first, second = split(key, 2)
    numerator, denominator = (_chisquare_inline(w, df, shape, dtype) / _full(_broadcast(df, shape, dtype), shape)
                    for w, df in ((second, dfnum), (first, dfden)))
    return numerator / denominator


@library(static=("shape", "dtype"))
@accepts(anything=True)
def f(key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
      out_sharding: ShardingLike = None) -> Array:
    """Sample from the F distribution.

    Args:
        key: PRNG key.
        dfnum: Degrees of freedom of the numerator, positive.
        dfden: Degrees of freedom of the denominator, positive.
        shape: Shape of the result, to which both must broadcast. Default: their joint shape.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.f(random.key(0), 3.0, 4.0, (2,)).shape
        (2,)
    """
    key = single_key("f", key)
    d = _float_dtype("f", dtype)
    check_parameters("f", d, dfnum, dfden)
    samples = _f(key, dfnum, dfden, _sample_shape("f", shape, dfnum, dfden), d)
    return with_sharding(samples, out_sharding)
