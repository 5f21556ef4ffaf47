"""Grids and index arrays: `mgrid`, `ogrid`, `r_`, `c_`, `ix_`, indices of triangles and diagonals, flat indices and
back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.basic_primitives import to_dtype, with_weakness
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.elementwise import add, as_type, constant_like, div, lt, mul, rem_, size_scalar, where
from xlafront.lax.shapes import counting, expand_dims, static_shape
from xlafront.numpy.creation import arange, array, asarray, meshgrid, ones, tri, zeros
from xlafront.numpy.manipulation import concatenate, reshape, stack
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_dtypes, unwrap, unwrap_node
from xlafront.numpy.searching import nonzero
from xlafront.numpy.spaces import linspace
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic_dim, max_dim

# Grids


def _points(s: slice) -> Array:
    """Expand a slice to its numbers. An imaginary step is the number of points from start to stop, both included."""
    start, step = (0 if s.start is None else s.start), (1 if s.step is None else s.step)
    if isinstance(step, complex):
        return linspace(start, s.stop, int(abs(step)))
    return arange(start, s.stop, step)


class _Grid:
    """The type of `mgrid` and `ogrid`, which build grids when indexed by slices.

    A slice `start:stop:step` gives the numbers of `arange`; with an imaginary step, such as `0:1:5j`, five numbers from
    start to stop. `mgrid` returns one dense array, `ogrid` a list of arrays that broadcast.

    Example:
        >>> xnp.mgrid[0:2, 0:3].shape, xnp.mgrid[0:1:3j]
        ((2, 2, 3), Array([0. , 0.5, 1. ], dtype=float32))
        >>> [x.shape for x in xnp.ogrid[0:2, 0:3]]
        [(2, 1), (1, 3)]
    """

    def __init__(self, sparse: bool):
        self._sparse = sparse

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Array | list[Array]:
        if isinstance(key, slice):
            return _points(key)
        if not isinstance(key, tuple) or not all(isinstance(s, slice) for s in key):
            raise TypeError(f"a grid is indexed by slices, as in numpy.mgrid[0:3, 0:1:5j], not by {key!r}: it is not iterable.")
        if not key:
            return [] if self._sparse else zeros(0, int)
        axes = promote_dtypes(*map(_points, key))
        grids = meshgrid(*axes, indexing="ij", sparse=self._sparse)
        return list(grids) if self._sparse else stack(grids)

    def __repr__(self) -> str:
        return f"<xlafront.numpy.{'ogrid' if self._sparse else 'mgrid'}>"


mgrid, ogrid = _Grid(False), _Grid(True)


class _Concatenator:
    """The base of `r_` and `c_`.

    `axis` is the axis to concatenate along, `rank` the minimum number of dimensions, `offset` the position of an
    array's own dimensions among these.
    """

    def __init__(self, name: str, axis: int, rank: int, offset: int):
        self._name, self._axis, self._rank, self._offset = name, axis, rank, offset

    def __getitem__(self, key: Any) -> Array:
        axis, rank, offset = self._axis, self._rank, self._offset
        items = list(key) if isinstance(key, tuple) else [key]
        matrix = ""
        if items and isinstance(items[0], str):
            directive, *items = items
            if directive in ("r", "c"):
                matrix = directive
            else:
                try:
                    axis, rank, offset = (*map(int, directive.split(",")), *(axis, rank, offset)[directive.count(",") + 1:])
                except ValueError:
                    raise ValueError(f"numpy.{self._name} could not understand directive {directive!r}: it is 'r', 'c' or up "
                                     f"to three integers (axis, minimum number of dimensions, their position).") from None
        arrays = [self._expand(x, rank, offset) for x in items]
        if not arrays:
            raise ValueError(f"numpy.{self._name}: need at least one array to concatenate.")
        result = concatenate(arrays, axis=axis)
        if matrix and result.ndim == 1:
            result = reshape(result, (1, -1) if matrix == "r" else (-1, 1))
        return result

    @staticmethod
    def _expand(x, rank: int, offset: int) -> Array:
        x = _points(x) if isinstance(x, slice) else asarray(x)
        missing = rank - x.ndim
        if missing <= 0:
            return x if x.ndim else reshape(x, (1,))
        if x.ndim == 0:
            return reshape(x, (1,) * rank)
        before = offset if offset >= 0 else missing + offset + 1  # number of new dimensions in front of the array's own
        return expand_dims(x, [i for i in range(rank) if not before <= i < before + x.ndim])

    def __repr__(self) -> str:
        return f"<xlafront.numpy.{self._name}>"


class RClass(_Concatenator):
    """The type of `r_`, which concatenates numbers, arrays and slices along the first axis when indexed.

    Slices expand as in `mgrid`. If the first index is a string, it is a directive: "r" and "c" build a matrix; up to
    three integers are the axis, the minimum number of dimensions, and the position of an array's own dimensions among
    these.

    Example:
        >>> xnp.r_[0, xnp.array([5, 6]), 1:4]
        Array([0, 5, 6, 1, 2, 3], dtype=int32)
    """

    def __init__(self) -> None:
        super().__init__("r_", 0, 1, -1)


class CClass(_Concatenator):
    """The type of `c_`, which concatenates as `r_` but along the last axis, with vectors as columns.

    Example:
        >>> xnp.c_[xnp.array([1, 2]), xnp.array([3, 4])]
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """

    def __init__(self) -> None:
        super().__init__("c_", -1, 2, 0)


r_, c_ = RClass(), CClass()


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Build an open grid from index vectors: `x[xnp.ix_(rows, columns)]` selects these rows and columns of `x`.

    Args:
        args: Integer vectors, one for each dimension.

    Returns:
        A tuple of arrays that broadcast against each other.

    Note:
        Boolean vectors are not supported, since their number of true elements depends on values.

    Example:
        >>> xnp.arange(9).reshape(3, 3)[xnp.ix_(xnp.array([0, 2]), xnp.array([1]))]
        Array([[1],
               [7]], dtype=int32)
    """
    check_arraylike("ix_", *args)
    found = []
    for i, x in enumerate(args):
        x = asarray(x)
        if x.ndim != 1:
            raise ValueError(f"the arguments of numpy.ix_ must be 1-dimensional, argument {i} has shape {x.shape}.")
        if x.dtype == dtypes.bool_:
            raise NotImplementedError("numpy.ix_ does not support boolean arguments: pass numpy.nonzero(mask, size=n)[0].")
        if not x.size:
            x = asarray(x, dtype=dtypes.default_dtype(int))
        found.append(expand_dims(x, [j for j in range(len(args)) if j != i]) if len(args) > 1 else x)
    return tuple(found)


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Array | tuple[Array, ...]:
    """Return the indices of all points of a grid.

    Args:
        dimensions: The shape of the grid.
        dtype: dtype of the indices. Default: the default integer dtype.
        sparse: If True, return a tuple of arrays that broadcast, with size 1 in all dimensions but their own.

    Returns:
        An array with one index grid for each dimension along its first axis, or a tuple if `sparse`.

    Example:
        >>> xnp.indices((2, 2))[1]
        Array([[0, 1],
               [0, 1]], dtype=int32)
    """
    if not isinstance(dimensions, (tuple, list, np.ndarray)):
        raise TypeError(f"numpy.indices needs the shape of a grid, a tuple; {dimensions!r} is not iterable.")
    shape = static_shape("indices", dimensions)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "numpy.indices")
    found = [counting(d, tuple(n if j == i or not sparse else 1 for j, n in enumerate(shape)), i) for i in range(len(shape))]
    if sparse:
        return tuple(found)
    return stack(found) if found else array(np.zeros((0,), d))


# Triangles and diagonals, whose indices are constants


def _indices_of_mask(triangle: Any) -> tuple[Array, Array]:
    """Return the row and column indices of a static mask, or of a triangle of a square whose size is symbolic."""
    if isinstance(triangle, np.ndarray):
        rows, columns = (array(i, dtype=dtypes.default_dtype(int)) for i in np.nonzero(triangle))
    else:
        n = triangle.shape[0]
        rows, columns = nonzero(triangle, size=(n * n + n) // 2)
    return rows, columns


def _is_symbolic_half(n, k, m) -> bool:
    return is_symbolic_dim(n) and m is n and not k


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the lower triangle of a matrix, row by row.

    Args:
        n: Number of rows.
        k: Last diagonal of the triangle: 0 for the main one, positive above it.
        m: Number of columns. Default: `n`.

    Returns:
        A tuple of row and column indices.

    Example:
        >>> xnp.tril_indices(2)
        (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, k, m = as_size(n), as_size(k), as_size(n if m is None else m)
    return _indices_of_mask(tri(n, dtype=bool) if _is_symbolic_half(n, k, m) else np.tri(n, m, k, dtype=bool))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the upper triangle of a matrix, row by row.

    Args:
        n: Number of rows.
        k: First diagonal of the triangle: 0 for the main one, positive above it.
        m: Number of columns. Default: `n`.

    Returns:
        A tuple of row and column indices.

    Example:
        >>> xnp.triu_indices(2)
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, k, m = as_size(n), as_size(k), as_size(n if m is None else m)
    return _indices_of_mask(tri(n, dtype=bool).T if _is_symbolic_half(n, k, m) else ~np.tri(n, m, k - 1, dtype=bool))


def _matrix_shape(name: str, arr) -> tuple[int, int]:
    arr = unwrap_node(arr)
    if np.ndim(arr) != 2:
        raise ValueError(f"numpy.{name}: only 2-D inputs are accepted, got shape {np.shape(arr)}.")
    return np.shape(arr)


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the lower triangle of a given matrix.

    Args:
        arr: The matrix.
        k: See `tril_indices`.

    Returns:
        A tuple of row and column indices.

    Example:
        >>> xnp.tril_indices_from(xnp.ones((2, 1)))
        (Array([0, 1], dtype=int32), Array([0, 0], dtype=int32))
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the upper triangle of a given matrix.

    Args:
        arr: The matrix.
        k: See `triu_indices`.

    Returns:
        A tuple of row and column indices.

    Example:
        >>> xnp.triu_indices_from(xnp.ones((2, 1)))
        (Array([0], dtype=int32), Array([0], dtype=int32))
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k, m)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array whose dimensions have equal sizes.

    Args:
        n: Size of each dimension.
        ndim: Number of dimensions.

    Returns:
        A tuple of index vectors, one for each dimension.

    Example:
        >>> xnp.diag_indices(2)
        (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = as_size(n), as_size(ndim)
    for name, x in (("n", n), ("ndim", ndim)):
        if x < 0:
            raise ValueError(f"the {name} argument to diag_indices must be nonnegative, got {x}.")
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of a given array.

    Args:
        arr: The array, of at least two dimensions of equal sizes.

    Returns:
        A tuple of index vectors, one for each dimension.

    Example:
        >>> xnp.diag_indices_from(xnp.ones((2, 2)))
        (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = np.shape(unwrap_node(arr))
    if len(shape) < 2:
        raise ValueError(f"numpy.diag_indices_from: the input array must be at least 2-d, got shape {shape}.")
    if len(set(shape)) > 1:
        raise ValueError(f"numpy.diag_indices_from: all dimensions of input must be of equal length, got shape {shape}.")
    return diag_indices(shape[0], len(shape))


def mask_indices(n: int, mask_func: Callable, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the elements of a square matrix that a function such as `triu` leaves nonzero.

    Args:
        n: Number of rows and columns.
        mask_func: A function of a matrix and `k` that returns a matrix.
        k: Second argument of `mask_func`.
        size: Number of indices, required while tracing; see `nonzero`.

    Returns:
        A tuple of row and column indices.

    Example:
        >>> xnp.mask_indices(2, xnp.triu)
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = nonzero(mask_func(ones((as_size(n),) * 2, dtypes.default_dtype(int)), k), size=size)
    return rows, columns


# Flat indices


def _at_least(size, bound: int):
    """Return the greater of a size, which may be traced or symbolic, and a bound."""
    return PUBLIC["maximum"](size, bound) if isinstance(size, tracing.Tracer) else max_dim(size, bound)


def _size_like(x, size):
    """Return a size as a scalar of the dtype of `x`."""
    if isinstance(size, tracing.Tracer):
        return to_dtype(size, tracing.aval_of(x).dtype)
    if not is_symbolic_dim(size):
        return constant_like(x, size)
    aval = tracing.aval_of(x)
    return with_weakness(size_scalar(size, aval.dtype), aval.weak_type)


def _unravel(indices, shape):
    own, weak = tracing.aval_of(unwrap(indices)).dtype, dtypes.operand_type(unwrap(indices))[1]
    if own == np.bool_:
        own, weak = dtypes.default_dtype(int), True
    d = dtypes.default_dtype(int) if dtypes.is_integer(own) and own.itemsize < 4 else own
    position = as_type(unwrap(indices), d, weak)
    total = math.prod(shape)
    if not dtypes.is_unsigned(d):
        position = where(lt(position, constant_like(position, 0)), add(position, _size_like(position, total)), position)
    if dtypes.is_integer(d):
        position = _clamp(position, total)
    else:  # floats may exceed the last position by a fraction
        position = where(lt(position, _size_like(position, total)), position, _size_like(position, total - 1))
        position = PUBLIC["maximum"](position, constant_like(position, 0))
    found = []
    for n in shape[:0:-1]:  # positions are in bounds: the first dimension gets the last quotient
        size = _size_like(position, _at_least(n, 1))
        found.append(rem_(position, size))
        position = div(position, size) if dtypes.is_integer(d) else PUBLIC["floor"](div(position, size))
    return tuple(as_type(i, own, weak) for i in (position, *reversed(found))) if shape else ()


_unravel_kernel = library(_unravel, static="shape", name="unravel_index")


def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple[Array, ...]:
    """Convert positions in the flattened array to indices for each dimension.

    Args:
        indices: The positions. Negative ones count from the end; those out of bounds are clamped. Fractions are left in
            the last index.
        shape: Shape of the array. Its elements may be traced.

    Returns:
        A tuple of index arrays, one for each dimension.

    Note:
        NumPy raises an error for positions out of bounds.

    Example:
        >>> xnp.unravel_index(5, (2, 3))
        (Array(1, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    check_arraylike("unravel_index", indices)
    if isinstance(shape, tuple | list) and any([isinstance(n, tracing.Tracer) for n in shape]):
        return _unravel(indices, tuple(shape))
    return _unravel_kernel(indices, static_shape("unravel_index", shape))


@library(static=("dims", "mode", "dtype"), name="ravel_multi_index")
def _ravel_kernel(indices, dims, mode, dtype):
    indices = broadcast_to_common("ravel_multi_index", [as_type(unwrap(i), dtype, False) for i in indices])
    total: Any = dtype.type(0)
    for i, n in zip(indices, dims):
        if mode == "clip":
            i = _clamp(i, n)
        elif mode == "wrap":
            i = PUBLIC["remainder"](i, size_scalar(n, dtype))
        total = add(mul(total, size_scalar(n, dtype)), i)
    return asarray(total)


def _clamp(i, n):
    return PUBLIC["maximum"](PUBLIC["minimum"](i, _size_like(i, _at_least(n - 1, 0))), constant_like(i, 0))


def _check_holds(dtype, dims):
    """Raise if an integer dtype cannot hold the positions in an array of a shape."""
    size = math.prod(dims)
    if not is_symbolic_dim(size) and size - 1 > dtypes.iinfo(dtype).max:
        raise ValueError(f"numpy.ravel_multi_index computes in {dtype}, which is not large enough to hold the positions in an "
                         f"array of shape {tuple(dims)}. Pass a wider dtype, as in dtype={dtypes.default_dtype(int)}.")


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C", *,
                      dtype: DTypeLike | None = None) -> Array:
    """Convert indices for each dimension to positions in the flattened array.

    Args:
        multi_index: The indices, an integer array for each dimension.
        dims: Shape of the array.
        mode: Treatment of indices out of bounds: "raise" raises an error (only for concrete values), "clip" clamps,
            "wrap" wraps them around, "ignore" uses them unchanged.
        order: "C" for row-major positions, "F" for column-major ones.
        dtype: dtype of the result. Default: the common dtype of the indices.

    Returns:
        The positions.

    Example:
        >>> xnp.ravel_multi_index((xnp.array([1]), xnp.array([2])), (2, 3))
        Array([5], dtype=int32)
    """
    dims = static_shape("ravel_multi_index", dims)
    multi_index = list(multi_index)
    if len(multi_index) != len(dims):
        raise AssertionError(f"numpy.ravel_multi_index needs an index array for each of the {len(dims)} dimensions, got "
                             f"{len(multi_index)}.")
    check_arraylike("ravel_multi_index", *multi_index)
    if dtype is not None:
        d = dtypes.check_user_dtype(dtype, "numpy.ravel_multi_index")
    else:
        d = dtypes.result_type(*map(unwrap, multi_index)) if multi_index else dtypes.default_dtype(int)
    for given in (*[dtypes.operand_type(unwrap(x))[0] for x in multi_index], d):
        if not dtypes.is_integer(given):
            raise ValueError(f"numpy.ravel_multi_index takes integers; {given} is not an integer type.")
    _check_holds(d, dims)
    if mode not in ("raise", "clip", "wrap", "ignore"):
        raise ValueError(f"invalid mode={mode!r} of numpy.ravel_multi_index: it has 'raise', 'wrap', 'clip' and 'ignore'.")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r} of numpy.ravel_multi_index: it has 'C' and 'F'.")
    if mode == "raise":
        for i, n in zip(multi_index, dims):
            known = i._concrete() if isinstance(i, tracing.Tracer) else i
            if known is None:
                raise errors.ConcretizationTypeError(
                    i, "numpy.ravel_multi_index with mode='raise' checks the indices: use mode='wrap' or 'clip'.")
            if np.size(known) and (np.min(np.asarray(known)) < 0 or np.max(np.asarray(known)) >= n):
                raise ValueError(f"numpy.ravel_multi_index got an invalid entry in coordinates array: an index out of bounds "
                                 f"for size {n}.")
    if order == "F":
        multi_index, dims = multi_index[::-1], dims[::-1]
    return _ravel_kernel(multi_index, dims, mode, d)
