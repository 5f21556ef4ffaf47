"""Runtime checks in compiled functions, with errors as part of the result."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.checkify": "checkify",
    "xlafront.host.checks": """Error ErrorCategory JaxRuntimeError all_checks automatic_checks check check_error debug_check
        div_checks float_checks index_checks init_error nan_checks user_checks""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
