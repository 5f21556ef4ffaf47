"""Functions of square matrices: the exponential, the square root and general matrix functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.lax import linalg as kernels
from xlafront.linalg.kernels import adjoint, product, square
from xlafront.runtime.arrays import ArrayImpl as Array
from xlafront.scipy.decompositions import promote_matrices
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library

# The order of the Padé approximant, and the norm up to which it is exact to rounding (Higham, 2005).
_ORDERS = {np.dtype(np.float32): (7, 3.925724783138660), np.dtype(np.float64): (13, 5.371920351148152)}
_HUGE = 1e30  # dividing by it gives practically 0
_COMMON_SQUARINGS = 3  # most matrices need no more


def expm(A: Array, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:  # noqa: N803  (SciPy's name)
    """Compute the matrix exponential by scaling and squaring.

    Args:
        A: Square matrices.
        upper_triangular: If True, assume that the matrices are upper triangular, which saves work.
        max_squarings: Maximum number of squarings. The result is NaN for matrices that need more.

    Returns:
        Exponential of each matrix.

    Example:
        >>> expm(xnp.zeros((2, 2)))
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return _expm(A, bool(upper_triangular), int(max_squarings))


@library(static=("upper_triangular", "max_squarings"))
def _expm(a, upper_triangular, max_squarings):
    [a] = promote_matrices("expm", a)
    n = square("expm", a)
    real = dtypes.to_real(a.dtype)
    if real not in _ORDERS:
        raise TypeError(f"expm takes matrices of 32 or 64 bits, got dtype {a.dtype}. Convert with x.astype(...).")
    if n == 0:
        return a
    expm_single = lambda x: _expm_single(x, *_ORDERS[real], upper_triangular, max_squarings)
    if a.ndim == 2:
        return expm_single(a)
    return xf.vmap(expm_single)(a.reshape(-1, n, n)).reshape(a.shape)


def _expm_single(a, order, bound, upper_triangular, max_squarings):
    norm = lax.stop_gradient(xnp.max(xnp.sum(xnp.abs(a), axis=0)))
    squarings = xnp.maximum(xnp.ceil(xnp.log2(norm / bound)), 0)
    a = a * xnp.exp2(-xnp.minimum(squarings, max_squarings)).astype(a.dtype)
    even, odd = _pade(a, order)
    p, q = even + odd, even - odd
    if upper_triangular:
        p = kernels.triangular_solve(q, p, left_side=True)
    else:
        p = xnp.linalg.solve(q, p)

    def squared(x, i):
        return lax.cond(i < squarings, lambda x: product(x, x), lambda x: x, x), None

    common, indices = (xnp.arange(n, dtype=squarings.dtype)
                       for n in (min(max_squarings, _COMMON_SQUARINGS), max_squarings))
    p = lax.scan(squared, p, common)[0]
    if max_squarings > _COMMON_SQUARINGS:  # each iteration copies the matrix, even if it does not square it
        p = lax.cond(squarings > _COMMON_SQUARINGS, lambda p: lax.scan(squared, p, indices[_COMMON_SQUARINGS:])[0],
                     lambda p: p, p)
    return xnp.where(squarings <= max_squarings, p, np.nan)  # NaN also for non-finite input


def _pade(a, order):
    """Return the even and the odd part of the numerator of the Padé approximant of an odd order."""
    b = [math.factorial(2 * order - k) * math.factorial(order) / (
        math.factorial(2 * order) * math.factorial(k) * math.factorial(order - k)) for k in range(order + 1)]
    eye = xnp.eye(a.shape[-1], dtype=a.dtype)
    powers = [eye, product(a, a)]
    while len(powers) <= min(order // 2, 3):
        powers.append(product(powers[-1], powers[1]))

    def polynomial(coefficients):
        """Evaluate a polynomial in the square of `a`; terms above the third power are factored by that power."""
        head = sum(c * p for c, p in zip(coefficients, powers))
        tail = coefficients[len(powers):]
        if not tail:
            return head
        return head + product(powers[3], sum(c * p for c, p in zip(tail, powers[1:])))

    return polynomial(b[0::2]), product(a, polynomial(b[1::2]))


def expm_frechet(A: Array, E: Array, *, method: str | None = None, compute_expm: bool = True) -> Any:  # noqa: N803
    """Compute the matrix exponential of `A` and its Fréchet derivative in the direction `E`.

    Args:
        A, E: Square matrices of the same shape.
        method: No effect.
        compute_expm: If False, return only the derivative.

    Returns:
        `(expm(A), derivative)`, or the derivative.

    Example:
        >>> expm_frechet(xnp.zeros((1, 1)), xnp.ones((1, 1)))
        (Array([[1.]], dtype=float32), Array([[1.]], dtype=float32))
    """
    a, e = promote_matrices("expm_frechet", A, E)
    square("expm_frechet", a)
    if e.shape != a.shape:
        raise ValueError(f"expm_frechet takes matrices of one shape, got A {a.shape} and E {e.shape}.")
    value, derivative = xf.jvp(expm, (a,), (e,))
    return (value, derivative) if compute_expm else derivative


def _complex_schur(name: str, a, error: type[Exception] = ValueError) -> Sequence[Array]:
    [a] = promote_matrices(name, a, error=error)
    square(name, a)
    if a.ndim != 2:
        raise ValueError(f"{name} takes one square matrix, got an array of shape {a.shape}. Use vmap for many.")
    return kernels.schur(a.astype(dtypes.to_complex(a.dtype)))


def _solve_by_columns(t, diagonal, system: Callable):
    """Compute an upper triangular matrix with the given diagonal, column by column.

    Column `j` above the diagonal solves a triangular system of the preceding columns: `system(j, f, above)` returns its
    matrix (only the first `j` rows and columns are read) and right side; the mask `above` selects the rows above the
    diagonal.
    """
    n = t.shape[-1]
    rows = xnp.arange(n)

    def column(j, f):
        above = rows < j
        matrix, right = system(j, f, above)
        right = xnp.where(above, right, 0)[:, None]
        solution = kernels.triangular_solve(matrix, right, left_side=True, lower=False)[:, 0]
        return f.at[:, j].set(xnp.where(rows == j, diagonal, xnp.where(above, solution, 0)))

    return lax.fori_loop(0, n, column, xnp.zeros_like(t))


def _with_diagonal(matrix, diagonal):
    return xnp.where(xnp.eye(matrix.shape[-1], dtype=bool), diagonal, matrix)


@library
def _triangular_sqrt(t):
    """Compute the square root of an upper triangular matrix (Björck and Hammarling, 1983)."""
    roots = xnp.sqrt(xnp.diagonal(t))

    def system(j, r, above):
        sums = roots + roots[j]
        is_regular = above & (sums != 0)  # otherwise the element is 0
        return _with_diagonal(r, xnp.where(is_regular, sums, _HUGE)), xnp.where(is_regular, t[:, j], 0)

    return _solve_by_columns(t, roots, system)


@library
def _triangular_function(t, values):
    """Compute the function of an upper triangular matrix with the given values on the diagonal (Parlett, 1976)."""
    eigenvalues = xnp.diagonal(t)

    def system(j, f, above):
        apart = eigenvalues - eigenvalues[j]
        matrix = _with_diagonal(t, xnp.where(above & (apart != 0), apart, -1))
        return matrix, product(f, t[:, j][:, None])[:, 0] - t[:, j] * values[j]

    return _solve_by_columns(t, values, system)


@library
@accepts(nodes=True)
def sqrtm(A: Array, blocksize: int = 1) -> Array:  # noqa: N803  (SciPy's name)
    """Compute the principal square root of a matrix. Supported on CPU only.

    Args:
        A: Square matrix.
        blocksize: No effect.

    Returns:
        Square root, complex.

    Example:
        >>> sqrtm(xnp.array([[4.0, 0.0], [0.0, 9.0]]))
        Array([[2.+0.j, 0.+0.j],
               [0.+0.j, 3.+0.j]], dtype=complex64)
    """
    t, z = _complex_schur("sqrtm", A, TypeError)
    return product(product(z, _triangular_sqrt(t)), adjoint(z))


def funm(A: Array, func: Callable, disp: bool = True) -> Any:  # noqa: N803  (SciPy's name)
    """Evaluate a matrix function with Parlett's recurrence. Supported on CPU only.

    Args:
        A: Square matrix with well separated eigenvalues.
        func: Elementwise function of complex arrays.
        disp: If False, return an estimate of the relative error too.

    Returns:
        Matrix function of `A`, complex; or `(result, error)`.

    Example:
        >>> funm(xnp.array([[1.0, 1.0], [0.0, 2.0]]), lambda x: x * x)
        Array([[1.+0.j, 3.+0.j],
               [0.+0.j, 4.+0.j]], dtype=complex64)
    """
    t, z = _complex_schur("funm", A)
    eigenvalues = xnp.diagonal(t)
    f = _triangular_function(t, xnp.asarray(func(eigenvalues)).astype(t.dtype))
    result = product(product(z, f), adjoint(z))
    if disp:
        return result
    n, eps = t.shape[-1], np.finfo(t.dtype).eps
    gaps = xnp.abs(eigenvalues[:, None] - eigenvalues[None, :])
    min_gap = xnp.min(xnp.where(xnp.eye(n, dtype=bool), np.inf, gaps), initial=xnp.abs(t[0, 0]))
    min_gap = xnp.where(min_gap == 0, eps, min_gap)
    off_diagonal_norm = xnp.max(xnp.sum(xnp.abs(xnp.triu(t, 1)), axis=0))
    error = xnp.minimum(1, xnp.maximum(eps, eps / min_gap * off_diagonal_norm))
    return result, xnp.where(xnp.all(xnp.isfinite(f)), error, np.inf)
