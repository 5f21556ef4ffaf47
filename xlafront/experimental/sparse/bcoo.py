"""BCOO arrays, and operations on their buffers."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.operators": """
        bcoo_broadcast_in_dim bcoo_concatenate bcoo_conv_general_dilated bcoo_dot_general bcoo_dot_general_p
        bcoo_dot_general_sampled bcoo_dot_general_sampled_p bcoo_dynamic_slice bcoo_extract bcoo_extract_p bcoo_fromdense
        bcoo_fromdense_p bcoo_gather bcoo_multiply_dense bcoo_multiply_sparse bcoo_reduce_sum bcoo_reshape bcoo_rev bcoo_slice
        bcoo_sort_indices bcoo_sort_indices_p bcoo_spdot_general_p bcoo_squeeze bcoo_sum_duplicates bcoo_sum_duplicates_p
        bcoo_todense bcoo_todense_p bcoo_transpose bcoo_transpose_p bcoo_update_layout BCOO
    """,
    "xlafront.sparse.bcoo": """
        BCOOProperties
    """,
    "xlafront.sparse.bcoo_functions": """
        bcoo_eliminate_zeros
    """,
    "xlafront.sparse.buffers": """
        _bcoo_todense _bcoo_fromdense _bcoo_extract _bcoo_transpose _bcoo_sum_duplicates _bcoo_dot_general _bcoo_rdot_general
        _bcoo_multiply_dense _bcoo_reduce_sum _bcoo_broadcast_in_dim _validate_bcoo _validate_bcoo_indices
    """,
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
