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
from xlafront.scipy.elementary_functions import xlogy
from xlafront.scipy.members import exponential
from xlafront.staging.library import library


@library
@promotes_freely
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of a value, of the multinomial distribution.

    - `x`: how often each outcome comes, along the last dimension.
    - `n`: the number of trials; the probability is 0 where it is not the sum of `x`.
    - `p`: the probability of each outcome.
    """
    given = [dtypes.operand_type(v)[0] for v in (x, n)]
    if not all(map(dtypes.is_integer, given)):
        raise ValueError(f"multinomial takes integers as x and n, got dtypes {', '.join(map(str, given))}.")
    x, n, p = map(xnp.asarray, promote_dtypes_inexact(x, n, p))
    value = lax.lgamma(n + 1) + xnp.sum(xlogy(x, p) - lax.lgamma(x + 1), axis=-1)
    return xnp.where(xnp.sum(x, axis=-1) == n, value, -xnp.inf)


pmf = exponential(logpmf, "pmf")
