"""Flattening of pytrees into vectors."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.numpy.flatten_util": "ravel_pytree"})
