"""SciPy's functions for points in space."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "transform")
