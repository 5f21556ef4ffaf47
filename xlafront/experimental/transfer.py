"""Arrays from the devices of one process to those of another."""

from xlafront.faces import lazy

_PLACES = {
    "typing": "TYPE_CHECKING",
    "xlafront.host.transfer_server": "TransferConnection TransferServer make_error_array start_transfer_server",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
