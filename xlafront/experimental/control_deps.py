"""The order in which a compiled program does things."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.control.dependencies": "control_dep schedule",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
