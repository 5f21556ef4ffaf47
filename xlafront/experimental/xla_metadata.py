"""What XLA is told of operations."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.transforms.calls.annotations": "set_xla_metadata",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
