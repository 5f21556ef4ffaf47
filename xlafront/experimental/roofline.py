"""Roofline estimates: the work, memory traffic and communication of a function."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.planning.roofline": """RooflineResult RooflineRuleContext RooflineShape register_roofline
        register_standard_roofline roofline roofline_and_grad""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
