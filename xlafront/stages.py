"""The stages of compilation: traced, lowered, compiled."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.staging.stages": "ArgInfo Compiled CompilerOptions Lowered Traced Wrapped",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
