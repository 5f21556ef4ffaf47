"""The order in which the operations of a program run."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.transforms.calls.program_order": "program_order"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
