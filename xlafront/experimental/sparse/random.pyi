# Written by `python -m tests.stubs`.
from xlafront.sparse.bcoo import BCOO as _BCOO
from xlafront.typing import DTypeLike as _DTypeLike
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def random_bcoo(key: _xlafront.Array, shape: _typing.Sequence[_builtins.int], *, dtype: _DTypeLike = ..., indices_dtype: _DTypeLike | None = ..., nse: _builtins.int | _builtins.float = ..., n_batch: _builtins.int = ..., n_dense: _builtins.int = ..., unique_indices: _builtins.bool = ..., sorted_indices: _builtins.bool = ..., generator: _typing.Callable = ..., **kwds: _typing.Any) -> _BCOO: ...
