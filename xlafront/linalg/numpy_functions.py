"""`numpy.linalg`: linear systems, decompositions, determinants, norms and products of matrices.

Matrices are the last two dimensions of arrays; functions broadcast over the dimensions before them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import linalg as kernels
from xlafront.lax.elementwise import constant_like
from xlafront.linalg.factorizations import solve_factored
from xlafront.linalg.kernels import adjoint, check_rank, floating, product, square as square_size
from xlafront.linalg.orthogonal import geqrf_p
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact, promotes_freely, unwrap_node
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape, known, max_dim


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors, the result of `eig`.

    Attributes:
        eigenvalues: Eigenvalues, in no particular order.
        eigenvectors: Eigenvectors, as columns.
    """

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors, the result of `eigh`.

    Attributes:
        eigenvalues: Eigenvalues in ascending order.
        eigenvectors: Orthonormal eigenvectors, as columns.
    """

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """The factors of a matrix, the result of `qr`.

    Attributes:
        Q: Matrix with orthonormal columns.
        R: Upper triangular matrix.
    """

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Sign and logarithm of a determinant, the result of `slogdet`.

    Attributes:
        sign: Sign of the determinant; for complex matrices a number of absolute value 1.
        logabsdet: Logarithm of its absolute value.
    """

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """The singular value decomposition of a matrix, the result of `svd`: `U @ diag(S) @ Vh` equals the matrix.

    Attributes:
        U: Left singular vectors, as columns.
        S: Singular values in descending order.
        Vh: Right singular vectors, as rows.
    """

    U: Any
    S: Any
    Vh: Any


def _promote_inexact(name: str, *values) -> list:
    """Convert values to arrays of one floating or complex dtype."""
    check_arraylike(name, *values)
    return [xnp.asarray(x) for x in promote_dtypes_inexact(*map(unwrap_node, values))]


def _promote_matrices(name: str, *values, square: bool = False, error: type[Exception] = ValueError) -> list:
    """Convert values to arrays of one floating or complex dtype with at least two dimensions."""
    arrays = _promote_inexact(name, *values)
    for x in arrays:
        _square_size(name, x, error) if square else check_rank(name, x, error=error)
    return arrays


def _square_size(name: str, x, error: type[Exception] = ValueError) -> int:
    """Return the number of rows of square matrices."""
    check_rank(name, x, error=error)
    return square_size(name, x)


# Linear systems


@library
def _solve(a, b):
    a, b = _promote_inexact("solve", a, b)
    n, vector = _square_size("solve", a), b.ndim == 1
    if b.ndim == 0 or b.shape[-1 if vector else -2] != n:
        raise ValueError(f"solve got incompatible shapes: a {a.shape}, b {b.shape}. b must be a vector of {n} "
                         f"elements or have that many rows. To solve for one vector per matrix, pass b[..., None] and "
                         f"take [..., 0] of the result.")
    b = b[:, None] if vector else b
    if a.ndim == 2 and b.ndim > 2:  # one matrix: solve for all right-hand sides at once
        columns = xnp.moveaxis(b, -2, 0)
        x = _solve_matrices(a, columns.reshape(columns.shape[0], -1)).reshape(columns.shape)
        return xnp.moveaxis(x, 0, -2)
    x = _solve_matrices(a, b)
    return xnp.squeeze(x, -1) if vector else x


def _solve_matrices(a, b):
    """Solve a system by LU factors, which JVP and transpose reuse."""
    factors, _, permutation = kernels.lu(lax.stop_gradient(a))
    batch = common_shape(a.shape[:-2], b.shape[:-2])
    factors, permutation = (xnp.broadcast_to(x, batch + x.shape[a.ndim - 2:]) for x in (factors, permutation))
    b = xnp.broadcast_to(b, batch + b.shape[-2:])
    return lax.custom_linear_solve(
        lambda x: product(a, x), b, solve=lambda _, y: solve_factored(factors, permutation, y),
        transpose_solve=lambda _, y: solve_factored(factors, permutation, y, "T"))


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve linear systems `a @ x == b`.

    Args:
        a: Square matrices.
        b: Vector, or matrices with right-hand sides as columns.

    Returns:
        Solution `x` with the shape of `b`.

    Example:
        >>> xnp.linalg.solve(xnp.array([[2.0, 0.0], [1.0, 4.0]]), xnp.array([2.0, 9.0]))
        Array([1., 2.], dtype=float32)
    """
    return _solve(a, b)


@library
@accepts(nodes=True)
def inv(a: ArrayLike) -> Array:
    """Compute the inverse of square matrices.

    To apply an inverse, use `solve`, which is faster and more accurate.

    Args:
        a: Square matrices.

    Returns:
        Inverse matrices, with infinities or NaN for singular matrices.

    Example:
        >>> xnp.linalg.inv(xnp.array([[2.0, 0.0], [0.0, 4.0]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    [a] = _promote_matrices("inv", a, square=True)
    return _solve_matrices(*promote_dtypes(a, xnp.broadcast_to(xnp.eye(a.shape[-1], dtype=a.dtype), a.shape)))


@library(static="rcond")
def _lstsq(a, b, rcond):
    a, b = _promote_inexact("lstsq", a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[0] != b.shape[0]:
        raise (TypeError if a.ndim and b.ndim and a.shape[0] == b.shape[0] else ValueError)(
            f"lstsq takes a matrix and a vector or matrix with as many rows, got shapes {a.shape} and {b.shape}.")
    vector, (m, n) = b.ndim == 1, a.shape
    b = b[:, None] if vector else b
    real = dtypes.to_real(a.dtype)
    if not a.size:
        return (xnp.zeros(n if vector else (n, b.shape[1]), a.dtype), xnp.sum(xnp.abs(b) ** 2, axis=0), xnp.zeros((), int),
                xnp.zeros(0, real))
    u, s, vh = kernels.svd(a, full_matrices=False)
    eps = float(xnp.finfo(a.dtype).eps)
    rcond = eps * max_dim(m, n) if rcond is None else eps if rcond < 0 else rcond
    significant = (s > 0) & (s >= rcond * s[0])
    inverse = 1 / xnp.where(significant, s, np.inf)
    x = product(adjoint(vh), inverse[:, None].astype(a.dtype) * product(adjoint(u), b))
    residuals = xnp.sum(xnp.abs(b - product(a, x)) ** 2, axis=0)
    return x[:, 0] if vector else x, residuals, xnp.sum(significant, dtype=int), s


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None, *,
          numpy_resid: bool = False) -> tuple[Array, Array, Array, Array]:
    """Compute the least-squares solution of a linear system.

    Args:
        a: Matrix.
        b: Vector, or matrix with right-hand sides as columns.
        rcond: Singular values below this fraction of the largest one count as zero. Default: the dtype's precision
            times the larger size of `a`.
        numpy_resid: If True, return no residuals where NumPy does not: if the rank is not full or the system is not
            overdetermined. The rank must then be concrete, so this does not work under `jit`.

    Returns:
        Solution `x`, squared residuals, rank and singular values of `a`.

    Example:
        >>> x, rest, rank, s = xnp.linalg.lstsq(xnp.array([[2.0], [0.0]]), xnp.array([4.0, 3.0]))
        >>> x, rest
        (Array([2.], dtype=float32), Array([9.], dtype=float32))
    """
    x, residuals, rank, s = _lstsq(a, b, None if rcond is None else float(rcond))
    m, n = np.shape(a)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = xnp.zeros(0, residuals.dtype)
    return x, residuals, rank, s


@functools.partial(xf.custom_jvp, nondiff_argnums=(2,))
def _pinv(a, rtol, hermitian):
    if hermitian:
        v, w = kernels.eigh(a)
        significant = xnp.abs(w) > rtol[..., None] * xnp.max(xnp.abs(w), axis=-1, keepdims=True)
        return product(v / xnp.where(significant, w, np.inf)[..., None, :].astype(v.dtype), adjoint(v))
    u, s, vh = kernels.svd(a, full_matrices=False)
    significant = s > rtol[..., None] * s[..., :1]
    return product(adjoint(vh), adjoint(u) / xnp.where(significant, s, np.inf)[..., :, None].astype(u.dtype))


@_pinv.defjvp
@promotes_freely
def _pinv_jvp(hermitian, primals, tangents):
    """Differentiate the pseudoinverse (Golub and Pereyra, 1973)."""
    (a, rtol), (a_t, _) = primals, tangents
    p = _pinv(a, rtol, hermitian)
    ph, a_th = adjoint(p), adjoint(a_t)
    by_rows, by_columns = _product_of_three(p, ph, a_th), _product_of_three(a_th, ph, p)
    return p, (-_product_of_three(p, a_t, p) + by_rows - _product_of_three(by_rows, a, p)
               + by_columns - _product_of_three(p, a, by_columns))


def _product_of_three(a, b, c):
    """Multiply three matrices, first the pair with the smaller product."""
    if a.shape[-2] * b.shape[-1] <= b.shape[-2] * c.shape[-1]:
        return product(product(a, b), c)
    return product(a, product(b, c))


@library(static="hermitian")
@promotes_freely
def _pinv_kernel(a, rtol, hermitian):
    [a] = _promote_matrices("pinv", a, square=hermitian)
    if not a.size:
        return xnp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if rtol is None:
        rtol = 10 * max_dim(*a.shape[-2:]) * xnp.finfo(a.dtype).eps
    return _pinv(a, xnp.asarray(rtol, dtypes.to_real(a.dtype)), hermitian)


def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None) -> Array:
    """Compute the Moore-Penrose pseudoinverse of matrices.

    Args:
        a: Matrices.
        rtol: Singular values below this fraction of the largest one count as zero. Default: a multiple of the dtype's
            precision.
        hermitian: If True, assume Hermitian matrices and use eigenvalues in place of singular values.
        rcond: Older name of `rtol`.

    Returns:
        Pseudoinverse of each matrix.

    Example:
        >>> xnp.linalg.pinv(xnp.array([[2.0, 0.0]]))
        Array([[0.5],
               [0. ]], dtype=float32)
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv takes rtol or rcond, two names of one argument: pass only one of them.")
    return _pinv_kernel(a, rcond if rtol is None else rtol, bool(hermitian))


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Compute the inverse of an array as a linear map, with respect to `tensordot`.

    Args:
        a: Array; the product of the first `ind` dimensions must equal that of the others.
        ind: Number of leading dimensions that count as rows.

    Returns:
        Array of shape `a.shape[ind:] + a.shape[:ind]`.

    Example:
        >>> xnp.linalg.tensorinv(xnp.eye(6).reshape(2, 3, 6)).shape
        (6, 2, 3)
    """
    return _tensorinv(a, operator.index(ind))


@library(static="ind")
def _tensorinv(a, ind):
    a = xnp.asarray(a)
    if ind <= 0:
        raise ValueError(f"tensorinv takes ind as a positive number of dimensions, got {ind}.")
    rows, columns = math.prod(a.shape[:ind]), math.prod(a.shape[ind:])
    if rows != columns:
        raise ValueError(f"tensorinv with ind={ind} of an array of shape {a.shape} would invert a matrix of {rows} rows and "
                         f"{columns} columns, which must be equal.")
    return inv(a.reshape(rows, columns)).reshape(*a.shape[ind:], *a.shape[:ind])


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Solve `tensordot(a, x, x.ndim) == b`.

    Args:
        a: Array whose leading dimensions are those of `b`.
        b: Right-hand side.
        axes: Axes of `a` to move to its end before solving.

    Returns:
        Solution of shape `a.shape[b.ndim:]`.

    Example:
        >>> xnp.linalg.tensorsolve(xnp.eye(6).reshape(2, 3, 6), xnp.ones((2, 3))).shape
        (6,)
    """
    return _tensorsolve(a, b, None if axes is None else tuple(axes))


@library(static="axes")
def _tensorsolve(a, b, axes):
    a, b = xnp.asarray(a), xnp.asarray(b)
    if axes is not None:
        a = xnp.moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    if a.shape[:b.ndim] != b.shape:
        raise ValueError(f"tensorsolve: the leading dimensions of a, {a.shape[:b.ndim]}{' with axes moved' if axes else ''}, "
                         f"must be the shape of b, {b.shape}.")
    shape = a.shape[b.ndim:]
    return solve(a.reshape(b.size, -1), b.ravel()).reshape(shape)


# Determinants


def _sum_of_last(x):
    """Sum over the last dimension in the dtype of `x`; `xnp.sum` converts 64-bit arrays if 64-bit types are disabled."""
    return lax.reduce_sum(x, axes=(x.ndim - 1,))


def _product_of_last(x):
    """Multiply the elements of the last dimension, as `_sum_of_last` adds them."""
    return lax.reduce_prod(x, axes=(x.ndim - 1,))


def _trace(x):
    """Sum the diagonals of square matrices, as `_sum_of_last` sums vectors."""
    is_diagonal = xnp.eye(x.shape[-1], dtype=bool)
    return lax.reduce_sum(xnp.where(is_diagonal, x, constant_like(x, 0)), axes=(x.ndim - 2, x.ndim - 1))


def _lu_sign(factors, pivots):
    """Return the sign of the row permutation and the diagonal of `U`."""
    rows = xnp.arange(pivots.shape[-1], dtype=pivots.dtype)
    parity = xnp.sum(pivots != rows, axis=-1) % 2
    return to_dtype(xnp.where(parity == 1, -1, 1), factors.dtype), diagonal(factors)


@xf.custom_jvp
def _det(a):
    factors, pivots, _ = kernels.lu(a)
    sign, diagonal_u = _lu_sign(factors, pivots)
    return sign * _product_of_last(diagonal_u)


@_det.defjvp
def _det_jvp(primals, tangents):
    """Compute `det(A)' = trace(adj(A) A')`, where the adjugate is `det(A) A^-1` for regular A.

    If A lacks one rank, one pivot is 0. It is replaced by 1 to solve the system; the rows below it are multiplied by
    that 0, and the rows above follow from its row alone.
    """
    [a], [a_t] = primals, tangents
    factors, pivots, permutation = kernels.lu(a)
    sign, diagonal_u = _lu_sign(factors, pivots)
    is_zero = diagonal_u == 0
    zero = constant_like(a, 0)
    filled = xnp.where(is_zero, constant_like(a, 1), diagonal_u)
    is_filled = is_zero[..., None, :] & xnp.eye(a.shape[-1], dtype=bool)
    filled_factors = xnp.where(is_filled, constant_like(a, 1), factors)
    x = solve_factored(filled_factors, permutation, a_t)
    row = xnp.where(is_zero[..., None], x, zero)
    upper = kernels.triangular_solve(filled_factors, row, left_side=True)
    singular = xnp.any(is_zero, axis=-1)
    scale = xnp.where(xnp.sum(is_zero, axis=-1) > 1, zero, sign * _product_of_last(filled))
    tangent = _trace(xnp.where(singular[..., None, None], upper, x)) * scale
    return sign * _product_of_last(diagonal_u), tangent


@library
@accepts(nodes=True)
def det(a: ArrayLike) -> Array:
    """Compute the determinant of square matrices.

    Args:
        a: Square matrices.

    Returns:
        Determinant of each matrix.

    Example:
        >>> xnp.linalg.det(xnp.array([[1.0, 2.0], [3.0, 4.0]]))
        Array(-2., dtype=float32)
    """
    [a] = _promote_matrices("det", a, square=True)
    n = known(a.shape[-1], 4)
    if n > 3:
        return _det(a)
    x: Any = [[a[..., i, j] for j in range(n)] for i in range(n)]
    if n == 0:
        return lax.full_like(a, 1, shape=a.shape[:-2])
    if n == 1:
        return x[0][0]
    if n == 2:
        return x[0][0] * x[1][1] - x[0][1] * x[1][0]
    return (x[0][0] * (x[1][1] * x[2][2] - x[1][2] * x[2][1]) - x[0][1] * (x[1][0] * x[2][2] - x[1][2] * x[2][0])
            + x[0][2] * (x[1][0] * x[2][1] - x[1][1] * x[2][0]))


def _sign_and_log(sign, factors):
    """Return the sign and the log of the absolute value of the product of `sign` and `factors`."""
    magnitude = xnp.abs(factors)
    has_zero = xnp.any(magnitude == 0, axis=-1)
    magnitude = xnp.where(magnitude == 0, constant_like(magnitude, 1), magnitude)
    sign = sign * _product_of_last(factors / to_dtype(magnitude, factors.dtype))
    log = _sum_of_last(xnp.log(magnitude))
    return xnp.where(has_zero, constant_like(sign, 0), sign), xnp.where(has_zero, constant_like(log, -xnp.inf), log)


def _small_pivots(a):
    """Return the sign of the permutation and the pivots of `lu` for matrices of size 1 or 2, computed without kernel
    calls."""
    if a.shape[-1] == 1:
        return lax.full_like(a, 1, shape=a.shape[:-2]), a[..., 0]
    (top, above), (low, below) = [[a[..., i, j] for j in range(2)] for i in range(2)]
    is_swapped = xnp.abs(low) > xnp.abs(top)
    first = xnp.where(is_swapped, low, top)
    ratio = xnp.where(is_swapped, top, low) / xnp.where(first == 0, constant_like(first, 1), first)
    second = xnp.where(is_swapped, above - ratio * below, below - ratio * above)
    return to_dtype(xnp.where(is_swapped, -1, 1), a.dtype), lax.concatenate([first[..., None], second[..., None]], a.ndim - 2)


def _small_log_det_tangent(sign, pivots, a, a_t):
    """Compute the trace of `A^-1 A'` for matrices of size 1 or 2."""
    if a.shape[-1] == 1:
        return (a_t / a)[..., 0, 0]
    first, second = pivots[..., 0], pivots[..., 1]
    x = a / first[..., None, None]
    total = x[..., 1, 1] * a_t[..., 0, 0] - x[..., 0, 1] * a_t[..., 1, 0] - x[..., 1, 0] * a_t[..., 0, 1]
    return sign * (total + x[..., 0, 0] * a_t[..., 1, 1]) / second


@functools.partial(xf.custom_jvp, nondiff_argnums=(1,))
def _slogdet(a, method):
    if method == "lu" and known(a.shape[-1], 3) <= 2:
        return _sign_and_log(*_small_pivots(a))
    if method == "lu":
        factors, pivots, _ = kernels.lu(a)
        return _sign_and_log(*_lu_sign(factors, pivots))
    factors, taus = geqrf_p.bind(a)
    is_used = taus != 0  # a reflection with the factor tau has the determinant -tau / conj(tau)
    one = constant_like(taus, 1)
    determinants = -taus / xnp.where(is_used, xnp.conj(taus), one)
    return _sign_and_log(_product_of_last(xnp.where(is_used, determinants, one)), diagonal(factors))


@_slogdet.defjvp
@promotes_freely
def _slogdet_jvp(method, primals, tangents):
    [a], [a_t] = primals, tangents
    if method == "lu" and known(a.shape[-1], 3) <= 2:
        permutation_sign, pivots = _small_pivots(a)
        sign, log_size = _sign_and_log(permutation_sign, pivots)
        tangent = _small_log_det_tangent(permutation_sign, pivots, a, a_t)
    else:
        factors, pivots, permutation = kernels.lu(a)
        sign, log_size = _sign_and_log(*_lu_sign(factors, pivots)) if method == "lu" else _slogdet(a, method)
        tangent = _trace(solve_factored(factors, permutation, a_t))
    if not dtypes.is_complex(a.dtype):
        return (sign, log_size), (xnp.zeros_like(sign), tangent)
    return (sign, log_size), (sign * (constant_like(sign, 1j) * to_dtype(tangent.imag, sign.dtype)), tangent.real)


@library(static="method")
@promotes_freely
def _slogdet_kernel(a, method):
    [a] = _promote_matrices("slogdet", a, square=True)
    if not a.shape[-1]:
        sizes = a.shape[:-2]
        return SlogdetResult(lax.full_like(a, 1, shape=sizes), lax.full_like(a, 0, dtypes.to_real(a.dtype), sizes))
    return SlogdetResult(*_slogdet(a, method))


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Compute the sign of the determinant and the logarithm of its absolute value, which does not overflow.

    Args:
        a: Square matrices.
        method: Factorization to use: "lu" (default) or "qr".

    Returns:
        `SlogdetResult(sign, logabsdet)`.

    Example:
        >>> xnp.linalg.slogdet(xnp.array([[0.0, 1.0], [1.0, 0.0]]))
        SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"method of slogdet must be 'lu' or 'qr', got {method!r}.")
    return _slogdet_kernel(a, method or "lu")


# Decompositions


@library(static=("upper", "symmetrize_input"))
def _cholesky(a, upper, symmetrize_input):
    [a] = _promote_inexact("cholesky", a)
    factor = kernels.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Compute the lower triangular Cholesky factor `L`, with `L @ L.conj().T == a`.

    Args:
        a: Hermitian positive definite matrices.
        upper: If True, return the upper triangular `U` with `U.conj().T @ U == a`.
        symmetrize_input: If True, replace `a` by the mean of `a` and its conjugate transpose; if False, read the lower
            triangle only, also with `upper`.

    Returns:
        Cholesky factors, NaN for matrices that are not positive definite.

    Example:
        >>> xnp.linalg.cholesky(xnp.array([[4.0, 2.0], [2.0, 5.0]]), upper=True)
        Array([[2., 1.],
               [0., 2.]], dtype=float32)
    """
    return _cholesky(a, bool(upper), bool(symmetrize_input))


@library(static="mode")
def _qr(a, mode):
    [a] = _promote_matrices("qr", a, error=TypeError)
    if mode == "raw":
        factors, taus = geqrf_p.bind(a)
        return QRResult(factors.mT, taus)
    q, r = kernels.qr(a, full_matrices=mode in ("full", "complete"))
    return r if mode == "r" else QRResult(q, r)


def qr(a: ArrayLike, mode: str = "reduced") -> QRResult | Array:
    """Compute the QR decomposition of matrices: `Q` with orthonormal columns and an upper triangular `R`.

    Args:
        a: Matrices.
        mode: "reduced", "complete" for a square `Q`, "r" for `R` alone, or "raw" for the result of LAPACK's geqrf.

    Returns:
        `QRResult(Q, R)`; `R` for the mode "r".

    Example:
        >>> q, r = xnp.linalg.qr(xnp.ones((3, 2)))
        >>> q.shape, r.shape
        ((3, 2), (2, 2))
    """
    if mode not in ("reduced", "r", "full", "complete", "raw"):
        raise ValueError(f"mode of qr must be 'reduced', 'complete', 'r' or 'raw', got {mode!r}.")
    return _qr(a, mode)


@library
@accepts(nodes=True)
def eig(a: ArrayLike) -> EigResult:
    """Compute eigenvalues and right eigenvectors of square matrices. Supported on CPU and CUDA.

    Args:
        a: Square matrices.

    Returns:
        `EigResult(eigenvalues, eigenvectors)`, always complex, with the eigenvectors as columns.

    Example:
        >>> xnp.linalg.eig(xnp.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    [a] = _promote_matrices("eig", a, square=True, error=TypeError)
    return EigResult(*kernels.eig(a, compute_left_eigenvectors=False))


@library
@accepts(nodes=True)
def eigvals(a: ArrayLike) -> Array:
    """Compute the eigenvalues of square matrices. Supported on CPU and CUDA.

    Args:
        a: Square matrices.

    Returns:
        Eigenvalues, always complex.

    Example:
        >>> xnp.linalg.eigvals(xnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag
        Array([ 1., -1.], dtype=float32)
    """
    [a] = _promote_matrices("eigvals", a, square=True, error=TypeError)
    return kernels.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def _is_lower(uplo: str | None) -> bool:
    if uplo not in (None, "L", "U"):
        raise ValueError(f"UPLO, the triangle to read, must be 'L' or 'U', not {uplo!r}.")
    return uplo != "U"


@library(static=("UPLO", "symmetrize_input"))
@accepts(objects=True)
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:  # noqa: N803  (NumPy's name)
    """Compute eigenvalues, in ascending order, and eigenvectors of Hermitian matrices.

    Args:
        a: Hermitian matrices.
        UPLO: Triangle to read, "L" or "U", if `symmetrize_input` is False.
        symmetrize_input: If True, replace `a` by the mean of `a` and its conjugate transpose.

    Returns:
        `EighResult(eigenvalues, eigenvectors)`, with the eigenvectors as columns.

    Example:
        >>> xnp.linalg.eigh(xnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        Array([1., 3.], dtype=float32)
    """
    lower = _is_lower(UPLO)
    [a] = _promote_inexact("eigh", a)
    vectors, values = kernels.eigh(a, lower=lower, symmetrize_input=bool(symmetrize_input))
    return EighResult(values, vectors)


@library(static=("UPLO", "symmetrize_input"))
@accepts(objects=True)
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:  # noqa: N803  (NumPy's name)
    """Compute the eigenvalues of Hermitian matrices in ascending order.

    Args:
        a: Hermitian matrices.
        UPLO: Triangle to read, "L" or "U", if `symmetrize_input` is False.
        symmetrize_input: If True, replace `a` by the mean of `a` and its conjugate transpose.

    Returns:
        Eigenvalues.

    Example:
        >>> xnp.linalg.eigvalsh(xnp.array([[2.0, 1.0], [1.0, 2.0]]))
        Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@library(static=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
def _svd(a, full_matrices, compute_uv, hermitian, subset_by_index):
    [a] = _promote_matrices("svd", a, square=hermitian, error=TypeError)
    if not hermitian:
        result = kernels.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*result) if compute_uv else result
    vectors, values = kernels.eigh(a)
    order = xnp.argsort(-xnp.abs(values), axis=-1)
    values = xnp.take_along_axis(values, order, axis=-1)
    if not compute_uv:
        return xnp.abs(values)
    vectors = xnp.take_along_axis(vectors, order[..., None, :], axis=-1)
    signs = xnp.where(values < 0, -1, 1).astype(a.dtype)
    return SVDResult(vectors, xnp.abs(values), adjoint(vectors * signs[..., None, :]))


if TYPE_CHECKING:
    @overload
    def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False,
            subset_by_index: tuple[int, int] | None = None) -> SVDResult: ...
    @overload
    def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False,
            subset_by_index: tuple[int, int] | None = None) -> Array: ...
    @overload
    def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
            subset_by_index: tuple[int, int] | None = None) -> SVDResult | Array: ...


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> SVDResult | Array:
    """Compute the singular value decomposition `U @ diag(S) @ Vh`, with singular values in descending order.

    Args:
        a: Matrices.
        full_matrices: If True, `U` and `Vh` are square; otherwise they have as many columns and rows as there are
            singular values.
        compute_uv: If False, return only the singular values.
        hermitian: If True, assume Hermitian matrices and use eigenvalues, which is faster.
        subset_by_index: Range `(start, end)` of singular values to compute. Default: all. It requires
            `full_matrices=False`.

    Returns:
        `SVDResult(U, S, Vh)`, or the singular values.

    Example:
        >>> xnp.linalg.svd(xnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
        Array([4., 3.], dtype=float32)
    """
    return _svd(a, bool(full_matrices), bool(compute_uv), bool(hermitian),
                None if subset_by_index is None else tuple(subset_by_index))


def svdvals(x: ArrayLike, /) -> Array:
    """Compute the singular values of matrices in descending order.

    Args:
        x: Matrices.

    Returns:
        Singular values.

    Example:
        >>> xnp.linalg.svdvals(xnp.array([[3.0, 0.0], [0.0, 4.0]]))
        Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


# Norms


def _axes(axis, rank: int) -> tuple[int, ...]:
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    result = tuple(operator.index(a) + rank * (operator.index(a) < 0) for a in axes)
    if any(not 0 <= a < rank for a in result) or len(set(result)) < len(result):
        raise ValueError(f"axis={axis} must name distinct dimensions of an array with {rank} dimensions.")
    return result


def _vector_norm(x, order, axes, keepdims):
    total = functools.partial(xnp.sum, axis=axes, keepdims=keepdims)
    if order is None or order == 2:
        squares = xnp.real(x * xnp.conj(x)) if dtypes.is_complex(x.dtype) else xnp.square(x)
        return xnp.sqrt(total(squares))
    if order == np.inf:
        return xnp.max(xnp.abs(x), axis=axes, keepdims=keepdims, initial=0)
    if order == -np.inf:
        return xnp.min(xnp.abs(x), axis=axes, keepdims=keepdims)
    if order == 0:
        return total((x != 0).astype(dtypes.to_real(x.dtype)))
    if order == 1:
        return total(xnp.abs(x))
    if isinstance(order, str):
        raise ValueError(f"{order!r} is no order of a norm of vectors: pass a number, or two axes for a norm of matrices.")
    d = dtypes.to_real(x.dtype)
    return xnp.power(total(xnp.power(xnp.abs(x), np.asarray(order, d))), np.asarray(1 / order, d))


def _matrix_norm(x, order, axes, keepdims):
    rows, columns = axes
    if order in (None, "fro"):
        return _vector_norm(x, 2, axes, keepdims)
    if order in (1, -1, np.inf, -np.inf):
        first, second = (rows, columns) if order in (1, -1) else (columns, rows)
        reduce = xnp.max if order > 0 else xnp.min
        sums = xnp.sum(xnp.abs(x), axis=first)
        result = reduce(sums, axis=second - (second > first), **({"initial": 0} if order > 0 else {}))
        return xnp.expand_dims(result, axes) if keepdims else result
    if order not in (2, -2, "nuc"):
        raise ValueError(f"{order!r} is no order of a norm of matrices: pass 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.")
    s = kernels.svd(xnp.moveaxis(x, axes, (-2, -1)), compute_uv=False)
    result = xnp.sum(s, axis=-1) if order == "nuc" else xnp.max(s, axis=-1, initial=0) if order == 2 else xnp.min(s, axis=-1)
    return xnp.expand_dims(result, axes) if keepdims else result


@library(static=("order", "axis", "keepdims"))
def _norm(x, order, axis, keepdims):
    [x] = _promote_inexact("norm", x)
    if axis is None:
        if order is None:
            return _vector_norm(x, 2, tuple(range(x.ndim)), keepdims)
        axis = tuple(range(x.ndim))
    axes = _axes(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, order, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, order, axes, keepdims)
    raise ValueError(f"norm reduces over one dimension (vectors) or two (matrices), got axis={axes} of an array of shape "
                     f"{x.shape}. Select them with axis.")


def norm(x: ArrayLike, ord: int | float | str | None = None, axis: int | Sequence[int] | None = None,
         keepdims: bool = False) -> Array:
    """Compute norms of vectors or matrices.

    Args:
        x: Array.
        ord: Order of the norm. For vectors a number, inf or -inf (default 2; 0 counts nonzero elements); for matrices
            "fro" (default), "nuc" (sum of the singular values), 2, -2 (largest and smallest singular value), 1, -1, inf
            or -inf.
        axis: Axis of the vectors or two axes of the matrices. Default: if `ord` is None, all elements as one vector.
        keepdims: If True, keep the reduced axes with size 1.

    Returns:
        Norm of each vector or matrix.

    Example:
        >>> xnp.linalg.norm(xnp.array([3.0, 4.0]))
        Array(5., dtype=float32)
    """
    return _norm(x, ord, axis, bool(keepdims))


@library(static=("order", "axis", "keepdims"))
@accepts(objects=True)
def _vector_norm_kernel(x, axis, keepdims, order):
    check_arraylike("vector_norm", x)
    x = xnp.asarray(x)
    if order == 2 and not dtypes.is_inexact(x.dtype):
        x = x.astype(float)  # wide enough for the sum of squares
    elif order not in (1, np.inf, -np.inf):  # these orders keep integers
        x = floating("vector_norm", x)
    return _vector_norm(x, order, tuple(range(x.ndim)) if axis is None else _axes(axis, x.ndim), keepdims)


def vector_norm(x: ArrayLike, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
                ord: int | float | str = 2) -> Array:
    """Compute vector norms along one or more axes.

    Args:
        x: Array.
        axis: Axis or axes to reduce over. Default: all.
        keepdims: If True, keep the reduced axes with size 1.
        ord: Order of the norm: a number, inf or -inf.

    Returns:
        Norm of each vector.

    Example:
        >>> xnp.linalg.vector_norm(xnp.array([[3.0, 4.0]]), ord=1)
        Array(7., dtype=float32)
    """
    return _vector_norm_kernel(x, tuple(axis) if isinstance(axis, list) else axis, bool(keepdims), ord)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Array:
    """Compute matrix norms.

    Args:
        x: Matrices.
        keepdims: If True, keep the last two axes with size 1.
        ord: Order of the norm: "fro", "nuc", 2, -2, 1, -1, inf or -inf, see `norm`.

    Returns:
        Norm of each matrix.

    Example:
        >>> xnp.linalg.matrix_norm(xnp.array([[3.0, 0.0], [0.0, 4.0]]), ord=2)
        Array(4., dtype=float32)
    """
    return norm(x, ord, (-2, -1), keepdims)


@library(static="p")
def _cond(x, p):
    [x] = _promote_matrices("cond", x)
    if 0 in x.shape[-2:]:
        raise ValueError(f"cond got an array of shape {x.shape}: matrices without elements have no condition number.")
    if p in (None, 2, -2):
        s = kernels.svd(x, compute_uv=False)
        result = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        return xnp.where(xnp.isnan(result) & ~xnp.any(xnp.isnan(x), axis=(-2, -1)), xnp.inf, result)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"cond with p={p!r} takes square matrices, got an array of shape {x.shape}.")
    result = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    has_nan = xnp.any(xnp.isnan(x), axis=(-2, -1))
    return xnp.where(xnp.isnan(result) & ~has_nan, xnp.inf, result)


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """Compute the condition number: the norm of a matrix times that of its inverse.

    Args:
        x: Matrices; they must be square for orders other than 2 and -2.
        p: Order of the norm, see `norm`. Default: 2.

    Returns:
        Condition number of each matrix, infinite for singular ones.

    Example:
        >>> xnp.linalg.cond(xnp.array([[8.0, 0.0], [0.0, 4.0]]))
        Array(2., dtype=float32)
    """
    return _cond(x, p)


@library(static="hermitian")
def _matrix_rank(M, tol, hermitian):  # noqa: N803  (NumPy's name)
    [x] = _promote_inexact("matrix_rank", M)
    if x.ndim < 2:
        return xnp.any(x != 0).astype(np.int32)
    s = xnp.abs(kernels.eigh(x)[1]) if hermitian else kernels.svd(x, compute_uv=False)
    if tol is None:
        if not s.shape[-1]:
            return xnp.zeros(s.shape[:-1], int)
        tol = max_dim(*x.shape[-2:]) * xnp.finfo(x.dtype).eps * xnp.max(s, axis=-1)
    return xnp.sum(s > (xnp.expand_dims(tol, -1) if xnp.ndim(tol) else tol), axis=-1, dtype=int)


def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False,  # noqa: N803  (NumPy's name)
                tol: ArrayLike | None = None) -> Array:
    """Compute the rank of matrices: the number of singular values above a tolerance.

    Args:
        M: Matrices.
        rtol, tol: Absolute tolerance, under either name. Default: the dtype's precision times the larger size and the
            largest singular value.
        hermitian: If True, assume Hermitian matrices and use eigenvalues in place of singular values.

    Returns:
        Rank of each matrix.

    Note:
        NumPy's `rtol` is relative.

    Example:
        >>> xnp.linalg.matrix_rank(xnp.ones((3, 3)))
        Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank takes rtol or tol: pass only one of them.")
    return _matrix_rank(M, tol if rtol is None else rtol, bool(hermitian))


# Products


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Raise square matrices to an integer power.

    Args:
        a: Square matrices.
        n: Exponent; if negative, the inverse matrices are raised to `-n`.

    Returns:
        Power of each matrix.

    Example:
        >>> xnp.linalg.matrix_power(xnp.array([[1, 1], [0, 1]]), 5)
        Array([[1, 5],
               [0, 1]], dtype=int32)
    """
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"matrix_power takes an integer as n, got {n!r}.") from None
    return _matrix_power(a, n)


@library(static="n")
def _matrix_power(a, n):
    check_arraylike("linalg.matrix_power", a)
    a = xnp.asarray(a)
    size = square_size("matrix_power", a, TypeError, TypeError)
    if n == 0:
        return xnp.broadcast_to(xnp.eye(size, dtype=a.dtype), a.shape)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else result @ a
        n >>= 1
        if n:
            a = a @ a
    return result


def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """Compute the product of several matrices in the order with the least cost.

    Args:
        arrays: Matrices; the first and the last one may be vectors.
        precision: Precision of the products, see `xnp.matmul`.

    Returns:
        Product of the arrays.

    Example:
        >>> xnp.linalg.multi_dot([xnp.ones((2, 3)), xnp.ones((3, 4)), xnp.ones(4)])
        Array([12., 12.], dtype=float32)
    """
    check_arraylike("linalg.multi_dot", *arrays)
    arrays = [xnp.asarray(a) for a in arrays]
    ranks = [a.ndim for a in arrays]
    if len(arrays) < 2 or any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ValueError(f"multi_dot takes two or more matrices, of which the first and the last may be vectors; got shapes "
                         f"{', '.join(str(a.shape) for a in arrays)}.")
    operands: list[Any] = []
    for i, a in enumerate(arrays):
        operands += [a, [i, i + 1] if a.ndim == 2 else [1] if i == 0 else [i]]
    ends = ([0] if ranks[0] == 2 else []) + ([len(arrays)] if ranks[-1] == 2 else [])
    return xnp.einsum(*operands, ends, optimize="optimal", precision=precision)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Compute the outer product of two vectors.

    Args:
        x1, x2: Vectors.

    Returns:
        Matrix of shape `(len(x1), len(x2))`.

    Note:
        Only vectors are accepted, unlike `xnp.outer`.

    Example:
        >>> xnp.linalg.outer(xnp.array([1, 2]), xnp.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
    """
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(f"outer takes two vectors, got arrays of shape {np.shape(x1)} and {np.shape(x2)}.")
    return xnp.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Compute the cross product of 3-element vectors.

    Args:
        x1, x2: Arrays of vectors.
        axis: Axis of the vectors.

    Returns:
        Array of cross products.

    Example:
        >>> xnp.linalg.cross(xnp.array([1, 0, 0]), xnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = unwrap_node(x1), unwrap_node(x2)
    for x in (x1, x2):
        if not np.ndim(x) or np.shape(x)[axis] != 3:
            raise ValueError(f"cross takes vectors of three elements along axis {axis}, got arrays of shape {np.shape(x1)} and "
                             f"{np.shape(x2)}.")
    return xnp.cross(x1, x2, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return diagonals of matrices.

    Args:
        x: Matrices, in the last two dimensions; `xnp.diagonal` takes the first two.
        offset: Offset of the diagonal above the main one.

    Returns:
        Diagonals, along the last axis.

    Example:
        >>> xnp.linalg.diagonal(xnp.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    return xnp.diagonal(x, offset=offset, axis1=-2, axis2=-1)


@library(static=None)
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Compute the sum along diagonals of matrices.

    Args:
        x: Matrices, in the last two dimensions; `xnp.trace` takes the first two.
        offset: Offset of the diagonal above the main one.
        dtype: dtype of the result.

    Returns:
        Trace of each matrix.

    Example:
        >>> xnp.linalg.trace(xnp.array([[1, 2], [3, 4]]))
        Array(5, dtype=int32)
    """
    return xnp.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Transpose matrices, as `xnp.matrix_transpose`.

    Args:
        x: Matrices.

    Returns:
        Array with the last two dimensions swapped.

    Example:
        >>> xnp.linalg.matrix_transpose(xnp.array([[1, 2], [3, 4]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return xnp.matrix_transpose(x)


def matmul(x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the matrix product, as `xnp.matmul`.

    Args:
        x1, x2: Matrices.
        precision, preferred_element_type: See `xnp.matmul`.

    Returns:
        Matrix product.

    Example:
        >>> xnp.linalg.matmul(xnp.array([[1, 2], [3, 4]]), xnp.array([[1], [1]]))
        Array([[3],
               [7]], dtype=int32)
    """
    return xnp.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """Compute the dot product of vectors along an axis, as `xnp.vecdot`.

    Args:
        x1: Vectors, which are conjugated.
        x2: Vectors.
        axis: Axis of the vectors.
        precision, preferred_element_type: See `xnp.matmul`.

    Returns:
        Dot products.

    Example:
        >>> xnp.linalg.vecdot(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    return xnp.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2, precision: Any = None,
              preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """Compute the tensor contraction of two arrays, as `xnp.tensordot`.

    Args:
        x1, x2: Arrays.
        axes: Number of axes to contract, the last ones of `x1` with the first ones of `x2`; or two sequences of axes,
            one for each array.
        precision, preferred_element_type, out_sharding: See `xnp.matmul`.

    Returns:
        Contraction of the arrays.

    Example:
        >>> xnp.linalg.tensordot(xnp.ones((2, 3)), xnp.ones((3, 2)), axes=1)
        Array([[3., 3.],
               [3., 3.]], dtype=float32)
    """
    return xnp.tensordot(x1, x2, axes=axes, precision=precision, preferred_element_type=preferred_element_type,
                         out_sharding=out_sharding)
