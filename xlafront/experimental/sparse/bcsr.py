"""BCSR arrays, and operations on their buffers."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.operators": """
        bcsr_broadcast_in_dim bcsr_concatenate bcsr_dot_general bcsr_dot_general_p bcsr_extract bcsr_extract_p bcsr_fromdense
        bcsr_fromdense_p bcsr_sum_duplicates bcsr_todense bcsr_todense_p BCSR
    """,
    "xlafront.sparse.bcsr": """
        BCSRProperties
    """,
    "xlafront.sparse.buffers": """
        _bcsr_to_bcoo _validate_bcsr
    """,
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
