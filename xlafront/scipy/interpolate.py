"""Functions between given points."""

from xlafront.faces import lazy

_PLACES = {"xlafront.scipy.regular_grids": "RegularGridInterpolator"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
