"""The persistent cache of compiled executables."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, "compilation_cache")
