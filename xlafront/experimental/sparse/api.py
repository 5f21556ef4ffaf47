"""What works on any format."""

from xlafront.faces import lazy

_PLACES = {"xlafront.sparse.operators": "BCOO BCSR COO CSC CSR JAXSparse empty eye todense todense_p"}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
