# Written by `python -m tests.stubs`.
from xlafront.host.transfer_server import TransferConnection as TransferConnection
from xlafront.host.transfer_server import TransferServer as TransferServer
from xlafront.host.transfer_server import make_error_array as make_error_array
from xlafront.host.transfer_server import start_transfer_server as start_transfer_server
import builtins as _builtins

TYPE_CHECKING: _builtins.bool
