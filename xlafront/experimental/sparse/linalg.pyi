# Written by `python -m tests.stubs`.
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def lobpcg_standard(A: _typing.Any, X: _ArrayLike, m: _builtins.int = ..., tol: _ArrayLike | None = ...) -> _builtins.tuple[_xlafront.Array, _xlafront.Array, _xlafront.Array]: ...
def spsolve(data: _ArrayLike, indices: _ArrayLike, indptr: _ArrayLike, b: _ArrayLike, tol: _builtins.float = ..., reorder: _builtins.int = ...) -> _xlafront.Array: ...
spsolve_p: _typing.Any
