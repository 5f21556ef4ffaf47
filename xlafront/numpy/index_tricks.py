"""Grids and indices: `mgrid`, `ogrid`, `r_`, `c_`, `ix_`, the indices of triangles and diagonals, flat indices and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import as_size, is_symbolic_dim, max_dim
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.elementwise import add, as_type, constant_like, div, lt, mul, rem_, size_as, where, with_weakness
from xlafront.lax.shapes import counting, expand_dims, static_shape
from xlafront.numpy.creation import arange, array, asarray, linspace, meshgrid, ones, tri
from xlafront.numpy.manipulation import concatenate, reshape, stack
from xlafront.numpy.promotion import broadcast_to_common, check_arraylike, promote_dtypes, unwrap, unwrap_node
from xlafront.numpy.searching import nonzero
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import library

# Grids


def _points(s: slice) -> Array:
    """The numbers that a slice stands for; an imaginary step is how many there are, both ends included."""
    start, step = (0 if s.start is None else s.start), (1 if s.step is None else s.step)
    if isinstance(step, complex):
        return linspace(start, s.stop, int(abs(step)))
    return arange(start, s.stop, step)


class _Grid:
    """What `mgrid` and `ogrid` are: indexing by slices makes grids of the numbers that they stand for.

    A slice `start:stop:step` stands for the numbers of `arange`; one with an imaginary step, as `0:1:5j`, for five numbers from
    end to end. `mgrid` returns one array for all of them, `ogrid` a list of arrays that broadcast.

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
            raise TypeError(f"a grid is indexed by slices, as in xnp.mgrid[0:3, 0:1:5j], not by {key!r}: it is not iterable.")
        axes = promote_dtypes(*map(_points, key))
        grids = meshgrid(*axes, indexing="ij", sparse=self._sparse)
        return list(grids) if self._sparse else stack(grids)

    def __repr__(self) -> str:
        return f"<xlafront.numpy.{'ogrid' if self._sparse else 'mgrid'}>"


mgrid, ogrid = _Grid(False), _Grid(True)


class _Join:
    """What `r_` and `c_` have in common: the axis to join along, the least number of dimensions, where an array's own begin."""

    def __init__(self, name: str, axis: int, rank: int, at: int):
        self._name, self._axis, self._rank, self._at = name, axis, rank, at

    def __getitem__(self, key: Any) -> Array:
        axis, rank, at = self._axis, self._rank, self._at
        items = list(key) if isinstance(key, tuple) else [key]
        matrix = ""
        if items and isinstance(items[0], str):
            directive, *items = items
            if directive in ("r", "c"):
                matrix = directive
            else:
                try:
                    axis, rank, at = (*map(int, directive.split(",")), *(axis, rank, at)[directive.count(",") + 1:])
                except ValueError:
                    raise ValueError(f"xnp.{self._name} could not understand directive {directive!r}: it is 'r', 'c' or up to "
                                     f"three integers (axis, least number of dimensions, where they begin).") from None
        parts = [self._part(x, rank, at) for x in items]
        if not parts:
            raise ValueError(f"xnp.{self._name} needs something to join: need at least one array to concatenate.")
        result = concatenate(parts, axis=axis)
        if matrix and result.ndim == 1:
            result = reshape(result, (1, -1) if matrix == "r" else (-1, 1))
        return result

    @staticmethod
    def _part(x, rank: int, at: int) -> Array:
        x = _points(x) if isinstance(x, slice) else asarray(x)
        missing = rank - x.ndim
        if missing <= 0:
            return x if x.ndim else reshape(x, (1,))
        if x.ndim == 0:
            return reshape(x, (1,) * rank)
        before = at if at >= 0 else missing + at + 1  # where the array's own dimensions begin
        return expand_dims(x, [i for i in range(rank) if not before <= i < before + x.ndim])

    def __repr__(self) -> str:
        return f"<xlafront.numpy.{self._name}>"


class RClass(_Join):
    """What `r_` is: indexing joins numbers, arrays and the numbers that slices stand for along the first axis.

    A first index that is a text changes that: "r" and "c" make a matrix, up to three integers are the axis, the least number of
    dimensions, and where those of an array begin.

    >>> xnp.r_[0, xnp.array([5, 6]), 1:4]
    Array([0, 5, 6, 1, 2, 3], dtype=int32)
    """

    def __init__(self) -> None:
        super().__init__("r_", 0, 1, -1)


class CClass(_Join):
    """What `c_` is: indexing joins as in `r_`, along the last axis, with vectors as columns.

    >>> xnp.c_[xnp.array([1, 2]), xnp.array([3, 4])]
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """

    def __init__(self) -> None:
        super().__init__("c_", -1, 2, 0)


r_, c_ = RClass(), CClass()


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Vectors of indices as an open grid: `x[xnp.ix_(rows, columns)]` is the part of `x` in these rows and columns.

    - `args`: vectors of integers, one for each dimension. Masks are not taken: their number of elements depends on values.

    >>> xnp.arange(9).reshape(3, 3)[xnp.ix_(xnp.array([0, 2]), xnp.array([1]))]
    Array([[1],
           [7]], dtype=int32)
    """
    check_arraylike("ix_", *args)
    found = []
    for i, x in enumerate(args):
        x = asarray(x)
        if x.ndim != 1:
            raise ValueError(f"the arguments of xnp.ix_ must be 1-dimensional, argument {i} has shape {x.shape}.")
        if x.dtype == dtypes.bool_:
            raise NotImplementedError("xnp.ix_ has no boolean arguments; give xnp.nonzero(mask, size=n)[0].")
        if not x.size:
            x = asarray(x, dtype=dtypes.default_dtype(int))
        found.append(expand_dims(x, [j for j in range(len(args)) if j != i]) if len(args) > 1 else x)
    return tuple(found)


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Array | tuple[Array, ...]:
    """For each dimension of a grid the index of every point.

    - `dimensions`: the shape of the grid.
    - `dtype`: that of the indices, an integer one without.
    - `sparse`: whether to return an array for each dimension, of size 1 in the others, in place of one for all.

    >>> xnp.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if not isinstance(dimensions, (tuple, list, np.ndarray)):
        raise TypeError(f"xnp.indices needs the shape of a grid, a tuple; {dimensions!r} is not iterable.")
    shape = static_shape("indices", dimensions)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "xnp.indices")
    found = [counting(d, tuple(n if j == i or not sparse else 1 for j, n in enumerate(shape)), i) for i in range(len(shape))]
    if sparse:
        return tuple(found)
    return stack(found) if found else array(np.zeros((0,), d))


# Triangles and diagonals, whose indices are known as constants


def _positions(triangle: Any) -> tuple[Array, Array]:
    """Of a mask that is known, or of the half of a square whose size is symbolic."""
    if isinstance(triangle, np.ndarray):
        rows, columns = (array(i, dtype=dtypes.default_dtype(int)) for i in np.nonzero(triangle))
    else:
        n = triangle.shape[0]
        rows, columns = nonzero(triangle, size=(n * n + n) // 2)
    return rows, columns


def _is_symbolic_half(n, k, m) -> bool:
    return is_symbolic_dim(n) and m is n and not k


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the lower triangle of a matrix, row by row.

    - `n`: the number of rows.
    - `k`: the diagonal up to which it goes, counted upwards from the main one.
    - `m`: the number of columns, `n` without.

    >>> xnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, k, m = as_size(n), as_size(k), as_size(n if m is None else m)
    return _positions(tri(n, dtype=bool) if _is_symbolic_half(n, k, m) else np.tri(n, m, k, dtype=bool))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the upper triangle of a matrix, row by row.

    - `n`: the number of rows.
    - `k`: the diagonal from which it goes, counted upwards from the main one.
    - `m`: the number of columns, `n` without.

    >>> xnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, k, m = as_size(n), as_size(k), as_size(n if m is None else m)
    return _positions(tri(n, dtype=bool).T if _is_symbolic_half(n, k, m) else ~np.tri(n, m, k - 1, dtype=bool))


def _matrix_shape(name: str, arr) -> tuple[int, int]:
    arr = unwrap_node(arr)
    if np.ndim(arr) != 2:
        raise ValueError(f"xnp.{name}: only 2-D inputs are accepted, got shape {np.shape(arr)}.")
    return np.shape(arr)


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the lower triangle of a given matrix.

    - `arr`: the matrix.
    - `k`: as for `tril_indices`.

    >>> xnp.tril_indices_from(xnp.ones((2, 1)))
    (Array([0, 1], dtype=int32), Array([0, 0], dtype=int32))
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the upper triangle of a given matrix.

    - `arr`: the matrix.
    - `k`: as for `triu_indices`.

    >>> xnp.triu_indices_from(xnp.ones((2, 1)))
    (Array([0], dtype=int32), Array([0], dtype=int32))
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k, m)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array whose dimensions all have one size.

    - `n`: that size.
    - `ndim`: the number of dimensions.

    >>> xnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = as_size(n), as_size(ndim)
    for name, x in (("n", n), ("ndim", ndim)):
        if x < 0:
            raise ValueError(f"the {name} argument to diag_indices must be nonnegative, got {x}.")
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of a given array.

    - `arr`: the array, of two dimensions or more of one size.

    >>> xnp.diag_indices_from(xnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = np.shape(unwrap_node(arr))
    if len(shape) < 2:
        raise ValueError(f"xnp.diag_indices_from: the input array must be at least 2-d, got shape {shape}.")
    if len(set(shape)) > 1:
        raise ValueError(f"xnp.diag_indices_from: all dimensions of input must be of equal length, got shape {shape}.")
    return diag_indices(shape[0], len(shape))


def mask_indices(n: int, mask_func: Callable, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """The indices of the part of a matrix that a function such as `triu` leaves.

    - `n`: the number of rows and of columns.
    - `mask_func`: the function, of a matrix and `k`; what it makes zero is left out.
    - `k`: its second argument.
    - `size`: the number of indices, for traced functions, as that of `nonzero`.

    >>> xnp.mask_indices(2, xnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = nonzero(mask_func(ones((as_size(n),) * 2, dtypes.default_dtype(int)), k), size=size)
    return rows, columns


# Flat indices


def _size_like(x, size):
    """A size as a scalar of the type of `x`."""
    if not is_symbolic_dim(size):
        return constant_like(x, size)
    aval = tracing.aval_of(x)
    return with_weakness(size_as(size, aval.dtype), aval.weak_type)


@library(static="shape", name="unravel_index")
def _unravelled(indices, shape):
    own, weak = tracing.aval_of(unwrap(indices)).dtype, dtypes.operand_type(unwrap(indices))[1]
    if own == np.bool_:
        own, weak = dtypes.default_dtype(int), True
    d = dtypes.default_dtype(int) if dtypes.is_integer(own) and own.itemsize < 4 else own
    place = as_type(unwrap(indices), d, weak)
    total = math.prod(shape)
    if not dtypes.is_unsigned(d):
        place = where(lt(place, constant_like(place, 0)), add(place, _size_like(place, total)), place)
    if dtypes.is_integer(d):
        place = _clipped(place, total)
    else:  # of the last element any place up to the next
        place = where(lt(place, _size_like(place, total)), place, _size_like(place, total - 1))
        place = PUBLIC["maximum"](place, constant_like(place, 0))
    found = []
    for n in shape[:0:-1]:  # of the places, which are inside, the first dimension takes what is left
        size = _size_like(place, max_dim(n, 1))
        found.append(rem_(place, size))
        place = div(place, size) if dtypes.is_integer(d) else PUBLIC["floor"](div(place, size))
    return tuple(as_type(i, own, weak) for i in (place, *reversed(found))) if shape else ()


def unravel_index(indices: ArrayLike, shape: int | Sequence[int]) -> tuple[Array, ...]:
    """The index in each dimension that elements have, from their places in the flattened array.

    - `indices`: the places. Negative ones count from the end; those outside are moved to the nearest (NumPy raises an error).
      Of places that are not whole the rest is in the last index.
    - `shape`: that of the array.

    >>> xnp.unravel_index(5, (2, 3))
    (Array(1, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    check_arraylike("unravel_index", indices)
    return _unravelled(indices, static_shape("unravel_index", shape))


@library(static=("dims", "mode", "dtype"), name="ravel_multi_index")
def _ravelled(indices, dims, mode, dtype):
    indices = broadcast_to_common("ravel_multi_index", [as_type(unwrap(i), dtype, False) for i in indices])
    total: Any = dtype.type(0)
    for i, n in zip(indices, dims):
        if mode == "clip":
            i = _clipped(i, n)
        elif mode == "wrap":
            i = PUBLIC["remainder"](i, size_as(n, dtype))
        total = add(mul(total, size_as(n, dtype)), i)
    return asarray(total)


def _clipped(i, n):
    return PUBLIC["maximum"](PUBLIC["minimum"](i, _size_like(i, max_dim(n - 1, 0))), constant_like(i, 0))


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C", *,
                      dtype: DTypeLike | None = None) -> Array:
    """The places in the flattened array of elements whose index is given in each dimension.

    - `multi_index`: the indices, an integer array for each dimension.
    - `dims`: the shape of the array.
    - `mode`: what indices outside are: an error ("raise", only where values are known), moved to the nearest ("clip"), counted
      around ("wrap"), or taken as they are ("ignore").
    - `order`: "C", by rows, or "F", by columns.
    - `dtype`: that of the result.

    >>> xnp.ravel_multi_index((xnp.array([1]), xnp.array([2])), (2, 3))
    Array([5], dtype=int32)
    """
    dims = static_shape("ravel_multi_index", dims)
    multi_index = list(multi_index)
    if len(multi_index) != len(dims):
        raise AssertionError(f"xnp.ravel_multi_index needs an index array for each of the {len(dims)} dimensions, got "
                             f"{len(multi_index)}.")
    check_arraylike("ravel_multi_index", *multi_index)
    d = dtypes.default_dtype(int) if dtype is None else dtypes.check_user_dtype(dtype, "xnp.ravel_multi_index")
    for x in (*map(unwrap, multi_index), d):
        given = x if isinstance(x, np.dtype) else dtypes.operand_type(x)[0]
        if not dtypes.is_integer(given):
            raise ValueError(f"xnp.ravel_multi_index takes integers; {given} is not an integer type.")
    if mode not in ("raise", "clip", "wrap", "ignore"):
        raise ValueError(f"invalid mode={mode!r} of xnp.ravel_multi_index: it has 'raise', 'wrap', 'clip' and 'ignore'.")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r} of xnp.ravel_multi_index: it has 'C' and 'F'.")
    if mode == "raise":
        for i, n in zip(multi_index, dims):
            known = i._concrete() if isinstance(i, tracing.Tracer) else i
            if known is None:
                raise errors.ConcretizationTypeError(i, "xnp.ravel_multi_index checks its indices: use mode='wrap' or 'clip'.")
            if np.size(known) and (np.min(np.asarray(known)) < 0 or np.max(np.asarray(known)) >= n):
                raise ValueError(f"xnp.ravel_multi_index got an invalid entry in coordinates array: an index outside of {n}.")
    if order == "F":
        multi_index, dims = multi_index[::-1], dims[::-1]
    return _ravelled(multi_index, dims, mode, d)
