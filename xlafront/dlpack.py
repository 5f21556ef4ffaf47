"""Arrays shared with other libraries by DLPack."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.numpy.dlpack": "from_dlpack is_supported_dtype to_dlpack"})
