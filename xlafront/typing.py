"""What functions take as arrays and as dtypes, for annotations."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.core.typing": "ArrayLike DTypeLike"})
