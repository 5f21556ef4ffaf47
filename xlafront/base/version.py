"""The version of the package, of the reference whose names and semantics it has, and where the documentation is."""

__version__ = "0.1.0"
REFERENCE = "0.12.0.1"
DOCUMENTATION = "https://xlafront.readthedocs.io/en/latest"  # a placeholder until it is published
