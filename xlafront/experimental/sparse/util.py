"""Classes and helper functions common to all sparse formats."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.base": """
        CuSparseEfficiencyWarning SparseEfficiencyError SparseEfficiencyWarning SparseInfo
    """,
    "xlafront.sparse.buffers": """
        _count_stored_elements _csr_to_coo nfold_vmap
    """,
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
