"""The version of the package, and of the reference whose names and semantics it has."""

__version__ = "0.1.0.dev0"
REFERENCE = "0.12.0.1"
