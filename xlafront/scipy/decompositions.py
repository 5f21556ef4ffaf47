"""SciPy's ways to take matrices apart. They are those of `lax.linalg`, in the words of `scipy.linalg`.

Matrices are the last two dimensions. Where SciPy lets users say that an argument may be overwritten or need not be checked
(`overwrite_a`, `check_finite`, `lapack_driver`, `lwork`, `turbo`), functions take the parameter, and it has no effect.
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
from xlafront.staging.library import library


def inexact_arrays(name: str, *values) -> list:
    """Arrays of one floating or complex dtype; lists are arrays too."""
    values = [xnp.asarray(x) if x is None or isinstance(x, (list, tuple)) else x for x in values]
    check_arraylike(name, *values)
    return [xnp.asarray(x) for x in promote_dtypes_inexact(*map(unwrap_node, values))]


def matrices(name: str, *values, error: type[Exception] = ValueError) -> list:
    """Arrays of one floating or complex dtype, each with matrices in its last dimensions."""
    arrays = inexact_arrays(name, *values)
    for x in arrays:
        check_rank(name, x, error=error)
    return arrays


@library(static="lower")
def _cholesky(a, lower):
    [a] = matrices("cholesky", a)
    square("cholesky", a)
    factor = kernels.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cholesky(a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The upper triangular `U` with `U.conj().T @ U == a`, or the lower triangular `L` with `L @ L.conj().T == a`.

    - `a`: Hermitian matrices without negative eigenvalues; the result is NaN for others. Only one triangle is read.
    - `lower`: whether to return `L`.
    - `overwrite_a`, `check_finite`: without effect.

    >>> cholesky(xnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return _cholesky(a, bool(lower))


def cho_factor(a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """The Cholesky factor and whether it is the lower one, as `cho_solve` takes them.

    - `a`, `lower`, `overwrite_a`, `check_finite`: as of `cholesky`.

    >>> cho_factor(xnp.array([[4.0]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower), lower


@library(static=("lower", "eigvals_only", "overwrite_a", "overwrite_b", "turbo", "type", "check_finite"), converts=True)
def eigh(a: Array, b: None = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
         overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1, check_finite: bool = True
         ) -> Any:
    """The eigenvalues of Hermitian matrices in ascending order and, as columns, the eigenvectors.

    - `a`: the matrices; `lower` says which triangle is read.
    - `eigvals_only`: return the eigenvalues alone.
    - `b`, `eigvals`, `type`: generalised problems and selections are not there: None, None and 1.
    - `overwrite_a`, `overwrite_b`, `turbo`, `check_finite`: without effect.

    >>> eigh(xnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True)
    Array([1., 3.], dtype=float32)
    """
    if b is not None or type != 1:
        raise NotImplementedError("eigh of generalised problems is not there: b must be None and type 1. Solve it with the "
                                  "Cholesky factor L of b, as eigh of inv(L) @ a @ inv(L).conj().T.")
    if eigvals is not None:
        raise NotImplementedError("eigh computes all eigenvalues: eigvals must be None. Take a slice of the results.")
    w, v = xnp.linalg.eigh(xnp.asarray(a), UPLO="L" if lower else "U", symmetrize_input=False)
    return w if eigvals_only else (w, v)


def hessenberg(a: Array, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Hessenberg form `H` of `a`: nothing below the first subdiagonal, `a == Q @ H @ Q.conj().T`.

    - `a`: square matrices of floats or complex numbers.
    - `calc_q`: return `(H, Q)`.
    - `overwrite_a`, `check_finite`: without effect.

    >>> hessenberg(xnp.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _hessenberg(a, bool(calc_q))


@library(static="calc_q")
def _hessenberg(a, calc_q):
    n = xnp.asarray(a).shape[-1]
    factors, taus = kernels.hessenberg(a)
    form = xnp.triu(factors, -1)
    if not calc_q:
        return form
    if n < 2:
        return form, xnp.broadcast_to(xnp.eye(n, dtype=form.dtype), form.shape)
    reflections = kernels.householder_product(factors[..., 1:, :-1], taus)
    q = xnp.zeros_like(factors).at[..., 0, 0].set(1).at[..., 1:, 1:].set(reflections)
    return form, q


@library(static="permute_l")
def _lu(a, permute_l):
    [a] = matrices("lu", a, error=TypeError)
    factors, _, permutation = kernels.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = xnp.tril(factors[..., :, :k], -1)
    lower += xnp.broadcast_to(xnp.eye(m, k, dtype=factors.dtype), lower.shape)
    upper = xnp.triu(factors[..., :k, :])
    where = xnp.argsort(permutation, axis=-1)  # the row of the factors that stands in each row of `a`
    if permute_l:
        return xnp.take_along_axis(lower, where[..., :, None], -2, mode="promise_in_bounds"), upper
    columns = xnp.arange(m).reshape((1,) * where.ndim + (m,))
    return (where[..., :, None] == columns).astype(dtypes.to_real(factors.dtype)), lower, upper


def lu(a: Array, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """`P`, `L` and `U` with `P @ L @ U == a`: a permutation, a lower triangular matrix with a unit diagonal, an upper one.

    - `a`: the matrices.
    - `permute_l`: return `P @ L` and `U`.
    - `overwrite_a`, `check_finite`: without effect.

    >>> p, l, u = lu(xnp.array([[1.0, 2.0], [4.0, 6.0]]))
    >>> p @ l @ u
    Array([[1., 2.],
           [4., 6.]], dtype=float32)
    """
    return _lu(a, bool(permute_l))


@library
def lu_factor(a: Array, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """`L` and `U` in one array, and the row with which each row was swapped, as `lu_solve` takes them.

    - `a`: the matrices. `overwrite_a`, `check_finite`: without effect.

    >>> lu_factor(xnp.array([[1.0, 2.0], [4.0, 6.0]]))[1]
    Array([1, 1], dtype=int32)
    """
    [a] = matrices("lu_factor", a, error=TypeError)
    factors, swaps, _ = kernels.lu(a)
    return factors, swaps


def polar(a: Array, side: str = "right", *, method: str = "qdwh", eps: float | None = None, max_iterations: int | None = None
          ) -> tuple[Array, Array]:
    """The polar decomposition: `u` with orthonormal rows or columns and `p`, Hermitian without negative eigenvalues.

    - `a`: the matrices.
    - `side`: `"right"` for `a == u @ p`, `"left"` for `a == p @ u`.
    - `method`: `"qdwh"`, iterations of matrix products, or `"svd"`. The former needs at least as many rows as columns on the
      right side, and more columns than rows on the left one.
    - `eps`, `max_iterations`: of the iterations: the accuracy that ends them, and how many there may be.

    >>> u, p = polar(xnp.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> xnp.round(p, 4)
    Array([[3., 0.],
           [0., 2.]], dtype=float32)
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar has the sides 'right' and 'left', got side={side!r}.")
    [a] = matrices("polar", a)
    m, n = a.shape[-2:]
    if method == "qdwh":
        if (m < n) if side == "right" else (m >= n):
            raise NotImplementedError(f"polar with method='qdwh' takes matrices with m >= n for side='right' and m < n for "
                                      f"side='left', got shape {a.shape} with side={side!r}. Use method='svd'.")
        def one(a):
            return kernels.qdwh(a, max_iterations=max_iterations, eps=eps)[:2]

        for _ in a.shape[:-2]:
            one = xf.vmap(one)
        u, p = one(adjoint(a) if side == "left" else a)
        return (adjoint(u) if side == "left" else u), p
    if method != "svd":
        raise ValueError(f"polar has the methods 'qdwh' and 'svd', got method={method!r}.")
    return _polar_by_svd(a, side)


@library(static="side")
def _polar_by_svd(a, side):
    left, s, right = kernels.svd(a, full_matrices=False)
    outer = adjoint(right) if side == "right" else left
    return product(left, right), product(outer * s[..., None, :].astype(a.dtype), adjoint(outer))


@library(static=("mode", "pivoting"))
def _qr(a, mode, pivoting):
    [a] = matrices("qr", a, error=TypeError)
    q, *rest = kernels.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


def qr(a: Array, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
       check_finite: bool = True) -> tuple[Array, ...]:
    """`Q` with orthonormal columns and an upper triangular `R` with `Q @ R == a`.

    - `a`: the matrices.
    - `mode`: `"full"` for a square `Q`, `"economic"` for no more columns than `a` has, `"r"` for `(R,)` alone.
    - `pivoting`: put columns with more to them first: `Q @ R == a[:, P]`, and `P` is the last result.
    - `overwrite_a`, `lwork`, `check_finite`: without effect.

    >>> [x.shape for x in qr(xnp.ones((3, 2)), mode="economic")]
    [(3, 2), (2, 2)]
    """
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"qr of scipy has the modes 'full', 'economic' and 'r', got {mode!r}.")
    return _qr(a, mode, bool(pivoting))


def qr_multiply(a: Array, c: Array, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
                overwrite_a: bool = False, overwrite_c: bool = False) -> tuple[Array, ...]:
    """`Q` of `qr(a, mode="economic")` times `c`, and `R`; with `pivoting` also the columns.

    - `a`: a matrix. `c`: a matrix or a vector.
    - `mode`: `"left"` for `Q @ c`, `"right"` for `c @ Q`.
    - `pivoting`: as of `qr`. `conjugate`: take the conjugate of `Q`.
    - `overwrite_a`, `overwrite_c`: without effect.

    >>> qr_multiply(xnp.eye(2), xnp.array([3.0, 4.0]))[0]
    Array([3., 4.], dtype=float32)
    """
    if mode not in ("left", "right"):
        raise ValueError(f"qr_multiply has the modes 'left' and 'right', got {mode!r}.")
    return _qr_multiply(a, c, mode, bool(pivoting), bool(conjugate))


@library(static=("mode", "pivoting", "conjugate"))
def _qr_multiply(a, c, mode, pivoting, conjugate):
    a, c = inexact_arrays("qr_multiply", a, c)
    check_rank("qr_multiply", a, error=ValueError)
    q, *rest = kernels.qr(a, pivoting=pivoting, full_matrices=False)
    wanted = q.shape[-1] if mode == "left" else q.shape[-2]
    found = c.shape[-1] if mode == "right" or c.ndim == 1 else c.shape[-2]
    if c.ndim == 0 or found != wanted:
        raise ValueError(f"qr_multiply with mode={mode!r} of a with shape {a.shape}, whose Q has shape {q.shape}, needs c to "
                         f"have {wanted} {'rows' if mode == 'left' else 'columns'}, got shape {c.shape}.")
    q = xnp.conj(q) if conjugate else q
    return product(q, c) if mode == "left" else product(c, q), *rest


def schur(a: Array, output: str = "real") -> tuple[Array, Array]:
    """An upper triangular `T` and a unitary `Z` with `a == Z @ T @ Z.conj().T`; CPU alone.

    - `a`: square matrices of floats or complex numbers.
    - `output`: `"real"`, for which `T` of a real matrix has blocks of two rows for pairs of complex eigenvalues, or
      `"complex"`.

    >>> schur(xnp.array([[2.0, 1.0], [0.0, 3.0]]))[0]
    Array([[2., 1.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(f"schur has the outputs 'real' and 'complex', got {output!r}.")
    a = xnp.asarray(a)
    if output == "complex":
        a = a.astype(dtypes.to_complex(a.dtype))
    form, vectors = kernels.schur(a)
    return form, vectors


@library
def rsf2csf(T: Array, Z: Array, check_finite: bool = True) -> tuple[Array, Array]:  # noqa: N803  (SciPy's names)
    """A real Schur form as a complex one, by a rotation for each block of two rows.

    - `T`, `Z`: what `schur` gives for real matrices. `check_finite`: without effect.

    >>> t, z = schur(xnp.array([[0.0, -1.0], [1.0, 0.0]]))
    >>> xnp.round(xnp.diag(rsf2csf(t, z)[0]), 4)
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    t, z = matrices("rsf2csf", T, Z)
    n = square("rsf2csf", t)
    if z.shape != t.shape:
        raise ValueError(f"rsf2csf takes two square matrices of one shape, got {t.shape} and {z.shape}.")
    t, z = (x.astype(dtypes.to_complex(x.dtype)) for x in (t, z))
    if t.ndim > 2:
        return xf.vmap(lambda t, z: rsf2csf(t, z))(t, z)
    eps = np.finfo(t.dtype).eps
    place = xnp.arange(n)

    def step(i, state):
        t, z = state
        m = n - 1 - i
        block = lax.dynamic_slice(t, (m - 1, m - 1), (2, 2))
        below = block[1, 0]
        half, inner = (block[0, 0] - block[1, 1]) / 2, block[0, 1] * below
        other = half + xnp.sqrt(half * half + inner)  # an eigenvalue of the block, less its last element
        length = xnp.hypot(xnp.abs(other), xnp.abs(below)).astype(t.dtype)
        c, s = other / length, below / length
        turn = xnp.array([[xnp.conj(c), s], [-s, c]])
        needed = xnp.abs(below) > eps * (xnp.abs(block[0, 0]) + xnp.abs(block[1, 1]))
        turn = xnp.where(needed, turn, xnp.eye(2, dtype=t.dtype))
        rows = lax.dynamic_slice(t, (m - 1, 0), (2, n))
        rows = xnp.where(place >= m - 1, product(turn, rows), rows)
        t = lax.dynamic_update_slice(t, rows, (m - 1, 0))
        columns = lax.dynamic_slice(t, (0, m - 1), (n, 2))
        columns = xnp.where(place[:, None] <= m, product(columns, adjoint(turn)), columns)
        t = lax.dynamic_update_slice(t, columns, (0, m - 1)).at[m, m - 1].set(0)
        z = lax.dynamic_update_slice(z, product(lax.dynamic_slice(z, (0, m - 1), (n, 2)), adjoint(turn)), (0, m - 1))
        return t, z

    return lax.fori_loop(0, n - 1, step, (t, z))


@library(static=("full_matrices", "compute_uv", "overwrite_a", "check_finite", "lapack_driver"), converts=True)
def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
        lapack_driver: str = "gesdd") -> Any:
    """Singular values `s`, and orthonormal `U` and `Vh` with `U @ diag(s) @ Vh == a`.

    - `a`: the matrices.
    - `full_matrices`: whether `U` and `Vh` are square. `compute_uv`: whether they are computed at all.
    - `overwrite_a`, `check_finite`, `lapack_driver`: without effect.

    >>> svd(xnp.array([[3.0], [4.0]]), compute_uv=False)
    Array([5.], dtype=float32)
    """
    found = xnp.linalg.svd(xnp.asarray(a), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(found) if compute_uv else found


# Symmetric tridiagonal matrices


@promotes_freely
def eigh_tridiagonal(d: Array, e: Array, *, eigvals_only: bool = False, select: str = "a",
                     select_range: tuple[int, int] | None = None, tol: float | None = None, key: Array | None = None) -> Any:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian tridiagonal matrices.

    - `d`, `e`: the diagonal and the one beside it, along the last dimension.
    - `eigvals_only`: return the eigenvalues alone, which are found by bisection, without making the matrix.
    - `select`: `"a"` for all, `"i"` for those with the indices in `select_range`, the last one included. (SciPy's `"v"` would
      have
      a number of results that depends on values.)
    - `tol`: how far eigenvalues may be off, of bisection. `key`: without effect.

    >>> eigh_tridiagonal(xnp.array([2.0, 2.0]), xnp.array([1.0]), eigvals_only=True)
    Array([1., 3.], dtype=float32)
    """
    if select not in ("a", "i", "v"):
        raise ValueError(f"eigh_tridiagonal has select='a', 'i' and 'v', got {select!r}.")
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal with select='v' has a number of results that depends on values. Compute "
                                  "all, and choose with xnp.where or outside of jit.")
    if select == "i" and select_range is None:
        raise ValueError("eigh_tridiagonal with select='i' needs select_range=(first, last).")
    d, e = (xnp.asarray(x) for x in (d, e))
    if not dtypes.is_inexact(d.dtype) or not dtypes.is_inexact(e.dtype):
        raise TypeError(f"eigh_tridiagonal takes floats and complex numbers, got d of dtype {d.dtype} and e of {e.dtype}.")
    if d.ndim == 0 or e.shape != (*d.shape[:-1], d.shape[-1] - 1):
        raise TypeError(f"eigh_tridiagonal of a diagonal d of shape {d.shape} needs one element less in e, got {e.shape}.")
    n = d.shape[-1]
    first, last = (0, n - 1) if select == "a" else tuple(int(i) for i in select_range)
    if not 0 <= first <= last < n:
        raise ValueError(f"select_range of eigh_tridiagonal must be (first, last) within 0 and {n - 1}, got {select_range}.")
    return _eigh_tridiagonal(d, e, bool(eigvals_only), first, last, tol)


@library(static=("eigvals_only", "first", "last", "tol"))
def _eigh_tridiagonal(d, e, eigvals_only, first, last, tol):
    d, e = promote_dtypes_inexact(d, e)
    if not eigvals_only:
        off = xnp.zeros((*d.shape, d.shape[-1]), d.dtype)
        place = np.arange(d.shape[-1] - 1)
        full = off.at[..., place + 1, place].set(e).at[..., place, place + 1].set(xnp.conj(e))
        w, v = kernels.eigh(full + d[..., None] * xnp.eye(d.shape[-1], dtype=d.dtype), symmetrize_input=False)[::-1]
        return w[..., first:last + 1], v[..., first:last + 1]
    return _bisected(xnp.real(d), xnp.abs(e), first, last, tol)


def _bisected(d, off, first, last, tol):
    """Eigenvalues between bounds that are halved: as many lie below x as elimination of `A - x` has negative pivots."""
    info = np.finfo(d.dtype)
    size = xnp.maximum(xnp.max(xnp.abs(d), -1, keepdims=True), xnp.max(off, -1, keepdims=True, initial=0.0))
    scale = xnp.where(size > 0, size, 1)
    d, off = d / scale, off / scale
    squares = off * off
    pad = [(0, 0)] * (d.ndim - 1)
    radius = xnp.pad(off, [*pad, (1, 0)]) + xnp.pad(off, [*pad, (0, 1)])
    low, high = xnp.min(d - radius, -1), xnp.max(d + radius, -1)
    low, high = low - 16 * info.eps, high + 16 * info.eps  # of numbers of size 1
    wanted = xnp.arange(first, last + 1)
    rows = xnp.moveaxis(d, -1, 0), xnp.pad(xnp.moveaxis(squares, -1, 0), [(1, 0), *pad])

    def below(x):
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
        enough = below(middle) > wanted
        return xnp.where(enough, low, middle), xnp.where(enough, middle, high)

    shape = (*d.shape[:-1], last - first + 1)
    bounds = tuple(xnp.broadcast_to(b[..., None], shape) for b in (low, high))
    if tol is None:  # each step adds a bit
        low, high = lax.fori_loop(0, info.nmant + 6, halve, bounds)
    else:
        low, high = lax.while_loop(lambda b: xnp.any((b[1] - b[0]) * scale > tol), lambda b: halve(0, b), bounds)
    return (low + (high - low) / 2) * scale
