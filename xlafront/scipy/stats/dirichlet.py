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
from xlafront.scipy.distribution_methods import exponentiate
from xlafront.scipy.elementary_functions import xlogy
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


@library
@accepts(nodes=True)
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Compute the log of the probability density of the Dirichlet distribution.

    Args:
        x: Points of the simplex, with the components along the first axis; the last component may be omitted. The
            density is 0 outside the simplex.
        alpha: Concentration of each component, a vector.

    Returns:
        Array with the shape of `x` without its first axis.
    """
    x, alpha = map(xnp.asarray, promote_dtypes_inexact(x, alpha))
    if alpha.ndim != 1 or x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(f"the Dirichlet distribution needs a vector alpha and as many components (or one less) along the "
                         f"first axis of x, got x of shape {x.shape} and alpha of shape {alpha.shape}.")
    if x.shape[0] != alpha.shape[0]:
        x = xnp.concatenate([x, 1 - xnp.sum(x, axis=0, keepdims=True)])
    constant = lax.lgamma(xnp.sum(alpha)) - xnp.sum(lax.lgamma(alpha))
    exponents = alpha.reshape((-1, *[1] * (x.ndim - 1))) - 1
    inside = xnp.all(x >= 0, axis=0) & (xnp.abs(xnp.sum(x, axis=0) - 1) < 1e-6)
    return xnp.where(inside, constant + xnp.sum(xlogy(exponents, x), axis=0), -xnp.inf)


pdf = exponentiate(logpdf, "pdf")
