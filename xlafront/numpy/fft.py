"""Discrete Fourier transforms: NumPy's `numpy.fft` on XLA arrays."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.numpy.fourier": """fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft
        rfft2 rfftfreq rfftn""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
