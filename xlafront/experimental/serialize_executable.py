"""Compiled programs as bytes: compiled once, run by other processes on the same machine."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.staging.stored_programs": "deserialize_and_load serialize"})
