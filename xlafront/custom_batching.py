"""Functions with batching rules of their own: `custom_vmap`, `sequential_vmap`."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.control.sequential_vmap": "sequential_vmap",
    "xlafront.transforms.calls.custom_vmap": "custom_vmap",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
