"""Matrices brought to simpler forms by orthogonal ones: Hessenberg's, tridiagonal, Schur's."""

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
    found, taus, info = call(lapack("gehrd", a.dtype), [*shapes, (a.shape[:-2], np.int32)], a, aliases=[(0, 0)], low=1,
                             high=a.shape[-1])
    return [succeeded(info, found), succeeded(info, taus)]


hessenberg_p = factorization("hessenberg", _hessenberg_shape, cpu=_hessenberg_kernel)


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """`Q.conj().T @ a @ Q`, zero below the diagonal beneath the main one, and the reflections whose product Q is.

    In place of those zeros are the reflections; the second result are their factors, both as `householder_product` takes them.

    - `a`: a square matrix.

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
    *found, info = call(target, [*shapes, (a.shape[:-2], np.int32)], a, aliases=[(0, 0)], **attributes)
    return [succeeded(info, x) for x in found]


tridiagonal_p = factorization(
    "tridiagonal", _tridiagonal_shape,
    cpu=lambda a, *, lower: _tridiagonal_kernel(a, lapack("sytrd", a.dtype), uplo=letter("L" if lower else "U")),
    cuda=lambda a, *, lower: _tridiagonal_kernel(a, "cusolver_sytrd_ffi", lower=lower))


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """`(x, diagonal, beside the diagonal, taus)`: a real matrix of three diagonals that is `Q.conj().T @ a @ Q`.

    Beyond the diagonal and the one beside it, `x` holds reflections whose product Q is.

    - `a`: a Hermitian matrix.
    - `lower`: which triangle is read.

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
        raise NotImplementedError("schur with sort_eig_vals=True is computed by none of the libraries: leave it out.")
    *batch, n, _ = x.shape
    if not x.size:
        return [x] * (1 + compute_schur_vectors)
    values = [((*batch, n), x.dtype)] * (1 if dtypes.is_complex(x.dtype) else 2)  # or their real and imaginary parts
    form, vectors, *_, info = call(
        lapack("gees", x.dtype), [(x.shape, x.dtype), (x.shape, x.dtype), *values, (batch, np.int32), (batch, np.int32)], x,
        aliases=[(0, 0)], mode=letter("V" if compute_schur_vectors else "N"), sort=letter("N"))
    return [succeeded(info, form), succeeded(info, vectors)][:1 + compute_schur_vectors]


schur_p = factorization("schur", _schur_shape, cpu=_schur_kernel)


def schur(x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
          select_callable: Callable | None = None) -> list[Array]:
    """An upper triangular matrix `T` and a unitary one `Q` for which `Q @ T @ Q.conj().T` is a matrix.

    That of a real matrix has blocks of two rows in its diagonal for pairs of complex eigenvalues.

    - `x`: the square matrix.
    - `compute_schur_vectors`: whether to return `Q` too.
    - `sort_eig_vals`, `select_callable`: both must be left as they are: the eigenvalues come in no order.

    >>> t, q = lax.linalg.schur(xnp.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> xnp.diag(t)
    Array([2., 3.], dtype=float32)
    """
    return schur_p.bind(operand("schur", x), compute_schur_vectors=bool(compute_schur_vectors),
                        sort_eig_vals=bool(sort_eig_vals), select_callable=select_callable)
