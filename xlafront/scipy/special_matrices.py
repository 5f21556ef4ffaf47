"""Matrices that have a name: of a few numbers (Toeplitz, companion, ...), or of their size alone (Hilbert, Pascal, ...)."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import dtypes
from xlafront.core.dimensions import common_shape, is_symbolic, max_dim
from xlafront.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact, unwrap_node
from xlafront.runtime.arrays import ArrayImpl as Array
from xlafront.staging.library import library


def _vector(name: str, *values) -> list:
    """Arrays of one dtype, which is not weak, with numbers along the last dimension."""
    check_arraylike(name, *values)
    values = [xnp.atleast_1d(xnp.asarray(x)) for x in promote_dtypes(*values)]
    return [x.astype(x.dtype) for x in values]


def _size(name: str, n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(f"{name} takes the size of the matrix, an integer known when it is traced, got {n!r}.") from None


def _at_least(name: str, size: int, least: int, shape) -> None:
    if size < least:
        raise ValueError(f"{name} needs at least {least} element{'s' if least > 1 else ''} along the last dimension, got shape "
                         f"{shape}.")


def _joint(x, y) -> list:
    """Over one batch."""
    batch = common_shape(x.shape[:-1], y.shape[:-1])
    return [xnp.broadcast_to(v, (*batch, v.shape[-1])) for v in (x, y)]


@library
def block_diag(*arrs: Array) -> Array:
    """A matrix with these along its diagonal, and zeros elsewhere.

    - `arrs`: matrices, vectors (as rows) or numbers.

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
    width, rows, before = sum(b.shape[1] for b in blocks), [], 0
    for block in blocks:
        rows.append(xnp.pad(block, ((0, 0), (before, width - before - block.shape[1]))))
        before += block.shape[1]
    return xnp.concatenate(rows)


@library(converts=True)
def toeplitz(c: Array, r: Array | None = None) -> Array:
    """The matrix whose diagonals are constant.

    - `c`: its first column. `r`: its first row, without the first element, which is that of `c`; if left out, the conjugate of
      `c`.

    >>> toeplitz(xnp.array([1, 2]), xnp.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5]], dtype=int32)
    """
    if r is None:
        [c] = _vector("toeplitz", c)
        r = xnp.conj(c)
    else:
        c, r = _joint(*_vector("toeplitz", c, r))
    m, n = c.shape[-1], r.shape[-1]
    line = xnp.concatenate([r[..., :0:-1], c], -1)  # from the upper right corner to the lower left one
    places = xnp if is_symbolic((m, n)) else np
    return _taken(line, places.arange(m)[:, None] - places.arange(n)[None, :] + max_dim(n - 1, 0))


def _taken(line, where: np.ndarray):
    if 0 in where.shape:
        return xnp.zeros((*line.shape[:-1], *where.shape), line.dtype)
    return xnp.take(line, where, axis=-1, mode="clip")


@library(converts=True)
def hankel(c: Array, r: Array | None = None) -> Array:
    """The matrix whose antidiagonals are constant.

    - `c`: its first column. `r`: its last row, without the first element, which is the last of `c`; zeros if left out.

    >>> hankel(xnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]], dtype=int32)
    """
    if r is None:
        [c] = _vector("hankel", c)
        r = xnp.zeros_like(c)
    else:
        c, r = _joint(*_vector("hankel", c, r))
    line = xnp.concatenate([c, r[..., 1:]], -1)
    return _taken(line, np.arange(c.shape[-1])[:, None] + np.arange(r.shape[-1])[None, :])


@library(converts=True)
def circulant(c: Array) -> Array:
    """The matrix whose columns are rotations of the first one.

    - `c`: the first column.

    >>> circulant(xnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    [c] = _vector("circulant", c)
    n = c.shape[-1]
    return _taken(c, (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1))


@library(converts=True)
def companion(a: Array) -> Array:
    """The matrix whose eigenvalues are the roots of a polynomial.

    - `a`: its coefficients, the highest power first.

    >>> companion(xnp.array([1.0, -10.0, 31.0, -30.0]))
    Array([[ 10., -31.,  30.],
           [  1.,   0.,   0.],
           [  0.,   1.,   0.]], dtype=float32)
    """
    check_arraylike("companion", a)
    [a] = promote_dtypes_inexact(a)
    _at_least("companion", np.shape(a)[-1] if np.ndim(a) else 0, 2, np.shape(a))
    n = a.shape[-1] - 1
    below = xnp.broadcast_to(xnp.eye(n - 1, n, dtype=a.dtype), (*a.shape[:-1], n - 1, n))
    return xnp.concatenate([(-a[..., 1:] / a[..., :1])[..., None, :], below], -2)


def convolution_matrix(a: Array, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector `v` of `n` elements is `convolve(a, v, mode)`.

    - `a`: the vector. `n`: the number of columns. `mode`: `"full"`, `"same"` or `"valid"`.

    >>> convolution_matrix(xnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolution_matrix has the modes 'full', 'same' and 'valid', got {mode!r}.")
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
    [a] = _vector("convolution_matrix", a)
    m = a.shape[-1]
    _at_least("convolution_matrix", m, 1, a.shape)
    line = xnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(n - 1, n - 1)])
    more = min(m, n) - 1  # the rows of which the mode leaves some away, half of them at each end
    before, after = {"full": (0, 0), "same": (more // 2, more - more // 2), "valid": (more, more)}[mode]
    rows = np.arange(before, m + n - 1 - after)
    return _taken(line, rows[:, None] - np.arange(n)[None, :] + n - 1)


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The matrix whose product with a vector is its discrete Fourier transform.

    - `n`: its size. `scale`: `"sqrtn"` or `"n"` to divide by that. `dtype`: a complex one.

    >>> xnp.round(dft(2), 4)
    Array([[ 1.+0.j,  1.+0.j],
           [ 1.+0.j, -1.-0.j]], dtype=complex64)
    """
    n = _size("dft", n)
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale of dft must be None, 'sqrtn' or 'n', got {scale!r}.")
    wanted = dtypes.check_user_dtype(complex if dtype is None else dtype, "dft")
    if not dtypes.is_complex(wanted):
        raise ValueError(f"dft has a complex dtype, got dtype={wanted}.")
    turns = np.outer(np.arange(n), np.arange(n)) % max(n, 1) / max(n, 1)
    values = np.exp(-2j * np.pi * turns) / {None: 1, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    return xnp.asarray(values.astype(wanted))


@library
def fiedler(a: Array) -> Array:
    """The matrix of the distances between numbers.

    - `a`: the numbers.

    >>> fiedler(xnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    [a] = _vector("fiedler", a)
    return xnp.abs(a[..., :, None] - a[..., None, :])


@library(converts=True)
def fiedler_companion(a: Array) -> Array:
    """A companion matrix of a polynomial that has five diagonals.

    - `a`: its coefficients, the highest power first.

    >>> fiedler_companion(xnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    check_arraylike("fiedler_companion", a)
    [a] = promote_dtypes_inexact(a)
    a = xnp.atleast_1d(xnp.asarray(a))
    _at_least("fiedler_companion", a.shape[-1], 1, a.shape)
    n = a.shape[-1] - 1
    a = a[..., 1:] / a[..., :1]
    ones: list = [(k + 2, k) for k in range(1, n - 2, 2)] + [(k, k + 2) for k in range(0, n - 2, 2)] + [(1, 0)][:n - 1]
    taken: list = [(0, 0)][:n] + [(k, k + 1) for k in range(0, n - 1, 2)] + [(k + 1, k) for k in range(1, n - 1, 2)]
    which = [0][:n] + [k + 1 for k in range(0, n - 1, 2)] + [k + 1 for k in range(1, n - 1, 2)]
    result = xnp.zeros((*a.shape[:-1], n, n), a.dtype)
    for places, values in ((ones, np.ones((), a.dtype)), (taken, -a[..., which] if which else None)):
        if places:
            rows, columns = map(np.array, zip(*places))
            result = result.at[..., rows, columns].set(values)
    return result


def hadamard(n: int, dtype: Any = int) -> Array:
    """Sylvester's matrix of ones and minus ones with orthogonal rows.

    - `n`: its size, a power of two. `dtype`: its dtype.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = _size("hadamard", n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard has sizes that are powers of two, got {n}.")
    common = np.arange(n)[:, None] & np.arange(n)[None, :]
    return xnp.asarray(1 - 2 * (np.bitwise_count(common).astype(np.int32) & 1)).astype(dtype)


def helmert(n: int, full: bool = False) -> Array:
    """The orthonormal matrix whose rows compare each number with the mean of those before it.

    - `n`: its number of columns. `full`: with the row of the mean, first.

    >>> xnp.round(helmert(2), 4)
    Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    n = _size("helmert", n)
    if n < 1:
        raise ValueError(f"n of helmert must be positive, got {n}.")
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    rows /= np.sqrt(np.array([n, *[k * (k + 1) for k in range(1, n)]]))[:, None]
    return _constant(rows if full else rows[1:])


def _constant(values: np.ndarray) -> Array:
    """Of the default float."""
    return xnp.asarray(np.asarray(values, np.float64).astype(dtypes.canonicalize_dtype(np.float64)))


def hilbert(n: int) -> Array:
    """The matrix of `1 / (i + j + 1)`.

    - `n`: its size.

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    n = _size("hilbert", n)
    if n < 0:
        raise TypeError(f"n of hilbert must not be negative, got {n}.")
    return _constant(1 / (np.arange(n)[:, None] + np.arange(n)[None, :] + 1.0))


def _of_binomials(n: int, element) -> Array:
    return _constant(np.array([[float(element(i, j)) for j in range(n)] for i in range(n)]).reshape(n, n))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, from integers.

    - `n`: its size.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = _size("invhilbert", n)
    return _of_binomials(n, lambda i, j: (-1) ** (i + j) * (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(
        n + j, n - i - 1) * math.comb(i + j, i) ** 2)


_KINDS = (None, "symmetric", "lower", "upper")


def _kind(name: str, kind: str | None) -> str:
    if kind not in _KINDS:
        raise ValueError(f"kind of {name} must be 'symmetric', 'lower' or 'upper', got {kind!r}.")
    return kind or "symmetric"


def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's triangle as a matrix.

    - `n`: its size. `kind`: `"symmetric"`, the default, `"lower"` or `"upper"`, triangles whose product is the symmetric
      matrix.

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    kind, n = _kind("pascal", kind), _size("pascal", n)
    return _of_binomials(n, {"symmetric": lambda i, j: math.comb(i + j, i), "lower": math.comb,
                             "upper": lambda i, j: math.comb(j, i)}[kind])


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, from integers.

    - `n`, `kind`: as of `pascal`.

    >>> invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    kind, n = _kind("invpascal", kind), _size("invpascal", n)

    def lower(i, j):
        return (-1) ** (i + j) * math.comb(i, j)

    def symmetric(i, j):
        return sum(lower(k, i) * lower(k, j) for k in range(max(i, j), n))

    return _of_binomials(n, {"symmetric": symmetric, "lower": lower, "upper": lambda i, j: lower(j, i)}[kind])


@library
def leslie(f: Array, s: Array) -> Array:
    """The matrix of a population's age classes.

    - `f`: the fecundity of each class, the first row. `s`: the part that survives to the next class, below the diagonal.

    >>> leslie(xnp.array([0.1, 2.0]), xnp.array([0.5]))
    Array([[0.1, 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    f, s = _joint(*_vector("leslie", f, s))
    n = f.shape[-1]
    _at_least("leslie", n, 2, f.shape)
    if s.shape[-1] != n - 1:
        raise ValueError(f"leslie needs one survival less than fecundities, got f of shape {f.shape} and s of shape {s.shape}.")
    place = np.arange(n - 1)
    return xnp.zeros((*f.shape, n), f.dtype).at[..., 0, :].set(f).at[..., place + 1, place].set(s)
