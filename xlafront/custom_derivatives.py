"""Functions with derivative rules of their own: `custom_jvp`, `custom_vjp` and what goes with them."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.transforms.calls.custom_jvp": "custom_jvp custom_jvp_call_p SymbolicZero zero_from_primal",
    "xlafront.transforms.calls.custom_vjp": """custom_gradient custom_vjp custom_vjp_call_p custom_vjp_primal_tree_values
        CustomVJPPrimal""",
    "xlafront.transforms.calls.custom_vjp_remat": "remat_opt_p",
    "xlafront.transforms.calls.linear_call": "closure_convert linear_call",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
