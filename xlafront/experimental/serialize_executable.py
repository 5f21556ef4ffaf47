"""Compiled programs as bytes: compiled once, run by other processes on the same machine."""

from xlafront.faces import lazy

_PLACES = {
    "__future__": "annotations",
    "xlafront.staging.stored_programs": "deserialize_and_load serialize",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
