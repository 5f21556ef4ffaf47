# Written by `python -m tests.stubs`.
from xlafront.host.buffer_callbacks import buffer_callback as buffer_callback
import typing as _typing

Buffer: _typing.TypeAlias = _typing.Any
ExecutionContext: _typing.TypeAlias = _typing.Any
ExecutionStage: _typing.TypeAlias = _typing.Any
