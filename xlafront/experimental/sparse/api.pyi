# Written by `python -m tests.stubs`.
from xlafront.sparse.base import JAXSparse as JAXSparse
from xlafront.sparse.base import JAXSparse as _JAXSparse
from xlafront.sparse.bcoo import BCOO as BCOO
from xlafront.sparse.bcsr import BCSR as BCSR
from xlafront.sparse.matrices import COO as COO
from xlafront.sparse.matrices import CSC as CSC
from xlafront.sparse.matrices import CSR as CSR
from xlafront.typing import ArrayLike as _ArrayLike
from xlafront.typing import DTypeLike as _DTypeLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def empty(shape: _typing.Sequence[_builtins.int], dtype: _DTypeLike | None = ..., index_dtype: _DTypeLike = ..., sparse_format: _builtins.str = ..., **kwds: _typing.Any) -> _JAXSparse: ...
def eye(N: _builtins.int, M: _builtins.int | None = ..., k: _builtins.int = ..., dtype: _DTypeLike | None = ..., index_dtype: _DTypeLike = ..., sparse_format: _builtins.str = ..., **kwds: _typing.Any) -> _JAXSparse: ...
def todense(arr: _JAXSparse | _ArrayLike) -> _xlafront.Array: ...
todense_p: _typing.Any
