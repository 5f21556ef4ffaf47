"""Sparse linear algebra; see `xlafront.experimental.sparse` for sparse arrays."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, "linalg")
