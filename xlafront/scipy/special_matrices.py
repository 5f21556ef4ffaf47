"""Special matrices, defined by a few numbers (Toeplitz, companion, ...) or by their size alone (Hilbert, Pascal, ...)."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact, unwrap_node
from xlafront.runtime.arrays import ArrayImpl as Array
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import common_shape, is_symbolic, max_dim


def _promote_vectors(name: str, *values, weak: bool = False) -> list:
    """Convert values to arrays of one dtype with at least one dimension; one that is weakly typed stays so if `weak`."""
    check_arraylike(name, *values)
    values = [xnp.atleast_1d(xnp.asarray(x)) for x in promote_dtypes(*values)]
    return list(values) if weak else [x.astype(x.dtype) for x in values]


def _size(name: str, n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(f"{name} takes the size of the matrix, an integer known when it is traced, got {n!r}.") from None


def _check_length(name: str, size: int, least: int, shape) -> None:
    if size < least:
        raise ValueError(f"{name} needs at least {least} element{'s' if least > 1 else ''} along the last dimension, got shape "
                         f"{shape}.")


def _broadcast_batch(x, y) -> list:
    """Broadcast two arrays of vectors to a common batch shape."""
    batch = common_shape(x.shape[:-1], y.shape[:-1])
    return [xnp.broadcast_to(v, (*batch, v.shape[-1])) for v in (x, y)]


@library
@accepts(nodes=True)
def block_diag(*arrs: Array) -> Array:
    """Build a block diagonal matrix from arrays.

    Args:
        arrs: Matrices, vectors (used as rows) or scalars.

    Returns:
        Matrix with the arrays along its diagonal and zeros outside of them.

    Example:
        >>> block_diag(xnp.ones((1, 2)), 3.0)
        Array([[1., 1., 0.],
               [0., 0., 3.]], dtype=float32)
    """
    if not arrs:
        return xnp.zeros((1, 0))
    check_arraylike("block_diag", *arrs)
    blocks = []
    for i, block in enumerate(promote_dtypes(*arrs)):
        if np.ndim(block) > 2:
            raise ValueError(f"block_diag takes matrices, vectors and numbers, got argument {i} with shape {np.shape(block)}.")
        block = xnp.atleast_2d(xnp.asarray(block))
        blocks.append(block.astype(block.dtype))
    width, rows, offset = sum(b.shape[1] for b in blocks), [], 0
    for block in blocks:
        rows.append(xnp.pad(block, ((0, 0), (offset, width - offset - block.shape[1]))))
        offset += block.shape[1]
    return xnp.concatenate(rows)


@library
@accepts(objects=True)
def toeplitz(c: Array, r: Array | None = None) -> Array:
    """Build a Toeplitz matrix, which has constant diagonals.

    Args:
        c: First column.
        r: First row; its first element is ignored in favor of that of `c`. Default: the conjugate of `c`.

    Returns:
        Matrix of shape `(..., len(c), len(r))`.

    Example:
        >>> toeplitz(xnp.array([1, 2]), xnp.array([1, 5, 6]))
        Array([[1, 5, 6],
               [2, 1, 5]], dtype=int32)
    """
    if r is None:
        [c] = _promote_vectors("toeplitz", c)
        r = xnp.conj(c)
    else:
        c, r = _broadcast_batch(*_promote_vectors("toeplitz", c, r))
    m, n = c.shape[-1], r.shape[-1]
    line = xnp.concatenate([r[..., :0:-1], c], -1)  # from the upper right corner to the lower left one
    module = xnp if is_symbolic((m, n)) else np
    return _gather(line, module.arange(m)[:, None] - module.arange(n)[None, :] + max_dim(n - 1, 0))


def _gather(line, indices: np.ndarray):
    if 0 in indices.shape:
        return xnp.zeros((*line.shape[:-1], *indices.shape), line.dtype)
    return xnp.take(line, indices, axis=-1, mode="clip")


@library
@accepts(objects=True)
def hankel(c: Array, r: Array | None = None) -> Array:
    """Build a Hankel matrix, which has constant antidiagonals.

    Args:
        c: First column.
        r: Last row; its first element is ignored in favor of the last one of `c`. Default: zeros.

    Returns:
        Matrix of shape `(..., len(c), len(r))`.

    Example:
        >>> hankel(xnp.array([1, 2, 3]))
        Array([[1, 2, 3],
               [2, 3, 0],
               [3, 0, 0]], dtype=int32)
    """
    given = {"c": c} if r is None else {"c": c, "r": r}
    check_arraylike("hankel", *given.values())
    for name, x in given.items():
        if np.ndim(x) == 0:
            raise ValueError(f"hankel takes vectors, got a scalar as {name}. Write [{name}].")
    if r is None:
        [c] = _promote_vectors("hankel", c)
        r = xnp.zeros_like(c)
    else:
        c, r = _broadcast_batch(*_promote_vectors("hankel", c, r))
    line = xnp.concatenate([c, r[..., 1:]], -1)
    return _gather(line, np.arange(c.shape[-1])[:, None] + np.arange(r.shape[-1])[None, :])


@library
@accepts(objects=True)
def circulant(c: Array) -> Array:
    """Build a circulant matrix, whose columns are rotations of the first one.

    Args:
        c: First column.

    Returns:
        Matrix of shape `(..., len(c), len(c))`.

    Example:
        >>> circulant(xnp.array([1, 2, 3]))
        Array([[1, 3, 2],
               [2, 1, 3],
               [3, 2, 1]], dtype=int32)
    """
    [c] = _promote_vectors("circulant", c, weak=True)
    n = c.shape[-1]
    return _gather(c, (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1))


@library
@accepts(objects=True)
def companion(a: Array) -> Array:
    """Build the companion matrix of a polynomial, whose eigenvalues are the roots.

    Args:
        a: Coefficients of the polynomial, highest power first.

    Returns:
        Matrix of shape `(..., len(a) - 1, len(a) - 1)`.

    Example:
        >>> companion(xnp.array([1.0, -10.0, 31.0, -30.0]))
        Array([[ 10., -31.,  30.],
               [  1.,   0.,   0.],
               [  0.,   1.,   0.]], dtype=float32)
    """
    check_arraylike("companion", a)
    [a] = promote_dtypes_inexact(a)
    _check_length("companion", np.shape(a)[-1] if np.ndim(a) else 0, 2, np.shape(a))
    n = a.shape[-1] - 1
    below = xnp.broadcast_to(xnp.eye(n - 1, n, dtype=a.dtype), (*a.shape[:-1], n - 1, n))
    return xnp.concatenate([(-a[..., 1:] / a[..., :1])[..., None, :], below], -2)


def convolution_matrix(a: Array, n: int, mode: str = "full") -> Array:
    """Build the matrix of the convolution with a vector.

    The product of the matrix and a vector `v` of `n` elements is `convolve(a, v, mode)`.

    Args:
        a: Vector to convolve with.
        n: Number of columns.
        mode: "full", "same" or "valid".

    Returns:
        Toeplitz matrix with `n` columns.

    Example:
        >>> convolution_matrix(xnp.array([1, 2]), 2)
        Array([[1, 0],
               [2, 1],
               [0, 2]], dtype=int32)
    """
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode of convolution_matrix must be 'full', 'same' or 'valid', got {mode!r}.")
    n = _size("convolution_matrix", n)
    if n < 1:
        raise ValueError(f"n of convolution_matrix must be positive, got {n}.")
    check_arraylike("convolution_matrix", a)
    a = unwrap_node(a)
    if np.ndim(a) == 0:
        raise ValueError("convolution_matrix takes a vector, got a scalar.")
    return _convolution_matrix(a, n, mode)


@library(static=("n", "mode"))
def _convolution_matrix(a, n, mode):
    [a] = _promote_vectors("convolution_matrix", a)
    m = a.shape[-1]
    _check_length("convolution_matrix", m, 1, a.shape)
    line = xnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(n - 1, n - 1)])
    border = min(m, n) - 1  # the modes drop some of these rows, "same" half of them at each end
    before, after = {"full": (0, 0), "same": (border // 2, border - border // 2), "valid": (border, border)}[mode]
    rows = np.arange(before, m + n - 1 - after)
    return _gather(line, rows[:, None] - np.arange(n)[None, :] + n - 1)


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """Build the matrix of the discrete Fourier transform.

    Args:
        n: Size of the matrix.
        scale: None, or "sqrtn" or "n" to divide by that.
        dtype: Complex dtype of the result. Default: the default complex dtype.

    Returns:
        Complex matrix of shape `(n, n)`.

    Example:
        >>> xnp.round(dft(2), 4)
        Array([[ 1.+0.j,  1.+0.j],
               [ 1.+0.j, -1.-0.j]], dtype=complex64)
    """
    n = _size("dft", n)
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale of dft must be None, 'sqrtn' or 'n', got {scale!r}.")
    result_dtype = dtypes.check_user_dtype(complex if dtype is None else dtype, "dft")
    if not dtypes.is_complex(result_dtype):
        raise ValueError(f"dtype of dft must be complex, got {result_dtype}.")
    phases = np.outer(np.arange(n), np.arange(n)) % max(n, 1) / max(n, 1)
    values = np.exp(-2j * np.pi * phases) / {None: 1, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    return xnp.asarray(values.astype(result_dtype))


@library
@accepts(nodes=True)
def fiedler(a: Array) -> Array:
    """Build the matrix of absolute differences between elements.

    Args:
        a: Vector.

    Returns:
        Symmetric matrix of shape `(..., len(a), len(a))`.

    Example:
        >>> fiedler(xnp.array([1, 4]))
        Array([[0, 3],
               [3, 0]], dtype=int32)
    """
    [a] = _promote_vectors("fiedler", a, weak=True)
    return xnp.abs(a[..., :, None] - a[..., None, :])


@library
@accepts(objects=True)
def fiedler_companion(a: Array) -> Array:
    """Build the Fiedler companion matrix of a polynomial, which has five diagonals.

    Args:
        a: Coefficients of the polynomial, highest power first.

    Returns:
        Matrix of shape `(..., len(a) - 1, len(a) - 1)`.

    Example:
        >>> fiedler_companion(xnp.array([1.0, -3.0, 2.0]))
        Array([[ 3., -2.],
               [ 1.,  0.]], dtype=float32)
    """
    check_arraylike("fiedler_companion", a)
    [a] = promote_dtypes_inexact(a)
    a = xnp.atleast_1d(a.astype(a.dtype))
    _check_length("fiedler_companion", a.shape[-1], 1, a.shape)
    n = a.shape[-1] - 1
    a = a[..., 1:] / a[..., :1]
    unit: list = [(k + 2, k) for k in range(1, n - 2, 2)] + [(k, k + 2) for k in range(0, n - 2, 2)] + [(1, 0)][:n - 1]
    from_a: list = [(0, 0)][:n] + [(k, k + 1) for k in range(0, n - 1, 2)] + [(k + 1, k) for k in range(1, n - 1, 2)]
    which = [0][:n] + [k + 1 for k in range(0, n - 1, 2)] + [k + 1 for k in range(1, n - 1, 2)]
    result = xnp.zeros_like(a, shape=(*a.shape[:-1], n, n))
    for positions, values in ((unit, np.ones((), a.dtype)), (from_a, -a[..., which] if which else None)):
        if positions:
            rows, columns = map(np.array, zip(*positions))
            result = result.at[..., rows, columns].set(values)
    return result


def hadamard(n: int, dtype: Any = int) -> Array:
    """Build Sylvester's Hadamard matrix: elements 1 and -1, orthogonal rows.

    Args:
        n: Size of the matrix, a power of two.
        dtype: dtype of the result.

    Returns:
        Matrix of shape `(n, n)`.

    Example:
        >>> hadamard(2)
        Array([[ 1,  1],
               [ 1, -1]], dtype=int32)
    """
    n = _size("hadamard", n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"size n of hadamard must be a power of two, got {n}.")
    common_bits = np.arange(n)[:, None] & np.arange(n)[None, :]
    return xnp.asarray(1 - 2 * (np.bitwise_count(common_bits).astype(np.int32) & 1)).astype(dtype)


def helmert(n: int, full: bool = False) -> Array:
    """Build the Helmert matrix, whose orthonormal rows compare each element with the mean of the preceding ones.

    Args:
        n: Number of columns.
        full: If True, include the constant first row.

    Returns:
        Matrix of shape `(n - 1, n)`, or `(n, n)` if `full`.

    Example:
        >>> xnp.round(helmert(2), 4)
        Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    n = _size("helmert", n)
    if n < 1:
        raise ValueError(f"n of helmert must be positive, got {n}.")
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    rows /= np.sqrt(np.array([n, *[k * (k + 1) for k in range(1, n)]]))[:, None]
    return _as_default_float(rows if full else rows[1:])


def _as_default_float(values: np.ndarray) -> Array:
    """Convert values to an array of the default floating dtype."""
    return xnp.asarray(np.asarray(values, np.float64).astype(dtypes.canonicalize_dtype(np.float64)))


def hilbert(n: int) -> Array:
    """Build the Hilbert matrix, with elements `1 / (i + j + 1)`.

    Args:
        n: Size of the matrix.

    Returns:
        Matrix of shape `(n, n)`.

    Example:
        >>> hilbert(2)
        Array([[1.        , 0.5       ],
               [0.5       , 0.33333334]], dtype=float32)
    """
    n = _size("hilbert", n)
    if n < 0:
        raise TypeError(f"n of hilbert must not be negative, got {n}.")
    return _as_default_float(1 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1.0))


def _build_matrix(n: int, element) -> Array:
    return _as_default_float(np.array([[float(element(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n))


def invhilbert(n: int) -> Array:
    """Build the inverse of `hilbert(n)`, computed with exact integers.

    Args:
        n: Size of the matrix.

    Returns:
        Matrix of shape `(n, n)`.

    Example:
        >>> invhilbert(2)
        Array([[ 4., -6.],
               [-6., 12.]], dtype=float32)
    """
    n = _size("invhilbert", n)
    return _build_matrix(n, lambda i, j: (-1) ** (i + j) * (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(
        n + j, n - i - 1) * math.comb(i + j, i) ** 2)


_KINDS = (None, "symmetric", "lower", "upper")


def _check_kind(name: str, kind: str | None) -> str:
    if kind not in _KINDS:
        raise ValueError(f"kind of {name} must be 'symmetric', 'lower' or 'upper', got {kind!r}.")
    return kind or "symmetric"


def pascal(n: int, kind: str | None = None) -> Array:
    """Build the Pascal matrix, which holds binomial coefficients.

    Args:
        n: Size of the matrix.
        kind: "symmetric" (default), or one of the triangular factors "lower" and "upper", whose product is the
            symmetric matrix.

    Returns:
        Matrix of shape `(n, n)`.

    Example:
        >>> pascal(3)
        Array([[1., 1., 1.],
               [1., 2., 3.],
               [1., 3., 6.]], dtype=float32)
    """
    kind, n = _check_kind("pascal", kind), _size("pascal", n)
    return _build_matrix(n, {"symmetric": lambda i, j: math.comb(i + j, i), "lower": math.comb,
                             "upper": lambda i, j: math.comb(j, i)}[kind])


def invpascal(n: int, kind: str | None = None) -> Array:
    """Build the inverse of `pascal(n, kind)`, computed with exact integers.

    Args:
        n, kind: See `pascal`.

    Returns:
        Matrix of shape `(n, n)`.

    Example:
        >>> invpascal(2)
        Array([[ 2., -1.],
               [-1.,  1.]], dtype=float32)
    """
    kind, n = _check_kind("invpascal", kind), _size("invpascal", n)

    def lower(i, j):
        return (-1) ** (i + j) * math.comb(i, j)

    def symmetric(i, j):
        return sum(lower(k, i) * lower(k, j) for k in range(max(i, j), n))

    return _build_matrix(n, {"symmetric": symmetric, "lower": lower, "upper": lambda i, j: lower(j, i)}[kind])


@library
@accepts(nodes=True)
def leslie(f: Array, s: Array) -> Array:
    """Build the Leslie matrix of an age-structured population.

    Args:
        f: Fecundity of each age class, the first row.
        s: Survival rate from each class to the next one, the subdiagonal.

    Returns:
        Matrix of shape `(..., len(f), len(f))`.

    Example:
        >>> leslie(xnp.array([0.1, 2.0]), xnp.array([0.5]))
        Array([[0.1, 2. ],
               [0.5, 0. ]], dtype=float32)
    """
    f, s = _broadcast_batch(*_promote_vectors("leslie", f, s, weak=True))
    n = f.shape[-1]
    _check_length("leslie", n, 2, f.shape)
    if s.shape[-1] != n - 1:
        raise ValueError(f"leslie needs one survival rate less than fecundities, got f of shape {f.shape} and s of shape "
                         f"{s.shape}.")
    positions = np.arange(n - 1)
    return xnp.zeros_like(f, shape=(*f.shape, n)).at[..., 0, :].set(f).at[..., positions + 1, positions].set(s)
