"""Functions with custom derivative rules: `custom_jvp`, `custom_vjp`, and related types and primitives."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.custom_jvp": "custom_jvp custom_jvp_call_p SymbolicZero zero_from_primal",
    "xlafront.transforms.calls.custom_gradient": "custom_gradient",
    "xlafront.transforms.calls.custom_vjp": "custom_vjp custom_vjp_call_p custom_vjp_primal_tree_values CustomVJPPrimal",
    "xlafront.transforms.calls.custom_vjp_remat": "remat_opt_p",
    "xlafront.transforms.calls.linear_call": "closure_convert linear_call",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
