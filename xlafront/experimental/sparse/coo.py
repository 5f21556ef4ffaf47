"""COO matrices."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.operators": """
        coo_fromdense coo_fromdense_p coo_matmat coo_matmat_p coo_matvec coo_matvec_p coo_todense coo_todense_p COO
    """,
    "xlafront.sparse.matrices": """
        COOInfo
    """,
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
