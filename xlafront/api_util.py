"""Calls of functions as lists of arrays, for packages that write transformations."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.interpreters.call_arguments": """argnums_partial debug_info donation_vector flatten_axes flatten_fun
        flatten_fun_nokwargs rebase_donate_argnums safe_map shaped_abstractify""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
