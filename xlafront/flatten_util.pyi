# Written by `python -m tests.stubs`.
import builtins as _builtins
import typing as _typing
import xlafront as _xlafront

def ravel_pytree(pytree: _typing.Any) -> _builtins.tuple[_xlafront.Array, _typing.Any]: ...
