"""SciPy's discrete cosine transforms."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.scipy.cosine_transforms": "dct dctn idct idctn"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
