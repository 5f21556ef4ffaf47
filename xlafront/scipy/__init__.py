"""SciPy's modules, on arrays that are traced and transformed."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__, {}, "cluster fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats")
