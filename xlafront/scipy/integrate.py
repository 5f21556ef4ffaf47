"""Numerical integration of samples."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.numpy.differences": "trapezoid"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
