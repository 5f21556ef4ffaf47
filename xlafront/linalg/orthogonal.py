"""QR factorizations: products of Householder reflectors, and products with them."""

from __future__ import annotations

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.linalg.factorizations import lu, triangular_solve
from xlafront.linalg.kernels import adjoint, call, factorization, lapack, on_tpu, operand, product, zero_tangent
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import max_dim, min_dim

# Householder reflectors: column i of `a` holds, below its diagonal, the vector v_i of the reflector 1 - taus[i] v_i v_i*, whose
# element i is 1 and whose elements above it are 0. Q is the product of all reflectors, first to last.


def _apply_reflectors(a, taus, c, *, transpose=False):
    """Compute `Q c`, or `Q* c` if `transpose`.

    With D = diag(taus) and S the strict upper triangle of V* V, `Q = 1 - V (1 + D S)^-1 D V*`.
    """
    k = taus.shape[-1]
    v = xnp.tril(a[..., :k], -1) + xnp.eye(a.shape[-2], k, dtype=a.dtype)
    weights = taus[..., :, None]
    system = weights * xnp.triu(product(adjoint(v), v), 1)
    inner = product(adjoint(v), c)
    options = dict(left_side=True, lower=False, unit_diagonal=True)
    if transpose:
        inner = xnp.conj(weights) * triangular_solve(system, inner, transpose_a=True, conjugate_a=True, **options)
    else:
        inner = triangular_solve(system, weights * inner, **options)
    return c - product(v, inner)


def _product_of_reflections(a, taus):
    return _apply_reflectors(a, taus, xnp.broadcast_to(xnp.eye(*a.shape[-2:], dtype=a.dtype), a.shape))


def _householder_shape(a, taus):
    *_, m, n = a.shape
    if m < n or taus.shape[-1] > n:
        raise ValueError(f"householder_product takes a matrix with at least as many rows as columns, and at most as many "
                         f"taus as columns; got a of shape {a.shape} and taus of shape {taus.shape}.")
    return [(a.shape, a.dtype)]


def _householder_kernel(a, taus, target):
    return call(target, [(a.shape, a.dtype)], a, taus, aliases=[(0, 0)])[0] if a.size else a


def _tangents_by(formula):
    """Return a rule that computes tangents by differentiating `formula`, which gives the same results as a kernel."""
    def rule(primals, tangents, **params):
        tangents = [xnp.zeros(t.aval.shape, t.aval.dtype) if type(t) is Zero else t for t in tangents]
        return xf.jvp(lambda *operands: formula(*operands, **params), tuple(primals), tuple(tangents))[1]

    return rule


def _householder_jvp(primals, tangents):
    return householder_product_p.bind(*primals), _tangents_by(_product_of_reflections)(primals, tangents)


householder_product_p = factorization(
    "householder_product", _householder_shape, ranks=(2, 1), multiple_results=False, jvp=_householder_jvp,
    cpu=lambda a, taus: _householder_kernel(a, taus, lapack("orgqr", a.dtype)),
    gpu=lambda a, taus: _householder_kernel(a, taus, "cusolver_orgqr_ffi"), default=_product_of_reflections,
    lower={"tpu": on_tpu("ProductOfElementaryHouseholderReflectors")})


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Compute the product of Householder reflectors: the orthonormal columns of `Q`, as in LAPACK's QR factorization.

    Args:
        a: Matrix whose columns below the diagonal define the reflectors.
        taus: Scalar factors of the reflectors.

    Returns:
        Matrix with orthonormal columns and the shape of `a`.

    Example:
        >>> lax.linalg.householder_product(xnp.array([[0.0], [1.0]]), xnp.array([1.0]))
        Array([[ 0.],
               [-1.]], dtype=float32)
    """
    return householder_product_p.bind(operand("householder_product", a), operand("householder_product", taus))


def _ormqr_shape(a, taus, c, *, left, transpose):
    if c.shape[-2 if left else -1] != a.shape[-2] or taus.shape[-1] > min_dim(*a.shape[-2:]):
        raise ValueError(f"ormqr with left={left} takes a matrix c with {a.shape[-2]} {'rows' if left else 'columns'}, the "
                         f"rows of a, and at most {min_dim(*a.shape[-2:])} taus; got shapes {a.shape}, {taus.shape} and "
                         f"{c.shape}.")
    return [(c.shape, c.dtype)]


def _ormqr_kernel(a, taus, c, target, **params):
    return call(target, [(c.shape, c.dtype)], a, taus, c, aliases=[(2, 0)], **params)[0] if a.size and c.size else c


def _ormqr_formula(a, taus, c, *, left, transpose):
    if left:
        return _apply_reflectors(a, taus, c, transpose=transpose)
    return adjoint(_apply_reflectors(a, taus, adjoint(c), transpose=not transpose))  # c Q is (Q* c*)*


def _ormqr_jvp(primals, tangents, **params):
    return ormqr_p.bind(*primals, **params), _tangents_by(_ormqr_formula)(primals, tangents, **params)


ormqr_p = factorization(
    "ormqr", _ormqr_shape, ranks=(2, 1, 2), multiple_results=False, default=_ormqr_formula, jvp=_ormqr_jvp,
    cpu=lambda a, taus, c, **params: _ormqr_kernel(a, taus, c, lapack("ormqr", a.dtype), **params),
    gpu=lambda a, taus, c, **params: _ormqr_kernel(a, taus, c, "cusolver_ormqr_ffi", **params))


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """Multiply a matrix by the full orthogonal matrix `Q` of Householder reflectors, without forming `Q`.

    Args:
        a, taus: Reflectors, see `householder_product`.
        c: Matrix to multiply.
        left: If True, compute `Q @ c`, otherwise `c @ Q`.
        transpose: If True, use the conjugate transpose of `Q`.

    Returns:
        Product with the shape of `c`.

    Example:
        >>> lax.linalg.ormqr(xnp.array([[0.0], [1.0]]), xnp.array([1.0]), xnp.array([[2.0], [3.0]]))
        Array([[-3.],
               [-2.]], dtype=float32)
    """
    return ormqr_p.bind(*[operand("ormqr", x) for x in (a, taus, c)], left=bool(left), transpose=bool(transpose))


# QR: LAPACK's packed form, with R above the reflectors, and the matrices Q and R


def _geqrf_shape(a):
    *batch, m, n = a.shape
    return [(a.shape, a.dtype), ((*batch, min_dim(m, n)), a.dtype)]


def _geqp3_shape(a, columns, *, use_magma):
    return [_geqrf_shape(a)[0], (columns.shape, np.int32), _geqrf_shape(a)[1]]


def _geqrf_kernel(a, target):
    return call(target, _geqrf_shape(a), a, aliases=[(0, 0)])


def _geqrf_reflections(a):
    """Compute the packed QR factorization: one reflector per column zeroes the elements below the diagonal and replaces
    them."""
    *batch, m, n = a.shape
    rows, count = xnp.arange(m), min_dim(m, n)

    def reflect(j, state):
        a, taus = state
        x = xnp.where(rows >= j, lax.dynamic_index_in_dim(a, j, -1, keepdims=False), 0)
        first = lax.dynamic_index_in_dim(x, j, -1)
        norm = xnp.sqrt(xnp.sum(xnp.abs(x) ** 2, -1, keepdims=True))
        is_needed = xnp.any((rows > j) & (x != 0), -1, keepdims=True) | (xnp.imag(first) != 0)
        beta = xnp.where(is_needed, xnp.where(xnp.real(first) < 0, norm, -norm), xnp.real(first)).astype(a.dtype)
        tau = xnp.where(is_needed, (beta - first) / xnp.where(is_needed, beta, 1), 0)
        v = xnp.where(rows > j, x / xnp.where(is_needed, first - beta, 1), (rows == j).astype(a.dtype))
        updated = a - xnp.conj(tau)[..., None] * v[..., :, None] * product(xnp.conj(v)[..., None, :], a)
        column = xnp.where(rows > j, v, xnp.where(rows == j, beta, lax.dynamic_index_in_dim(a, j, -1, keepdims=False)))
        is_done = xnp.arange(n) < j  # columns that already hold reflectors
        a = xnp.where(is_done, a, xnp.where(xnp.arange(n) == j, column[..., None], updated))
        return a, lax.dynamic_update_slice_in_dim(taus, tau, j, -1)

    return list(lax.fori_loop(0, count, reflect, (a, xnp.zeros_like(a, shape=(*batch, count)))))


def _geqp3_kernel(a, columns, target, **attributes):
    return call(target, _geqp3_shape(a, columns, use_magma=None), a, columns, aliases=[(0, 0), (1, 1)], **attributes)


MAGMA = {None: "auto", True: "on", False: "off"}  # use MAGMA, if installed, for large matrices, always, or never

geqrf_p = factorization("geqrf", _geqrf_shape, cpu=lambda a: _geqrf_kernel(a, lapack("geqrf", a.dtype)),
                        gpu=lambda a: _geqrf_kernel(a, "cusolver_geqrf_ffi"), default=_geqrf_reflections,
                        lower={"tpu": on_tpu("Qr")})
geqp3_p = factorization(
    "geqp3", _geqp3_shape, shown_as="qr with pivoting=True",
    cpu=lambda a, columns, *, use_magma: _geqp3_kernel(a, columns, lapack("geqp3", a.dtype)),
    gpu=lambda a, columns, *, use_magma: _geqp3_kernel(a, columns, "cuhybrid_geqp3", magma=MAGMA[use_magma]))


def _qr_shape(a, *, pivoting, full_matrices, use_magma):
    *batch, m, n = a.shape
    k = m if full_matrices else min_dim(m, n)
    return [((*batch, m, k), a.dtype), ((*batch, k, n), a.dtype), *[((*batch, n), np.int32)] * pivoting]


def _qr_algorithm(a, *, pivoting, full_matrices, use_magma):
    *batch, m, n = a.shape
    k = m if full_matrices else min_dim(m, n)
    if not a.size:
        columns = xnp.broadcast_to(xnp.arange(n, dtype=np.int32), (*batch, n))
        return [xnp.broadcast_to(xnp.eye(m, k, dtype=a.dtype), (*batch, m, k)), xnp.zeros((*batch, k, n), a.dtype),
                *[columns] * pivoting]
    if pivoting:  # zeros: every column may be moved; the kernels count from one
        packed, columns, taus = geqp3_p.bind(a, xnp.zeros((*batch, n), np.int32), use_magma=use_magma)
        columns = [columns - 1]
    else:
        (packed, taus), columns = geqrf_p.bind(a), []
    padding = [(0, 0)] * (a.ndim - 1) + [(0, max_dim(k - n, 0))]
    q = householder_product(xnp.pad(packed, padding)[..., :k], taus)
    return [q, xnp.triu(packed[..., :k, :]), *columns]


def _right_divide(x, a):
    """Compute `x a^-1`."""
    factors, _, permutation = lu(a)
    x = triangular_solve(factors, x, left_side=False, lower=False)
    x = triangular_solve(factors, x, left_side=False, lower=True, unit_diagonal=True)
    return xnp.take_along_axis(x, xnp.argsort(permutation, axis=-1)[..., None, :], -1)


def _qr_jvp(primals, tangents, **params):
    """Differentiate the QR factors.

    With `W = Q* A' R^-1`, `A' = Q' R + Q R'` and an R with a real diagonal imply `Q* Q' = L - L* + i Im(diag W)`, where
    L is the strict lower triangle of W.

    The columns of Q beyond those of R are `E2 + (Q1 - E1) M*` with `M = Q21 (Q11 - 1)^-1`, where E is the unit matrix
    and Q1 are the other columns, as follows from `Q = 1 - V T V*`; so they vary with these.
    """
    [a], [a_t] = primals, tangents
    q, r, *columns = qr_p.bind(a, **params)
    if not a.size:
        return [q, r, *columns], [zero_tangent(x) for x in (q, r, *columns)]
    if columns:
        a_t = xnp.take_along_axis(a_t, columns[0][..., None, :], -1, mode="promise_in_bounds", wrap_negative_indices=False)
    m, n = a.shape[-2:]
    k = min_dim(m, n)
    inner = triangular_solve(r[..., :k, :k], a_t[..., :k], left_side=False, lower=False)
    w = product(adjoint(q), inner)
    lower = xnp.tril(w, -1)
    if dtypes.is_complex(a.dtype):  # the adjoint contributes the other half
        lower = lower + 0.5j * xnp.imag(w).astype(w.dtype) * xnp.eye(*w.shape[-2:], dtype=a.dtype)
    lower = xnp.pad(lower, [(0, 0)] * (a.ndim - 1) + [(0, q.shape[-1] - k)])
    rotation = lower - adjoint(lower)
    q_t = product(q, rotation)
    if q.shape[-1] != m:  # (the term is 0 if sizes that are unknown turn out equal)
        q_t = q_t + inner - product(q, w)
    elif n < m:
        first, first_t = q[..., :n] - xnp.eye(m, n, dtype=a.dtype), q_t[..., :n]
        ratio = _right_divide(first[..., n:, :], first[..., :n, :])
        ratio_t = _right_divide(first_t[..., n:, :] - product(ratio, first_t[..., :n, :]), first[..., :n, :])
        q_t = xnp.concatenate([first_t, product(first_t, adjoint(ratio)) + product(first, adjoint(ratio_t))], -1)
    r_t = xnp.triu(product(adjoint(q), a_t) - product(rotation, r))
    return [q, r, *columns], [q_t, r_t, *[zero_tangent(c) for c in columns]]


qr_p = factorization("qr", _qr_shape, default=_qr_algorithm, jvp=_qr_jvp)


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> tuple[Array, ...]:
    """Compute the QR decomposition by Householder reflectors: `Q` with orthonormal columns and an upper triangular `R`.

    Args:
        x: Matrix.
        pivoting: If True, order the columns by decreasing norm, `Q @ R == x[:, P]`, and return `P` too.
        full_matrices: If True, `Q` is square; otherwise it has at most as many columns as `x`.
        use_magma: If True, GPUs use MAGMA for `pivoting`; if False, they do not. Default: for large matrices.

    Returns:
        `(Q, R)` or `(Q, R, P)`.

    Example:
        >>> q, r = lax.linalg.qr(xnp.array([[3.0], [4.0]]), full_matrices=False)
        >>> xnp.abs(r)
        Array([[5.]], dtype=float32)
    """
    return _qr(x, bool(pivoting), bool(full_matrices), use_magma)


@library(static=("pivoting", "full_matrices", "use_magma"))
def _qr(x, pivoting, full_matrices, use_magma):
    return tuple(qr_p.bind(operand("qr", x), pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma))
