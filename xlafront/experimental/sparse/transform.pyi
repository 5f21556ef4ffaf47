# Written by `python -m tests.stubs`.
from xlafront.sparse.environments import SparsifyEnv as SparsifyEnv
from xlafront.sparse.environments import SparsifyValue as SparsifyValue
from xlafront.sparse.environments import arrays_to_spvalues as arrays_to_spvalues
from xlafront.sparse.environments import sparsify_raw as sparsify_raw
from xlafront.sparse.environments import spvalues_to_arrays as spvalues_to_arrays
from xlafront.sparse.environments import spvalues_to_avals as spvalues_to_avals
from xlafront.sparse.sparsify import SparseTrace as SparseTrace
from xlafront.sparse.sparsify import SparseTracer as SparseTracer
from xlafront.sparse.sparsify import sparsify as sparsify

