"""Functions and types for Pallas kernels on the SparseCores of TPUs."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.pallas.sparse_core": """
        addupdate addupdate_compressed addupdate_scatter all_reduce_ffs all_reduce_population_count bitcast cummax cumsum
        load_expanded load_gather parallel_loop scan_count sort_key_val store_compressed store_scatter subcore_barrier""",
    "xlafront.lax.ref_indexing": "Indices",
    "xlafront.pallas.sparse_core_words": """
        PackFormat SparseCorePushStreamWarning fetch_and_add pack slice_subcore_vmem_from_shared unpack""",
    "xlafront.pallas.sparse_core_mesh": "ScalarSubcoreMesh VectorSubcoreMesh get_sparse_core_info",
    "xlafront.pallas.tpu_info": "SparseCoreInfo",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
