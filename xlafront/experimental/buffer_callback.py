"""Python functions that write their results into the memory of compiled programs."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.buffer_callbacks": "buffer_callback",
    "xlafront.runtime.jaxlib_compat": "Buffer ExecutionContext ExecutionStage",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
