"""NumPy's discrete Fourier transforms."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.numpy.fourier": """fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft
        rfft2 rfftfreq rfftn""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
