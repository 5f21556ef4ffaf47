# Written by `python -m tests.stubs`.
import builtins as _builtins
import typing as _typing

def map_coordinates(input: _typing.Any, coordinates: _typing.Sequence[_typing.Any], order: _builtins.int, mode: _builtins.str = ..., cval: _typing.Any = ...) -> _typing.Any: ...
