"""The hypergeometric functions of Kummer and Gauss."""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront.core.typing import Array, ArrayLike
from xlafront.scipy.differentiable import inexact_from_lists
from xlafront.special import hypergeometric
from xlafront.staging.library import library


@library
def _kummer_kernel(a, b, x):
    return _in_wide_floats(hypergeometric.kummer, a, b, x)


@library
def _gauss_kernel(a, b, c, x):
    return _in_wide_floats(hypergeometric.gauss, a, b, c, x)


def _in_wide_floats(function, *args):
    dtype = args[0].dtype
    args = xnp.broadcast_arrays(*[x.astype(np.float32) if dtype.itemsize < 4 else x for x in args])
    return function(*args).astype(dtype)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's function, the sum of `(a)_k / (b)_k * x**k / k!`, where `(a)_k` is `poch(a, k)`.

    - `a`, `b`: the parameters; it is infinite where `b` is 0 or a negative integer, unless the sum ends before.
    - `x`: real numbers. It can be differentiated in all three.

    >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 4)
    1.7183
    """
    return _kummer_kernel(*inexact_from_lists("hyp1f1", a, b, x))


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's function, the sum of `(a)_k * (b)_k / (c)_k * x**k / k!`, continued to all negative numbers.

    - `a`, `b`, `c`: the parameters; it is infinite where `c` is 0 or a negative integer, unless the sum ends before.
    - `x`: real numbers; beyond 1 it is infinite, unless the sum ends. It can be differentiated in all four.

    >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863
    """
    return _gauss_kernel(*inexact_from_lists("hyp2f1", a, b, c, x, complex_error=TypeError))
