"""The Dirichlet distribution.

>>> import xlafront.numpy as xnp
>>> from xlafront.scipy.stats import dirichlet
>>> dirichlet.pdf(xnp.array([0.25, 0.5]), xnp.array([1.0, 1.0]))
Array(0., dtype=float32)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import promote_dtypes_inexact
from xlafront.scipy.elementary_functions import xlogy
from xlafront.scipy.members import exponential
from xlafront.staging.library import library


@library
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the probability density, of the Dirichlet distribution.

    - `x`: points of the simplex, along the first dimension; the last part may be left out. The density is 0 elsewhere.
    - `alpha`: the concentrations, one for each part.
    """
    x, alpha = map(xnp.asarray, promote_dtypes_inexact(x, alpha))
    if alpha.ndim != 1 or x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(f"the Dirichlet distribution needs alpha with one dimension and x with as many parts (or one less) "
                         f"along its first, got x of shape {x.shape} and alpha of shape {alpha.shape}.")
    if x.shape[0] != alpha.shape[0]:
        x = xnp.concatenate([x, 1 - xnp.sum(x, axis=0, keepdims=True)])
    constant = lax.lgamma(xnp.sum(alpha)) - xnp.sum(lax.lgamma(alpha))
    powers = alpha.reshape((-1, *[1] * (x.ndim - 1))) - 1
    inside = xnp.all(x >= 0, axis=0) & (xnp.abs(xnp.sum(x, axis=0) - 1) < 1e-6)
    return xnp.where(inside, constant + xnp.sum(xlogy(powers, x), axis=0), -xnp.inf)


pdf = exponential(logpdf, "pdf")
