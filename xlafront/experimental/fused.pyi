# Written by `python -m tests.stubs`.
import typing as _typing

def fused(*, out_spaces: _typing.Any) -> _typing.Callable[[_typing.Callable], _typing.Callable]: ...
