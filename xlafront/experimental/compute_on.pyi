# Written by `python -m tests.stubs`.
import builtins as _builtins
import typing as _typing
import xlafront.core.source as _source

def compute_on(compute_type: _builtins.str) -> _source.annotated: ...
def compute_on2(f: _typing.Callable | None = ..., *, compute_type: _builtins.str, out_memory_spaces: _typing.Any, compiler_options: _builtins.dict[_builtins.str, _typing.Any] | None = ...) -> _typing.Callable: ...
