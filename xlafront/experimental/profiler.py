"""What recordings say of single instructions."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.host.profiler": "get_profiled_instructions_proto",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
