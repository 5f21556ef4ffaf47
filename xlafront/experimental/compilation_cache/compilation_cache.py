"""The location of the persistent compilation cache."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.runtime.backends": "reset_cache set_cache_dir"})
