"""Profiles of single HLO instructions."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.host.profiler": "get_profiled_instructions_proto",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
