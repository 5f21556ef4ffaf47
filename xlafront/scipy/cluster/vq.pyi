# Written by `python -m tests.stubs`.
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import xlafront as _xlafront

def vq(obs: _ArrayLike, code_book: _ArrayLike, check_finite: _builtins.bool = ...) -> _builtins.tuple[_xlafront.Array, _xlafront.Array]: ...
