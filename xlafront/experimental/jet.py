"""Taylor mode: higher derivatives along a curve."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.transforms.taylor": """JetTrace JetTracer ZeroSeries ZeroTerm def_comp def_deriv deflinear defzero deriv_prop
        fact jet jet_rules linear_prop zero_prop zero_series zero_term""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
