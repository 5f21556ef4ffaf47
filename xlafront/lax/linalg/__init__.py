"""Linear algebra on matrices in the last two dimensions, by LAPACK on the CPU, cuSOLVER on CUDA, XLA's own on TPU.

Everything can be mapped, batched by leading dimensions, and split over devices along those.
"""

from xlafront.lax.linalg.factorizations import (
    cholesky as cholesky,
    cholesky_p as cholesky_p,
    cholesky_update as cholesky_update,
    cholesky_update_p as cholesky_update_p,
    lu as lu,
    lu_p as lu_p,
    lu_pivots_to_permutation as lu_pivots_to_permutation,
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
    symmetric_product as symmetric_product,
    symmetric_product_p as symmetric_product_p,
    triangular_solve as triangular_solve,
    triangular_solve_p as triangular_solve_p,
    tridiagonal_solve as tridiagonal_solve,
    tridiagonal_solve_p as tridiagonal_solve_p,
)
from xlafront.lax.linalg.forms import (
    hessenberg as hessenberg,
    hessenberg_p as hessenberg_p,
    schur as schur,
    schur_p as schur_p,
    tridiagonal as tridiagonal,
    tridiagonal_p as tridiagonal_p,
)
from xlafront.lax.linalg.orthogonal import (
    householder_product as householder_product,
    householder_product_p as householder_product_p,
    ormqr as ormqr,
    ormqr_p as ormqr_p,
    qr as qr,
    qr_p as qr_p,
)
from xlafront.lax.linalg.polar import qdwh as qdwh
from xlafront.lax.linalg.spectra import (
    EighImplementation as EighImplementation,
    EigImplementation as EigImplementation,
    SvdAlgorithm as SvdAlgorithm,
    eig as eig,
    eig_p as eig_p,
    eigh as eigh,
    eigh_p as eigh_p,
    svd as svd,
    svd_p as svd_p,
)
