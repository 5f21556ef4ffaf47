"""Layouts of arrays in device memory."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.lax.layout_constraint": "with_layout_constraint",
    "xlafront.base.layouts": "Format Layout",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
