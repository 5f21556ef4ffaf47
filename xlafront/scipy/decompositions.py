"""SciPy's matrix decompositions, based on `lax.linalg`.

Matrices are the last two dimensions of arrays. SciPy's parameters that allow overwriting, skip checks or choose a
driver (`overwrite_a`, `check_finite`, `lapack_driver`, `lwork`, `turbo`) are accepted and have no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.lax import linalg as kernels
from xlafront.linalg.kernels import adjoint, check_rank, product, square
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely, unwrap_node
from xlafront.runtime.arrays import ArrayImpl as Array
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape, min_dim


def promote_arrays(name: str, *values) -> list:
    """Convert values, lists too, to arrays of one floating or complex dtype."""
    values = [xnp.asarray(x) if x is None or isinstance(x, (list, tuple)) else x for x in values]
    check_arraylike(name, *values)
    return [xnp.asarray(x) for x in promote_dtypes_inexact(*map(unwrap_node, values))]


def promote_matrices(name: str, *values, error: type[Exception] = ValueError) -> list:
    """Convert values to arrays of one floating or complex dtype and check that each has at least two dimensions."""
    arrays = promote_arrays(name, *values)
    for x in arrays:
        check_rank(name, x, error=error)
    return arrays


def broadcast_matrices(*matrices) -> list:
    """Broadcast the dimensions in front of the last two."""
    batch = common_shape(*[x.shape[:-2] for x in matrices])
    return [xnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in matrices]


@library(static="lower")
def _cholesky(a, lower):
    [a] = promote_matrices("cholesky", a)
    square("cholesky", a)
    factor = kernels.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cholesky(a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Compute the Cholesky factor of Hermitian positive semidefinite matrices.

    The result is an upper triangular `U` with `U.conj().T @ U == a`, or a lower triangular `L` with `L @ L.conj().T ==
    a`.

    Args:
        a: Hermitian matrices without negative eigenvalues. Only one triangle is read.
        lower: If True, return the lower triangular factor `L`.
        overwrite_a, check_finite: No effect.

    Returns:
        Triangular factor, NaN where a matrix is not positive semidefinite.

    Example:
        >>> cholesky(xnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 1.],
               [0., 2.]], dtype=float32)
    """
    return _cholesky(a, bool(lower))


def cho_factor(a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """Compute the Cholesky factor in the form that `cho_solve` takes.

    Args:
        a, lower, overwrite_a, check_finite: See `cholesky`.

    Returns:
        Factor and `lower`.

    Example:
        >>> cho_factor(xnp.array([[4.0]]))
        (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower), lower


@library(static=("lower", "eigvals_only", "overwrite_a", "overwrite_b", "turbo", "type", "check_finite"))
@accepts(objects=True)
def eigh(a: Array, b: Array | None = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
         overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1, check_finite: bool = True
         ) -> Any:
    """Compute eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    With `b` these solve a generalized problem: `a @ v == w * b @ v` for type 1, `a @ b @ v == w * v` for type 2, and
    `b @ a @ v == w * v` for type 3. The matrices are replaced by the mean of them and their conjugate transposes.

    Args:
        a: Hermitian matrices.
        b: Hermitian positive definite matrices, whose leading dimensions broadcast with those of `a`. Default: the identity.
        lower: If True, use the lower triangles of the means, otherwise the upper ones.
        eigvals_only: If True, return only the eigenvalues.
        eigvals: Must be None: all eigenvalues are computed.
        type: Number of the problem, 1, 2 or 3.
        overwrite_a, overwrite_b, turbo, check_finite: No effect.

    Returns:
        Eigenvalues, or `(w, v)` with the eigenvectors as columns of `v`. `v.conj().T @ b @ v` is the identity for types 1 and
        2, `v.conj().T @ inv(b) @ v` for type 3. The results are NaN where `b` is not positive definite.

    Example:
        >>> eigh(xnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True)
        Array([1., 3.], dtype=float32)
        >>> eigh(xnp.eye(2), xnp.diag(xnp.array([1.0, 4.0])), eigvals_only=True)
        Array([0.25, 1.  ], dtype=float32)
    """
    if eigvals is not None:
        raise NotImplementedError("eigh computes all eigenvalues: eigvals must be None. Slice the results.")
    if type not in (1, 2, 3):
        raise ValueError(f"the type of eigh must be 1, 2 or 3, got {type!r}.")
    matrices = promote_matrices("eigh", *[x for x in (a, b) if x is not None])
    for x in matrices:
        square("eigh", x)
    if b is None:
        w, v = xnp.linalg.eigh(matrices[0], UPLO="L" if lower else "U")
    else:
        w, v = _generalized_eigh(matrices[0], matrices[1], bool(lower), type)
    return w if eigvals_only else (w, v)


def _generalized_eigh(a, b, lower: bool, problem: int):
    """Solve a generalized problem with the Cholesky factor `L` of `b`, which makes it one of a Hermitian matrix."""
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"eigh takes matrices of one size, got a of shape {a.shape} and b of shape {b.shape}.")
    leading = common_shape(a.shape[:-2], b.shape[:-2])
    a, b = (xnp.broadcast_to((x + adjoint(x)) / 2, (*leading, *x.shape[-2:])) for x in (a, b))
    factor = kernels.cholesky(b, symmetrize_input=False)
    if problem == 1:  # inv(L) a inv(L)^H
        half = kernels.triangular_solve(factor, a, left_side=True, lower=True)
        reduced = kernels.triangular_solve(factor, half, lower=True, transpose_a=True, conjugate_a=True)
    else:  # L^H a L
        reduced = product(adjoint(factor), product(a, factor))
    vectors, values = kernels.eigh(reduced, lower=lower, symmetrize_input=True)
    if problem == 3:
        return values, product(factor, vectors)
    return values, kernels.triangular_solve(factor, vectors, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


def hessenberg(a: Array, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Compute the Hessenberg form of square matrices.

    `H` is zero below the first subdiagonal and `a == Q @ H @ Q.conj().T` for a unitary `Q`.

    Args:
        a: Square matrices of floats or complex numbers.
        calc_q: If True, return `Q` too.
        overwrite_a, check_finite: No effect.

    Returns:
        `H`, or `(H, Q)`.

    Example:
        >>> hessenberg(xnp.eye(2))
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return _hessenberg(a, bool(calc_q))


@library(static="calc_q")
def _hessenberg(a, calc_q):
    n = xnp.asarray(a).shape[-1]
    factors, taus = kernels.hessenberg(a)
    h = xnp.triu(factors, -1)
    if not calc_q:
        return h
    if n < 2:
        return h, xnp.broadcast_to(xnp.eye(n, dtype=h.dtype), h.shape)
    reflections = kernels.householder_product(factors[..., 1:, :-1], taus)
    q = xnp.zeros_like(factors).at[..., 0, 0].set(1).at[..., 1:, 1:].set(reflections)
    return h, q


@library(static="permute_l")
def _lu(a, permute_l):
    [a] = promote_matrices("lu", a)
    factors, _, permutation = kernels.lu(a)
    m, n = a.shape[-2:]
    k = min_dim(m, n)
    lower = xnp.tril(factors[..., :, :k], -1)
    lower += xnp.broadcast_to(xnp.eye(m, k, dtype=factors.dtype), lower.shape)
    upper = xnp.triu(factors[..., :k, :])
    if permute_l:
        inverse_permutation = xnp.argsort(permutation, axis=-1)  # the row of the factors for each row of `a`
        return xnp.take_along_axis(lower, inverse_permutation[..., :, None], -2, mode="promise_in_bounds",
                                   wrap_negative_indices=False), upper
    rows = xnp.arange(m, dtype=permutation.dtype)[:, None]
    return (rows == permutation[..., None, :]).astype(dtypes.to_real(factors.dtype)), lower, upper


def lu(a: Array, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Compute the LU decomposition with partial pivoting, `P @ L @ U == a`.

    Args:
        a: Matrices.
        permute_l: If True, return `P @ L` and `U`.
        overwrite_a, check_finite: No effect.

    Returns:
        Permutation matrix `P`, lower triangular `L` with a unit diagonal and upper triangular `U`; or `(P @ L, U)`.

    Example:
        >>> p, l, u = lu(xnp.array([[1.0, 2.0], [4.0, 6.0]]))
        >>> p @ l @ u
        Array([[1., 2.],
               [4., 6.]], dtype=float32)
    """
    return _lu(a, bool(permute_l))


@library
@accepts(nodes=True)
def lu_factor(a: Array, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Compute the LU decomposition in the form that `lu_solve` takes.

    Args:
        a: Matrices.
        overwrite_a, check_finite: No effect.

    Returns:
        `L` and `U` packed in one array, and pivots: row `i` was swapped with row `piv[i]`.

    Example:
        >>> lu_factor(xnp.array([[1.0, 2.0], [4.0, 6.0]]))[1]
        Array([1, 1], dtype=int32)
    """
    [a] = promote_matrices("lu_factor", a, error=TypeError)
    factors, pivots, _ = kernels.lu(a)
    return factors, pivots


def polar(a: Array, side: str = "right", *, method: str = "qdwh", eps: float | None = None, max_iterations: int | None = None
          ) -> tuple[Array, Array]:
    """Compute the polar decomposition of matrices.

    `u` has orthonormal rows or columns, and `p` is Hermitian positive semidefinite.

    Args:
        a: Matrices.
        side: "right" for `a == u @ p`, "left" for `a == p @ u`.
        method: "qdwh", an iteration of matrix products, or "svd". "qdwh" needs `m >= n` for the right side and `m < n`
            for the left one.
        eps: Accuracy at which the iteration stops.
        max_iterations: Maximum number of iterations.

    Returns:
        `u` and `p`.

    Example:
        >>> u, p = polar(xnp.array([[0.0, -2.0], [3.0, 0.0]]))
        >>> xnp.round(p, 4)
        Array([[3., 0.],
               [0., 2.]], dtype=float32)
    """
    if side not in ("right", "left"):
        raise ValueError(f"side of polar must be 'right' or 'left', got {side!r}.")
    [a] = promote_matrices("polar", a)
    m, n = a.shape[-2:]
    if method == "qdwh":
        if (m < n) if side == "right" else (m >= n):
            raise NotImplementedError(f"polar with method='qdwh' takes matrices with m >= n for side='right' and m < n for "
                                      f"side='left', got shape {a.shape} with side={side!r}. Use method='svd'.")
        def polar_of_one(a):
            return kernels.qdwh(a, max_iterations=max_iterations, eps=eps)[:2]

        for _ in a.shape[:-2]:
            polar_of_one = xf.vmap(polar_of_one)
        u, p = polar_of_one(adjoint(a) if side == "left" else a)
        return (adjoint(u) if side == "left" else u), p
    if method != "svd":
        raise ValueError(f"method of polar must be 'qdwh' or 'svd', got {method!r}.")
    return _polar_by_svd(a, side)


@library(static="side")
def _polar_by_svd(a, side):
    left, s, right = kernels.svd(a, full_matrices=False)
    basis = adjoint(right) if side == "right" else left
    return product(left, right), product(basis * s[..., None, :].astype(a.dtype), adjoint(basis))


@library(static=("mode", "pivoting"))
def _qr(a, mode, pivoting):
    [a] = promote_matrices("qr", a, error=TypeError)
    q, *rest = kernels.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


def qr(a: Array, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
       check_finite: bool = True) -> tuple[Array, ...]:
    """Compute the QR decomposition, `Q @ R == a`.

    Args:
        a: Matrices.
        mode: "full" for a square `Q`, "economic" for at most as many columns as `a` has, "r" to return only `R`.
        pivoting: If True, order the columns by decreasing norm, `Q @ R == a[:, P]`, and return `P` too.
        overwrite_a, lwork, check_finite: No effect.

    Returns:
        `(Q, R)`, `(R,)` for mode "r", with the permutation `P` appended if `pivoting`.

    Example:
        >>> [x.shape for x in qr(xnp.ones((3, 2)), mode="economic")]
        [(3, 2), (2, 2)]
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"mode of scipy.linalg.qr must be 'full', 'economic' or 'r', got {mode!r}.")
    return _qr(a, mode, bool(pivoting))


def qr_multiply(a: Array, c: Array, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
                overwrite_a: bool = False, overwrite_c: bool = False) -> tuple[Array, ...]:
    """Compute the product of the QR decomposition's `Q` and `c`.

    Args:
        a: Matrix, decomposed with `qr(a, mode="economic")`.
        c: Matrix or vector.
        mode: "left" for `Q @ c`, "right" for `c @ Q`.
        pivoting: See `qr`.
        conjugate: If True, use the complex conjugate of `Q`.
        overwrite_a, overwrite_c: No effect.

    Returns:
        The product and `R`, with the permutation appended if `pivoting`.

    Example:
        >>> qr_multiply(xnp.eye(2), xnp.array([3.0, 4.0]))[0]
        Array([3., 4.], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ValueError(f"mode of qr_multiply must be 'left' or 'right', got {mode!r}.")
    return _qr_multiply(a, c, mode, bool(pivoting), bool(conjugate))


@library(static=("mode", "pivoting", "conjugate"))
def _qr_multiply(a, c, mode, pivoting, conjugate):
    a, c = promote_arrays("qr_multiply", a, c)
    check_rank("qr_multiply", a, error=ValueError)
    q, *rest = kernels.qr(a, pivoting=pivoting, full_matrices=False)
    expected = q.shape[-1] if mode == "left" else q.shape[-2]
    actual = c.shape[-1] if mode == "right" or c.ndim == 1 else c.shape[-2]
    if c.ndim == 0 or actual != expected:
        raise ValueError(f"qr_multiply with mode={mode!r} of a with shape {a.shape}, whose Q has shape {q.shape}, needs c to "
                         f"have {expected} {'rows' if mode == 'left' else 'columns'}, got shape {c.shape}.")
    q = xnp.conj(q) if conjugate else q
    return product(q, c) if mode == "left" else product(c, q), *rest


def schur(a: Array, output: str = "real") -> list[Array]:
    """Compute the Schur decomposition of square matrices. Supported on CPU only.

    `a == Z @ T @ Z.conj().T` with an upper triangular `T` and a unitary `Z`.

    Args:
        a: Square matrices of floats or complex numbers.
        output: "real", where `T` of a real matrix has 2-by-2 blocks for pairs of complex eigenvalues, or "complex".

    Returns:
        A list of `T` and `Z`, as in JAX; SciPy returns a tuple.

    Example:
        >>> schur(xnp.array([[2.0, 1.0], [0.0, 3.0]]))[0]
        Array([[2., 1.],
               [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"output of schur must be 'real' or 'complex', got {output!r}.")
    a = xnp.asarray(a)
    if output == "complex":
        a = a.astype(dtypes.to_complex(a.dtype))
    return list(kernels.schur(a))


@library
@accepts(nodes=True)
def rsf2csf(T: Array, Z: Array, check_finite: bool = True) -> tuple[Array, Array]:  # noqa: N803  (SciPy's names)
    """Convert a real Schur form to a complex one, with one rotation per 2-by-2 block.

    Args:
        T, Z: Results of `schur` for a real matrix.
        check_finite: No effect.

    Returns:
        Complex upper triangular `T` and unitary `Z`.

    Example:
        >>> t, z = schur(xnp.array([[0.0, -1.0], [1.0, 0.0]]))
        >>> xnp.round(xnp.diag(rsf2csf(t, z)[0]), 4)
        Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    t, z = promote_matrices("rsf2csf", T, Z)
    n = square("rsf2csf", t)
    if z.shape[-2:] != (n, n):
        raise ValueError(f"rsf2csf takes two square matrices of one size, got shapes {t.shape} and {z.shape}.")
    t, z = broadcast_matrices(*[x.astype(dtypes.to_complex(x.dtype)) for x in (t, z)])
    if t.ndim > 2:
        return xf.vmap(lambda t, z: rsf2csf(t, z))(t, z)
    eps = np.finfo(t.dtype).eps
    positions = xnp.arange(n)

    def step(i, state):
        t, z = state
        m = n - 1 - i
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        below = block[1, 0]
        shifted_eigenvalue = xnp.linalg.eigvals(block)[0] - block[1, 1]  # either would do: LAPACK's first one is SciPy's choice
        length = xnp.hypot(xnp.abs(shifted_eigenvalue), xnp.abs(below)).astype(t.dtype)
        c, s = shifted_eigenvalue / length, below / length
        rotation = xnp.array([[xnp.conj(c), s], [-s, c]])
        is_block = xnp.abs(below) > eps * (xnp.abs(block[0, 0]) + xnp.abs(block[1, 1]))
        rotation = xnp.where(is_block, rotation, xnp.eye(2, dtype=t.dtype))
        rows = lax.dynamic_slice(t, (m - 1, 0), (2, n))
        rows = xnp.where(positions >= m - 1, product(rotation, rows), rows)
        t = lax.dynamic_update_slice(t, rows, (m - 1, 0))
        columns = lax.dynamic_slice(t, (0, m - 1), (n, 2))
        columns = xnp.where(positions[:, None] <= m, product(columns, adjoint(rotation)), columns)
        t = lax.dynamic_update_slice(t, columns, (0, m - 1)).at[m, m - 1].set(0)
        z = lax.dynamic_update_slice(z, product(lax.dynamic_slice(z, (0, m - 1), (n, 2)), adjoint(rotation)), (0, m - 1))
        return t, z

    return lax.fori_loop(0, n - 1, step, (t, z))


@library(static=("full_matrices", "compute_uv", "overwrite_a", "check_finite", "lapack_driver"))
@accepts(objects=True)
def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
        lapack_driver: str = "gesdd") -> Any:
    """Compute the singular value decomposition, `U @ diag(s) @ Vh == a`.

    Args:
        a: Matrices.
        full_matrices: If True, `U` and `Vh` are square.
        compute_uv: If False, return only the singular values.
        overwrite_a, check_finite, lapack_driver: No effect.

    Returns:
        `(U, s, Vh)` or `s`; the singular values are in descending order.

    Example:
        >>> svd(xnp.array([[3.0], [4.0]]), compute_uv=False)
        Array([5.], dtype=float32)
    """
    result = xnp.linalg.svd(xnp.asarray(a), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(result) if compute_uv else result


# Symmetric tridiagonal matrices


@promotes_freely
def eigh_tridiagonal(d: Array, e: Array, *, eigvals_only: bool = False, select: str = "a",
                     select_range: tuple[int, int] | None = None, tol: float | None = None, key: Array | None = None) -> Any:
    """Compute eigenvalues, in ascending order, and eigenvectors of Hermitian tridiagonal matrices.

    Args:
        d: Diagonal, along the last axis.
        e: Diagonal above the main one, along the last axis; the one below it is `conj(e)`.
        eigvals_only: If True, return only the eigenvalues, computed by bisection without forming the matrix.
        select: "a" for all eigenvalues, "i" for those with indices in `select_range`. SciPy's "v" has a result whose
            size depends on values and is not supported.
        select_range: First and last index, both included.
        tol: Absolute tolerance of the bisection.
        key: No effect.

    Returns:
        Eigenvalues, or `(w, v)` with the eigenvectors as columns of `v`.

    Example:
        >>> eigh_tridiagonal(xnp.array([2.0, 2.0]), xnp.array([1.0]), eigvals_only=True)
        Array([1., 3.], dtype=float32)
    """
    if select not in ("a", "i", "v"):
        raise ValueError(f"select of eigh_tridiagonal must be 'a', 'i' or 'v', got {select!r}.")
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal does not support select='v': the size of the result depends on values. "
                                  "Compute all eigenvalues and select with numpy.where or outside of jit.")
    if select == "i" and select_range is None:
        raise ValueError("eigh_tridiagonal with select='i' needs select_range=(first, last).")
    d, e = (xnp.asarray(x) for x in (d, e))
    if not dtypes.is_inexact(d.dtype) or not dtypes.is_inexact(e.dtype):
        raise TypeError(f"eigh_tridiagonal takes floats and complex numbers, got d of dtype {d.dtype} and e of {e.dtype}.")
    if d.ndim == 0 or e.shape != (*d.shape[:-1], d.shape[-1] - 1):
        raise TypeError(f"eigh_tridiagonal needs e with one element less than the diagonal d of shape {d.shape}, got shape "
                        f"{e.shape}.")
    n = d.shape[-1]
    first, last = (0, n - 1) if select == "a" else tuple(int(i) for i in select_range)
    if not 0 <= first <= last < n:
        raise ValueError(f"select_range of eigh_tridiagonal must be (first, last) within 0 and {n - 1}, got {select_range}.")
    return _eigh_tridiagonal(d, e, bool(eigvals_only), first, last, tol)


@library(static=("eigvals_only", "first", "last", "tol"))
def _eigh_tridiagonal(d, e, eigvals_only, first, last, tol):
    d, e = promote_dtypes_inexact(d, e)
    if not eigvals_only:
        zeros = xnp.zeros((*d.shape, d.shape[-1]), d.dtype)
        positions = np.arange(d.shape[-1] - 1)
        full = zeros.at[..., positions + 1, positions].set(xnp.conj(e)).at[..., positions, positions + 1].set(e)
        w, v = kernels.eigh(full + d[..., None] * xnp.eye(d.shape[-1], dtype=d.dtype), symmetrize_input=False)[::-1]
        return w[..., first:last + 1], v[..., first:last + 1]
    return _bisect(xnp.real(d), xnp.abs(e), first, last, tol)


def _bisect(d, off, first, last, tol):
    """Compute eigenvalues by bisection: `A - x` has as many negative pivots as there are eigenvalues below `x`."""
    info = xnp.finfo(d.dtype)
    norm = xnp.maximum(xnp.max(xnp.abs(d), -1, keepdims=True), xnp.max(off, -1, keepdims=True, initial=0.0))
    scale = xnp.where(norm > 0, norm, 1)
    d, off = d / scale, off / scale
    squares = off * off
    pad = [(0, 0)] * (d.ndim - 1)
    radius = xnp.pad(off, [*pad, (1, 0)]) + xnp.pad(off, [*pad, (0, 1)])
    low, high = xnp.min(d - radius, -1), xnp.max(d + radius, -1)
    low, high = low - 16 * info.eps, high + 16 * info.eps  # the matrix is scaled to norm 1
    indices = xnp.arange(first, last + 1)
    rows = xnp.moveaxis(d, -1, 0), xnp.pad(xnp.moveaxis(squares, -1, 0), [(1, 0), *pad])

    def count_below(x):
        def eliminate(state, row):
            pivot, count = state
            diagonal, square = row
            pivot = diagonal[..., None] - square[..., None] / pivot - x
            pivot = xnp.where(xnp.abs(pivot) < info.tiny, -info.tiny, pivot)
            return (pivot, count + (pivot < 0)), None

        return lax.scan(eliminate, (xnp.ones_like(x), xnp.zeros(x.shape, np.int32)), rows)[0][1]

    def halve(i, bounds):
        low, high = bounds
        middle = low + (high - low) / 2
        is_above = count_below(middle) > indices
        return xnp.where(is_above, low, middle), xnp.where(is_above, middle, high)

    shape = (*d.shape[:-1], last - first + 1)
    bounds = tuple(xnp.broadcast_to(b[..., None], shape) for b in (low, high))
    if tol is None:  # each step adds a bit
        low, high = lax.fori_loop(0, info.nmant + 6, halve, bounds)
    else:
        low, high = lax.while_loop(lambda b: xnp.any((b[1] - b[0]) * scale > tol), lambda b: halve(0, b), bounds)
    return (low + (high - low) / 2) * scale
