"""COO, CSR and CSC matrices, and functions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront import lax, numpy as xnp
from xlafront.core import tree
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.sparse import positions
from xlafront.sparse.base import JAXSparse, shape_of
from xlafront.sparse.bcoo import require_concrete, stored_elements
from xlafront.sparse.bcsr import row_starts, rows_of
from xlafront.sparse.operations import fromdense_jvp, linear_primitive


class COOInfo(NamedTuple):
    """Static information about a COO matrix."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


# Primitives. Those of CSR and CSC matrices expand `indptr` to rows and call the functions of COO matrices.


def _todense(data, row, col, shape):
    return positions.add_at(shape, xnp.stack([row, col], -1), data)


def _product(data, row, col, other, shape, transpose, scatter_mode="drop"):
    """Multiply the matrix, or its transpose, by a vector or matrix."""
    if transpose:
        row, col, shape = col, row, shape[::-1]
    if other.shape[0] != shape[1]:
        raise AssertionError(f"a matrix of shape {tuple(shape)} cannot be multiplied with an array of shape {other.shape}")
    dtype = xnp.promote_types(data.dtype, other.dtype)
    # Out-of-bounds elements get value zero, which is cheaper than zeroing the rows that they read.
    rows_read = positions.take_at(other.astype(dtype), col[:, None], "clip")
    is_valid = positions.in_bounds(col[:, None], shape[1:])
    if scatter_mode == "clip":
        is_valid &= positions.in_bounds(row[:, None], shape[:1])
    data = positions.zero_unless(is_valid, data.astype(dtype))
    values = data.reshape(data.shape + (1,) * (rows_read.ndim - 1)) * rows_read
    return positions.add_at((shape[0], *other.shape[1:]), row[:, None], values, scatter_mode)


def _linear_product(data, row, col, other, shape, transpose):
    """Compute `_product` as a function of the values only.

    Its transpose zeroes values, not rows of the cotangent that it reads.
    """
    return _product(data, row, col, other, shape, transpose, "clip")


def _coordinates(mat, nse, index_dtype):
    if mat.ndim != 2:
        raise AssertionError(f"a sparse matrix is made from a dense matrix, got an array of shape {mat.shape}")
    row, col = xnp.nonzero(mat, size=nse, fill_value=mat.shape)
    row, col = row.astype(index_dtype), col.astype(index_dtype)
    return positions.take_at(mat, xnp.stack([row, col], -1)), row, col


def _compressed(mat, nse, index_dtype):
    data, row, col = _coordinates(mat, nse, index_dtype)
    return data, col, row_starts(row, mat.shape[0], index_dtype)


def _extract(row, col, mat):
    return positions.take_at(mat, xnp.stack([row, col], -1))


def _expand_rows(function):
    """Turn a function of rows and columns into one of columns and `indptr`."""
    def on_compressed(data, indices, indptr, *operands, **params):
        return function(data, rows_of(indptr, len(indices)).astype(indices.dtype), indices, *operands, **params)

    return on_compressed


def _with_spinfo(function):
    """Turn a function with parameter `shape` into one with parameter `spinfo`."""
    return lambda *arrays, spinfo, transpose: function(*arrays, shape=spinfo.shape, transpose=transpose)


def _transpose_in_values(function):
    """Return the `to_transpose` rule that uses this function for the derivative with respect to the values."""
    return lambda index, avals, **params: function if index == 0 else None


coo_todense_p = linear_primitive("coo_todense", lambda data, row, col, *, spinfo: _todense(data, row, col, spinfo.shape), (0,))
coo_matvec_p, coo_matmat_p = (
    linear_primitive(name, _with_spinfo(_product), (0, 3), to_transpose=_transpose_in_values(_with_spinfo(_linear_product)))
    for name in ("coo_matvec", "coo_matmat"))
coo_extract_p = linear_primitive("coo_extract", _extract, (2,))
coo_fromdense_p = linear_primitive(
    "coo_fromdense", lambda mat, *, nse, index_dtype: _coordinates(mat, nse, index_dtype), (), multiple_results=True,
    jvp=fromdense_jvp(lambda mat, **params: coo_fromdense_p.bind(mat, **params),
                      lambda components, mat: coo_extract_p.bind(components[1], components[2], mat)))
csr_todense_p = linear_primitive(
    "csr_todense", _expand_rows(lambda data, row, col, *, shape: _todense(data, row, col, shape)), (0,))
csr_matvec_p, csr_matmat_p = (
    linear_primitive(name, _expand_rows(_product), (0, 3), to_transpose=_transpose_in_values(_expand_rows(_linear_product)))
    for name in ("csr_matvec", "csr_matmat"))
csr_fromdense_p = linear_primitive(
    "csr_fromdense", lambda mat, *, nse, index_dtype: _compressed(mat, nse, index_dtype), (), multiple_results=True,
    jvp=fromdense_jvp(lambda mat, **params: csr_fromdense_p.bind(mat, **params), lambda components, mat: coo_extract_p.bind(
        rows_of(components[2], len(components[1])).astype(components[1].dtype), components[1], mat)))


class _Matrix(JAXSparse):
    """Base class of matrix formats: products with dense vectors and matrices on the right."""

    def _times(self, other: Array) -> Array:
        raise NotImplementedError

    def __matmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, JAXSparse):
            raise NotImplementedError(f"the product of two sparse matrices is not implemented for {type(self).__name__} and "
                                      f"{type(other).__name__}: use BCOO arrays")
        other = xnp.asarray(other)
        if other.ndim not in (1, 2):
            raise NotImplementedError(f"a {type(self).__name__} matrix can be multiplied by vectors and matrices only, got an "
                                      f"array of shape {other.shape}")
        return self._times(other)

    def _check_axes(self, axes: Sequence[int] | None) -> None:
        if axes is not None and tuple(axes) != (1, 0):
            raise AssertionError(f"the transpose of a {type(self).__name__} matrix has axes (1, 0), got {tuple(axes)}")


def _nse_of(mat: Array, nse: int | None, name: str) -> int:
    return int(nse) if nse is not None else require_concrete(stored_elements(mat), name)


def _diagonal(N: int, M: int, k: int, dtype: Any, index_dtype: Any) -> tuple[Array, Array, Array]:
    count = max(min(N + min(k, 0), M - max(k, 0)), 0)
    start = np.arange(count)
    return (xnp.ones(count, dtype), xnp.asarray(start + max(-k, 0), index_dtype), xnp.asarray(start + max(k, 0), index_dtype))


class COO(_Matrix):
    """Sparse matrix in coordinate format. BCOO arrays support more operations.

    Args:
        args: `(data, row, col)`.
        shape: Shape of the matrix.
        rows_sorted: True if the elements are sorted by row.
        cols_sorted: True if the elements are sorted by column.

    Example:
        >>> mat = sparse.COO.fromdense(xnp.array([[0., 1.], [2., 0.]]))
        >>> mat.row.tolist(), (mat @ xnp.ones(2)).tolist()
        ([0, 1], [1.0, 2.0])
    """

    data: Array
    row: Array
    col: Array

    def __init__(self, args: tuple[ArrayLike, ArrayLike, ArrayLike], *, shape: Sequence[int], rows_sorted: bool = False,
                 cols_sorted: bool = False):
        self.data, self.row, self.col = map(xnp.asarray, args)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted
        super().__init__((self.data, self.row, self.col), shape=shape)

    nse = property(lambda self: self.data.size, doc="How many elements are stored.")
    dtype = property(lambda self: self.data.dtype, doc="The dtype of the elements.")
    _info = property(lambda self: COOInfo(self.shape, self._rows_sorted, self._cols_sorted))
    _bufs = property(lambda self: (self.data, self.row, self.col))

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        """Return the component arrays and the static data."""
        return self._bufs, self._info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """Return the matrix of these components, without checks."""
        if aux_data.keys() != {"shape", "rows_sorted", "cols_sorted"}:
            raise ValueError(f"COO has static data shape, rows_sorted and cols_sorted, got {sorted(aux_data)}")
        data, row, col = children
        return cls._bare(data=data, row=row, col=col, shape=aux_data["shape"], _rows_sorted=aux_data["rows_sorted"],
                         _cols_sorted=aux_data["cols_sorted"])

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
        """Convert a dense matrix; see `coo_fromdense`."""
        mat = xnp.asarray(mat)
        components = coo_fromdense_p.bind(mat, nse=_nse_of(mat, nse, "coo_fromdense"), index_dtype=np.dtype(index_dtype))
        return cls(components, shape=mat.shape, rows_sorted=True)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None) -> COO:
        """Convert a SciPy sparse matrix."""
        mat = mat.tocoo()
        row, col = (x if index_dtype is None else x.astype(index_dtype) for x in (mat.row, mat.col))
        return cls((mat.data, row, col), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> COO:
        if len(tuple(shape)) != 2:
            raise ValueError(f"COO matrices have two dimensions, got shape {tuple(shape)}")
        none = xnp.zeros(0, index_dtype)
        return cls((xnp.zeros(0, dtype), none, none), shape=shape_of(shape), rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> COO:
        return cls(_diagonal(N, M, k, dtype, index_dtype), shape=(N, M), rows_sorted=True, cols_sorted=True)

    def _sort_indices(self) -> COO:
        if self._rows_sorted:
            return self
        row, col, order = lax.sort([self.row, self.col, xnp.arange(self.nse)], num_keys=2)
        return COO((self.data[order], row, col), shape=self.shape, rows_sorted=True)

    def todense(self) -> Array:
        """Return the equivalent dense matrix."""
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """Return the transposed matrix, which shares the component arrays."""
        self._check_axes(axes)
        return COO((self.data, self.col, self.row), shape=self.shape[::-1], rows_sorted=self._cols_sorted,
                   cols_sorted=self._rows_sorted)

    def _times(self, other: Array) -> Array:
        return coo_matvec(self, other) if other.ndim == 1 else coo_matmat(self, other)


class _Compressed(_Matrix):
    """Base class of compressed formats: `indices` along one dimension, and the start of each row or column in `indptr`."""

    data: Array
    indices: Array
    indptr: Array
    _by_column = False

    def __init__(self, args: tuple[ArrayLike, ArrayLike, ArrayLike], *, shape: Sequence[int]):
        self.data, self.indices, self.indptr = map(xnp.asarray, args)
        super().__init__((self.data, self.indices, self.indptr), shape=shape)

    nse = property(lambda self: self.data.size, doc="How many elements are stored.")
    dtype = property(lambda self: self.data.dtype, doc="The dtype of the elements.")
    _bufs = property(lambda self: (self.data, self.indices, self.indptr))

    @classmethod
    def _stored_shape(cls, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the matrix whose rows are compressed."""
        return tuple(shape)[::-1] if cls._by_column else tuple(shape)

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        """Return the component arrays and the static data."""
        return self._bufs, {"shape": self.shape}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """Return the matrix of these components, without checks."""
        if aux_data.keys() != {"shape"}:
            raise ValueError(f"{cls.__name__} has shape as static data, got {sorted(aux_data)}")
        data, indices, indptr = children
        return cls._bare(data=data, indices=indices, indptr=indptr, **aux_data)

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> Self:
        """Convert a dense matrix."""
        mat = xnp.asarray(mat)
        components = csr_fromdense_p.bind(mat.T if cls._by_column else mat, nse=_nse_of(mat, nse, f"{cls.__name__}.fromdense"),
                                     index_dtype=np.dtype(index_dtype))
        return cls(components, shape=mat.shape)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None) -> Self:
        """Convert a SciPy sparse matrix."""
        mat = mat.tocsc() if cls._by_column else mat.tocsr()
        indices, indptr = (x if index_dtype is None else x.astype(index_dtype) for x in (mat.indices, mat.indptr))
        return cls((mat.data, indices, indptr), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> Self:
        if len(tuple(shape)) != 2:
            raise ValueError(f"{cls.__name__} matrices have two dimensions (ndim=2), got shape {tuple(shape)}")
        rows = cls._stored_shape(shape)[0]
        return cls((xnp.zeros(0, dtype), xnp.zeros(0, index_dtype), xnp.zeros(rows + 1, index_dtype)), shape=shape_of(shape))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> Self:
        rows, columns = cls._stored_shape((N, M))
        data, row, col = _diagonal(rows, columns, -k if cls._by_column else k, dtype, index_dtype)
        return cls((data, col, row_starts(row, rows, np.dtype(index_dtype))), shape=(N, M))

    def todense(self) -> Array:
        """Return the equivalent dense matrix."""
        dense = csr_todense_p.bind(*self._bufs, shape=self._stored_shape(self.shape))
        return dense.T if self._by_column else dense

    def _times(self, other: Array) -> Array:
        return (csr_matvec_p if other.ndim == 1 else csr_matmat_p).bind(
            *self._bufs, other, shape=self._stored_shape(self.shape), transpose=self._by_column)


class CSR(_Compressed):
    """Sparse matrix in compressed sparse row format. BCSR arrays support more operations.

    Args:
        args: `(data, indices, indptr)`: values, their columns, and the start of each row.
        shape: Shape of the matrix.

    Example:
        >>> sparse.CSR.fromdense(xnp.array([[0., 1.], [2., 0.]])).indptr.tolist()
        [0, 1, 2]
    """

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """Return the transposed matrix, which shares the component arrays."""
        self._check_axes(axes)
        return CSC(self._bufs, shape=self.shape[::-1])


class CSC(_Compressed):
    """Sparse matrix in compressed sparse column format.

    Args:
        args: `(data, indices, indptr)`: values, their rows, and the start of each column.
        shape: Shape of the matrix.

    Example:
        >>> sparse.CSC.fromdense(xnp.array([[0., 1.], [2., 0.]])).data.tolist()
        [2.0, 1.0]
    """

    _by_column = True

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """Return the transposed matrix, which shares the component arrays."""
        self._check_axes(axes)
        return CSR(self._bufs, shape=self.shape[::-1])


for _class in (COO, CSR, CSC):
    tree.register_pytree_node_class(_class)


def coo_todense(mat: COO) -> Array:
    """Convert a COO matrix to a dense matrix.

    Args:
        mat: COO matrix.

    Returns:
        Dense matrix.

    Example:
        >>> sparse.coo_todense(sparse.eye(2, sparse_format="coo")).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return coo_todense_p.bind(*mat._bufs, spinfo=mat._info)


def coo_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
    """Convert a dense matrix to a COO matrix.

    Args:
        mat: Dense matrix.
        nse: Number of elements to store. Default: the number of nonzero elements. Required in transformed functions.
        index_dtype: dtype of the indices.

    Returns:
        COO matrix.

    Example:
        >>> sparse.coo_fromdense(xnp.array([[0., 2.], [3., 0.]])).col.tolist()
        [1, 0]
    """
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


def coo_matvec(mat: COO, v: ArrayLike, transpose: bool = False) -> Array:
    """Multiply a COO matrix by a vector.

    Args:
        mat: COO matrix.
        v: Vector.
        transpose: If True, use the transposed matrix.

    Returns:
        Vector.

    Example:
        >>> sparse.coo_matvec(sparse.eye(2, sparse_format="coo"), xnp.arange(2.)).tolist()
        [0.0, 1.0]
    """
    return coo_matvec_p.bind(*mat._bufs, xnp.asarray(v), spinfo=mat._info, transpose=bool(transpose))


def coo_matmat(mat: COO, B: ArrayLike, *, transpose: bool = False) -> Array:
    """Multiply a COO matrix by a dense matrix.

    Args:
        mat: COO matrix.
        B: Dense matrix.
        transpose: If True, use the transpose of `mat`.

    Returns:
        Dense matrix.

    Example:
        >>> sparse.coo_matmat(sparse.eye(2, sparse_format="coo"), xnp.eye(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return coo_matmat_p.bind(*mat._bufs, xnp.asarray(B), spinfo=mat._info, transpose=bool(transpose))


def csr_todense(mat: CSR) -> Array:
    """Convert a CSR matrix to a dense matrix.

    Args:
        mat: CSR matrix.

    Returns:
        Dense matrix.

    Example:
        >>> sparse.csr_todense(sparse.eye(2, sparse_format="csr")).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return csr_todense_p.bind(*mat._bufs, shape=mat.shape)


def csr_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> CSR:
    """Convert a dense matrix to a CSR matrix.

    Args:
        mat: Dense matrix.
        nse: Number of elements to store. Default: the number of nonzero elements. Required in transformed functions.
        index_dtype: dtype of the indices.

    Returns:
        CSR matrix.

    Example:
        >>> sparse.csr_fromdense(xnp.array([[0., 2.], [3., 0.]])).indices.tolist()
        [1, 0]
    """
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


def csr_matvec(mat: CSR, v: ArrayLike, transpose: bool = False) -> Array:
    """Multiply a CSR matrix by a vector.

    Args:
        mat: CSR matrix.
        v: Vector.
        transpose: If True, use the transposed matrix.

    Returns:
        Vector.

    Example:
        >>> sparse.csr_matvec(sparse.eye(2, sparse_format="csr"), xnp.arange(2.)).tolist()
        [0.0, 1.0]
    """
    return csr_matvec_p.bind(*mat._bufs, xnp.asarray(v), shape=mat.shape, transpose=bool(transpose))


def csr_matmat(mat: CSR, B: ArrayLike, *, transpose: bool = False) -> Array:
    """Multiply a CSR matrix by a dense matrix.

    Args:
        mat: CSR matrix.
        B: Dense matrix.
        transpose: If True, use the transpose of `mat`.

    Returns:
        Dense matrix.

    Example:
        >>> sparse.csr_matmat(sparse.eye(2, sparse_format="csr"), xnp.eye(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return csr_matmat_p.bind(*mat._bufs, xnp.asarray(B), shape=mat.shape, transpose=bool(transpose))
