# Written by `python -m tests.stubs`.
from xlafront.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xlafront.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from xlafront.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from xlafront.sparse.base import SparseInfo as SparseInfo
from xlafront.sparse.bcoo import stored_elements as _source__count_stored_elements
from xlafront.sparse.buffers import _nfold_vmap as _source_nfold_vmap
from xlafront.sparse.buffers import _rows_and_columns as _source__csr_to_coo

_count_stored_elements = _source__count_stored_elements
_csr_to_coo = _source__csr_to_coo
nfold_vmap = _source_nfold_vmap
