"""The version of the reference whose names and semantics xlafront has: `jax.__version__` where it answers for jax."""

__version__ = "0.10.2"
__version_info__ = (0, 10, 2)
