"""Linear algebra with sparse matrices."""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"xlafront.sparse.linear_algebra": "lobpcg_standard spsolve spsolve_p"})
