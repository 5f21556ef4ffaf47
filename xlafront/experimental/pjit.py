"""`pjit`, an older name of `jit`."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.staging.jit": "pjit"}, deprecated={"pjit": "jit"})
