"""Discrete Fourier transforms along any axes, of any lengths, with NumPy's three ways of scaling; their frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.dimensions import as_size, is_symbolic_dim, max_dim
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.device_put import device_put
from xlafront.lax.elementwise import as_type, div, mul, size_as, sqrt_
from xlafront.lax.fourier import FftType, fft as transform
from xlafront.lax.shapes import canonical_axes, canonical_axis, inverse, permute
from xlafront.lax.slicing import pad
from xlafront.numpy.creation import arange, array, asarray, full
from xlafront.numpy.manipulation import roll
from xlafront.numpy.promotion import check_arraylike, promote_args_inexact, unwrap, unwrap_node, within_setting
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library, written_once

_NORMS = ("backward", "ortho", "forward")
_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _norm(name: str, norm: str | None) -> str:
    norm = "backward" if norm is None else norm
    if norm not in _NORMS:
        raise ValueError(f"the norm of xnp.fft.{name} must be 'backward', 'ortho' or 'forward', got {norm!r}.")
    return norm


def _resized(x, sizes):
    """The last dimensions cut, or filled up with zeros."""
    shape = np.shape(x)
    changes = [0] * (len(shape) - len(sizes)) + [n - m for n, m in zip(sizes, shape[len(shape) - len(sizes):])]
    if not any(changes):
        return x
    return pad(x, tracing.aval_of(x).dtype.type(0), [(0, c, 0) for c in changes])


def _in_parts(x, kind, sizes):
    """A transform of as many last dimensions as there are sizes, by transforms of up to three."""
    if len(sizes) <= 3:
        return transform(x, kind, sizes)
    rest, last = sizes[:-3], sizes[-3:]
    order = list(range(np.ndim(x)))
    lead, front = order[:-len(sizes)], order[-len(sizes):-3]
    swapped = (*lead, *order[-3:], *front)  # the three to the front of those that are transformed, and back
    other = {FftType.RFFT: FftType.FFT, FftType.IRFFT: FftType.IFFT}.get(kind, kind)

    def of_rest(x):
        return permute(_in_parts(permute(x, swapped), other, rest), inverse(swapped))

    if kind == FftType.IRFFT:
        return transform(of_rest(x), kind, last)
    return of_rest(transform(x, kind, last))


@library(static=("kind", "sizes", "axes", "norm"), name="fft")
def _transformed(a, kind, sizes, axes, norm):
    [a] = promote_args_inexact("fft", within_setting(a))
    d = tracing.aval_of(a).dtype
    a = as_type(a, d if kind == FftType.RFFT else dtypes.to_complex(d), False)
    order = [*[i for i in range(np.ndim(a)) if i not in axes], *axes]
    a = permute(a, order)
    taken = (*sizes[:-1], sizes[-1] // 2 + 1) if kind == FftType.IRFFT else sizes
    result = _in_parts(_resized(a, taken), kind, sizes)
    count = math.prod(sizes)
    backwards = kind in (FftType.IFFT, FftType.IRFFT)
    if is_symbolic_dim(count):
        count = size_as(count, dtypes.to_real(tracing.aval_of(result).dtype))
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
    norm = _norm(name, norm)
    check_arraylike(name, a)
    a = unwrap_node(a)
    rank = np.ndim(a)
    if s is not None:
        s = tuple(map(as_size, s))
        if any(n < 1 for n in s):
            raise ValueError(f"the shape s of xnp.fft.{name} must be positive, got {s}.")
    if axes is None:
        if s is not None and len(s) > rank:
            raise ValueError(f"xnp.fft.{name} got more sizes s={s} than the array of shape {np.shape(a)} has dimensions.")
        axes = range(rank) if s is None else range(rank - len(s), rank)
    axes = tuple(axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"xnp.fft.{name} does not support repeated axes, got {axes}.")
    axes = canonical_axes(axes, rank, f"xnp.fft.{name}", TypeError)
    if kind == FftType.RFFT and dtypes.operand_type(asarray(a))[0].kind == "c":
        raise ValueError(f"xnp.fft.{name} only takes real numbers, got {dtypes.operand_type(asarray(a))[0]}: use fft "
                         f"and its kin.")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"xnp.fft.{name} needs as many sizes as axes, got s={s} and axes={axes}.")
    if not axes:
        d = dtypes.to_inexact(asarray(a).dtype)
        return asarray(a, dtype=d if kind == FftType.RFFT else dtypes.to_complex(d))
    own = [np.shape(a)[i] for i in axes]
    if kind == FftType.IRFFT:
        own[-1] = 2 * (own[-1] - 1)
    sizes = tuple(own) if s is None else s
    if any(n < 1 for n in sizes):
        return _of_nothing(asarray(a), kind, sizes, axes)
    return _transformed(a, kind, sizes, axes, norm)


def _of_nothing(a, kind, sizes, axes):
    """Where an axis has no elements: a result of the shape that it would have."""
    if kind == FftType.RFFT and not sizes[-1]:
        raise ValueError(f"a transform of real numbers needs at least one data point, got an array of shape {a.shape}.")
    shape = list(a.shape)
    for i, n in zip(axes, sizes):
        shape[i] = max_dim(n, 0)
    if kind == FftType.RFFT:
        shape[axes[-1]] = sizes[-1] // 2 + 1
    d = dtypes.to_complex(dtypes.to_inexact(a.dtype))
    return full(tuple(shape), 0, dtypes.to_real(d) if kind == FftType.IRFFT else d)


def _along(name: str, kind: FftType, a, n, axis, norm, opposite: bool = False):
    if isinstance(axis, (tuple, list)):
        raise ValueError(f"xnp.fft.{name} does not support multiple axes, got {axis}. Use xnp.fft.{name}n.")
    if n is not None and as_size(n) < 1:
        raise ValueError(f"xnp.fft.{name} got an invalid number of data points, n={n}: it should be positive (non-negative and "
                         f"not 0).")
    check_arraylike(name, a)
    a = unwrap(a)
    axis = canonical_axis(axis, np.ndim(a), f"xnp.fft.{name}")
    norm = _OPPOSITE[_norm(name, norm)] if opposite else norm
    return _over_axes(name, kind, a, None if n is None else (n,), (axis,), norm)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis.

    - `a`: the array.
    - `n`: how many elements of the axis to transform; it is cut, or filled up with zeros.
    - `axis`: which axis.
    - `norm`: who divides: the inverse by the number of elements ("backward", as None), this one ("forward"), or both by its
      square root ("ortho").

    >>> xnp.fft.fft(xnp.array([1.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _along("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`.

    - `a`: the array, of complex numbers or real ones.
    - `n`: how many elements of the axis to transform; it is cut, or filled up with zeros.
    - `axis`, `norm`: as for `fft`.

    >>> xnp.fft.ifft(xnp.array([4.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _along("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first `n // 2 + 1` elements of `fft` of real numbers, of which the others are conjugates.

    - `a`: the array; complex numbers are refused.
    - `n`: how many elements of the axis to transform; it is cut, or filled up with zeros.
    - `axis`, `norm`: as for `fft`.

    >>> xnp.fft.rfft(xnp.array([1.0, 0.0, 0.0, 0.0]))
    Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _along("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`.

    - `a`: the first half of a transform.
    - `n`: the number of real results, `2 * (m - 1)` of m elements without.
    - `axis`, `norm`: as for `fft`.

    >>> xnp.fft.irfft(xnp.array([4.0, 0.0, 0.0]))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return _along("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform, which is real, of elements of which the second half are conjugates of the first.

    - `a`: the first half.
    - `n`: the number of results, `2 * (m - 1)` of m elements without.
    - `axis`, `norm`: as for `fft`.

    >>> xnp.fft.hfft(xnp.array([1.0, 1.0, 1.0]))
    Array([4., 0., 0., 0.], dtype=float32)
    """
    check_arraylike("hfft", a)
    return _along("hfft", FftType.IRFFT, PUBLIC["conjugate"](a), n, axis, norm, opposite=True)


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first half of the inverse transform of real numbers.

    - `a`: the array; complex numbers are refused.
    - `n`: how many elements of the axis to transform; it is cut, or filled up with zeros.
    - `axis`, `norm`: as for `fft`.

    >>> xnp.fft.ihfft(xnp.array([4.0, 0.0, 0.0, 0.0])).real
    Array([1., 1., 1.], dtype=float32)
    """
    return PUBLIC["conjugate"](_along("ihfft", FftType.RFFT, a, n, axis, norm, opposite=True))


@written_once(static=("s", "axes", "norm"))
def fftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The discrete Fourier transform over several axes.

    - `a`: the array.
    - `s`: the sizes of the axes to transform; they are cut, or filled up with zeros.
    - `axes`: the axes; all without, or the last ones if `s` is given.
    - `norm`: as for `fft`.

    >>> xnp.fft.fftn(xnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _over_axes("fftn", FftType.FFT, a, s, axes, norm)


@written_once(static=("s", "axes", "norm"))
def ifftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The inverse of `fftn`.

    - `a`: the array, of complex numbers or real ones.
    - `s`, `axes`, `norm`: as for `fftn`.

    >>> xnp.fft.ifftn(xnp.ones((2, 2))).real
    Array([[1., 0.],
           [0., 0.]], dtype=float32)
    """
    return _over_axes("ifftn", FftType.IFFT, a, s, axes, norm)


@written_once(static=("s", "axes", "norm"))
def rfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The transform of real numbers over several axes, of the last of them the first `n // 2 + 1` elements.

    - `a`: the array; complex numbers are refused.
    - `s`, `axes`, `norm`: as for `fftn`.

    >>> xnp.fft.rfftn(xnp.ones((2, 3))).shape
    (2, 2)
    """
    return _over_axes("rfftn", FftType.RFFT, a, s, axes, norm)


@written_once(static=("s", "axes", "norm"))
def irfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The inverse of `rfftn`.

    - `a`: the first half of a transform, along the last of the axes.
    - `s`: the sizes of the result along the axes; the last of them is `2 * (m - 1)` of m elements without.
    - `axes`, `norm`: as for `fftn`.

    >>> xnp.fft.irfftn(xnp.ones((2, 2))).shape
    (2, 2)
    """
    return _over_axes("irfftn", FftType.IRFFT, a, s, axes, norm)


def _two(name: str, kind: FftType, a, s, axes, norm):
    if len(axes) != 2:
        raise ValueError(f"xnp.fft.{name} only supports 2 axes, got axes={axes}. Use xnp.fft.{name[:-1]}n.")
    return _over_axes(name, kind, a, s, axes, norm)


def fft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The discrete Fourier transform over two axes.

    - `a`: the array.
    - `s`: the sizes of the axes to transform; they are cut, or filled up with zeros.
    - `axes`: the two axes, the last ones without.
    - `norm`: as for `fft`.

    >>> xnp.fft.fft2(xnp.ones((2, 2))).real
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return _two("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `fft2`.

    - `a`: the array, of complex numbers or real ones.
    - `s`, `axes`, `norm`: as for `fft2`.

    >>> xnp.fft.ifft2(xnp.ones((2, 2))).real
    Array([[1., 0.],
           [0., 0.]], dtype=float32)
    """
    return _two("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The transform of real numbers over two axes, of the last of them the first `n // 2 + 1` elements.

    - `a`: the array; complex numbers are refused.
    - `s`, `axes`, `norm`: as for `fft2`.

    >>> xnp.fft.rfft2(xnp.ones((2, 4))).shape
    (2, 3)
    """
    return _two("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `rfft2`.

    - `a`: the first half of a transform, along the last of the axes.
    - `s`: the sizes of the result along the axes; the last of them is `2 * (m - 1)` of m elements without.
    - `axes`, `norm`: as for `fft2`.

    >>> xnp.fft.irfft2(xnp.ones((2, 3))).shape
    (2, 4)
    """
    return _two("irfft2", FftType.IRFFT, a, s, axes, norm)


# Frequencies, and their order


def _frequencies(name, n, d, dtype, device, positions):
    n = _count(name, n)
    if isinstance(d, (list, tuple)):
        raise ValueError(f"the d argument of xnp.fft.{name} only takes a single number, got {d!r}.")
    wanted = dtypes.default_dtype(float) if dtype is None else dtypes.check_user_dtype(dtype, f"xnp.fft.{name}")
    if name == "rfftfreq":
        wanted = dtypes.to_inexact(wanted)
    if isinstance(d, tracing.Tracer) or is_symbolic_dim(n):
        result = as_type(array(positions(n, arange if is_symbolic_dim(n) else np.arange)) / (d * n), wanted, False)
    else:
        result = array((positions(n, np.arange) / (np.asarray(d) * n)).astype(wanted))
    return result if device is None else device_put(result, device)


def _count(name, n) -> int:
    if isinstance(n, (tuple, list)):
        raise ValueError(f"the n argument of xnp.fft.{name} only takes an integer, got {n!r}.")
    return int(n) if isinstance(n, float) and n.is_integer() else as_size(n)


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """The frequencies of the results of `fft`, in cycles for each unit of the distance of samples.

    - `n`: the number of samples.
    - `d`: their distance.
    - `dtype`: that of the result.
    - `device`: a device or a sharding, where it is put.

    >>> xnp.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, dtype, device, lambda n, arange: (arange(n) + n // 2) % n - n // 2 if n else arange(0))


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """The frequencies of the results of `rfft`.

    - `n`: the number of samples.
    - `d`: their distance.
    - `dtype`: that of the result.
    - `device`: where it is put, a device or a sharding.

    >>> xnp.fft.rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", n, d, dtype, device, lambda n, arange: arange(n // 2 + 1))


def _shifted(name, x, axes, sign):
    check_arraylike(name, x)
    x = unwrap(x)
    axes = canonical_axes(axes, np.ndim(x), f"xnp.fft.{name}")
    shifts = tuple(n // 2 if sign > 0 else -(n // 2) for n in (np.shape(x)[i] for i in axes))
    return roll(x, shifts, axes) if axes else asarray(x)


@written_once(static=("axes",))
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The results of a transform in order of their frequencies, with 0 in the middle.

    - `x`: the array.
    - `axes`: along which axes, all without.

    >>> xnp.fft.fftshift(xnp.fft.fftfreq(4))
    Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shifted("fftshift", x, axes, 1)


@written_once(static=("axes",))
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`: the frequency 0 first.

    - `x`: the array.
    - `axes`: along which axes, all without.

    >>> xnp.fft.ifftshift(xnp.array([-1, 0, 1]))
    Array([ 0,  1, -1], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, -1)
