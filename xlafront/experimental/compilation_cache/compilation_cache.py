"""Where compiled programs are kept."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.core.backends": "reset_cache set_cache_dir"})
