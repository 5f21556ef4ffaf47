# Written by `python -m tests.stubs`.
from xlafront.scipy.signal_convolutions import convolve as convolve
from xlafront.scipy.signal_convolutions import convolve2d as convolve2d
from xlafront.scipy.signal_convolutions import correlate as correlate
from xlafront.scipy.signal_convolutions import correlate2d as correlate2d
from xlafront.scipy.signal_convolutions import fftconvolve as fftconvolve
from xlafront.scipy.signal_spectra import csd as csd
from xlafront.scipy.signal_spectra import detrend as detrend
from xlafront.scipy.signal_spectra import istft as istft
from xlafront.scipy.signal_spectra import stft as stft
from xlafront.scipy.signal_spectra import welch as welch

