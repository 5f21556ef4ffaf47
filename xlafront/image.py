"""Resizing of images."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.numpy.resizing": "ResizeMethod resize scale_and_translate"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
