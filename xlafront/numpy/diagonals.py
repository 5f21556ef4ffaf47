"""Diagonals of matrices: elements, sums, and construction of diagonal matrices."""

from __future__ import annotations

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.basic_primitives import with_weakness
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.shapes import canonical_axis
from xlafront.numpy.creation import _eye_kernel, arange, diagonal_number, zeros_like
from xlafront.numpy.manipulation import expand_dims, moveaxis, ravel
from xlafront.numpy.promotion import check_arraylike, unwrap, within_setting
from xlafront.numpy.reductions import refuse_out, sum as total
from xlafront.numpy.searching import where
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic_dim, max_dim, min_dim


@library(static=("offset", "axis1", "axis2"))
@accepts(nodes=True)
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the elements of a diagonal.

    Args:
        a: Array of at least two dimensions.
        offset: Diagonal: 0 for the main one, positive above, negative below.
        axis1, axis2: Axes of the matrices.

    Returns:
        Array of the diagonals, along its last axis.

    Example:
        >>> xnp.diagonal(xnp.array([[1, 2, 3], [4, 5, 6]]), offset=1)
        Array([2, 6], dtype=int32)
    """
    check_arraylike("diagonal", a)
    if np.ndim(a) < 2:
        raise ValueError(f"numpy.diagonal needs at least 2 dimensions, got shape {np.shape(a)}.")
    offset = as_size(offset)
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    start = (max(0, -offset), max(0, offset))
    length = max_dim(0, min_dim(rows - start[0], columns - start[1]))
    i = arange(length) if is_symbolic_dim(length) else np.arange(length)
    return a[..., i + start[0], i + start[1]]


@library(static=("axis1", "axis2", "dtype", "out"))
@accepts(nodes=True, lists="out")
def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
          out: None = None) -> Array:
    """Compute the sum of a diagonal.

    Args:
        a: Array of at least two dimensions.
        offset: Diagonal: 0 for the main one, positive above, negative below. May be traced.
        axis1, axis2: Axes of the matrices.
        dtype: dtype of the sum.
        out: Must be None (for compatibility with NumPy): arrays are immutable.

    Returns:
        Array of the shape of `a` without the two axes.

    Example:
        >>> xnp.trace(xnp.array([[1, 2], [3, 4]]))
        Array(5, dtype=int32)
    """
    refuse_out("trace", out)
    check_arraylike("trace", a)
    if np.ndim(a) < 2:
        raise ValueError(f"numpy.trace needs at least 2 dimensions, got shape {np.shape(a)}.")
    axes = tuple(canonical_axis(i, np.ndim(a), "numpy.trace") for i in (axis1, axis2))
    if axes[0] == axes[1]:
        raise ValueError(f"numpy.trace needs two axes, axis1 and axis2 cannot be the same: {axis1} and {axis2}.")
    if isinstance(offset, bool):
        raise ValueError("the offset of numpy.trace must be an integer, not a boolean.")
    d = None if dtype is None else dtypes.check_user_dtype(dtype, "numpy.trace")
    a = moveaxis(unwrap(a), axes, (-2, -1))
    rows, columns = np.shape(a)[-2:]
    mask = _eye_kernel(diagonal_number(offset, ValueError), rows, columns, dtypes.bool_)
    return total(where(mask, a, 0), axis=(-2, -1), dtype=d)


@library(static="k")
@accepts(objects=True, lists="k")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the diagonal of a matrix, or a matrix with a vector on its diagonal.

    Args:
        v: Matrix or vector.
        k: Diagonal: 0 for the main one, positive above, negative below.

    Returns:
        Vector of the diagonal elements, or the matrix with zeros off the diagonal.

    Example:
        >>> xnp.diag(xnp.array([1, 2]))
        Array([[1, 0],
               [0, 2]], dtype=int32)
    """
    v = unwrap(v)
    check_arraylike("diag", v)
    if np.ndim(v) == 1:
        return _on_diagonal(v, as_size(k))
    if np.ndim(v) == 2:
        return diagonal(v, k)
    raise ValueError(f"numpy.diag takes a vector or a matrix, got shape {np.shape(v)}.")


def _on_diagonal(v, k):
    n = np.shape(v)[0] + abs(k)
    if tracing.aval_of(v).explicit_sharding is not None and k == 0:  # rows are sharded as the elements
        return where(np.eye(n, dtype=bool), expand_dims(v, 1), 0)
    i = arange(n - abs(k)) if is_symbolic_dim(n) else np.arange(n - abs(k))
    return zeros_like(v, shape=(n, n)).at[i + max(0, -k), i + max(0, k)].set(v, unique_indices=True)


@library(static="k")
@accepts(nodes=True, lists="k")
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return a matrix with the flattened array on its diagonal.

    Args:
        v: Array.
        k: Diagonal: 0 for the main one, positive above, negative below.

    Returns:
        Matrix with zeros off the diagonal.

    Example:
        >>> xnp.diagflat(xnp.array([[1, 2]]), k=1)
        Array([[0, 1, 0],
               [0, 0, 2],
               [0, 0, 0]], dtype=int32)
    """
    check_arraylike("diagflat", v)
    return with_weakness(_on_diagonal(within_setting(ravel(v)), k), False)
