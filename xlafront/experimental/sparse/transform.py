"""Functions of dense arrays made functions of sparse ones."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.sparse.environments": """SparsifyEnv SparsifyValue arrays_to_spvalues sparsify_raw spvalues_to_arrays
        spvalues_to_avals""",
    "xlafront.sparse.sparsify": "SparseTrace SparseTracer sparsify",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
