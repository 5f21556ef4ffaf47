"""Python callbacks that write their results into device buffers of compiled programs."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.buffer_callbacks": "buffer_callback",
    "xlafront.base.jaxlib_compat": "Buffer ExecutionContext ExecutionStage",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
