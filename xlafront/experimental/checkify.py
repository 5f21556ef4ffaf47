"""Checks in functions that are compiled: errors as a part of the result."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.checkify": "checkify",
    "xlafront.host.checks": """Error ErrorCategory JaxRuntimeError all_checks automatic_checks check check_error debug_check
        div_checks float_checks index_checks init_error nan_checks user_checks""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
