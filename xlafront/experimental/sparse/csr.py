"""CSR and CSC matrices."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.operators": """
        csr_fromdense csr_fromdense_p csr_matmat csr_matmat_p csr_matvec csr_matvec_p csr_todense csr_todense_p CSC CSR
    """,
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
