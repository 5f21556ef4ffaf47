# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.linalg.condensed_forms import hessenberg as hessenberg
from xlafront.linalg.condensed_forms import schur as schur
from xlafront.linalg.condensed_forms import tridiagonal as tridiagonal
from xlafront.linalg.factorizations import cholesky as cholesky
from xlafront.linalg.factorizations import cholesky_update as cholesky_update
from xlafront.linalg.factorizations import lu as lu
from xlafront.linalg.factorizations import lu_pivots_to_permutation as lu_pivots_to_permutation
from xlafront.linalg.factorizations import symmetric_product as symmetric_product
from xlafront.linalg.factorizations import triangular_solve as triangular_solve
from xlafront.linalg.factorizations import tridiagonal_solve as tridiagonal_solve
from xlafront.linalg.orthogonal import householder_product as householder_product
from xlafront.linalg.orthogonal import ormqr as ormqr
from xlafront.linalg.orthogonal import qr as qr
from xlafront.linalg.polar import qdwh as qdwh
from xlafront.linalg.spectra import EigImplementation as EigImplementation
from xlafront.linalg.spectra import EighImplementation as EighImplementation
from xlafront.linalg.spectra import SvdAlgorithm as SvdAlgorithm
from xlafront.linalg.spectra import eig as eig
from xlafront.linalg.spectra import eigh as eigh
from xlafront.linalg.spectra import svd as svd

cholesky_p: _Primitive
cholesky_update_p: _Primitive
eig_p: _Primitive
eigh_p: _Primitive
hessenberg_p: _Primitive
householder_product_p: _Primitive
lu_p: _Primitive
lu_pivots_to_permutation_p: _Primitive
ormqr_p: _Primitive
qr_p: _Primitive
schur_p: _Primitive
svd_p: _Primitive
symmetric_product_p: _Primitive
triangular_solve_p: _Primitive
tridiagonal_p: _Primitive
tridiagonal_solve_p: _Primitive
