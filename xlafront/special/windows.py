"""NumPy's window functions, and the Bessel function that one of them is made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.creation import arange, ones
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.special.bessel import bessel_i0e
from xlafront.staging.library import library


def _window(name: str, M, of: Callable, *rest) -> Array:
    """`of(n, last)` of the positions `n` up to the `last`; of one position it is 1."""
    size = int(M)
    if size < 0:
        raise TypeError(f"the number of points of xnp.{name} must be nonnegative, got {M}.")
    d = dtypes.default_dtype(float)
    return ones((size,), d) if size <= 1 else of(size, *rest)


def _cosines(size, *weights):
    turn = arange(size, dtype=dtypes.default_dtype(float)) * (2 * np.pi / (size - 1))
    result = weights[0]
    for k, w in enumerate(weights[1:], 1):
        result = result + w * PUBLIC["cos"](turn if k == 1 else k * turn)
    return result


@library(static=("size", "weights"), name="window")
def _cosine_window(size, weights):
    return _cosines(size, *weights)


@library(static="size", name="bartlett")
def _bartlett(size):
    n = arange(size, dtype=dtypes.default_dtype(float))
    return 1 - PUBLIC["abs"](2 * n - (size - 1)) / (size - 1)


def bartlett(M: int) -> Array:  # noqa: N803  (NumPy's name)
    """The Bartlett window, a triangle.

    - `M`: the number of points.

    >>> xnp.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window("bartlett", M, _bartlett)


def blackman(M: int) -> Array:  # noqa: N803
    """The Blackman window, a sum of two cosines.

    - `M`: the number of points.

    >>> xnp.blackman(3).shape
    (3,)
    """
    return _window("blackman", M, _cosine_window, (0.42, -0.5, 0.08))


def hamming(M: int) -> Array:  # noqa: N803
    """The Hamming window, a raised cosine that ends above 0.

    - `M`: the number of points.

    >>> xnp.hamming(3)
    Array([0.08000001, 1.        , 0.08000001], dtype=float32)
    """
    return _window("hamming", M, _cosine_window, (0.54, -0.46))


def hanning(M: int) -> Array:  # noqa: N803
    """The Hann window, a raised cosine.

    - `M`: the number of points.

    >>> xnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window("hanning", M, _cosine_window, (0.5, -0.5))


@library(static="size", name="kaiser")
def _kaiser(size, beta):
    half = (size - 1) / 2
    n = arange(size, dtype=dtypes.default_dtype(float))
    ratio = (n - half) / half
    return i0(beta * PUBLIC["sqrt"](1 - ratio * ratio)) / i0(beta)


def kaiser(M: int, beta: ArrayLike) -> Array:  # noqa: N803
    """The Kaiser window.

    - `M`: the number of points.
    - `beta`: how narrow it is, 0 is a rectangle; it may be traced.

    >>> xnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    check_arraylike("kaiser", beta)
    return _window("kaiser", M, _kaiser, beta)


@library
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind and order 0, elementwise.

    - `x`: real numbers.

    >>> xnp.i0(xnp.array([0.0, 1.0])).round(3)
    Array([1.   , 1.266], dtype=float32)
    """
    [x] = promote_args_inexact("i0", x)
    if tracing.aval_of(x).dtype.kind == "c":
        raise ValueError(f"unsupported input type of xnp.i0: {tracing.aval_of(x).dtype}. It takes real numbers.")
    return PUBLIC["exp"](PUBLIC["abs"](x)) * bessel_i0e(x)
