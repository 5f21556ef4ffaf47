"""Discrete cosine transforms of type 2 and their inverses, by Fourier transforms of reordered samples (Makhoul, 1980)."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike, Axes
from xlafront.lax.shapes import canonical_axes, canonical_axis
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact, promotes_freely
from xlafront.staging.library import library


def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the discrete cosine transform of type 2 along an axis.

    The unnormalized transform is twice the sum of `x[i] * cos(pi * k * (2 * i + 1) / (2 * n))` over `i`.

    Args:
        x: Array.
        type: Type of the transform; only 2 is supported.
        n: Length of the transform; the axis is truncated or padded with zeros. Default: the size of the axis.
        axis: Axis to transform.
        norm: None or "backward" for the unnormalized transform, "ortho" for the orthonormal one.

    Returns:
        Transform of `x`.

    Example:
        >>> dct(xnp.array([1.0, 1.0]), norm="ortho").round(4)
        Array([1.4142, 0.    ], dtype=float32)
    """
    return _transform_axes("dct", False, x, type, None if n is None else (n,), (axis,), norm)


def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the inverse of `dct`.

    Args:
        x, type, n, axis, norm: See `dct`.

    Returns:
        Inverse transform of `x`.

    Example:
        >>> idct(xnp.array([4.0, 0.0])).round(4)
        Array([1., 1.], dtype=float32)
    """
    return _transform_axes("idct", True, x, type, None if n is None else (n,), (axis,), norm)


def dctn(x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Array:
    """Compute the discrete cosine transform of type 2 along several axes.

    Args:
        x: Array.
        type: Type of the transform; only 2 is supported.
        s: Length of the transform along each axis; axes are truncated or padded with zeros.
        axes: Axes to transform. Default: the last `len(s)` axes, or all if `s` is None.
        norm: See `dct`.

    Returns:
        Transform of `x`.

    Example:
        >>> dctn(xnp.ones((2, 2))).round(4)
        Array([[16.,  0.],
               [ 0.,  0.]], dtype=float32)
    """
    return _transform_axes("dctn", False, x, type, s, axes, norm)


def idctn(x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Array:
    """Compute the inverse of `dctn`.

    Args:
        x, type, s, axes, norm: See `dctn`.

    Returns:
        Inverse transform of `x`.

    Example:
        >>> idctn(xnp.array([[16.0, 0.0], [0.0, 0.0]])).round(4)
        Array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    return _transform_axes("idctn", True, x, type, s, axes, norm)


def _transform_axes(name: str, inverse: bool, x, kind, sizes, axes, norm):
    if kind != 2:
        raise NotImplementedError(f"scipy.fft.{name} supports only transforms of type 2, got type={kind}.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"the norm of scipy.fft.{name} must be None, 'backward' or 'ortho', got {norm!r}.")
    check_arraylike(name, x)
    x = xnp.asarray(x)
    if axes is None:
        axes = range(x.ndim) if sizes is None else range(x.ndim - len(sizes), x.ndim)
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    if len(axes) == 1:
        axes = (canonical_axis(axes[0], x.ndim, f"scipy.fft.{name}"),)
    else:
        axes = canonical_axes(axes, x.ndim, f"scipy.fft.{name}")
    if sizes is None:
        sizes = tuple(x.shape[i] for i in axes)
    sizes = tuple(operator.index(n) for n in sizes)[:len(axes)]
    if any(n < 1 for n in sizes):
        error = TypeError if all(n >= 0 for n in sizes) else ValueError
        raise error(f"scipy.fft.{name} needs at least one element along each axis, got {sizes} of an array of shape {x.shape}.")
    if not axes:
        return x
    [x] = promote_args_inexact(name, x)
    return _transform(x, inverse, sizes, axes, norm)


@library(static=("inverse", "sizes", "axes", "norm"), name="dct")
@promotes_freely
def _transform(x, inverse, sizes, axes, norm):
    dtype = x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.float32)
    x = x.astype(dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        return lax.complex(*(_transform(part, inverse, sizes, axes, norm) for part in (xnp.real(x), xnp.imag(x))))
    for n, axis in zip(sizes, axes):
        x = xnp.moveaxis(x, axis, -1)
        extra = n - x.shape[-1]
        x = xnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, extra)]) if extra > 0 else x[..., :n]
        # The factor of each row that makes the matrix orthogonal.
        scale = np.full(n, 1 / math.sqrt(2 * n))
        scale[0] = 0.5 / math.sqrt(n)
        if inverse:
            x = _idct(x * (1 / scale).astype(dtype) if norm == "ortho" else x)
        else:
            x = _dct(x)
            x = x * scale.astype(dtype) if norm == "ortho" else x
        x = xnp.moveaxis(x, -1, axis)
    return x


def _twiddle_factors(n: int, dtype):
    angle = np.pi / (2 * n) * np.arange(n // 2 + 1)
    return np.exp(-1j * angle).astype(dtypes.to_complex(dtype))


def _dct(x):
    n = x.shape[-1]
    reordered = xnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)
    spectrum = 2 * xnp.fft.rfft(reordered) * _twiddle_factors(n, x.dtype)
    # The real parts are the first half of the result, the negated imaginary parts the second half in reverse.
    return xnp.concatenate([xnp.real(spectrum), -xnp.imag(spectrum)[..., 1:(n + 1) // 2][..., ::-1]], -1)


def _idct(x):
    n = x.shape[-1]
    reversed_x = xnp.concatenate([xnp.zeros_like(x[..., :1]), x[..., ::-1]], -1)[..., :n // 2 + 1]
    half = lax.complex(x[..., :n // 2 + 1], -reversed_x) * (np.conj(_twiddle_factors(n, x.dtype)) / 2)
    samples = xnp.fft.irfft(half, n)
    middle = (n + 1) // 2
    even, odd = samples[..., :middle], samples[..., middle:][..., ::-1]
    paired = xnp.stack([even[..., :n // 2], odd], -1).reshape(*x.shape[:-1], 2 * (n // 2))
    return paired if n % 2 == 0 else xnp.concatenate([paired, even[..., -1:]], -1)
