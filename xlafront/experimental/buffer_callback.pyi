# Written by `python -m tests.stubs`.
import builtins as _builtins
import typing as _typing

Buffer: _typing.Any
ExecutionContext: _typing.Any
ExecutionStage: _typing.Any
def buffer_callback(callback: _typing.Callable[..., None], result_shape_dtypes: _typing.Any, *, has_side_effect: _builtins.bool = ..., vmap_method: _builtins.str | None = ..., input_output_aliases: _typing.Mapping[_builtins.int, _builtins.int] | None = ..., command_buffer_compatible: _builtins.bool = ...) -> _typing.Callable[..., _typing.Any]: ...
