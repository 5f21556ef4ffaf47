"""Images made larger and smaller."""

from xlafront.faces import lazy

_PLACES = {"xlafront.numpy.resizing": "ResizeMethod resize scale_and_translate"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
