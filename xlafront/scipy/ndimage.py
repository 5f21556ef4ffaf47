"""N-dimensional image processing."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.numpy.resizing": "map_coordinates"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
