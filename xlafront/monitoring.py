"""Events that libraries record (occurrences, durations, scalars), and listeners for them."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.runtime.monitoring": """clear_event_listeners record_event record_event_duration_secs record_event_time_span
        record_scalar register_event_duration_secs_listener register_event_listener register_event_time_span_listener
        register_scalar_listener unregister_event_duration_listener unregister_event_listener
        unregister_event_time_span_listener unregister_scalar_listener""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
