"""SciPy's functions, for arrays that can be traced and transformed."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {}, "cluster fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats")
