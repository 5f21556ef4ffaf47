"""Functions of Mosaic GPU, for kernels on Hopper GPUs. The module has no names: kernels for GPUs are compiled by Triton."""

from xlafront.lazy_module import attach

_EXPORTS: dict[str, str] = {}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
