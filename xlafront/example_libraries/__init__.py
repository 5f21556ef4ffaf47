"""Small libraries as examples: layers of networks (`stax`), and optimizers."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "optimizers stax")
