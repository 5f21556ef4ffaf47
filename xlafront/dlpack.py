"""Exchange of arrays with other libraries by DLPack."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.numpy.dlpack": "from_dlpack is_supported_dtype to_dlpack"})
