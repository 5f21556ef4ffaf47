"""Derivatives with respect to the stored elements of sparse arrays."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.sparse.derivatives": "grad jacfwd jacobian jacrev value_and_grad"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
