"""`numpy.linalg`: systems of equations, decompositions, norms and other numbers that describe a matrix.

Functions take matrices in the last two dimensions and repeat over the dimensions before them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.dimensions import common_shape, known
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax import linalg as kernels
from xlafront.lax.elementwise import constant_like, to_dtype
from xlafront.linalg.factorizations import solve_factored
from xlafront.linalg.kernels import adjoint, check_rank, floating, product, square as size_of_square
from xlafront.linalg.orthogonal import geqrf_p
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact, promotes_freely, unwrap_node
from xlafront.staging.library import library, written_once


class EigResult(NamedTuple):
    """What `eig` returns: the `eigenvalues`, and the `eigenvectors` as columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `eigh` returns: the `eigenvalues` in ascending order, and the `eigenvectors` as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` returns: `Q`, with orthonormal columns, and `R`, upper triangular."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """What `slogdet` returns: the `sign` of the determinant, and `logabsdet`, the logarithm of its size."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """What `svd` returns: `U`, `S` and `Vh` with `U @ diag(S) @ Vh` equal to the matrix."""

    U: Any
    S: Any
    Vh: Any


def _floating(name: str, *values) -> list:
    """Arrays of one floating or complex dtype."""
    check_arraylike(name, *values)
    return [xnp.asarray(x) for x in promote_dtypes_inexact(*map(unwrap_node, values))]


def _matrices(name: str, *values, square: bool = False, error: type[Exception] = ValueError) -> list:
    """Arrays of one floating or complex dtype, with at least two dimensions."""
    arrays = _floating(name, *values)
    for x in arrays:
        _size(name, x, error) if square else check_rank(name, x, error=error)
    return arrays


def _size(name: str, x, error: type[Exception] = ValueError) -> int:
    """The number of rows of square matrices."""
    check_rank(name, x, error=error)
    return size_of_square(name, x)


# Systems of equations


@library
def _solve(a, b):
    a, b = _floating("solve", a, b)
    n, vector = _size("solve", a), b.ndim == 1
    if b.ndim == 0 or b.shape[-1 if vector else -2] != n:
        raise ValueError(f"solve got incompatible shapes: a {a.shape}, b {b.shape}. b must be a vector of {n} "
                         f"elements or have that many rows. To solve for one vector for each matrix, give b[..., None] and "
                         f"take [..., 0] of the result.")
    b = b[:, None] if vector else b
    if a.ndim == 2 and b.ndim > 2:  # one matrix: all right-hand sides beside each other
        joint = xnp.moveaxis(b, -2, 0)
        x = _solve_matrices(a, joint.reshape(joint.shape[0], -1)).reshape(joint.shape)
        return xnp.moveaxis(x, 0, -2)
    x = _solve_matrices(a, b)
    return xnp.squeeze(x, -1) if vector else x


def _solve_matrices(a, b):
    """Both ways of differentiation solve systems with the factors that are there."""
    factors, _, permutation = kernels.lu(lax.stop_gradient(a))
    batch = common_shape(a.shape[:-2], b.shape[:-2])
    factors, permutation = (xnp.broadcast_to(x, batch + x.shape[a.ndim - 2:]) for x in (factors, permutation))
    b = xnp.broadcast_to(b, batch + b.shape[-2:])
    return lax.custom_linear_solve(
        lambda x: product(a, x), b, solve=lambda _, y: solve_factored(factors, permutation, y),
        transpose_solve=lambda _, y: solve_factored(factors, permutation, y, "T"))


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solution of systems of linear equations, `x` of `a @ x == b`.

    - `a`: square matrices.
    - `b`: a vector, or matrices whose columns are the vectors.

    >>> xnp.linalg.solve(xnp.array([[2.0, 0.0], [1.0, 4.0]]), xnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    """
    return _solve(a, b)


@library
def inv(a: ArrayLike) -> Array:
    """The inverse of square matrices; to apply it, `solve` is faster and more exact.

    - `a`: the matrices. One without an inverse gives infinities or NaN, no error.

    >>> xnp.linalg.inv(xnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    [a] = _matrices("inv", a, square=True)
    return _solve_matrices(*promote_dtypes(a, xnp.broadcast_to(xnp.eye(a.shape[-1], dtype=a.dtype), a.shape)))


@library(static="rcond")
def _lstsq(a, b, rcond):
    a, b = _floating("lstsq", a, b)
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
    rcond = eps * max(m, n) if rcond is None else eps if rcond < 0 else rcond
    kept = (s > 0) & (s >= rcond * s[0])
    inverse = 1 / xnp.where(kept, s, np.inf)
    x = product(adjoint(vh), inverse[:, None].astype(a.dtype) * product(adjoint(u), b))
    rest = xnp.sum(xnp.abs(b - product(a, x)) ** 2, axis=0)
    return x[:, 0] if vector else x, rest, xnp.sum(kept, dtype=int), s


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None, *,
          numpy_resid: bool = False) -> tuple[Array, Array, Array, Array]:
    """The `x` for which `a @ x` is nearest to `b`, the squared distances, the rank and the singular values of `a`.

    - `a`: a matrix.
    - `b`: a vector, or a matrix whose columns are the vectors.
    - `rcond`: singular values below this fraction of the largest count as zero; a rounding error by default.
    - `numpy_resid`: whether to leave out the distances, as NumPy does, where the rank is not full or nothing is
      over-determined. The rank must be known then, that is outside of `jit`.

    >>> x, rest, rank, s = xnp.linalg.lstsq(xnp.array([[2.0], [0.0]]), xnp.array([4.0, 3.0]))
    >>> x, rest
    (Array([2.], dtype=float32), Array([9.], dtype=float32))
    """
    x, rest, rank, s = _lstsq(a, b, None if rcond is None else float(rcond))
    m, n = np.shape(a)
    if numpy_resid and (m <= n or int(rank) < n):
        rest = xnp.zeros(0, rest.dtype)
    return x, rest, rank, s


@functools.partial(xf.custom_jvp, nondiff_argnums=(2,))
def _pinv(a, rtol, hermitian):
    if hermitian:
        v, w = kernels.eigh(a)
        kept = xnp.abs(w) > rtol[..., None] * xnp.max(xnp.abs(w), axis=-1, keepdims=True)
        return product(v / xnp.where(kept, w, np.inf)[..., None, :].astype(v.dtype), adjoint(v))
    u, s, vh = kernels.svd(a, full_matrices=False)
    kept = s > rtol[..., None] * s[..., :1]
    return product(adjoint(vh), adjoint(u) / xnp.where(kept, s, np.inf)[..., :, None].astype(u.dtype))


@_pinv.defjvp
@promotes_freely
def _pinv_jvp(hermitian, primals, tangents):
    """Golub and Pereyra, 1973."""
    (a, rtol), (a_t, _) = primals, tangents
    p = _pinv(a, rtol, hermitian)
    ph, a_th = adjoint(p), adjoint(a_t)
    rows, columns = xnp.eye(a.shape[-2], dtype=a.dtype), xnp.eye(a.shape[-1], dtype=a.dtype)
    return p, (-product(product(p, a_t), p) + product(product(product(p, ph), a_th), rows - product(a, p))
               + product(product(columns - product(p, a), a_th), product(ph, p)))


@library(static="hermitian")
@promotes_freely
def _pinv_kernel(a, rtol, hermitian):
    [a] = _matrices("pinv", a, square=hermitian)
    if not a.size:
        return xnp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if rtol is None:
        rtol = 10 * max(a.shape[-2:]) * xnp.finfo(a.dtype).eps
    return _pinv(a, xnp.asarray(rtol, dtypes.to_real(a.dtype)), hermitian)


def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None) -> Array:
    """The pseudo-inverse of matrices.

    - `a`: the matrices.
    - `rtol`: singular values below this fraction of the largest count as zero; a rounding error by default.
    - `hermitian`: whether matrices are Hermitian; eigenvalues take the place of singular values.
    - `rcond`: an older name of `rtol`.

    >>> xnp.linalg.pinv(xnp.array([[2.0, 0.0]]))
    Array([[0.5],
           [0. ]], dtype=float32)
    """
    if rcond is not None and rtol is not None:
        raise ValueError("pinv takes rtol or rcond, two names of one argument: give one of them.")
    return _pinv_kernel(a, rcond if rtol is None else rtol, bool(hermitian))


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of `tensordot(a, ·, ind)`.

    - `a`: the array, whose first dimensions count as rows and the others as columns.
    - `ind`: how many are the first.

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
                         f"{columns} columns; they must be as many.")
    return inv(a.reshape(rows, columns)).reshape(*a.shape[ind:], *a.shape[:ind])


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The solution `x` of `tensordot(a, x, x.ndim) == b`.

    - `a`: an array, whose first dimensions are those of `b`.
    - `b`: the right-hand side.
    - `axes`: axes of `a` that are moved to its end first.

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


def _lu_sign(factors, swaps):
    """The sign of the permutation, and the diagonal of `U`."""
    rows = xnp.arange(swaps.shape[-1], dtype=swaps.dtype)
    odd = xnp.sum(swaps != rows, axis=-1) % 2
    return to_dtype(xnp.where(odd == 1, -1, 1), factors.dtype), diagonal(factors)


@xf.custom_jvp
def _det(a):
    factors, swaps, _ = kernels.lu(a)
    sign, pivots = _lu_sign(factors, swaps)
    return sign * xnp.prod(pivots, axis=-1)


@_det.defjvp
def _det_jvp(primals, tangents):
    """`det(A)' = trace(adj(A) A')`, where the adjugate is `det(A) A^-1` wherever that is.

    For a matrix that lacks one rank one pivot is zero. The system is solved with a one in its place; what it says of the
    rows below is multiplied by that zero, and the others follow from its row alone."""
    [a], [a_t] = primals, tangents
    factors, swaps, permutation = kernels.lu(a)
    sign, pivots = _lu_sign(factors, swaps)
    zero = pivots == 0
    filled = xnp.where(zero, 1, pivots)
    factors = factors + xnp.eye(a.shape[-1], dtype=a.dtype) * (filled - pivots)[..., None, :]
    x = solve_factored(factors, permutation, a_t)
    row = xnp.where(zero[..., None], x, 0)
    upper = kernels.triangular_solve(factors, row, left_side=True)
    singular = xnp.any(zero, axis=-1)
    scale = xnp.where(xnp.sum(zero, axis=-1) > 1, 0, sign * xnp.prod(filled, axis=-1))
    moved = trace(xnp.where(singular[..., None, None], upper, x)) * scale
    return sign * xnp.prod(pivots, axis=-1), moved


@library
def det(a: ArrayLike) -> Array:
    """The determinant of square matrices.

    - `a`: the matrices.

    >>> xnp.linalg.det(xnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    [a] = _matrices("det", a, square=True)
    n = known(a.shape[-1], 4)
    if n > 3:
        return _det(a)
    x = [[a[..., i, j] for j in range(n)] for i in range(n)]
    if n == 0:
        return xnp.ones(a.shape[:-2], a.dtype)
    if n == 1:
        return x[0][0]
    if n == 2:
        return x[0][0] * x[1][1] - x[0][1] * x[1][0]
    return (x[0][0] * (x[1][1] * x[2][2] - x[1][2] * x[2][1]) - x[0][1] * (x[1][0] * x[2][2] - x[1][2] * x[2][0])
            + x[0][2] * (x[1][0] * x[2][1] - x[1][1] * x[2][0]))


def _sign_and_log(sign, factors):
    """Of a product of numbers and a sign."""
    size = xnp.abs(factors)
    zero = xnp.any(size == 0, axis=-1)
    size = xnp.where(size == 0, constant_like(size, 1), size)
    sign = sign * xnp.prod(factors / to_dtype(size, factors.dtype), axis=-1)
    log = xnp.sum(xnp.log(size), axis=-1)
    return xnp.where(zero, constant_like(sign, 0), sign), xnp.where(zero, constant_like(log, -xnp.inf), log)


def _small_pivots(a):
    """The sign of the permutation and the pivots that `lu` has for matrices of one or two rows, without a call for each."""
    if a.shape[-1] == 1:
        return xnp.ones(a.shape[:-2], a.dtype), a[..., 0]
    (top, above), (low, below) = [[a[..., i, j] for j in range(2)] for i in range(2)]
    swapped = xnp.abs(low) > xnp.abs(top)
    first = xnp.where(swapped, low, top)
    ratio = xnp.where(swapped, top, low) / xnp.where(first == 0, 1, first)
    second = xnp.where(swapped, above - ratio * below, below - ratio * above)
    return xnp.where(swapped, -1, 1).astype(a.dtype), xnp.stack([first, second], axis=-1)


def _small_moved(sign, pivots, a, a_t):
    """The trace of `A^-1 A'` for such matrices."""
    if a.shape[-1] == 1:
        return (a_t / a)[..., 0, 0]
    first, second = pivots[..., 0], pivots[..., 1]
    x = a / first[..., None, None]
    moved = x[..., 1, 1] * a_t[..., 0, 0] - x[..., 0, 1] * a_t[..., 1, 0] - x[..., 1, 0] * a_t[..., 0, 1]
    return sign * (moved + x[..., 0, 0] * a_t[..., 1, 1]) / second


@functools.partial(xf.custom_jvp, nondiff_argnums=(1,))
def _slogdet(a, method):
    if method == "lu" and known(a.shape[-1], 3) <= 2:
        return _sign_and_log(*_small_pivots(a))
    if method == "lu":
        factors, swaps, _ = kernels.lu(a)
        return _sign_and_log(*_lu_sign(factors, swaps))
    factors, taus = geqrf_p.bind(a)
    used = taus != 0  # the determinant of a reflection with the factor tau is -tau / conj(tau)
    turns = -taus / xnp.where(used, xnp.conj(taus), 1)
    return _sign_and_log(xnp.prod(xnp.where(used, turns, 1), axis=-1), diagonal(factors))


@_slogdet.defjvp
@promotes_freely
def _slogdet_jvp(method, primals, tangents):
    [a], [a_t] = primals, tangents
    if method == "lu" and known(a.shape[-1], 3) <= 2:
        turned, pivots = _small_pivots(a)
        sign, size = _sign_and_log(turned, pivots)
        moved = _small_moved(turned, pivots, a, a_t)
    else:
        factors, swaps, permutation = kernels.lu(a)
        sign, size = _sign_and_log(*_lu_sign(factors, swaps)) if method == "lu" else _slogdet(a, method)
        moved = trace(solve_factored(factors, permutation, a_t))
    if not dtypes.is_complex(a.dtype):
        return (sign, size), (xnp.zeros_like(sign), moved)
    return (sign, size), (sign * 1j * moved.imag.astype(sign.dtype), moved.real)


@library(static="method")
@promotes_freely
def _slogdet_kernel(a, method):
    [a] = _matrices("slogdet", a, square=True)
    if not a.shape[-1]:
        return SlogdetResult(xnp.ones(a.shape[:-2], a.dtype), xnp.zeros(a.shape[:-2], dtypes.to_real(a.dtype)))
    return SlogdetResult(*_slogdet(a, method))


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its size, which does not overflow.

    - `a`: square matrices.
    - `method`: by which factors: "lu", as without, or "qr".

    >>> xnp.linalg.slogdet(xnp.array([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet has the methods 'lu' and 'qr', not {method!r}.")
    return _slogdet_kernel(a, method or "lu")


# Decompositions


@library(static=("upper", "symmetrize_input"))
def _cholesky(a, upper, symmetrize_input):
    [a] = _floating("cholesky", a)
    if upper and not symmetrize_input:
        a = adjoint(a)
    factor = kernels.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular `L` with `L @ L.conj().T == a`.

    - `a`: Hermitian matrices. One that is not positive gives NaN, no error.
    - `upper`: whether to return the upper triangular `U` with `U.conj().T @ U == a`.
    - `symmetrize_input`: whether to take the mean of `a` and its adjoint for `a`.

    >>> xnp.linalg.cholesky(xnp.array([[4.0, 2.0], [2.0, 5.0]]), upper=True)
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    return _cholesky(a, bool(upper), bool(symmetrize_input))


@library(static="mode")
def _qr(a, mode):
    [a] = _matrices("qr", a, error=TypeError)
    if mode == "raw":
        factors, taus = geqrf_p.bind(a)
        return QRResult(factors.mT, taus)
    q, r = kernels.qr(a, full_matrices=mode in ("full", "complete"))
    return r if mode == "r" else QRResult(q, r)


def qr(a: ArrayLike, mode: str = "reduced") -> QRResult | Array:
    """The factors `Q`, with orthonormal columns, and `R`, upper triangular, of matrices.

    - `a`: the matrices.
    - `mode`: `reduced` or `complete` (`Q` is square); `r` for `R` alone; `raw` for what LAPACK's geqrf says.

    >>> q, r = xnp.linalg.qr(xnp.ones((3, 2)))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    if mode not in ("reduced", "r", "full", "complete", "raw"):
        raise ValueError(f"qr has the modes 'reduced', 'complete', 'r' and 'raw', not {mode!r}.")
    return _qr(a, mode)


@library
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors (the columns) as complex numbers, also where they are real; on the CPU, and on CUDA.

    - `a`: square matrices.

    >>> xnp.linalg.eig(xnp.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    [a] = _matrices("eig", a, square=True, error=TypeError)
    return EigResult(*kernels.eig(a, compute_left_eigenvectors=False))


@library
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues as complex numbers, also where they are real; on the CPU, and on CUDA.

    - `a`: square matrices.

    >>> xnp.linalg.eigvals(xnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag
    Array([ 1., -1.], dtype=float32)
    """
    [a] = _matrices("eigvals", a, square=True, error=TypeError)
    return kernels.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def _is_lower(uplo: str | None) -> bool:
    if uplo not in (None, "L", "U"):
        raise ValueError(f"UPLO says which triangle is read: 'L' or 'U', not {uplo!r}.")
    return uplo != "U"


@library(static=("UPLO", "symmetrize_input"), converts=True)
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:  # noqa: N803  (NumPy's name)
    """Eigenvalues in ascending order, and eigenvectors (the columns), of Hermitian matrices.

    - `a`: the matrices.
    - `UPLO`: which triangle is read ("L" or "U") if `symmetrize_input` is false.
    - `symmetrize_input`: whether to take the mean of `a` and its adjoint for `a`.

    >>> xnp.linalg.eigh(xnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    Array([1., 3.], dtype=float32)
    """
    lower = _is_lower(UPLO)
    [a] = _floating("eigh", a)
    vectors, values = kernels.eigh(a, lower=lower, symmetrize_input=bool(symmetrize_input))
    return EighResult(values, vectors)


@library(static=("UPLO", "symmetrize_input"), converts=True)
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:  # noqa: N803  (NumPy's name)
    """Eigenvalues of Hermitian matrices, in ascending order.

    - `a`: the matrices.
    - `UPLO`: which triangle is read ("L" or "U") if `symmetrize_input` is false.
    - `symmetrize_input`: whether to take the mean of `a` and its adjoint for `a`.

    >>> xnp.linalg.eigvalsh(xnp.array([[2.0, 1.0], [1.0, 2.0]]))
    Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@library(static=("full_matrices", "compute_uv", "hermitian", "subset_by_index"))
def _svd(a, full_matrices, compute_uv, hermitian, subset_by_index):
    [a] = _matrices("svd", a, square=hermitian, error=TypeError)
    if not hermitian:
        found = kernels.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*found) if compute_uv else found
    vectors, values = kernels.eigh(a)
    order = xnp.argsort(-xnp.abs(values), axis=-1)
    values = xnp.take_along_axis(values, order, axis=-1)
    if not compute_uv:
        return xnp.abs(values)
    vectors = xnp.take_along_axis(vectors, order[..., None, :], axis=-1)
    signs = xnp.where(values < 0, -1, 1).astype(a.dtype)
    return SVDResult(vectors, xnp.abs(values), adjoint(vectors * signs[..., None, :]))


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> SVDResult | Array:
    """The singular value decomposition `U @ diag(S) @ Vh`, with the singular values in descending order.

    - `a`: the matrices.
    - `full_matrices`: whether `U` and `Vh` are square; else they have as many columns and rows as there are singular values.
    - `compute_uv`: whether to compute `U` and `Vh`, or the singular values alone.
    - `hermitian`: whether matrices are Hermitian; it takes eigenvalues, which is faster.
    - `subset_by_index`: the first singular value to compute and the one after the last, if not all. It needs
      `full_matrices=False`.

    >>> xnp.linalg.svd(xnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    return _svd(a, bool(full_matrices), bool(compute_uv), bool(hermitian),
                None if subset_by_index is None else tuple(subset_by_index))


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values, in descending order.

    - `x`: the matrices.

    >>> xnp.linalg.svdvals(xnp.array([[3.0, 0.0], [0.0, 4.0]]))
    Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


# Norms


def _axes(axis, rank: int) -> tuple[int, ...]:
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    found = tuple(operator.index(a) + rank * (operator.index(a) < 0) for a in axes)
    if any(not 0 <= a < rank for a in found) or len(set(found)) < len(found):
        raise ValueError(f"axis={axis} names no different dimensions of an array with {rank} of them.")
    return found


def _vector_norm(x, order, axes, keepdims):
    total = functools.partial(xnp.sum, axis=axes, keepdims=keepdims)
    if order is None or order == 2:
        squares = xnp.real(x * xnp.conj(x)) if dtypes.is_complex(x.dtype) else x * x
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
        raise ValueError(f"{order!r} is no order of a norm of vectors: give a number, or two axes for a norm of matrices.")
    d = dtypes.to_real(x.dtype)
    return xnp.power(total(xnp.power(xnp.abs(x), np.asarray(order, d))), np.asarray(1 / order, d))


def _matrix_norm(x, order, axes, keepdims):
    rows, columns = axes
    if order in (None, "fro"):
        return _vector_norm(x, 2, axes, keepdims)
    if order in (1, -1, np.inf, -np.inf):
        first, second = (rows, columns) if order in (1, -1) else (columns, rows)
        best = xnp.max if order > 0 else xnp.min
        sums = xnp.sum(xnp.abs(x), axis=first)
        found = best(sums, axis=second - (second > first), **({"initial": 0} if order > 0 else {}))
        return xnp.expand_dims(found, axes) if keepdims else found
    if order not in (2, -2, "nuc"):
        raise ValueError(f"{order!r} is no order of a norm of matrices: those are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf.")
    s = kernels.svd(xnp.moveaxis(x, axes, (-2, -1)), compute_uv=False)
    found = xnp.sum(s, axis=-1) if order == "nuc" else xnp.max(s, axis=-1, initial=0) if order == 2 else xnp.min(s, axis=-1)
    return xnp.expand_dims(found, axes) if keepdims else found


@library(static=("order", "axis", "keepdims"))
def _norm(x, order, axis, keepdims):
    [x] = _floating("norm", x)
    if axis is None:
        if order is None:
            return _vector_norm(x, 2, tuple(range(x.ndim)), keepdims)
        axis = tuple(range(x.ndim))
    axes = _axes(axis, x.ndim)
    if len(axes) == 1:
        return _vector_norm(x, order, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, order, axes, keepdims)
    raise ValueError(f"norm is over one dimension (of vectors) or two (of matrices), got axis={axes} of an array of shape "
                     f"{x.shape}. Name them with axis.")


def norm(x: ArrayLike, ord: int | float | str | None = None, axis: int | Sequence[int] | None = None,
         keepdims: bool = False) -> Array:
    """Norms of vectors or of matrices.

    - `x`: the array.
    - `ord`: of vectors a number, inf or -inf (2 without; 0 counts what is not zero); of matrices "fro" (as without), "nuc" (the
      sum of the singular values), 2, -2 (the largest and the smallest of them), 1, -1, inf, -inf.
    - `axis`: one axis, of vectors, or two, of matrices. Without it and `ord`: all elements as one vector.
    - `keepdims`: whether the axes stay, with size 1.

    >>> xnp.linalg.norm(xnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    return _norm(x, ord, axis, bool(keepdims))


@library(static=("order", "axis", "keepdims"), converts=True)
def _vector_norm_kernel(x, axis, keepdims, order):
    check_arraylike("vector_norm", x)
    x = xnp.asarray(x)
    if order == 2 and not dtypes.is_inexact(x.dtype):
        x = x.astype(float)  # as wide as the sum of their squares
    elif order not in (1, np.inf, -np.inf):  # integers stay those where they can
        x = floating("vector_norm", x)
    return _vector_norm(x, order, tuple(range(x.ndim)) if axis is None else _axes(axis, x.ndim), keepdims)


def vector_norm(x: ArrayLike, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
                ord: int | float | str = 2) -> Array:
    """Norms of vectors, whose elements are along one or several axes.

    - `x`: the array.
    - `axis`: the axes; all without.
    - `keepdims`: whether the axes stay, with size 1.
    - `ord`: a number, inf or -inf.

    >>> xnp.linalg.vector_norm(xnp.array([[3.0, 4.0]]), ord=1)
    Array(7., dtype=float32)
    """
    return _vector_norm_kernel(x, tuple(axis) if isinstance(axis, list) else axis, bool(keepdims), ord)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Array:
    """Norms of matrices.

    - `x`: the matrices.
    - `keepdims`: whether the last two axes stay, with size 1.
    - `ord`: "fro", "nuc", 2, -2, 1, -1, inf or -inf, as for `norm`.

    >>> xnp.linalg.matrix_norm(xnp.array([[3.0, 0.0], [0.0, 4.0]]), ord=2)
    Array(4., dtype=float32)
    """
    return norm(x, ord, (-2, -1), keepdims)


@library(static="p")
def _cond(x, p):
    [x] = _matrices("cond", x)
    if not min(x.shape[-2:]):
        raise ValueError(f"cond of an array of shape {x.shape}: matrices without elements have no condition number.")
    if p in (None, 2, -2):
        s = kernels.svd(x, compute_uv=False)
        if p != -2:
            return s[..., 0] / s[..., -1]
        found = s[..., -1] / s[..., 0]
        return xnp.where(xnp.isnan(found) & ~xnp.any(xnp.isnan(x), axis=(-2, -1)), xnp.inf, found)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"cond with p={p!r} takes square matrices, got an array of shape {x.shape}.")
    found = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    given = xnp.any(xnp.isnan(x), axis=(-2, -1))
    return xnp.where(xnp.isnan(found) & ~given, xnp.inf, found)


def cond(x: ArrayLike, p: int | float | str | None = None) -> Array:
    """The condition number: the norm of a matrix times that of its inverse; infinite for one without inverse (for zeros NaN,
    where singular values say it).

    - `x`: the matrices; for norms other than 2 and -2 they must be square.
    - `p`: which norm, as `ord` of `norm`; 2 without.

    >>> xnp.linalg.cond(xnp.array([[8.0, 0.0], [0.0, 4.0]]))
    Array(2., dtype=float32)
    """
    return _cond(x, p)


@library(static="hermitian")
def _matrix_rank(M, tol, hermitian):  # noqa: N803  (NumPy's name)
    [x] = _floating("matrix_rank", M)
    if x.ndim < 2:
        return xnp.any(x != 0).astype(np.int32)
    s = xnp.abs(kernels.eigh(x)[1]) if hermitian else kernels.svd(x, compute_uv=False)
    if tol is None:
        if not s.shape[-1]:
            return xnp.zeros(s.shape[:-1], int)
        tol = max(x.shape[-2:]) * xnp.finfo(x.dtype).eps * xnp.max(s, axis=-1)
    return xnp.sum(s > (xnp.expand_dims(tol, -1) if xnp.ndim(tol) else tol), axis=-1, dtype=int)


def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None) -> Array:  # noqa: N803  (NumPy's name)
    """The rank of matrices: how many singular values are above a limit.

    - `M`: the matrices.
    - `rtol`, `tol`: two names of the limit, an absolute one (NumPy's `rtol` is relative); without it, a rounding error of the
      largest singular value.
    - `hermitian`: whether matrices are Hermitian; eigenvalues take the place of singular values.

    >>> xnp.linalg.matrix_rank(xnp.ones((3, 3)))
    Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank takes rtol or tol: give one of them.")
    return _matrix_rank(M, tol if rtol is None else rtol, bool(hermitian))


# Products


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices multiplied with themselves.

    - `a`: the matrices.
    - `n`: how many are multiplied; if it is negative, of their inverses.

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
    size = size_of_square("matrix_power", a, TypeError)
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
    """The product of several matrices in the order that costs least.

    - `arrays`: the matrices; the first and the last may be vectors.
    - `precision`: as for `xnp.matmul`.

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
    """The products of all pairs of elements of two vectors, a matrix.

    - `x1`, `x2`: the vectors; arrays of other dimensions are refused, which `xnp.outer` takes.

    >>> xnp.linalg.outer(xnp.array([1, 2]), xnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(f"outer takes two vectors, got arrays of shape {np.shape(x1)} and {np.shape(x2)}.")
    return xnp.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector products of vectors with three elements.

    - `x1`, `x2`: the vectors.
    - `axis`: the axis along which they lie.

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
    """The diagonals of matrices, in the last two dimensions; `xnp.diagonal` takes the first two.

    - `x`: the matrices.
    - `offset`: which diagonal, counted upwards from the main one.

    >>> xnp.linalg.diagonal(xnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return xnp.diagonal(x, offset=offset, axis1=-2, axis2=-1)


@written_once
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of matrices, in the last two dimensions; `xnp.trace` takes the first two.

    - `x`: the matrices.
    - `offset`: which diagonal, counted upwards from the main one.
    - `dtype`: that of the sums.

    >>> xnp.linalg.trace(xnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return xnp.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Matrices with rows and columns exchanged, as `xnp.matrix_transpose`.

    - `x`: the matrices.

    >>> xnp.linalg.matrix_transpose(xnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return xnp.matrix_transpose(x)


def matmul(x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """The product of matrices, as `xnp.matmul`.

    - `x1`, `x2`: the matrices.
    - `precision`, `preferred_element_type`: as for `xnp.matmul`.

    >>> xnp.linalg.matmul(xnp.array([[1, 2], [3, 4]]), xnp.array([[1], [1]]))
    Array([[3],
           [7]], dtype=int32)
    """
    return xnp.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """The scalar products of vectors along an axis, as `xnp.vecdot`.

    - `x1`: the vectors that are conjugated.
    - `x2`: the others.
    - `axis`: the axis.
    - `precision`, `preferred_element_type`: as for `xnp.matmul`.

    >>> xnp.linalg.vecdot(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    return xnp.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2, precision: Any = None,
              preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """The product over several axes of two arrays, as `xnp.tensordot`.

    - `x1`, `x2`: the arrays.
    - `axes`: how many of the last axes of `x1` and of the first ones of `x2`; or two lists, which of each.
    - `precision`, `preferred_element_type`, `out_sharding`: as for `xnp.matmul`.

    >>> xnp.linalg.tensordot(xnp.ones((2, 3)), xnp.ones((3, 2)), axes=1)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    return xnp.tensordot(x1, x2, axes=axes, precision=precision, preferred_element_type=preferred_element_type,
                         out_sharding=out_sharding)
