"""SciPy's solvers of linear systems, inverses and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes, source
from xlafront.lax import linalg as kernels
from xlafront.linalg.factorizations import solve_factored
from xlafront.linalg.kernels import adjoint, check_rank, product, square
from xlafront.numpy.promotion import check_arraylike
from xlafront.runtime.arrays import ArrayImpl as Array
from xlafront.scipy.decompositions import broadcast_matrices, cholesky, promote_arrays, promote_matrices
from xlafront.staging.library import library


def _broadcast_system(name: str, a, b) -> tuple:
    """Return square matrices, right-hand sides as columns with the same batch shape, and a function that restores the
    shape of `b`."""
    a, b = promote_arrays(name, a, b)
    check_rank(name, a, error=ValueError)
    n = square(name, a)
    vector = b.ndim == 1
    if not vector and b.ndim == a.ndim - 1 and b.shape[-1] == n:
        source.warn(f"{name} interprets b of shape {b.shape} with a of shape {a.shape} as one vector per matrix; this will "
                    f"change. Pass b[..., None] and take [..., 0] of the result.", FutureWarning)
        vector = True
    if b.ndim == 0 or b.shape[-1 if vector else -2] != n:
        raise ValueError(f"{name} got inconsistent sizes: a of shape {a.shape} and b of shape {b.shape}. b must be a vector "
                         f"of {n} elements or have {n} rows.")
    b = b[..., None] if vector else b
    a, b = broadcast_matrices(a, b)
    return a, b, lambda x: xnp.squeeze(x, -1) if vector else x


def cho_solve(c_and_lower: tuple[Array, bool], b: Array, overwrite_b: bool = False, check_finite: bool = True) -> Array:
    """Solve `A @ x == b` given the Cholesky factor of `A`.

    Args:
        c_and_lower: Result of `cho_factor`.
        b: Vector, or matrix with right-hand sides as columns.
        overwrite_b, check_finite: No effect.

    Returns:
        Solution with the shape of `b`.

    Example:
        >>> cho_solve((xnp.array([[2.0]]), False), xnp.array([8.0]))
        Array([2.], dtype=float32)
    """
    factor, lower = c_and_lower
    return _cho_solve(factor, b, bool(lower))


@library(static="lower")
def _cho_solve(factor, b, lower):
    factor, b, finish = _broadcast_system("cho_solve", factor, b)
    return finish(_solve_with_cholesky(factor, b, lower))


def _solve_with_cholesky(factor, b, lower):
    options = {"left_side": True, "lower": lower, "conjugate_a": True}
    x = kernels.triangular_solve(factor, b, transpose_a=not lower, **{**options, "conjugate_a": not lower})
    return kernels.triangular_solve(factor, x, transpose_a=lower, **{**options, "conjugate_a": lower})


def lu_solve(lu_and_piv: tuple[Array, Array], b: Array, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
             ) -> Array:
    """Solve `A @ x == b` given the LU decomposition of `A`.

    Args:
        lu_and_piv: Result of `lu_factor`.
        b: Vector, or matrix with right-hand sides as columns.
        trans: 0 to solve with `A`, 1 with its transpose, 2 with its adjoint.
        overwrite_b, check_finite: No effect.

    Returns:
        Solution with the shape of `b`.

    Example:
        >>> lu_solve((xnp.array([[2.0]]), xnp.array([0])), xnp.array([8.0]))
        Array([4.], dtype=float32)
    """
    if trans not in (0, 1, 2) or isinstance(trans, str):
        raise ValueError(f"trans of lu_solve must be 0, 1 or 2, got {trans!r}.")
    factors, pivots = lu_and_piv
    return _lu_solve(factors, pivots, b, int(trans))


@library(static="trans")
def _lu_solve(factors, pivots, b, trans):
    factors, b, finish = _broadcast_system("lu_solve", factors, b)
    permutation = kernels.lu_pivots_to_permutation(pivots, factors.shape[-1])
    permutation = xnp.broadcast_to(permutation, factors.shape[:-1])
    return finish(solve_factored(factors, permutation, b, "NTC"[trans]))


def solve(a: Array, b: Array, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, debug: bool = False,
          check_finite: bool = True, assume_a: str = "gen") -> Array:
    """Solve the linear system `a @ x == b`.

    Args:
        a: Square matrices.
        b: Vector, or matrix with right-hand sides as columns.
        lower: If True, read the lower triangle of a positive definite matrix, otherwise the upper one.
        assume_a: Structure of `a`: "gen" for general, "sym" for symmetric, "her" for Hermitian, "pos" for positive
            definite matrices, which are solved by a Cholesky factorization.
        overwrite_a, overwrite_b, debug, check_finite: No effect.

    Returns:
        Solution with the shape of `b`.

    Example:
        >>> solve(xnp.array([[4.0, 0.0], [0.0, 16.0]]), xnp.array([4.0, 32.0]), assume_a="pos")
        Array([1., 2.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"assume_a of solve must be 'gen', 'sym', 'her' or 'pos', got {assume_a!r}.")
    return _solve_positive(a, b, bool(lower)) if assume_a == "pos" else xnp.linalg.solve(a, b)


@library(static="lower")
def _solve_positive(a, b, lower):
    check_arraylike("solve", a, b)
    a, b, finish = _broadcast_system("solve", a, b)
    factor = cholesky(lax.stop_gradient(a), lower)
    return finish(lax.custom_linear_solve(
        lambda x: product(a, x), b, lambda _, y: _solve_with_cholesky(factor, y, lower),
        symmetric=not dtypes.is_complex(a.dtype),
        transpose_solve=lambda _, y: xnp.conj(_solve_with_cholesky(factor, xnp.conj(y), lower))))


_TRANS_CODES = {0: "N", "N": "N", 1: "T", "T": "T", 2: "C", "C": "C"}


def solve_triangular(a: Array, b: Array, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
                     overwrite_b: bool = False, debug: Any = None, check_finite: bool = True) -> Array:
    """Solve `a @ x == b` for triangular matrices.

    Args:
        a: Square matrices, of which only one triangle is read.
        b: Vector, or matrix with right-hand sides as columns.
        trans: 0 or "N" to solve with `a`, 1 or "T" with its transpose, 2 or "C" with its adjoint.
        lower: If True, `a` is lower triangular.
        unit_diagonal: If True, assume that the diagonal is 1.
        overwrite_b, debug, check_finite: No effect.

    Returns:
        Solution with the shape of `b`.

    Example:
        >>> solve_triangular(xnp.array([[2.0, 1.0], [0.0, 4.0]]), xnp.array([4.0, 8.0]))
        Array([1., 2.], dtype=float32)
    """
    if trans not in _TRANS_CODES:
        raise ValueError(f"trans of solve_triangular must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}.")
    return _solve_triangular(a, b, _TRANS_CODES[trans], bool(lower), bool(unit_diagonal))


@library(static=("trans", "lower", "unit_diagonal"))
def _solve_triangular(a, b, trans, lower, unit_diagonal):
    a, b, finish = _broadcast_system("solve_triangular", a, b)
    return finish(kernels.triangular_solve(a, b, left_side=True, lower=lower, unit_diagonal=unit_diagonal,
                                           transpose_a=trans != "N", conjugate_a=trans == "C"))


def inv(a: Array, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Compute the inverse of square matrices.

    Args:
        a: Square matrices.
        overwrite_a, check_finite: No effect.

    Returns:
        Inverse matrices.

    Example:
        >>> inv(xnp.array([[2.0]]))
        Array([[0.5]], dtype=float32)
    """
    return xnp.linalg.inv(a)


def det(a: Array, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Compute the determinant of square matrices.

    Args:
        a: Square matrices.
        overwrite_a, check_finite: No effect.

    Returns:
        Determinant of each matrix.

    Example:
        >>> det(xnp.array([[1.0, 2.0], [3.0, 4.0]]))
        Array(-2., dtype=float32)
    """
    return xnp.linalg.det(a)


def solve_sylvester(A: Array, B: Array, C: Array, *, method: str = "schur", tol: float = 1e-8) -> Array:  # noqa: N803
    """Solve the Sylvester equation `A @ X + X @ B == C`.

    Args:
        A, B, C: Matrices of shapes `(m, m)`, `(n, n)` and `(m, n)`, whose leading dimensions broadcast.
        method: "schur" to use the Schur forms of `A` and `B` (CPU only), "eigen" to use their eigenvectors.
        tol: If the sum of an eigenvalue of `A` and one of `B` is smaller, the equation is singular and the result is
            NaN.

    Returns:
        Solution `X`.

    Example:
        >>> solve_sylvester(xnp.array([[2.0]]), xnp.array([[3.0]]), xnp.array([[10.0]]))
        Array([[2.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ValueError(f"method of solve_sylvester must be 'schur' or 'eigen', got {method!r}.")
    return _solve_sylvester(A, B, C, method, float(tol))


@library(static=("method", "tol"))
def _solve_sylvester(a, b, c, method, tol):
    a, b, c = promote_matrices("solve_sylvester", a, b, c)
    m, n = square("solve_sylvester", a), square("solve_sylvester", b)
    if c.shape[-2:] != (m, n):
        raise ValueError(f"solve_sylvester needs C of shape ({m}, {n}) for A of shape {a.shape} and B of shape {b.shape}, got "
                         f"{c.shape}.")
    real, wide = not dtypes.is_complex(c.dtype), dtypes.to_complex(c.dtype)
    a, b, c = broadcast_matrices(*[x.astype(wide) for x in (a, b, c)])
    if method == "schur":
        (r, u), (s, v) = kernels.schur(a), kernels.schur(b)
        y = _triangular_sylvester(r, s, product(product(adjoint(u), c), v))
        x = product(product(u, y), adjoint(v))
        p, q = (xnp.diagonal(t, axis1=-2, axis2=-1) for t in (r, s))
    else:
        (p, u), (q, v) = xnp.linalg.eig(a), xnp.linalg.eig(b)
        y = xnp.linalg.solve(u, product(c, v)) / (p[..., :, None] + q[..., None, :])
        x = xnp.linalg.solve(v.mT, product(u, y).mT).mT
    closest = xnp.min(xnp.abs(p[..., :, None] + q[..., None, :]), axis=(-2, -1), keepdims=True)
    x = xnp.where(closest < tol, np.nan, x)
    return xnp.real(x) if real else x


def _triangular_sylvester(r, s, f):
    """Solve the Sylvester equation for upper triangular matrices, column by column."""
    n = s.shape[-1]
    eye = xnp.eye(r.shape[-1], dtype=r.dtype)

    def column(k, y):
        right_side = f[..., :, k, None] - product(y, s[..., :, k, None])
        solution = kernels.triangular_solve(r + s[..., k, k, None, None] * eye, right_side, left_side=True)
        return y.at[..., :, k].set(solution[..., 0])

    return lax.fori_loop(0, n, column, xnp.zeros_like(f))
