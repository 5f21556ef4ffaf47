"""Transfer of arrays between the devices of different processes."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "typing": "TYPE_CHECKING",
    "xlafront.host.transfer_server": "TransferConnection TransferServer make_error_array start_transfer_server",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
