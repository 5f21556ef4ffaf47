"""Functions that are transformed step by step before they are run once: `WrappedFun`."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.core.linear_util": """EqualStore Store StoreException WrappedFun _missing_debug_info cache merge_linear_aux
        transformation transformation2 transformation_with_aux transformation_with_aux2 wrap_init""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
