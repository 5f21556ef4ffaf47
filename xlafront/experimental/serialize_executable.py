"""Serialization of compiled executables: compiled once, run by other processes on the same machine."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "__future__": "annotations",
    "xlafront.staging.stored_programs": "deserialize_and_load serialize",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
