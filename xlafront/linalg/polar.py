"""Polar decomposition by matrix products and solves only, which are efficient on TPUs."""

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


def _halley_coefficients(smallest: float, count: int) -> tuple[list, list]:
    """Compute coefficients of the dynamically weighted Halley iteration `s -> s (a + b s^2) / (1 + c s^2)`.

    They bring singular values between `smallest` and 1 to 1 as fast as possible; the second result is the smallest
    singular value after each step (Nakatsukasa, Bai and Gygi 2010, section 3.2).
    """
    steps, bounds = [], []
    for _ in range(count):
        square = smallest ** 2
        d = np.cbrt(4 * (1 - square) / square ** 2)
        a = np.sqrt(1 + d) + np.sqrt(8 - 4 * d + 8 * (2 - square) / (square * np.sqrt(1 + d))) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        steps.append((a, b, c))
        smallest = min(smallest * (a + b * square) / (1 + c * square), 1.0)
        bounds.append(smallest)
    return steps, bounds


def _qr_step(x, a, b, c):
    """Perform one step, stable even if `1 + c x* x` is nearly singular (section 4 of the paper)."""
    m, n = x.shape
    q, _ = qr(xnp.concatenate([xnp.sqrt(c) * x, xnp.eye(n, dtype=x.dtype)]), full_matrices=False)
    return b / c * x + (a - b / c) / xnp.sqrt(c) * product(q[:m], adjoint(q[m:]))


def _cholesky_step(x, a, b, c):
    factor = cholesky(xnp.eye(x.shape[1], dtype=x.dtype) + c * product(adjoint(x), x), symmetrize_input=False)
    options = dict(left_side=False, lower=True)
    inner = triangular_solve(factor, x, transpose_a=True, conjugate_a=True, **options)
    return b / c * x + (a - b / c) * triangular_solve(factor, inner, **options)


def qdwh(x: ArrayLike, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
         dynamic_shape: tuple | None = None) -> tuple[Array, Array, Array, Array]:
    """Compute the polar decomposition `x == u @ h` by the QDWH iteration.

    `u` has orthonormal columns and `h` is Hermitian positive semidefinite.

    Args:
        x: Matrix with at least as many rows as columns.
        is_hermitian: No effect.
        max_iterations: Maximum number of iterations. Default: 10.
        eps: Accuracy: the iteration stops when a step changes `u` by less than the fraction `(4 eps) ** (1/3)`, because
            the next step would then be accurate to `eps`. Default: the precision of the dtype.
        dynamic_shape: Shape of the upper left corner of `x` to decompose. Default: the shape of `x`.

    Returns:
        `(u, h, number of iterations, True if converged)`.

    Example:
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
    # Singular values below the rounding error of the largest one are treated as equal to that error.
    steps, bounds = _halley_coefficients(float(real.eps), max(limit, 1))
    num_qr_steps = int(min(sum(c > 100 for _, _, c in steps), limit))
    # Before this many steps, tiny singular values need not show in the change of u.
    min_steps = sum(bound < 1 - tolerance for bound in bounds) + 1
    coefficients = xnp.asarray(np.array(steps), x.dtype)

    largest = xnp.max(xnp.abs(x), initial=0)  # scaling by it avoids overflow in the products below
    start = x / xnp.where(largest == 0, 1, largest).astype(x.dtype)
    magnitude = xnp.abs(start)
    # An upper bound of the norm.
    scale = xnp.sqrt(xnp.max(xnp.sum(magnitude, 0), initial=0) * xnp.max(xnp.sum(magnitude, 1), initial=0))
    start = start / xnp.where(scale == 0, 1, scale).astype(x.dtype)

    def is_active(state):
        k, u, previous = state
        return (~_is_close(u, previous, tolerance) | (k < min_steps)) & (k < limit)

    def step(state):
        k, u, _ = state
        return k + 1, _cholesky_step(u, *coefficients[k]), u

    u = lax.fori_loop(0, num_qr_steps, lambda k, u: _qr_step(u, *coefficients[k]), start)
    count, u, previous = lax.while_loop(is_active, step, (num_qr_steps, u, start))
    u = u + product(u, unit - product(adjoint(u), u)) / 2  # a Newton step: makes u* u closer to 1 after rounding
    h = product(adjoint(u), x)
    return u, (h + adjoint(h)) / 2, count, _is_close(u, previous, tolerance) & (count >= min_steps)


def _is_close(u, previous, tolerance):
    return xnp.sum(xnp.abs(u - previous) ** 2) <= tolerance ** 2 * xnp.sum(xnp.abs(u) ** 2)
