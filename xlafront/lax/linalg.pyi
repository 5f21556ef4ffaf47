# Written by `python -m tests.stubs`.
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
import typing as _typing

cholesky_p: _typing.Any
cholesky_update_p: _typing.Any
eig_p: _typing.Any
eigh_p: _typing.Any
hessenberg_p: _typing.Any
householder_product_p: _typing.Any
lu_p: _typing.Any
lu_pivots_to_permutation_p: _typing.Any
ormqr_p: _typing.Any
qr_p: _typing.Any
schur_p: _typing.Any
svd_p: _typing.Any
symmetric_product_p: _typing.Any
triangular_solve_p: _typing.Any
tridiagonal_p: _typing.Any
tridiagonal_solve_p: _typing.Any
