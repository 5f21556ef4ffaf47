"""Multi-process programs: one or more processes on each machine, which compute together."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.parallel.distributed": "initialize is_initialized shutdown"})
