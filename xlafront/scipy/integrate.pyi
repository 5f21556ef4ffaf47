# Written by `python -m tests.stubs`.
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import xlafront as _xlafront

def trapezoid(y: _ArrayLike, x: _ArrayLike | None = ..., dx: _ArrayLike = ..., axis: _builtins.int = ...) -> _xlafront.Array: ...
