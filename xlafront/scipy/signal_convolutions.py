"""N-dimensional convolutions and correlations, direct or by fast Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike, Axes
from xlafront.lax.convolutions import conv_general_dilated
from xlafront.lax.shapes import canonical_axis
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic, max_dim

_MODES = ("full", "same", "valid")


def _operands(name: str, in1, in2, mode: str) -> list[Array]:
    if mode not in _MODES:
        raise ValueError(f"the mode of scipy.signal.{name} must be one of {', '.join(_MODES)}; got {mode!r}.")
    check_arraylike(name, in1, in2)
    if np.ndim(in1) != np.ndim(in2):
        raise ValueError(f"scipy.signal.{name} needs arrays of the same number of dimensions, got shapes {np.shape(in1)} and "
                         f"{np.shape(in2)}.")
    return [xnp.asarray(x) for x in promote_dtypes_inexact(in1, in2)]


def _larger_first(name: str, a, b, axes: Sequence[int]) -> bool:
    """True if the first array is the larger one. For the mode "valid" it must be larger along all axes or along none."""
    pairs = [(a.shape[i], b.shape[i]) for i in axes]
    if all(m >= n for m, n in pairs):
        return True
    if all(m <= n for m, n in pairs):
        return False
    raise ValueError(f"scipy.signal.{name} with mode='valid' needs one input that is at least as large as the other in every "
                     f"dimension, got shapes {a.shape} and {b.shape}.")


def _convolve(name: str, in1, in2, mode, method, precision, is_correlation: bool, rounds_up: bool = False):
    a, b = _operands(name, in1, in2, mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"the method of scipy.signal.{name} must be 'auto', 'direct' or 'fft', got {method!r}.")
    if method == "fft":
        return _fft_convolve(*_reflect_kernel(a, b, is_correlation), mode, tuple(range(a.ndim)))
    if not a.size or not b.size:
        raise ValueError(f"scipy.signal.{name}: zero-size arrays are not supported, got shapes {a.shape} and {b.shape}.")
    if mode == "valid":
        _larger_first(name, a, b, range(a.ndim))
    return _direct_convolve(a, b, mode, precision, is_correlation, rounds_up)


def _reflect_kernel(a: Array, b: Array, is_correlation: bool) -> tuple[Array, Array]:
    return (a, xnp.conj(xnp.flip(b))) if is_correlation else (a, b)


@library(static=("mode", "precision", "is_correlation", "rounds_up"), name="convolve")
def _direct_convolve(a, b, mode, precision, is_correlation, rounds_up):
    a, b = _reflect_kernel(a, b, is_correlation)
    if mode == "valid" and any(m < n for m, n in zip(a.shape, b.shape)):
        # SciPy's correlate2d conjugates the first operand in this case.
        a, b = (xnp.conj(b), xnp.conj(a)) if rounds_up else (b, a)
    if a.ndim == 0:
        return a * b
    pads = []
    for n in b.shape:
        start = {"full": 0, "same": n // 2 if rounds_up else (n - 1) // 2, "valid": n - 1}[mode]
        pads.append((n - 1 - start, {"full": n - 1, "same": start, "valid": 0}[mode]))
    result = conv_general_dilated(a[None, None], xnp.flip(b)[None, None], (1,) * a.ndim, pads, precision=precision)
    return result[0, 0]


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """Compute the N-dimensional convolution of two arrays.

    Args:
        in1, in2: Arrays with the same number of dimensions.
        mode: Part of the result to return: "full" for all positions where the arrays overlap, "same" for the center
            with the shape of `in1`, "valid" for the positions where one array is inside of the other.
        method: "direct" for sums of products (also "auto"), or "fft" for Fourier transforms.
        precision: Precision of the products, see `lax.conv_general_dilated`.

    Returns:
        Convolution, of a floating or complex dtype.

    Example:
        >>> convolve(xnp.array([1.0, 2.0]), xnp.array([1.0, 1.0]))
        Array([1., 3., 2.], dtype=float32)
    """
    return _convolve("convolve", in1, in2, mode, method, precision, False)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """Compute the N-dimensional cross-correlation of `in1` and the conjugate of `in2`.

    Args:
        in1, in2, mode, method, precision: See `convolve`.

    Returns:
        Cross-correlation, of a floating or complex dtype.

    Example:
        >>> correlate(xnp.array([1.0, 2.0]), xnp.array([0.0, 1.0]))
        Array([1., 2., 0.], dtype=float32)
    """
    return _convolve("correlate", in1, in2, mode, method, precision, True)


def _convolve_2d(name: str, in1, in2, mode, boundary, fillvalue, precision, is_correlation):
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"scipy.signal.{name} supports only zero padding (boundary='fill', fillvalue=0), got "
                                  f"boundary={boundary!r}, fillvalue={fillvalue!r}. Use numpy.pad.")
    check_arraylike(name, in1, in2)
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(f"scipy.signal.{name} takes arrays of 2 dimensions, got shapes {np.shape(in1)} and {np.shape(in2)}.")
    return _convolve(name, in1, in2, mode, "direct", precision, is_correlation, rounds_up=is_correlation)


def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
               precision: Any = None) -> Array:
    """Compute the convolution of two images.

    Args:
        in1, in2: Arrays with two dimensions.
        mode, precision: See `convolve`.
        boundary: Must be "fill".
        fillvalue: Must be 0: the images are padded with zeros.

    Returns:
        Convolution, of a floating or complex dtype.

    Example:
        >>> convolve2d(xnp.ones((2, 2)), xnp.ones((1, 2)))
        Array([[1., 2., 1.],
               [1., 2., 1.]], dtype=float32)
    """
    return _convolve_2d("convolve2d", in1, in2, mode, boundary, fillvalue, precision, False)


def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
                precision: Any = None) -> Array:
    """Compute the cross-correlation of two images, of `in1` and the conjugate of `in2`.

    Args:
        in1, in2, mode, boundary, fillvalue, precision: See `convolve2d`.

    Returns:
        Cross-correlation, of a floating or complex dtype.

    Example:
        >>> correlate2d(xnp.ones((2, 2)), xnp.ones((1, 2)), mode="valid")
        Array([[2.],
               [2.]], dtype=float32)
    """
    return _convolve_2d("correlate2d", in1, in2, mode, boundary, fillvalue, precision, True)


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axes = None) -> Array:
    """Compute the convolution of two arrays along axes by fast Fourier transforms.

    Args:
        in1, in2: Arrays with the same sizes along all other axes.
        mode: See `convolve`.
        axes: Axis or axes to convolve over. None: all axes.

    Returns:
        Convolution, of a floating or complex dtype.

    Example:
        >>> fftconvolve(xnp.array([1.0, 2.0]), xnp.array([1.0, 1.0])).round(4)
        Array([1., 3., 2.], dtype=float32)
    """
    a, b = _operands("fftconvolve", in1, in2, mode)
    axes = range(a.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    axes = tuple(dict.fromkeys(canonical_axis(i, a.ndim, "scipy.signal.fftconvolve") for i in axes))
    if any(a.shape[i] != b.shape[i] for i in range(a.ndim) if i not in axes):
        raise ValueError(f"scipy.signal.fftconvolve along the axes {axes} needs the same sizes along all other axes, got "
                         f"shapes {a.shape} and {b.shape}.")
    if a.dtype.itemsize < 4:
        raise ValueError(f"scipy.signal.fftconvolve takes floats of at least 32 bits, got {a.dtype}. Convert with "
                         f"x.astype(...).")
    return _fft_convolve(a, b, mode, axes)


@library(static=("mode", "axes"), name="fftconvolve")
def _fft_convolve(a, b, mode, axes):
    if mode == "valid" and not _larger_first("fftconvolve", a, b, axes):
        a, b = b, a
    shape = list(a.shape)
    for i in axes:
        shape[i] = max_dim(a.shape[i] + b.shape[i] - 1, 0)
    if not axes or not a.size or not b.size:
        result = a * b if not axes else xnp.zeros(shape, a.dtype)
    else:
        is_real = not dtypes.issubdtype(a.dtype, np.complexfloating)
        forward, back = (xnp.fft.rfftn, xnp.fft.irfftn) if is_real else (xnp.fft.fftn, xnp.fft.ifftn)
        if is_symbolic([shape[i] for i in axes]):
            raise TypeError(f"the length of the transforms that convolve arrays of shapes {a.shape} and {b.shape} is not known "
                            f"while tracing: export these dimensions with fixed sizes, or use convolve with method='direct'.")
        # Transforms are fastest for lengths with small prime factors.
        lengths = [_next_fast_length(shape[i]) for i in axes]
        result = back(forward(a, lengths, axes) * forward(b, lengths, axes), lengths, axes)
    window = []
    for i, n in enumerate(shape):
        start, size = 0, n
        if i in axes and mode != "full":
            size = a.shape[i] if mode == "same" else a.shape[i] - b.shape[i] + 1
            start = (n - size) // 2
        window.append(slice(start, start + size))
    return result[tuple(window)]


def _next_fast_length(n: int) -> int:
    """Return the smallest number from `n` on with no prime factors other than 2, 3 and 5."""
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            number = three << max(-(-n // three) - 1, 0).bit_length()
            best = min(best, number) if number >= n else best
            three *= 3
        five *= 5
    return best
