# Written by `python -m tests.stubs`.
from xlafront.sparse.matrices import COO as COO
from xlafront.sparse.matrices import COO as _COO
from xlafront.sparse.matrices import COOInfo as COOInfo
from xlafront.typing import ArrayLike as _ArrayLike
from xlafront.typing import DTypeLike as _DTypeLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def coo_fromdense(mat: _ArrayLike, *, nse: _builtins.int | None = ..., index_dtype: _DTypeLike = ...) -> _COO: ...
coo_fromdense_p: _typing.Any
def coo_matmat(mat: _COO, B: _ArrayLike, *, transpose: _builtins.bool = ...) -> _xlafront.Array: ...
coo_matmat_p: _typing.Any
def coo_matvec(mat: _COO, v: _ArrayLike, transpose: _builtins.bool = ...) -> _xlafront.Array: ...
coo_matvec_p: _typing.Any
def coo_todense(mat: _COO) -> _xlafront.Array: ...
coo_todense_p: _typing.Any
