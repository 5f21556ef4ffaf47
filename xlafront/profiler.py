"""Recordings of what a program does when, and of the memory that it takes."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.profiler": """ProfileData ProfileEvent ProfileOptions ProfilePlane StepTraceAnnotation TraceAnnotation
        annotate_function device_memory_profile register_subprocess save_device_memory_profile start_server start_trace
        stop_server stop_trace trace""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
