"""Serialization of arrays to storage, with `tensorstore`."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, "serialization")
