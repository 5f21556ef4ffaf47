"""Random sparse arrays."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.sparse.creation": "random_bcoo"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
