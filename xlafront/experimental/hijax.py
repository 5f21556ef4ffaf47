"""Operations of classes that say what they compute and how they are transformed; values that consist of others."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.interpreters.hijax": """AbstractValue AvalMutableQDD AvalQDD HiPrimitive HiPspec HiType MutableHiType
        TransformedRef VJPHiPrimitive Zero aval_method aval_property control_flow_allowed_effects instantiate_zeros
        is_undefined_primal register_hitype""",
    "xlafront.core.avals": "ShapedArray",
    "xlafront.core.refs": "AbstractRef",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
