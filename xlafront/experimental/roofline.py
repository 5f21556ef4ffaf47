"""What functions compute and move at the least, on one device and between devices."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.planning.roofline": """RooflineResult RooflineRuleContext RooflineShape register_roofline
        register_standard_roofline roofline roofline_and_grad""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
