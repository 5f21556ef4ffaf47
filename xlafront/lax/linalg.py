"""Linear algebra on matrices in the last two dimensions, by LAPACK on the CPU, cuSOLVER on CUDA, XLA's own on TPU.

Everything can be mapped, batched by leading dimensions, and split over devices along those.
"""

from __future__ import annotations

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.linalg.factorizations": """cholesky cholesky_p cholesky_update cholesky_update_p lu lu_p
        lu_pivots_to_permutation lu_pivots_to_permutation_p symmetric_product symmetric_product_p triangular_solve
        triangular_solve_p tridiagonal_solve tridiagonal_solve_p""",
    "xlafront.linalg.condensed_forms": "hessenberg hessenberg_p schur schur_p tridiagonal tridiagonal_p",
    "xlafront.linalg.orthogonal": "householder_product householder_product_p ormqr ormqr_p qr qr_p",
    "xlafront.linalg.polar": "qdwh",
    "xlafront.linalg.spectra": "EighImplementation EigImplementation SvdAlgorithm eig eig_p eigh eigh_p svd svd_p",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
