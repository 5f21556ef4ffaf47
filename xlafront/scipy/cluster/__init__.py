"""SciPy's functions for groups of points."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "vq")
