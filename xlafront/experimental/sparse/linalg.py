"""Linear algebra with sparse matrices."""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {"xlafront.sparse.linear_algebra": "lobpcg_standard spsolve spsolve_p"})
