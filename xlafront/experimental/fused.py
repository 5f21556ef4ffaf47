"""Functions that are computed by one kernel."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.transforms.calls.annotations": "fused",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
