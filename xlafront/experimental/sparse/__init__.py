"""Sparse arrays, functions of them, and `sparsify`, which makes functions of dense arrays take sparse ones."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.operators": """
        BCOO BCSR COO CSC CSR CuSparseEfficiencyWarning JAXSparse SparseEfficiencyError SparseEfficiencyWarning SparseTracer
        bcoo_broadcast_in_dim bcoo_concatenate bcoo_conv_general_dilated bcoo_dot_general bcoo_dot_general_p
        bcoo_dot_general_sampled bcoo_dot_general_sampled_p bcoo_dynamic_slice bcoo_extract bcoo_extract_p bcoo_fromdense
        bcoo_fromdense_p bcoo_gather bcoo_multiply_dense bcoo_multiply_sparse bcoo_reduce_sum bcoo_reshape bcoo_rev bcoo_slice
        bcoo_sort_indices bcoo_sort_indices_p bcoo_spdot_general_p bcoo_squeeze bcoo_sum_duplicates bcoo_sum_duplicates_p
        bcoo_todense bcoo_todense_p bcoo_transpose bcoo_transpose_p bcoo_update_layout bcsr_broadcast_in_dim bcsr_concatenate
        bcsr_dot_general bcsr_dot_general_p bcsr_extract bcsr_extract_p bcsr_fromdense bcsr_fromdense_p bcsr_sum_duplicates
        bcsr_todense bcsr_todense_p coo_fromdense coo_fromdense_p coo_matmat coo_matmat_p coo_matvec coo_matvec_p coo_todense
        coo_todense_p csr_fromdense csr_fromdense_p csr_matmat csr_matmat_p csr_matvec csr_matvec_p csr_todense csr_todense_p
        empty eye grad jacfwd jacobian jacrev random_bcoo sparsify todense todense_p value_and_grad
    """,
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, "ad api bcoo bcsr coo csr linalg random transform util")
