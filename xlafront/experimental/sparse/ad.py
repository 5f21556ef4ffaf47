"""Derivatives in sparse arrays."""

from xlafront.faces import lazy

_PLACES = {"xlafront.sparse.derivatives": "grad jacfwd jacobian jacrev value_and_grad"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
