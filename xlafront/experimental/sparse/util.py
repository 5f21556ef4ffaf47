"""What all formats share."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.sparse.base": """
        CuSparseEfficiencyWarning SparseEfficiencyError SparseEfficiencyWarning SparseInfo
    """,
    "xlafront.sparse.buffers": """
        _count_stored_elements _csr_to_coo nfold_vmap
    """,
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
