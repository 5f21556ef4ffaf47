"""Primitives and types defined as classes, with lowering and transformation rules as methods."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.interpreters.hijax": """AbstractValue AvalMutableQDD AvalQDD HiPrim HiPrimitive HiPspec HiType MutableHiType
        TransformedRef VJPHiPrimitive Zero aval_method aval_property control_flow_allowed_effects instantiate_zeros
        is_undefined_primal register_hitype""",
    "xlafront.interpreters.hijax_rules": """MappingSpec bdims_at_front jvp_from_lin linearize_from_jvp unmap_avals vjp_from_jvp
        vjp_from_lin vmap_rule""",
    "xlafront.transforms.calls.accumulators": "GradAccum NullAccum RefAccum ValAccum",
    "xlafront.core.avals": "ShapedArray",
    "xlafront.core.refs": "AbstractRef",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
