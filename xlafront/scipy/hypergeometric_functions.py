"""The confluent (Kummer) and the Gauss hypergeometric function."""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront.core.typing import Array, ArrayLike
from xlafront.scipy.derivative_formulas import promote_inexact_lists
from xlafront.special import hypergeometric
from xlafront.staging.library import library


@library
def _hyp1f1(a, b, x):
    return _compute_in_float32(hypergeometric.kummer, a, b, x)


@library
def _hyp2f1(a, b, c, x):
    return _compute_in_float32(hypergeometric.gauss, a, b, c, x)


def _compute_in_float32(function, *args):
    dtype = args[0].dtype
    args = xnp.broadcast_arrays(*[x.astype(np.float32) if dtype.itemsize < 4 else x for x in args])
    return function(*args).astype(dtype)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Compute Kummer's confluent hypergeometric function, the sum of `(a)_k / (b)_k * x**k / k!`.

    `(a)_k` is `poch(a, k)`. The function is differentiable in all arguments.

    Args:
        a, b: Parameters. The result is infinite where `b` is 0 or a negative integer, unless the sum ends before.
        x: Real numbers.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 4)
        1.7183
    """
    return _hyp1f1(*promote_inexact_lists("hyp1f1", a, b, x))


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Compute Gauss's hypergeometric function, the sum of `(a)_k * (b)_k / (c)_k * x**k / k!`.

    It is continued analytically to all negative `x`, and is differentiable in all arguments.

    Args:
        a, b, c: Parameters. The result is infinite where `c` is 0 or a negative integer, unless the sum ends before.
        x: Real numbers. The result is infinite for `x > 1`, unless the sum ends.

    Returns:
        Array of the broadcast shape of the arguments.

    Example:
        >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
        1.3863
    """
    return _hyp2f1(*promote_inexact_lists("hyp2f1", a, b, c, x, complex_error=TypeError))
