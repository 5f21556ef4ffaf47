"""Functions for Pallas kernels on Hopper GPUs and later. The module has no names yet."""

from xlafront.lazy_module import attach

_EXPORTS: dict[str, str] = {}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
