"""Looking into functions while they run, compiled and transformed ones too: printing, calling Python, stopping."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.callbacks": """DebugEffect OrderedDebugEffect debug_callback_p debug_effect debug_print_p
        ordered_debug_effect""",
    "xlafront.host.debug": "callback log print",
    "xlafront.host.debugger": "breakpoint",
    "xlafront.host.sharding_views": "inspect_array_sharding visualize_array_sharding visualize_sharding",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
