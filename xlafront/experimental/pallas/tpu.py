"""What kernels for TPUs are written with."""

from xlafront.faces import lazy

_PLACES: dict[str, str] = {}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
