"""Matrix-free solvers for linear systems: conjugate gradients, BiCGSTAB, GMRES.

Vectors are pytrees. Derivatives are those of the exact solution, by `custom_linear_solve`; iterations are not
differentiated.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, tracing, tree
from xlafront.core.basic_primitives import with_weakness
from xlafront.core.typing import Array, ArrayLike
from xlafront.numpy.flatten_util import ravel_pytree
from xlafront.numpy.promotion import promotes_freely, with_present_promotion
from xlafront.staging.library import library

Operator = ArrayLike | Callable[[Any], Any]


def _dot(x, y):
    """Return the inner product of two pytrees."""
    return functools.reduce(operator.add, [xnp.vdot(a, b, precision="highest") for a, b in zip(tree.leaves(x), tree.leaves(y))])


def _norm(x):
    return xnp.sqrt(_dot(x, x).real)


def _add_scaled(x, factor, y):
    """Return `x + factor * y` for pytrees. A real factor gets the dtype of each leaf."""
    return tree.map(lambda a, b: a + (factor if xnp.iscomplexobj(factor) else xnp.asarray(factor, b.dtype)) * b, x, y)


def _conjugate_gradients(A, b, x0, M, limit, maxiter):
    def residuals(r):
        z = r if M is None else M(r)
        gamma = _dot(r, z).real
        return z, gamma, gamma if M is None else _dot(r, r).real

    def is_active(state):
        *_, squared, step = state
        return (squared > limit ** 2) & (step < maxiter)

    def step(state):
        x, r, p, gamma, _, k = state
        product = A(p)
        alpha = gamma / _dot(p, product).real
        x, r = _add_scaled(x, alpha, p), _add_scaled(r, -alpha, product)
        z, next_gamma, squared = residuals(r)
        return x, r, _add_scaled(z, next_gamma / gamma, p), next_gamma, squared, k + 1

    r = _add_scaled(b, -1, A(x0))
    z, gamma, squared = residuals(r)
    return lax.while_loop(is_active, step, (x0, r, z, gamma, squared, 0))[0]


def _bicgstab(A, b, x0, M, limit, maxiter):
    M = M or (lambda x: x)
    zeros = tree.map(xnp.zeros_like, b)
    r0 = _add_scaled(b, -1, A(x0))
    one = xnp.ones((), _dot(r0, r0).dtype)

    def is_active(state):
        _, r, _, _, (rho, _, omega), k = state
        return (_norm(r) > limit) & (k < maxiter) & (rho != 0) & (omega != 0)

    def step(state):
        x, r, p, q, (rho, alpha, omega), k = state
        next_rho = _dot(r0, r)
        p = _add_scaled(r, next_rho / rho * (alpha / omega), _add_scaled(p, -omega, q))
        preconditioned = M(p)
        q = A(preconditioned)
        alpha = next_rho / _dot(r0, q)
        x, s = _add_scaled(x, alpha, preconditioned), _add_scaled(r, -alpha, q)
        # If the first half of a step converges, skip the second half, which would divide by zero.
        converged = _norm(s) <= limit
        preconditioned = M(s)
        product = A(preconditioned)
        omega = _dot(product, s) / _dot(product, product)
        keep_if_converged = functools.partial(tree.map, functools.partial(xnp.where, converged))
        return (keep_if_converged(x, _add_scaled(x, omega, preconditioned)),
                keep_if_converged(s, _add_scaled(s, -omega, product)), p, q,
                (next_rho, alpha, xnp.where(converged, one, omega)), k + 1)

    return lax.while_loop(is_active, step, (x0, r0, zeros, zeros, (one, one, one), 0))[0]


def _gmres(A, b, x0, M, limit, maxiter, *, restart, incremental):
    """Run GMRES on flattened vectors, with Krylov spaces of `restart` dimensions, on the residual of `M A x = M b`."""
    b, unravel = ravel_pytree(b)
    apply = (lambda x: x) if M is None else (lambda x: ravel_pytree(M(unravel(x)))[0])
    # `limit` bounds the residual of b: rescale it to the preconditioned residual, relative to the norm of M b.
    start, b_norm = apply(b), xnp.linalg.norm(b)
    limit = limit * xnp.where(b_norm > 0, xnp.linalg.norm(start) / xnp.where(b_norm > 0, b_norm, 1), 1)

    def residual(x):
        r = start - apply(ravel_pytree(A(unravel(x)))[0])
        return r, xnp.linalg.norm(r)

    def is_active(state):
        _, _, size, k = state
        return (size > limit) & (k < maxiter)

    def step(state):
        x, r, size, k = state
        x = x + _krylov_step(lambda v: apply(ravel_pytree(A(unravel(v)))[0]), r, size, restart, limit if incremental else None)
        return x, *residual(x), k + 1

    x = ravel_pytree(x0)[0]
    x, _, size, _ = lax.while_loop(is_active, step, (x, *residual(x), 0))
    return unravel(xnp.where(xnp.isnan(size), xnp.nan, x))


def _next_vector(A, basis, k):
    """Return the next orthonormal basis vector of a Krylov space (Arnoldi with reorthogonalization) and the column of
    the Hessenberg matrix."""
    v = A(basis[k])
    before = xnp.linalg.norm(v)
    column = xnp.zeros(len(basis), basis.dtype)
    for _ in range(2):
        projections = xnp.matmul(basis.conj(), v, precision="highest")
        v, column = v - xnp.matmul(projections, basis, precision="highest"), column + projections
    size = xnp.linalg.norm(v)
    is_independent = size > xnp.finfo(basis.dtype).eps * before  # else the space contains the solution and cannot grow further
    v = xnp.where(is_independent, v / xnp.where(is_independent, size, 1), 0)
    return basis.at[k + 1].set(v), column.at[k + 1].set(xnp.where(is_independent, size, 0).astype(column.dtype))


def _krylov_step(A, r, size, restart, limit):
    """Return the vector of the Krylov space of `restart` dimensions that minimizes the residual of `A x = r`.

    With a `limit`, Givens rotations give the residual norm after each column, and the space stops growing as soon as it
    is reached.
    """
    basis = xnp.zeros((restart + 1, r.size), r.dtype).at[0].set(r / size)
    hessenberg = xnp.zeros((restart + 1, restart), r.dtype)
    if limit is None:
        def grow(k, state):
            basis, column = _next_vector(A, state[0], k)
            return basis, state[1].at[:, k].set(column)

        basis, hessenberg = lax.fori_loop(0, restart, grow, (basis, hessenberg))
        q, triangle = xnp.linalg.qr(hessenberg)
        target = q[0].conj() * size
    else:
        def rotate(column, rotation, k):
            c, s = rotation
            above, below = column[k], column[k + 1]
            return column.at[k].set(c * above + s * below).at[k + 1].set(c * below - s.conj() * above)

        def is_active(state):
            *_, target, k = state
            return (k < restart) & (xnp.abs(target[k]) > limit)

        def enlarge(state):
            basis, triangle, rotations, target, k = state
            basis, column = _next_vector(A, basis, k)
            column = lax.fori_loop(0, k, lambda i, column: rotate(column, rotations[i], i), column)
            rotation = _rotation(column[k], column[k + 1])
            column, target = rotate(column, rotation, k), rotate(target, rotation, k)
            return basis, triangle.at[:, k].set(column), rotations.at[k].set(rotation), target, k + 1

        target = xnp.zeros(restart + 1, r.dtype).at[0].set(size.astype(r.dtype))
        rotations = xnp.zeros((restart, 2), r.dtype)
        basis, triangle, _, target, dimension = lax.while_loop(is_active, enlarge, (basis, hessenberg, rotations, target, 0))
        triangle = triangle[:-1]
        target = xnp.where(xnp.arange(restart) < dimension, target[:-1], 0)
    # Basis vectors that are missing leave zeros on the diagonal; their coefficients are 0.
    diagonal = xnp.abs(xnp.diagonal(triangle))
    missing = diagonal <= xnp.finfo(r.dtype).eps * xnp.max(diagonal)
    coefficients = lax.linalg.triangular_solve(
        triangle + xnp.diag(missing.astype(r.dtype)), xnp.where(missing, 0, target)[:, None], left_side=True)[:, 0]
    return xnp.matmul(coefficients, basis[:-1], precision="highest")


def _rotation(above, below):
    """Return cosine and sine of the Givens rotation that makes the second number of the pair zero."""
    size = xnp.sqrt(xnp.abs(above) ** 2 + xnp.abs(below) ** 2)
    length = xnp.abs(above)
    phase = xnp.where(length > 0, above / xnp.where(length > 0, length, 1), 1)
    is_nonzero = size > 0
    size = xnp.where(is_nonzero, size, 1)
    return xnp.stack([xnp.where(is_nonzero, length / size, 1).astype(above.dtype),
                      xnp.where(is_nonzero, phase * below.conj() / size, 0)])


_METHODS = {"cg": _conjugate_gradients, "bicgstab": _bicgstab, "gmres": _gmres}


def _is_array(x) -> bool:
    return isinstance(x, (ArrayImpl, tracing.Tracer, np.ndarray))


def _is_operator(x) -> bool:
    """True for objects such as sparse arrays that are not arrays, but multiply them."""
    return not _is_array(x) and not callable(x) and hasattr(x, "__matmul__") and hasattr(x, "shape")


def _as_function(matrix):
    if _is_operator(matrix):
        return lambda x: matrix @ x
    return functools.partial(xnp.dot, matrix, precision="highest") if _is_array(matrix) else matrix


@promotes_freely
def _solve(A, b, x0, tol, atol, maxiter, M, method, options):
    iterate = functools.partial(_METHODS[method], **dict(options))
    if x0 is None:
        x0 = tree.map(xnp.zeros_like, b)
    size = _norm(b)
    limit = xnp.maximum(xnp.asarray(tol, size.dtype) * size, xnp.asarray(atol, size.dtype))
    transposed = M.T if _is_array(M) else M

    def solver(M, x0):
        M = _as_function(M)
        return lambda matvec, b: iterate(matvec, b, tree.map(xnp.zeros_like, b) if x0 is None else x0, M, limit, maxiter)

    real = all([not dtypes.is_complex(leaf.dtype) for leaf in tree.leaves(b)])
    x = lax.custom_linear_solve(_as_function(A), b, solver(M, x0), solver(transposed, None), symmetric=method == "cg" and real)
    x = tree.map(lambda leaf, b, x0: with_weakness(
        leaf, method != "cg" and tracing.aval_of(b).weak_type and tracing.aval_of(x0).weak_type), x, b, x0)
    if method != "gmres":
        return x, None
    return x, xnp.where(xnp.isnan(_norm(x)), -1, 0)


@library(static=("method", "options"), name="linear_solve")
def _solve_with_matrices(A, b, x0, tol, atol, maxiter, M, method, options):
    return _solve(A, b, x0, tol, atol, maxiter, M, method, options)


def _check_and_solve(method: str, A, b, x0, tol, atol, maxiter, M, **options):
    for name, given in (("A", A), ("M", M)):
        if _is_array(given) or _is_operator(given):
            if len(given.shape) != 2 or given.shape[0] != given.shape[1]:
                raise ValueError(f"{method} needs {name} as a square matrix or a function, got an array of shape "
                                 f"{tuple(given.shape)}.")
        elif not callable(given) and not (name == "M" and given is None):
            raise TypeError(f"{method} needs {name} as a square matrix, given as an array, or a function of vectors, got "
                            f"{type(given).__name__}.")
    leaves, treedef = tree.flatten(b)
    avals = [tracing.aval_of(leaf, f"{method}, in b") for leaf in leaves]
    for aval in avals:
        if not dtypes.is_inexact(aval.dtype):
            raise TypeError(f"{method} needs b of floating or complex dtype, got {aval.dtype}. Convert it, as in "
                            f"b.astype(float).")
    if _is_array(A):
        if len(avals) != 1 or treedef.num_nodes != 1 or not avals[0].shape or avals[0].shape[0] != A.shape[1]:
            described = avals[0].shape if treedef.num_nodes == 1 else treedef
            error = ValueError if len(avals) == 1 and not avals[0].shape else TypeError
            raise error(f"{method} with a matrix A of shape {tuple(A.shape)} needs an array b of {A.shape[1]} rows, got "
                            f"{described}.")
        dtype = dtypes.canonicalize_dtype(A.dtype)  # 64-bit NumPy matrices become 32-bit ones
        if dtypes.promote_types(dtype, avals[0].dtype) != avals[0].dtype:
            raise TypeError(f"{method} solves in the dtype of b, {avals[0].dtype}, which cannot hold a matrix A of {dtype}. "
                            f"Convert b to {dtypes.promote_types(dtype, avals[0].dtype)}.")
    b = tree.unflatten(treedef, [xnp.asarray(leaf) for leaf in leaves])
    if x0 is not None:
        guess, guess_tree = tree.flatten(x0)
        if guess_tree != treedef:
            raise ValueError(f"{method} needs x0 with the pytree structure of b, {treedef}, got {guess_tree}.")
        shapes = [np.shape(leaf) for leaf in guess]
        if shapes != [aval.shape for aval in avals]:
            raise ValueError(f"{method} needs x0 with the shapes of b, {[aval.shape for aval in avals]}, got {shapes}.")
        x0 = tree.unflatten(treedef, [
            with_weakness(xnp.asarray(leaf, aval.dtype), tracing.aval_of(leaf).weak_type) for leaf, aval in zip(guess, avals)])
    size = sum([math.prod(aval.shape) for aval in avals])
    if maxiter is None:
        maxiter = 10 * size
    if "restart" in options:
        options["restart"] = max(min(options["restart"], size), 1)
    A, M = (with_present_promotion(given) if callable(given) else given for given in (A, M))
    run = _solve_with_matrices if _is_array(A) and (M is None or _is_array(M)) else _solve
    return run(A, b, x0, tol, atol, maxiter, M, method, tuple(options.items()))


def cg(A: Operator, b: Any, x0: Any = None, *, tol: ArrayLike = 1e-5, atol: ArrayLike = 0.0, maxiter: ArrayLike | None = None,
       M: Operator | None = None) -> tuple[Any, None]:
    """Solve `A x = b` for a positive definite Hermitian `A` by conjugate gradients.

    Derivatives are those of the solution, by solving the system of `A` again.

    Args:
        A: A square matrix, an object with a shape and the operator `@`, or a linear function from pytrees like `b` to pytrees
            like `b`.
        b: The right-hand side, a pytree of arrays.
        x0: The initial guess, a pytree like `b`. Default: zeros.
        tol, atol: The iteration stops when `norm(b - A x) <= max(tol * norm(b), atol)`.
        maxiter: Maximum number of iterations. Default: ten for each unknown.
        M: A preconditioner that approximates the inverse of `A`: a matrix or a function.

    Returns:
        A tuple of the solution and None.

    Example:
        >>> x, _ = cg(xnp.array([[4.0, 1.0], [1.0, 3.0]]), xnp.array([1.0, 2.0]))
        >>> np.round(x, 4).tolist() == np.round([1 / 11, 7 / 11], 4).astype("f4").tolist()
        True
    """
    return _check_and_solve("cg", A, b, x0, tol, atol, maxiter, M)


def bicgstab(A: Operator, b: Any, x0: Any = None, *, tol: ArrayLike = 1e-5, atol: ArrayLike = 0.0,
             maxiter: ArrayLike | None = None, M: Operator | None = None) -> tuple[Any, None]:
    """Solve `A x = b` by the stabilized biconjugate gradient method (van der Vorst, 1992).

    Derivatives are those of the solution, by solving the system of `A` or of its transpose.

    Args:
        A: A square matrix, an object with a shape and the operator `@`, or a linear function from pytrees like `b` to pytrees
            like `b`.
        b: The right-hand side, a pytree of arrays.
        x0: The initial guess, a pytree like `b`. Default: zeros.
        tol, atol: The iteration stops when `norm(b - A x) <= max(tol * norm(b), atol)`.
        maxiter: Maximum number of iterations. Default: ten for each unknown.
        M: A preconditioner that approximates the inverse of `A`: a matrix or a function.

    Returns:
        A tuple of the solution and None.

    Example:
        >>> x, _ = bicgstab(lambda x: {"a": 2 * x["a"]}, {"a": xnp.ones(2)})
        >>> x
        {'a': Array([0.5, 0.5], dtype=float32)}
    """
    return _check_and_solve("bicgstab", A, b, x0, tol, atol, maxiter, M)


def gmres(A: Operator, b: Any, x0: Any = None, *, tol: ArrayLike = 1e-5, atol: ArrayLike = 0.0, restart: int = 20,
          maxiter: ArrayLike | None = None, M: Operator | None = None, solve_method: str = "batched") -> tuple[Any, Array]:
    """Solve `A x = b` by the generalized minimal residual method (GMRES).

    Derivatives are those of the solution, by solving the system of `A` or of its transpose.

    Args:
        A: A square matrix, an object with a shape and the operator `@`, or a linear function from pytrees like `b` to pytrees
            like `b`.
        b: The right-hand side, a pytree of arrays.
        x0: The initial guess, a pytree like `b`. Default: zeros.
        tol, atol: The iteration stops when `norm(b - A x) <= max(tol * norm(b), atol)`.
        restart: Dimension of the Krylov space at which the method restarts.
        maxiter: Maximum number of restarts. Default: ten for each unknown.
        M: A preconditioner that approximates the inverse of `A`: a matrix or a function. The stopping rule then
            compares the norms of `M (b - A x)` and `M b`.
        solve_method: "batched" builds the whole Krylov space before solving in it, which is faster on accelerators;
            "incremental" checks for convergence after each product with `A`.

    Returns:
        A tuple of the solution and a status: 0, or -1 if the solution contains NaN.

    Example:
        >>> x, info = gmres(xnp.array([[2.0, 1.0], [0.0, 4.0]]), xnp.array([4.0, 8.0]))
        >>> np.round(x, 4).tolist(), int(info)
        ([1.0, 2.0], 0)
    """
    if solve_method not in ("incremental", "batched"):
        raise ValueError(f"gmres takes 'incremental' or 'batched' as solve_method, got {solve_method!r}.")
    try:
        restart = operator.index(restart)
    except TypeError:
        raise TypeError(f"gmres needs restart as a static integer, got {restart!r}.") from None
    return _check_and_solve("gmres", A, b, x0, tol, atol, maxiter, M, restart=restart,
                            incremental=solve_method == "incremental")
