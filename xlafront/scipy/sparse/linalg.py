"""Iterative solvers of linear systems, given products with the matrix."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.solvers.krylov": "bicgstab cg gmres"})
