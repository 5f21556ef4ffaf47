"""Control dependencies: constraints on the order of operations in a compiled program."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.control.dependencies": "control_dep schedule",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
