"""The polar decomposition, by products and solutions of systems alone, which is what TPUs are good at."""

from __future__ import annotations

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import dtypes
from xlafront.core.typing import Array, ArrayLike
from xlafront.linalg.factorizations import cholesky, triangular_solve
from xlafront.linalg.kernels import adjoint, operand, product
from xlafront.linalg.orthogonal import qr
from xlafront.staging.library import library


def _weights(least: float, count: int) -> tuple[list, list]:
    """Coefficients of Halley's iteration `s -> s (a + b s^2) / (1 + c s^2)` that bring singular values between `least` and one
    to one as soon as can be, and the least singular value after each step: Nakatsukasa, Bai and Gygi 2010, section 3.2."""
    steps, bounds = [], []
    for _ in range(count):
        square = least ** 2
        d = np.cbrt(4 * (1 - square) / square ** 2)
        a = np.sqrt(1 + d) + np.sqrt(8 - 4 * d + 8 * (2 - square) / (square * np.sqrt(1 + d))) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        steps.append((a, b, c))
        least = min(least * (a + b * square) / (1 + c * square), 1.0)
        bounds.append(least)
    return steps, bounds


def _step_by_qr(x, a, b, c):
    """One step, stable also where `1 + c x* x` is nearly singular: section 4 of the paper."""
    m, n = x.shape
    q, _ = qr(xnp.concatenate([xnp.sqrt(c) * x, xnp.eye(n, dtype=x.dtype)]), full_matrices=False)
    return b / c * x + (a - b / c) / xnp.sqrt(c) * product(q[:m], adjoint(q[m:]))


def _step_by_cholesky(x, a, b, c):
    factor = cholesky(xnp.eye(x.shape[1], dtype=x.dtype) + c * product(adjoint(x), x), symmetrize_input=False)
    options = dict(left_side=False, lower=True)
    inner = triangular_solve(factor, x, transpose_a=True, conjugate_a=True, **options)
    return b / c * x + (a - b / c) * triangular_solve(factor, inner, **options)


def qdwh(x: ArrayLike, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
         dynamic_shape: tuple | None = None) -> tuple[Array, Array, Array, Array]:
    """The polar decomposition `u @ h` of a matrix: `u` has orthonormal columns, `h` is Hermitian with no negative eigenvalue.

    Returns `(u, h, number of iterations, whether they converged)`.

    - `x`: the matrix.
    - `is_hermitian`: has no effect.
    - `max_iterations`: at most so many, 10 when left out.
    - `eps`: they end when a step changes less than the part `(4 eps) ** (1/3)`, which the next one makes `eps`; that of the
      dtype when left out.
    - `dynamic_shape`: only the corner of this shape counts.

    >>> u, h, *_ = lax.linalg.qdwh(xnp.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> xnp.round(xnp.abs(h), 4)
    Array([[3., 0.],
           [0., 2.]], dtype=float32)
    """
    shape = None if dynamic_shape is None else tuple(dynamic_shape)
    return _qdwh(x, shape, 10 if max_iterations is None else int(max_iterations), None if eps is None else float(eps))


@library(static=("limit", "eps"))
def _qdwh(x, corner, limit, eps):
    x = operand("qdwh", x)
    if x.ndim != 2 or x.shape[0] < x.shape[1]:
        raise ValueError(f"qdwh takes one matrix with at least as many rows as columns, got an array of shape {x.shape}: "
                         f"decompose x.conj().T of a wide matrix, and use vmap for several.")
    if not dtypes.is_inexact(x.dtype):
        raise ValueError(f"qdwh takes floats or complex numbers, got {x.dtype}: convert with x.astype(float).")
    if corner is not None:
        rows, columns = corner
        x = xnp.where((xnp.arange(x.shape[0]) < rows)[:, None] & (xnp.arange(x.shape[1]) < columns)[None], x, 0)
    real, unit = xnp.finfo(x.dtype), xnp.eye(x.shape[1], dtype=x.dtype)
    tolerance = (4 * (float(real.eps) if eps is None else eps)) ** (1 / 3)
    # Singular values that are less than a rounding error of the largest count as that large.
    steps, bounds = _weights(float(real.eps), max(limit, 1))
    by_qr = int(min(sum(c > 100 for _, _, c in steps), limit))
    least = sum(bound < 1 - tolerance for bound in bounds) + 1  # steps for which there is nothing to be seen in x
    coefficients = xnp.asarray(np.array(steps), x.dtype)

    largest = xnp.max(xnp.abs(x), initial=0)  # without which the products below are beyond what the dtype can hold
    start = x / xnp.where(largest == 0, 1, largest).astype(x.dtype)
    size = xnp.abs(start)
    scale = xnp.sqrt(xnp.max(xnp.sum(size, 0), initial=0) * xnp.max(xnp.sum(size, 1), initial=0))  # at least the norm
    start = start / xnp.where(scale == 0, 1, scale).astype(x.dtype)

    def going_on(state):
        k, u, before = state
        return (~_near(u, before, tolerance) | (k < least)) & (k < limit)

    def step(state):
        k, u, _ = state
        return k + 1, _step_by_cholesky(u, *coefficients[k]), u

    u = lax.fori_loop(0, by_qr, lambda k, u: _step_by_qr(u, *coefficients[k]), start)
    count, u, before = lax.while_loop(going_on, step, (by_qr, u, start))
    u = u + product(u, unit - product(adjoint(u), u)) / 2  # what rounding left: u* u is nearer to one
    h = product(adjoint(u), x)
    return u, (h + adjoint(h)) / 2, count, _near(u, before, tolerance) & (count >= least)


def _near(u, before, tolerance):
    return xnp.sum(xnp.abs(u - before) ** 2) <= tolerance ** 2 * xnp.sum(xnp.abs(u) ** 2)
