# Written by `python -m tests.stubs`.
import typing as _typing

def ravel_pytree(pytree) -> _typing.Any: ...
