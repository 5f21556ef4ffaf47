"""The compiled programs that are kept on disk."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "compilation_cache")
