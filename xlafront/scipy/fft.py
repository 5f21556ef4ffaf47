"""SciPy's discrete cosine transforms."""

from xlafront.faces import lazy

_PLACES = {"xlafront.scipy.cosine_transforms": "dct dctn idct idctn"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
