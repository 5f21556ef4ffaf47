"""The multinomial distribution.

>>> import xlafront.numpy as xnp
>>> from xlafront.scipy.stats import multinomial
>>> multinomial.pmf(xnp.array([1, 0]), 2, xnp.array([0.25, 0.75]))
Array(0., dtype=float32)
"""

from __future__ import annotations

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.promotion import promote_dtypes_inexact, promotes_freely
from xlafront.scipy.distribution_methods import exponentiate
from xlafront.scipy.elementary_functions import xlogy
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


@library
@accepts(nodes=True)
@promotes_freely
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Compute the log of the probability mass of the multinomial distribution.

    Args:
        x: Counts of each outcome, along the last axis.
        n: Number of trials. The probability is 0 where the counts do not sum to it.
        p: Probability of each outcome.

    Returns:
        Array with the shape of `x` without its last axis.
    """
    arg_dtypes = [dtypes.operand_type(v)[0] for v in (x, n)]
    if not all(map(dtypes.is_integer, arg_dtypes)):
        raise ValueError(f"multinomial takes integers as x and n, got dtypes {', '.join(map(str, arg_dtypes))}.")
    x, n, p = map(xnp.asarray, promote_dtypes_inexact(x, n, p))
    value = lax.lgamma(n + 1) + xnp.sum(xlogy(x, p) - lax.lgamma(x + 1), axis=-1)
    return xnp.where(xnp.sum(x, axis=-1) == n, value, -xnp.inf)


pmf = exponentiate(logpmf, "pmf")
