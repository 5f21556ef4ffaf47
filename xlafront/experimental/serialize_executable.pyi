# Written by `python -m tests.stubs`.
from xlafront.staging.stages import Compiled as _Compiled
from xlafront.staging.stored_programs import LoadedCompiled as _LoadedCompiled
import builtins as _builtins
import typing as _typing

annotations: _typing.Any
def deserialize_and_load(serialized: _builtins.bytes, in_tree: _typing.Any, out_tree: _typing.Any, backend: _typing.Any = ..., execution_devices: _typing.Sequence[_typing.Any] | None = ...) -> _LoadedCompiled: ...
def serialize(compiled: _Compiled) -> _builtins.tuple[_builtins.bytes, _typing.Any, _typing.Any]: ...
