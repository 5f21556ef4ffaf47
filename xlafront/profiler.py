"""Profiling: traces of a program's execution, and profiles of device memory."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.profiler": """ProfileData ProfileEvent ProfileLine ProfileOptions ProfilePlane ProfileSession
        StepTraceAnnotation TraceAnnotation annotate_function device_memory_profile
        export_profile_data register_subprocess save_device_memory_profile start_server
        start_trace stop_server stop_trace trace""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
