"""Classes and functions that are independent of the sparse format."""

from xlafront.lazy_module import attach

_EXPORTS = {"xlafront.sparse.operators": "BCOO BCSR COO CSC CSR JAXSparse empty eye todense todense_p"}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
