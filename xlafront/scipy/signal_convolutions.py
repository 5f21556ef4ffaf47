"""Convolutions and correlations of arrays of any number of dimensions, by sums or by Fourier transforms."""

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
    """For the mode "valid": whether the first array is the larger one, which it must be along all axes or along none."""
    pairs = [(a.shape[i], b.shape[i]) for i in axes]
    if all(m >= n for m, n in pairs):
        return True
    if all(m <= n for m, n in pairs):
        return False
    raise ValueError(f"scipy.signal.{name} with mode='valid' needs one input that is at least as large as the other in every "
                     f"dimension, got shapes {a.shape} and {b.shape}.")


def _slide(name: str, in1, in2, mode, method, precision, correlated: bool, late: bool = False):
    a, b = _operands(name, in1, in2, mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"the method of scipy.signal.{name} must be 'auto', 'direct' or 'fft', got {method!r}.")
    if method == "fft":
        return _by_transforms(*_turned(a, b, correlated), mode, tuple(range(a.ndim)))
    if not a.size or not b.size:
        raise ValueError(f"scipy.signal.{name}: zero-size arrays are not supported, got shapes {a.shape} and {b.shape}.")
    if mode == "valid":
        _larger_first(name, a, b, range(a.ndim))
    return _direct(a, b, mode, precision, correlated, late)


def _turned(a, b, correlated):
    return (a, xnp.conj(xnp.flip(b))) if correlated else (a, b)


@library(static=("mode", "precision", "correlated", "late"), name="convolve")
def _direct(a, b, mode, precision, correlated, late):
    a, b = _turned(a, b, correlated)
    if mode == "valid" and any(m < n for m, n in zip(a.shape, b.shape)):
        a, b = (xnp.conj(b), xnp.conj(a)) if late else (b, a)  # of images, as SciPy has it, the first one is conjugated then
    if a.ndim == 0:
        return a * b
    pads = []
    for n in b.shape:
        start = {"full": 0, "same": n // 2 if late else (n - 1) // 2, "valid": n - 1}[mode]
        pads.append((n - 1 - start, {"full": n - 1, "same": start, "valid": 0}[mode]))
    found = conv_general_dilated(a[None, None], xnp.flip(b)[None, None], (1,) * a.ndim, pads, precision=precision)
    return found[0, 0]


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The convolution of two arrays, of any number of dimensions, as floats.

    - `in1`, `in2`: the arrays, of as many dimensions.
    - `mode`: the part to return: where they overlap at all (`"full"`), the middle of that, of the shape of `in1` (`"same"`), or
      where one lies inside of the other (`"valid"`).
    - `method`: `"direct"`, as sums of products (`"auto"` too), or `"fft"`, by Fourier transforms.
    - `precision`: of the products, as that of `lax.conv_general_dilated`.

    >>> convolve(xnp.array([1.0, 2.0]), xnp.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float32)
    """
    return _slide("convolve", in1, in2, mode, method, precision, False)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The correlation of two arrays, of any number of dimensions, as floats: of `in1` with the conjugate of `in2`.

    - `in1`, `in2`, `mode`, `method`, `precision`: as those of `convolve`.

    >>> correlate(xnp.array([1.0, 2.0]), xnp.array([0.0, 1.0]))
    Array([1., 2., 0.], dtype=float32)
    """
    return _slide("correlate", in1, in2, mode, method, precision, True)


def _slide_plane(name: str, in1, in2, mode, boundary, fillvalue, precision, correlated):
    if boundary != "fill" or not (np.isscalar(fillvalue) and fillvalue == 0):
        raise NotImplementedError(f"scipy.signal.{name} has zeros around images only (boundary='fill', fillvalue=0), got "
                                  f"boundary={boundary!r}, fillvalue={fillvalue!r}. Use xnp.pad.")
    check_arraylike(name, in1, in2)
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(f"scipy.signal.{name} takes arrays of 2 dimensions, got shapes {np.shape(in1)} and {np.shape(in2)}.")
    return _slide(name, in1, in2, mode, "direct", precision, correlated, late=correlated)


def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
               precision: Any = None) -> Array:
    """The convolution of two images.

    - `in1`, `in2`: arrays of 2 dimensions.
    - `mode`, `precision`: as those of `convolve`.
    - `boundary`, `fillvalue`: `"fill"` and 0, zeros around the images.

    >>> convolve2d(xnp.ones((2, 2)), xnp.ones((1, 2)))
    Array([[1., 2., 1.],
           [1., 2., 1.]], dtype=float32)
    """
    return _slide_plane("convolve2d", in1, in2, mode, boundary, fillvalue, precision, False)


def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
                precision: Any = None) -> Array:
    """The correlation of two images: of `in1` with the conjugate of `in2`.

    - `in1`, `in2`, `mode`, `boundary`, `fillvalue`, `precision`: as those of `convolve2d`.

    >>> correlate2d(xnp.ones((2, 2)), xnp.ones((1, 2)), mode="valid")
    Array([[2.],
           [2.]], dtype=float32)
    """
    return _slide_plane("correlate2d", in1, in2, mode, boundary, fillvalue, precision, True)


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axes = None) -> Array:
    """The convolution of two arrays along axes, by Fourier transforms.

    - `in1`, `in2`: the arrays, of the same sizes along other axes.
    - `mode`: as that of `convolve`.
    - `axes`: along which axes, None for all of them.

    >>> fftconvolve(xnp.array([1.0, 2.0]), xnp.array([1.0, 1.0])).round(4)
    Array([1., 3., 2.], dtype=float32)
    """
    a, b = _operands("fftconvolve", in1, in2, mode)
    axes = range(a.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    axes = tuple(dict.fromkeys(canonical_axis(i, a.ndim, "scipy.signal.fftconvolve") for i in axes))
    if any(a.shape[i] != b.shape[i] for i in range(a.ndim) if i not in axes):
        raise ValueError(f"scipy.signal.fftconvolve along the axes {axes} needs the same sizes along others, got shapes "
                         f"{a.shape} and {b.shape}.")
    if a.dtype.itemsize < 4:
        raise ValueError(f"scipy.signal.fftconvolve takes numbers of 32 bits and more, got {a.dtype}. Convert with "
                         f"x.astype(...).")
    return _by_transforms(a, b, mode, axes)


@library(static=("mode", "axes"), name="fftconvolve")
def _by_transforms(a, b, mode, axes):
    if mode == "valid" and not _larger_first("fftconvolve", a, b, axes):
        a, b = b, a
    shape = list(a.shape)
    for i in axes:
        shape[i] = max(a.shape[i] + b.shape[i] - 1, 0)
    if not axes or not a.size or not b.size:
        found = a * b if not axes else xnp.zeros(shape, a.dtype)
    else:
        fewer = not dtypes.issubdtype(a.dtype, np.complexfloating)
        ahead, back = (xnp.fft.rfftn, xnp.fft.irfftn) if fewer else (xnp.fft.fftn, xnp.fft.ifftn)
        # Lengths that have small factors only are transformed fastest.
        lengths = [_good_length(shape[i]) for i in axes]
        found = back(ahead(a, lengths, axes) * ahead(b, lengths, axes), lengths, axes)
    place = []
    for i, n in enumerate(shape):
        start, size = 0, n
        if i in axes and mode != "full":
            size = a.shape[i] if mode == "same" else a.shape[i] - b.shape[i] + 1
            start = (n - size) // 2
        place.append(slice(start, start + size))
    return found[tuple(place)]


def _good_length(n: int) -> int:
    """The least number from `n` on whose prime factors are 2, 3 and 5."""
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
