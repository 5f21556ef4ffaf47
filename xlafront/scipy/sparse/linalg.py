"""Linear systems, solved by products with the matrix."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.solvers.krylov": "bicgstab cg gmres"})
