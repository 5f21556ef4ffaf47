"""Functions of arrays that are images of any number of dimensions."""

from xlafront.faces import lazy

_PLACES = {"xlafront.numpy.resizing": "map_coordinates"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
