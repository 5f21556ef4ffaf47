"""The multivariate normal distribution.

>>> import xlafront.numpy as xnp
>>> from xlafront.scipy.stats import multivariate_normal
>>> round(float(multivariate_normal.logpdf(xnp.zeros(2), xnp.zeros(2), xnp.eye(2))), 4)
-1.8379
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import linalg
from xlafront.numpy.promotion import promote_dtypes_inexact
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Compute the log of the probability density of the multivariate normal distribution.

    Args:
        x: Points, with the components along the last axis.
        mean: Mean vector. If it is a scalar, `x` holds samples of a univariate distribution and `cov` variances.
        cov: Covariance matrix, or a scalar variance for independent components.
        allow_singular: Must be None: the covariance matrix must be positive definite.

    Returns:
        Array with the shape of `x` without its last axis.
    """
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal.logpdf needs a positive covariance matrix: allow_singular must be None.")
    return _logpdf(x, mean, cov)


@library(name="multivariate_normal.logpdf")
def _logpdf(x, mean, cov):
    x, mean, cov = map(xnp.asarray, promote_dtypes_inexact(x, mean, cov))
    if mean.ndim == 0:
        centered = x - mean
        return -0.5 * centered * centered / cov - 0.5 * xnp.log(2 * math.pi * cov)
    n = mean.shape[-1]
    is_compatible = cov.ndim == 0 or cov.shape[-2:] == (n, n)
    if not is_compatible or ((centered := x - mean).shape[-1] != n and cov.ndim):
        raise ValueError(f"multivariate_normal got incompatible shapes, x {x.shape}, mean {mean.shape}, cov {cov.shape}: "
                         f"the last dimensions must be the same, and cov must have matrices.")
    if cov.ndim == 0:
        return -0.5 * xnp.sum(centered * centered, axis=-1) / cov - 0.5 * n * xnp.log(2 * math.pi * cov)
    factor = linalg.cholesky(cov)
    batch = common_shape(centered.shape[:-1], factor.shape[:-2])
    centered, batched_factor = xnp.broadcast_to(centered, (*batch, n)), xnp.broadcast_to(factor, (*batch, n, n))
    y = linalg.triangular_solve(batched_factor, centered[..., None], left_side=True, lower=True)[..., 0]
    log_root_det = xnp.sum(xnp.log(xnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * xnp.sum(y * y, axis=-1) - 0.5 * n * math.log(2 * math.pi) - log_root_det


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Compute the probability density of the multivariate normal distribution.

    Args:
        x: Points, with the components along the last axis.
        mean: Mean vector.
        cov: Covariance matrix, or a scalar variance.

    Returns:
        Array with the shape of `x` without its last axis.
    """
    return xnp.exp(logpdf(x, mean, cov))
