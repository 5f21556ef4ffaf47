"""Programs of many processes, one or more on each machine, that compute together."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.parallel.distributed": "initialize is_initialized shutdown"})
