"""SciPy's linear algebra: decompositions, linear systems, matrix functions and special matrices."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.scipy.decompositions": """cho_factor cholesky eigh eigh_tridiagonal hessenberg lu lu_factor polar qr qr_multiply
        rsf2csf schur svd""",
    "xlafront.scipy.matrix_equations": "cho_solve det inv lu_solve solve solve_sylvester solve_triangular",
    "xlafront.scipy.matrix_functions": "expm expm_frechet funm sqrtm",
    "xlafront.scipy.special_matrices": """block_diag circulant companion convolution_matrix dft fiedler fiedler_companion
        hadamard hankel helmert hilbert invhilbert invpascal leslie pascal toeplitz""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
