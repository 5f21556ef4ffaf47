"""BCSR arrays: batches of matrices in compressed sparse row format, and functions of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from xlafront import numpy as xnp
from xlafront.control.foreign_calls import ffi_call
from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.resharding import with_out_sharding
from xlafront.sparse import bcoo, positions
from xlafront.sparse.base import JAXSparse, SparseInfo, check_index_dtype
from xlafront.sparse.bcoo import BCOO, require_concrete, stored_elements
from xlafront.sparse.bcoo_functions import bcoo_broadcast_in_dim, bcoo_concatenate
from xlafront.sparse.bcoo_products import DimensionNumbers, canonical_dimension_numbers
from xlafront.sparse.operations import call_jitted, fromdense_jvp, linear_primitive, map_batches


class BCSRProperties(NamedTuple):
    """Layout of a BCSR array."""

    n_batch: int
    n_dense: int
    nse: int


def layout_of(data: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> BCSRProperties:
    """Return the layout of a BCSR array of these components, or raise if they do not match."""
    check_index_dtype("the indices of a BCSR array", indices)
    check_index_dtype("the indptr of a BCSR array", indptr)
    shape = tuple(shape)
    n_batch, nse = indices.ndim - 1, indices.shape[-1]
    n_dense = len(shape) - n_batch - 2
    if n_dense < 0:
        raise ValueError(f"indices of shape {indices.shape} belong to a BCSR array of at least {n_batch + 2} dimensions, "
                         f"not to one of shape {shape}")
    if tuple(indptr.shape[-1:]) != (shape[n_batch] + 1,) or indptr.ndim != n_batch + 1:
        raise ValueError(f"the indptr of a BCSR array of shape {shape} with n_batch={n_batch} must have dimensions (*batch, "
                         f"{shape[n_batch] + 1}), one more than rows, got shape {indptr.shape}")
    data_shape = (*shape[:n_batch], nse, *shape[n_batch + 2:])
    for x, name, expected in ((data, "data", data_shape[n_batch:]), (indices, "indices", (nse,)), (indptr, "indptr",
        indptr.shape[-1:])):
        if tuple(x.shape[n_batch:]) != tuple(expected) or any(n not in (1, m) for n, m in zip(x.shape[:n_batch], shape)):
            raise ValueError(f"the {name} of a BCSR array of shape {shape} with nse={nse} and n_batch={n_batch} must have "
                             f"shape {(*shape[:n_batch], *expected)} (batch dimensions may be 1), got {x.shape}")
    return BCSRProperties(n_batch, n_dense, nse)


def rows_of(indptr: Array, nse: int) -> Array:
    """Return the row of each stored element. Elements beyond the last row are padding and get an out-of-bounds row."""
    if not nse:
        return xnp.zeros(0, indptr.dtype)
    ends = xnp.zeros(nse, indptr.dtype).at[indptr[1:]].add(1, mode="drop")  # The number of rows that end at each element.
    return xnp.cumsum(ends)


def coordinates(indices: Array, indptr: Array) -> Array:
    """Return the indices of the BCOO array with the same elements."""
    def convert(columns, pointers):
        return xnp.stack([rows_of(pointers, len(columns)).astype(columns.dtype), columns], -1)

    return map_batches(convert, indices.ndim - 1)(indices, indptr)


def row_starts(rows: Array, count: int, dtype: Any) -> Array:
    """Return the `indptr` of sorted rows."""
    lengths = xnp.zeros(count, dtype).at[rows].add(1, mode="drop")
    return xnp.concatenate([xnp.zeros(1, dtype), xnp.cumsum(lengths, dtype=dtype)])


def _compress(indices: Array, shape: Sequence[int], n_batch: int, index_dtype: Any) -> tuple[Array, Array]:
    """Return the columns and `indptr` of sorted BCOO indices."""
    def convert(i):
        return i[:, 1].astype(index_dtype), row_starts(i[:, 0], shape[n_batch], index_dtype)

    return map_batches(convert, n_batch)(indices)


def _fromdense(mat, *, nse, n_batch, n_dense, index_dtype):
    data, indices = bcoo.fromdense_p.bind(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return (data, *_compress(indices, mat.shape, n_batch, index_dtype))


def _todense(data, indices, indptr, *, spinfo):
    return bcoo.todense_p.bind(data, coordinates(indices, indptr), spinfo=spinfo)


def _extract(indices, indptr, mat):
    return bcoo.extract_p.bind(coordinates(indices, indptr), mat, assume_unique=True)


def _dot_general(data, indices, indptr, rhs, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    return bcoo.dot_general_p.bind(data, coordinates(indices, indptr), rhs, dimension_numbers=dimension_numbers,
                                   preferred_element_type=preferred_element_type, lhs_spinfo=lhs_spinfo)


_KERNEL_DTYPES = frozenset(map(np.dtype, ["float32", "float64", "complex64", "complex128", "int32", "int64"]))

_KERNEL_IS_FASTER = 1024  # Up to this many elements the kernel multiplies a matrix by a vector faster than a scatter does.


def _kernel_product(data, indices, indptr, rhs, *, lhs_spinfo, **params):
    """Multiply two matrices by jaxlib's kernel, whose indices must all be in bounds."""
    rows, columns = lhs_spinfo.shape
    free = rhs.shape[1:]
    rhs = rhs.reshape(columns, -1)
    if rhs.size <= 2 * len(indices):  # A zero row for out-of-bounds indices costs less than masking the values.
        indices = positions.clamp_to_padding(indices, columns)
        rhs = xnp.concatenate([rhs, xnp.zeros((1, rhs.shape[1]), rhs.dtype)])
    else:
        in_range = positions.in_bounds(indices[:, None], (columns,))
        data, indices = xnp.where(in_range, data, xnp.zeros((), data.dtype)), xnp.where(in_range, indices, 0)
    starts = positions.clamp_to_padding(indptr, len(indices))
    result = ffi_call("cpu_csr_sparse_dense_ffi", ShapedArray((rows, rhs.shape[1]), rhs.dtype))(
        data, starts.astype(np.int32), indices.astype(np.int32), rhs)
    return result.reshape(rows, *free)


def _dot_on_cpu(avals, *, dimension_numbers, preferred_element_type, lhs_spinfo):
    data, indices, indptr, rhs = avals
    if (dimension_numbers != (((1,), (0,)), ((), ())) or data.ndim != 1 or rhs.ndim > 2 or data.dtype not in _KERNEL_DTYPES
            or not data.dtype == rhs.dtype == (preferred_element_type or rhs.dtype) or max(lhs_spinfo.shape) >= 2**31
            or not min(data.size, rhs.size, *lhs_spinfo.shape) or (rhs.ndim == 1 and data.size > _KERNEL_IS_FASTER)):
        return None
    return _kernel_product


todense_p = linear_primitive("bcsr_todense", _todense, (0,))
extract_p = linear_primitive("bcsr_extract", _extract, (2,))
dot_general_p = linear_primitive("bcsr_dot_general", _dot_general, (0, 3), on_cpu=_dot_on_cpu)
fromdense_p = linear_primitive("bcsr_fromdense", _fromdense, (), multiple_results=True,
                        jvp=fromdense_jvp(
    lambda mat, **params: fromdense_p.bind(mat, **params), lambda components, mat: extract_p.bind(
        components[1], components[2], mat)))


class BCSR(JAXSparse):
    """Batch of sparse matrices in compressed sparse row format.

    An array of shape `(*batch, rows, columns, *dense)` has `data` of shape `(*batch, nse, *dense)`, the column of each element
    in
    `indices` of shape `(*batch, nse)`, and the start of each row in `indptr` of shape `(*batch, rows + 1)`.

    Args:
        args: `(data, indices, indptr)`.
        shape: Shape of the array.
        indices_sorted: True if the columns are sorted within each row.
        unique_indices: True if no position occurs twice.

    Example:
        >>> mat = sparse.BCSR.fromdense(xnp.array([[0., 1.], [2., 0.]]))
        >>> mat.indptr.tolist(), (mat @ xnp.ones(2)).tolist()
        ([0, 1, 2], [1.0, 2.0])
    """

    data: Array
    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool

    def __init__(self, args: tuple[ArrayLike, ArrayLike, ArrayLike], *, shape: Sequence[int], indices_sorted: bool = False,
                 unique_indices: bool = False):
        data, indices, indptr = args
        self.data, self.indices, self.indptr = xnp.asarray(data), xnp.asarray(indices), xnp.asarray(indptr)
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        super().__init__((self.data, self.indices, self.indptr), shape=shape)
        layout_of(self.data, self.indices, self.indptr, self.shape)

    nse = property(lambda self: self.indices.shape[-1], doc="Number of stored elements of each batch element.")
    dtype = property(lambda self: self.data.dtype, doc="dtype of the elements.")
    n_batch = property(lambda self: self.indices.ndim - 1, doc="Number of leading batch dimensions.")
    n_sparse = property(lambda self: 2, doc="Number of sparse dimensions.")
    n_dense = property(lambda self: self.data.ndim - self.indices.ndim, doc="Number of trailing dense dimensions.")
    _info = property(lambda self: SparseInfo(self.shape, self.indices_sorted, self.unique_indices))
    _bufs = property(lambda self: (self.data, self.indices, self.indptr))
    _sparse_shape = property(lambda self: self.shape[self.n_batch:self.n_batch + 2])

    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], dict[str, Any]]:
        """Return the component arrays and the static data."""
        return (self.data, self.indices, self.indptr), {
            "shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Sequence[Any]) -> Self:
        """Return the array of these components, without checks."""
        data, indices, indptr = children
        return cls._bare(data=data, indices=indices, indptr=indptr, **aux_data)

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32, n_dense: int = 0,
                  n_batch: int = 0) -> BCSR:
        """Convert a dense array; see `bcsr_fromdense`."""
        mat = xnp.asarray(mat)
        if mat.ndim - n_batch - n_dense != 2:
            raise ValueError(f"bcsr_fromdense: a BCSR array must have 2 sparse dimensions, shape {mat.shape} with "
                             f"n_batch={n_batch} and n_dense={n_dense} has {mat.ndim - n_batch - n_dense}")
        if nse is None:
            nse = require_concrete(stored_elements(mat, n_batch, n_dense), "bcsr_fromdense")
        components = fromdense_p.bind(mat, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype))
        return cls(components, shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """Convert a BCOO array with two sparse dimensions."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"a BCSR array must have 2 sparse dimensions, the BCOO array {arr!r} has {arr.n_sparse}")
        arr = arr.sort_indices()
        indices, indptr = call_jitted(_compress, arr.indices, shape=arr.shape, n_batch=arr.n_batch,
                                  index_dtype=arr.indices.dtype)
        return cls((arr.data, indices, indptr), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """Convert a SciPy sparse matrix. Batch and dense dimensions are not supported."""
        if n_dense != 0 or n_batch != 0:
            raise NotImplementedError("BCSR.from_scipy_sparse does not support batch or dense dimensions")
        mat = mat.tocsr()
        indices, indptr = (xnp.asarray(x if index_dtype is None else x.astype(index_dtype)) for x in (mat.indices, mat.indptr))
        return cls((xnp.asarray(mat.data), indices, indptr), shape=mat.shape)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
               n_batch: int = 0, nse: int = 0) -> BCSR:
        shape = tuple(shape)
        if n_dense < 0 or n_batch < 0 or nse < 0 or len(shape) - n_dense - n_batch != 2:
            raise ValueError(f"there is no BCSR array with shape={shape}, n_dense={n_dense}, n_batch={n_batch}, nse={nse}")
        batch, (rows, columns), dense = shape[:n_batch], shape[n_batch:n_batch + 2], shape[n_batch + 2:]
        return cls((xnp.zeros((*batch, nse, *dense), dtype), xnp.full((*batch, nse), columns, index_dtype),
                    xnp.zeros((*batch, rows + 1), index_dtype)), shape=shape)

    def to_bcoo(self) -> BCOO:
        """Convert to a BCOO array."""
        return BCOO((self.data, call_jitted(coordinates, self.indices, self.indptr)), shape=self.shape,
                    indices_sorted=self.indices_sorted, unique_indices=self.unique_indices)

    def todense(self) -> Array:
        """Return the equivalent dense array. Values of equal positions are summed."""
        return todense_p.bind(*self._bufs, spinfo=self._info)

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Raise an error: the transpose of a BCSR array is in compressed sparse column format."""
        raise NotImplementedError("the transpose of a BCSR array is not a BCSR array: use to_bcoo().transpose()")

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Return the array with sorted, unique positions and the values of equal positions summed.

        Args:
            nse: Number of elements to store. Required under transformations. Default: the number of distinct positions.
            remove_zeros: If True, drop stored zeros.
        """
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse=nse, remove_zeros=remove_zeros))


tree.register_pytree_node_class(BCSR)


def bcsr_todense(mat: BCSR) -> Array:
    """Convert a BCSR array to a dense array.

    Args:
        mat: BCSR array.

    Returns:
        Dense array.

    Example:
        >>> sparse.bcsr_todense(sparse.bcsr_fromdense(xnp.eye(2))).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return mat.todense()


def bcsr_fromdense(mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: DTypeLike = np.int32
                   ) -> BCSR:
    """Convert a dense array to a BCSR array.

    Args:
        mat: Dense array.
        nse: Number of elements to store for each batch element. Default: the largest number of nonzero elements in a batch
            element.
            Required in transformed functions.
        n_batch: Number of leading batch dimensions.
        n_dense: Number of trailing dense dimensions.
        index_dtype: dtype of the indices.

    Returns:
        BCSR array.

    Example:
        >>> sparse.bcsr_fromdense(xnp.eye(3)).indices.tolist()
        [0, 1, 2]
    """
    return BCSR.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """Extract the elements of a dense matrix at the positions of a BCSR array.

    Args:
        indices, indptr: Indices of the BCSR array.
        mat: Dense matrix, or batch of matrices.

    Returns:
        `data` of the BCSR array.

    Example:
        >>> sparse.bcsr_extract(xnp.array([1, 0]), xnp.array([0, 1, 2]), xnp.array([[1., 2.], [3., 4.]])).tolist()
        [2.0, 3.0]
    """
    return extract_p.bind(xnp.asarray(indices), xnp.asarray(indptr), xnp.asarray(mat))


def bcsr_dot_general(lhs: BCSR | Array, rhs: Array, *, dimension_numbers: DimensionNumbers, precision: Any = None,
                     preferred_element_type: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """Multiply a BCSR array by a dense array and sum over pairs of dimensions, like `lax.dot_general`.

    Args:
        lhs: BCSR array.
        rhs: Dense array.
        dimension_numbers: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.
        precision: Not used.
        preferred_element_type: dtype of the result.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        Dense array.

    Example:
        >>> mat = sparse.bcsr_fromdense(xnp.eye(2))
        >>> sparse.bcsr_dot_general(mat, xnp.arange(2.), dimension_numbers=(((1,), (0,)), ((), ())))
        Array([0., 1.], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding("bcsr_dot_general", out_sharding, functools.partial(
            bcsr_dot_general, dimension_numbers=dimension_numbers, precision=precision,
            preferred_element_type=preferred_element_type), (lhs, rhs))
    if not isinstance(lhs, BCSR) or isinstance(rhs, JAXSparse):
        raise NotImplementedError(f"bcsr_dot_general needs a BCSR array on the left and a dense array on the right, got "
                                  f"{type(lhs).__name__} and {type(rhs).__name__}: use BCOO arrays")
    rhs = xnp.asarray(rhs)
    numbers = canonical_dimension_numbers("bcsr_dot_general", lhs, rhs, dimension_numbers)
    (lc, _), (lb, _) = numbers
    if any(d >= lhs.n_batch + 2 for d in lc) or any(d >= lhs.n_batch for d in lb):
        raise NotImplementedError(f"bcsr_dot_general cannot contract dense dimensions or use sparse ones as batch dimensions: "
                                  f"dimension_numbers={numbers} for shape {lhs.shape} with n_batch={lhs.n_batch}")
    element = None if preferred_element_type is None else np.dtype(preferred_element_type)
    return dot_general_p.bind(*lhs._bufs, rhs, dimension_numbers=numbers, preferred_element_type=element, lhs_spinfo=lhs._info)


def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: Any = None) -> BCSR:
    """Add batch or dense dimensions to an array, as `lax.broadcast_in_dim` does for dense arrays.

    Args:
        mat: BCSR array.
        shape: Shape of the result.
        broadcast_dimensions: Dimension of the result for each dimension of `mat`.
        sharding: No effect, as in JAX: data and indices have their own shardings.

    Returns:
        BCSR array.

    Example:
        >>> mat = sparse.bcsr_fromdense(xnp.eye(2))
        >>> sparse.bcsr_broadcast_in_dim(mat, shape=(3, 2, 2), broadcast_dimensions=(1, 2)).n_batch
        1
    """
    return BCSR.from_bcoo(bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions,
                                                sharding=sharding))


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Concatenate arrays along a batch or sparse dimension.

    Args:
        operands: BCSR arrays with the same layout.
        dimension: Dimension to concatenate along.

    Returns:
        BCSR array.

    Example:
        >>> mat = sparse.bcsr_fromdense(xnp.eye(2))
        >>> sparse.bcsr_concatenate([mat, mat], dimension=0).shape
        (4, 2)
    """
    return BCSR.from_bcoo(bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Sort the positions and sum the values of equal ones.

    Args:
        mat: BCSR array.
        nse: Number of elements to store. Default: the number of distinct positions. Required in transformed functions.

    Returns:
        BCSR array with sorted, unique positions.

    Example:
        >>> sparse.bcsr_sum_duplicates(sparse.bcsr_fromdense(xnp.eye(2))).nse
        2
    """
    return mat.sum_duplicates(nse=nse, remove_zeros=False)

