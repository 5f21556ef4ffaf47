"""Checks in functions that are compiled: errors as a part of the result."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.checkify": """all_checks automatic_checks checkify div_checks float_checks index_checks nan_checks
        user_checks""",
    "xlafront.host.checks": "Error ErrorCategory JaxRuntimeError check check_error debug_check init_error",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
