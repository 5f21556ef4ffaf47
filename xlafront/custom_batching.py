"""Functions with custom batching rules: `custom_vmap`, `sequential_vmap`."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.control.sequential_vmap": "sequential_vmap",
    "xlafront.transforms.calls.custom_vmap": "custom_vmap",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
