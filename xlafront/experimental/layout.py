"""How arrays lie in the memory of devices."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.lax.layout_constraint": "with_layout_constraint",
    "xlafront.runtime.layouts": "Format Layout",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
