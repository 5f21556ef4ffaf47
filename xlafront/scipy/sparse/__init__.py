"""SciPy's algorithms for matrices of which mostly products with vectors are known."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "linalg")
