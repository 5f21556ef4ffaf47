"""COO matrices."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.sparse.operators": """
        coo_fromdense coo_fromdense_p coo_matmat coo_matmat_p coo_matvec coo_matvec_p coo_todense coo_todense_p COO
    """,
    "xlafront.sparse.matrices": """
        COOInfo
    """,
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
