"""Minimization of functions."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.solvers.minimization": "OptimizeResults minimize"})
