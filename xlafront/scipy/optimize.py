"""Minima of functions."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.solvers.minimization": "OptimizeResults minimize"})
