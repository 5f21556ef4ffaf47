"""Interfaces for libraries that extend xlafront: jaxprs, primitives, traces, wrapped functions, generators, backends."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, "backend core linear_util lowering mlir random sharding source_info_util")
