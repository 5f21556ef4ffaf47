"""Windows of signals by the names that SciPy's `get_window` knows: periodic ones, on the host."""

from __future__ import annotations

import numpy as np

# Sums of cosines of whole turns.
_COSINES = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
_OTHER_NAMES = {
    "box": "boxcar", "ones": "boxcar", "rect": "boxcar", "rectangular": "boxcar", "han": "hann", "hanning": "hann",
    "ham": "hamming", "hamm": "hamming", "black": "blackman", "blk": "blackman", "nut": "nuttall", "nutl": "nuttall",
    "blackharr": "blackmanharris",
    "bkh": "blackmanharris", "flat": "flattop", "flt": "flattop", "bart": "bartlett", "brt": "bartlett", "tri": "triang",
    "triangle": "triang", "para": "parzen", "par": "parzen", "bman": "bohman", "bmn": "bohman", "halfcosine": "cosine",
    "tuk": "tukey",
    "ksr": "kaiser", "gauss": "gaussian", "gss": "gaussian", "poisson": "exponential",
}


def _general_cosine(place, weights):
    return sum((-1) ** k * w * np.cos(k * np.pi * (place + 1)) for k, w in enumerate(weights))


def _parzen(place):
    y = np.abs(place)
    return np.where(y <= 0.5, 1 - 6 * y**2 * (1 - y), 2 * (1 - y) ** 3)


def _bohman(place):
    y = np.abs(place)
    return (1 - y) * np.cos(np.pi * y) + np.sin(np.pi * y) / np.pi


def _tukey(place, alpha=0.5):
    if alpha <= 0:
        return np.ones_like(place)
    alpha = min(alpha, 1)
    return np.where(1 - np.abs(place) < alpha, 0.5 * (1 - np.cos(np.pi * (1 - np.abs(place)) / alpha)), 1)


# By the place from -1 to 1 where the window ends, and the parameters.
_BY_PLACE = {
    "bartlett": lambda place: 1 - np.abs(place),
    "bohman": _bohman,
    "tukey": _tukey,
    "kaiser": lambda place, beta: np.i0(beta * np.sqrt(np.maximum(1 - place**2, 0))) / np.i0(beta),
    "general_cosine": lambda place, weights: _general_cosine(place, weights),
    "general_hamming": lambda place, alpha: _general_cosine(place, (alpha, 1 - alpha)),
}
# By the distance from the middle, in samples, and the number of them.
_BY_DISTANCE = {
    "triang": lambda d, n: 1 - 2 * np.abs(d) / (n if n % 2 == 0 else n + 1),
    "parzen": lambda d, n: _parzen(2 * d / n),
    "cosine": lambda d, n: np.cos(np.pi * d / n),
    "gaussian": lambda d, n, deviation: np.exp(-0.5 * (d / deviation) ** 2),
    "general_gaussian": lambda d, n, power, deviation: np.exp(-0.5 * np.abs(d / deviation) ** (2 * power)),
    "exponential": lambda d, n, center, scale: np.exp(-np.abs(d + (0 if center is None else (n - 1) / 2 - center)) / scale),
}


def window(which, size: int) -> np.ndarray:
    """The window `which`: a name, a tuple of a name and parameters, or the beta of a Kaiser window, in float64."""
    if isinstance(which, (int, float)):
        which = ("kaiser", float(which))
    name, *parameters = (which,) if isinstance(which, str) else which
    name = _OTHER_NAMES.get(name, name)
    known = sorted({*_COSINES, *_BY_PLACE, *_BY_DISTANCE})
    if name not in known:
        raise ValueError(f"Unknown window type {name!r}: there are {', '.join(known)}, and arrays.")
    if size <= 1:
        return np.ones(size)
    n = size + 1  # a period: the last sample would be the first of the next
    distance = np.arange(size) - size / 2
    try:
        if name in _COSINES:
            return _general_cosine(2 * distance / size, _COSINES[name]) if name != "boxcar" else np.ones(size)
        if name in _BY_PLACE:
            return _BY_PLACE[name](2 * distance / size, *parameters)
        return _BY_DISTANCE[name](distance, n, *parameters)
    except TypeError:
        raise ValueError(f"the window {name!r} does not take the parameters {tuple(parameters)}.") from None


def median_bias(count: int) -> float:
    """By how much the median of so many periodograms is below their mean."""
    return 1 + sum(1 / (2 * k + 1) - 1 / (2 * k) for k in range(1, (count - 1) // 2 + 1))
