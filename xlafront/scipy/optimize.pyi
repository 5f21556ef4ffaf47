# Written by `python -m tests.stubs`.
from xlafront.solvers.minimization import OptimizeResults as OptimizeResults
from xlafront.solvers.minimization import OptimizeResults as _OptimizeResults
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def minimize(fun: _typing.Callable[..., _xlafront.Array], x0: _ArrayLike, args: _builtins.tuple = ..., *, method: _builtins.str, tol: _ArrayLike | None = ..., options: _builtins.dict[_builtins.str, _typing.Any] | None = ...) -> _OptimizeResults: ...
