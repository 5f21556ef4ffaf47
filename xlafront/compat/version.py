"""What a process in which xlafront answers for jax finds as `jax.version`."""

from xlafront.runtime.version import REFERENCE as __version__

__version_info__ = tuple(int(part) for part in __version__.split("."))
