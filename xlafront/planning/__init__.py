"""What a program will need on machines that are not here: memory, work, collectives, before anybody books them."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.planning.compiling": "plan",
    "xlafront.planning.costs": "Buffer Collective",
    "xlafront.planning.report": "Memory Plan",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
