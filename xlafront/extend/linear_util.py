"""`WrappedFun`: functions with a stack of transformations, which are applied when the function is called."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.linear_util": """EqualStore Store StoreException WrappedFun _missing_debug_info cache
        merge_linear_aux transformation transformation2 transformation_with_aux transformation_with_aux2 wrap_init""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
