"""Pytrees as vectors."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.numpy.flatten_util": "ravel_pytree"})
