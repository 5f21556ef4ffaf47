"""Functions that compile to one fused kernel."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.calls.annotations": "fused",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
