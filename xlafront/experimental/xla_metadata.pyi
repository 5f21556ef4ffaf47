# Written by `python -m tests.stubs`.
import typing as _typing

def set_xla_metadata(x: _typing.Any = ..., **kwargs: _typing.Any) -> _typing.Any: ...
