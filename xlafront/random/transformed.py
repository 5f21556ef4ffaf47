"""Parametric distributions whose samples are functions of uniform, normal or gamma samples."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.numpy.promotion import promote_dtypes_inexact, promotes_freely, unwrap
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
from xlafront.random.prng import single_key, with_sharding
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape


def _signs(key, shape, dtype):
    return xnp.where(uniform_inline(key, shape, dtypes.default_dtype(float)) < 0.5, 1, -1).astype(dtype)


def _maxwell_inline(key, shape, dtype):
    n = normal_inline(key, (*shape, 3), dtype)
    return xnp.sqrt(xnp.sum(n * n, -1))


def _generalized_inline(key, p, shape, dtype):
    first, second = split(key, 2)
    power = 1 / xnp.asarray(p)
    g = gamma_inline(first, power, shape, dtype)
    return _signs(second, shape, dtype) * g ** power


# Kernels: each takes a key, the shape and dtype of the samples, and the parameters of the distribution.
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
_CHECKED = frozenset(("lognormal", "pareto", "rayleigh", "triangular", "wald"))
_COMPLEX_TOO = frozenset(("lognormal",))
_UNALIGNED = frozenset(("weibull_min", "double_sided_maxwell"))  # Their parameters keep their own shape and dtype.


@library(static=("name", "shape", "dtype"), name="random")
def _sample_kernel(key, params, name, shape, dtype):
    aligned = params if name in _UNALIGNED else [_full(_broadcast(p, shape, dtype), shape) for p in params]
    return _KERNELS[name](key, shape, dtype, *aligned)


def _sample(name: str, key, shape, dtype, params, out_sharding=None):
    key = single_key(name, key)
    for p in params:
        tracing.aval_of(p, f"random.{name}")
    d = _float_dtype(name, dtype, name in _COMPLEX_TOO)
    if name in _CHECKED:
        check_parameters(name, d, *params)
    if name not in _UNALIGNED:
        shape = _sample_shape(name, shape, *params)
    elif name == "double_sided_maxwell":
        param_shape = common_shape(*map(np.shape, params))
        shape = (*(_static_shape(name, shape) or param_shape), *param_shape)
    else:
        shape = _static_shape(name, shape)
    return with_sharding(_sample_kernel(key, params, name, shape, d), out_sharding)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def lognormal(key: ArrayLike, sigma: ArrayLike = np.float32(1.0), shape: Sequence[int] | None = None,
              dtype: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Sample from the log-normal distribution: the logarithm is normal with mean 0.

    Args:
        key: PRNG key.
        sigma: Standard deviation of the logarithm.
        shape: Shape of the result, to which `sigma` must broadcast. Default: the shape of `sigma`.
        dtype: Floating or complex dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.lognormal(random.key(0), 0.5, (2,)).shape
        (2,)
    """
    return _sample("lognormal", key, shape, dtype, (sigma,), out_sharding)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def pareto(key: ArrayLike, b: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
           out_sharding: ShardingLike = None) -> Array:
    """Sample from the Pareto distribution with density `b / x^(b+1)` for x >= 1.

    Args:
        key: PRNG key.
        b: Shape parameter, positive.
        shape: Shape of the result, to which `b` must broadcast. Default: the shape of `b`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> bool(random.pareto(random.key(0), 2.0) >= 1)
        True
    """
    return _sample("pareto", key, shape, dtype, (b,), out_sharding)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
             out_sharding: ShardingLike = None) -> Array:
    """Sample from the Rayleigh distribution: the length of a vector of two normal components.

    Args:
        key: PRNG key.
        scale: Standard deviation of each component.
        shape: Shape of the result, to which `scale` must broadcast. Default: the shape of `scale`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> bool(random.rayleigh(random.key(0), 2.0) > 0)
        True
    """
    return _sample("rayleigh", key, shape, dtype, (scale,), out_sharding)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def weibull_min(key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Sequence[int] = (),
                dtype: DTypeLike | None = None) -> Array:
    """Sample from the Weibull distribution.

    Args:
        key: PRNG key.
        scale: Scale parameter, positive.
        concentration: Shape parameter, positive.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.

    Returns:
        Array of samples.

    Example:
        >>> random.weibull_min(random.key(0), 1.0, 2.0, (2,)).shape
        (2,)
    """
    return _sample("weibull_min", key, shape, dtype, (scale, concentration))


@library(static=("shape", "dtype"))
@accepts(anything=True)
def triangular(key: ArrayLike, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: Sequence[int] | None = None,
               dtype: DTypeLike | None = None, *, out_sharding: ShardingLike = None) -> Array:
    """Sample from the triangular distribution on [`left`, `right`].

    The density rises linearly from `left` to `mode` and falls linearly to `right`.

    Args:
        key: PRNG key.
        left: Lower end of the support.
        mode: Position of the maximum of the density.
        right: Upper end of the support.
        shape: Shape of the result, to which the parameters must broadcast. Default: their joint shape.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.triangular(random.key(0), 0.0, 1.0, 3.0, (2,)).shape
        (2,)
    """
    return _sample("triangular", key, shape, dtype, (left, mode, right), out_sharding)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def wald(key: ArrayLike, mean: ArrayLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Sample from the Wald (inverse Gaussian) distribution with scale 1.

    Args:
        key: PRNG key.
        mean: Mean, positive.
        shape: Shape of the result, to which `mean` must broadcast. Default: the shape of `mean`.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> bool(random.wald(random.key(0), 2.0) > 0)
        True
    """
    return _sample("wald", key, shape, dtype, (mean,), out_sharding)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def double_sided_maxwell(key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Sequence[int] = (),
                         dtype: DTypeLike | None = None) -> Array:
    """Sample from the double-sided Maxwell distribution: Maxwell samples with random signs, scaled and shifted.

    Args:
        key: PRNG key.
        loc: Location, added after scaling.
        scale: Scale factor.
        shape: Leading shape of the result, which is followed by the joint shape of `loc` and `scale`.
        dtype: Floating dtype of the result. Default: the default float dtype.

    Returns:
        Array of samples.

    Example:
        >>> random.double_sided_maxwell(random.key(0), 1.0, 2.0, (2,)).shape
        (2,)
    """
    return _sample("double_sided_maxwell", key, shape, dtype, (loc, scale))


@library(static=("shape", "dtype"), name="maxwell")
def _maxwell(key, shape, dtype):
    return _maxwell_inline(key, shape, dtype)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def maxwell(key: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
            out_sharding: ShardingLike = None) -> Array:
    """Sample from the Maxwell distribution: the length of a vector of three standard normal components.

    Args:
        key: PRNG key.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> bool(random.maxwell(random.key(0)) > 0)
        True
    """
    key = single_key("maxwell", key)
    return with_sharding(_maxwell(key, _static_shape("maxwell", shape), _float_dtype("maxwell", dtype)), out_sharding)


@library(static=("shape", "dtype"), name="generalized_normal")
def _generalized_normal(key, p, shape, dtype):
    return _generalized_inline(key, p, shape, dtype)


@library(static=("shape", "dtype"))
@accepts(anything=True)
def generalized_normal(key: ArrayLike, p: ArrayLike, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
                       out_sharding: ShardingLike = None) -> Array:
    """Sample from the generalized normal distribution with density proportional to `exp(-abs(x)^p)`.

    Args:
        key: PRNG key.
        p: Shape parameter, positive.
        shape: Shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples.

    Example:
        >>> random.generalized_normal(random.key(0), 3.0, (2,)).shape
        (2,)
    """
    key = single_key("generalized_normal", key)
    d = _float_dtype("generalized_normal", dtype)
    return with_sharding(_generalized_normal(key, p, _sample_shape("generalized_normal", shape, p), d), out_sharding)


@library(static=("d", "shape", "dtype"), name="ball")
def _ball(key, p, d, shape, dtype):
    first, second = split(key, 2)
    g = _generalized_inline(first, p, (*shape, d), dtype)
    e = exponential_inline(second, shape, dtype)
    p = _broadcast(p, shape, dtype)
    return g / ((xnp.sum(abs(g) ** p, -1) + e) ** (1 / p))[..., None]


@library(static=("d", "shape", "dtype"))
@accepts(anything=True)
def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: Sequence[int] = (), dtype: DTypeLike | None = None, *,
         out_sharding: ShardingLike = None) -> Array:
    """Sample uniformly from the unit ball of an Lp norm.

    Args:
        key: PRNG key.
        d: Dimension of the ball.
        p: Exponent of the norm. Default: the Euclidean norm.
        shape: Batch shape of the result.
        dtype: Floating dtype of the result. Default: the default float dtype.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of points of shape `(*shape, d)`.

    Example:
        >>> random.ball(random.key(0), 3, shape=(2,)).shape
        (2, 3)
    """
    key = single_key("ball", key)
    d, shape = operator.index(d), _static_shape("ball", shape)
    return with_sharding(_ball(key, p, d, shape, _float_dtype("ball", dtype)), out_sharding)


@library(static=("shape", "dtype", "method"), name="multivariate_normal")
def _multivariate_normal(key, mean, cov, shape, dtype, method):
    from xlafront.linalg import factorizations, numpy_functions, spectra  # start-up: few programs need it

    mean, cov = promote_dtypes_inexact(xnp.asarray(mean), xnp.asarray(cov))
    if dtype is None:
        dtype = mean.dtype if mean.dtype.itemsize >= 4 else np.dtype(np.float32)
    if mean.dtype.itemsize < 4:  # No library factorizes 16-bit matrices. The dtype of the samples may be wider.
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


@library(static=("shape", "dtype", "method"))
@accepts(anything=True)
@promotes_freely
def multivariate_normal(key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: Sequence[int] | None = None,
                        dtype: DTypeLike | None = None, method: str = "cholesky", *,
                        out_sharding: ShardingLike = None) -> Array:
    """Sample from the multivariate normal distribution.

    Args:
        key: PRNG key.
        mean: Mean vectors of shape `(..., n)`.
        cov: Positive definite covariance matrices of shape `(..., n, n)`.
        shape: Batch shape of the result, to which the batch shapes of `mean` and `cov` must broadcast. Default: their joint
            shape.
        dtype: Floating dtype of the result. Default: that of `mean` and `cov`, with at least 32 bits.
        method: Factorization of the covariance: "cholesky", "eigh" or "svd". The last two also accept singular matrices.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of samples of shape `shape + (n,)`.

    Example:
        >>> random.multivariate_normal(random.key(0), xnp.zeros(2), xnp.eye(2), (3,)).shape
        (3, 2)
    """
    name = "multivariate_normal"
    key = single_key(name, key)
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError(f"random.{name}: method must be 'cholesky', 'eigh' or 'svd', got {method!r}.")
    mean_shape, cov_shape = np.shape(mean), np.shape(cov)
    if len(mean_shape) < 1:
        raise ValueError(f"random.{name} requires a mean with mean.ndim >= 1, got a scalar.")
    if len(cov_shape) < 2:
        raise ValueError(f"random.{name} requires a covariance with cov.ndim >= 2, got shape {cov_shape}.")
    if cov_shape[-2:] != (mean_shape[-1], mean_shape[-1]):
        raise ValueError(f"random.{name} requires a covariance of shape (..., n, n) for a mean of shape (..., n): got "
                         f"{cov_shape} and {mean_shape}.")
    d, _ = dtypes.lattice_result_type(unwrap(mean), unwrap(cov))
    if dtypes.is_complex(d):
        raise ValueError(f"random.{name} needs a floating mean and covariance, got {d}.")
    batch_shape = _sample_shape(name, shape, np.empty(mean_shape[:-1]), np.empty(cov_shape[:-2]))
    dtype = dtype if dtype is None else _float_dtype(name, dtype)
    return with_sharding(_multivariate_normal(key, mean, cov, batch_shape, dtype, method), out_sharding)


@library(static=("shape", "n", "m", "dtype"), name="orthogonal")
def _orthogonal(key, shape, n, m, dtype):
    from xlafront.linalg.orthogonal import qr  # start-up: few programs need it

    z = normal_inline(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = qr(z, full_matrices=False)
    diagonal = xnp.diagonal(r, axis1=-2, axis2=-1)
    q = q * xnp.expand_dims(xnp.sign(diagonal), -2)
    return q if n >= m else xnp.swapaxes(q, -1, -2)


@library(static=("n", "shape", "dtype", "m"))
@accepts(anything=True)
def orthogonal(key: ArrayLike, n: int, shape: Sequence[int] = (), dtype: DTypeLike | None = None, m: int | None = None, *,
               out_sharding: ShardingLike = None) -> Array:
    """Sample orthogonal (or complex unitary) matrices from the Haar measure.

    Args:
        key: PRNG key.
        n: Number of rows.
        shape: Batch shape of the result.
        dtype: Floating or complex dtype of the result. Default: the default float dtype.
        m: Number of columns. Default: `n`. If the sizes differ, rows or columns, whichever are fewer, are orthonormal.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Array of matrices of shape `(*shape, n, m)`.

    Example:
        >>> random.orthogonal(random.key(0), 3, (2,)).shape
        (2, 3, 3)
    """
    key = single_key("orthogonal", key)
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    if min(rows, columns) < 0:
        raise ValueError(f"random.orthogonal needs nonnegative matrix sizes, got {rows} and {columns}.")
    shape = _static_shape("orthogonal", shape)
    return with_sharding(_orthogonal(key, shape, rows, columns, _float_dtype("orthogonal", dtype, True)),
                  out_sharding)
