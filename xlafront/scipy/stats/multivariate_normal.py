"""The normal distribution of vectors.

>>> import xlafront.numpy as xnp
>>> from xlafront.scipy.stats import multivariate_normal
>>> round(float(multivariate_normal.logpdf(xnp.zeros(2), xnp.zeros(2), xnp.eye(2))), 4)
-1.8379
"""

from __future__ import annotations

import math

import xlafront.numpy as xnp
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import linalg
from xlafront.numpy.promotion import promote_dtypes_inexact
from xlafront.staging.library import library


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the probability density, of the normal distribution of vectors.

    - `x`: vectors, along the last dimension. `mean`: their mean.
    - `cov`: their covariance matrix; a number for independent parts of that variance. When `mean` is a number so is each `x`,
      and these are variances.
    - `allow_singular`: None: the matrix must be positive.
    """
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal.logpdf needs a positive covariance matrix: allow_singular must be None.")
    return _logpdf(x, mean, cov)


@library(name="multivariate_normal.logpdf")
def _logpdf(x, mean, cov):
    x, mean, cov = map(xnp.asarray, promote_dtypes_inexact(x, mean, cov))
    if mean.ndim == 0:
        centred = x - mean
        return -0.5 * centred * centred / cov - 0.5 * xnp.log(2 * math.pi * cov)
    n = mean.shape[-1]
    fits = cov.ndim == 0 or cov.shape[-2:] == (n, n)
    if not fits or ((centred := x - mean).shape[-1] != n and cov.ndim):
        raise ValueError(f"multivariate_normal got incompatible shapes, x {x.shape}, mean {mean.shape}, cov {cov.shape}: "
                         f"the last dimensions must be the same, and cov have matrices.")
    if cov.ndim == 0:
        return -0.5 * xnp.sum(centred * centred, axis=-1) / cov - 0.5 * n * xnp.log(2 * math.pi * cov)
    factor = linalg.cholesky(cov)
    batch = common_shape(centred.shape[:-1], factor.shape[:-2])
    centred, whole = xnp.broadcast_to(centred, (*batch, n)), xnp.broadcast_to(factor, (*batch, n, n))
    y = linalg.triangular_solve(whole, centred[..., None], left_side=True, lower=True)[..., 0]
    size = xnp.sum(xnp.log(xnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * xnp.sum(y * y, axis=-1) - 0.5 * n * math.log(2 * math.pi) - size


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The probability density, of the normal distribution of vectors.

    - `x`: vectors, along the last dimension. `mean`: their mean. `cov`: their covariance matrix, or a variance.
    """
    return xnp.exp(logpdf(x, mean, cov))
