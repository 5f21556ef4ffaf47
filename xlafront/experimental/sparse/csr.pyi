# Written by `python -m tests.stubs`.
from xlafront.sparse.matrices import CSC as CSC
from xlafront.sparse.matrices import CSR as CSR
from xlafront.sparse.matrices import CSR as _CSR
from xlafront.typing import ArrayLike as _ArrayLike
from xlafront.typing import DTypeLike as _DTypeLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def csr_fromdense(mat: _ArrayLike, *, nse: _builtins.int | None = ..., index_dtype: _DTypeLike = ...) -> _CSR: ...
csr_fromdense_p: _typing.Any
def csr_matmat(mat: _CSR, B: _ArrayLike, *, transpose: _builtins.bool = ...) -> _xlafront.Array: ...
csr_matmat_p: _typing.Any
def csr_matvec(mat: _CSR, v: _ArrayLike, transpose: _builtins.bool = ...) -> _xlafront.Array: ...
csr_matvec_p: _typing.Any
def csr_todense(mat: _CSR) -> _xlafront.Array: ...
csr_todense_p: _typing.Any
