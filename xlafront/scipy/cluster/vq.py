"""Points by the nearest of a few."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.scipy.quantization": "vq"})
