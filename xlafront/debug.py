"""Debugging of functions, also compiled and transformed ones: printing, Python callbacks, breakpoints, views of shardings."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.callbacks": """DebugEffect OrderedDebugEffect debug_callback_p debug_effect debug_print_p
        ordered_debug_effect""",
    "xlafront.host.debug": "callback log print",
    "xlafront.host.debugger": "breakpoint",
    "xlafront.host.sharding_views": "inspect_array_sharding visualize_array_sharding visualize_sharding",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
