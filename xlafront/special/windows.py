"""NumPy's window functions, and the Bessel function that the Kaiser window needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.creation import arange, ones
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.special.bessel import bessel_i0
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library


def _window(name: str, M, function: Callable, *params) -> Array:
    """Return `function(size, *params)`, or ones for at most one point, after checking the number of points."""
    size = int(M)
    if size < 0:
        raise TypeError(f"the number of points of numpy.{name} must be nonnegative, got {M}.")
    d = dtypes.default_dtype(float)
    return ones((size,), d) if size <= 1 else function(size, *params)


def _cosines(size, *weights):
    angle = arange(size, dtype=dtypes.default_dtype(float)) * (2 * np.pi / (size - 1))
    result = weights[0]
    for k, w in enumerate(weights[1:], 1):
        result = result + w * PUBLIC["cos"](angle if k == 1 else k * angle)
    return result


@library(static=("size", "weights"), name="window")
def _cosine_window(size, weights):
    return _cosines(size, *weights)


@library(static="size", name="bartlett")
def _bartlett(size):
    n = arange(size, dtype=dtypes.default_dtype(float))
    return 1 - PUBLIC["abs"](2 * n - (size - 1)) / (size - 1)


def bartlett(M: int) -> Array:  # noqa: N803  (NumPy's name)
    """Compute the Bartlett (triangular) window.

    Args:
        M: Number of points.

    Returns:
        Vector of `M` floats.

    Example:
        >>> xnp.bartlett(3)
        Array([0., 1., 0.], dtype=float32)
    """
    return _window("bartlett", M, _bartlett)


def blackman(M: int) -> Array:  # noqa: N803
    """Compute the Blackman window, a sum of two cosines.

    Args:
        M: Number of points.

    Returns:
        Vector of `M` floats.

    Example:
        >>> xnp.blackman(3).shape
        (3,)
    """
    return _window("blackman", M, _cosine_window, (0.42, -0.5, 0.08))


def hamming(M: int) -> Array:  # noqa: N803
    """Compute the Hamming window, a raised cosine with nonzero ends.

    Args:
        M: Number of points.

    Returns:
        Vector of `M` floats.

    Example:
        >>> xnp.hamming(3)
        Array([0.08000001, 1.        , 0.08000001], dtype=float32)
    """
    return _window("hamming", M, _cosine_window, (0.54, -0.46))


def hanning(M: int) -> Array:  # noqa: N803
    """Compute the Hann window, a raised cosine.

    Args:
        M: Number of points.

    Returns:
        Vector of `M` floats.

    Example:
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
    """Compute the Kaiser window.

    Args:
        M: Number of points.
        beta: Shape parameter, 0 for a rectangle; larger values give narrower windows. It can be traced.

    Returns:
        Vector of `M` floats.

    Example:
        >>> xnp.kaiser(3, 0.0)
        Array([1., 1., 1.], dtype=float32)
    """
    check_arraylike("kaiser", beta)
    return _window("kaiser", M, _kaiser, beta)


@library
@accepts(nodes=True)
def i0(x: ArrayLike) -> Array:
    """Compute the modified Bessel function of the first kind of order 0, elementwise.

    Args:
        x: Real numbers.

    Returns:
        Array of the shape of `x`.

    Example:
        >>> xnp.i0(xnp.array([0.0, 1.0])).round(3)
        Array([1.   , 1.266], dtype=float32)
    """
    [x] = promote_args_inexact("i0", x)
    if tracing.aval_of(x).dtype.kind == "c":
        raise ValueError(f"unsupported input type of numpy.i0: {tracing.aval_of(x).dtype}. It takes real numbers.")
    return bessel_i0(x)
