"""Filtering and spectra of signals."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.scipy.signal_convolutions": "convolve convolve2d correlate correlate2d fftconvolve",
    "xlafront.scipy.signal_spectra": "csd detrend istft stft welch",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
