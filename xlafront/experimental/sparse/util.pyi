# Written by `python -m tests.stubs`.
from xlafront.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from xlafront.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from xlafront.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from xlafront.sparse.base import SparseInfo as SparseInfo
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def _count_stored_elements(mat: _xlafront.Array, n_batch: _builtins.int = ..., n_dense: _builtins.int = ...) -> _xlafront.Array: ...
def _csr_to_coo(indices: _xlafront.Array, indptr: _xlafront.Array) -> _builtins.tuple[_xlafront.Array, _xlafront.Array]: ...
def nfold_vmap(fun: _typing.Callable, N: _builtins.int, *, broadcasted: _builtins.bool = ..., in_axes: _typing.Any = ...) -> _typing.Callable: ...
