"""Discrete Fourier transforms along any axes and of any lengths, with NumPy's three normalizations, and their
frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.device_put import device_put
from xlafront.lax.elementwise import as_type, div, mul, size_scalar, sqrt_
from xlafront.lax.fourier import FftType, fft as transform
from xlafront.lax.shapes import canonical_axes, canonical_axis, inverse, permute
from xlafront.lax.slicing import pad
from xlafront.numpy.creation import arange, array, asarray, full
from xlafront.numpy.manipulation import roll
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact, unwrap, unwrap_node, within_setting
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic_dim, max_dim

_NORMS = ("backward", "ortho", "forward")
_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _check_norm(name: str, norm: str | None) -> str:
    norm = "backward" if norm is None else norm
    if norm not in _NORMS:
        raise ValueError(f"the norm of numpy.fft.{name} must be 'backward', 'ortho' or 'forward', got {norm!r}.")
    return norm


def _crop_or_pad(x, sizes):
    """Crop the trailing dimensions to `sizes`, or pad them with zeros."""
    shape = np.shape(x)
    changes = [0] * (len(shape) - len(sizes)) + [n - m for n, m in zip(sizes, shape[len(shape) - len(sizes):])]
    if not any(changes):
        return x
    return pad(x, tracing.aval_of(x).dtype.type(0), [(0, c, 0) for c in changes])


def _transform_trailing_dims(x, kind, sizes):
    """Transform as many trailing dimensions as there are sizes; more than three are split into groups of at most three."""
    if len(sizes) <= 3:
        return transform(x, kind, sizes)
    rest, last = sizes[:-3], sizes[-3:]
    order = list(range(np.ndim(x)))
    lead, front = order[:-len(sizes)], order[-len(sizes):-3]
    swapped = (*lead, *order[-3:], *front)  # moves the last three dimensions in front of the other transformed ones
    other = {FftType.RFFT: FftType.FFT, FftType.IRFFT: FftType.IFFT}.get(kind, kind)

    def transform_rest(x):
        return permute(_transform_trailing_dims(permute(x, swapped), other, rest), inverse(swapped))

    if kind == FftType.IRFFT:
        return transform(transform_rest(x), kind, last)
    return transform_rest(transform(x, kind, last))


@library(static=("kind", "sizes", "axes", "norm"), name="fft")
def _transform_kernel(a, kind, sizes, axes, norm):
    [a] = promote_args_inexact("fft", within_setting(a))
    d = tracing.aval_of(a).dtype
    a = as_type(a, d if kind == FftType.RFFT else dtypes.to_complex(d), False)
    order = [*[i for i in range(np.ndim(a)) if i not in axes], *axes]
    a = permute(a, order)
    input_sizes = (*sizes[:-1], sizes[-1] // 2 + 1) if kind == FftType.IRFFT else sizes
    result = _transform_trailing_dims(_crop_or_pad(a, input_sizes), kind, sizes)
    count = math.prod(sizes)
    backwards = kind in (FftType.IFFT, FftType.IRFFT)
    if is_symbolic_dim(count):
        count = size_scalar(count, dtypes.to_real(tracing.aval_of(result).dtype))
        root = sqrt_(count)
        scale = {"backward": None, "ortho": root if backwards else div(count.dtype.type(1), root),
                 "forward": count if backwards else div(count.dtype.type(1), count)}[norm]
        if scale is not None:
            result = mul(result, as_type(scale, tracing.aval_of(result).dtype, False))
        return permute(result, inverse(order))
    scale = {"backward": 1, "ortho": math.sqrt(count) if backwards else 1 / math.sqrt(count),
             "forward": count if backwards else 1 / count}[norm]
    if scale != 1:
        result = mul(result, tracing.aval_of(result).dtype.type(scale))
    return permute(result, inverse(order))


def _over_axes(name: str, kind: FftType, a, s, axes, norm):
    norm = _check_norm(name, norm)
    check_arraylike(name, a)
    a = unwrap_node(a)
    rank = np.ndim(a)
    if s is not None:
        s = tuple(map(as_size, s))
        if any(n < 1 for n in s):
            raise ValueError(f"the shape s of numpy.fft.{name} must be positive, got {s}.")
    if axes is None:
        if s is not None and len(s) > rank:
            raise ValueError(f"numpy.fft.{name} got more sizes s={s} than the array of shape {np.shape(a)} has dimensions.")
        axes = range(rank) if s is None else range(rank - len(s), rank)
    axes = tuple(axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"numpy.fft.{name} does not support repeated axes, got {axes}.")
    axes = canonical_axes(axes, rank, f"numpy.fft.{name}", TypeError)
    if kind == FftType.RFFT and dtypes.operand_type(asarray(a))[0].kind == "c":
        raise ValueError(f"numpy.fft.{name} only takes real numbers, got {dtypes.operand_type(asarray(a))[0]}: use fft "
                         f"or fftn.")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"numpy.fft.{name} needs as many sizes as axes, got s={s} and axes={axes}.")
    if not axes:
        d = dtypes.to_inexact(asarray(a).dtype)
        return asarray(a, dtype=d if kind == FftType.RFFT else dtypes.to_complex(d))
    own = [np.shape(a)[i] for i in axes]
    if kind == FftType.IRFFT:
        own[-1] = 2 * (own[-1] - 1)
    sizes = tuple(own) if s is None else s
    if any(n < 1 for n in sizes):
        return _empty_transform(asarray(a), kind, sizes, axes)
    return _transform_kernel(a, kind, sizes, axes, norm)


def _empty_transform(a, kind, sizes, axes):
    """Return zeros of the result's shape, for a transform over an empty axis."""
    if kind == FftType.RFFT and not sizes[-1]:
        raise ValueError(f"a transform of real numbers needs at least one data point, got an array of shape {a.shape}.")
    shape = list(a.shape)
    for i, n in zip(axes, sizes):
        shape[i] = max_dim(n, 0)
    if kind == FftType.RFFT:
        shape[axes[-1]] = sizes[-1] // 2 + 1
    d = dtypes.to_complex(dtypes.to_inexact(a.dtype))
    return full(tuple(shape), 0, dtypes.to_real(d) if kind == FftType.IRFFT else d)


def _over_axis(name: str, kind: FftType, a, n, axis, norm, opposite: bool = False):
    if isinstance(axis, (tuple, list)):
        raise ValueError(f"numpy.fft.{name} does not support multiple axes, got {axis}. Use numpy.fft.{name}n.")
    if n is not None and as_size(n) < 1:
        raise ValueError(f"numpy.fft.{name} got an invalid number of data points, n={n}: it should be positive (non-negative "
                         f"and not 0).")
    check_arraylike(name, a)
    a = unwrap(a)
    axis = canonical_axis(axis, np.ndim(a), f"numpy.fft.{name}")
    norm = _OPPOSITE[_check_norm(name, norm)] if opposite else norm
    return _over_axes(name, kind, a, None if n is None else (n,), (axis,), norm)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the discrete Fourier transform along an axis.

    Args:
        a: The array.
        n: Number of elements to transform; the axis is cropped or padded with zeros. Default: its size.
        axis: Axis to transform. Default: the last.
        norm: Normalization: "backward" (default) divides the inverse transform by the number of elements, "forward" the
            forward transform, "ortho" both by its square root.

    Returns:
        The transform, a complex array.

    Example:
        >>> xnp.fft.fft(xnp.array([1.0, 0.0, 0.0, 0.0]))
        Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _over_axis("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the inverse of `fft`.

    Args:
        a: The array, real or complex.
        n: Number of elements to transform; the axis is cropped or padded with zeros. Default: its size.
        axis, norm: See `fft`.

    Returns:
        The inverse transform, a complex array.

    Example:
        >>> xnp.fft.ifft(xnp.array([4.0, 0.0, 0.0, 0.0]))
        Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _over_axis("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the discrete Fourier transform of a real array: the first `n // 2 + 1` elements of `fft`.

    The other elements are complex conjugates of these.

    Args:
        a: The real array.
        n: Number of elements to transform; the axis is cropped or padded with zeros. Default: its size.
        axis, norm: See `fft`.

    Returns:
        The transform, a complex array.

    Raises:
        ValueError: If the array is complex.

    Example:
        >>> xnp.fft.rfft(xnp.array([1.0, 0.0, 0.0, 0.0]))
        Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _over_axis("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the inverse of `rfft`.

    Args:
        a: The first half of a transform.
        n: Number of real elements of the result. Default: `2 * (m - 1)` for m input elements.
        axis, norm: See `fft`.

    Returns:
        The inverse transform, a real array.

    Example:
        >>> xnp.fft.irfft(xnp.array([4.0, 0.0, 0.0]))
        Array([1., 1., 1., 1.], dtype=float32)
    """
    return _over_axis("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the Fourier transform of a Hermitian-symmetric signal, given by its first half; the result is real.

    Args:
        a: The first half of the signal.
        n: Number of elements of the result. Default: `2 * (m - 1)` for m input elements.
        axis, norm: See `fft`.

    Returns:
        The transform, a real array.

    Example:
        >>> xnp.fft.hfft(xnp.array([1.0, 1.0, 1.0]))
        Array([4., 0., 0., 0.], dtype=float32)
    """
    check_arraylike("hfft", a)
    return _over_axis("hfft", FftType.IRFFT, PUBLIC["conjugate"](a), n, axis, norm, opposite=True)


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Compute the inverse of `hfft`: the first half of the inverse transform of a real array.

    Args:
        a: The real array.
        n: Number of elements to transform; the axis is cropped or padded with zeros. Default: its size.
        axis, norm: See `fft`.

    Returns:
        The first half of the signal, a complex array.

    Example:
        >>> xnp.fft.ihfft(xnp.array([4.0, 0.0, 0.0, 0.0])).real
        Array([1., 1., 1.], dtype=float32)
    """
    return PUBLIC["conjugate"](_over_axis("ihfft", FftType.RFFT, a, n, axis, norm, opposite=True))


@library(static=("s", "axes", "norm"))
@accepts(anything=True)
def fftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Compute the discrete Fourier transform over several axes.

    Args:
        a: The array.
        s: Sizes of the transformed axes, which are cropped or padded with zeros. Default: their sizes.
        axes: Axes to transform. Default: all, or the last `len(s)` if `s` is given.
        norm: See `fft`.

    Returns:
        The transform, a complex array.

    Example:
        >>> xnp.fft.fftn(xnp.ones((2, 2)))
        Array([[4.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _over_axes("fftn", FftType.FFT, a, s, axes, norm)


@library(static=("s", "axes", "norm"))
@accepts(anything=True)
def ifftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Compute the inverse of `fftn`.

    Args:
        a: The array, real or complex.
        s, axes, norm: See `fftn`.

    Returns:
        The inverse transform, a complex array.

    Example:
        >>> xnp.fft.ifftn(xnp.ones((2, 2))).real
        Array([[1., 0.],
               [0., 0.]], dtype=float32)
    """
    return _over_axes("ifftn", FftType.IFFT, a, s, axes, norm)


@library(static=("s", "axes", "norm"))
@accepts(anything=True)
def rfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Compute the transform of a real array over several axes, with `n // 2 + 1` elements along the last of them.

    Args:
        a: The real array.
        s, axes, norm: See `fftn`.

    Returns:
        The transform, a complex array.

    Example:
        >>> xnp.fft.rfftn(xnp.ones((2, 3))).shape
        (2, 2)
    """
    return _over_axes("rfftn", FftType.RFFT, a, s, axes, norm)


@library(static=("s", "axes", "norm"))
@accepts(anything=True)
def irfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """Compute the inverse of `rfftn`.

    Args:
        a: The first half of a transform along the last of the axes.
        s: Sizes of the result along the axes. Default: those of `a`, and `2 * (m - 1)` for m elements along the last
            axis.
        axes, norm: See `fftn`.

    Returns:
        The inverse transform, a real array.

    Example:
        >>> xnp.fft.irfftn(xnp.ones((2, 2))).shape
        (2, 2)
    """
    return _over_axes("irfftn", FftType.IRFFT, a, s, axes, norm)


def _over_two_axes(name: str, kind: FftType, a, s, axes, norm):
    if len(axes) != 2:
        raise ValueError(f"numpy.fft.{name} only supports 2 axes, got axes={axes}. Use numpy.fft.{name[:-1]}n.")
    return _over_axes(name, kind, a, s, axes, norm)


def fft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Compute the discrete Fourier transform over two axes.

    Args:
        a: The array.
        s: Sizes of the transformed axes, which are cropped or padded with zeros. Default: their sizes.
        axes: The two axes. Default: the last two.
        norm: See `fft`.

    Returns:
        The transform, a complex array.

    Example:
        >>> xnp.fft.fft2(xnp.ones((2, 2))).real
        Array([[4., 0.],
               [0., 0.]], dtype=float32)
    """
    return _over_two_axes("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Compute the inverse of `fft2`.

    Args:
        a: The array, real or complex.
        s, axes, norm: See `fft2`.

    Returns:
        The inverse transform, a complex array.

    Example:
        >>> xnp.fft.ifft2(xnp.ones((2, 2))).real
        Array([[1., 0.],
               [0., 0.]], dtype=float32)
    """
    return _over_two_axes("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Compute the transform of a real array over two axes, with `n // 2 + 1` elements along the last of them.

    Args:
        a: The real array.
        s, axes, norm: See `fft2`.

    Returns:
        The transform, a complex array.

    Example:
        >>> xnp.fft.rfft2(xnp.ones((2, 4))).shape
        (2, 3)
    """
    return _over_two_axes("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Compute the inverse of `rfft2`.

    Args:
        a: The first half of a transform along the last of the axes.
        s: Sizes of the result along the axes. Default: those of `a`, and `2 * (m - 1)` for m elements along the last
            axis.
        axes, norm: See `fft2`.

    Returns:
        The inverse transform, a real array.

    Example:
        >>> xnp.fft.irfft2(xnp.ones((2, 3))).shape
        (2, 4)
    """
    return _over_two_axes("irfft2", FftType.IRFFT, a, s, axes, norm)


# Frequencies and their order


def _frequencies(name, n, d, dtype, device, positions):
    n = _count(name, n)
    if isinstance(d, (list, tuple)):
        raise ValueError(f"the d argument of numpy.fft.{name} only takes a single number, got {d!r}.")
    result_dtype = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, f"numpy.fft.{name}")
    if name == "rfftfreq":
        result_dtype = dtypes.to_inexact(result_dtype)
    if isinstance(d, tracing.Tracer) or is_symbolic_dim(n):
        result = as_type(array(positions(n, arange if is_symbolic_dim(n) else np.arange)) / (d * n), result_dtype, False)
    else:
        result = array((positions(n, np.arange) / (np.asarray(d) * n)).astype(result_dtype))
    return result if device is None else device_put(result, device)


def _count(name, n) -> int:
    if isinstance(n, (tuple, list)):
        raise ValueError(f"the n argument of numpy.fft.{name} only takes an integer, got {n!r}.")
    return int(n) if isinstance(n, float) and n.is_integer() else as_size(n)


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """Return the frequencies of the elements of `fft`, in cycles per unit of the sample spacing.

    Args:
        n: Number of samples.
        d: Sample spacing.
        dtype: dtype of the result.
        device: Device or sharding of the result.

    Returns:
        The frequencies, a vector of `n` elements: first the nonnegative ones, then the negative ones.

    Example:
        >>> xnp.fft.fftfreq(4)
        Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, dtype, device, lambda n, arange: (arange(n) + n // 2) % n - n // 2 if n else arange(0))


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """Return the frequencies of the elements of `rfft`, in cycles per unit of the sample spacing.

    Args:
        n: Number of samples.
        d: Sample spacing.
        dtype: dtype of the result.
        device: Device or sharding of the result.

    Returns:
        The frequencies, a vector of `n // 2 + 1` elements.

    Example:
        >>> xnp.fft.rfftfreq(4)
        Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", n, d, dtype, device, lambda n, arange: arange(n // 2 + 1))


def _shift(name, x, axes, sign):
    check_arraylike(name, x)
    x = unwrap(x)
    axes = canonical_axes(axes, np.ndim(x), f"numpy.fft.{name}")
    shifts = tuple(n // 2 if sign > 0 else -(n // 2) for n in (np.shape(x)[i] for i in axes))
    return roll(x, shifts, axes) if axes else asarray(x)


@library(static=("axes",))
@accepts(anything=True)
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Shift the zero frequency of a transform to the center.

    Args:
        x: The array.
        axes: Axes to shift. Default: all.

    Returns:
        The shifted array.

    Example:
        >>> xnp.fft.fftshift(xnp.fft.fftfreq(4))
        Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shift("fftshift", x, axes, 1)


@library(static=("axes",))
@accepts(anything=True)
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Undo `fftshift`: shift the zero frequency to the front.

    Args:
        x: The array.
        axes: Axes to shift. Default: all.

    Returns:
        The shifted array.

    Example:
        >>> xnp.fft.ifftshift(xnp.array([-1, 0, 1]))
        Array([ 0,  1, -1], dtype=int32)
    """
    return _shift("ifftshift", x, axes, -1)
