"""Functions of square matrices: the exponential, the square root, and any that is a function of numbers."""

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
from xlafront.scipy.decompositions import matrices
from xlafront.staging.library import library

# The order of the Padé approximant, and the norm up to which it is exact to rounding (Higham, 2005).
_ORDERS = {np.dtype(np.float32): (7, 3.925724783138660), np.dtype(np.float64): (13, 5.371920351148152)}
_HUGE = 1e30  # what is divided by it is nothing
_FEW = 3  # squarings, which most matrices need no more than


def expm(A: Array, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:  # noqa: N803  (SciPy's name)
    """The exponential of square matrices, by scaling and squaring.

    - `A`: the matrices.
    - `upper_triangular`: whether they are, which saves work.
    - `max_squarings`: how often they may be halved (and the result squared); for those that need more the result is NaN.

    >>> expm(xnp.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _expm(A, bool(upper_triangular), int(max_squarings))


@library(static=("upper_triangular", "max_squarings"))
def _expm(a, upper_triangular, max_squarings):
    [a] = matrices("expm", a)
    n = square("expm", a)
    real = dtypes.to_real(a.dtype)
    if real not in _ORDERS:
        raise TypeError(f"expm takes matrices of 32 or 64 bits, got dtype {a.dtype}. Convert with x.astype(...).")
    if n == 0:
        return a
    one = lambda x: _expm_of_one(x, *_ORDERS[real], upper_triangular, max_squarings)
    if a.ndim == 2:
        return one(a)
    return xf.vmap(one)(a.reshape(-1, n, n)).reshape(a.shape)


def _expm_of_one(a, order, bound, upper_triangular, max_squarings):
    size = lax.stop_gradient(xnp.max(xnp.sum(xnp.abs(a), axis=0)))
    halvings = xnp.maximum(xnp.ceil(xnp.log2(size / bound)), 0)
    a = a * xnp.exp2(-xnp.minimum(halvings, max_squarings)).astype(a.dtype)
    above, below = _pade(a, order)
    p, q = above + below, above - below
    if upper_triangular:
        p = kernels.triangular_solve(q, p, left_side=True)
    else:
        p = xnp.linalg.solve(q, p)

    def squared(x, i):
        return lax.cond(i < halvings, lambda x: product(x, x), lambda x: x, x), None

    few, all_of_them = (xnp.arange(n, dtype=halvings.dtype) for n in (min(max_squarings, _FEW), max_squarings))
    p = lax.scan(squared, p, few)[0]
    if max_squarings > _FEW:  # each copies the matrix, whether it squares it or not
        p = lax.cond(halvings > _FEW, lambda p: lax.scan(squared, p, all_of_them[_FEW:])[0], lambda p: p, p)
    return xnp.where(halvings <= max_squarings, p, np.nan)  # NaN for what is not finite too


def _pade(a, order):
    """The even and the odd part of the numerator of the Padé approximant of that odd order."""
    b = [math.factorial(2 * order - k) * math.factorial(order) / (
        math.factorial(2 * order) * math.factorial(k) * math.factorial(order - k)) for k in range(order + 1)]
    eye = xnp.eye(a.shape[-1], dtype=a.dtype)
    powers = [eye, product(a, a)]
    while len(powers) <= min(order // 2, 3):
        powers.append(product(powers[-1], powers[1]))

    def polynomial(coefficients):
        """Of the square of `a`: powers up to the third, and the rest times that."""
        head = sum(c * p for c, p in zip(coefficients, powers))
        tail = coefficients[len(powers):]
        if not tail:
            return head
        return head + product(powers[3], sum(c * p for c, p in zip(tail, powers[1:])))

    return polynomial(b[0::2]), product(a, polynomial(b[1::2]))


def expm_frechet(A: Array, E: Array, *, method: str | None = None, compute_expm: bool = True) -> Any:  # noqa: N803
    """The exponential of `A` and its derivative in the direction `E`.

    - `A`, `E`: square matrices of one shape.
    - `method`: without effect. `compute_expm`: whether to return the exponential before the derivative.

    >>> expm_frechet(xnp.zeros((1, 1)), xnp.ones((1, 1)))
    (Array([[1.]], dtype=float32), Array([[1.]], dtype=float32))
    """
    a, e = matrices("expm_frechet", A, E)
    square("expm_frechet", a)
    if e.shape != a.shape:
        raise ValueError(f"expm_frechet takes matrices of one shape, got A {a.shape} and E {e.shape}.")
    value, derivative = xf.jvp(expm, (a,), (e,))
    return (value, derivative) if compute_expm else derivative


def _complex_schur(name: str, a, error: type[Exception] = ValueError) -> Sequence[Array]:
    [a] = matrices(name, a, error=error)
    square(name, a)
    if a.ndim != 2:
        raise ValueError(f"{name} takes one square matrix, got an array of shape {a.shape}. Use vmap for many.")
    return kernels.schur(a.astype(dtypes.to_complex(a.dtype)))


def _by_columns(t, diagonal, system: Callable):
    """An upper triangular matrix F like t, of which the diagonal is known: column j above it solves a triangular system of the
    columns before. `system(j, f, above)` gives its matrix, whose elements beside the first j rows and columns are not read,
    and its right side; `above` says which rows these are."""
    n = t.shape[-1]
    rows = xnp.arange(n)

    def column(j, f):
        above = rows < j
        matrix, right = system(j, f, above)
        right = xnp.where(above, right, 0)[:, None]
        found = kernels.triangular_solve(matrix, right, left_side=True, lower=False)[:, 0]
        return f.at[:, j].set(xnp.where(rows == j, diagonal, xnp.where(above, found, 0)))

    return lax.fori_loop(0, n, column, xnp.zeros_like(t))


def _with_diagonal(matrix, diagonal):
    return xnp.where(xnp.eye(matrix.shape[-1], dtype=bool), diagonal, matrix)


@library
def _root_of_triangle(t):
    """R with R @ R = t (Björck and Hammarling, 1983)."""
    roots = xnp.sqrt(xnp.diagonal(t))

    def system(j, r, above):
        total = roots + roots[j]
        divides = above & (total != 0)  # where it does not, the element is 0
        return _with_diagonal(r, xnp.where(divides, total, _HUGE)), xnp.where(divides, t[:, j], 0)

    return _by_columns(t, roots, system)


@library
def _function_of_triangle(t, values):
    """F that commutes with t and has these values on its diagonal (Parlett, 1976)."""
    eigenvalues = xnp.diagonal(t)

    def system(j, f, above):
        apart = eigenvalues - eigenvalues[j]
        matrix = _with_diagonal(t, xnp.where(above & (apart != 0), apart, -1))
        return matrix, product(f, t[:, j][:, None])[:, 0] - t[:, j] * values[j]

    return _by_columns(t, values, system)


@library
def sqrtm(A: Array, blocksize: int = 1) -> Array:  # noqa: N803  (SciPy's name)
    """The principal square root of a square matrix, complex; CPU alone.

    - `A`: the matrix. `blocksize`: 1.

    >>> sqrtm(xnp.array([[4.0, 0.0], [0.0, 9.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 3.+0.j]], dtype=complex64)
    """
    t, z = _complex_schur("sqrtm", A, TypeError)
    return product(product(z, _root_of_triangle(t)), adjoint(z))


def funm(A: Array, func: Callable, disp: bool = True) -> Any:  # noqa: N803  (SciPy's name)
    """A function of a square matrix, from one of numbers, by Parlett's recurrence; complex; CPU alone.

    - `A`: the matrix, whose eigenvalues should not lie close together.
    - `func`: a function of arrays of complex numbers.
    - `disp`: if not, an estimate of the relative error is the second result.

    >>> funm(xnp.array([[1.0, 1.0], [0.0, 2.0]]), lambda x: x * x)
    Array([[1.+0.j, 3.+0.j],
           [0.+0.j, 4.+0.j]], dtype=complex64)
    """
    t, z = _complex_schur("funm", A)
    eigenvalues = xnp.diagonal(t)
    f = _function_of_triangle(t, xnp.asarray(func(eigenvalues)).astype(t.dtype))
    result = product(product(z, f), adjoint(z))
    if disp:
        return result
    n, eps = t.shape[-1], np.finfo(t.dtype).eps
    pairs = xnp.abs(eigenvalues[:, None] - eigenvalues[None, :])
    least = xnp.min(xnp.where(xnp.eye(n, dtype=bool), np.inf, pairs), initial=xnp.abs(t[0, 0]))
    least = xnp.where(least == 0, eps, least)
    upper = xnp.max(xnp.sum(xnp.abs(xnp.triu(t, 1)), axis=0))
    error = xnp.minimum(1, xnp.maximum(eps, eps / least * upper))
    return result, xnp.where(xnp.all(xnp.isfinite(f)), error, np.inf)
