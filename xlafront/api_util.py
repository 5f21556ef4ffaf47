"""Flattened function calls and their debug information, for packages that write transformations."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.interpreters.call_arguments": """argnums_partial debug_info donation_vector flatten_axes flatten_fun
        flatten_fun_nokwargs rebase_donate_argnums safe_map shaped_abstractify""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
