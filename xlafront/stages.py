"""The stages of a compilation: traced, lowered, compiled."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.staging.stages": "ArgInfo Compiled CompilerOptions Lowered Traced Wrapped",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
