"""On which part of the machine operations are computed."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.transforms.calls.annotations": "compute_on compute_on2",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
