"""Windows of signals by the names of SciPy's `get_window`, computed on the host; periodic by default."""

from __future__ import annotations

import numpy as np

# Coefficients of cosine sums.
_COSINES = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
_OTHER_NAMES = {
    other: name for name, others in {
        "barthann": "brthan bth", "bartlett": "bart brt", "blackman": "black blk", "blackmanharris": "blackharr bkh",
        "bohman": "bman bmn", "boxcar": "box ones rect rectangular", "chebwin": "cheb", "cosine": "halfcosine",
        "exponential": "poisson", "flattop": "flat flt", "gaussian": "gauss gss", "general_gaussian": "general_gauss ggs",
        "hamming": "hamm ham", "hann": "han hanning", "kaiser": "ksr", "kaiser_bessel_derived": "kbd", "lanczos": "sinc",
        "nuttall": "nutl nut", "parzen": "parz par para", "taylor": "taylorwin", "triang": "triangle tri", "tukey": "tuk",
    }.items() for other in others.split()
}


def _general_cosine(position, weights):
    return sum((-1) ** k * w * np.cos(k * np.pi * (position + 1)) for k, w in enumerate(weights))


def _parzen(position):
    y = np.abs(position)
    return np.where(y <= 0.5, 1 - 6 * y**2 * (1 - y), 2 * (1 - y) ** 3)


def _bohman(position):
    y = np.abs(position)
    return (1 - y) * np.cos(np.pi * y) + np.sin(np.pi * y) / np.pi


def _tukey(position, alpha=0.5):
    if alpha <= 0:
        return np.ones_like(position)
    alpha = min(alpha, 1)
    return np.where(1 - np.abs(position) < alpha, 0.5 * (1 - np.cos(np.pi * (1 - np.abs(position)) / alpha)), 1)


def _kaiser(position, beta):
    return np.i0(beta * np.sqrt(np.maximum(1 - position**2, 0))) / np.i0(beta)


def _kaiser_bessel_derived(d, n, beta):
    """Return the square root of the cumulative sum of a Kaiser window, and its mirror image."""
    if n % 2:
        raise ValueError(f"the window 'kaiser_bessel_derived' needs an even number of samples, not {n}.")
    total = np.cumsum(_kaiser(np.linspace(-1, 1, n // 2 + 1), beta))
    half = np.sqrt(total[:-1] / total[-1])
    return np.concatenate([half, half[::-1]])


def _dolph_chebyshev(d, n, attenuation):
    """Compute the window from its spectrum, a Chebyshev polynomial of a cosine (Dolph, 1946)."""
    order, k = n - 1, np.arange(n)
    x = np.cosh(np.arccosh(10 ** (abs(attenuation) / 20)) / order) * np.cos(np.pi * k / n)
    magnitude = np.abs(x)
    inside = np.cos(order * np.arccos(np.minimum(magnitude, 1)))
    spectrum = np.where(magnitude > 1, np.cosh(order * np.arccosh(np.maximum(magnitude, 1))), inside) * np.sign(x) ** order
    w = np.fft.fft(spectrum * np.exp(1j * np.pi * k * (n - 1) / n)).real
    return w / w.max()


def _taylor(d, n, sidelobes=4, level=30, norm=True):
    """Sum cosines whose spectrum has the inner zeros of Dolph's window and the outer zeros of a rectangle (Taylor, 1955)."""
    a = np.arccosh(10 ** (level / 20)) / np.pi
    m = np.arange(1, sidelobes)
    width = sidelobes**2 / (a**2 + (sidelobes - 0.5) ** 2)
    zeros = np.prod(1 - m[:, None] ** 2 / (width * (a**2 + (m - 0.5) ** 2)), 1)
    others = np.prod(1 - (m[:, None] / m) ** 2 + np.eye(m.size), 1)
    weights = -((-1.0) ** m) * zeros / others
    return (1 + np.cos(2 * np.pi * np.outer(d, m) / n) @ weights) / (1 + np.sum(weights) if norm else 1)


def _slepian(d, n, bandwidth):
    """Compute the sequence with the most energy in a band: an eigenvector of a tridiagonal matrix (Slepian, 1978).

    Inverse iteration starts from a Kaiser window, which is close, with shifts from above: all matrices are positive
    definite.
    """
    if not 0 < bandwidth < n / 2:
        raise ValueError(f"the window 'dpss' needs a half bandwidth between 0 and half of its {n} samples, got {bandwidth}.")
    diagonal, k = d**2 * np.cos(2 * np.pi * bandwidth / n), np.arange(1, n)
    off_diagonal = k * (n - k) / 2
    v, previous = _kaiser(2 * d / max(n - 1, 1), np.pi * bandwidth), np.inf
    while True:
        v = v / np.linalg.norm(v)
        image = diagonal * v
        image[1:] += off_diagonal * v[:-1]
        image[:-1] += off_diagonal * v[1:]
        value = v @ image
        residual = np.linalg.norm(image - value * v)
        if not residual < previous / 2 or residual < 1e-14 * abs(value):
            break
        previous = residual
        v = _solve_tridiagonal(value + residual - diagonal, -off_diagonal, v)
    return v / v.max() * (n**2 / (n**2 + bandwidth) if n % 2 == 0 else 1)


def _solve_tridiagonal(diagonal, off_diagonal, right_side):
    """Solve a symmetric positive definite tridiagonal system."""
    pivots, values = [diagonal[0]], [right_side[0]]
    for m, b, r in zip(diagonal[1:].tolist(), off_diagonal.tolist(), right_side[1:].tolist()):
        factor = b / pivots[-1]
        pivots.append(m - factor * b)
        values.append(r - factor * values[-1])
    x = [values[-1] / pivots[-1]]
    for pivot, b, value in zip(pivots[-2::-1], off_diagonal[::-1].tolist(), values[-2::-1]):
        x.append((value - b * x[-1]) / pivot)
    return np.array(x[::-1])


# Functions of the position from -1 to 1 and the parameters.
_BY_POSITION = {
    "barthann": lambda position: 0.62 - 0.24 * np.abs(position) + 0.38 * np.cos(np.pi * position),
    "bartlett": lambda position: 1 - np.abs(position),
    "bohman": _bohman,
    "tukey": _tukey,
    "kaiser": _kaiser,
    "lanczos": np.sinc,
    "general_cosine": _general_cosine,
    "general_hamming": lambda position, alpha: _general_cosine(position, (alpha, 1 - alpha)),
}
# Functions of the distance from the center, in samples, and the number of samples.
_BY_DISTANCE = {
    "triang": lambda d, n: 1 - 2 * np.abs(d) / (n if n % 2 == 0 else n + 1),
    "parzen": lambda d, n: _parzen(2 * d / n),
    "cosine": lambda d, n: np.cos(np.pi * d / n),
    "gaussian": lambda d, n, deviation: np.exp(-0.5 * (d / deviation) ** 2),
    "general_gaussian": lambda d, n, power, deviation: np.exp(-0.5 * np.abs(d / deviation) ** (2 * power)),
    "exponential": lambda d, n, center=None, scale=1.0: np.exp(
        -np.abs(d + (0 if center is None else (n - 1) / 2 - center)) / scale),
    "chebwin": _dolph_chebyshev,
    "dpss": _slepian,
    "kaiser_bessel_derived": _kaiser_bessel_derived,
    "taylor": _taylor,
}


def window(spec, size: int) -> np.ndarray:
    """Compute a window in float64.

    `spec` is a name, a tuple of a name and parameters, or the beta of a Kaiser window. A name may end in `_symmetric`
    or `_periodic`.
    """
    if isinstance(spec, (int, float)):
        spec = ("kaiser", float(spec))
    name, *parameters = (spec,) if isinstance(spec, str) else spec
    original, name = name, str(name).replace(" ", "_")
    symmetric = name.endswith("_symmetric")
    name = name.removesuffix("_symmetric").removesuffix("_periodic")
    name = _OTHER_NAMES.get(name, name)
    names = sorted({*_COSINES, *_BY_POSITION, *_BY_DISTANCE})
    if name not in names:
        raise ValueError(f"Unknown window type {original!r}: pass one of {', '.join(names)}, or an array.")
    if size <= 1 or name == "boxcar":
        return np.ones(size)
    n = size if symmetric else size + 1  # a period: the last sample would be the first of the next
    distance = np.arange(n) - (n - 1) / 2
    position = 2 * distance / (n - 1)
    try:
        if name in _COSINES:
            w = _general_cosine(position, _COSINES[name], *parameters)
        elif name in _BY_POSITION:
            w = _BY_POSITION[name](position, *parameters)
        else:
            w = _BY_DISTANCE[name](distance, n, *parameters)
    except TypeError:
        raise ValueError(f"the window {original!r} does not take the parameters {tuple(parameters)}.") from None
    return w[:size]


def median_bias(count: int) -> float:
    """Return the ratio of the median of `count` periodograms to their mean."""
    return 1 + sum(1 / (2 * k + 1) - 1 / (2 * k) for k in range(1, (count - 1) // 2 + 1))
