"""What libraries build on: programs, primitives, traces, wrapped functions, generators, backends."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "backend core linear_util lowering mlir random sharding source_info_util")
