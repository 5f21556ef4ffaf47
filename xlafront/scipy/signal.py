"""Signal processing: convolutions, spectra and detrending."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.scipy.signal_convolutions": "convolve convolve2d correlate correlate2d fftconvolve",
    "xlafront.scipy.signal_spectra": "csd detrend istft stft welch",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
