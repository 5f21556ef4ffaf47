"""Interpolation of gridded data."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.scipy.regular_grids": "RegularGridInterpolator"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
