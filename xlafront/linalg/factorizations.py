"""Cholesky and LU factorizations, triangular and tridiagonal systems."""

from __future__ import annotations

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.shapes import broadcast_batch
from xlafront.linalg.kernels import (
    LETTERS,
    adjoint,
    call,
    factorization,
    hermitian,
    lapack,
    letter,
    operand,
    product,
    square,
    succeeded,
    where_each,
    zero_tangent,
)
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim, min_dim

# Cholesky


def _cholesky_kernel(x, target, **attributes):
    *batch, n, _ = x.shape
    factor, info = call(target, [(x.shape, x.dtype), (batch, np.int32)], x, aliases=[(0, 0)], **attributes)
    return succeeded(info, factor)


def _cholesky_jvp(primals, tangents):
    """Differentiate the factor: `A' = L' L* + L L'*` implies `L' = L F(L^-1 A' L^-*)`, with F the lower triangle and half
    of the diagonal. The kernels read the lower triangle of `A` only."""
    factor = xnp.tril(cholesky_p.bind(*primals))
    n = factor.shape[-1]
    halves = xnp.ones((n, n), factor.dtype) + xnp.eye(n, dtype=factor.dtype)
    lower = xnp.tril(tangents[0]) / halves
    inner = triangular_solve(factor, lower + adjoint(lower), left_side=False, transpose_a=True, conjugate_a=True, lower=True)
    inner = triangular_solve(factor, inner, left_side=True, lower=True)
    return factor, product(factor, xnp.tril(inner) / halves)


cholesky_p = factorization(
    "cholesky", lambda x: [(x.shape[:-2] + (square("cholesky", x, ValueError),) * 2, x.dtype)], jvp=_cholesky_jvp,
    multiple_results=False,
    cpu=lambda x: _cholesky_kernel(x, lapack("potrf", x.dtype), uplo=letter("L")),
    gpu=lambda x: _cholesky_kernel(x, "cusolver_potrf_ffi", lower=True),
    lower={None: lambda ctx, x: ctx.op("stablehlo.cholesky", [x], lower=lowering.mlir.boolean(True))})


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Compute the lower triangular Cholesky factor `L` of a Hermitian positive definite matrix, `x == L @ L.conj().T`.

    Args:
        x: Hermitian matrix.
        symmetrize_input: If True, use `(x + x.conj().T) / 2` in place of `x`.

    Returns:
        Lower triangular factor, NaN if the matrix is not positive definite.

    Example:
        >>> lax.linalg.cholesky(xnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    return _cholesky(x, bool(symmetrize_input))


@library(static="symmetrize_input")
def _cholesky(x, symmetrize_input):
    return xnp.tril(cholesky_p.bind(hermitian("cholesky", x, symmetrize_input)))


def _rotate_rows(r, w):
    """Update the triangular factor `r` with the vector `w` by one Givens rotation per row."""
    def rotate(k, state):
        r, w = state
        a, b = r[k, k], w[k]
        norm = xnp.hypot(a, b)
        c, s = xnp.where(b == 0, 1, a / norm), xnp.where(b == 0, 0, b / norm)
        return r.at[k].set(c * r[k] + s * w), c * w - s * r[k]

    return lax.fori_loop(0, r.shape[0], rotate, (r, w))[0]


def _cholesky_update_shape(r, w):
    if r.ndim != 2 or r.shape != (*w.shape, *w.shape):
        raise (ValueError if r.ndim == 2 else TypeError)(
            f"cholesky_update takes one square matrix and a vector of its size, got {r} and {w}.")
    return [(r.shape, r.dtype)]


def _cholesky_update_kernel(r, w):
    if r.dtype not in LETTERS:
        return _rotate_rows(r, w)
    return call("cu_cholesky_update_ffi", [(r.shape, r.dtype), (w.shape, w.dtype)], r, w, aliases=[(0, 0), (1, 1)],
                by_columns=False)[0]


cholesky_update_p = factorization(
    "cholesky_update", _cholesky_update_shape, ranks=(2, 1), accepts="float", multiple_results=False, kernel=False,
    default=_rotate_rows, cuda=_cholesky_update_kernel,
    batch=lambda size, operands, dims: (lax.map(lambda rw: cholesky_update_p.bind(*rw), tuple(
        broadcast_batch(x, d, size) for x, d in zip(operands, dims))), 0))


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Update an upper triangular Cholesky factor by a rank-1 term.

    Args:
        r_matrix: Upper triangular matrix.
        w_vector: Vector.

    Returns:
        Upper triangular `S` with `S.T @ S == r_matrix.T @ r_matrix + outer(w_vector, w_vector)`.

    Example:
        >>> lax.linalg.cholesky_update(xnp.eye(2), xnp.array([0.0, 1.0]))[1, 1]
        Array(1.4142135, dtype=float32)
    """
    return cholesky_update_p.bind(operand("cholesky_update", r_matrix), operand("cholesky_update", w_vector))


# Triangular systems: op(A) X = B, or X op(A) = B if `left_side` is False.


def _triangular_shape(a, b, *, left_side, **_):
    n = square("triangular_solve", a)
    if b.shape[-2 if left_side else -1] != n:
        raise ValueError(str(errors.incompatible_shapes(
            "triangular_solve", [("a", a.shape), ("b", b.shape)],
            f"b must have {n} {'rows (or use left_side=False)' if left_side else 'columns (or use left_side=True)'}.")))
    return [(b.shape, b.dtype)]


def _triangular_kernel(a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    return call(lapack("trsm", b.dtype), [(b.shape, b.dtype)], a, b, aliases=[(1, 0)],
                diag=letter("U" if unit_diagonal else "N"), side=letter("L" if left_side else "R"),
                trans_x=letter("C" if conjugate_a else "T" if transpose_a else "N"), uplo=letter("L" if lower else "U"))[0]


def _triangular_hlo(ctx, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    mlir = lowering.mlir
    kind = "NO_TRANSPOSE" if not transpose_a else "ADJOINT" if conjugate_a else "TRANSPOSE"
    return ctx.op("stablehlo.triangular_solve", [a, b], left_side=mlir.boolean(left_side), lower=mlir.boolean(lower),
                  unit_diagonal=mlir.boolean(unit_diagonal), transpose_a=mlir.attribute(f"#stablehlo<transpose {kind}>"))


def _triangular_by(solver):
    """Return the lowering of a platform, given a solver that conjugates only matrices that it transposes."""
    def rule(a, b, *, conjugate_a, transpose_a, **params):
        if conjugate_a and not transpose_a:
            a, conjugate_a = xnp.conj(a), False
        solve = solver if b.dtype in LETTERS and b.size else _triangular_hlo_p.bind
        return solve(a, b, conjugate_a=conjugate_a, transpose_a=transpose_a, **params)

    return rule


def _triangular_jvp(primals, tangents, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    """Differentiate the solution: `op(A) X = B` implies `op(A) X' = B' - op(A') X`, likewise on the other side."""
    (a, b), (a_t, b_t) = primals, tangents
    params = {"left_side": left_side, "lower": lower, "transpose_a": transpose_a, "conjugate_a": conjugate_a,
              "unit_diagonal": unit_diagonal}
    x = triangular_solve_p.bind(a, b, **params)
    right_side = None if type(b_t) is Zero else b_t
    if type(a_t) is not Zero:
        k = 1 if unit_diagonal else 0
        change = xnp.tril(a_t, -k) if lower else xnp.triu(a_t, k)
        change = change.mT if transpose_a else change
        change = xnp.conj(change) if conjugate_a else change
        change = product(change, x) if left_side else product(x, change)
        right_side = -change if right_side is None else right_side - change
    return x, zero_tangent(x) if right_side is None else triangular_solve_p.bind(a, right_side, **params)


def _triangular_transpose(ct, a, b, *, transpose_a, **params):
    if is_undefined(a):
        raise NotImplementedError("triangular_solve is linear in b and not in a: it cannot be transposed in a.")
    return [None, Zero(b.aval) if type(ct) is Zero else triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _triangular_batch(size, operands, dims, *, left_side, **params):
    (a, b), (da, db) = operands, dims
    if da is None:  # one matrix for all right-hand sides: merge the batch dimension with the columns, or the rows
        axis = b.ndim - 2 if left_side else b.ndim - 3
        b = xnp.moveaxis(b, db, axis)
        shape = b.shape
        merged = b.reshape(shape[:axis] + (shape[axis] * shape[axis + 1],) + shape[axis + 2:])
        return triangular_solve_p.bind(a, merged, left_side=left_side, **params).reshape(shape), axis
    return triangular_solve_p.bind(broadcast_batch(a, da, size), broadcast_batch(b, db, size), left_side=left_side,
                                   **params), 0


_triangular_hlo_p = factorization("triangular_solve", _triangular_shape, ranks=(2, 2), multiple_results=False, kernel=False,
                                  lower={None: _triangular_hlo})
triangular_solve_p = factorization("triangular_solve", _triangular_shape, jvp=_triangular_jvp, transpose=_triangular_transpose,
                                   ranks=(2, 2), multiple_results=False, kernel=False, cpu=_triangular_by(_triangular_kernel),
                                   default=_triangular_by(_triangular_hlo_p.bind), batch=_triangular_batch)


def triangular_solve(a: ArrayLike, b: ArrayLike, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
                     conjugate_a: bool = False, unit_diagonal: bool = False) -> Array:
    """Solve `op(a) @ x == b` or `x @ op(a) == b` for a triangular matrix `a`.

    Args:
        a: Triangular matrix; the other triangle is not read.
        b: Right-hand sides, as a matrix or a vector.
        left_side: If True, `a` is on the left of `x`.
        lower: If True, `a` is lower triangular.
        transpose_a: If True, `op` transposes `a`.
        conjugate_a: If True, `op` conjugates `a`.
        unit_diagonal: If True, assume that the diagonal is 1 and do not read it.

    Returns:
        Solution `x` with the shape of `b`.

    Example:
        >>> a = xnp.array([[2.0, 0.0], [1.0, 4.0]])
        >>> lax.linalg.triangular_solve(a, xnp.array([2.0, 9.0]), left_side=True, lower=True)
        Array([1., 2.], dtype=float32)
    """
    return _triangular_solve(a, b, bool(left_side), bool(lower), bool(transpose_a), bool(conjugate_a), bool(unit_diagonal))


@library(static=("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"))
def _triangular_solve(a, b, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    a, b = operand("triangular_solve", a), operand("triangular_solve", b)
    vector = b.ndim == a.ndim - 1
    if vector:
        b = b[..., None] if left_side else b[..., None, :]
    x = triangular_solve_p.bind(a, b, left_side=left_side, lower=lower, transpose_a=transpose_a,
                                conjugate_a=conjugate_a and dtypes.is_complex(a.dtype), unit_diagonal=unit_diagonal)
    return xnp.squeeze(x, -1 if left_side else -2) if vector else x


# Tridiagonal systems


def _tridiagonal_shape(dl, d, du, b, *, perturb_singular):
    if not dl.shape == d.shape == du.shape or b.shape[-2] != d.shape[-1]:
        raise TypeError(f"tridiagonal_solve needs three diagonals of equal length and a matrix with that many rows, got dl "
                        f"{dl}, d {d}, du {du} and b {b}.")
    return [(b.shape, b.dtype)]


def _tridiagonal_gtsv(dl, d, du, b, *, perturb_singular):
    if perturb_singular:
        return call("tridiagonal_solve_perturbed_ffi", [(b.shape, b.dtype)], dl, d, du, b, batch=d.ndim - 1)[0]
    *_, x, info = call(lapack("gtsv", d.dtype), [*[(d.shape, d.dtype)] * 3, (b.shape, b.dtype), (d.shape[:-1], np.int32)],
                       dl, d, du, b, batch=d.ndim - 1, aliases=[(i, i) for i in range(4)])
    return succeeded(info, x)


def _tridiagonal_gpu(dl, d, du, b, *, perturb_singular):
    if perturb_singular:
        return call("cu_tridiagonal_solve_perturbed", [(b.shape, b.dtype)], dl, d, du, b, batch=d.ndim - 1)[0]
    if d.shape[-1] < 3:  # cuSPARSE does not support smaller systems
        return _tridiagonal_elimination(dl, d, du, b, perturb_singular=False)
    return call("cusparse_gtsv2_ffi", [(b.shape, b.dtype)], dl, d, du, b, batch=d.ndim - 1, aliases=[(3, 0)])[0]


def _tridiagonal_elimination(dl, d, du, b, *, perturb_singular):
    """Solve by Gaussian elimination without pivoting (Thomas algorithm). If `perturb_singular`, zero pivots are replaced
    by eps."""
    def down(state, diagonals):
        above, right = state
        dl, d, du, b = diagonals
        pivot = d - dl * above
        if perturb_singular:
            pivot = xnp.where(pivot == 0, xnp.finfo(d.dtype).eps, pivot)
        state = du / pivot, (b - dl[..., None] * right) / pivot[..., None]
        return state, state

    def up(x, factors):
        above, right = factors
        x = right - above[..., None] * x
        return x, x

    dl, d, du = (xnp.moveaxis(v, -1, 0) for v in (dl, d, du))
    b = xnp.moveaxis(b, -2, 0)
    dl = dl.at[:1].set(0) if len(dl) else dl
    _, factors = lax.scan(down, (xnp.zeros_like(d[0]), xnp.zeros_like(b[0])), (dl, d, du, b))
    return xnp.moveaxis(lax.scan(up, xnp.zeros_like(b[0]), factors, reverse=True)[1], 0, -2)


def _tridiagonal_product(dl, d, du, x):
    """Multiply the tridiagonal matrix with these diagonals by `x`."""
    below = dl[..., 1:, None] * x[..., :-1, :]
    above = du[..., :-1, None] * x[..., 1:, :]
    return (d[..., None] * x).at[..., 1:, :].add(below).at[..., :-1, :].add(above)


def _tridiagonal_jvp(primals, tangents, **params):
    """Differentiate the solution: `A X = B` implies `A X' = B' - A' X`."""
    x = tridiagonal_solve_p.bind(*primals, **params)
    *diagonals, right_side = [None if type(t) is Zero else t for t in tangents]
    if any(t is not None for t in diagonals):
        change = _tridiagonal_product(*[xnp.zeros_like(p) if t is None else t for p, t in zip(primals, diagonals)], x)
        right_side = -change if right_side is None else right_side - change
    return x, zero_tangent(x) if right_side is None else tridiagonal_solve_p.bind(*primals[:3], right_side, **params)


def _tridiagonal_transpose(ct, dl, d, du, b, **params):
    if any(map(is_undefined, (dl, d, du))):
        raise NotImplementedError("tridiagonal_solve is linear in b only: it cannot be transposed in a diagonal.")
    if type(ct) is Zero:
        return [None, None, None, Zero(b.aval)]
    below, above = xnp.roll(du, 1, axis=-1), xnp.roll(dl, -1, axis=-1)
    return [None, None, None, tridiagonal_solve_p.bind(below, d, above, ct, **params)]


tridiagonal_solve_p = factorization(
    "tridiagonal_solve", _tridiagonal_shape, jvp=_tridiagonal_jvp, transpose=_tridiagonal_transpose, ranks=(1, 1, 1, 2),
    multiple_results=False, cpu=_tridiagonal_gtsv, gpu=_tridiagonal_gpu, default=_tridiagonal_elimination)


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False) -> Array:
    """Solve `A @ x == b` for a tridiagonal matrix `A`.

    The elements of `A` are `A[i, i] = d[i]`, `A[i, i - 1] = dl[i]` and `A[i, i + 1] = du[i]`.

    Args:
        dl, d, du: Lower, main and upper diagonal, all of the same length; `dl[0]` and `du[-1]` are not read.
        b: Right-hand sides, as columns.
        perturb_singular: If True, perturb a singular matrix to get a finite solution.

    Returns:
        Solution `x` with the shape of `b`.

    Example:
        >>> off, ones = xnp.zeros(2), xnp.ones((2, 1))
        >>> lax.linalg.tridiagonal_solve(off, xnp.array([2.0, 4.0]), off, ones)
        Array([[0.5 ],
               [0.25]], dtype=float32)
    """
    return tridiagonal_solve_p.bind(*[operand("tridiagonal_solve", x) for x in (dl, d, du, b)],
                                    perturb_singular=bool(perturb_singular))


# LU


def _lu_shape(a):
    *batch, m, n = a.shape
    return [(a.shape, a.dtype), ((*batch, min_dim(m, n)), np.int32), ((*batch, m), np.int32)]


def _lu_kernel(a, target):
    *batch, m, n = a.shape
    factors, pivots, info = call(target, [*_lu_shape(a)[:2], (batch, np.int32)], a, aliases=[(0, 0)])
    pivots = pivots - 1  # the kernels count from one
    return [where_each(info >= 0, factors, np.nan), pivots, lu_pivots_to_permutation(pivots, m)]


def _lu_on_tpu(ctx, a):
    return ctx.op("stablehlo.custom_call", [a], call_target_name=lowering.mlir.string("LuDecomposition"))


def _lu_jvp(primals, tangents):
    """Differentiate the LU factors.

    Let `L` and `U` be extended to square matrices with ones on their diagonals. The strict lower triangle of `L^-1 P A'
    U^-1` is `L^-1 L'`, the rest is `U' U^-1`.
    """
    [a], [a_t] = primals, tangents
    factors, pivots, permutation = lu_p.bind(a)
    m, n = a.shape[-2:]
    k = min_dim(m, n)
    batch = [(0, 0)] * (a.ndim - 2)
    lower = xnp.pad(xnp.tril(factors[..., :, :k], -1), [*batch, (0, 0), (0, m - k)]) + xnp.eye(m, dtype=a.dtype)
    corner = xnp.concatenate([xnp.zeros(k, a.dtype), xnp.ones(n - k, a.dtype)])
    upper = xnp.pad(xnp.triu(factors[..., :k, :]), [*batch, (0, n - k), (0, 0)]) + xnp.diag(corner)
    rows = xnp.take_along_axis(a_t, permutation[..., :, None], -2, mode="promise_in_bounds", wrap_negative_indices=False)
    inner = triangular_solve(lower, rows, left_side=True, lower=True, unit_diagonal=True)
    inner = triangular_solve(upper, inner, left_side=False, lower=False)
    tangent = product(lower, xnp.tril(inner, -1)) + product(xnp.triu(inner), upper)
    return [factors, pivots, permutation], [tangent, zero_tangent(pivots), zero_tangent(permutation)]


lu_p = factorization("lu", _lu_shape, jvp=_lu_jvp, cpu=lambda a: _lu_kernel(a, lapack("getrf", a.dtype)),
                     gpu=lambda a: _lu_kernel(a, "cusolver_getrf_ffi"), lower={"tpu": _lu_on_tpu})


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Compute the LU decomposition with partial pivoting, `x[permutation] == L @ U`.

    Args:
        x: Matrix, square or not.

    Returns:
        `L` (below its unit diagonal) and `U` packed in one array; the pivots, row `i` was swapped with row `pivots[i]`;
        and the permutation.

    Example:
        >>> factors, swaps, permutation = lax.linalg.lu(xnp.array([[1.0, 2.0], [4.0, 6.0]]))
        >>> permutation
        Array([1, 0], dtype=int32)
    """
    return lu_p.bind(operand("lu", x))


def solve_factored(factors, permutation, b, transpose: str = "N"):
    """Solve `A x == b`, or a system with the transpose ("T") or adjoint ("C") of `A`, given the result of `lu`."""
    if transpose == "N":
        x = xnp.take_along_axis(b, permutation[..., :, None], -2, mode="promise_in_bounds", wrap_negative_indices=False)
        x = triangular_solve(factors, x, left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, x, left_side=True)
    options = {"transpose_a": True, "conjugate_a": transpose == "C", "left_side": True}
    x = triangular_solve(factors, b, **options)
    x = triangular_solve(factors, x, lower=True, unit_diagonal=True, **options)
    order = xnp.argsort(permutation, axis=-1)[..., :, None]
    return xnp.take_along_axis(x, order, -2, mode="promise_in_bounds", wrap_negative_indices=False)


def _pivots_shape(pivots, *, permutation_size):
    if pivots.dtype != np.int32:
        raise TypeError(f"lu_pivots_to_permutation takes pivots of dtype int32, as lu returns them; got {pivots}.")
    if pivots.shape[-1] > permutation_size:
        raise ValueError(f"permutation_size={permutation_size} is less than the number of pivots, {pivots.shape[-1]}.")
    return [((*pivots.shape[:-1], permutation_size), np.int32)]


def _permutation_by_swaps(pivots, *, permutation_size):
    *batch, count = pivots.shape

    if not count:
        return xnp.broadcast_to(xnp.arange(permutation_size, dtype=np.int32), (*batch, permutation_size))

    def permute(pivots):
        def swap(i, permutation):
            other = pivots[i]
            x, y = permutation[i], permutation[other]
            return permutation.at[i].set(y).at[other].set(x)

        start = xnp.arange(permutation_size, dtype=np.int32)
        return lax.fori_loop(0, count, swap, tracing.as_varying(start, tracing.aval_of(pivots).vma))

    return xf.vmap(permute)(pivots.reshape(-1, count)).reshape(*batch, permutation_size) if batch else permute(pivots)


lu_pivots_to_permutation_p = factorization(
    "lu_pivots_to_permutation", _pivots_shape, ranks=(1,), accepts="int", multiple_results=False, kernel=False,
    default=_permutation_by_swaps,
    gpu=lambda pivots, *, permutation_size: call(
        "cu_lu_pivots_to_permutation", [((*pivots.shape[:-1], permutation_size), np.int32)], pivots, batch=pivots.ndim - 1)[0])


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """Convert the pivots of an LU decomposition to a permutation.

    Args:
        pivots: For each row, the row with which it is swapped, as returned by `lu`.
        permutation_size: Number of rows.

    Returns:
        Permutation of the rows.

    Example:
        >>> lax.linalg.lu_pivots_to_permutation(xnp.array([2, 2, 2]), 3)
        Array([2, 0, 1], dtype=int32)
    """
    size = permutation_size if is_symbolic_dim(permutation_size) else int(permutation_size)
    return lu_pivots_to_permutation_p.bind(operand("lu_pivots_to_permutation", pivots), permutation_size=size)


# Symmetric rank-k update


def _symmetric_shape(a, c, *, alpha, beta):
    n = a.shape[-2]
    if c.shape[-2:] != (n, n):
        raise ValueError(f"symmetric_product of a matrix with {n} rows needs a symmetric c_matrix of that size, got {a} and "
                         f"{c}.")
    return [(c.shape, c.dtype)]


def _symmetric_default(a, c, *, alpha, beta):
    return alpha * product(a, a.mT) + beta * c


def _symmetric_kernel(a, c, *, alpha, beta):
    if dtypes.is_complex(a.dtype) or a.dtype not in LETTERS:
        return _symmetric_default(a, c, alpha=alpha, beta=beta)
    scalars = xnp.asarray(alpha, a.dtype), xnp.asarray(beta, a.dtype)
    return call("cusolver_syrk_ffi", [(c.shape, c.dtype)], a, c, *scalars, batch=0, aliases=[(1, 0)], by_columns=False,
                transpose=False)[0]


symmetric_product_p = factorization(
    "symmetric_product", _symmetric_shape, ranks=(2, 2), multiple_results=False, kernel=False,
    default=_symmetric_default, cuda=_symmetric_kernel)


def symmetric_product(a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0,
                      symmetrize_output: bool = False) -> Array:
    """Compute `alpha * a_matrix @ a_matrix.T + beta * c_matrix`.

    On some devices only the lower triangle is computed.

    Args:
        a_matrix: Matrix.
        c_matrix: Symmetric matrix with as many rows.
        alpha, beta: Python scalars.
        symmetrize_output: If True, copy the lower triangle to the upper one.

    Returns:
        Symmetric matrix with the shape of `c_matrix`.

    Example:
        >>> lax.linalg.symmetric_product(xnp.ones((2, 3)), xnp.eye(2), beta=2.0, symmetrize_output=True)
        Array([[5., 3.],
               [3., 5.]], dtype=float32)
    """
    return _symmetric_product(a_matrix, c_matrix, float(alpha), float(beta), bool(symmetrize_output))


@library(static=("alpha", "beta", "symmetrize_output"))
def _symmetric_product(a_matrix, c_matrix, alpha, beta, symmetrize_output):
    a, c = operand("symmetric_product", a_matrix), operand("symmetric_product", c_matrix)
    result = symmetric_product_p.bind(a, c, alpha=alpha, beta=beta)
    return xnp.tril(result) + xnp.tril(result, -1).mT if symmetrize_output else result
