"""Linear algebra: NumPy's `numpy.linalg` on XLA arrays."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.linalg.numpy_functions": """EigResult EighResult QRResult SVDResult SlogdetResult cholesky cond cross det
        diagonal eig eigh eigvals eigvalsh inv lstsq matmul matrix_norm matrix_power matrix_rank matrix_transpose multi_dot
        norm outer pinv qr slogdet solve svd svdvals tensordot tensorinv tensorsolve trace vecdot vector_norm""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
