"""Arrays written to storage and read from it, with `tensorstore`."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "serialization")
