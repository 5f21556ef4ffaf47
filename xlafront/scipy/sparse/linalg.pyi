# Written by `python -m tests.stubs`.
from xlafront.solvers.krylov import Operator as _Operator
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def bicgstab(A: _Operator, b: _typing.Any, x0: _typing.Any = ..., *, tol: _ArrayLike = ..., atol: _ArrayLike = ..., maxiter: _ArrayLike | None = ..., M: _Operator | None = ...) -> _builtins.tuple[_typing.Any, None]: ...
def cg(A: _Operator, b: _typing.Any, x0: _typing.Any = ..., *, tol: _ArrayLike = ..., atol: _ArrayLike = ..., maxiter: _ArrayLike | None = ..., M: _Operator | None = ...) -> _builtins.tuple[_typing.Any, None]: ...
def gmres(A: _Operator, b: _typing.Any, x0: _typing.Any = ..., *, tol: _ArrayLike = ..., atol: _ArrayLike = ..., restart: _builtins.int = ..., maxiter: _ArrayLike | None = ..., M: _Operator | None = ..., solve_method: _builtins.str = ...) -> _builtins.tuple[_typing.Any, _xlafront.Array]: ...
