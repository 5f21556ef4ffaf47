"""Linear algebra with sparse matrices: a direct solver and an eigensolver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.control.while_loop import while_loop
from xlafront.core import tracing
from xlafront.core.basic_primitives import add_any_p
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.host.callbacks import pure_callback
from xlafront.linalg.numpy_functions import eigh, qr
from xlafront.sparse.bcsr import row_starts, rows_of
from xlafront.sparse.matrices import csr_matvec_p
from xlafront.sparse.operations import linear_primitive


def _solve(data, indices, indptr, b):
    # SciPy is imported lazily: it takes 150 ms.
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import spsolve as solve_on_host

    matrix = csr_matrix((np.asarray(data), np.asarray(indices), np.asarray(indptr)), shape=(len(b), len(b)))
    return np.asarray(solve_on_host(matrix, np.asarray(b)), b.dtype)


def _spsolve(data, indices, indptr, b, *, tol, reorder):
    return pure_callback(_solve, ShapeDtypeStruct(b.shape, b.dtype), data, indices, indptr, b, vmap_method="sequential")


def _spsolve_jvp(primals, tangents, **params):
    data, indices, indptr, b = primals
    data_tangent, _, _, b_tangent = tangents
    x = spsolve_p.bind(*primals, **params)
    terms = []
    if type(data_tangent) is not Zero:
        rhs = csr_matvec_p.bind(data_tangent, indices, indptr, x, shape=(b.size, b.size), transpose=False)
        terms.append(spsolve_p.bind(data, indices, indptr, -rhs, **params))
    if type(b_tangent) is not Zero:
        terms.append(spsolve_p.bind(data, indices, indptr, b_tangent, **params))
    if not terms:
        return x, Zero(tracing.aval_of(x).to_tangent_aval())
    return x, terms[0] if len(terms) == 1 else add_any_p.bind(*terms)


def _spsolve_transpose(ct, data, indices, indptr, b, **params):
    if not is_undefined(b):
        raise TypeError("spsolve cannot be transposed with respect to the matrix: it is linear in b only")
    if type(ct) is Zero:
        return None, None, None, Zero(b.aval)
    rows = rows_of(indptr, indices.size).astype(indices.dtype)
    columns, rows, order = lax.sort([indices, rows, xnp.arange(indices.size)], num_keys=2)
    starts = row_starts(columns, b.aval.size, indptr.dtype)
    return None, None, None, spsolve_p.bind(data[order], rows, starts, ct, **params)


spsolve_p = linear_primitive("spsolve", _spsolve, (3,), jvp=_spsolve_jvp, transpose=_spsolve_transpose)


def spsolve(data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, b: ArrayLike, tol: float = 1e-6, reorder: int = 1) -> Array:
    """Solve a linear system with a sparse CSR matrix, by SciPy on the host.

    The result is NaN if the matrix is singular.

    Args:
        data, indices, indptr: Components of the square CSR matrix.
        b: Right-hand side, a vector.
        tol: Not used. Tolerance of solvers on accelerators.
        reorder: Not used. Reordering scheme of solvers on accelerators.

    Returns:
        Solution vector.

    Example:
        >>> from xlafront.experimental import sparse
        >>> mat = sparse.BCSR.fromdense(2 * xnp.eye(3))
        >>> linalg.spsolve(mat.data, mat.indices, mat.indptr, xnp.ones(3)).tolist()
        [0.5, 0.5, 0.5]
    """
    data, indices, indptr, b = map(xnp.asarray, (data, indices, indptr, b))
    if not data.ndim == indices.ndim == indptr.ndim == b.ndim == 1:
        raise ValueError(f"spsolve needs arrays of one dimension, got shapes {data.shape}, {indices.shape}, {indptr.shape} for "
                         f"data, indices and indptr, and {b.shape} for b")
    if data.shape != indices.shape or indptr.shape != (b.size + 1,):
        raise ValueError(f"spsolve with b of shape {b.shape} needs indptr of shape {(b.size + 1,)}, and data and indices of "
                         f"equal shapes, got data {data.shape}, indices {indices.shape} and indptr {indptr.shape}")
    if data.dtype != b.dtype:
        raise ValueError(f"spsolve needs a matrix and a right-hand side of the same dtype, got {data.dtype} and {b.dtype}")
    return spsolve_p.bind(data, indices, indptr, b, tol=float(tol), reorder=int(reorder))


def _product(x, y):
    return xnp.matmul(x, y, precision=lax.Precision.HIGHEST)


def lobpcg_standard(A: Any, X: ArrayLike, m: int = 100, tol: ArrayLike | None = None) -> tuple[Array, Array, Array]:
    """Compute the largest eigenvalues of a symmetric matrix and their eigenvectors, by LOBPCG without a preconditioner.

    Each iteration takes the best vectors in the span of the current ones, their residuals, and the previous search directions.

    Args:
        A: Array or sparse array, or a function that multiplies the matrix by an array.
        X: Initial vectors as columns, one for each requested eigenvalue. Their number must be less than a fifth of the size.
        m: Maximal number of iterations.
        tol: Tolerance of the residuals, relative to ten times the size of the matrix and its largest eigenvalue. Default: the
            precision of the dtype.

    Returns:
        Eigenvalues in descending order, eigenvectors as columns, and the number of iterations.

    Example:
        >>> values, vectors, steps = linalg.lobpcg_standard(xnp.diag(xnp.arange(1., 21.)), xnp.ones((20, 1)))
        >>> xnp.round(values, 2).tolist()
        [20.0]
    """
    X = xnp.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"lobpcg_standard needs the initial vectors as columns of a matrix, got X of shape {X.shape}")
    size, count = X.shape
    if count == 0:
        raise ValueError("lobpcg_standard needs at least one initial vector, X has none")
    if 5 * count >= size:
        raise ValueError(f"lobpcg_standard computes less than a fifth of all eigenvectors: five times the {count} columns of X "
                         f"must be less than {size}. Use numpy.linalg.eigh for small matrices.")
    if callable(A):
        apply: Callable = A
        image = apply(X)
        shape, dtype = image.shape, image.dtype
        if shape != X.shape:
            raise ValueError(f"lobpcg_standard needs a function A that preserves the shape {X.shape} of X, it returned {shape}")
    else:
        if tuple(A.shape) != (size, size):
            raise ValueError(f"lobpcg_standard needs a square matrix with the size of the columns of X, got shapes "
                             f"{tuple(A.shape)} and {X.shape}")
        dtype = A.dtype
        apply = (lambda x: A @ x) if hasattr(A, "todense") else (lambda x: _product(xnp.asarray(A), x))
    if dtype != X.dtype:
        raise ValueError(f"lobpcg_standard needs a matrix and initial vectors of the same dtype, got {dtype} and {X.dtype}")
    limit = xnp.finfo(X.dtype).eps if tol is None else tol

    def converged(vectors, values):
        residual = apply(vectors) - vectors * values
        scale = 10 * size * (xnp.abs(values) + xnp.max(xnp.abs(values)))
        return residual, xnp.linalg.norm(residual, axis=0) <= limit * scale

    def is_active(state):
        step, _, _, _, _, done = state
        return (step < m) & ~xnp.all(done)

    def advance(state):
        step, vectors, directions, residual, _, _ = state
        basis, _ = qr(xnp.concatenate([vectors, residual / _norms(residual), directions / _norms(directions)], 1))
        projected = _product(basis.T, apply(basis))
        eigenvalues, coordinates = eigh((projected + projected.T) / 2)
        best = coordinates[:, ::-1][:, :count]
        values = eigenvalues[::-1][:count]
        new_vectors, _ = qr(_product(basis, best))
        # The search directions are the components of the new vectors orthogonal to the current ones.
        directions = new_vectors - _product(vectors, _product(vectors.T, new_vectors))
        residual, done = converged(new_vectors, values)
        return step + 1, new_vectors, directions, residual, values, done

    vectors, _ = qr(X)
    values = xnp.sum(vectors * apply(vectors), 0)
    residual, _ = converged(vectors, values)
    start = (xnp.asarray(0), vectors, xnp.zeros_like(vectors), residual, values, xnp.zeros(count, bool))
    step, vectors, _, _, values, _ = while_loop(is_active, advance, start)
    return values, vectors, step


def _norms(x):
    norms = xnp.linalg.norm(x, axis=0)
    return xnp.where(norms == 0, 1, norms)
