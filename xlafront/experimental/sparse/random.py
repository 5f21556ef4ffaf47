"""Random sparse arrays."""

from xlafront.faces import lazy

_PLACES = {"xlafront.sparse.creation": "random_bcoo"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
