# Written by `python -m tests.stubs`.
from xlafront.host.transfer_server import TransferConnection as TransferConnection
from xlafront.host.transfer_server import TransferServer as TransferServer
from xlafront.host.transfer_server import TransferServer as _TransferServer
import builtins as _builtins
import typing as _typing

TYPE_CHECKING: _builtins.bool
def make_error_array(aval: _typing.Any, message: _builtins.str) -> _typing.Any: ...
def start_transfer_server(client: _typing.Any, address: _builtins.str = ..., transport_addresses: _typing.Sequence[_builtins.str] = ..., max_num_parallel_copies: _builtins.int = ..., transfer_size: _builtins.int = ..., supports_pinned_allocator: _builtins.bool = ..., use_raw_buffers: _builtins.bool = ...) -> _TransferServer: ...
