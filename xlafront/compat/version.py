"""The module `jax.version` of a process in which xlafront replaces jax."""

from xlafront.base.version import REFERENCE as __version__

__version_info__ = tuple(int(part) for part in __version__.split("."))
