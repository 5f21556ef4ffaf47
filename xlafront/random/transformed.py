"""Distributions with parameters whose samples are functions of uniform, normal or gamma numbers."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import tracing
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.numpy.promotion import promote_dtypes_inexact, promotes_freely
from xlafront.random.distributions import (
    _broadcast,
    _float_dtype,
    _full,
    _sample_shape,
    _static_shape,
    check_parameters,
    exponential_inline,
    normal_inline,
    uniform_inline,
)
from xlafront.random.gammas import gamma_inline
from xlafront.random.primitives import split
from xlafront.random.prng import placed, single_key
from xlafront.staging.library import library, written_once


def _signs(key, shape, dtype):
    return xnp.where(uniform_inline(key, shape, np.dtype(np.float32)) < 0.5, 1, -1).astype(dtype)


def _maxwell_inline(key, shape, dtype):
    n = normal_inline(key, (*shape, 3), dtype)
    return xnp.sqrt(xnp.sum(n * n, -1))


def _generalized_inline(key, p, shape, dtype):
    first, second = split(key, 2)
    power = 1 / xnp.asarray(p)
    g = gamma_inline(first, power, shape, dtype)
    return _signs(second, shape, dtype) * g ** power


# name: the samples, of a key and the parameters
def _lognormal(key, shape, dtype, sigma):
    return xnp.exp(normal_inline(key, shape, dtype) * sigma)


def _pareto(key, shape, dtype, b):
    return xnp.exp(exponential_inline(key, shape, dtype) / b)


def _rayleigh(key, shape, dtype, scale):
    return scale * xnp.sqrt(xnp.log(uniform_inline(key, shape, dtype)) * -2)


def _weibull_min(key, shape, dtype, scale, concentration):
    return scale * (-xnp.log1p(-uniform_inline(key, shape, dtype))) ** (1 / concentration)


def _triangular(key, shape, dtype, left, mode, right):
    u = uniform_inline(key, shape, dtype)
    width = right - left
    below = left + xnp.sqrt(u * width * (mode - left))
    above = right - xnp.sqrt((1 - u) * width * (right - mode))
    return xnp.where(u < (mode - left) / width, below, above)


def _wald(key, shape, dtype, mean):
    first, second = split(key, 2)
    v = normal_inline(first, shape, dtype)
    z = uniform_inline(second, shape, dtype)
    y = v * v
    x = mean + mean * mean * y / 2 - mean / 2 * xnp.sqrt(4 * mean * y + mean * mean * y * y)
    return xnp.where(z <= mean / (mean + x), x, mean * mean / x)


def _double_sided_maxwell(key, shape, dtype, loc, scale):
    first, second = split(key, 2)
    return _signs(second, shape, dtype) * _maxwell_inline(first, shape, dtype) * scale + loc


_KERNELS = {f.__name__[1:]: f for f in (
    _lognormal, _pareto, _rayleigh, _weibull_min, _triangular, _wald, _double_sided_maxwell)}
_CHECKED = frozenset(("pareto", "rayleigh", "triangular", "wald"))
_LOOSE = frozenset(("weibull_min", "double_sided_maxwell"))  # what is drawn has neither the parameters' shape nor their dtype


@library(static=("name", "shape", "dtype"), name="random")
def _sampled(key, params, name, shape, dtype):
    spread = params if name in _LOOSE else [_full(_broadcast(p, shape, dtype), shape) for p in params]
    return _KERNELS[name](key, shape, dtype, *spread)


def _sample(name: str, key, shape, dtype, params, out_sharding=None):
    key = single_key(name, key)
    for p in params:
        tracing.aval_of(p, f"random.{name}")
    d = _float_dtype(name, dtype)
    if name in _CHECKED:
        check_parameters(name, d, *params)
    if name not in _LOOSE:
        shape = _sample_shape(name, shape, *params)
    elif name == "double_sided_maxwell":
        joint = common_shape(*map(np.shape, params))
        shape = (*(_static_shape(name, shape) or joint), *joint)
    else:
        shape = _static_shape(name, shape)
    return placed(_sampled(key, params, name, shape, d), out_sharding)


@written_once(static=("shape", "dtype"))
def lognormal(key: ArrayLike, sigma: ArrayLike = np.float32(1.0), shape: Sequence[int] | None = None,
              dtype: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Samples whose logarithm is normal with mean 0.

    - `key`: a random key.
    - `sigma`: the standard deviation of the logarithm.
    - `shape`: of the samples, which the parameters broadcast to; theirs where it is not given.
    - `dtype`: a floating one.
    - `out_sharding`: where the samples are placed.

    >>> random.lognormal(random.key(0), 0.5, (2,)).shape
    (2,)
    """
    return _sample("lognormal", key, shape, dtype, (sigma,), out_sharding)


@written_once(static=("shape", "dtype"))
def pareto(key: ArrayLike, b: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
           out_sharding: ShardingLike = None) -> Array:
    """Samples of the Pareto distribution, with density `b / x^(b+1)` from 1 on.

    - `b`: the exponent, positive.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> bool(random.pareto(random.key(0), 2.0) >= 1)
    True
    """
    return _sample("pareto", key, shape, dtype, (b,), out_sharding)


@written_once(static=("shape", "dtype"))
def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
             out_sharding: ShardingLike = None) -> Array:
    """Samples of the Rayleigh distribution: lengths of normal vectors in the plane.

    - `scale`: the standard deviation of each component.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> bool(random.rayleigh(random.key(0), 2.0) > 0)
    True
    """
    return _sample("rayleigh", key, shape, dtype, (scale,), out_sharding)


@written_once(static=("shape", "dtype"))
def weibull_min(key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Sequence[int] = (),
                dtype: DTypeLike | None = None) -> Array:
    """Samples of the Weibull distribution: `scale` times powers of exponential numbers.

    - `scale`, `concentration`: its parameters, positive; the powers are of the inverse of the second.
    - `key`, `shape`, `dtype`: as of `lognormal`.

    >>> random.weibull_min(random.key(0), 1.0, 2.0, (2,)).shape
    (2,)
    """
    return _sample("weibull_min", key, shape, dtype, (scale, concentration))


@written_once(static=("shape", "dtype"))
def triangular(key: ArrayLike, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: Sequence[int] | None = None,
               dtype: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Samples with a density that rises from `left` to `mode` and falls to `right`, in straight lines.

    - `left`, `mode`, `right`: its corners.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> random.triangular(random.key(0), 0.0, 1.0, 3.0, (2,)).shape
    (2,)
    """
    return _sample("triangular", key, shape, dtype, (left, mode, right), out_sharding)


@written_once(static=("shape", "dtype"))
def wald(key: ArrayLike, mean: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Samples of the inverse Gaussian distribution: the time at which a drifting random walk reaches a height.

    - `mean`: positive; the scale is 1.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> bool(random.wald(random.key(0), 2.0) > 0)
    True
    """
    return _sample("wald", key, shape, dtype, (mean,), out_sharding)


@written_once(static=("shape", "dtype"))
def double_sided_maxwell(key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Sequence[int] = (),
                         dtype: DTypeLike | None = None) -> Array:
    """Samples of the Maxwell distribution with random signs, scaled and shifted.

    - `loc`, `scale`: what is added after what is multiplied.
    - `key`, `shape`, `dtype`: as of `lognormal`.

    >>> random.double_sided_maxwell(random.key(0), 1.0, 2.0, (2,)).shape
    (2,)
    """
    return _sample("double_sided_maxwell", key, shape, dtype, (loc, scale))


@library(static=("shape", "dtype"), name="maxwell")
def _maxwell(key, shape, dtype):
    return _maxwell_inline(key, shape, dtype)


@written_once(static=("shape", "dtype"))
def maxwell(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
            out_sharding: ShardingLike = None) -> Array:
    """Samples of the Maxwell distribution: lengths of normal vectors in space.

    - `key`, `shape`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> bool(random.maxwell(random.key(0)) > 0)
    True
    """
    key = single_key("maxwell", key)
    return placed(_maxwell(key, _static_shape("maxwell", shape), _float_dtype("maxwell", dtype)), out_sharding)


@library(static=("shape", "dtype"), name="generalized_normal")
def _generalized_normal(key, p, shape, dtype):
    return _generalized_inline(key, p, shape, dtype)


@written_once(static=("shape", "dtype"))
def generalized_normal(key: ArrayLike, p: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
                       out_sharding: ShardingLike = None) -> Array:
    """Samples with a density proportional to `exp(-abs(x)^p)`.

    - `p`: the power, positive.
    - `key`, `shape`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> random.generalized_normal(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    key = single_key("generalized_normal", key)
    d = _float_dtype("generalized_normal", dtype)
    return placed(_generalized_normal(key, p, _sample_shape("generalized_normal", shape, p), d), out_sharding)


@library(static=("d", "shape", "dtype"), name="ball")
def _ball(key, p, d, shape, dtype):
    first, second = split(key, 2)
    g = _generalized_inline(first, p, (*shape, d), dtype)
    e = exponential_inline(second, shape, dtype)
    p = _broadcast(p, shape, dtype)
    return g / ((xnp.sum(abs(g) ** p, -1) + e) ** (1 / p))[..., None]


@written_once(static=("d", "shape", "dtype"))
def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Points uniform in the unit ball of a norm.

    - `d`: the number of dimensions.
    - `p`: the power of the norm, 2 for the usual one.
    - `shape`: of the points; the result has their coordinates along one more dimension.
    - `key`, `dtype`, `out_sharding`: as of `lognormal`.

    >>> random.ball(random.key(0), 3, shape=(2,)).shape
    (2, 3)
    """
    key = single_key("ball", key)
    d, shape = operator.index(d), _static_shape("ball", shape)
    return placed(_ball(key, p, d, shape, _float_dtype("ball", dtype)), out_sharding)


@library(static=("shape", "dtype", "method"), name="multivariate_normal")
def _multivariate_normal(key, mean, cov, shape, dtype, method):
    from xlafront.linalg import factorizations, numpy_functions, spectra  # start-up

    mean, cov = promote_dtypes_inexact(xnp.asarray(mean), xnp.asarray(cov))
    if mean.dtype.itemsize < 4:  # no library decomposes such: where samples are wider, their dtype does
        mean, cov = mean.astype(dtype), cov.astype(dtype)
    if method == "cholesky":
        factor = factorizations.cholesky(cov)
    elif method == "svd":
        u, s, _ = numpy_functions.svd(cov)
        factor = u * xnp.sqrt(s[..., None, :])
    else:
        v, w = spectra.eigh(cov)
        factor = v * xnp.sqrt(w[..., None, :])
    n = normal_inline(key, (*shape, mean.shape[-1]), dtype)
    return mean + xnp.einsum("...ij,...j->...i", factor, n)


@written_once(static=("shape", "dtype", "method"))
@promotes_freely
def multivariate_normal(key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: Sequence[int] | None = None,
                        dtype: DTypeLike | None = None, method: str = "cholesky", *,
                        out_sharding: ShardingLike = None) -> Array:
    """Normal vectors with a mean and a covariance.

    - `key`: a random key.
    - `mean`, `cov`: `[..., n]` and `[..., n, n]`, positive definite.
    - `shape`: of the samples without the last dimension, which the others of the parameters broadcast to.
    - `dtype`: a floating one.
    - `method`: how the root of the covariance is found: "cholesky", "eigh" or "svd", of which the last two also take
      singular ones.
    - `out_sharding`: where the samples are placed.

    >>> random.multivariate_normal(random.key(0), xnp.zeros(2), xnp.eye(2), (3,)).shape
    (3, 2)
    """
    name = "multivariate_normal"
    key = single_key(name, key)
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"random.{name} has the methods cholesky, eigh and svd, got {method!r}: method must be one of them.")
    a, b = np.shape(mean), np.shape(cov)
    if len(a) < 1:
        raise ValueError(f"random.{name} requires a mean with mean.ndim >= 1, got a scalar.")
    if len(b) < 2:
        raise ValueError(f"random.{name} requires a covariance with cov.ndim >= 2, got shape {b}.")
    if b[-2:] != (a[-1], a[-1]):
        raise ValueError(f"random.{name} requires a covariance of shape (..., n, n) for a mean of shape (..., n): got {b} and "
                         f"{a}.")
    joint = _sample_shape(name, shape, np.empty(a[:-1]), np.empty(b[:-2]))
    return placed(_multivariate_normal(key, mean, cov, joint, _float_dtype(name, dtype), method), out_sharding)


@library(static=("shape", "n", "m", "dtype"), name="orthogonal")
def _orthogonal(key, shape, n, m, dtype):
    from xlafront.linalg.orthogonal import qr  # start-up

    z = normal_inline(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = qr(z, full_matrices=False)
    diagonal = xnp.diagonal(r, axis1=-2, axis2=-1)
    q = q * xnp.expand_dims(xnp.sign(diagonal), -2)
    return q if n >= m else xnp.swapaxes(q, -1, -2)


@written_once(static=("n", "shape", "dtype", "m"))
def orthogonal(key: ArrayLike, n: int, shape: Sequence[int] = (), dtype: DTypeLike | None = None, m: int | None = None, *,
               out_sharding: ShardingLike = None) -> Array:
    """Orthogonal matrices (unitary ones of complex numbers), uniform among all of them.

    - `key`: a random key.
    - `n`: the number of rows.
    - `shape`: of the array of matrices.
    - `dtype`: a floating or complex one.
    - `m`: the number of columns, `n` where it is not given; rows or columns, whichever are fewer, are orthonormal.
    - `out_sharding`: where they are placed.

    >>> random.orthogonal(random.key(0), 3, (2,)).shape
    (2, 3, 3)
    """
    key = single_key("orthogonal", key)
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    if min(rows, columns) < 0:
        raise ValueError(f"random.orthogonal makes matrices of sizes that are not negative, got {rows} and {columns}.")
    shape = _static_shape("orthogonal", shape)
    return placed(_orthogonal(key, shape, rows, columns, _float_dtype("orthogonal", dtype, True)),
                  out_sharding)
