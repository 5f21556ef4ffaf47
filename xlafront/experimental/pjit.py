"""`pjit`, an older name of `jit`."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.staging.jit": "pjit"}, deprecated={"pjit": "use jit"})
