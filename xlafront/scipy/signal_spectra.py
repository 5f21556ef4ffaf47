"""Spectra of signals: Fourier transforms of overlapping segments, their averages, and the way back; trends."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.shapes import canonical_axis
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely
from xlafront.special import signal_windows
from xlafront.staging.library import library

_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


def _samples(name: str, *arrays) -> list[Array]:
    check_arraylike(name, *arrays)
    return [xnp.asarray(x) for x in promote_dtypes_inexact(*arrays)]


def _window_of(name: str, window, nperseg: int | None, longest: int, default: int) -> tuple[Any, int]:
    """The window, and the length of segments, which an array says itself."""
    if isinstance(window, (str, tuple, int, float)):
        size = default if nperseg is None else nperseg
        if size > longest:
            warnings.warn(f"{name}: nperseg={size} is greater than the length {longest} of the signal, which is used.",
                          stacklevel=3)
            size = longest
        return signal_windows.window(window, size), size
    shape = np.shape(window)
    if len(shape) != 1:
        raise ValueError(f"the window of scipy.signal.{name} must be 1-dimensional, got shape {shape}.")
    if shape[0] > longest:
        raise ValueError(f"the window of scipy.signal.{name} has {shape[0]} samples, more than the {longest} of the signal.")
    if nperseg is not None and nperseg != shape[0]:
        raise ValueError(f"the window of scipy.signal.{name} has {shape[0]} samples, where segments have nperseg={nperseg}.")
    return window, shape[0]


def _whole(name: str, parameter: str, value) -> int | None:
    if value is None:
        return None
    return operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)


def _extended(x, boundary, count):
    """Half a segment more on both sides."""
    if boundary == "zeros":
        return xnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(count, count)])
    if count >= x.shape[-1] and boundary in ("even", "odd"):
        raise ValueError(f"boundary={boundary!r} extends a signal by {count} samples of its own, and it has {x.shape[-1]}.")
    first, last = x[..., :1], x[..., -1:]
    ahead, behind = x[..., 1:count + 1][..., ::-1], x[..., x.shape[-1] - count - 1:-1][..., ::-1]
    if boundary == "odd":
        ahead, behind = 2 * first - ahead, 2 * last - behind
    if boundary == "constant":
        ahead, behind = (xnp.broadcast_to(end, (*x.shape[:-1], count)) for end in (first, last))
    return xnp.concatenate([ahead, x, behind], -1)


def _segments(x, size, step):
    """`[..., number, size]`, of blocks of `step` samples: slices, where an index for each sample would be slow."""
    count = (x.shape[-1] - size) // step + 1
    blocks = -(-size // step)
    needed = (count - 1 + blocks) * step
    x = xnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, max(needed - x.shape[-1], 0))])[..., :needed]
    x = x.reshape(*x.shape[:-1], needed // step, step)
    return xnp.concatenate([x[..., j:j + count, :] for j in range(blocks)], -1)[..., :size]


def _joined(segments, step):
    """The sum of segments `[..., number, size]`, each `step` after the last."""
    *rest, count, size = segments.shape
    blocks = -(-size // step)
    segments = xnp.pad(segments, [(0, 0)] * (len(rest) + 1) + [(0, blocks * step - size)])
    total = 0
    for j in range(blocks):
        part = segments[..., j * step:(j + 1) * step].reshape(*rest, count * step)
        total = total + xnp.pad(part, [(0, 0)] * len(rest) + [(j * step, (blocks - 1 - j) * step)])
    return total[..., :(count - 1) * step + size]


@library(static=("boundary", "padded", "size", "step", "nfft", "trend", "one_sided", "scaling", "axis", "power", "cross"),
         name="spectra")
def _spectra(x, y, window, fs, boundary, padded, size, step, nfft, trend, one_sided, scaling, axis, power, cross):
    """The transforms of segments, frequencies in the place of the axis and times last; or their products."""
    results = []
    for signal in (x, y) if cross else (x,):
        signal = xnp.moveaxis(signal, axis, -1)
        if boundary is not None:
            signal = _extended(signal, boundary, size // 2)
        if padded:
            signal = xnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, -(signal.shape[-1] - size) % step % size)])
        segments = _segments(signal, size, step)
        if callable(trend):
            segments = trend(segments)
        elif trend:
            segments = _without_trend(segments, -1, trend, (0,))
        segments = segments * window.astype(segments.dtype).reshape((1,) * (segments.ndim - 1) + (-1,))
        if one_sided:
            results.append(xnp.fft.rfft(segments, nfft))
        else:
            results.append(xnp.fft.fft(segments, nfft))
    found = results[0]
    scale = 1 / xnp.sum(window) ** 2 if scaling == "spectrum" else 1 / (fs * xnp.sum(window * window))
    scale = (scale if power else xnp.sqrt(scale)).astype(found.dtype)
    if power:
        found = xnp.conj(found) * results[-1] * scale
        if one_sided:  # what is at negative frequencies is the same again, but for 0 and, of even lengths, the highest one
            twice = np.full(found.shape[-1], 2)
            twice[0] = 1
            if nfft % 2 == 0:
                twice[-1] = 1
            found = found * twice.reshape((1,) * (found.ndim - 1) + (-1,)).astype(found.dtype)
        found = found if cross else xnp.real(found)
    else:
        found = found * scale
    return xnp.moveaxis(found, -1, axis)


def _spectral(name: str, x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, boundary, padded,
              power):
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"the scaling of scipy.signal.{name} must be 'density' or 'spectrum', got {scaling!r}.")
    if boundary not in _BOUNDARIES:
        raise ValueError(f"the boundary of scipy.signal.{name} must be one of {_BOUNDARIES}, got {boundary!r}.")
    cross = y is not None
    x, *others = _samples(name, x, *([y] if cross else []))
    y = others[0] if cross else x
    if x.ndim != y.ndim:
        raise ValueError(f"scipy.signal.{name} needs signals of the same rank, got shapes {x.shape} and {y.shape}.")
    axis = canonical_axis(axis, x.ndim, f"scipy.signal.{name}")
    try:
        rest = common_shape(*(v.shape[:axis] + v.shape[axis + 1:] for v in (x, y)))
    except ValueError:
        raise ValueError(f"scipy.signal.{name} needs signals whose shapes broadcast but for axis {axis}, got {x.shape} and "
                         f"{y.shape}.") from None
    length = x.shape[axis]
    if not x.size or not y.size:
        nothing = xnp.zeros((*rest[:axis], 0, *rest[axis:]), x.dtype)
        return nothing, nothing, nothing
    if cross and x.shape[axis] != y.shape[axis]:
        longest = max(x.shape[axis], y.shape[axis])
        x, y = (xnp.pad(v, [(0, longest - v.shape[axis] if i == axis else 0) for i in range(v.ndim)]) for v in (x, y))
    nperseg = _whole(name, "nperseg", nperseg)
    if nperseg is not None and nperseg < 1:
        raise ValueError(f"nperseg of scipy.signal.{name} must be a positive integer, got {nperseg}.")
    window, size = _window_of(name, window, nperseg, x.shape[axis], length)
    nfft = size if nfft is None else _whole(name, "nfft", nfft)
    if nfft < size:
        raise ValueError(f"nfft of scipy.signal.{name} must be greater than or equal to nperseg={size}, got {nfft}.")
    noverlap = size // 2 if noverlap is None else _whole(name, "noverlap", noverlap)
    if noverlap >= size:
        raise ValueError(f"noverlap of scipy.signal.{name} must be less than nperseg={size}, got {noverlap}.")
    if isinstance(detrend, str) and detrend not in ("constant", "linear"):
        raise ValueError(f"detrend of scipy.signal.{name} must be 'constant', 'linear', False or a function, got {detrend!r}.")
    step = size - noverlap
    one_sided = return_onesided and x.dtype.kind != "c"
    if return_onesided and not one_sided:
        warnings.warn(f"scipy.signal.{name}: the signal is complex, the spectrum has both sides.", stacklevel=3)
    real = dtypes.to_real(x.dtype)
    window = xnp.asarray(window, dtype=real)
    found = _spectra(x, y, window, xnp.asarray(fs, dtype=real), boundary, bool(padded), size, step, nfft, detrend or None,
                     one_sided, scaling, axis, power, cross)
    frequencies = (xnp.fft.rfftfreq if one_sided else xnp.fft.fftfreq)(nfft, 1 / fs)
    times = (np.arange(found.shape[-1]) * step + size / 2) / fs
    if boundary is not None:
        times = times - size / 2 / fs
    return frequencies.astype(real), xnp.asarray(times, dtype=real), found


def stft(x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None,
         nfft: int | None = None, detrend: bool | str | Callable = False, return_onesided: bool = True,
         boundary: str | None = "zeros", padded: bool = True, axis: int = -1) -> tuple[Array, Array, Array]:
    """The Fourier transforms of overlapping segments of a signal: frequencies, times, and the transforms with times last.

    - `x`: the signal. `axis`: the axis of time, where frequencies will be. `fs`: how many samples there are in a unit of time.
    - `window`: what segments are multiplied by: a name (or a tuple of one and parameters), or an array.
    - `nperseg`: the length of segments, the signal's for None. `noverlap`: by how much they overlap, half of that for None.
    - `nfft`: the length of the transforms, if longer: segments are filled up with zeros.
    - `detrend`: what to take off segments, as the type of the function `detrend`, or a function of segments.
    - `return_onesided`: whether to leave out negative frequencies, of a real signal.
    - `boundary`: how the signal goes on beyond its ends: `"even"`, `"odd"`, `"constant"`, `"zeros"`; None: it does not.
    - `padded`: whether to fill it up with zeros to a whole number of segments.

    >>> frequencies, times, z = stft(xnp.ones(32), nperseg=8)
    >>> z.shape
    (5, 9)
    """
    return _spectral("stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, boundary,
                     padded, False)


def csd(x: ArrayLike, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None,
        noverlap: int | None = None, nfft: int | None = None, detrend: bool | str | Callable = "constant",
        return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean") -> tuple[Array, Array]:
    """The cross power spectral density of two signals, by Welch's method: frequencies, and the spectrum.

    - `x`, `y`: the signals; the shorter one is filled up with zeros. Without `y` it is the density of `x`.
    - `fs`, `window`, `nperseg`, `noverlap`, `nfft`, `detrend`, `return_onesided`, `axis`: as those of `stft`, but that
      for None the whole of `x` is one segment, where SciPy takes segments of 256 samples.
    - `scaling`: `"density"`, by unit of frequency, or `"spectrum"`.
    - `average`: over segments, `"mean"` or `"median"`.

    >>> csd(xnp.arange(8.0), xnp.ones(8), nperseg=8)[1].shape
    (5,)
    """
    if average not in ("mean", "median"):
        raise ValueError(f"average of scipy.signal.csd must be 'mean' or 'median', got {average!r}.")
    frequencies, _, found = _spectral("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
                                      None, False, True)
    if not found.size:
        return frequencies, found
    return frequencies, _average(found, average)


@library(static="average")
def _average(found, average):
    if average == "mean":
        return xnp.mean(found, -1)
    middle = xnp.median(xnp.real(found), -1)
    if found.dtype.kind == "c":
        middle = middle + 1j * xnp.median(xnp.imag(found), -1)
    return middle / signal_windows.median_bias(found.shape[-1])


def welch(x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
          nfft: int | None = None, detrend: bool | str | Callable = "constant", return_onesided: bool = True,
          scaling: str = "density", axis: int = -1, average: str = "mean") -> tuple[Array, Array]:
    """The power spectral density of a signal, by Welch's method: frequencies, and the mean of periodograms of segments.

    - `x`, `fs`, `window`, `nperseg`, `noverlap`, `nfft`, `detrend`, `return_onesided`, `scaling`, `axis`, `average`: as those
      of `csd`.

    >>> welch(xnp.arange(8.0), nperseg=4)[0]
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def istft(Zxx: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None,  # noqa: N803  (SciPy's name)
          noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True, boundary: bool = True,
          time_axis: int = -1, freq_axis: int = -2) -> tuple[Array, Array]:
    """The signal of which `stft` gave the transforms: times, and the signal.

    - `Zxx`: the transforms. `time_axis`, `freq_axis`: its axes of times and of frequencies.
    - `fs`, `window`, `nperseg`, `noverlap`, `nfft`: as given to `stft`; None is what follows from the number of frequencies.
    - `input_onesided`: whether negative frequencies were left out.
    - `boundary`: whether the signal was extended at its ends.

    Times are those of the signal's axis; SciPy counts along the first one.

    >>> istft(stft(xnp.ones(32), nperseg=8)[2])[1].shape
    (32,)
    """
    check_arraylike("istft", Zxx)
    z = xnp.asarray(Zxx)
    if z.ndim < 2:
        raise ValueError(f"scipy.signal.istft needs transforms of at least 2 dimensions, got shape {z.shape}.")
    z = z.astype(dtypes.to_complex(dtypes.to_inexact(z.dtype)))
    time_axis, freq_axis = (canonical_axis(i, z.ndim, "scipy.signal.istft") for i in (time_axis, freq_axis))
    if time_axis == freq_axis:
        raise ValueError(f"scipy.signal.istft needs different axes for times and frequencies, got {time_axis} for both.")
    lines = z.shape[freq_axis]
    default = 2 * (lines - 1) if input_onesided else lines
    size = default if nperseg is None else _whole("istft", "nperseg", nperseg)
    if size < 1:
        raise ValueError(f"nperseg of scipy.signal.istft must be a positive integer, got {size}.")
    if nfft is None:
        nfft = size if input_onesided and size == default + 1 else default
    nfft = _whole("istft", "nfft", nfft)
    if nfft < size:
        raise ValueError(f"nfft of scipy.signal.istft must be greater than or equal to nperseg={size}, got {nfft}.")
    noverlap = size // 2 if noverlap is None else _whole("istft", "noverlap", noverlap)
    if noverlap >= size:
        raise ValueError(f"noverlap of scipy.signal.istft must be less than nperseg={size}, got {noverlap}.")
    if isinstance(window, (str, tuple, int, float)):
        window = signal_windows.window(window, size)
    elif np.shape(window) != (size,):
        raise ValueError(f"the window of scipy.signal.istft must have the shape ({size},), got {np.shape(window)}.")
    x = _inverse(z, xnp.asarray(window, dtype=dtypes.to_real(z.dtype)), size, size - noverlap, nfft, bool(input_onesided),
                 bool(boundary), time_axis, freq_axis)
    axis = time_axis - (freq_axis < time_axis)
    return xnp.asarray(np.arange(x.shape[axis]) / fs, dtype=dtypes.to_real(x.dtype)), x


@library(static=("size", "step", "nfft", "one_sided", "boundary", "time_axis", "freq_axis"), name="istft")
def _inverse(z, window, size, step, nfft, one_sided, boundary, time_axis, freq_axis):
    z = xnp.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    segments = (xnp.fft.irfft if one_sided else xnp.fft.ifft)(z, nfft)[..., :size]
    total = _joined(segments * window.reshape((1,) * (segments.ndim - 1) + (-1,)), step) * xnp.sum(window)
    norm = _joined(xnp.broadcast_to(window * window, segments.shape[-2:]), step)
    if boundary:
        total, norm = (v[..., size // 2:v.shape[-1] - size // 2] for v in (total, norm))
    x = total / xnp.where(norm > 1e-10, norm, 1)
    return xnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))


def detrend(data: ArrayLike, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0,
            overwrite_data: None = None) -> Array:
    """The data less the straight lines that fit it best, or less its mean.

    - `data`: the data; lists too. `axis`: along which axis.
    - `type`: `"linear"` or `"constant"`.
    - `bp`: where new lines begin.
    - `overwrite_data`: None: arrays do not change.

    >>> detrend(xnp.array([1.0, 2.0, 6.0]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("scipy.signal.detrend with overwrite_data is not there: arrays do not change.")
    if type not in ("linear", "constant"):
        raise ValueError(f"the type of scipy.signal.detrend must be 'linear' or 'constant', got {type!r}.")
    [data] = _samples("detrend", xnp.asarray(data))
    axis = canonical_axis(axis, data.ndim, "scipy.signal.detrend")
    breaks = tuple(sorted({0, *map(int, np.atleast_1d(bp))})) if type == "linear" else (0,)
    if breaks[0] < 0 or breaks[-1] > data.shape[axis]:
        raise ValueError(f"the breakpoints bp of scipy.signal.detrend must be non-negative and less than the length "
                         f"{data.shape[axis]} of the data, got {bp}.")
    return _without_trend(data, axis, type, breaks)


@library(static=("axis", "trend", "breaks"), name="detrend")
@promotes_freely
def _without_trend(x, axis, trend, breaks):
    x = xnp.moveaxis(x, axis, -1)
    pieces = []
    for start, end in zip(breaks, (*breaks[1:], x.shape[-1])):
        piece = x[..., start:end]
        if end > start:
            piece = piece - xnp.mean(piece, -1, keepdims=True)
        if trend == "linear" and end - start > 1:
            place = np.arange(end - start) - (end - start - 1) / 2
            direction = (place / np.linalg.norm(place)).astype(dtypes.to_real(x.dtype))
            piece = piece - xnp.sum(piece * direction, -1, keepdims=True) * direction
        pieces.append(piece)
    return xnp.moveaxis(xnp.concatenate(pieces, -1), -1, axis)
