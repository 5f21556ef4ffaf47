"""The transformation `sparsify`, which makes functions of dense arrays take sparse ones."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.sparse.environments": """SparsifyEnv SparsifyValue arrays_to_spvalues sparsify_raw spvalues_to_arrays
        spvalues_to_avals""",
    "xlafront.sparse.sparsify": "SparseTrace SparseTracer sparsify",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
