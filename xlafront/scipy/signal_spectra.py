"""Spectral analysis: short-time Fourier transforms and their inverse, power spectral densities, detrending."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes, source
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax.shapes import canonical_axis
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely
from xlafront.special import signal_windows
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape, max_dim

_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


def _promote_signals(name: str, *arrays) -> list[Array]:
    check_arraylike(name, *arrays)
    return [xnp.asarray(x) for x in promote_dtypes_inexact(*arrays)]


def _resolve_window(name: str, window, nperseg: int | None, longest: int, default: int) -> tuple[Any, int]:
    """Return the samples of the window and the segment length, which the window determines if it is an array."""
    if isinstance(window, (str, tuple, int, float)):
        size = default if nperseg is None else nperseg
        if size > longest:
            source.warn(f"{name}: nperseg={size} is greater than the length {longest} of the signal; using that length.")
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


def _as_index(name: str, parameter: str, value) -> int | None:
    if value is None:
        return None
    return operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)


def _check_frequency(name: str, fs) -> None:
    """Raise TypeError unless the sampling frequency is one number."""
    if fs is None or isinstance(fs, str) or np.size(fs) != 1:
        found = repr(fs) if np.ndim(fs) == 0 else f"an array of shape {np.shape(fs)}"
        raise TypeError(f"the sampling frequency fs of scipy.signal.{name} must be a number, got {found}.")


def _extend(x, boundary, count):
    """Extend a signal by `count` samples on both sides."""
    if boundary == "zeros":
        return xnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(count, count)])
    if count >= x.shape[-1] and boundary in ("even", "odd"):
        raise ValueError(f"boundary={boundary!r} extends a signal by {count} samples of its own, and it has {x.shape[-1]}.")
    first, last = x[..., :1], x[..., -1:]
    before, after = x[..., 1:count + 1][..., ::-1], x[..., x.shape[-1] - count - 1:-1][..., ::-1]
    if boundary == "odd":
        before, after = 2 * first - before, 2 * last - after
    if boundary == "constant":
        before, after = (xnp.broadcast_to(end, (*x.shape[:-1], count)) for end in (first, last))
    return xnp.concatenate([before, x, after], -1)


def _split_segments(x, size, step):
    """Split a signal into overlapping segments `[..., number, size]` by slicing blocks of `step` samples; a gather would
    be slower."""
    count = (x.shape[-1] - size) // step + 1
    blocks = -(-size // step)
    needed = (count - 1 + blocks) * step
    x = xnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, max_dim(needed - x.shape[-1], 0))])[..., :needed]
    x = x.reshape(*x.shape[:-1], needed // step, step)
    return xnp.concatenate([x[..., j:j + count, :] for j in range(blocks)], -1)[..., :size]


def _overlap_add(segments, step):
    """Sum segments `[..., number, size]`, each shifted by `step` samples from the one before."""
    *rest, count, size = segments.shape
    blocks = -(-size // step)
    segments = xnp.pad(segments, [(0, 0)] * (len(rest) + 1) + [(0, blocks * step - size)])
    total = 0
    for j in range(blocks):
        block = segments[..., j * step:(j + 1) * step].reshape(*rest, count * step)
        total = total + xnp.pad(block, [(0, 0)] * len(rest) + [(j * step, (blocks - 1 - j) * step)])
    return total[..., :(count - 1) * step + size]


@library(static=("boundary", "padded", "size", "step", "nfft", "trend", "one_sided", "scaling", "axis", "power", "cross"),
         name="spectra")
def _segment_spectra(x, y, window, fs, boundary, padded, size, step, nfft, trend, one_sided, scaling, axis, power, cross):
    """Compute the transforms of segments, or their products, with frequencies in place of the axis and times last."""
    results = []
    for signal in (x, y) if cross else (x,):
        signal = xnp.moveaxis(signal, axis, -1)
        if boundary is not None:
            signal = _extend(signal, boundary, size // 2)
        if padded:
            signal = xnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, -(signal.shape[-1] - size) % step % size)])
        segments = _split_segments(signal, size, step)
        if callable(trend):
            segments = trend(segments)
        elif trend:
            segments = _detrend(segments, -1, trend, (0,))
        segments = segments * window.astype(segments.dtype).reshape((1,) * (segments.ndim - 1) + (-1,))
        if one_sided:
            results.append(xnp.fft.rfft(segments, nfft))
        else:
            results.append(xnp.fft.fft(segments, nfft))
    result = results[0]
    scale = 1 / xnp.sum(window) ** 2 if scaling == "spectrum" else 1 / (fs * xnp.sum(window * window))
    scale = (scale if power else xnp.sqrt(scale)).astype(result.dtype)
    if power:
        result = xnp.conj(result) * results[-1] * scale
        if one_sided:  # negative frequencies double all but frequency 0 and, for even lengths, the Nyquist frequency
            weights = np.full(result.shape[-1], 2)
            weights[0] = 1
            if nfft % 2 == 0:
                weights[-1] = 1
            result = result * weights.reshape((1,) * (result.ndim - 1) + (-1,)).astype(result.dtype)
        result = result if cross else xnp.real(result)
    else:
        result = result * scale
    return xnp.moveaxis(result, -1, axis)


def _spectra(name: str, x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, boundary, padded,
             power):
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"the scaling of scipy.signal.{name} must be 'density' or 'spectrum', got {scaling!r}.")
    if boundary not in _BOUNDARIES:
        raise ValueError(f"the boundary of scipy.signal.{name} must be one of {_BOUNDARIES}, got {boundary!r}.")
    _check_frequency(name, fs)
    cross = y is not None
    x, *other_signals = _promote_signals(name, x, *([y] if cross else []))
    y = other_signals[0] if cross else x
    if x.ndim != y.ndim:
        raise ValueError(f"scipy.signal.{name} needs signals of the same rank, got shapes {x.shape} and {y.shape}.")
    axis = canonical_axis(axis, x.ndim, f"scipy.signal.{name}")
    try:
        batch_shape = common_shape(*(v.shape[:axis] + v.shape[axis + 1:] for v in (x, y)))
    except ValueError:
        raise ValueError(f"scipy.signal.{name} needs signals whose shapes broadcast except for axis {axis}, got {x.shape} and "
                         f"{y.shape}.") from None
    length = x.shape[axis]
    if not x.size or not y.size:
        empty = xnp.zeros((*batch_shape[:axis], 0, *batch_shape[axis:]), x.dtype)
        return empty, empty, empty
    if cross and x.shape[axis] != y.shape[axis]:
        longest = max_dim(x.shape[axis], y.shape[axis])
        x, y = (xnp.pad(v, [(0, longest - v.shape[axis] if i == axis else 0) for i in range(v.ndim)]) for v in (x, y))
    nperseg = _as_index(name, "nperseg", nperseg)
    if nperseg is not None and nperseg < 1:
        raise ValueError(f"nperseg of scipy.signal.{name} must be a positive integer, got {nperseg}.")
    window, size = _resolve_window(name, window, nperseg, x.shape[axis], length)
    nfft = size if nfft is None else _as_index(name, "nfft", nfft)
    if nfft < size:
        raise ValueError(f"nfft of scipy.signal.{name} must be greater than or equal to nperseg={size}, got {nfft}.")
    noverlap = size // 2 if noverlap is None else _as_index(name, "noverlap", noverlap)
    if noverlap >= size:
        raise ValueError(f"noverlap of scipy.signal.{name} must be less than nperseg={size}, got {noverlap}.")
    if isinstance(detrend, str) and detrend not in ("constant", "linear"):
        raise ValueError(f"detrend of scipy.signal.{name} must be 'constant', 'linear', False or a function, got {detrend!r}.")
    step = size - noverlap
    one_sided = return_onesided and x.dtype.kind != "c"
    if return_onesided and not one_sided:
        source.warn(f"scipy.signal.{name}: the signal is complex; returning the two-sided spectrum.")
    real = dtypes.to_real(x.dtype)
    window = xnp.asarray(window, dtype=real)
    result = _segment_spectra(x, y, window, xnp.asarray(fs, dtype=real), boundary, bool(padded), size, step, nfft,
                              detrend or None, one_sided, scaling, axis, power, cross)
    frequencies = (xnp.fft.rfftfreq if one_sided else xnp.fft.fftfreq)(nfft, 1 / fs)
    times = (np.arange(result.shape[-1]) * step + size / 2) / fs
    if boundary is not None:
        times = times - size / 2 / fs
    return frequencies.astype(real), xnp.asarray(times, dtype=real), result


def stft(x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None,
         nfft: int | None = None, detrend: bool | str | Callable = False, return_onesided: bool = True,
         boundary: str | None = "zeros", padded: bool = True, axis: int = -1) -> tuple[Array, Array, Array]:
    """Compute the short-time Fourier transform of a signal.

    Args:
        x: Signal.
        fs: Sampling frequency.
        window: Window that segments are multiplied by: a name, a tuple of a name and parameters, or an array.
        nperseg: Length of segments. None: the length of the signal.
        noverlap: Number of samples by which segments overlap. Default: half of `nperseg`.
        nfft: Length of the Fourier transforms, at least `nperseg`; segments are padded with zeros.
        detrend: How to detrend segments: a `type` of the function `detrend`, a function of segments, or False.
        return_onesided: If True, omit negative frequencies for real signals.
        boundary: How to extend the signal at both ends: "even", "odd", "constant", "zeros" or None.
        padded: If True, pad the signal with zeros to an integer number of segments.
        axis: Time axis of the signal, replaced by the frequency axis.

    Returns:
        Frequencies, times and the transforms, with times along the last axis.

    Example:
        >>> frequencies, times, z = stft(xnp.ones(32), nperseg=8)
        >>> z.shape
        (5, 9)
    """
    return _spectra("stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, boundary,
                    padded, False)


def csd(x: ArrayLike, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None,
        noverlap: int | None = None, nfft: int | None = None, detrend: bool | str | Callable = "constant",
        return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean") -> tuple[Array, Array]:
    """Estimate the cross power spectral density of two signals with Welch's method.

    Args:
        x: First signal.
        y: Second signal; the shorter one is padded with zeros. None: the same as `x`.
        fs, window, noverlap, nfft, detrend, return_onesided, axis: See `stft`.
        nperseg: Length of segments. None: the length of `x`.
        scaling: "density" for a density per unit of frequency, or "spectrum".
        average: "mean" or "median" over segments.

    Returns:
        Frequencies and the cross spectrum.

    Note:
        SciPy's default segment length is 256.

    Example:
        >>> csd(xnp.arange(8.0), xnp.ones(8), nperseg=8)[1].shape
        (5,)
    """
    if average not in ("mean", "median"):
        raise ValueError(f"average of scipy.signal.csd must be 'mean' or 'median', got {average!r}.")
    frequencies, _, spectra = _spectra("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling,
                                       axis, None, False, True)
    if not spectra.size:
        return frequencies, spectra
    return frequencies, _average(spectra, average)


@library(static="average")
def _average(spectra, average):
    if average == "mean":
        return xnp.mean(spectra, -1)
    middle = xnp.median(xnp.real(spectra), -1)
    if spectra.dtype.kind == "c":
        middle = middle + 1j * xnp.median(xnp.imag(spectra), -1)
    return middle / signal_windows.median_bias(spectra.shape[-1])


def welch(x: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
          nfft: int | None = None, detrend: bool | str | Callable = "constant", return_onesided: bool = True,
          scaling: str = "density", axis: int = -1, average: str = "mean") -> tuple[Array, Array]:
    """Estimate the power spectral density of a signal with Welch's method.

    Args:
        x: Signal.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average: See `csd`.

    Returns:
        Frequencies and the power spectral density.

    Example:
        >>> welch(xnp.arange(8.0), nperseg=4)[0]
        Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def istft(Zxx: ArrayLike, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None,  # noqa: N803  (SciPy's name)
          noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True, boundary: bool = True,
          time_axis: int = -1, freq_axis: int = -2) -> tuple[Array, Array]:
    """Compute the inverse short-time Fourier transform.

    Args:
        Zxx: Transforms, as returned by `stft`.
        fs, window, nperseg, noverlap, nfft: Values given to `stft`. Default: derived from the number of frequencies.
        input_onesided: If True, `Zxx` has no negative frequencies.
        boundary: If True, the signal was extended at its ends.
        time_axis, freq_axis: Time and frequency axis of `Zxx`.

    Returns:
        Times and the signal.

    Note:
        The times correspond to the time axis of the signal; SciPy's correspond to its first axis.

    Example:
        >>> istft(stft(xnp.ones(32), nperseg=8)[2])[1].shape
        (32,)
    """
    check_arraylike("istft", Zxx)
    _check_frequency("istft", fs)
    z = xnp.asarray(Zxx)
    if z.ndim < 2:
        raise ValueError(f"scipy.signal.istft needs transforms of at least 2 dimensions, got shape {z.shape}.")
    z = z.astype(dtypes.to_complex(dtypes.to_inexact(z.dtype)))
    time_axis, freq_axis = (canonical_axis(i, z.ndim, "scipy.signal.istft") for i in (time_axis, freq_axis))
    if time_axis == freq_axis:
        raise ValueError(f"scipy.signal.istft needs different axes for times and frequencies, got {time_axis} for both.")
    num_frequencies = z.shape[freq_axis]
    default = 2 * (num_frequencies - 1) if input_onesided else num_frequencies
    size = default if nperseg is None else _as_index("istft", "nperseg", nperseg)
    if size < 1:
        raise ValueError(f"nperseg of scipy.signal.istft must be a positive integer, got {size}.")
    if nfft is None:
        nfft = size if input_onesided and size == default + 1 else default
    nfft = _as_index("istft", "nfft", nfft)
    if nfft < size:
        raise ValueError(f"nfft of scipy.signal.istft must be greater than or equal to nperseg={size}, got {nfft}.")
    noverlap = size // 2 if noverlap is None else _as_index("istft", "noverlap", noverlap)
    if noverlap >= size:
        raise ValueError(f"noverlap of scipy.signal.istft must be less than nperseg={size}, got {noverlap}.")
    if isinstance(window, (str, tuple, int, float)):
        window = signal_windows.window(window, size)
    elif np.shape(window) != (size,):
        raise ValueError(f"the window of scipy.signal.istft must have the shape ({size},), got {np.shape(window)}.")
    x = _inverse_stft(z, xnp.asarray(window, dtype=dtypes.to_real(z.dtype)), size, size - noverlap, nfft, bool(input_onesided),
                      bool(boundary), time_axis, freq_axis)
    axis = time_axis - (freq_axis < time_axis)
    return xnp.asarray(np.arange(x.shape[axis]) / fs, dtype=dtypes.to_real(x.dtype)), x


@library(static=("size", "step", "nfft", "one_sided", "boundary", "time_axis", "freq_axis"), name="istft")
def _inverse_stft(z, window, size, step, nfft, one_sided, boundary, time_axis, freq_axis):
    z = xnp.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    segments = (xnp.fft.irfft if one_sided else xnp.fft.ifft)(z, nfft)[..., :size]
    total = _overlap_add(segments * window.reshape((1,) * (segments.ndim - 1) + (-1,)), step) * xnp.sum(window)
    norm = _overlap_add(xnp.broadcast_to(window * window, segments.shape[-2:]), step)
    if boundary:
        total, norm = (v[..., size // 2:v.shape[-1] - size // 2] for v in (total, norm))
    x = total / xnp.where(norm > 1e-10, norm, 1)
    return xnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))


def detrend(data: ArrayLike, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0,
            overwrite_data: None = None) -> Array:
    """Remove a linear or constant trend from data.

    Args:
        data: Data; lists are accepted.
        axis: Axis along which to detrend.
        type: "linear" to subtract least-squares lines, "constant" to subtract the mean.
        bp: Breakpoints, between which separate lines are fitted.
        overwrite_data: Must be None: arrays are immutable.

    Returns:
        Detrended data.

    Example:
        >>> detrend(xnp.array([1.0, 2.0, 6.0]), type="constant")
        Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("scipy.signal.detrend does not support overwrite_data: arrays are immutable.")
    if type not in ("linear", "constant"):
        raise ValueError(f"the type of scipy.signal.detrend must be 'linear' or 'constant', got {type!r}.")
    [data] = _promote_signals("detrend", xnp.asarray(data))
    axis = canonical_axis(axis, data.ndim, "scipy.signal.detrend")
    breaks = tuple(sorted({0, *map(int, np.atleast_1d(bp))})) if type == "linear" else (0,)
    if breaks[0] < 0 or breaks[-1] > data.shape[axis]:
        raise ValueError(f"the breakpoints bp of scipy.signal.detrend must be non-negative and less than the length "
                         f"{data.shape[axis]} of the data, got {bp}.")
    return _detrend(data, axis, type, breaks)


@library(static=("axis", "trend", "breaks"), name="detrend")
@promotes_freely
def _detrend(x, axis, trend, breaks):
    x = xnp.moveaxis(x, axis, -1)
    segments = []
    for start, end in zip(breaks, (*breaks[1:], x.shape[-1])):
        segment = x[..., start:end]
        if end > start:
            segment = segment - xnp.mean(segment, -1, keepdims=True)
        if trend == "linear" and end - start > 1:
            positions = np.arange(end - start) - (end - start - 1) / 2
            direction = (positions / np.linalg.norm(positions)).astype(dtypes.to_real(x.dtype))
            segment = segment - xnp.sum(segment * direction, -1, keepdims=True) * direction
        segments.append(segment)
    return xnp.moveaxis(xnp.concatenate(segments, -1), -1, axis)
