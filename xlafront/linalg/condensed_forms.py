"""Reductions of matrices to condensed forms by orthogonal similarity: Hessenberg, tridiagonal and Schur form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.linalg.kernels import call, factorization, lapack, letter, operand, square, succeeded


def _hessenberg_shape(a):
    n = square("hessenberg", a)
    return [(a.shape, a.dtype), ((*a.shape[:-2], max(n - 1, 0)), a.dtype)]


def _hessenberg_kernel(a):
    shapes = _hessenberg_shape(a)
    if not a.size:
        return [a, xnp.zeros(*shapes[1])]
    h, taus, info = call(lapack("gehrd", a.dtype), [*shapes, (a.shape[:-2], np.int32)], a, aliases=[(0, 0)], low=1,
                             high=a.shape[-1])
    return [succeeded(info, h), succeeded(info, taus)]


hessenberg_p = factorization("hessenberg", _hessenberg_shape, cpu=_hessenberg_kernel)


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Reduce a square matrix to Hessenberg form, `H = Q.conj().T @ a @ Q`.

    `H` is zero below the first subdiagonal.

    Args:
        a: Square matrix.

    Returns:
        Array with `H` and, in place of the zeros, the Householder reflectors whose product is `Q`; and their scalar
        factors `taus`. Both are in the form that `householder_product` takes.

    Example:
        >>> h, taus = lax.linalg.hessenberg(xnp.array([[1.0, 2.0, 3.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]]))
        >>> h[1, 0]
        Array(-5., dtype=float32)
    """
    return hessenberg_p.bind(operand("hessenberg", a))


def _tridiagonal_shape(a, *, lower):
    n = square("tridiagonal", a)
    if n == 0:
        raise ValueError(f"tridiagonal takes matrices with at least one row, got an array of shape {a.shape}.")
    batch, real = a.shape[:-2], dtypes.to_real(a.dtype)
    return [(a.shape, a.dtype), ((*batch, n), real), ((*batch, n - 1), real), ((*batch, n - 1), a.dtype)]


def _tridiagonal_kernel(a, target, **attributes):
    shapes = _tridiagonal_shape(a, lower=None)
    if not a.size:
        return [xnp.zeros(*s) for s in shapes]
    *results, info = call(target, [*shapes, (a.shape[:-2], np.int32)], a, aliases=[(0, 0)], **attributes)
    return [succeeded(info, x) for x in results]


tridiagonal_p = factorization(
    "tridiagonal", _tridiagonal_shape,
    cpu=lambda a, *, lower: _tridiagonal_kernel(a, lapack("sytrd", a.dtype), uplo=letter("L" if lower else "U")),
    gpu=lambda a, *, lower: _tridiagonal_kernel(a, "cusolver_sytrd_ffi", lower=lower))


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Reduce a Hermitian matrix to real symmetric tridiagonal form, `Q.conj().T @ a @ Q`.

    Args:
        a: Hermitian matrix.
        lower: If True, read the lower triangle, otherwise the upper one.

    Returns:
        `(x, d, e, taus)`: the Householder reflectors of `Q`, stored in `x` outside of the tridiagonal part; the
        diagonal; the off-diagonal; and the scalar factors of the reflectors.

    Example:
        >>> x, diagonal, beside, taus = lax.linalg.tridiagonal(xnp.array([[1.0, 2.0], [2.0, 3.0]]))
        >>> diagonal, beside
        (Array([1., 3.], dtype=float32), Array([2.], dtype=float32))
    """
    return tridiagonal_p.bind(operand("tridiagonal", a), lower=bool(lower))


def _schur_shape(x, *, compute_schur_vectors, sort_eig_vals, select_callable):
    square("schur", x)
    return [(x.shape, x.dtype)] * (1 + compute_schur_vectors)


def _schur_kernel(x, *, compute_schur_vectors, sort_eig_vals, select_callable):
    if sort_eig_vals:
        raise NotImplementedError("schur does not support sort_eig_vals=True: omit it.")
    *batch, n, _ = x.shape
    if not x.size:
        return [x] * (1 + compute_schur_vectors)
    eigenvalues = [((*batch, n), x.dtype)] * (1 if dtypes.is_complex(x.dtype) else 2)  # or their real and imaginary parts
    t, q, *_, info = call(
        lapack("gees", x.dtype), [(x.shape, x.dtype), (x.shape, x.dtype), *eigenvalues, (batch, np.int32), (batch, np.int32)],
        x, aliases=[(0, 0)], mode=letter("V" if compute_schur_vectors else "N"), sort=letter("N"))
    return [succeeded(info, t), succeeded(info, q)][:1 + compute_schur_vectors]


schur_p = factorization("schur", _schur_shape, cpu=_schur_kernel)


def schur(x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
          select_callable: Callable | None = None) -> list[Array]:
    """Compute the Schur decomposition of a square matrix, `x == Q @ T @ Q.conj().T`.

    `T` is upper triangular; for a real matrix it has 2-by-2 diagonal blocks for pairs of complex eigenvalues.

    Args:
        x: Square matrix.
        compute_schur_vectors: If True, return the unitary `Q` too.
        sort_eig_vals: Must be False: the order of the eigenvalues is unspecified.
        select_callable: Must be None.

    Returns:
        `[T, Q]` or `[T]`.

    Example:
        >>> t, q = lax.linalg.schur(xnp.array([[2.0, 1.0], [0.0, 3.0]]))
        >>> xnp.diag(t)
        Array([2., 3.], dtype=float32)
    """
    return schur_p.bind(operand("schur", x), compute_schur_vectors=bool(compute_schur_vectors),
                        sort_eig_vals=bool(sort_eig_vals), select_callable=select_callable)
